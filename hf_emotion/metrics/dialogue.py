# SPDX-License-Identifier: Apache-2.0
"""Metrics of emotion in dialogues, counted over the utterances of all dialogues."""

from collections.abc import Sequence

import numpy as np
from sklearn.metrics import f1_score

from .checks import check_shape
from .multi_label import classification


def dialogue(labels: Sequence[int] | np.ndarray, probabilities: np.ndarray, label_names: Sequence[str]) -> dict:
    """
    Single-label metrics of the utterances that have a label.

    Args:
        labels: (N,) class ids; negative ones (-1, -100) are utterances without a label, which are left out.
        probabilities: (N, C).

    Returns:
        The figures of `classification`; and, if a label is named "neutral", `micro_f1_without_neutral`,
        `macro_f1_without_neutral` and `weighted_f1_without_neutral`: F1 of the other labels, with the neutral utterances that
        get one of them counted as wrong (the convention of DailyDialog). NaN where no utterance has one of the other labels.
    """
    labels, probabilities = np.asarray(labels), np.asarray(probabilities)
    check_shape("probabilities", probabilities, (len(labels), len(label_names)))
    known = labels >= 0
    labels, probabilities = labels[known], probabilities[known]
    result = classification(labels, probabilities, label_names)
    if "neutral" in label_names:
        others = [number for number, name in enumerate(label_names) if name != "neutral"]
        measured = np.isin(labels, others).any()
        for average in ("micro", "macro", "weighted"):
            result[f"{average}_f1_without_neutral"] = (
                float(f1_score(labels, probabilities.argmax(axis=1), labels=others, average=average, zero_division=0))
                if measured
                else float("nan")
            )
    return result


def in_context(
    labels: Sequence[int] | np.ndarray, probabilities: np.ndarray, label_names: Sequence[str], needed: np.ndarray
) -> dict[str, float]:
    """`dialogue`'s macro-F1 and weighted F1 of the utterances that need their context, (N,) bool; NaN without one that has a label."""
    chosen = needed & (np.asarray(labels) >= 0)
    found = classification(np.asarray(labels)[chosen], probabilities[chosen], label_names) if chosen.any() else {}
    return {f"needs_context_{name}": found.get(name, float("nan")) for name in ("macro_f1", "weighted_f1")}
