# SPDX-License-Identifier: Apache-2.0
"""Measures a model of targeted sentiment on a corpus."""

from typing import Any

import numpy as np

from ...metrics.numbers import mean
from ...run_report import RunReport
from .. import options_of
from .predictor import TargetedPredictor
from .rows import none_label


def loader_options(predictor: TargetedPredictor, dataset: str) -> dict[str, Any]:
    """A file need not have every label, aspect and target of the model."""
    if "aspects" not in options_of(dataset):
        return {}
    config = predictor.model.config
    options = {"labels": predictor.labels, "aspects": config.aspects}
    return options if config.targets is None else {**options, "target_column": "target", "targets": config.targets}


def aspect_errors(
    report: RunReport, ids: list[str], names: list[str], gold: np.ndarray, predicted: np.ndarray
) -> dict[str, Any] | None:
    """For each aspect its rows, accuracy and three kinds of errors; None without a label "none"."""
    name = none_label(names)
    if name is None:
        return None
    none = names.index(name)
    result = {}
    contexts = report.contexts or {}
    aspects, targets = contexts["aspects"], contexts["targets"]
    # the end of a row's id -> its aspect
    asked = {
        f"/{aspect}" if target is None else f"/{target}/{aspect}": aspect
        for target in targets or [None]
        for aspect in aspects
    }
    ends = sorted(asked, key=len, reverse=True)  # an aspect with a slash may end like another one
    of_rows = np.array([asked[next(end for end in ends if row.endswith(end))] for row in ids])
    for aspect in aspects:
        rows = of_rows == aspect
        labels, own = gold[rows], predicted[rows]
        result[aspect] = {
            "rows": len(labels),
            "accuracy": mean(labels == own),
            "missed": int(((labels != none) & (own == none)).sum()),
            "invented": int(((labels == none) & (own != none)).sum()),
            "wrong sentiment": int(((labels != none) & (own != none) & (labels != own)).sum()),
        }
    return result
