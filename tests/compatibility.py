# SPDX-License-Identifier: Apache-2.0
"""
The oldest and the newest transformers that pyproject.toml allows: the tests of the models and of replies pass with each of them, and each
loads what the installed one saved, and the other way round. The installed one has its tests in `make test`.

    python tests/compatibility.py FOLDER

FOLDER receives what is not installed, each version in a folder of its own (from the package index, once; the oldest takes 140 MB);
everything else is what is installed. The newest is what the index has today. Ends with exit code 1 at the first difference.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

import transformers


TESTS = Path(__file__).parent
PROJECT = tomllib.loads((TESTS.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
ALLOWED = next(name for name in PROJECT["dependencies"] if name.startswith("transformers>="))
OLDEST = ALLOWED.removeprefix("transformers>=").partition(",")[0] + ".0"
# What goes beside a version: the last huggingface_hub 1.x, which the installed one is not, and what it needs.
BESIDE = {OLDEST: ("huggingface_hub<2", "httpx", "httpcore", "h11", "hf-xet<2")}
FAMILIES = ("remote_code", "cg_bert", "roberta_esa", "label_aware_bert", "emotion_modulated", "mod_ln")
FILES = [TESTS / "models" / f"test_{name}.py" for name in ("models_shared", *FAMILIES)]
FILES += [TESTS / "tasks/emotional_response/test_reply_runs.py", TESTS / "publishing/test_hub.py"]
PIP = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]


def start(*command: object, packages: Path | None, home: Path) -> str:
    """The last line that Python prints, with `packages` before the installed ones and the caches of the Hub in `home`."""
    paths = filter(None, (packages, TESTS.parent, TESTS, os.environ.get("PYTHONPATH")))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    environment |= {"PYTHONPATH": os.pathsep.join(map(str, paths)), "HF_HOME": str(home), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-P", *map(str, command)], env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{packages or 'installed'}:\n{done.stdout}{done.stderr}")
    return done.stdout.strip().rpartition("\n")[2]


def save(root: Path) -> None:
    """A checkpoint of each family with its tokenizer and logits. Prints the versions."""
    import huggingface_hub
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
    from model_cases import BY_ID, HUB_CASES
    from safetensors.torch import load_file

    for name in HUB_CASES:
        case, folder = BY_ID[name], root / name
        wanted = load_file(folder / "logits.safetensors")["logits"]
        for auto_class, options in ((case.model_class, {}), (case.auto_class, {"trust_remote_code": True})):
            logits = auto_class.from_pretrained(folder, **options)(**case.make_inputs(3, 9, 5)).logits
            torch.testing.assert_close(logits, wanted, rtol=1e-5, atol=1e-5 * max(1.0, wanted.abs().max().item()))
        transformers.AutoTokenizer.from_pretrained(folder)


def newest() -> str:
    """The newest version on the index that pyproject.toml allows."""
    command = [*PIP, "--dry-run", "--ignore-installed", "--report", "-", ALLOWED]
    report = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return report["install"][0]["metadata"]["version"]


def compare(version: str, target: Path, place: Path) -> None:
    """Another version beside the installed one."""
    if not (target / "transformers").is_dir():
        subprocess.run([*PIP, "--target", target, f"transformers=={version}", *BESIDE.get(version, ())], check=True)
    both = {"other": target, "installed": None}
    versions = {name: {"packages": path, "home": place / f"home-{name}"} for name, path in both.items()}
    step = "import sys, pathlib, compatibility as c; getattr(c, sys.argv[1])(pathlib.Path(sys.argv[2]))"
    for name, own in versions.items():
        print(f"{start('-c', step, 'save', place / name, **own)}: saved", flush=True)
    for name, saved in (("installed", "other"), ("other", "installed")):
        start("-c", step, "load", place / saved, **versions[name])
    print("each loads what the other saved: the same logits", flush=True)
    only = "not slow and not book and not ray and not release"
    options = ("-q", "-n", "2", "-p", "no:cacheprovider", "-m", only)
    said = start("-m", "pytest", *options, *FILES, **versions["other"])
    print(f"transformers {version} passes the tests of models, replies and publishing: {said}", flush=True)


def main() -> None:
    installed, latest = transformers.__version__, newest()
    for name, version in (("oldest", OLDEST), ("newest", latest)):
        began = time.monotonic()
        print(f"the {name} transformers that pyproject.toml allows: {version}", flush=True)
        if version == installed:
            print("it is the installed one, with which `make test` runs all tests", flush=True)
            continue
        with tempfile.TemporaryDirectory(prefix="hf-emotion-compatibility-") as temporary:
            compare(version, Path(sys.argv[1], version).resolve(), Path(temporary))
        print(f"{time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
