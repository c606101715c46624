# SPDX-License-Identifier: Apache-2.0
"""Measures how sure a run is of what it predicts: calibration, curves over thresholds, and which labels it gives together."""

from pathlib import Path
from typing import TypedDict

import numpy as np
from scipy.cluster.hierarchy import linkage
from scipy.spatial.distance import squareform

from .. import metrics
from ..metrics.calibration import Reliability
from ..metrics.significance import Spread, over_seeds
from ..run_report import RunReport
from ..tasks.held_out import AT_BOUND
from .finished_runs import Predictions, read_predictions


GRID = np.linspace(0, 1, 101)  # thresholds of the curves
NOT_CALIBRATED = "No temperature lowered the loss on validation rows that it was not fitted on."


class Calibration(TypedDict):
    """`before` and `after` a temperature: what `metrics.reliability` gives, and `ece_over_seeds`; `note`: what is odd about it."""

    temperature: float
    temperature_over_seeds: Spread
    unit: str
    before: dict
    after: dict
    fitted_on_other_rows: bool
    note: str | None


class Curves(TypedDict):
    """Precision, recall and F1 over thresholds: their macro averages, and for each label with its tuned threshold."""

    thresholds: list[float]
    macro: dict[str, list[float]]
    labels: dict[str, dict]


class Correlation(TypedDict):
    """Pearson's r of the labels' probabilities, and the tree of the labels."""

    labels: list[str]
    matrix: list[list[float]]
    linkage: list[list[float]]


def validation_predictions(
    run: Path, split: str, found: Predictions, what: str, left_out: dict[str, str]
) -> Predictions | None:
    """The predictions for the validation part; None, with a reason in `left_out`, if the folder does not hold them."""
    if split == "validation":
        return found
    try:
        return read_predictions(run, "validation", found.gold.multi_label)
    except ValueError as error:
        left_out[what] = str(error)
        return None


def calibrated(report: RunReport, split: str, per_seed: list[Predictions]) -> Calibration | None:
    """Reliability without and with the temperature that the run fitted on the validation part; None if it fitted none."""
    best = report.runs.index(report.best)
    # With only one part of the predictions, it is that of the best seed, whose checkpoint the run folder holds.
    runs = report.runs if len(per_seed) > 1 else [report.best]
    temperatures = [run.temperature for run in runs if run.temperature is not None]
    if len(temperatures) < len(runs):
        return None

    def measure(rows: Predictions, temperature: float) -> tuple[float, Reliability, Reliability]:
        gold, calibrated = rows.gold.values, rows.probabilities
        if rows.gold.multi_label:  # each annotated label of each row is a decision
            gold, calibrated = gold[rows.annotated][:, None], calibrated[rows.annotated][:, None]
        raw = metrics.temperature_scaled(calibrated, 1 / temperature, rows.gold.multi_label)
        return temperature, metrics.reliability(gold, raw), metrics.reliability(gold, calibrated)

    each = [measure(own, temperature) for own, temperature in zip(per_seed, temperatures, strict=True)]
    temperature, before, after = each[best if len(each) > 1 else 0]
    return {
        "temperature": temperature,
        "temperature_over_seeds": over_seeds([own for own, _, _ in each]),
        "unit": "labels of rows" if per_seed[0].gold.multi_label else "rows",
        "before": {**before, "ece_over_seeds": over_seeds([own["ece"] for _, own, _ in each])},
        "after": {**after, "ece_over_seeds": over_seeds([own["ece"] for _, _, own in each])},
        "fitted_on_other_rows": split != "validation",
        "note": AT_BOUND if report.best.temperature_at_bound else NOT_CALIBRATED if temperature == 1 else None,
    }


def threshold_curves(
    run: Path, report: RunReport, split: str, found: Predictions, left_out: dict[str, str]
) -> Curves | None:
    """Precision, recall and F1 over thresholds on the validation part, where they were tuned."""
    what = "threshold curves"
    if not found.gold.multi_label:
        left_out[what] = "each row has one label: the most probable one is taken, without thresholds."
        return None
    dev = validation_predictions(run, split, found, what, left_out)
    if dev is None:
        return None
    tuned = report.best.thresholds or {}
    labels: dict[str, dict] = {}
    sums: dict[str, np.ndarray] = {}
    for column, name in enumerate(dev.names):
        gold, scores = dev.gold.values[:, column], dev.probabilities[:, column]
        curve = metrics.threshold_curve(gold, scores, GRID)
        curve.pop("thresholds")
        for key, values in curve.items():
            sums[key] = sums.get(key, 0) + values
        labels[name] = {
            **{key: values.tolist() for key, values in curve.items()},
            "tuned": tuned[name],
            "tuned_f1": float(metrics.threshold_curve(gold, scores, [tuned[name]])["f1"][0]),
            "support": int(gold.sum()),
        }
    macro = {key: (values / len(dev.names)).tolist() for key, values in sums.items()}
    return {"thresholds": GRID.tolist(), "macro": macro, "labels": labels}


def label_correlation(found: Predictions, left_out: dict[str, str]) -> Correlation | None:
    """Pearson's r of the labels' probabilities over the rows where both were annotated; 0 for one whose probability never changes."""
    if len(found.names) < 2 or len(found.ids) < 2:
        left_out["label correlation"] = "it needs two labels and two rows."
        return None
    import pandas

    probabilities = pandas.DataFrame(np.where(found.annotated, found.probabilities, np.nan))
    matrix = np.nan_to_num(probabilities.corr().to_numpy())
    np.fill_diagonal(matrix, 1.0)
    distance = np.clip(1 - (matrix + matrix.T) / 2, 0, 2)
    tree = linkage(squareform(distance, checks=False), "average", optimal_ordering=True)
    return {"labels": found.names, "matrix": matrix.tolist(), "linkage": tree.tolist()}
