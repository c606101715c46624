# SPDX-License-Identifier: Apache-2.0
"""Shared fixtures."""

import functools
import gc
import io
import os
import uuid
from pathlib import Path
from types import SimpleNamespace


# Before anything imports huggingface_hub, which reads it once: no test asks the Hub for anything.
os.environ["HF_HUB_OFFLINE"] = "1"

import pytest
import torch
from matplotlib.figure import Figure
from model_cases import make_tokenizer
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


def pytest_collection_finish() -> None:
    """The garbage collector leaves alone what was imported up to here: to look through it takes half a second, in every training."""
    gc.collect()
    gc.freeze()
    gc.enable()
