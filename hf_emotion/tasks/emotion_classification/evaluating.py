# SPDX-License-Identifier: Apache-2.0
"""Measures a classifier of texts on a corpus."""

import copy
import logging
from dataclasses import replace

from ... import metrics
from ...metrics import PUBLISHED_THRESHOLD
from ...runtime.classifying import label_names
from ...runtime.plain import text_processing
from ..classifier_evaluating import Evaluation, result_of, rows_for
from ..loading import CorpusSplit, is_one_file
from .predictor import Predictor


logger = logging.getLogger(__name__)


def evaluate(predictor: Predictor, of: CorpusSplit, threshold: float | None = None) -> Evaluation:
    """
    Figures of all rows, without abstentions and prediction sets; if the model has a rule for these, also `abstention` (coverage and risk,
    see `metrics.answered`) or `prediction_sets` (see there). `threshold`: the fixed one of a multi-label model, in addition to the stored ones;
    default: 0.3.
    """
    if threshold is not None and not predictor.multi_label:
        gives = "values" if predictor.regression else "one label per row"
        raise ValueError(f"`threshold` {threshold} is for multi-label models, and this one gives {gives}.")
    rows, names, gold = rows_for(predictor, of)
    if predictor.regression:
        values = predictor.of_rows(rows, progress=True)[:, [predictor.labels.index(name) for name in names]]
        return {
            "rows": len(rows),
            "labels": names,
            "metrics": {"values": metrics.regression(gold.values, values, names)},
        }
    if gold.multi_label and of.split != "validation" and not getattr(predictor.model.config, "thresholds", None):
        predictor = with_tuned_thresholds(predictor, of)
    order = [predictor.labels.index(name) for name in names]
    own = predictor.of_rows(rows, progress=True)
    probabilities = predictor.roll_up(own)[:, order]
    decisions = predictor.decide(own, predictor.thresholds_of(rows["text"]))[:, order]
    if gold.single_label:
        result = result_of(of.dataset, gold, probabilities, names, rows)
        labelled = gold.labelled
        gold, own, decisions = gold[labelled], own[labelled], decisions[labelled].argmax(axis=1)
    else:
        temperature = text_processing.temperature_of(predictor.model.config)
        threshold = PUBLISHED_THRESHOLD if threshold is None else threshold
        result = result_of(of.dataset, gold, probabilities, names, rows, threshold, decisions, temperature)
    if predictor.abstention is not None:
        lost = metrics.row_losses(gold.values, decisions)
        result["abstention"] = metrics.answered(own.max(axis=1), lost, predictor.abstention)
    if predictor.prediction_sets is not None:
        result["prediction_sets"] = metrics.prediction_sets(gold.values, predictor.label_sets(own)[:, order], names)
    return result


def with_tuned_thresholds(predictor: Predictor, of: CorpusSplit) -> Predictor:
    """
    A copy of a predictor whose checkpoint has no thresholds, as most of other people's have none, with thresholds that were tuned on the
    validation part of the corpus. The predictor itself, if the corpus has no such part or labels are rolled up.
    """
    if is_one_file(of.dataset, of.data_dir):  # that is measured whole
        return predictor
    try:
        rows, names, gold = rows_for(predictor, replace(of, split="validation"))
    except ValueError:
        return predictor
    own = label_names(predictor.model.config)
    if set(own) != set(names):
        return predictor
    logger.warning("the checkpoint has no thresholds: they are tuned on the validation part of %s", of.dataset)
    order = [names.index(name) for name in own]
    found = copy.copy(predictor)
    found.use_thresholds(metrics.tune_thresholds(gold.values[:, order], predictor.of_rows(rows, progress=True)))
    return found
