# SPDX-License-Identifier: Apache-2.0
"""
Chooses on validation rows when a classifier says that it does not know, or which labels its prediction sets hold, and measures it. The
confidence of a row is its largest probability, for models with several labels, too. Shapes: N rows, C labels.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .. import metrics
from ..gold import Gold


LOSSES = {False: "share of wrong labels", True: "mean of 1 − Jaccard of gold and given labels"}


def losses(gold: Gold, probabilities: np.ndarray, thresholds: Sequence[float] | np.ndarray | None) -> np.ndarray:
    """The loss (N,) of the labels that `predict` gives: above their thresholds, or the most probable one. See `metrics.row_losses`."""
    decided = gold.decided(probabilities, thresholds)
    return metrics.row_losses(gold.values, decided.argmax(axis=1) if gold.single_label else decided)


def sets_of(probabilities: np.ndarray, threshold: float, multi_label: bool) -> np.ndarray:
    """The prediction sets, (N, C) bool, that `predict` gives; that of a single-label model holds at least its most probable label."""
    most_probable = probabilities.argmax(axis=1)[:, None] == np.arange(probabilities.shape[1])
    return (probabilities >= threshold) | (most_probable & (not multi_label))


def choose_rules(
    abstain: Mapping[str, float],
    prediction_sets: float | None,
    gold: Gold,
    probabilities: np.ndarray,
    thresholds: Sequence[float] | None,
) -> dict[str, dict[str, float]]:
    """
    The fields `abstention` and `prediction_sets` of a configuration, those of them that are asked for, from the validation part: N gold rows,
    probabilities (N, C), and thresholds where a row may have several labels. ValueError for an accuracy that is not reached.
    """
    rules = {}
    if abstain:
        lost = losses(gold, probabilities, thresholds)
        threshold = metrics.abstention_threshold(probabilities.max(axis=1), lost, abstain)
        rules["abstention"] = {**abstain, "threshold": threshold}
    if prediction_sets is not None:
        threshold = metrics.set_threshold(gold.values, probabilities, prediction_sets)
        rules["prediction_sets"] = {"coverage": prediction_sets, "threshold": threshold}
    return rules


def measure_rules(
    rules: Mapping[str, Mapping[str, float]],
    gold: Gold,
    probabilities: np.ndarray,
    thresholds: Sequence[float] | np.ndarray | None,
    names: Sequence[str],
) -> dict[str, dict[str, Any]]:
    """For each of the rules in a configuration what it asks for as `wanted`, and `metrics.answered` or `metrics.prediction_sets`."""
    found, labelled = {}, gold.labelled
    gold, probabilities = gold[labelled], probabilities[labelled]
    for rule, fields in rules.items():
        threshold = fields["threshold"]
        if rule == "abstention":
            lost = losses(gold, probabilities, thresholds)
            figures: dict[str, Any] = metrics.answered(probabilities.max(axis=1), lost, threshold)
        else:
            sets = sets_of(probabilities, threshold, gold.multi_label)
            figures = metrics.prediction_sets(gold.values, sets, names)
        found[rule] = {"wanted": dict(fields), **figures}
    return found
