# SPDX-License-Identifier: Apache-2.0
"""Writes the classification report of a run folder as text, and its confusion matrix as text and (extra `plots`) as a picture."""

import importlib.util
import logging
import textwrap
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich.cells import cell_len
from sklearn.metrics import classification_report

from ..gold import Gold
from ..io.files import replacing, write_text
from ..io.names import visible


logger = logging.getLogger(__name__)

DPI = 120
LONGEST_SIDE = 30  # inches of cells: 3600 pixels, and what is left to 4000 for names and title
LONGEST_NAME = 30  # characters, in pictures
MOST_NUMBERED = 60  # classes; a larger matrix has colours but no numbers


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


def can_draw() -> bool:
    """Whether matplotlib is installed; a warning if it is not."""
    found = importlib.util.find_spec("matplotlib") is not None
    if not found:
        logger.warning("no pictures: matplotlib is not installed (pip install 'hf-emotion[plots]')")
    return found


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


def matrix_figure(title: str, matrix: np.ndarray, names: Sequence[str]):
    """Counts (C, C), [gold, predicted], coloured by their share of the gold row."""
    from matplotlib.figure import Figure  # without pyplot: no window system, no global state

    side = float(np.clip(0.42 * len(names), 3.2, LONGEST_SIDE))  # side of all cells together, in inches
    cell = 72 * side / len(names)  # side of a cell, in points
    size = min(9, 0.75 * cell)
    shares = matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1)
    figure = Figure(figsize=(side + 2.8, side + 2.2), layout="constrained")
    figure.suptitle(textwrap.fill(title, int(11 * (side + 2.8))).replace("$", r"\$"), fontsize=10)
    axes = figure.subplots()
    image = axes.imshow(shares, cmap="Blues", vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    figure.colorbar(image, label="share of the gold row", shrink=0.8, fraction=0.06, aspect=30)
    axes.set_xlabel("predicted")
    axes.set_ylabel("gold")
    shown = [drawn(name) for name in names]
    axes.set_xticks(range(len(names)), shown, rotation=90, fontsize=size)
    axes.set_yticks(range(len(names)), shown, fontsize=size)
    if len(names) <= MOST_NUMBERED:
        size = min(9, 1.2 * cell / len(str(matrix.max())))
        for y, row in enumerate(matrix):
            for x, count in enumerate(row):
                colour = "white" if shares[y, x] > 0.6 else "black" if count else "silver"
                # Left out of the layout, which would measure each of thousands of texts.
                axes.text(x, y, str(count), ha="center", va="center", color=colour, fontsize=size, in_layout=False)
    return figure


def drawn(name: str) -> str:
    """A name for a picture, shortened, in which `$` does not start a formula."""
    short = name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"
    return short.replace("$", r"\$")


def save_figure(figure, target, dpi: int = DPI, **options) -> None:
    """As `figure.savefig`, without a warning for a letter that the font lacks (an emoji); it becomes a box."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"Glyph .* missing from|Matplotlib currently does not support")
        figure.savefig(target, dpi=dpi, **options)
