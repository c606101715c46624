# SPDX-License-Identifier: Apache-2.0
"""Metrics of aspect sentiment, as published for SentiHood and for the aspect categories of SemEval-2014."""

from collections.abc import Sequence

import numpy as np
from sklearn.metrics import roc_auc_score

from .checks import check_ids, check_probabilities, check_shape, check_sums
from .numbers import mean


SENTIHOOD_ASPECTS, SEMEVAL2014_ASPECTS = 4, 5  # rows of a group
NONE, POSITIVE, NEGATIVE = 0, 1, 2  # SentiHood
SEMEVAL2014_NONE = 4
SEMEVAL2014_SUBSETS = {  # positive, neutral, negative, conflict
    "accuracy_4way": [0, 1, 2, 3],
    "accuracy_3way": [0, 1, 2],
    "accuracy_2way": [0, 2],
}


def sentihood(labels: np.ndarray, probabilities: np.ndarray) -> dict[str, float]:
    """
    Metrics of SentiHood. The rows come in groups of 4, one per aspect of one (sentence, target), in the order of the aspects.

    Args:
        labels: (N,) ids: 0 none, 1 positive, 2 negative.
        probabilities: (N, 3), rows that sum to 1.

    Returns:
        `strict_accuracy`: share of the groups with all four labels right, polarity included.
        `aspect_macro_f1`: precision and recall of the aspects that are not none (0 where no aspect agrees), averaged over the
        groups with a gold aspect; F1 is computed from the two averages.
        `aspect_auc`: AUC of P(none) for "the label is none", mean over the aspects, NaN if one of them has only one class.
        `sentiment_accuracy`, `sentiment_auc`: over the rows whose label is not none, with r = P(negative) / (P(positive) + P(negative)), 0.5
        where both are 0: accuracy of "negative where r > 0.5"; AUC of r, mean over the aspects.
    """
    labels, probabilities = _check(labels, probabilities, classes=3)
    predicted = probabilities.argmax(axis=1)
    right = (labels == predicted).reshape(-1, SENTIHOOD_ASPECTS)  # (groups, aspects)

    gold, found = (ids.reshape(-1, SENTIHOOD_ASPECTS) != NONE for ids in (labels, predicted))
    gold, found = gold[gold.any(axis=1)], found[gold.any(axis=1)]
    hits = (gold & found).sum(axis=1)
    precision, recall = mean(hits / np.maximum(found.sum(axis=1), 1)), mean(hits / gold.sum(axis=1))

    aspect = np.arange(len(labels)) % SENTIHOOD_ASPECTS
    opinion = labels != NONE
    positive, negative = probabilities[:, POSITIVE], probabilities[:, NEGATIVE]
    both = positive + negative
    r = np.divide(negative, both, out=np.full(len(both), 0.5), where=both > 0)
    return {
        "strict_accuracy": mean(right.all(axis=1)),
        "aspect_macro_f1": 0.0 if precision + recall == 0 else 2 * precision * recall / (precision + recall),
        "aspect_auc": _mean_auc(~opinion, probabilities[:, NONE], aspect),
        "sentiment_accuracy": mean((r > 0.5)[opinion] == (labels == NEGATIVE)[opinion]),
        "sentiment_auc": _mean_auc((labels == NEGATIVE)[opinion], r[opinion], aspect[opinion]),
    }


def semeval2014(labels: np.ndarray, probabilities: np.ndarray) -> dict[str, float]:
    """
    Metrics of the aspect categories of SemEval-2014. The rows come in groups of 5, one per aspect of a sentence.

    Args:
        labels: (N,) ids: 0 positive, 1 neutral, 2 negative, 3 conflict, 4 none.
        probabilities: (N, 5), rows that sum to 1.

    Returns:
        `precision`, `recall`, `f1`: over the aspects that are not none, over all sentences with a gold aspect, as published.
        `accuracy_4way`, `accuracy_3way`, `accuracy_2way`: over the rows whose label is positive, neutral, negative or conflict
        (positive, neutral or negative; positive or negative), with the most probable of these labels as the prediction.
    """
    labels, probabilities = _check(labels, probabilities, classes=5)
    gold, found = (
        (ids != SEMEVAL2014_NONE).reshape(-1, SEMEVAL2014_ASPECTS) for ids in (labels, probabilities.argmax(axis=1))
    )
    gold, found = gold[gold.any(axis=1)], found[gold.any(axis=1)]  # (sentences, aspects)
    result = {
        "precision": mean(gold[found]),
        "recall": mean(found[gold]),
        "f1": 2 * float((gold & found).sum()) / count if (count := int(gold.sum() + found.sum())) else float("nan"),
    }
    for name, subset in SEMEVAL2014_SUBSETS.items():
        rows = np.isin(labels, subset)
        chosen = np.array(subset)[probabilities[rows][:, subset].argmax(axis=1)]
        result[name] = mean(labels[rows] == chosen)
    return result


def _mean_auc(labels: np.ndarray, scores: np.ndarray, aspect: np.ndarray) -> float:
    """Mean over the aspects of the AUC; NaN if one of them has only one class."""
    values = []
    for number in range(SENTIHOOD_ASPECTS):
        gold = labels[aspect == number]
        if gold.all() or not gold.any():
            return float("nan")
        values.append(roc_auc_score(gold, scores[aspect == number]))
    return float(np.mean(values))


def _check(
    labels: Sequence[int] | np.ndarray, probabilities: np.ndarray, classes: int
) -> tuple[np.ndarray, np.ndarray]:
    labels, probabilities = np.asarray(labels), np.asarray(probabilities)
    check_shape("probabilities", probabilities, (len(labels), classes))
    check_ids(labels, classes)
    check_probabilities(probabilities)
    check_sums("probabilities", probabilities)
    return labels, probabilities
