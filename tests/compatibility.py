# SPDX-License-Identifier: Apache-2.0
"""
The oldest transformers that is supported beside the installed one: each loads what the other saved, and pushes.

    python tests/compatibility.py [FOLDER]

FOLDER receives transformers 5.17.0 and a huggingface_hub 1.x (from the package index, once). No test of pytest: it needs the
network for that, and minutes. Ends with exit code 1 at the first difference.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path


OLD = ("transformers==5.17.0", "huggingface_hub==1.33.0", "httpx", "httpcore", "h11", "hf-xet<2")
TESTS = Path(__file__).parent
ROOT = TESTS.parent


def run(code: str, *arguments: str, old: Path | None, **variables: str) -> str:
    """Standard output of Python code, with the packages in `old` before the installed ones."""
    paths = [*([str(old)] if old else []), str(ROOT), str(TESTS), os.environ.get("PYTHONPATH", "")]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    environment |= {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "HF_HUB_DISABLE_XET": "1", **variables}
    command = [sys.executable, "-P", "-c", code, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{'old' if old else 'new'} versions:\n{done.stdout}{done.stderr}")
    return done.stdout


SAVE = """
import sys
from pathlib import Path
import huggingface_hub, transformers
from model_cases import BY_ID, HUB_CASES, make_tokenizer
from safetensors.torch import save_file
from test_hub import EXAMPLE, write_run

root = Path(sys.argv[1])
(root / "tokenizer").mkdir(parents=True)
tokenizer = make_tokenizer(root / "tokenizer")
for name in HUB_CASES:
    case, folder = BY_ID[name], root / name
    model = case.build()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    save_file({"logits": model(**case.make_inputs(3, 9, 5)).logits.detach().contiguous()}, folder / "logits.safetensors")
    write_run(folder, name, f"from transformers import pipeline\\n{EXAMPLE.format(text=list(case.texts))}")
print(transformers.__version__, huggingface_hub.__version__)
"""

# The library's classes, and those in the folder: both give what the other version computed.
LOAD = """
import sys
from pathlib import Path
import torch, transformers
from model_cases import BY_ID, HUB_CASES
from safetensors.torch import load_file

for name in HUB_CASES:
    case, folder = BY_ID[name], Path(sys.argv[1]) / name
    wanted = load_file(folder / "logits.safetensors")["logits"]
    for auto_class, options in ((case.model_class, {}), (case.auto_class, {"trust_remote_code": True})):
        model = auto_class.from_pretrained(folder, **options)
        logits = model(**case.make_inputs(3, 9, 5)).logits
        torch.testing.assert_close(logits, wanted, rtol=1e-5, atol=1e-5 * max(1.0, wanted.abs().max().item()))
    transformers.AutoTokenizer.from_pretrained(folder)
"""

# The check of `release` runs in a process of the same versions; a Hub that fails once in between.
PUSH = """
import json, sys
from pathlib import Path
from hub_server import HubServer
from huggingface_hub import HfApi
from hf_emotion import hub, release
from model_cases import HUB_CASES

root = Path(sys.argv[1])
release.release([root / name for name in HUB_CASES], Path(sys.argv[2]))
hub.check = lambda folders: None  # it was
with HubServer() as server:
    api = HfApi(endpoint=server.url, token=server.writer)
    server.fail("POST", "/commit/", 500, after=True)
    for name in HUB_CASES:
        folder, repository = Path(sys.argv[2]) / name, f"somebody/{name}"
        assert hub.push(folder, repository, api=api, tag="v1")["changed"]
        assert not hub.push(folder, repository, api=api)["changed"]
        assert hub.push(folder, repository, api=api, create_pr=True)["changed"] is False
        files = server.repository(repository).files()
        assert {path: len(content) for path, content in files.items() if path != ".gitattributes"} == hub.push(
            folder, repository, api=api, dry_run=True)["files"]
        assert len(server.repository(repository).commits) == 2
    for token, text in (("hf_wrong", "(401)"), (server.reader, "(403)")):
        try:
            hub.push(folder, "somebody/new", api=HfApi(endpoint=server.url, token=token))
        except PermissionError as error:
            assert text in str(error), error
        else:
            raise AssertionError(text)
    server.fail("PUT", "/storage/", None, times=100)
    (folder / "model.safetensors").write_bytes(b"other weights")
    try:
        hub.push(folder, "somebody/new", api=api)
    except ConnectionError as error:
        print("refused:", error)
    assert ("model", "somebody/new") not in server.repositories
"""


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="hf-emotion-compatibility-") as temporary:
        old = Path(sys.argv[1] if len(sys.argv) > 1 else f"{temporary}/old").resolve()
        if not (old / "transformers").is_dir():
            command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(old), *OLD]
            subprocess.run(command, check=True)
        for name, path in (("old", old), ("new", None)):
            versions = run(SAVE, f"{temporary}/{name}", old=path).split()
            print(f"{name}: transformers {versions[-2]}, huggingface_hub {versions[-1]}: saved", flush=True)
        for saved, loader, path in (("old", "new", None), ("new", "old", old)):
            run(LOAD, f"{temporary}/{saved}", old=path, HF_HOME=f"{temporary}/home-{loader}")
            print(f"{loader} loads what {saved} saved: the same logits", flush=True)
        for name, path in (("old", old), ("new", None)):
            said = run(
                PUSH, f"{temporary}/{name}", f"{temporary}/out-{name}", old=path, HF_HOME=f"{temporary}/hub-{name}"
            )
            print(f"{name} releases and pushes; {said.strip().splitlines()[-1]}", flush=True)
    print(json.dumps({"compatible": True}))


if __name__ == "__main__":
    main()
