# SPDX-License-Identifier: Apache-2.0
"""
What somebody without hf-emotion loads: checkpoints with the code beside their weights, from a folder and from the Hub, and handlers. One
process that cannot import hf-emotion reads them all, because starting it takes seconds.
"""

import copy
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import model_cases
import pytest
import torch
import transformers
from model_cases import (
    BY_ID,
    HUB_CASES,
    TINY_BERT,
    ModelCase,
    assert_near,
    assert_self_contained,
    each_case,
    leaves,
    setting,
    without_labels,
)
from safetensors.torch import load_file, save_file
from torch.testing import assert_close
from transformers import AutoConfig, AutoModelForCausalLM, BertConfig, BertForSequenceClassification, pipeline

from hf_emotion.publishing.release import write_handler


EACH_FAMILY = each_case("no family")
HAPPY, LONG = "so happy in PLACE1 and PLACE2", "fear " * 200
TURNS = [{"speaker": "Ann", "utterance": HAPPY}, "anger"]
TOP_2, PLACE = {"top_k": 2}, {"targets": ["PLACE1"]}
# case -> inputs and parameters, as JSON has them, and what the pipeline is asked for the same
ASKED = {
    "stock": [(HAPPY, TOP_2, lambda run: run(HAPPY, top_k=2)), (LONG, {}, lambda run: run(LONG, truncation=True))],
    "label-aware-pooler-hidden-balanced": [
        *((HAPPY, TOP_2, lambda run: run(HAPPY, top_k=2)), ([HAPPY, LONG], {}, lambda run: run([HAPPY, LONG]))),
    ],
    "qacg-per-head-context-gate-bias": [
        *((HAPPY, {}, lambda run: run(HAPPY)), ([HAPPY, "rain"], PLACE, lambda run: run([HAPPY, "rain"], **PLACE))),
    ],
    "dialogue-model": [
        *((HAPPY, {}, lambda run: run([HAPPY])), (TURNS, {}, lambda run: run(TURNS))),
        ([TURNS, [HAPPY]], {}, lambda run: run([TURNS, [HAPPY]])),
    ],
    "bert-mod-ln": [
        (
            HAPPY,
            {"emotions": ["joy", {"calm": 0.5}], "num_beams": 2},
            lambda run: run((HAPPY, "joy"), num_beams=2) + run((HAPPY, {"calm": 0.5}), num_beams=2),
        ),
        ([HAPPY, "rain"], {"emotions": "joy"}, lambda run: [run((HAPPY, "joy")), run(("rain", "joy"))]),
        ("rain", {}, lambda run: [reply for name in run.model.config.emotions for reply in run(("rain", name))]),
    ],
}


class FreshProcess(NamedTuple):
    """
    `saved`: case id of `HUB_CASES`, or "modulators", those of a frozen language model, saved without it -> folder with checkpoint,
    `inputs.safetensors` and the process' `outputs.safetensors`. `report`: what the process reports. `tuned`: case id and "library" or
    "remote" -> folder of the checkpoint that was loaded from a Hub repository, with our classes or the code in it, tuned for one step
    and saved; `expected.safetensors`: its logits before saving. `answers`: key of `ASKED` -> what its pipeline answers here.
    """

    saved: dict[str, Path]
    report: dict[str, Any]
    tuned: dict[tuple[str, str], Path]
    answers: dict[str, list]


@pytest.fixture(scope="module")
def fresh_process(tmp_path_factory, tokenizer) -> FreshProcess:
    """A checkpoint of each family, loaded in one process that cannot import hf-emotion (starting it takes seconds)."""
    root = tmp_path_factory.mktemp("remote-code")
    cache, saved, tuned = root / "hub-cache", {}, {}
    jobs: dict[str, list] = {"load": [], "pipelines": [], "handlers": [], "fine_tune": []}
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
    answers = {case_id: _give_handler(root / "handlers" / case_id, case_id, tokenizer) for case_id in ASKED}
    for case_id, asked in ASKED.items():
        data = [{"inputs": inputs, "parameters": parameters} for inputs, parameters, _ in asked]
        wrong = [{"inputs": []}, {"inputs": "joy", "parameters": [1]}]
        jobs["handlers"].append({"folder": str(root / "handlers" / case_id), "asked": [*data, *wrong]})
    (root / "home").mkdir()
    return FreshProcess(saved, _run_without_library(root / "home", jobs), tuned, answers)


