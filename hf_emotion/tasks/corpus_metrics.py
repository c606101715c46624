# SPDX-License-Identifier: Apache-2.0
"""Measures predictions by the metrics that their corpus names."""

from collections.abc import Sequence

import numpy as np
from datasets import Dataset, DatasetDict

from .. import metrics
from ..data.splits import NEEDS_CONTEXT, label_names
from ..data.votes import votes_of
from . import corpus_of
from .rows import gold_of


# The figures of `against_votes`.
AGAINST_VOTES = ("soft_macro_f1", "soft_micro_f1", "cross_entropy", "vote_entropy")


def single_label(corpus: str, labels: np.ndarray, probabilities: np.ndarray, label_names: Sequence[str]) -> dict:
    """The metrics that the corpus names. The first one leaves out rows without a label (-1); ValueError if no row has one."""
    first, *more = corpus_of(corpus).metrics
    known = np.asarray(labels) >= 0
    if not known.any():
        raise ValueError(f"none of the {len(known)} rows has a label (an id of 0 or above): is this the right split?")
    result = getattr(metrics, first)(np.asarray(labels)[known], np.asarray(probabilities)[known], label_names)
    for name in more:
        result |= getattr(metrics, name)(labels, probabilities)
    return result


def at_thresholds(
    corpus: str,
    labels: np.ndarray,
    probabilities: np.ndarray,
    label_names: Sequence[str],
    threshold: float,
    decisions: np.ndarray | None,
    temperature: float = 1.0,
    rows: Dataset | None = None,
) -> dict[str, dict]:
    """
    `goemotions` of the labels above one "fixed" threshold of the sigmoid, as published figures have it (without the `temperature`
    that the probabilities were calibrated with), and of the (N, C) bool `decisions` as "tuned"; without decisions
    `single_label` as "argmax". Each also has the figures of `against_votes` and of `in_context`, for `rows` that have these columns.
    """
    multi_label = decisions is not None
    more = {}
    if rows is not None and (votes := votes_of(rows)) is not None:
        more = metrics.against_votes(votes, probabilities, multi_label)
    if rows is not None and NEEDS_CONTEXT in rows.column_names:
        needed = np.concatenate(rows[NEEDS_CONTEXT]).astype(bool)  # of the turns, one dialogue after the other
        more |= metrics.in_context(labels, probabilities, label_names, needed)
    if not multi_label:
        return {"argmax": single_label(corpus, labels, probabilities, label_names) | more}
    calibrated = metrics.scaled_threshold(threshold, temperature)
    return {
        "fixed": metrics.goemotions(labels, probabilities, calibrated, label_names) | more,
        "tuned": metrics.goemotions(labels, probabilities, label_names=label_names, decisions=decisions) | more,
    }


def agreement_of(splits: DatasetDict) -> dict[str, dict]:
    """The `agreement` of the annotators in each split that has their votes."""
    found = {}
    for split, rows in splits.items():
        votes = votes_of(rows)
        if votes is not None:
            multi_label = gold_of(rows).multi_label
            known = "annotators" in rows.column_names
            annotators = np.asarray(rows["annotators"][:]) if known else np.zeros(len(votes))
            found[split] = metrics.agreement(votes, annotators, label_names(rows), multi_label)
    return found
