# SPDX-License-Identifier: Apache-2.0
"""Measures a classifier of texts on a corpus."""

import copy
import logging
from pathlib import Path
from typing import Any

from ... import metrics
from ...data.votes import votes_of
from ...metrics import PUBLISHED_THRESHOLD
from ...runtime.classifying import label_names
from ...runtime.plain import text_processing
from ...taxonomies import NO_ROLL_UP, TAXONOMIES
from .. import corpus_of, options_of
from ..classifier_evaluating import result_of, rows_for
from .predictor import Predictor


logger = logging.getLogger(__name__)


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
    Figures of all rows, without abstentions and prediction sets; if the model has a rule for these, also `abstention` (coverage and risk,
    see `metrics.answered`) or `prediction_sets` (see there).

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
    if gold.ndim == 2 and split != "validation" and not getattr(predictor.model.config, "thresholds", None):
        predictor = with_tuned_thresholds(predictor, dataset, data_dir, options)
    order = [predictor.labels.index(name) for name in names]
    own = predictor.of_rows(rows, progress=True)
    probabilities = predictor.roll_up(own)[:, order]
    decisions = predictor.decide(own)[:, order]
    if gold.ndim == 1:
        result = result_of(dataset, gold, probabilities, names, votes=votes_of(rows))
        labelled = gold >= 0
        gold, own, decisions = gold[labelled], own[labelled], decisions[labelled].argmax(axis=1)
    else:
        temperature = text_processing.temperature_of(predictor.model.config)
        threshold = PUBLISHED_THRESHOLD if threshold is None else threshold
        result = result_of(dataset, gold, probabilities, names, threshold, decisions, votes_of(rows), temperature)
    if predictor.abstention is not None:
        lost = metrics.row_losses(gold, decisions)
        result["abstention"] = metrics.answered(own.max(axis=1), lost, predictor.abstention)
    if predictor.prediction_sets is not None:
        result["prediction_sets"] = metrics.prediction_sets(gold, predictor.label_sets(own)[:, order], names)
    return result


def with_tuned_thresholds(
    predictor: Predictor, dataset: str, data_dir: str | Path | None, options: dict[str, Any]
) -> Predictor:
    """
    A copy of a predictor whose checkpoint has no thresholds, as most of other people's have none, with thresholds that were tuned on the
    validation part of the corpus. The predictor itself, if the corpus has no such part or labels are rolled up.
    """
    try:
        rows, names, gold = rows_for(predictor, dataset, "validation", data_dir, options)
    except ValueError:
        return predictor
    own = label_names(predictor.model.config)
    if set(own) != set(names):
        return predictor
    logger.warning("the checkpoint has no thresholds: they are tuned on the validation part of %s", dataset)
    order = [names.index(name) for name in own]
    found = copy.copy(predictor)
    found.use_thresholds(metrics.tune_thresholds(gold[:, order], predictor.of_rows(rows, progress=True)))
    return found
