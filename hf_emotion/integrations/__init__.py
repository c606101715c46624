# SPDX-License-Identifier: Apache-2.0
"""Models inside other programs. Each file needs an extra of its own."""

from pathlib import Path
from typing import Any, NamedTuple

from ..inference import load_predictor
from ..runtime.ready import for_prediction


class TextModel(NamedTuple):
    """A predictor that reads single texts, and whether it finds terms in them, and not labels of the whole text."""

    predictor: Any
    finds_terms: bool


def load_text_model(checkpoint: str | Path) -> TextModel:
    """ValueError for a model that reads something else."""
    predictor = load_predictor(for_prediction(checkpoint))
    columns = predictor.task.file_columns
    finds_terms = columns is not None and columns.places
    if not finds_terms and getattr(predictor, "wide_labels", None) != getattr(predictor, "labels", ()):
        raise ValueError(
            f"{checkpoint} is a model for {predictor.task.name}: name one that finds emotions or terms in single texts."
        )
    return TextModel(predictor, finds_terms)


__all__ = ["TextModel", "load_text_model"]
