# SPDX-License-Identifier: Apache-2.0
"""Reads what a finished run folder holds."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NotRequired, TypedDict

import numpy as np
import pyarrow.parquet

from ..data.splits import UNANNOTATED, multi_hot
from ..gold import Gold
from ..run_report import RunReport


EXAMPLES = 5  # number of right ones, and of wrong ones


class ShownRow(TypedDict):
    """A row to show: gold and predicted labels with their probabilities, the surest first; `more`: predicted labels that are left out."""

    id: str
    text: str | None
    gold: list[tuple[str, float]]
    predicted: list[tuple[str, float]]
    more: NotRequired[int]


@dataclass(frozen=True)
class Predictions:
    """
    The predictions of one seed for one split, row by row.

    Attributes:
        ids: N row ids (DIALOGUE/TURN for dialogues).
        names: C label names.
        gold_names: for each row the names of its labels.
        gold: their labels; one that was not annotated counts as absent.
        probabilities: (N, C) float64, 0 for a label that was not annotated: it is neither right nor wrong in any count.
        annotated: (N, C) bool; False: nobody annotated it.
    """

    ids: list[str]
    names: list[str]
    gold_names: list[list[str]]
    gold: Gold
    probabilities: np.ndarray
    annotated: np.ndarray


def choose_split(runs: Sequence[str | Path], reports: Sequence[RunReport], split: str | None) -> str:
    """The given split, or else "test", or "validation" if a run has no test part. ValueError: a run has no figures for it."""
    parts = [report.splits for report in reports]
    if split is None:
        split = "test" if all("test" in own for own in parts) else "validation"
    for run, own in zip(runs, parts, strict=True):
        if split not in own:
            raise ValueError(f"{run} has no figures for the split {split!r}: it has {own}.")
    return split


def seed_folders(run: Path, report: RunReport) -> tuple[list[Path], list[str]]:
    """The folder of each seed (the run folder if there is one seed), and the names of those that lack predictions."""
    if len(report.runs) == 1:
        return [run], []
    folders = [run / f"seed-{entry.seed}" for entry in report.runs]
    return folders, [folder.name for folder in folders if not (folder / "predictions.parquet").is_file()]


def read_predictions(folder: Path, split: str, multi_label: bool) -> Predictions:
    """
    The predictions in a run folder (of the seed that was best on the validation part), or in the folder of a seed.

    Args:
        multi_label: whether a row may have several labels; then the entries of the seeds in metrics.json hold "thresholds".

    Raises:
        FileNotFoundError: the folder has no predictions.
        ValueError: the predictions have no rows of the split.
    """
    path = folder / "predictions.parquet"
    if (folder / "values.parquet").is_file():
        raise ValueError(
            f"{folder} predicts values, and this is for labels: `hf-emotion evaluate {folder}` measures it."
        )
    if not path.is_file():
        raise FileNotFoundError(f"{folder} has no predictions.parquet: `hf-emotion train` writes it.")
    table = pyarrow.parquet.read_table(path)
    splits = table["split"].to_pylist()
    table = table.filter(pyarrow.array([name == split for name in splits], pyarrow.bool_()))
    if not len(table):
        raise ValueError(f"{path} has no rows of the split {split!r}, only of {sorted(set(splits))}.")
    names = json.loads(table.schema.metadata[b"label_names"])
    gold_names = table["labels"].to_pylist()
    ids = [[names.index(name) for name in row] for row in gold_names]
    probabilities = np.array(table["probabilities"].to_pylist(), dtype=np.float64)
    annotated = np.ones(probabilities.shape, dtype=bool)
    if UNANNOTATED in table.column_names:
        unannotated = [[names.index(name) for name in row] for row in table[UNANNOTATED].to_pylist()]
        annotated = multi_hot(unannotated, len(names)) == 0
    return Predictions(
        ids=table["id"].to_pylist(),
        names=names,
        gold_names=gold_names,
        gold=Gold(multi_hot(ids, len(names)) if multi_label else np.array([row[0] for row in ids])),
        probabilities=np.where(annotated, probabilities, 0.0),
        annotated=annotated,
    )


def examples(
    found: Predictions, texts: Sequence[str], thresholds: dict[str, float] | None
) -> dict[str, list[ShownRow]]:
    """Rows of a run to show, drawn at a fixed seed: "right" and "wrong", at most `EXAMPLES` each, judged by what `predict` answers."""
    scores, names = found.probabilities, found.names
    gold = found.gold.has(len(names))
    decided = found.gold.decided(scores, [thresholds[name] for name in names] if thresholds else None)
    right = (gold == decided).all(axis=1)
    generator = np.random.default_rng(0)

    def labels(row: int, chosen: np.ndarray) -> list[tuple[str, float]]:
        best = sorted(np.flatnonzero(chosen[row]), key=lambda i: -scores[row, i])
        return [(names[i], float(scores[row, i])) for i in best]

    def shown(row: int) -> ShownRow:
        predicted = labels(row, decided)
        more = max(0, len(predicted) - EXAMPLES)
        return ShownRow(
            id=found.ids[row], text=texts[row], gold=labels(row, gold), predicted=predicted[:EXAMPLES], more=more
        )

    drawn = {}
    for kind, rows in (("right", np.flatnonzero(right)), ("wrong", np.flatnonzero(~right))):
        drawn[kind] = [shown(row) for row in sorted(generator.permutation(rows)[:EXAMPLES].tolist())]
    return drawn
