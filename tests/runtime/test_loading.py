# SPDX-License-Identifier: Apache-2.0
"""Damaged checkpoints that the libraries load without a word, and names that can be no checkpoint's."""

import json
import shutil
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from safetensors.torch import load_file, save_file

from hf_emotion import Predictor
from hf_emotion.runtime.exported import ExportedTokenizer, write_tokenizer_facts
from hf_emotion.runtime.loading import read_model, read_tokenizer
from hf_emotion.runtime.names import check_local


pytest_plugins = ["toolkit_fixtures"]


@pytest.mark.parametrize("value", [{}, "50", [20], -5, 0])
def test_a_length_that_is_no_number_is_named(base_bert, tmp_path, value):
    folder = shutil.copytree(base_bert, tmp_path / "base")
    write_tokenizer_facts(read_tokenizer(folder), folder)
    for name, read in (("tokenizer_config.json", read_tokenizer), ("prediction.json", ExportedTokenizer)):
        read(folder)
        path = folder / name
        fields = json.loads(path.read_text(encoding="utf-8")) | {"model_max_length": value}
        path.write_text(json.dumps(fields), encoding="utf-8")
        with pytest.raises(ValueError, match="model_max_length") as error:
            read(folder)
        assert repr(value) in str(error.value) and str(folder) in str(error.value)
        shutil.copyfile(base_bert / "tokenizer_config.json", folder / "tokenizer_config.json")


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_pointer_of_git_lfs_is_named(stock_run, tmp_path, name):
    folder = shutil.copytree(stock_run, tmp_path / "run")
    (folder / name).write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n")
    with pytest.raises(ValueError, match=f"its {name} is a pointer of Git LFS.*git lfs pull"):
        Predictor(folder)


@pytest.mark.parametrize("kind", [torch.int8, torch.bool])
def test_weights_that_are_whole_numbers(stock_run, tmp_path, kind):
    """They were read as numbers between -128 and 127 and gave sure answers."""
    folder = shutil.copytree(stock_run, tmp_path / "run")
    weights = load_file(folder / "model.safetensors")
    weights["classifier.weight"] = (100 * weights["classifier.weight"]).to(kind)
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(ValueError, match="'classifier.weight'.*whole numbers"):
        Predictor(folder)


def test_a_token_without_a_vector(stock_run, tmp_path):
    folder = shutil.copytree(stock_run, tmp_path / "run")
    fields = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    fields["model"]["vocab"]["happy"] = 99_999
    (folder / "tokenizer.json").write_text(json.dumps(fields), encoding="utf-8")
    with pytest.raises(ValueError, match="no vector for a token.*tokenizer is damaged"):
        Predictor(folder)(["a happy day"])


def test_threads_load_one_after_the_other(base_bert):
    """While transformers loads a model, it takes functions out of its own classes, which another load misses."""
    loading, together = [], []

    class Model:
        @staticmethod
        def from_pretrained(*_, **__):
            loading.append(1)
            time.sleep(0.1)
            together.append(len(loading))
            loading.pop()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: read_model(Model, base_bert), range(4)))
    assert together == [1] * 4


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    """A folder with a finished run, and one that was interrupted."""
    for name, files in (("quickstart", ["recipe.yaml", "config.json", "metrics.json"]), ("half", ["recipe.yaml"])):
        folder = tmp_path / "runs" / name
        folder.mkdir(parents=True)
        for file in files:
            (folder / file).touch()
    (tmp_path / "runs" / "half" / "seed-1").mkdir()
    (tmp_path / "runs" / "half" / "seed-1" / "config.json").touch()
    (tmp_path / "mirror" / "bert").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "name", ["runs/qickstart", "./runs/qickstart", "qickstart/", "../x", "~/runs/a", "a/b/c", "C:\\runs"]
)
def test_a_path_where_nothing_is_does_not_ask_the_hub(workplace, name):
    with pytest.raises(FileNotFoundError, match="--base-model") as error:
        check_local(name, "--base-model")
    assert ("runs/quickstart" in str(error.value)) is ("runs/" in name and "~" not in name)


def test_a_name_beside_runs_is_a_path(workplace):
    (workplace / "runs").rename(workplace / "mine")
    with pytest.raises(FileNotFoundError, match="mine/quickstart"):
        check_local("mine/quikstart", "the checkpoint")


@pytest.mark.parametrize(
    "name",
    ["gpt2", "minilm", "google-bert/bert-base-cased", "me/goemotions", "ab/reviews", "mirror/bart", "runs/quickstart"],
)
def test_ids_and_folders_pass(workplace, name):
    check_local(name, "the checkpoint")


@pytest.mark.parametrize(("name", "ready"), [("goemotoins", "goemotions"), ("review", "reviews")])
def test_nearly_the_name_of_a_ready_model(workplace, name, ready):
    with pytest.raises(FileNotFoundError, match=f"'{ready}'"):
        check_local(name, "the checkpoint")
    (workplace / name).mkdir()
    check_local(name, "the checkpoint")


def test_a_ready_model_of_ones_own_may_resemble_another(workplace, monkeypatch):
    built = workplace / "cache" / "ready" / "goemotions_2"
    built.mkdir(parents=True)
    monkeypatch.setenv("HF_EMOTION_CACHE", str(workplace / "cache"))
    with pytest.raises(FileNotFoundError, match="'goemotions'"):
        check_local("goemotions_2", "the checkpoint")
    (built / "metrics.json").touch()
    check_local("goemotions_2", "the checkpoint")


def test_a_run_that_has_not_ended_says_how_to_go_on(workplace):
    with pytest.raises(OSError, match=r"train runs/half/recipe.yaml --output runs/half --resume.*\['seed-1'\]"):
        check_local("runs/half", "the checkpoint")
