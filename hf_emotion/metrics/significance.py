# SPDX-License-Identifier: Apache-2.0
"""Whether two systems differ on the same rows."""

from collections.abc import Callable, Sequence
from typing import TypedDict

import numpy as np

from ..gold import Gold
from .checks import check_decisions, check_shape


def paired_bootstrap(
    metric: Callable[[np.ndarray, np.ndarray], float],
    labels: np.ndarray,
    first: np.ndarray,
    second: np.ndarray,
    samples: int = 1000,
    seed: int = 0,
) -> dict[str, float]:
    """
    Paired bootstrap of metric(labels, second) − metric(labels, first) over rows, with gold labels and two systems' predictions (N, ...).

    Returns:
        `difference`, the bounds `low` and `high` of its 95 % interval (percentiles), and the two-sided `p_value` =
        2·min(share ≤ 0, share ≥ 0), at least 1/samples.
    """
    labels, first, second = np.asarray(labels), np.asarray(first), np.asarray(second)
    for name, system in (("first", first), ("second", second)):
        check_shape(name, system, (len(labels), *system.shape[1:]))
    generator = np.random.default_rng(seed)
    differences = np.empty(samples)
    for i in range(samples):
        rows = generator.integers(0, len(labels), len(labels))
        differences[i] = metric(labels[rows], second[rows]) - metric(labels[rows], first[rows])
    return _interval(metric(labels, second) - metric(labels, first), differences)


