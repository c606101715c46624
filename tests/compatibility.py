# SPDX-License-Identifier: Apache-2.0
"""
The oldest transformers that is supported beside the installed one: each loads what the other saved, releases it and pushes it;
the tests of the models pass with the oldest.

    python tests/compatibility.py [FOLDER]

FOLDER receives transformers 5.17.0 and the last huggingface_hub 1.x, which it needs (from the package index, once; 140 MB);
everything else is what is installed. Takes minutes. Ends with exit code 1 at the first difference.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from unittest import mock


OLD = ("transformers==5.17.0", "huggingface_hub==1.33.0", "httpx", "httpcore", "h11", "hf-xet<2")
TESTS = Path(__file__).parent
ROOT = TESTS.parent


def start(step: str, *folders: Path, old: Path | None, home: Path) -> str:
    """
    Standard output of a function of this file in a process of its own, with the packages in `old` before the installed ones, and
    the caches of the Hub in `home`.
    """
    paths = filter(None, (old, ROOT, TESTS, os.environ.get("PYTHONPATH")))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    environment |= {"PYTHONPATH": os.pathsep.join(map(str, paths)), "HF_HUB_DISABLE_XET": "1", "HF_HOME": str(home)}
    code = f"import compatibility as c, sys; c.{step}(*map(c.Path, sys.argv[1:]))"
    command = [sys.executable, "-P", "-c", code, *map(str, folders)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{'old' if old else 'new'} versions:\n{done.stdout}{done.stderr}")
    return done.stdout


def versions() -> None:
    import huggingface_hub
    import transformers

    print(f"transformers {transformers.__version__}, huggingface_hub {huggingface_hub.__version__}")


def save(root: Path) -> None:
    """A checkpoint of each family with its tokenizer, logits, card and figures."""
    from model_cases import BY_ID, HUB_CASES, make_tokenizer
    from safetensors.torch import save_file
    from toolkit_helpers import EXAMPLE, write_run

    tokenizer = make_tokenizer(root / "tokenizer")
    for name in HUB_CASES:
        case, folder = BY_ID[name], root / name
        model = case.build()
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        logits = model(**case.make_inputs(3, 9, 5)).logits.detach().contiguous()
        save_file({"logits": logits}, folder / "logits.safetensors")
        write_run(folder, name, f"from transformers import pipeline\n{EXAMPLE.format(text=list(case.texts))}")


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


def push(root: Path, output: Path) -> None:
    """The check of `release` runs in a process of the same versions; a Hub that fails once in between. Prints a refusal."""
    import pytest
    from hub_server import HubServer
    from huggingface_hub import HfApi
    from model_cases import HUB_CASES

    from hf_emotion.publishing import hub, release

    release.release([root / name for name in HUB_CASES], output)
    with mock.patch.object(hub, "check"), HubServer() as server:  # checked it was
        api = HfApi(endpoint=server.url, token=server.writer)
        server.fail("POST", "/commit/", 500, after=True)
        for name in HUB_CASES:
            folder, repository = output / name, f"somebody/{name}"
            assert hub.push(folder, repository, api=api, tag="v1")["changed"]
            assert not hub.push(folder, repository, api=api)["changed"]
            files = server.repository(repository).files()
            sent = {path: len(content) for path, content in files.items() if path != ".gitattributes"}
            assert sent == hub.push(folder, repository, api=api, dry_run=True)["files"]
            assert len(server.repository(repository).commits) == 2
        for token, text in (("hf_wrong", r"\(401\)"), (server.reader, r"\(403\)")):
            with pytest.raises(PermissionError, match=text):
                hub.push(folder, "somebody/new", api=HfApi(endpoint=server.url, token=token))
        server.fail("PUT", "/storage/", None, times=100)
        (folder / "model.safetensors").write_bytes(b"other weights")
        with pytest.raises(ConnectionError) as refused:
            hub.push(folder, "somebody/new", api=api)
        print("refused:", refused.value)
        assert "somebody/new" not in server.repositories


def models() -> None:
    """The tests of the models, but for the slow ones."""
    import pytest

    families = ("label_aware_bert", "cg_bert", "roberta_esa", "dialogue_bilstm", "mod_ln")
    files = [TESTS / "models" / f"test_{name}.py" for name in ("models_shared", *families)]
    if code := pytest.main(["-q", "-p", "no:cacheprovider", "-m", "not slow", *map(str, files)]):
        sys.exit(int(code))


def main(argv: Sequence[str] | None = None) -> None:
    arguments = sys.argv[1:] if argv is None else argv
    with tempfile.TemporaryDirectory(prefix="hf-emotion-compatibility-") as temporary:
        place = Path(temporary)
        old = Path(arguments[0] if arguments else place / "packages").resolve()
        if not (old / "transformers").is_dir():
            command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(old), *OLD]
            subprocess.run(command, check=True)
        packages = {"old": old, "new": None}
        for name, path in packages.items():
            said = start("versions", old=path, home=place / f"home-{name}")
            start("save", place / name, old=path, home=place / f"home-{name}")
            print(f"{name}: {said.strip()}: saved", flush=True)
        for saved, loader in (("old", "new"), ("new", "old")):
            start("load", place / saved, old=packages[loader], home=place / f"home-{loader}")
            print(f"{loader} loads what {saved} saved: the same logits", flush=True)
        for name, path in packages.items():
            said = start("push", place / name, place / f"out-{name}", old=path, home=place / f"hub-{name}")
            print(f"{name} releases and pushes; {said.strip().splitlines()[-1]}", flush=True)
        said = start("models", old=old, home=place / "home-old")
        print(f"old passes the tests of the models: {said.strip().splitlines()[-1]}", flush=True)
    print(json.dumps({"compatible": True}))


if __name__ == "__main__":
    main()
