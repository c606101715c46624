# SPDX-License-Identifier: Apache-2.0
"""Metrics of emotion classification: the GoEmotions metrics, single-label metrics, and threshold tuning."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from scipy.special import logit
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score

from ..gold import Gold
from ..taxonomies import GOEMOTIONS
from .checks import check_decisions, check_finite, check_ids, check_probabilities, check_shape
from .numbers import mean


PUBLISHED_THRESHOLD = 0.3  # Demszky et al. 2020 and the label-aware attention paper


def goemotions(
    labels: np.ndarray,
    probabilities: np.ndarray,
    thresholds: float | Sequence[float] = PUBLISHED_THRESHOLD,
    label_names: Sequence[str] | None = None,
    decisions: np.ndarray | None = None,
) -> dict:
    """
    Multi-label metrics. A label is predicted where its probability is strictly greater than the threshold.

    Args:
        labels, probabilities: (N, C) of 0 and 1, -1 for a label that was not annotated; (N, C) in [0, 1].
        thresholds: one for all labels, or C.
        label_names: C names; default: the 28 GoEmotions labels.
        decisions: (N, C) bool, in place of thresholds (groups of labels, each with its own threshold).

    Returns:
        `macro_f1`, `macro_precision`, `macro_recall` (over the labels that were annotated), the same for `micro` and `weighted`;
        `macro_average_precision` (mean over the labels that occur); `per_label`: {name: {precision, recall, f1, support}}, NaN and 0 for a
        label that was annotated in no row; and the paper's error analysis: `top1_accuracy` for rows with one label, `top3_accuracy` for rows with
        several, see `paper_errors`, `confusions`: the most frequent (gold, argmax) pairs of single-label rows, `neutral_to_other` and
        `other_to_neutral`: shares of the neutral (of the other) single-label rows whose argmax is another label (is neutral).
    """
    labels, probabilities = _check(labels, probabilities)
    names = list(GOEMOTIONS if label_names is None else label_names)
    check_shape("labels", labels, (len(labels), len(names)))
    if decisions is None:
        limits = np.asarray(thresholds, dtype=np.float64)
        check_probabilities(limits, "thresholds")
        predicted = (probabilities > limits).astype(np.int8)
    else:
        decisions = np.asarray(decisions)
        check_shape("decisions", decisions, labels.shape)
        check_decisions(decisions, "decisions")
        predicted = decisions.astype(np.int8)

    annotated = np.asarray(labels >= 0)
    gold = (labels > 0).astype(np.int8)
    known = np.asarray(annotated.any(axis=0)) if len(labels) else None
    result, per_label = _averages(gold, predicted * annotated, names, known)
    result["macro_average_precision"] = mean(
        [
            average_precision_score(own[rows], scores[rows])
            for own, rows, scores in zip(gold.T, annotated.T, probabilities.T, strict=True)
            if own.any()
        ]
    )
    errors = _error_analysis(gold, np.where(annotated, probabilities, -1), names)
    return {**result, "per_label": per_label, **errors}


def _averages(
    labels: np.ndarray, predicted: np.ndarray, names: Sequence[str], known: np.ndarray | None = None
) -> tuple[dict, dict[str, dict]]:
    """
    From (N, C) of 0 and 1: macro, micro and weighted precision, recall and F1; and the same and the support of each label, NaN for
    one that is not `known`, (C,) bool: it was annotated in no row. None: all were.
    """
    known = np.ones(len(names), bool) if known is None else known
    hits, found, support = (labels & predicted).sum(axis=0), predicted.sum(axis=0), labels.sum(axis=0)
    per_label = np.stack(_precision_recall_f1(hits, found, support))  # (3, C)
    averages = {
        "macro": per_label[:, known].mean(axis=1) if known.any() else np.full(3, np.nan),
        "micro": _precision_recall_f1(hits.sum(), found.sum(), support.sum()),
        "weighted": (per_label * support).sum(axis=1) / max(support.sum(), 1),
    }
    result = {
        f"{average}_{name}": float(value)
        for average, values in averages.items()
        for name, value in zip(("precision", "recall", "f1"), values, strict=True)
    }
    per_label[:, ~known] = np.nan
    each = zip(names, *per_label.tolist(), support.tolist(), strict=True)
    return result, {
        name: {"precision": precision, "recall": recall, "f1": f1, "support": rows}
        for name, precision, recall, f1, rows in each
    }


def _precision_recall_f1(hits, found, support) -> tuple:
    """Precision, recall and F1 from counts; 0 where a denominator is 0, as scikit-learn's `zero_division=0`."""
    hits, found, support = (np.asarray(count, dtype=np.float64) for count in (hits, found, support))
    parts, wholes = (hits, hits, 2 * hits), (found, support, found + support)
    return tuple(
        np.divide(part, whole, out=np.zeros(np.broadcast_shapes(part.shape, whole.shape)), where=whole > 0)
        for part, whole in zip(parts, wholes, strict=True)
    )


