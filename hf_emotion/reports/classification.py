# SPDX-License-Identifier: Apache-2.0
"""Writes the classification report of a run folder as text, and its confusion matrix as text and (extra `plots`) as a picture."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich.cells import cell_len
from sklearn.metrics import classification_report

from ..gold import Gold
from ..io.files import replacing, write_text
from ..io.names import visible
from .figures import can_draw, matrix_figure, save_figure


def write_reports(
    folder: Path,
    title: str,
    gold: Gold,
    probabilities: np.ndarray,
    label_names: Sequence[str],
    thresholds: Sequence[float] | None = None,
) -> None:
    """
    Write `classification_report.txt`, `confusion_matrix.txt` and, where matplotlib is installed, `confusion_matrix.png`.

    The report has precision, recall, F1 and support of every class and their averages. The matrix counts rows of data by
    gold (its rows) and most probable class (its columns); for multi-label data only those with exactly one gold label.

    Args:
        folder: where to write them.
        title: what was evaluated, for the first line of each file.
        gold: N rows; one without a label is left out, and a label that was not annotated counts as absent and as not predicted.
        probabilities: (N, C).
        label_names: C names.
        thresholds: C, for multi-label data: a label is predicted where its probability is greater than its threshold.
    """
    names = [" ".join(visible(name).split()) for name in label_names]  # a line break would break the columns
    rows = len(gold)
    gold, probabilities = gold[gold.labelled], probabilities[gold.labelled]
    if gold.single_label:
        found, predicted = gold.values, probabilities.argmax(axis=1)
        decision, counted = "the most probable class", "with a label"
        matrix = count_pairs(found, predicted, len(names))
    else:
        probabilities = np.where(gold.annotated, probabilities, 0.0)
        has, decided = gold.has(len(names)), gold.decided(probabilities, thresholds)
        decision, counted = "labels above their thresholds", "with exactly one gold label"
        one = has.sum(axis=1) == 1
        matrix = count_pairs(has[one].argmax(axis=1), probabilities[one].argmax(axis=1), len(names))
        # A zero column that is not reported: scikit-learn reads a matrix with one column as single-label.
        found, predicted = (np.pad(values.astype(np.int64), ((0, 0), (0, 1))) for values in (has, decided))
    report_title = f"{title}: classification report, {decision}"
    matrix_title = (
        f"{title}: confusion matrix, rows = gold, columns = predicted (the most probable class), "
        f"{matrix.sum()} of {rows} rows (those {counted})"
    )
    text = classification_report(
        found, predicted, labels=np.arange(len(names)), target_names=names, digits=3, zero_division=0
    )
    write_text(folder / "classification_report.txt", f"{report_title}\n\n{text.rstrip()}\n")
    write_text(folder / "confusion_matrix.txt", f"{matrix_title}\n\n{_aligned(matrix, names)}\n")
    if can_draw():
        with replacing(folder / "confusion_matrix.png") as temporary:
            save_figure(matrix_figure(matrix_title, matrix, names), temporary)


def count_pairs(gold: np.ndarray, predicted: np.ndarray, size: int) -> np.ndarray:
    """(C, C) counts: [gold, predicted]."""
    return np.bincount(gold * size + predicted, minlength=size * size).reshape(size, size)


def _aligned(matrix: np.ndarray, names: list[str]) -> str:
    """The counts in columns under the names, two spaces apart and right-aligned for a terminal."""
    cells = [["", *names], *([name, *map(str, row)] for name, row in zip(names, matrix.tolist(), strict=True))]
    widths = [max(map(cell_len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(
        "  ".join(" " * (width - cell_len(cell)) + cell for cell, width in zip(line, widths, strict=True))
        for line in cells
    )
