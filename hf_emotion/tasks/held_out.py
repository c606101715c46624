# SPDX-License-Identifier: Apache-2.0
"""Predicts the validation and the test part with a trained classifier: thresholds, temperature, figures, and their files."""

import json
import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
from datasets import DatasetDict

from .. import metrics
from ..data.splits import UNANNOTATED, label_names
from ..io.files import filling
from ..metrics.quantification import ValidationCounts
from ..recipes import Recipe
from ..run_report import OneAnswer, SeedRun
from ..runtime.plain import text_processing
from . import task_of_rows
from .base import Fitted, HeldOut, Task
from .checkpoints import save_model
from .corpus_metrics import at_thresholds
from .rows import gold_of
from .selective import choose_rules, measure_rules


logger = logging.getLogger(__name__)

NEARLY_ALL = 0.95  # share of the rows
FEWEST_ROWS = 20  # of a validation part that tells something
AT_BOUND = "The temperature is a bound of the search; the best one lies beyond it. Do not rely on the probabilities."


def held_out(
    recipe: Recipe,
    run: SeedRun,
    probabilities: dict[str, np.ndarray],
    splits: DatasetDict,
    folder: Path,
    model: Any = None,
    save: Callable[[Path], Any] = lambda folder: None,
) -> HeldOut:
    """
    Calibrate probabilities, part -> (N, C), by a temperature that is fitted on the validation part. Put it, the thresholds and the rule of
    `abstain` or `prediction_sets` from the same part into `run` and the configuration of the model that predicted them (None: several models
    did), and the figures of each part into `run`; write the checkpoint and predictions.parquet into `folder`, both or neither.
    """
    names = label_names(splits["train"])
    gold = {split: gold_of(rows) for split, rows in splits.items()}
    labelled = gold["validation"].labelled  # not every turn of a dialogue has a label
    known, multi_label = gold["validation"][labelled], gold["validation"].multi_label
    if len(known):
        run.temperature = temperature = metrics.fit_temperature(known.values, probabilities["validation"][labelled])
        if metrics.at_bound(temperature):
            run.temperature_at_bound = True
            logger.warning("temperature %.3g: %s", temperature, AT_BOUND)
        probabilities = {
            split: metrics.temperature_scaled(scores, temperature, multi_label).astype(np.float32)
            for split, scores in probabilities.items()
        }
    thresholds, own = None, probabilities["validation"][labelled]
    if multi_label:
        thresholds = metrics.tune_thresholds(known.values, own)
        run.thresholds = dict(zip(names, thresholds, strict=True))
    run.validation_counts = ValidationCounts.of(known.values, own, names, thresholds).to_dict()
    if found := one_answer(known.has(len(names)), known.decided(own, thresholds), names):
        run.one_answer = found
        logger.warning("%s", one_answer_line(found))
    rules = {}
    try:
        rules = choose_rules(recipe.abstain, recipe.prediction_sets, known, own, thresholds)
    except ValueError as error:  # the training must not be lost
        logger.warning("no abstention is stored: %s `hf-emotion analyze RUN --abstain` stores one", error)
    if rules:
        run.answers = {
            split: measure_rules(rules, gold[split], scores, thresholds, names)
            for split, scores in probabilities.items()
        }
    if model is not None:
        # Not named `temperature`: transformers takes that for an argument of `generate` and drops it.
        model.config.calibration_temperature = run.temperature
        if multi_label:
            model.config.thresholds = thresholds
        for rule in text_processing.RULES:
            if rule in rules or getattr(model.config, rule, None) is not None:  # of the base model
                setattr(model.config, rule, rules.get(rule))
    for split, scores in probabilities.items():
        decisions = gold[split].decided(scores, thresholds) if multi_label else None
        measured = gold[split].values, scores, names, recipe.threshold, decisions, run.temperature or 1.0
        run.record(split, at_thresholds(recipe.dataset, *measured, splits[split]))
    with filling(folder) as temporary:
        save(temporary)
        _write_predictions(temporary / "predictions.parquet", splits, probabilities, names)
    return HeldOut(names, gold, probabilities, thresholds)


