# SPDX-License-Identifier: Apache-2.0
"""Writes the classification report and the confusion matrix of a run folder, as text and (extra `plots`) as pictures."""

import importlib.util
import logging
import textwrap
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich.cells import cell_len
from sklearn.metrics import classification_report

from ..io.files import replacing, write_text


logger = logging.getLogger(__name__)

DPI = 120
LONGEST_SIDE = 30  # inches of cells: 3600 pixels, and what is left to 4000 for names and title
LONGEST_NAME = 30  # characters, in pictures
MOST_NUMBERED = 60  # classes; a larger matrix has colours but no numbers
COLUMNS = ("precision", "recall", "f1-score", "support")


def write_reports(
    folder: Path,
    title: str,
    gold: np.ndarray,
    probabilities: np.ndarray,
    label_names: Sequence[str],
    thresholds: Sequence[float] | None = None,
) -> None:
    """
    Write `classification_report` and `confusion_matrix`, each as .txt and .png; without matplotlib, say so and write
    only the text files.

    The report has precision, recall, F1 and support of every class and their averages. The matrix counts rows of data by
    gold (its rows) and most probable class (its columns); for multi-label data only those with exactly one gold label.

    Args:
        folder: where to write them.
        title: what was evaluated, for the first line of each file.
        gold: (N,) class ids, negative for a row without a label, which is left out; or (N, C) of 0 and 1, multi-label.
        probabilities: (N, C).
        label_names: C names.
        thresholds: C, for multi-label data only. A label is predicted where its probability is strictly
            greater than its threshold.

    Raises:
        ValueError: shapes that do not agree, values outside their range, thresholds missing or out of place, no labelled row.
    """
    gold, probabilities = np.asarray(gold), np.asarray(probabilities)
    names = [" ".join(name.split()) for name in label_names]  # a line break would break the columns
    labelled = _check(gold, probabilities, names, thresholds)
    rows = len(gold)
    gold, probabilities = gold[labelled].astype(np.int64), probabilities[labelled]
    if gold.ndim == 1:
        predicted = probabilities.argmax(axis=1)
        decision, counted = "the most probable class", "with a label"
        matrix = count_pairs(gold, predicted, len(names))
    else:
        predicted = (probabilities > np.asarray(thresholds, dtype=np.float64)).astype(np.int64)
        decision, counted = "labels above their thresholds", "with exactly one gold label"
        one = gold.sum(axis=1) == 1
        matrix = count_pairs(gold[one].argmax(axis=1), probabilities[one].argmax(axis=1), len(names))
        # A zero column that is not reported: scikit-learn reads a matrix with one column as single-label.
        gold, predicted = (np.pad(values, ((0, 0), (0, 1))) for values in (gold, predicted))
    report_title = f"{title}: classification report, {decision}"
    matrix_title = (
        f"{title}: confusion matrix, rows = gold, columns = predicted (the most probable class), "
        f"{matrix.sum()} of {rows} rows (those {counted})"
    )
    text, table = _report(gold, predicted, names)
    write_text(folder / "classification_report.txt", f"{report_title}\n\n{text.rstrip()}\n")
    write_text(folder / "confusion_matrix.txt", f"{matrix_title}\n\n{_aligned(matrix, names)}\n")
    if importlib.util.find_spec("matplotlib") is None:
        logger.warning("no pictures of the reports: matplotlib is not installed (pip install 'hf-emotion[plots]')")
        return
    _draw_report(folder / "classification_report.png", report_title, table, len(names))
    _save(matrix_figure(matrix_title, matrix, names), folder / "confusion_matrix.png")


def _check(
    gold: np.ndarray, probabilities: np.ndarray, names: list[str], thresholds: Sequence[float] | None
) -> np.ndarray:
    """(N,) bool, which rows are in the reports; all of them for multi-label data, where a row may have no label."""
    size = len(names)
    if probabilities.ndim != 2 or probabilities.shape[1] != size:
        raise ValueError(f"`probabilities` must have the shape (rows, {size} labels), got {probabilities.shape}.")
    if gold.shape not in (probabilities.shape, probabilities.shape[:1]):
        raise ValueError(
            f"`gold` must hold one id per row or have the shape of `probabilities` {probabilities.shape}, got {gold.shape}."
        )
    multi_label = gold.ndim == 2
    if np.shape(thresholds) != ((size,) if multi_label else ()) or multi_label != (thresholds is not None):
        raise ValueError(f"`thresholds` must be {size} numbers for multi-label data, and None for single-label data.")
    if multi_label and not np.isin(gold, (0, 1)).all():
        raise ValueError("`gold` of multi-label data must hold only 0 and 1.")
    if not (gold if multi_label else gold >= 0).any():
        raise ValueError("no row has a gold label: the reports need at least one labelled row.")
    if not multi_label and gold.max() >= size:
        raise ValueError(f"`gold` holds the id {gold.max()}, but there are {size} labels.")
    return np.ones(len(gold), dtype=bool) if multi_label else gold >= 0


