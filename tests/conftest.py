# SPDX-License-Identifier: Apache-2.0
"""Shared fixtures."""

import copy
import gc
import io
import json
import os
import shutil
import subprocess
import sys
import uuid
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any


# Before anything imports huggingface_hub, which reads it once: no test asks the Hub for anything.
os.environ["HF_HUB_OFFLINE"] = "1"

import pytest
import torch
from matplotlib.figure import Figure
from model_cases import BY_ID, HUB_CASES, ModelCase, make_tokenizer
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, pipeline


pytest.register_assert_rewrite("pages", "served")  # test modules import them before they are plugins
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
        saved: case id of `HUB_CASES`, or "modulators" -> folder with checkpoint, `inputs.safetensors` and the process'
            `outputs.safetensors`. "modulators" are those of a frozen language model, saved without it.
        report: what the process reports.
        tuned: case id and "library" or "remote" -> folder of the checkpoint that was loaded from a Hub repository, with our classes
            or the code in it, tuned for one step and saved; `expected.safetensors`: its logits before saving.
    """

    saved: dict[str, Path]
    report: dict[str, Any]
    tuned: dict[tuple[str, str], Path]


@pytest.fixture(scope="session")
def fresh_process(tmp_path_factory, tokenizer) -> FreshProcess:
    """A checkpoint of each family, loaded in one process that cannot import hf-emotion (starting it takes seconds)."""
    root = tmp_path_factory.mktemp("remote-code")
    cache, saved, tuned, fine_tune = root / "hub-cache", {}, {}, []
    jobs: dict[str, list] = {"load": [], "pipelines": [], "fine_tune": fine_tune}
    for case in (BY_ID[name] for name in HUB_CASES):
        folder = saved[case.id] = root / "saved" / case.id
        pipeline(case.task, model=case.build(), tokenizer=tokenizer, device="cpu").save_pretrained(folder)
        save_file(case.make_inputs(3, 9, 5), folder / "inputs.safetensors")
        _publish(folder, cache, _repository(case.id))
        for name in ("library", "remote"):
            tuned[case.id, name] = root / "tuned" / f"{case.id}-{name}"
            tuned[case.id, name].mkdir(parents=True)
            shutil.copyfile(folder / "inputs.safetensors", tuned[case.id, name] / "inputs.safetensors")
        _tune_with_library(case, cache, tuned[case.id, "library"], tokenizer)
        own = {"auto_class": case.auto_class.__name__, "base": case.base_class is not None}
        jobs["load"] += [{"folder": str(place), **own} for place in (folder, tuned[case.id, "library"])]
        jobs["pipelines"].append({"folder": str(folder), "texts": list(case.texts)})
        published = {"repository": _repository(case.id), "auto_class": own["auto_class"], "cache_dir": str(cache)}
        fine_tune.append({**published, "save_to": str(tuned[case.id, "remote"])})
    case, folder = BY_ID["modulated-llama"], root / "saved" / "modulators"
    AutoModelForCausalLM.from_config(copy.deepcopy(case.config["text_config"])).save_pretrained(
        root / "language-model"
    )
    emotions = len(case.config["emotions"])
    model = case.model_class.from_language_model_pretrained(root / "language-model", num_emotions=emotions)
    torch.nn.init.normal_(model.emotion_modulation.output_weight)
    model.save_pretrained(folder)
    save_file(case.make_inputs(3, 9, 5), folder / "inputs.safetensors")
    saved["modulators"] = folder
    jobs["load"].append({"folder": str(folder), "auto_class": case.auto_class.__name__, "base": False})
    (root / "home").mkdir()
    return FreshProcess(saved, run_without_library(root / "home", jobs), tuned)


def _repository(case_id: str) -> str:
    return f"somebody/{case_id}"


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


def pytest_collection_finish() -> None:
    """
    The garbage collector leaves alone what was imported up to here. To look through it takes half a second, and every training asks
    for that.
    """
    gc.collect()
    gc.freeze()
    gc.enable()
