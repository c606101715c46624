# SPDX-License-Identifier: Apache-2.0
"""ONNX export of models of terms."""

from collections.abc import Sequence
from pathlib import Path

from ..exporting import EXAMPLE, Exporter, classifier_exporter, write_classifier
from .predictor import AspectPredictor


def exporter() -> Exporter:
    return classifier_exporter(AspectPredictor, run, write)


def run(predictor: AspectPredictor, texts: Sequence[str], progress: bool) -> None:
    predictor.probabilities(list(texts), progress)


def write(predictor: AspectPredictor, folder: Path) -> list[Path]:
    return write_classifier(predictor, folder, run, [EXAMPLE] * 3)
