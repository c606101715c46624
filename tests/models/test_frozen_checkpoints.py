# SPDX-License-Identifier: Apache-2.0
"""
Checkpoints that earlier versions wrote (tests/data/checkpoints-VERSION, see the README there) load, and predict what they predicted:
in the present tree, with transformers alone, and in onnxruntime.
"""

import json
import shutil
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import run_without_library
from safetensors.torch import load_file, save_file
from toolkit_helpers import TESTS, invoke, one_thread
from transformers import AutoModelForSeq2SeqLM

from hf_emotion import OnnxReplyGenerator


pytest_plugins = ["toolkit_fixtures"]

DATA = TESTS / "data"
VERSIONS = sorted(path.name for path in DATA.glob("checkpoints-*"))
FOLDERS = [
    f"{version}/{path.parent.name}"
    for version in VERSIONS
    for path in sorted((DATA / version).glob("*/expected.json"))
]
TOLERANCE = 1e-6


@pytest.fixture(autouse=True)
def settings(own_verbosity):
    with one_thread():
        yield


def expected_of(name: str) -> dict:
    """Folder in the run -> what it must give."""
    return json.loads((DATA / name / "expected.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def thawed(tmp_path_factory) -> Path:
    """The run folders as they were written: each checkpoint with its code beside it."""
    root = tmp_path_factory.mktemp("thawed")
    for version in VERSIONS:
        with tarfile.open(DATA / version / "code.tar.xz") as archive:
            archive.extractall(root / version / "code", filter="data")
    for name in FOLDERS:
        shutil.copytree(DATA / name, root / name)
        for part, expected in expected_of(name).items():
            for file in expected.get("code", ()):
                shutil.copyfile((root / name).parent / "code" / file, root / name / part / file)
    return root


def assert_agrees(found, expected, path: str = "") -> None:
    """The same names, texts and numbers of entries, and figures that differ by no more than `TOLERANCE`."""
    if isinstance(expected, float):
        assert found == pytest.approx(expected, abs=TOLERANCE), path
    elif isinstance(expected, dict):
        # Since then the lines also tell what was cut and what the tokenizer does not know.
        assert isinstance(found, dict) and set(found) - {"truncated", "unknown", "language"} == set(expected), path
        for key, value in expected.items():
            assert_agrees(found[key], value, f"{path}/{key}")
    elif isinstance(expected, list):
        assert isinstance(found, list) and len(found) == len(expected), path
        for number, value in enumerate(expected):
            assert_agrees(found[number], value, f"{path}/{number}")
    else:
        assert found == expected, path


def test_every_family_has_one():
    names = {name.partition("/")[2] for name in FOLDERS}
    kinds = {json.loads(path.read_text())["model_type"] for path in DATA.glob("checkpoints-0.1/**/config.json")}
    assert kinds == {
        *("label-aware-bert", "roberta-esa", "dialogue-bilstm", "cg-bert", "qacg-bert", "gpt2-mod-ln", "bert-mod-ln"),
        "bert",
    }
    assert {"seeds", "contexts", "label-aware-onnx", "dialogue-encoder-onnx", "bert-mod-ln-onnx"} <= names


@pytest.mark.parametrize("name", FOLDERS)
def test_the_present_tree_agrees(thawed, name):
    for part, expected in expected_of(name).items():
        folder = thawed / name / part
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        config.pop("calibration_temperature", None)  # which these versions stored and did not apply
        (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
        for ask in expected.get("asks", ()):
            words = [str(folder) if word == "FOLDER" else word for word in ask["command"]]
            assert_agrees([json.loads(line) for line in invoke(*words).splitlines()], ask["lines"], f"{name}/{part}")
        if "forward" in expected:
            model = AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
            assert type(model).__module__.startswith("hf_emotion.")
            with torch.inference_mode():
                loss = model(**tensors(expected)).loss.item()
            assert loss == pytest.approx(expected["forward"]["loss"], rel=TOLERANCE)
        if "replies" in expected:
            replies = expected["replies"]
            pairs = [tuple(pair) for pair in replies["inputs"]]
            assert OnnxReplyGenerator(folder)(pairs, **replies["options"]) == replies["results"]


def by_score(scores: dict[str, float]) -> list[dict]:
    """As a text classification shows them."""
    return [{"label": name, "score": score} for name, score in sorted(scores.items(), key=lambda item: -item[1])]


def tensors(expected: dict) -> dict[str, torch.Tensor]:
    return {name: torch.tensor(values) for name, values in expected["forward"]["inputs"].items()}


def test_transformers_alone_agrees(thawed, tmp_path):
    """All of them in one process, in which hf-emotion cannot be imported, with the code that lies beside the weights."""
    jobs = {"load": [], "pipelines": [], "fine_tune": []}
    wanted, losses = {}, {}
    for name in FOLDERS:
        for part, expected in expected_of(name).items():
            if "pipeline" not in expected:  # an exported one
                continue
            folder, how = thawed / name / part, expected["pipeline"]
            job = {"folder": str(folder), "name": str(folder), "texts": how["inputs"], "options": how["options"]}
            wanted[str(folder)] = how["results"]
            if not expected["code"]:  # a stock model without a pipeline of ours
                job |= {"task": "text-classification", "options": {"top_k": None}}
                if how["task"] == "targeted-sentiment":  # of one aspect, without auxiliary sentence
                    wanted[str(folder)] = [by_score(item["scores"]) for [item] in how["results"]]
            jobs["pipelines"].append(job)
            if "forward" in expected:
                save_file(tensors(expected), folder / "inputs.safetensors")
                jobs["load"].append({"folder": str(folder), "auto_class": "AutoModelForSeq2SeqLM"})
                losses[folder] = expected["forward"]["loss"]
    report = run_without_library(tmp_path, jobs)
    assert report["library_is_missing"] and not report["imported"]
    for folder, results in wanted.items():
        assert_agrees(report["pipelines"][folder]["results"], results, folder)
    for folder, loss in losses.items():
        assert load_file(folder / "outputs.safetensors")["head.loss"].item() == pytest.approx(loss, rel=TOLERANCE)


@pytest.mark.parametrize("version", VERSIONS)
def test_onnxruntime_and_tokenizers_alone_agree(version):
    """What is needed of an exported classifier: the graph, the tokenizer, and the names of the labels."""
    onnxruntime = pytest.importorskip("onnxruntime")
    from tokenizers import Tokenizer

    folder = DATA / version / "label-aware-onnx"
    session = onnxruntime.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"])
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    names = json.loads((folder / "config.json").read_text(encoding="utf-8"))["id2label"]
    [ask] = [ask for ask in expected_of(f"{version}/label-aware-onnx")["."]["asks"] if "--top-k" in ask["command"]]
    for line in ask["lines"]:
        encoded = tokenizer.encode(line["text"])
        inputs = {"input_ids": encoded.ids, "attention_mask": encoded.attention_mask}
        [logits] = session.run(None, {name: np.array([values]) for name, values in inputs.items()})
        scores = 1 / (1 + np.exp(-logits[0].astype(np.float64)))
        assert {item["label"]: item["score"] for item in line["labels"]} == pytest.approx(
            {names[str(number)]: score for number, score in enumerate(scores.tolist())}, abs=TOLERANCE
        )


@pytest.mark.parametrize("version", VERSIONS)
def test_the_reports_of_an_old_run_can_be_made_anew(thawed, version):
    """metrics.json, predictions.parquet and recipe.yaml as they were are still what `compare` and `analyze` read."""
    for name in ("seeds", "qacg", "contexts"):
        run = thawed / version / name
        report = json.loads((run / "metrics.json").read_text(encoding="utf-8"))
        found = json.loads(invoke("compare", run, "--json"))
        assert len(found["table"]) == 1 and found["table"][0][0] == report["name"]
        assert found["table"][0][2] == str(len(report["runs"]))
    invoke("analyze", thawed / version / "qacg", "--json")
    assert (thawed / version / "qacg" / "report.html").is_file()