def _run_without_library(home: Path, jobs: dict[str, Any]) -> dict[str, Any]:
    """Run `jobs` in a process of its own, with its caches in `home` and without network."""
    (home / "jobs.json").write_text(json.dumps(jobs), encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "PYTEST"))}
    environment |= {"HF_HOME": str(home / "hf"), "HF_MODULES_CACHE": str(home / "modules"), "HF_HUB_OFFLINE": "1"}
    # -P: the folder of the script, this one, is not searched for modules.
    script = Path(model_cases.__file__).with_name("remote_code_process.py")
    command = [sys.executable, "-P", str(script), str(home / "jobs.json")]
    done = subprocess.run(command, cwd=home, env=environment, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    return json.loads((home / "jobs.report.json").read_text(encoding="utf-8"))


def _give_handler(folder: Path, case_id: str, tokenizer) -> list:
    """Save a checkpoint with a handler; returns what its pipeline answers to `ASKED`."""
    tokenizer = copy.deepcopy(tokenizer)
    tokenizer.model_max_length = TINY_BERT["max_position_embeddings"]
    stock = case_id == "stock"
    model = BertForSequenceClassification(BertConfig(**TINY_BERT)) if stock else BY_ID[case_id].build()
    run = pipeline(
        "text-classification" if stock else BY_ID[case_id].task, model=model, tokenizer=tokenizer, device="cpu"
    )
    run.save_pretrained(folder)
    write_handler(folder)
    return [ask(run) for _, _, ask in ASKED[case_id]]


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


@EACH_FAMILY
def test_remote_code_gives_the_same_numbers_without_the_library(case: ModelCase, fresh_process):
    report = fresh_process.report
    assert report["library_is_missing"] and report["imported"] == []
    classes = report["classes"][case.id]
    assert all(name.startswith("transformers_modules.") for name in classes)
    assert [name.rpartition(".")[2] for name in classes] == [
        cls.__name__ for cls in (case.config_class, case.base_class, case.model_class) if cls is not None
    ]
    model = case.build()
    inputs = case.make_inputs(3, 9, 5)
    expected = {"head": model(**inputs)}
    if case.base_class is not None:
        expected["base"] = getattr(model, model.base_model_prefix)(**without_labels(inputs))
    outputs = load_file(fresh_process.saved[case.id] / "outputs.safetensors")
    assert {name for name in outputs if name.startswith("head.")} == {f"head.{name}" for name in case.head_outputs}
    for name, value in outputs.items():
        part, _, field = name.partition(".")
        assert_near(value, expected[part][field].detach())


def test_remote_code_finds_the_language_model_of_saved_modulators(fresh_process):
    folder = fresh_process.saved["modulators"]
    names = {f"emotion_modulation.{side}_weight" for side in ("input", "output")}
    assert set(load_file(folder / "model.safetensors")) == names
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    outputs = load_file(folder / "outputs.safetensors")
    assert_near(outputs["head.logits"], model(**load_file(folder / "inputs.safetensors")).logits.detach())


@EACH_FAMILY
def test_pipeline_without_a_task_and_without_the_library_gives_the_same(case: ModelCase, fresh_process, tokenizer):
    found = fresh_process.report["pipelines"][case.id]
    classify = pipeline(case.task, model=case.build(), tokenizer=tokenizer, device="cpu")
    assert (found["class"], found["task"]) == (type(classify).__name__, case.task)
    expected = classify(list(case.texts))
    assert [len(items) for items in found["results"]] == [len(items) for items in expected]
    values = [pytest.approx(leaf, rel=1e-5) if isinstance(leaf, float) else leaf for leaf in leaves(expected)]
    assert leaves(found["results"]) == values


@EACH_FAMILY
def test_checkpoint_from_the_hub_is_self_contained_once_tuned_and_saved(case: ModelCase, fresh_process):
    weights = []
    for loaded_with in ("library", "remote"):
        folder = fresh_process.tuned[case.id, loaded_with]
        assert_self_contained(folder)
        config = AutoConfig.from_pretrained(folder)
        for name, value in case.config.items():
            assert setting(getattr(config, name)) == setting(value), name
        weights.append(load_file(folder / "model.safetensors"))
        model = case.auto_class.from_pretrained(folder)
        found = model(**case.make_inputs(3, 9, 5)).logits.detach()
        assert_near(found, load_file(folder / "expected.safetensors")["logits"])
    assert_close(weights[1], weights[0], rtol=1e-5, atol=1e-6)
    folder = fresh_process.tuned[case.id, "library"]  # which the process without the library has read, too
    found = load_file(folder / "outputs.safetensors")["head.logits"]
    assert_near(found, load_file(folder / "expected.safetensors")["logits"])


@pytest.mark.parametrize("case_id", ASKED)
def test_a_handler_answers_where_the_library_is_missing(case_id, fresh_process):
    *answers, no_inputs, no_parameters = fresh_process.report["handlers"][case_id]
    assert "`inputs`" in no_inputs["error"] and "`parameters`" in no_parameters["error"]
    found = fresh_process.answers[case_id]
    assert list(map(len, answers)) == list(map(len, found))
    values = [pytest.approx(leaf, rel=1e-5) if isinstance(leaf, float) else leaf for leaf in leaves(found)]
    assert leaves(answers) == values
