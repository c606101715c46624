# SPDX-License-Identifier: Apache-2.0
"""ONNX export of models of terms, and their Inference Endpoint."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..exporting import EXAMPLE, Exporter, classifier_exporter, write_classifier
from .predictor import AspectPredictor
from .showing import EXAMPLES


def exporter() -> Exporter:
    return classifier_exporter(AspectPredictor, run, write, write_browser=write_browser, examples=EXAMPLES)


def run(predictor: AspectPredictor, texts: Sequence[str], progress: bool) -> np.ndarray:
    return predictor.probabilities(list(texts), progress)


def write(predictor: AspectPredictor, folder: Path) -> list[Path]:
    return write_classifier(predictor, folder, run, [EXAMPLE] * 3)


def write_browser(predictor: AspectPredictor, folder: Path) -> list[Path]:
    if type(predictor.tokenizer.backend_tokenizer.model).__name__ != "WordPiece":
        raise ValueError("aspects in the browser need a WordPiece tokenizer, as BERT has: use `serve`.")
    return write(predictor, folder)


# This function becomes part of the handler.py of an Inference Endpoint, and imports nothing.
def respond(run, inputs, parameters: dict) -> list:
    """For a text the list of its terms, for several texts a list of such lists."""
    return run(inputs, **parameters)
