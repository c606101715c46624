# SPDX-License-Identifier: Apache-2.0
"""
Checks that folders load for somebody who has only transformers, and that the example of their card runs. hf_emotion.publishing.hub
runs this file in a process of its own, in which hf-emotion cannot be imported.

    python -P load_check.py '[["FOLDER", "MODEL"], ...]'

MODEL is the name that the card uses for the model. The first folder that fails ends the process with exit code 1 and one line
on stderr.
"""

import importlib.abc
import json
import re
import sys
from pathlib import Path


class Blocked(importlib.abc.MetaPathFinder):
    def find_spec(self, fullname, path=None, target=None):
        if fullname.partition(".")[0] in ("hf_emotion", "modeling"):
            raise ModuleNotFoundError(f"the code beside the weights imports {fullname}, which others do not have")
        return None


def load(folder: Path) -> None:
    """Load what the config names: configuration, tokenizer, base model, and the model with its head, which must be whole."""
    import transformers

    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    transformers.AutoConfig.from_pretrained(folder, trust_remote_code=True)
    transformers.AutoTokenizer.from_pretrained(folder, trust_remote_code=True)
    mapped = config.get("auto_map", {})
    names = set(mapped) - {"AutoConfig", "AutoModel"} or set(config["architectures"])
    if not mapped or "AutoModel" in mapped:  # a model may have no class without its head
        transformers.AutoModel.from_pretrained(folder, trust_remote_code=True)
    for name in sorted(names):
        auto_class = getattr(transformers, name)
        _, found = auto_class.from_pretrained(folder, trust_remote_code=True, output_loading_info=True)
        lost = {*found["missing_keys"], *found["unexpected_keys"], *(str(key) for key in found["mismatched_keys"])}
        if lost:
            raise ValueError(f"config.json and the weights do not agree about {', '.join(sorted(lost)[:3])}")


def main(jobs: list[list[str]]) -> None:
    for name, model in jobs:
        folder = Path(name)
        try:
            for config in sorted([*folder.glob("config.json"), *folder.glob("*/config.json")]):
                load(config.parent)
            for code in re.findall(
                r"^```python\n(.*?)^```", (folder / "README.md").read_text(encoding="utf-8"), re.M | re.S
            ):
                code = code.replace(json.dumps(model), json.dumps(str(folder)))
                exec(compile(code, "README.md", "exec"), {"__name__": "__main__"})
        except Exception as error:
            sys.exit(f"{folder.name}: {type(error).__name__}: {' '.join(str(error).split())}")


if __name__ == "__main__":
    sys.meta_path.insert(0, Blocked())
    main(json.loads(sys.argv[1]))
