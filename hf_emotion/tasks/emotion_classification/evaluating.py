# SPDX-License-Identifier: Apache-2.0
"""Measures a classifier of texts on a corpus."""

from pathlib import Path
from typing import Any

from ...data.votes import votes_of
from ...metrics import PUBLISHED_THRESHOLD
from ...taxonomies import NO_ROLL_UP, TAXONOMIES
from .. import corpus_of, options_of
from ..classifier_evaluating import result_of, rows_for
from .predictor import Predictor


def loader_options(predictor: Predictor, dataset: str) -> dict[str, Any]:
    """A model trained on the groups of a taxonomy is measured on these groups; a file need not have every label of the model."""
    if "taxonomy" in options_of(dataset):
        fitting = [name for name, groups in TAXONOMIES.items() if set(groups) == set(predictor.labels)]
        return {"taxonomy": fitting[0] if fitting else NO_ROLL_UP}
    return {"labels": predictor.labels} if corpus_of(dataset).own_files else {}


def evaluate(
    predictor: Predictor,
    dataset: str,
    split: str,
    data_dir: str | Path | None,
    options: dict[str, Any],
    threshold: float | None = None,
) -> dict[str, Any]:
    """
    Args:
        threshold: the fixed threshold of a multi-label model, beside the stored ones; default: 0.3.

    Raises:
        ValueError: see `rows_for`; a threshold for a single-label model.
    """
    if threshold is not None and not predictor.multi_label:
        raise ValueError(
            f"`threshold` {threshold} is for multi-label models: this one gives one label per row, the most probable one. Leave it out."
        )
    rows, names, gold = rows_for(predictor, dataset, split, data_dir, options)
    order = [predictor.labels.index(name) for name in names]
    own = predictor.of_rows(rows, progress=True)
    probabilities = predictor.roll_up(own)[:, order]
    if gold.ndim == 1:
        return result_of(dataset, gold, probabilities, names, votes=votes_of(rows))
    threshold = PUBLISHED_THRESHOLD if threshold is None else threshold
    return result_of(dataset, gold, probabilities, names, threshold, predictor.decide(own)[:, order], votes_of(rows))
