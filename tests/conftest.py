# SPDX-License-Identifier: Apache-2.0
"""Shared fixtures."""

import gc
import io
import json
import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any


# Before anything imports huggingface_hub, which reads it once: no test asks the Hub for anything.
os.environ["HF_HUB_OFFLINE"] = "1"

import pytest
import torch
from matplotlib.figure import Figure
from model_cases import BY_ID, CASES, HUB_CASES, NO_PIPELINE, ModelCase, make_tokenizer
from safetensors.torch import save_file
from transformers import pipeline


gc.disable()  # until all is imported: see `pytest_collection_finish`

PROCESS = Path(__file__).with_name("remote_code_process.py")


@pytest.fixture(scope="session")
def tokenizer(tmp_path_factory):
    """A WordPiece tokenizer over `model_cases.VOCABULARY`."""
    return make_tokenizer(tmp_path_factory.mktemp("tokenizer"))


@pytest.fixture(scope="session", autouse=True)
def empty_pictures():
    """
    Figures are made, but their files hold an empty one: to draw them takes longer than a tiny training. `drawn_pictures` of
    toolkit_helpers.py draws them.
    """
    save, empty = Figure.savefig, {}

    def save_empty(self, target, format="png", **options) -> None:
        if format not in empty:
            buffer = io.BytesIO()
            save(Figure((1, 1)), buffer, format=format)
            empty[format] = buffer.getvalue()
        if isinstance(target, io.StringIO):
            target.write(empty[format].decode())
        else:
            Path(target).write_bytes(empty[format])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Figure, "savefig", save_empty)
        yield


