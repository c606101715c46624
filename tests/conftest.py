# SPDX-License-Identifier: Apache-2.0
"""Shared fixtures."""

import copy
import functools
import gc
import io
import json
import os
import shutil
import subprocess
import sys
import uuid
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple


# Before anything imports huggingface_hub, which reads it once: no test asks the Hub for anything.
os.environ["HF_HUB_OFFLINE"] = "1"

import pytest
import torch
from matplotlib.figure import Figure
from model_cases import BY_ID, HUB_CASES, make_tokenizer
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, pipeline
from typer.main import get_command


pytest.register_assert_rewrite("pages", "served")  # test modules import them before they are plugins
gc.disable()  # until all is imported: see `pytest_collection_finish`


@pytest.fixture(scope="session")
def tokenizer(tmp_path_factory):
    """A WordPiece tokenizer over `model_cases.VOCABULARY`."""
    return make_tokenizer(tmp_path_factory.mktemp("tokenizer"))


@pytest.fixture(scope="session", autouse=True)
def empty_pictures():
    """Files of figures hold an empty one: to draw takes longer than a tiny training. `drawn_pictures` of toolkit_helpers.py draws."""
    save, empty = Figure.savefig, {}

    def save_empty(self, target, format="png", **options) -> None:
        if format not in empty:
            save(Figure((1, 1)), buffer := io.BytesIO(), format=format)
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
    Changes no result: Accelerate collects no garbage before a training, `datasets` names no table by a hash of what it holds, and Typer
    reads the signatures of all commands once.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("accelerate.utils.memory.gc", SimpleNamespace(collect=lambda: 0))
        patch.setattr("datasets.arrow_dataset.generate_fingerprint", lambda dataset: uuid.uuid4().hex[:16])
        patch.setattr("typer.testing._get_command", functools.cache(get_command))
        yield


@pytest.fixture
def poisoned_memory(monkeypatch):
    """Memory that nobody has written holds NaN instead of what happens to lie there."""
    monkeypatch.setattr(torch.utils.deterministic, "fill_uninitialized_memory", True)
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


class FreshProcess(NamedTuple):
    """
    `saved`: case id of `HUB_CASES`, or "modulators", those of a frozen language model, saved without it -> folder with checkpoint,
    `inputs.safetensors` and the process' `outputs.safetensors`. `report`: what the process reports. `tuned`: case id and "library" or
    "remote" -> folder of the checkpoint that was loaded from a Hub repository, with our classes or the code in it, tuned for one step
    and saved; `expected.safetensors`: its logits before saving.
    """

    saved: dict[str, Path]
    report: dict[str, Any]
    tuned: dict[tuple[str, str], Path]


@pytest.fixture(scope="session")
def fresh_process(tmp_path_factory, tokenizer) -> FreshProcess:
    """A checkpoint of each family, loaded in one process that cannot import hf-emotion (starting it takes seconds)."""
    root = tmp_path_factory.mktemp("remote-code")
    cache, saved, tuned = root / "hub-cache", {}, {}
    jobs: dict[str, list] = {"load": [], "pipelines": [], "fine_tune": []}
    for case in (BY_ID[name] for name in HUB_CASES):
        folder = saved[case.id] = root / "saved" / case.id
        pipeline(case.task, model=case.build(), tokenizer=tokenizer, device="cpu").save_pretrained(folder)
        save_file(case.make_inputs(3, 9, 5), folder / "inputs.safetensors")
        repository = f"somebody/{case.id}"
        _publish(folder, cache, repository)
        for name in ("library", "remote"):
            tuned[case.id, name] = root / "tuned" / f"{case.id}-{name}"
            tuned[case.id, name].mkdir(parents=True)
            shutil.copyfile(folder / "inputs.safetensors", tuned[case.id, name] / "inputs.safetensors")
        model = case.auto_class.from_pretrained(repository, cache_dir=cache, local_files_only=True)
        assert type(model) is case.model_class
        _tune(model, case.make_inputs(3, 9, 5), tuned[case.id, "library"])
        tokenizer.save_pretrained(tuned[case.id, "library"])
        own = {"auto_class": case.auto_class.__name__, "base": case.base_class is not None}
        jobs["load"] += [{"folder": str(place), **own} for place in (folder, tuned[case.id, "library"])]
        jobs["pipelines"].append({"folder": str(folder), "texts": list(case.texts)})
        published = {"repository": repository, "auto_class": own["auto_class"], "cache_dir": str(cache)}
        jobs["fine_tune"].append({**published, "save_to": str(tuned[case.id, "remote"])})
    case, folder, plain = BY_ID["modulated-llama"], root / "saved" / "modulators", root / "language-model"
    AutoModelForCausalLM.from_config(copy.deepcopy(case.config["text_config"])).save_pretrained(plain)
    model = case.model_class.from_language_model_pretrained(plain, num_emotions=len(case.config["emotions"]))
    torch.nn.init.normal_(model.emotion_modulation.output_weight)
    model.save_pretrained(folder)
    save_file(case.make_inputs(3, 9, 5), folder / "inputs.safetensors")
    saved["modulators"] = folder
    jobs["load"].append({"folder": str(folder), "auto_class": case.auto_class.__name__, "base": False})
    (root / "home").mkdir()
    return FreshProcess(saved, run_without_library(root / "home", jobs), tuned)


def run_without_library(home: Path, jobs: dict[str, Any], **variables: str) -> dict[str, Any]:
    """Run `jobs` in a process of its own, with its caches in `home` and, unless `variables` say otherwise, without network."""
    (home / "jobs.json").write_text(json.dumps(jobs), encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "PYTEST"))}
    environment |= {"HF_HOME": str(home / "hf"), "HF_MODULES_CACHE": str(home / "modules"), "HF_HUB_OFFLINE": "1"}
    # -P: the folder of the script, this one, is not searched for modules.
    script = Path(__file__).with_name("remote_code_process.py")
    command = [sys.executable, "-P", str(script), str(home / "jobs.json")]
    done = subprocess.run(command, cwd=home, env=environment | variables, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    return json.loads((home / "jobs.report.json").read_text(encoding="utf-8"))


def _publish(folder: Path, cache: Path, name: str) -> None:
    """
    Lay a checkpoint into a Hub cache as the download of a repository, its classes named with the repository, as other versions of
    transformers save what they loaded from the Hub.
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


def _tune(model: torch.nn.Module, inputs: dict[str, Any], folder: Path) -> None:
    """One step of SGD."""
    model(**inputs).loss.backward()
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    model.save_pretrained(folder)
    with torch.no_grad():
        save_file({"logits": model(**inputs).logits}, folder / "expected.safetensors")


def pytest_collection_finish() -> None:
    """The garbage collector leaves alone what was imported up to here: to look through it takes half a second, in every training."""
    gc.collect()
    gc.freeze()
    gc.enable()
