# SPDX-License-Identifier: Apache-2.0
"""Damaged checkpoints that the libraries load without a word, and names that can be no checkpoint's."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from hf_emotion.runtime.loading import read_model
from hf_emotion.runtime.names import check_local


pytest_plugins = ["toolkit_fixtures"]


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
    with pytest.raises(FileNotFoundError, match="--base-model"):
        check_local(name, "--base-model")


def test_a_name_beside_runs_is_a_path(workplace):
    (workplace / "runs").rename(workplace / "mine")
    with pytest.raises(FileNotFoundError, match="mine/quikstart"):
        check_local("mine/quikstart", "the checkpoint")


@pytest.mark.parametrize(
    "name",
    ["gpt2", "minilm", "google-bert/bert-base-cased", "me/goemotions", "ab/reviews", "mirror/bart", "runs/quickstart"],
)
def test_ids_and_folders_pass(workplace, name):
    check_local(name, "the checkpoint")


def test_a_run_that_has_not_ended_says_how_to_go_on(workplace):
    with pytest.raises(OSError, match=r"train runs/half/recipe.yaml --output runs/half --resume"):
        check_local("runs/half", "the checkpoint")
