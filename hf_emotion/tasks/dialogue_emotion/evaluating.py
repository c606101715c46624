# SPDX-License-Identifier: Apache-2.0
"""Measures a model of dialogues on a corpus."""

from typing import Any

from .. import corpus_of, options_of
from .loading import FOUR_CLASSES
from .predictor import DialoguePredictor


def loader_options(predictor: DialoguePredictor, dataset: str) -> dict[str, Any]:
    """A model of four emotions is measured on these four; a file need not have every label of the model."""
    if corpus_of(dataset).own_files:
        return {"labels": predictor.labels}
    four = "four_classes" in options_of(dataset) and sorted(predictor.labels) == sorted(FOUR_CLASSES)
    return {"four_classes": True} if four else {}
