# SPDX-License-Identifier: Apache-2.0
"""The small classifier, once for each module that asks for it with `pytest_plugins = ["endurance.fixtures"]`."""

from pathlib import Path

import pytest
from endurance.small_model import save_small_classifier

from hf_emotion import Predictor


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory) -> Path:
    return save_small_classifier(tmp_path_factory.mktemp("small") / "model")


@pytest.fixture(scope="module")
def predictor(checkpoint) -> Predictor:
    return Predictor(checkpoint, device="cpu")