def finish_classifier(
    task: Task,
    recipe: Recipe,
    fitted: Fitted,
    splits: DatasetDict,
    folder: Path | None,
    finish: Callable[..., HeldOut | None] = held_out,
) -> HeldOut | None:
    """
    Predict the validation and the test part with a trained classifier; `finish` writes the results and the checkpoint, with the arguments of
    `held_out`. For the others see `Task.finish`.
    """
    model = fitted.trainer.whole_model()  # all processes have a part in this
    tokenizer, settings = fitted.prepared.tokenizer, fitted.prepared.settings
    if folder is None:
        return None
    predictor = task.trained_predictor(model, tokenizer, max_length=recipe.max_length, **settings)
    model.config.calibration_temperature = None  # the base model's own
    scores = {split: predictor.of_rows(rows, progress=True) for split, rows in splits.items() if split != "train"}
    return finish(recipe, fitted.run, scores, splits, folder, model, partial(save_model, model, tokenizer, **settings))


def one_answer(gold: np.ndarray, decided: np.ndarray, names: list[str]) -> OneAnswer | None:
    """
    The labels that a model gives to nearly every validation row, though fewer rows have them: a model that has learned hardly more than
    how frequent they are. None if it gives several answers, or if there are too few rows to tell. `gold`, `decided`: (N, C) bool.
    """
    if len(decided) < FEWEST_ROWS:
        return None
    answers, counts = np.unique(decided, axis=0, return_counts=True)
    answer = answers[counts.argmax()]
    share, gold_share = float(counts.max() / len(decided)), float((gold == answer).all(axis=1).mean())
    if share < NEARLY_ALL or share - gold_share <= 1 - NEARLY_ALL:
        return None
    labels = [name for name, given in zip(names, answer, strict=True) if given]
    return {"labels": labels, "share": share, "gold_share": gold_share}


def one_answer_line(found: OneAnswer) -> str:
    """What `one_answer` found, as a sentence."""
    return (
        f"The model gives {' and '.join(found['labels']) or 'no label'} to {found['share']:.0%} of the validation rows, and "
        f"{found['gold_share']:.0%} "
        "have it: it has learned hardly anything. Train longer, with another learning rate, or with more rows."
    )


def _write_predictions(
    path: Path, splits: DatasetDict, probabilities: dict[str, np.ndarray], names: list[str]
) -> None:
    """
    One row per validation and test row (utterance with a label): split, id, gold labels, probabilities in label order, and, if there are
    some, the labels that were not annotated; no texts.
    """
    tables, golds = [], {split: gold_of(splits[split]) for split in probabilities}
    complete = all(gold.complete for gold in golds.values())
    for split, scores in probabilities.items():
        ids, labels, _, scores = labelled_units(splits[split], scores)
        columns = {
            "split": [split] * len(labels),
            "id": ids,
            "labels": [[names[i] for i in own] for own in labels],
            "probabilities": pyarrow.array(list(scores), pyarrow.list_(pyarrow.float32())),
        }
        if not complete:
            unannotated = [[names[i] for i in np.flatnonzero(~own)] for own in golds[split].annotated]
            columns[UNANNOTATED] = pyarrow.array(unannotated, pyarrow.list_(pyarrow.string()))
        tables.append(pyarrow.table(columns))
    table = pyarrow.concat_tables(tables).replace_schema_metadata({"label_names": json.dumps(names)})
    pyarrow.parquet.write_table(table, path)


def labelled_units(rows: Any, scores: np.ndarray | None = None) -> tuple[list[str], list[list[int]], list[str], Any]:
    """Ids, labels, texts and scores of the rows (turns) with a label, or that may have several, in the order of predictions.parquet."""
    gold, (ids, texts) = gold_of(rows), task_of_rows(rows).units(rows)
    if gold.multi_label:
        return ids, rows["labels"], texts, scores
    known = np.flatnonzero(gold.labelled)
    return (
        [ids[i] for i in known],
        [[label] for label in gold.values[known].tolist()],
        [texts[i] for i in known],
        None if scores is None else scores[known],
    )
