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
    of_a_run = [f"quickstart/{name}" for name in ("recipe.yaml", "config.json", "metrics.json")]
    for file in (*of_a_run, "half/recipe.yaml", "half/seed-1/config.json", "../mirror/bert/config.json"):
        (tmp_path / "runs" / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "runs" / file).touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_path_where_nothing_is_does_not_ask_the_hub(workplace):
    for name in ("runs/qickstart", "./runs/qickstart", "qickstart/", "../x", "~/runs/a", "a/b/c", "C:\\runs"):
        with pytest.raises(FileNotFoundError, match="--base-model"):
            check_local(name, "--base-model")
    (workplace / "runs").rename(workplace / "mine")  # beside runs, too
    with pytest.raises(FileNotFoundError, match="mine/quikstart"):
        check_local("mine/quikstart", "the checkpoint")


def test_ids_and_folders_pass(workplace):
    for name in ("gpt2", "minilm", "google-bert/bert-base-cased", "me/goemotions", "mirror/bart", "runs/quickstart"):
        check_local(name, "the checkpoint")
    # A run that has not ended says how to go on.
    with pytest.raises(OSError, match=r"train runs/half/recipe.yaml --output runs/half --resume"):
        check_local("runs/half", "the checkpoint")
