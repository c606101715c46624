# SPDX-License-Identifier: Apache-2.0
"""Measures a model of targeted sentiment on a corpus."""

import numpy as np

from ...metrics.numbers import mean
from ...run_report import RunReport
from .loading import none_label


def aspect_errors(
    report: RunReport, ids: list[str], names: list[str], gold: np.ndarray, predicted: np.ndarray
) -> dict[str, dict[str, float]] | None:
    """For each aspect its rows, accuracy and three kinds of errors; None without a label "none"."""
    name = none_label(names)
    if name is None:
        return None
    none = names.index(name)
    result = {}
    assert report.contexts is not None
    aspects, targets = report.contexts["aspects"], report.contexts["targets"]
    # the end of a row's id -> its aspect
    asked = {
        f"/{aspect}" if target is None else f"/{target}/{aspect}": aspect
        for target in targets or (None,)
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
