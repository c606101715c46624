# SPDX-License-Identifier: Apache-2.0
"""Predictions measured by what their corpus says."""

from collections.abc import Sequence

import numpy as np

from . import corpus_of


def single_label(corpus: str, labels: np.ndarray, probabilities: np.ndarray, label_names: Sequence[str]) -> dict:
    """
    `classification`, and the published metrics of the corpus where it has its own. Rows without label (-1) are left out.

    Raises:
        ValueError: see `classification`; no row has a label.
    """
    from .. import metrics

    own = corpus_of(corpus).metrics
    if own == "dialogue":
        return metrics.dialogue(labels, probabilities, label_names)
    known = np.asarray(labels) >= 0
    if not known.any():
        raise ValueError(f"none of the {len(known)} rows has a label (an id of 0 or above): is this the right split?")
    result = metrics.classification(np.asarray(labels)[known], np.asarray(probabilities)[known], label_names)
    if own is not None:
        result |= getattr(metrics, own)(labels, probabilities)
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
    from .. import metrics

    if tuned is None:
        return {"argmax": single_label(corpus, labels, probabilities, label_names)}
    return {
        "fixed": metrics.goemotions(labels, probabilities, threshold, label_names),
        "tuned": metrics.goemotions(labels, probabilities, tuned, label_names),
    }
