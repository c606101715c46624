# SPDX-License-Identifier: Apache-2.0
"""
Measures answers that a model may refuse, and sets of labels. N rows, C labels.

Risk is the mean loss of the rows that are answered, coverage their share (Geifman and El-Yaniv 2017). Prediction sets are split
conformal: the labels whose probability is at least a quantile over validation rows (Sadinle, Lei and Wasserman 2019).
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..gold import Gold
from .checks import check_decisions, check_finite, check_probabilities, check_shape
from .numbers import mean


ROUNDING = 1e-9  # 0.9 · 10 must be 9 rows


def row_losses(labels: np.ndarray, decisions: np.ndarray) -> np.ndarray:
    """
    The loss of each row, (N,) in [0, 1]. Class ids (N,): 0 where both are equal, else 1. (N, C) of 0 and 1: 1 − |A ∩ B| / |A ∪ B| (one minus
    Jaccard's index) of gold and given labels, 0 where there are none of both.
    """
    labels, decisions = np.asarray(labels), np.asarray(decisions)
    check_shape("decisions", decisions, labels.shape)
    if Gold(labels).single_label:
        return (labels != decisions).astype(float)
    gold, decided = labels > 0, (decisions > 0) & (labels >= 0)  # -1: the label was not annotated
    union = (gold | decided).sum(axis=1)
    return np.where(union > 0, 1 - (gold & decided).sum(axis=1) / np.maximum(union, 1), 0.0)


def risk_coverage(confidence: np.ndarray, losses: np.ndarray) -> dict[str, Any]:
    """
    Risk over coverage, if the least sure rows are refused first. Rows of equal confidence each count with the mean loss of all of them.

    Args:
        confidence: (N,), any scale; larger is surer.
        losses: (N,).

    Returns:
        `coverage` 1/N to 1, `risk` of as many of the surest rows, and `best`, the risk if the rows were sorted by their loss: (N,) each;
        `aurc`, the area under the curve (mean of `risk`), and `e_aurc`, what it exceeds the area of `best` by (Geifman, Uziel and El-Yaniv
        2019).
    """
    confidence, losses = _checked(confidence, losses)
    number = np.arange(1, len(losses) + 1)
    _, group, counts = np.unique(-confidence, return_inverse=True, return_counts=True)
    means = np.bincount(group, losses, minlength=len(counts)) / counts
    risk, best = (np.cumsum(each) / number for each in (means[np.sort(group)], np.sort(losses)))
    aurc, least = mean(risk), mean(best)
    return {
        "coverage": number / max(len(losses), 1),
        "risk": risk,
        "best": best,
        "aurc": aurc,
        "e_aurc": max(aurc - least, 0.0) if len(losses) else math.nan,
    }


def abstention_threshold(confidence: np.ndarray, losses: np.ndarray, wanted: Mapping[str, float]) -> float:
    """
    The confidence below which rows are refused, 0 if none is. Give the rows of the validation part.

    Args:
        confidence, losses: (N,), as for `risk_coverage`; confidence in [0, 1].
        wanted: {"coverage": x}: the largest threshold that answers at least this share of the rows; or {"accuracy": x}: the smallest one
            with 1 − risk of at least x on these rows, which guarantees nothing for others (ValueError if none has); x in (0, 1].
    """
    confidence, losses = _checked(confidence, losses)
    ((name, value),) = wanted.items()
    levels, counts = np.unique(-confidence, return_counts=True)  # the surest first
    answered = np.cumsum(counts)
    if name == "coverage":
        chosen = int(np.argmax(answered >= math.ceil(value * len(confidence) - ROUNDING)))
    else:
        risk = risk_coverage(confidence, losses)["risk"][answered - 1]
        fitting = np.flatnonzero(risk <= 1 - value + ROUNDING)
        if not len(fitting):
            best = int(np.argmin(risk))
            raise ValueError(
                f"`accuracy` {value} is not reached on the validation rows: the best is {1 - risk[best]:.3f}."
            )
        chosen = int(fitting[-1])
    return 0.0 if chosen == len(levels) - 1 else float(-levels[chosen])


def answered(confidence: np.ndarray, losses: np.ndarray, threshold: float) -> dict[str, float]:
    """`coverage`, the share of rows whose confidence is at least the threshold, and their mean loss, `risk`; NaN without such rows."""
    confidence, losses = _checked(confidence, losses)
    above = confidence >= threshold
    return {"coverage": mean(above), "risk": mean(losses[above])}


def set_threshold(labels: np.ndarray, probabilities: np.ndarray, coverage: float) -> float:
    """
    The probability t from which on labels belong to a row's prediction set. A further row that is exchangeable with these has all its gold
    labels in its set with a probability of at least `coverage`, in (0, 1). Give the rows of the validation part.

    With s the smallest probability among a row's gold labels (1 for a row without any), t is the ⌊(N + 1)(1 − coverage)⌋-th smallest s;
    with too few rows for such a rank it is 0, so that sets hold every label.
    """
    if not 0 < coverage < 1:
        raise ValueError(f"`prediction_sets` is a coverage and must lie in (0, 1), got {coverage}.")
    scores = np.sort(np.where(*_gold(labels, probabilities), 1.0).min(axis=1))
    rank = math.floor((len(scores) + 1) * (1 - coverage) + ROUNDING)
    return float(scores[rank - 1]) if rank else 0.0


def prediction_sets(labels: np.ndarray, sets: np.ndarray, names: Sequence[str]) -> dict:
    """
    Measures sets of labels (N, C) bool: `coverage`: the share of rows whose set holds all gold labels; `size`: the mean number of labels in a
    set; `empty`: the share of empty sets; `labels`: for each label the share of its rows whose set holds it.
    """
    check_decisions(np.asarray(sets), "sets")
    gold, sets = _gold(labels, sets)
    sets = sets > 0
    sizes, rows = sets.sum(axis=1), gold.sum(axis=0)
    with np.errstate(invalid="ignore"):
        covered = (gold & sets).sum(axis=0) / rows
    return {
        "coverage": mean((sets | ~gold).all(axis=1)),
        "size": mean(sizes),
        "empty": mean(sizes == 0),
        "labels": dict(zip(names, covered.tolist(), strict=True)),
    }


def _gold(labels: np.ndarray, probabilities: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The gold labels as (N, C) bool, and the (N, C) probabilities (decisions)."""
    labels, probabilities = np.asarray(labels), np.asarray(probabilities)
    check_probabilities(probabilities)
    gold = Gold(labels).has(probabilities.shape[-1])
    check_shape("labels", gold, probabilities.shape)
    return gold, probabilities


def _checked(confidence: np.ndarray, losses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    confidence, losses = np.asarray(confidence, dtype=np.float64), np.asarray(losses, dtype=np.float64)
    check_shape("losses", losses, (confidence.size,))
    check_finite("confidence", confidence)
    check_finite("losses", losses)
    return confidence, losses
