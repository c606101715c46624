# SPDX-License-Identifier: Apache-2.0
"""Whether two systems differ on the same rows."""

from collections.abc import Callable, Sequence

import numpy as np

from .multi_label import check_decisions


def paired_bootstrap(
    metric: Callable[[np.ndarray, np.ndarray], float],
    labels: np.ndarray,
    first: np.ndarray,
    second: np.ndarray,
    samples: int = 1000,
    seed: int = 0,
) -> dict[str, float]:
    """
    Paired bootstrap of metric(labels, second) − metric(labels, first) over rows.

    Args:
        metric: function of (labels, predictions).
        labels, first, second: gold labels and the two systems' predictions, row by row (N, ...).
        samples: bootstrap samples, at least 1.

    Returns:
        `difference`, the bounds `low` and `high` of its 95 % interval (percentiles), and the two-sided `p_value` =
        2·min(share ≤ 0, share ≥ 0), at least 1/samples.

    Raises:
        ValueError: row counts that differ, `samples` below 1.
    """
    labels, first, second = _same_rows(labels, first, second)
    if samples < 1:
        raise ValueError(f"`samples` must be at least 1, got {samples}.")
    generator = np.random.default_rng(seed)
    differences = np.empty(samples)
    for i in range(samples):
        rows = generator.integers(0, len(labels), len(labels))
        differences[i] = metric(labels[rows], second[rows]) - metric(labels[rows], first[rows])
    low, high = np.percentile(differences, [2.5, 97.5])
    p_value = 2 * min((differences <= 0).mean(), (differences >= 0).mean())
    return {
        "difference": float(metric(labels, second) - metric(labels, first)),
        "low": float(low),
        "high": float(high),
        "p_value": float(min(1.0, max(p_value, 1 / samples))),
    }


def mcnemar(labels: np.ndarray, first: np.ndarray, second: np.ndarray) -> dict[str, float]:
    """
    McNemar's exact test on which rows each system has wholly right.

    Returns:
        `only_first` and `only_second`, rows that one system alone has right, and the `p_value`.

    Raises:
        ValueError: row counts that differ, predictions that are no decisions.
    """
    from statsmodels.stats.contingency_tables import mcnemar as test

    labels, first, second = _same_rows(labels, first, second)
    for predictions in (first, second):
        _check_decided(labels, predictions)
    right = [(predictions == labels).reshape(len(labels), -1).all(axis=1) for predictions in (first, second)]
    table = [[int((right[0] == a)[right[1] == b].sum()) for b in (True, False)] for a in (True, False)]
    return {"only_first": table[0][1], "only_second": table[1][0], "p_value": float(test(table, exact=True).pvalue)}


def _same_rows(labels, first, second) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    labels, first, second = np.asarray(labels), np.asarray(first), np.asarray(second)
    if not len(labels) == len(first) == len(second):
        raise ValueError(
            f"row counts differ: labels {len(labels)}, first {len(first)}, second {len(second)}. Both systems must be measured on "
            "the same rows."
        )
    return labels, first, second


def _check_decided(labels: np.ndarray, predictions: np.ndarray) -> None:
    if predictions.shape != labels.shape:
        raise ValueError(
            f"predictions must be decisions in the shape of the labels {labels.shape}, got {predictions.shape}: compare probabilities "
            "with their thresholds, or take the argmax, first."
        )
    check_decisions(predictions, "predictions")


def macro_f1(labels: np.ndarray, predictions: np.ndarray) -> float:
    """
    Macro-F1 of (N, C) decisions, or of (N,) class ids over the ids that occur; a label without rows and predictions counts 0.

    Raises:
        ValueError: predictions of another shape, or that are no decisions.
    """
    _check_decided(labels, predictions)
    if labels.ndim == 1:
        classes = np.union1d(labels, predictions)
        labels, predictions = labels[:, None] == classes, predictions[:, None] == classes
    labels, predictions = labels.astype(bool), predictions.astype(bool)
    hits = (labels & predictions).sum(axis=0)
    return float(np.mean(2 * hits / np.maximum(labels.sum(axis=0) + predictions.sum(axis=0), 1)))


def over_seeds(values: Sequence[float | None]) -> dict[str, float | None]:
    """Mean and standard deviation (n-1; None for one value) of a figure; None among the values counts as NaN."""
    series = np.array(values, dtype=np.float64)
    return {"mean": float(series.mean()), "std": float(series.std(ddof=1)) if len(series) > 1 else None}


def mean_std(value: dict[str, float | None] | None, digits: int = 4) -> str:
    """A figure over seeds for a table: "0.5213 ± 0.0042", without a spread for one seed, "-" where there is none."""
    if value is None or value["mean"] is None or value["mean"] != value["mean"]:
        return "-"
    return f"{value['mean']:.{digits}f}" + ("" if value["std"] is None else f" ± {value['std']:.{digits}f}")
