# SPDX-License-Identifier: Apache-2.0
"""Predictions measured by what their corpus says."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import metrics
from ..recipes import Recipe
from . import corpus_of


def single_label(corpus: str, labels: np.ndarray, probabilities: np.ndarray, label_names: Sequence[str]) -> dict:
    """
    The metrics that the corpus names. Rows without label (-1) are left out of the first one.

    Raises:
        ValueError: see `classification`; no row has a label.
    """
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
    tuned: Sequence[float] | None,
) -> dict[str, dict]:
    """`goemotions` at one "fixed" threshold and at "tuned" ones, one for each label; without these `single_label` as "argmax"."""
    if tuned is None:
        return {"argmax": single_label(corpus, labels, probabilities, label_names)}
    return {
        "fixed": metrics.goemotions(labels, probabilities, threshold, label_names),
        "tuned": metrics.goemotions(labels, probabilities, tuned, label_names),
    }


def selected_by_corpus(recipe: Recipe) -> dict[str, Any]:
    """The metric of the corpus selects the epoch."""
    return {"metric_for_best_model": corpus_of(recipe.dataset).selection_metric}
