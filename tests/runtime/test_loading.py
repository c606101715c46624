# SPDX-License-Identifier: Apache-2.0
"""Damaged checkpoints that the libraries load without a word, and names that can be no checkpoint's."""

import socket
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from huggingface_hub import constants

from hf_emotion.recipes import make_recipe
from hf_emotion.runtime.loading import read_model
from hf_emotion.runtime.names import check_local
from hf_emotion.tasks.emotional_response.building import build_generator


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


@pytest.fixture
def no_network(monkeypatch):
    """The Hub does not answer, and nothing is asked for twice."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{closed.getsockname()[1]}")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setattr("time.sleep", lambda seconds: pytest.fail("asked for again"))


@pytest.mark.parametrize("model_type", ["gpt2-mod-ln", "emotion-modulated", "bert-mod-ln"])
def test_no_network(no_network, model_type):
    values = {"name": "replies", "base_model": "nobody/no-model", "dataset": "mojitalk", "model_type": model_type}
    with pytest.raises(OSError, match="'nobody/no-model' cannot be loaded.*to work offline, name a folder"):
        build_generator(make_recipe(values), ["joy", "anger"])
    assert not constants.HF_HUB_OFFLINE