def _error_analysis(labels: np.ndarray, probabilities: np.ndarray, names: Sequence[str]) -> dict:
    counts = labels.sum(axis=1)
    single = counts == 1
    right, predicted = paper_errors(labels, probabilities)
    gold, first = labels[single].argmax(axis=1), predicted[single]
    result = {
        "top1_accuracy": mean(right[single]),
        "top3_accuracy": mean(right[counts > 1]),
        "confusions": [
            {"gold": names[g], "predicted": names[p], "rows": rows}
            for (g, p), rows in confusions(gold, first).most_common(10)
        ],
    }
    if "neutral" in names:
        neutral = list(names).index("neutral")
        result["neutral_to_other"] = mean(first[gold == neutral] != neutral)
        result["other_to_neutral"] = mean(first[gold != neutral] == neutral)
    return result


def paper_errors(labels: np.ndarray, probabilities: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """
    Which rows are right by the rule of the label-aware attention paper (section 4.4): a row with one gold label is right if
    that is the most probable label, a row with several if all are among the three most probable.

    Returns:
        (N,) bool, False also for a row without a gold label; and (N,) the most probable labels.
    """
    labels, ranked = np.asarray(labels), np.argsort(-np.asarray(probabilities), axis=1, kind="stable")
    if Gold(labels).single_label:
        return labels == ranked[:, 0], ranked[:, 0]
    top3 = np.zeros_like(labels)
    np.put_along_axis(top3, ranked[:, :3], 1, axis=1)
    first_is_gold = np.take_along_axis(labels, ranked[:, :1], axis=1)[:, 0] == 1
    counts = labels.sum(axis=1)
    right = np.where(counts == 1, first_is_gold, (labels <= top3).all(axis=1) & (counts > 1))
    return right, ranked[:, 0]


def confusions(gold: np.ndarray, predicted: np.ndarray) -> Counter[tuple[int, int]]:
    """How often each pair (gold, predicted) of different class ids occurs."""
    pairs = zip(gold.tolist(), predicted.tolist(), strict=True)
    return Counter((g, p) for g, p in pairs if g != p)


def classification(labels: np.ndarray, probabilities: np.ndarray, label_names: Sequence[str]) -> dict:
    """Metrics of the argmax of (N, C) for (N,) class ids: `accuracy`; F1, precision, recall, `macro` and `weighted`; and `per_label`."""
    labels, probabilities = np.asarray(labels), np.asarray(probabilities)
    check_shape("probabilities", probabilities, (len(labels), len(label_names)))
    check_ids(labels, len(label_names))
    check_finite("probabilities", probabilities)
    predicted = probabilities.argmax(axis=1)
    ids = np.arange(len(label_names))
    averages, per_label = _averages(labels[:, None] == ids, predicted[:, None] == ids, label_names)
    kept = {name: value for name, value in averages.items() if not name.startswith("micro")}  # each is the accuracy
    return {"accuracy": mean(labels == predicted), **kept, "per_label": per_label}


def tune_thresholds(labels: np.ndarray, probabilities: np.ndarray) -> list[float]:
    """
    For each label the threshold, to be applied with a strict >, with the best expected F1 on these rows, which must be the validation part,
    under the label's calibrated probabilities (Platt 1999; Lipton, Elkan and Naryanaswamy 2014).

    The best F1 of the labels themselves would leave the threshold of a rare emotion to a few rows: GoEmotions' validation part
    has 13 rows of grief. Calibrated probabilities choose better thresholds for unseen rows.

    Candidates lie halfway between neighbouring probabilities; among equally good ones the widest gap wins. A label without
    positive rows gets the threshold that is best for all labels pooled. Rows where a label was not annotated, -1, do not count for it.
    """
    labels, probabilities = _check(labels, probabilities)
    annotated = np.asarray(labels >= 0)
    pooled = None
    thresholds = []
    for every, scores, rows in zip(labels.T, probabilities.T, annotated.T, strict=True):
        gold, scores = every[rows], scores[rows]
        if gold.any():
            thresholds.append(_best_threshold(_calibrated(gold, scores), scores))
        else:
            if pooled is None:
                all_gold, all_scores = labels[annotated], probabilities[annotated]
                pooled = _best_threshold(all_gold, all_scores) if all_gold.any() else 0.5
            thresholds.append(pooled)
    return thresholds


def _calibrated(gold: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    """(N,) sigmoids of a * logit + b with the likeliest a and b; a slight penalty keeps them finite."""
    if gold.all():
        return np.ones(len(gold))
    logits = logit(np.clip(probabilities.astype(np.float64), 1e-6, 1 - 1e-6))[:, None]
    return LogisticRegression(C=100).fit(logits, gold).predict_proba(logits)[:, 1]


def threshold_curve(
    labels: np.ndarray, probabilities: np.ndarray, thresholds: Sequence[float] | np.ndarray | None = None
) -> dict[str, np.ndarray]:
    """
    Precision, recall and F1 of one label at thresholds, applied with a strict >.

    Args:
        labels: (N,) of 0 and 1, or probabilities that a row has the label; the counts are then expected counts.
        probabilities: (N,) in [0, 1].
        thresholds: (T,); default: the candidates of `tune_thresholds`, the highest first.
    """
    scores, gold = np.asarray(probabilities, dtype=np.float64), np.asarray(labels, dtype=np.float64)
    check_probabilities(scores)
    check_probabilities(gold, "labels")
    at = _candidates(scores)[0] if thresholds is None else np.asarray(thresholds, dtype=np.float64)
    highest_first = np.argsort(-scores, kind="stable")
    found = np.searchsorted(-scores[highest_first], -at, side="left")
    hits = np.append(0.0, np.cumsum(gold[highest_first]))[found]
    precision, recall, f1 = _precision_recall_f1(hits, found, gold.sum())
    return {"thresholds": at, "precision": precision, "recall": recall, "f1": f1}


def _candidates(scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Thresholds halfway between neighbouring probabilities (and 0), the highest first, and the width of the gap of each."""
    above = np.unique(np.append(scores.astype(np.float64), 0.0))[::-1]
    above, below = above[:-1], above[1:]
    return (above + below) / 2, above - below


def _best_threshold(gold: np.ndarray, probabilities: np.ndarray) -> float:
    thresholds, gaps = _candidates(probabilities)
    if not len(thresholds):  # all probabilities are 0
        return 0.0
    f1 = threshold_curve(gold, probabilities, thresholds)["f1"]
    best = np.flatnonzero(f1 >= f1.max() - 1e-12)
    return float(thresholds[best[np.argmax(gaps[best])]])


def _check(labels, probabilities) -> tuple[np.ndarray, np.ndarray]:
    labels, probabilities = np.asarray(labels), np.asarray(probabilities)
    check_shape("probabilities", probabilities, labels.shape)
    if not np.isin(labels, (-1, 0, 1)).all():
        raise ValueError("`labels` must hold only 0 and 1, and -1 for what was not annotated.")
    check_probabilities(probabilities)
    return labels.astype(np.int8), probabilities