def count_pairs(gold: np.ndarray, predicted: np.ndarray, size: int) -> np.ndarray:
    """(C, C) counts: [gold, predicted]."""
    return np.bincount(gold * size + predicted, minlength=size * size).reshape(size, size)


def _report(
    gold: np.ndarray, predicted: np.ndarray, names: list[str]
) -> tuple[str, list[tuple[str, list[float | None]]]]:
    """The report of scikit-learn as text, and its lines as (name, the four figures); None for a missing figure."""
    ids = np.arange(len(names))
    text = classification_report(gold, predicted, labels=ids, target_names=names, digits=3, zero_division=0)
    # By ids: two names may be equal, or equal the name of an average.
    values = classification_report(gold, predicted, labels=ids, output_dict=True, zero_division=0)
    support = values["macro avg"]["support"]
    table: list[tuple[str, list[float | None]]] = []
    for key, line in values.items():
        name = names[int(key)] if key.isdigit() else key
        figures = [None, None, line, support] if key == "accuracy" else [line[column] for column in COLUMNS]
        table.append((name, figures))
    return text, table


def _aligned(matrix: np.ndarray, names: list[str]) -> str:
    """The counts in columns under the names, two spaces apart and right-aligned for a terminal."""
    cells = [["", *names], *([name, *map(str, row)] for name, row in zip(names, matrix.tolist(), strict=True))]
    widths = [max(map(cell_len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(
        "  ".join(" " * (width - cell_len(cell)) + cell for cell, width in zip(line, widths, strict=True))
        for line in cells
    )


def _draw_report(path: Path, title: str, table: list[tuple[str, list[float | None]]], classes: int) -> None:
    height = min(0.3, LONGEST_SIDE / len(table))  # height of a line, in inches
    size = min(9, 0.6 * 72 * height)  # size of the letters, in points
    figures = [values for _, values in table]
    shares = np.array([values[:3] + [None] for values in figures], dtype=np.float64)  # a support has no colour
    figure, axes = _figure(7, 1.4 + height * len(table), title)
    _colour(figure, axes, shares, "score")
    axes.set_xticks(range(4), ["precision", "recall", "F1", "support"])
    axes.xaxis.tick_top()
    axes.set_yticks(range(len(table)), [drawn(name) for name, _ in table], fontsize=size)
    for y, values in enumerate(figures):
        for x, value in enumerate(values):
            if value is not None:
                _number(axes, x, y, f"{value:.3f}" if x < 3 else f"{value:.0f}", shares[y, x], size)
    axes.axhline(classes - 0.5, color="black", linewidth=1)  # above the averages
    _save(figure, path)


def matrix_figure(title: str, matrix: np.ndarray, names: Sequence[str]):
    """Counts (C, C), [gold, predicted], coloured by their share of the gold row."""
    side = float(np.clip(0.42 * len(names), 3.2, LONGEST_SIDE))  # side of all cells together, in inches
    cell = 72 * side / len(names)  # side of a cell, in points
    size = min(9, 0.75 * cell)
    shares = matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1)
    figure, axes = _figure(side + 2.8, side + 2.2, title)
    _colour(figure, axes, shares, "share of the gold row")
    axes.set_xlabel("predicted")
    axes.set_ylabel("gold")
    shown = [drawn(name) for name in names]
    axes.set_xticks(range(len(names)), shown, rotation=90, fontsize=size)
    axes.set_yticks(range(len(names)), shown, fontsize=size)
    if len(names) <= MOST_NUMBERED:
        size = min(9, 1.2 * cell / len(str(matrix.max())))
        for y, row in enumerate(matrix):
            for x, count in enumerate(row):
                _number(axes, x, y, str(count), shares[y, x], size)
    return figure


def _figure(width: float, height: float, title: str):
    """A figure with one axes; width and height in inches."""
    from matplotlib.figure import Figure  # without pyplot: no window system, no global state

    figure = Figure(figsize=(width, height), layout="constrained")
    figure.suptitle(textwrap.fill(title, int(11 * width)).replace("$", r"\$"), fontsize=10)
    return figure, figure.subplots()


def _colour(figure, axes, shares: np.ndarray, name: str) -> None:
    image = axes.imshow(shares, cmap="Blues", vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    figure.colorbar(image, label=name, shrink=0.8, fraction=0.06, aspect=30)


def _number(axes, x: int, y: int, text: str, share: float, size: float) -> None:
    colour = "white" if share > 0.6 else "silver" if text == "0" else "black"
    # Left out of the layout, which would measure each of thousands of texts.
    axes.text(x, y, text, ha="center", va="center", color=colour, fontsize=size, in_layout=False)


def drawn(name: str) -> str:
    """A name for a picture, shortened, in which `$` does not start a formula."""
    short = name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"
    return short.replace("$", r"\$")


def _save(figure, path: Path) -> None:
    with replacing(path) as temporary:
        save_figure(figure, temporary)


def save_figure(figure, target, dpi: int = DPI, **options) -> None:
    """As `figure.savefig`, without a warning for a letter that the font lacks (an emoji); it becomes a box."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"Glyph .* missing from|Matplotlib currently does not support")
        figure.savefig(target, dpi=dpi, **options)