@pytest.fixture(scope="session", autouse=True)
def short_ways():
    """
    Two things that change no result and take a tenth of all time: before a training Accelerate has the garbage collector look through
    all that lives, and `datasets` names each table by a hash of what it holds.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("accelerate.utils.memory.gc", SimpleNamespace(collect=lambda: 0))
        patch.setattr("datasets.arrow_dataset.generate_fingerprint", lambda dataset: uuid.uuid4().hex[:16])
        yield


@pytest.fixture
def poisoned_memory(monkeypatch):
    """Memory that nobody has written holds NaN instead of what happens to lie there."""
    monkeypatch.setattr(torch.utils.deterministic, "fill_uninitialized_memory", True)
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@dataclass(frozen=True)
class FreshProcess:
    """
    Attributes:
        saved: case id -> folder with checkpoint, `inputs.safetensors` and the process' `outputs.safetensors`.
        report: what the first process reports.
        tuned: case id of `HUB_CASES` and "library" or "remote" -> folder of the checkpoint that was loaded from a Hub
            repository, with our classes or the code in it, tuned for one step and saved; `expected.safetensors`: its
            logits before saving.
        second_report: what the second process reports, which knows nothing but the tuned folders.
    """

    saved: dict[str, Path]
    report: dict[str, Any]
    tuned: dict[tuple[str, str], Path]
    second_report: dict[str, Any]


@pytest.fixture(scope="session")
def fresh_process(tmp_path_factory, tokenizer) -> FreshProcess:
    """Checkpoints of all cases, loaded in two processes that cannot import hf-emotion (starting one takes seconds)."""
    root = tmp_path_factory.mktemp("remote-code")
    saved = {}
    for case in CASES:
        folder = saved[case.id] = root / "saved" / case.id
        model = case.build()
        if case.id in NO_PIPELINE:
            model.save_pretrained(folder)
            tokenizer.save_pretrained(folder)
        else:
            pipeline(case.task, model=model, tokenizer=tokenizer, device="cpu").save_pretrained(folder)
        save_file(case.make_inputs(3, 9, 5), folder / "inputs.safetensors")
    cache = root / "hub-cache"
    tuned = {}
    for case_id in HUB_CASES:
        _publish(saved[case_id], cache, _repository(case_id))
        for name in ("library", "remote"):
            folder = tuned[case_id, name] = root / "tuned" / f"{case_id}-{name}"
            folder.mkdir(parents=True)
            shutil.copyfile(saved[case_id] / "inputs.safetensors", folder / "inputs.safetensors")
        _tune_with_library(BY_ID[case_id], cache, tuned[case_id, "library"], tokenizer)
    fine_tune = [
        {
            "repository": _repository(case_id),
            "auto_class": BY_ID[case_id].auto_class.__name__,
            "cache_dir": str(cache),
            "save_to": str(tuned[case_id, "remote"]),
        }
        for case_id in HUB_CASES
    ]
    report = _run(root / "first", {**_uses(saved.items()), "fine_tune": fine_tune})
    tuned_of = [(case_id, folder) for (case_id, _), folder in tuned.items()]
    # A model that is saved alone, without its pipeline, has none.
    second_report = _run(root / "second", {**_uses(tuned_of), "pipelines": [], "fine_tune": []})
    return FreshProcess(saved, report, tuned, second_report)


def _repository(case_id: str) -> str:
    return f"somebody/{case_id}"


def _uses(folders: Iterable[tuple[str, Path]]) -> dict[str, list]:
    """Jobs that load the checkpoints of (case id, folder) and run their pipelines."""
    jobs = {"load": [], "pipelines": []}
    for case_id, folder in folders:
        case = BY_ID[case_id]
        base = case.base_class is not None
        jobs["load"].append({"folder": str(folder), "auto_class": case.auto_class.__name__, "base": base})
        if case_id not in NO_PIPELINE:
            jobs["pipelines"].append({"folder": str(folder), "texts": list(case.texts)})
    return jobs


def _run(home: Path, jobs: dict[str, Any]) -> dict[str, Any]:
    """Run `jobs` in a process of its own, with empty caches in `home`."""
    home.mkdir()
    return run_without_library(home, jobs)


def run_without_library(home: Path, jobs: dict[str, Any], **variables: str) -> dict[str, Any]:
    """Run `jobs` in a process of its own, with its caches in `home` and, unless `variables` say otherwise, without network."""
    (home / "jobs.json").write_text(json.dumps(jobs), encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "PYTEST"))}
    environment |= {
        "HF_HOME": str(home / "hf"),
        "HF_MODULES_CACHE": str(home / "modules"),
        "HF_HUB_OFFLINE": "1",
        **variables,
    }
    # -P: the folder of the script, this one, is not searched for modules.
    command = [sys.executable, "-P", str(PROCESS), str(home / "jobs.json")]
    done = subprocess.run(command, cwd=home, env=environment, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    return json.loads((home / "jobs.report.json").read_text(encoding="utf-8"))


def _publish(folder: Path, cache: Path, name: str) -> None:
    """
    Lay a checkpoint into a Hub cache as the download of a repository, its classes named with the repository as in a
    checkpoint that other versions of transformers loaded from the Hub and saved again.
    """
    commit = "c0ffee" + 34 * "0"
    repository = cache / f"models--{name.replace('/', '--')}"
    snapshot = repository / "snapshots" / commit
    shutil.copytree(folder, snapshot)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(commit, encoding="utf-8")
    config = json.loads((snapshot / "config.json").read_text(encoding="utf-8"))
    config["auto_map"] = {entry: f"{name}--{target}" for entry, target in config["auto_map"].items()}
    for task in config["custom_pipelines"].values():
        task["impl"] = f"{name}--{task['impl']}"
    (snapshot / "config.json").write_text(json.dumps(config), encoding="utf-8")


def _tune_with_library(case: ModelCase, cache: Path, folder: Path, tokenizer) -> None:
    inputs = case.make_inputs(3, 9, 5)
    model = case.auto_class.from_pretrained(_repository(case.id), cache_dir=cache, local_files_only=True)
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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The README's commands first: they take the longest, and one process runs them."""
    items.sort(key=lambda item: item.path.name != "test_quickstart.py")


def pytest_collection_finish() -> None:
    """
    The garbage collector leaves alone what was imported up to here. To look through it takes half a second, and every training asks
    for that.
    """
    gc.collect()
    gc.freeze()
    gc.enable()
