# SPDX-License-Identifier: Apache-2.0
"""A model of targeted sentiment measured on a corpus."""

from typing import Any

from .. import corpus_of
from .predictor import TargetedPredictor


def loader_options(predictor: TargetedPredictor, dataset: str) -> dict[str, Any]:
    """A file need not have every label, aspect and target of the model."""
    if not corpus_of(dataset).own_files:
        return {}
    config = predictor.model.config
    options = {"labels": predictor.labels, "aspect_column": "aspect", "aspects": config.aspects}
    return options if config.targets is None else {**options, "target_column": "target", "targets": config.targets}


__all__ = ["loader_options"]