def bootstrap_over_seeds(
    labels: np.ndarray,
    first: np.ndarray,
    second: np.ndarray,
    paired_seeds: bool = False,
    samples: int = 10_000,
    seed: int = 0,
) -> dict[str, float]:
    """
    Hierarchical bootstrap of the difference between two systems' macro-F1, over rows and over the seeds of their trainings.

    F is the `macro_f1` of one seed on some rows, D = mean_j F(second_j) − mean_i F(first_i) over S₂ and S₁ seeds. One sample is

        D* = D(N rows drawn with replacement, all seeds) + D(all rows, S − 1 seeds drawn with replacement) − D

    - Rows: the same ones for both systems and all seeds.
    - Seeds: each system has its own draw; with `paired_seeds` both have the same. The mean of S − 1 draws has the variance
      s²/S of a mean of S seeds (Rao and Wu, 1988, "Resampling Inference With Complex Survey Data"); S draws have less. A single
      seed is kept as it is: its spread over trainings is unknown and missing from the interval.
    - The deviations of both levels are added. Seeds drawn inside drawn rows would count three times how seeds differ on single
      rows (Owen, 2007, "The Pigeonhole Bootstrap"); this counts it twice, so the interval tends to be too wide.

    Args:
        labels: gold class ids (N,), or (N, C) of 0 and 1.
        first, second: the decisions of each seed of a system, (S, N) or (S, N, C).
        paired_seeds: whether the i-th seed of both systems is the same (S₁ = S₂).

    Returns:
        `difference` D, `low`, `high` and `p_value`, as `paired_bootstrap` has them, which it is for one seed each.
    """
    labels, first, second = np.asarray(labels), np.asarray(first), np.asarray(second)
    for name, system in (("first", first), ("second", second)):
        check_shape(name, system, (len(system), *labels.shape))
    if paired_seeds and len(first) != len(second):
        raise ValueError(f"`paired_seeds` needs as many seeds in both systems, got {len(first)} and {len(second)}.")
    of_seeds = [np.array([macro_f1(labels, one) for one in system]) for system in (first, second)]  # (S₁,), (S₂,)
    rows = len(labels)
    generator = np.random.default_rng(seed)
    scores = [_weighted_macro_f1(labels, system) for system in (first, second)]
    differences = np.empty(samples)
    step = max(1, 2**20 // rows)  # samples drawn at once: 8 MB of row numbers
    for start in range(0, samples, step):
        part = differences[start : start + step]
        drawn = generator.integers(0, rows, (len(part), rows)) + rows * np.arange(len(part))[:, None]
        weights = np.bincount(drawn.ravel(), minlength=drawn.size).reshape(drawn.shape).astype(np.float32)
        part[:] = scores[1](weights).mean(axis=1) - scores[0](weights).mean(axis=1)
    picked: list[np.ndarray] = []
    for own, sign in zip(of_seeds, (-1, 1), strict=True):
        if len(own) > 1:
            if not (paired_seeds and picked):
                picked.append(generator.integers(0, len(own), (samples, len(own) - 1)))
            differences += sign * (own[picked[-1]].mean(axis=1) - own.mean())
    return _interval(of_seeds[1].mean() - of_seeds[0].mean(), differences)


def _weighted_macro_f1(labels: np.ndarray, system: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """A function of how often each row counts, (B, N) float32: the `macro_f1` of each seed of a system, (B, S)."""
    ids = Gold(labels).single_label
    labels, system = _decided(labels, system)
    seeds, rows, count = system.shape
    # Whole numbers: exact in float32 up to 2^24.
    hits, totals = (
        values.transpose(1, 0, 2).reshape(rows, -1).astype(np.float32)
        for values in (system & labels, system.astype(np.int8) + labels)
    )

    def score(weights: np.ndarray) -> np.ndarray:
        shape = (len(weights), seeds, count)
        found = (weights @ totals).reshape(shape)
        f1 = 2 * (weights @ hits).reshape(shape).astype(np.float64) / np.maximum(found, 1)
        return f1.sum(axis=2) / ((found > 0).sum(axis=2) if ids else count)

    return score


def _interval(difference: float, differences: np.ndarray) -> dict[str, float]:
    """The difference, the percentile interval and the p-value of its bootstrap samples."""
    low, high = np.percentile(differences, [2.5, 97.5])
    zero = 1e-12  # sums that are equal may differ in the last digits
    p_value = 2 * min((differences <= zero).mean(), (differences >= -zero).mean())
    return {
        "difference": float(difference),
        "low": float(low),
        "high": float(high),
        "p_value": float(min(1.0, max(p_value, 1 / len(differences)))),
    }


def mcnemar(labels: np.ndarray, first: np.ndarray, second: np.ndarray) -> dict[str, float]:
    """McNemar's exact test on the rows that only one system has fully right: `only_first`, `only_second`, and the `p_value`."""
    from statsmodels.stats.contingency_tables import mcnemar as test

    labels, first, second = np.asarray(labels), np.asarray(first), np.asarray(second)
    for predictions in (first, second):
        _check_decided(labels, predictions)
    right = [(predictions == labels).reshape(len(labels), -1).all(axis=1) for predictions in (first, second)]
    table = [[int((right[0] == a)[right[1] == b].sum()) for b in (True, False)] for a in (True, False)]
    return {"only_first": table[0][1], "only_second": table[1][0], "p_value": float(test(table, exact=True).pvalue)}


def _check_decided(labels: np.ndarray, predictions: np.ndarray) -> None:
    check_shape("decisions", predictions, labels.shape)
    check_decisions(predictions, "decisions")


def _decided(labels: np.ndarray, predictions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both as (..., C) bool; class ids over those that occur."""
    if Gold(labels).single_label:
        classes = np.union1d(labels, predictions)
        labels, predictions = labels[:, None] == classes, predictions[..., None] == classes
    return labels.astype(bool), predictions.astype(bool)


def macro_f1(labels: np.ndarray, predictions: np.ndarray) -> float:
    """Macro-F1 of (N, C) decisions, or of (N,) class ids over the ids that occur; a label with neither rows nor predictions counts 0."""
    _check_decided(labels, predictions)
    labels, predictions = _decided(labels, predictions)
    hits = (labels & predictions).sum(axis=0)
    return float(np.mean(2 * hits / np.maximum(labels.sum(axis=0) + predictions.sum(axis=0), 1)))


class Spread(TypedDict):
    """A figure over seeds: its mean and standard deviation; None: not a number, or one seed."""

    mean: float | None
    std: float | None


def over_seeds(values: Sequence[float | None]) -> Spread:
    """Mean and standard deviation (n-1; None for one value) of a figure; None among the values counts as NaN."""
    series = np.array(values, dtype=np.float64)
    return {"mean": float(series.mean()), "std": float(series.std(ddof=1)) if len(series) > 1 else None}


def mean_std(value: Spread | None, digits: int = 4) -> str:
    """A figure over seeds for a table: "0.5213 ± 0.0042", without a spread for one seed, "-" for no figure."""
    if value is None or value["mean"] is None or value["mean"] != value["mean"]:
        return "-"
    return f"{value['mean']:.{digits}f}" + ("" if value["std"] is None else f" ± {value['std']:.{digits}f}")
