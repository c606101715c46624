# SPDX-License-Identifier: Apache-2.0
"""
The oldest transformers that is supported beside the installed one: each loads what the other saved; the tests of the models and of
publishing pass with the oldest, and in `make test` with the installed one.

    python tests/compatibility.py [FOLDER]

FOLDER receives transformers 5.17.0 and the last huggingface_hub 1.x, which it needs (from the package index, once; 140 MB);
everything else is what is installed. Takes minutes. Ends with exit code 1 at the first difference.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path


OLD = ("transformers==5.17.0", "huggingface_hub==1.33.0", "httpx", "httpcore", "h11", "hf-xet<2")
TESTS = Path(__file__).parent
FAMILIES = ("models_shared", "remote_code", "label_aware_bert", "cg_bert", "roberta_esa", "dialogue_bilstm", "mod_ln")
FILES = [*(TESTS / "models" / f"test_{name}.py" for name in FAMILIES), TESTS / "publishing" / "test_hub.py"]


def start(*command: object, packages: Path | None, home: Path) -> str:
    """The last line that Python prints, with `packages` before the installed ones and the caches of the Hub in `home`."""
    paths = filter(None, (packages, TESTS.parent, TESTS, os.environ.get("PYTHONPATH")))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    environment |= {"PYTHONPATH": os.pathsep.join(map(str, paths)), "HF_HOME": str(home)}
    done = subprocess.run([sys.executable, "-P", *map(str, command)], env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{'old' if packages else 'new'} versions:\n{done.stdout}{done.stderr}")
    return done.stdout.strip().rpartition("\n")[2]


def save(root: Path) -> None:
    """A checkpoint of each family with its tokenizer and logits. Prints the versions."""
    import huggingface_hub
    import transformers
    from model_cases import BY_ID, HUB_CASES, make_tokenizer
    from safetensors.torch import save_file

    tokenizer = make_tokenizer(root / "tokenizer")
    for name in HUB_CASES:
        case, folder = BY_ID[name], root / name
        model = case.build()
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        logits = model(**case.make_inputs(3, 9, 5)).logits.detach().contiguous()
        save_file({"logits": logits}, folder / "logits.safetensors")
    print(f"transformers {transformers.__version__}, huggingface_hub {huggingface_hub.__version__}")


def load(root: Path) -> None:
    """The library's classes, and those in the folder: both give what the other version computed."""
    import torch
    import transformers
    from model_cases import BY_ID, HUB_CASES
    from safetensors.torch import load_file

    for name in HUB_CASES:
        case, folder = BY_ID[name], root / name
        wanted = load_file(folder / "logits.safetensors")["logits"]
        for auto_class, options in ((case.model_class, {}), (case.auto_class, {"trust_remote_code": True})):
            logits = auto_class.from_pretrained(folder, **options)(**case.make_inputs(3, 9, 5)).logits
            torch.testing.assert_close(logits, wanted, rtol=1e-5, atol=1e-5 * max(1.0, wanted.abs().max().item()))
        transformers.AutoTokenizer.from_pretrained(folder)


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="hf-emotion-compatibility-") as temporary:
        place = Path(temporary)
        old = Path(sys.argv[1] if sys.argv[1:] else place / "packages").resolve()
        if not (old / "transformers").is_dir():
            command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(old), *OLD]
            subprocess.run(command, check=True)
        both = {"old": old, "new": None}
        versions = {name: {"packages": path, "home": place / f"home-{name}"} for name, path in both.items()}
        step = "import sys, pathlib, compatibility as c; getattr(c, sys.argv[1])(pathlib.Path(sys.argv[2]))"
        for name, own in versions.items():
            print(f"{name}: {start('-c', step, 'save', place / name, **own)}: saved", flush=True)
        for name, saved in (("new", "old"), ("old", "new")):
            start("-c", step, "load", place / saved, **versions[name])
            print(f"{name} loads what {saved} saved: the same logits", flush=True)
        said = start("-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow", *FILES, **versions["old"])
        print(f"old passes the tests of models and publishing: {said}", flush=True)
    print(json.dumps({"compatible": True}))


if __name__ == "__main__":
    main()
