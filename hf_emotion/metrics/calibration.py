# SPDX-License-Identifier: Apache-2.0
"""Measures how well probabilities agree with accuracy, and fits one temperature that corrects them (Guo et al. 2017)."""

from typing import TypedDict

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import expit, log_softmax, logit, softmax

from ..gold import Gold
from .checks import check_probabilities, check_shape


BINS = 15
TEMPERATURES = (0.05, 20.0)
PRIOR_ROWS = 20
FOLDS = 5


class Reliability(TypedDict):
    """What `reliability` returns."""

    ece: float
    bins: list[dict[str, float]]


def reliability(labels: np.ndarray, probabilities: np.ndarray, bins: int = BINS) -> Reliability:
    """
    Confidence against accuracy in bins of equal width, and the expected calibration error.

    For single-label data each row is a decision: its confidence is the largest probability, and it is right where that is the gold
    label's. For multi-label data each label of each row is one, with its probability, and it is right where the row has the label.

    Args:
        labels: (N,) class ids, or (N, C) of 0 and 1.
        probabilities: (N, C).

    Returns:
        `ece` = Σ_b n_b / n · |accuracy_b − confidence_b|; `bins`: for each (lower, upper] `upper`, `count`, and the means `confidence` and
        `accuracy`, NaN where it is empty.
    """
    labels, probabilities = np.asarray(labels), np.asarray(probabilities, dtype=np.float64)
    check_probabilities(probabilities)
    if not Gold(labels).single_label:
        confidence, right = probabilities.ravel(), labels.ravel() == 1
    else:
        confidence, right = probabilities.max(axis=1), probabilities.argmax(axis=1) == labels
    number = np.clip(np.ceil(confidence * bins).astype(int) - 1, 0, bins - 1)
    counts = np.bincount(number, minlength=bins)
    with np.errstate(invalid="ignore"):
        means = [np.bincount(number, values, minlength=bins) / counts for values in (confidence, right)]
    used = counts > 0
    gaps = np.abs(means[0] - means[1])[used]
    return {
        "ece": float((counts[used] * gaps).sum() / counts.sum()) if len(confidence) else float("nan"),
        "bins": [
            {"upper": (i + 1) / bins, "count": int(counts[i]), "confidence": float(c), "accuracy": float(a)}
            for i, (c, a) in enumerate(zip(*means, strict=True))
        ],
    }


def fit_temperature(labels: np.ndarray, probabilities: np.ndarray) -> float:
    """
    The temperature T that corrects probabilities: logits are divided by it; above 1 the probabilities are too confident.

    T has the least negative log-likelihood of the gold labels and of 20 further rows, whose labels are drawn from the probabilities
    themselves, so that few rows move it little. It is 1 unless it lowers the loss on rows that it was not fitted on (five folds).

    Args:
        labels: (N,) class ids or (N, C) of 0 and 1, -1 where a label was not annotated, of the validation part.
        probabilities: (N, C), the softmax of the logits, for multi-label data the sigmoid.

    Returns:
        T from 0.05 to 20; at one of these bounds the best one lies beyond, see `at_bound`.
    """
    labels, probabilities = np.asarray(labels), np.asarray(probabilities)
    check_shape("labels", labels, probabilities.shape[: labels.ndim])
    multi_label = not Gold(labels).single_label
    logits = _logits(probabilities, multi_label)
    if multi_label:
        annotated = (labels >= 0).any(axis=1)
        labels, logits = labels[annotated], logits[annotated]
        gold, own = (np.where(labels >= 0, values, np.nan) for values in (labels, expit(logits)))
    else:
        gold, own = np.eye(logits.shape[1])[labels], softmax(logits, axis=1)

    def loss(rows: np.ndarray, target: np.ndarray, temperature: float) -> float:
        """The summed cross-entropy of `target` (N, C) of some rows."""
        scaled = logits[rows] / temperature
        if multi_label:
            return float(np.nansum(np.logaddexp(0, scaled) - target[rows] * scaled))
        return float(-(target[rows] * log_softmax(scaled, axis=1)).sum())

    def fitted(rows: np.ndarray) -> float:
        target = (len(rows) * gold + PRIOR_ROWS * own) / (len(rows) + PRIOR_ROWS)
        found = minimize_scalar(
            lambda log: loss(rows, target, np.exp(log)),
            bounds=np.log(TEMPERATURES),
            method="bounded",
            options={"xatol": 1e-4},
        )
        return float(np.exp(found.x))

    if len(labels) < 2:
        return 1.0
    rows = np.random.default_rng(0).permutation(len(labels))
    folds = np.array_split(rows, FOLDS)
    held_out = sum(loss(fold, gold, fitted(np.setdiff1d(rows, fold))) for fold in folds if len(fold))
    return fitted(rows) if held_out < loss(rows, gold, 1.0) else 1.0


def at_bound(temperature: float) -> bool:
    """Whether a fitted temperature is a bound of the search: the best one lies beyond it."""
    return bool(np.isclose(temperature, TEMPERATURES, rtol=1e-3).any())


def temperature_scaled(probabilities: np.ndarray, temperature: float, multi_label: bool) -> np.ndarray:
    """The probabilities (N, C) that logits / temperature give. The order of the labels in a row does not change."""
    if not temperature > 0:
        raise ValueError(f"`temperature` must be positive, got {temperature}.")
    scaled = _logits(np.asarray(probabilities), multi_label) / temperature
    return expit(scaled) if multi_label else softmax(scaled, axis=1)


def scaled_threshold(threshold: float, temperature: float) -> float:
    """The threshold for calibrated probabilities that decides as `threshold` does for uncalibrated ones (sigmoids)."""
    if threshold in (0, 1):
        return threshold
    return float(expit(logit(threshold) / temperature))


def _logits(probabilities: np.ndarray, multi_label: bool) -> np.ndarray:
    check_probabilities(probabilities)
    # Logits up to a constant; a float32 probability that became 0 or 1 had a logit beyond these bounds.
    probabilities = probabilities.astype(np.float64)
    if multi_label:
        return logit(np.clip(probabilities, 1e-30, 1 - 2.0**-25))
    return np.log(np.maximum(probabilities, 1e-45))
