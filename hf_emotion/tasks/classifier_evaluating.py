# SPDX-License-Identifier: Apache-2.0
"""Measures classifiers on a corpus."""

from collections.abc import Mapping
from typing import Any, NotRequired, TypedDict

import numpy as np
from datasets import Dataset

from .. import metrics
from ..data.splits import label_names
from ..gold import Gold
from ..run_report import decision_title
from . import corpus_of, task_of_rows
from .base import Table, Task
from .corpus_metrics import AGAINST_VOTES, at_thresholds
from .loading import CorpusSplit
from .rows import gold_of, rows_for_task


class Evaluation(TypedDict):
    """
    Figures of a classifier; `metrics`: see `at_thresholds`; `threshold`: that of "fixed" in them; abstention and prediction sets only of a
    model that has a rule for them.
    """

    rows: int
    labels: list[str]
    metrics: dict[str, dict]
    threshold: NotRequired[float]
    abstention: NotRequired[dict[str, float]]
    prediction_sets: NotRequired[dict]


def rows_for(predictor: Any, of: CorpusSplit) -> tuple[Dataset, list[str], Gold]:
    """The rows of a split that a classifier can be measured on, their label names, and the gold labels; ValueError for other rows or labels."""
    loaded, dataset = of.load(), of.dataset
    rows = rows_for_task(predictor.task, loaded)
    if rows is None:
        raise ValueError(
            f"the corpus {dataset} holds {task_of_rows(loaded).reads}, and the model reads {predictor.task.reads}."
        )
    names, gold = label_names(rows), gold_of(rows)
    if sorted(names) != sorted(predictor.labels):
        raise ValueError(
            f"the labels of {dataset} and of the checkpoint differ: {sorted(names)} and {sorted(predictor.labels)}."
        )
    values = predictor.regression
    if gold.regression is not values:
        held = ("values", "labels") if values else ("labels", "values")
        raise ValueError(f"the model gives {held[0]}, and the corpus {dataset} holds {held[1]}.")
    if not values and gold.multi_label is not predictor.multi_label:
        raise ValueError(
            f"only one of the corpus {dataset} and the model has several labels per row (`label_separator`)."
        )
    return rows, names, gold


def evaluate_single(predictor: Any, of: CorpusSplit) -> Evaluation:
    """Metrics of a model that gives each row (turn) one label."""
    rows, names, gold = rows_for(predictor, of)
    probabilities = predictor.of_rows(rows, progress=True)[:, [predictor.labels.index(name) for name in names]]
    return result_of(of.dataset, gold, probabilities, names, rows)


def result_of(
    dataset: str,
    gold: Gold,
    probabilities: np.ndarray,
    names: list[str],
    rows: Dataset | None = None,
    threshold: float = metrics.PUBLISHED_THRESHOLD,
    decisions: np.ndarray | None = None,
    temperature: float = 1.0,
) -> Evaluation:
    figures = at_thresholds(dataset, gold.values, probabilities, names, threshold, decisions, temperature, rows)
    result: Evaluation = {"rows": int(gold.labelled.sum()), "labels": names, "metrics": figures}
    if "fixed" in figures:
        result["threshold"] = threshold
    return result


def figures(task: Task, result: Mapping[str, Any], dataset: str, split: str, all_figures: bool) -> list[Table | str]:
    """The table of `metrics` for a terminal."""
    kinds = {
        kind: {name: value for name, value in values.items() if isinstance(value, float)}
        for kind, values in result["metrics"].items()
    }
    names = list(next(iter(kinds.values())))
    if not all_figures:
        names = task.main_figures(names, corpus_of(dataset).selection_metric)
        names += [name for name in AGAINST_VOTES if name in next(iter(kinds.values()))]
    limits = [result["threshold"]] if "threshold" in result else []
    header = [f"{dataset} {split} ({result['rows']} rows)", *(decision_title(kind, *limits) for kind in kinds)]
    shown: list[Table | str] = [
        Table(header, [[name, *(f"{values[name]:.4f}" for values in kinds.values())] for name in names])
    ]
    if found := result.get("abstention"):
        shown.append(f"answered: {found['coverage']:.4f} of the rows, at a risk of {found['risk']:.4f}")
    if found := result.get("prediction_sets"):
        shown.append(f"prediction sets: {found['coverage']:.4f} hold all gold labels; mean size {found['size']:.2f}")
    return shown
