# SPDX-License-Identifier: Apache-2.0
"""Shared fixtures."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any


# Before anything imports huggingface_hub, which reads it once: no test asks the Hub for anything.
os.environ["HF_HUB_OFFLINE"] = "1"

import pytest
import torch
from model_cases import BY_ID, CASES, TEXTS, make_tokenizer
from safetensors.torch import save_file
from transformers import AutoModelForSequenceClassification


PROCESS = Path(__file__).with_name("remote_code_process.py")
HUB_CASE = "label-aware-pooler-hidden-balanced"  # its thresholds, counts and names must survive too
REPOSITORY = "somebody/emotions"


@pytest.fixture(scope="session")
def tokenizer(tmp_path_factory):
    """A WordPiece tokenizer over `model_cases.VOCABULARY`."""
    return make_tokenizer(tmp_path_factory.mktemp("tokenizer"))


@dataclass(frozen=True)
class FreshProcess:
    """
    Attributes:
        saved: case id -> folder with checkpoint, `inputs.safetensors` and the process' `outputs.safetensors`.
        report: what the first process reports.
        tuned: "library" or "remote" -> folder of the checkpoint that was loaded from a Hub repository, with our
            classes or the code in it, tuned for one step and saved; `expected.safetensors`: its logits before saving.
        second_report: what the second process reports, which knows nothing but the tuned folders.
    """

    saved: dict[str, Path]
    report: dict[str, Any]
    tuned: dict[str, Path]
    second_report: dict[str, Any]


@pytest.fixture(scope="session")
def fresh_process(tmp_path_factory, tokenizer) -> FreshProcess:
    """Checkpoints of all cases, loaded in two processes that cannot import hf-emotion (starting one takes seconds)."""
    root = tmp_path_factory.mktemp("remote-code")
    saved = {}
    for case in CASES:
        folder = saved[case.id] = root / "saved" / case.id
        case.build().save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        save_file(case.make_inputs(3, 9, 5), folder / "inputs.safetensors")
    cache = root / "hub-cache"
    _publish(saved[HUB_CASE], cache)
    tuned = {}
    for name in ("library", "remote"):
        tuned[name] = root / "tuned" / name
        tuned[name].mkdir(parents=True)
        shutil.copyfile(saved[HUB_CASE] / "inputs.safetensors", tuned[name] / "inputs.safetensors")
    _tune_with_library(cache, tuned["library"], tokenizer)
    report = _run(
        root / "first",
        {
            "load": [{"folder": str(saved[case.id]), "auto_class": case.auto_class.__name__} for case in CASES],
            "pipelines": [{"folder": str(folder), "texts": list(TEXTS)} for folder in saved.values()],
            "fine_tune": [{"repository": REPOSITORY, "cache_dir": str(cache), "save_to": str(tuned["remote"])}],
        },
    )
    second_report = _run(
        root / "second",
        {
            "load": [
                {"folder": str(folder), "auto_class": "AutoModelForSequenceClassification"}
                for folder in tuned.values()
            ],
            "pipelines": [{"folder": str(folder), "texts": list(TEXTS)} for folder in tuned.values()],
            "fine_tune": [],
        },
    )
    return FreshProcess(saved, report, tuned, second_report)


def _run(home: Path, jobs: dict[str, Any]) -> dict[str, Any]:
    """Run `jobs` in a process of its own, with empty caches in `home`."""
    home.mkdir()
    (home / "jobs.json").write_text(json.dumps(jobs), encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "PYTEST"))}
    environment |= {"HF_HOME": str(home / "hf"), "HF_MODULES_CACHE": str(home / "modules"), "HF_HUB_OFFLINE": "1"}
    # -P: the folder of the script, this one, is not searched for modules.
    command = [sys.executable, "-P", str(PROCESS), str(home / "jobs.json")]
    done = subprocess.run(command, cwd=home, env=environment, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    return json.loads((home / "jobs.report.json").read_text(encoding="utf-8"))


def _publish(folder: Path, cache: Path) -> None:
    """
    Lay a checkpoint into a Hub cache as the download of `REPOSITORY`, its classes named with the repository as in a
    checkpoint that other versions of transformers loaded from the Hub and saved again.
    """
    commit = "c0ffee" + 34 * "0"
    repository = cache / f"models--{REPOSITORY.replace('/', '--')}"
    snapshot = repository / "snapshots" / commit
    shutil.copytree(folder, snapshot)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(commit, encoding="utf-8")
    config = json.loads((snapshot / "config.json").read_text(encoding="utf-8"))
    config["auto_map"] = {name: f"{REPOSITORY}--{target}" for name, target in config["auto_map"].items()}
    for task in config["custom_pipelines"].values():
        task["impl"] = f"{REPOSITORY}--{task['impl']}"
    (snapshot / "config.json").write_text(json.dumps(config), encoding="utf-8")


def _tune_with_library(cache: Path, folder: Path, tokenizer) -> None:
    case = BY_ID[HUB_CASE]
    inputs = case.make_inputs(3, 9, 5)
    model = AutoModelForSequenceClassification.from_pretrained(REPOSITORY, cache_dir=cache, local_files_only=True)
    assert type(model) is case.model_class
    model(**inputs).loss.backward()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter -= 0.1 * parameter.grad
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    with torch.no_grad():
        save_file({"logits": model(**inputs).logits}, folder / "expected.safetensors")
