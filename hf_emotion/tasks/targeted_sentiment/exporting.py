# SPDX-License-Identifier: Apache-2.0
"""
ONNX export of models of targeted sentiment (one graph, compared on every target and aspect of every text), and their Inference Endpoint.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..exporting import EXAMPLE, Exporter, classifier_exporter, write_classifier
from .predictor import TargetedPredictor


def exporter() -> Exporter:
    return classifier_exporter(TargetedPredictor, run, write)


def run(predictor: TargetedPredictor, texts: Sequence[str], progress: bool) -> np.ndarray:
    return predictor.probabilities(list(texts), predictor.model.config.targets, progress)


def write(predictor: TargetedPredictor, folder: Path) -> list[Path]:
    return write_classifier(predictor, folder, run, [EXAMPLE] * 3)


# This function becomes part of the handler.py of an Inference Endpoint, and imports nothing.
def respond(run, inputs, parameters: dict) -> list:
    """For a text a list with an entry for each target and aspect, for several texts a list of such lists; `parameters`: `targets`, `aspects`."""
    return run(inputs, **parameters)
