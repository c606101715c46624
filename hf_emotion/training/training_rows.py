# SPDX-License-Identifier: Apache-2.0
"""The rows that a recipe trains on: loaded or given, as its task reads them, and checked before a model is trained on them."""

import logging
from pathlib import Path

import numpy as np
from datasets import DatasetDict

from ..data.splits import label_names
from ..recipes import Recipe
from ..tasks import TASKS, Task, task_of_rows, task_of_type
from ..tasks.given_splits import complete
from ..tasks.loading import load_dataset_for
from ..tasks.rows import at_most, class_counts, few_of, share_of


logger = logging.getLogger(__name__)

MIN_VALIDATION_ROWS = 20  # with fewer rows the standard error of an accuracy of .5 is above .11


def rows_of(
    recipe: Recipe, data_dir: str | Path | None, splits: DatasetDict | None, test: bool
) -> tuple[Task, DatasetDict]:
    """The task that a recipe trains, and its parts of the given splits, or else of its corpus; without `test` no test part."""
    if splits is None:
        splits = load_dataset_for(recipe.dataset, data_dir, **recipe.dataset_options)
    else:
        splits = complete(splits.copy())
    if not test:
        splits.pop("test", None)
    for part in ("train", "validation"):
        if not len(splits.get(part, ())):
            rows = {name: len(dataset) for name, dataset in splits.items()}
            raise ValueError(
                f"a training needs rows in the part {part!r}; the corpus has {rows} (after `dedupe`, if that is set)."
            )
    task, splits = _as_read(recipe, splits)
    if recipe.train_fraction < 1:
        splits["train"] = share_of(splits["train"], recipe.train_fraction)
    for part in splits.keys() - {"train"}:
        splits[part] = at_most(task, splits[part], recipe.max_eval_rows)
    return task, splits


def _as_read(recipe: Recipe, splits: DatasetDict) -> tuple[Task, DatasetDict]:
    """The task that a recipe trains, and the rows as its models read them (a classifier of texts reads replies, too)."""
    found, task = task_of_rows(splits["train"]), task_of_type(recipe.model_type)
    if not found.trains(recipe.model_type):
        parts = {split: found.as_texts(rows) for split, rows in splits.items()}
        read = None if parts["train"] is None else task_of_rows(parts["train"])
        if read is None or task not in (None, read):
            raise ValueError(
                f"`model_type` {recipe.model_type!r} reads {'texts' if task is None else task.reads}, and `dataset` {recipe.dataset!r} "
                f"holds {found.reads}. Take one of: {', '.join(map(repr, found.model_types))}{', null' if found.stock else ''}."
            )
        found, splits = read, DatasetDict(parts)
    for name in sorted({name for other in TASKS for name in other.recipe_fields}):
        if getattr(recipe, name) and name not in found.recipe_fields:
            raise ValueError(f"`{name}` does not fit a training of {found.name} on {found.reads}: leave it out.")
    return found, splits


def few_rows(task: Task, recipe: Recipe, splits: DatasetDict, seed: int) -> DatasetDict:
    """With `shots` the rows of training and validation part that are drawn at a seed; ValueError for a label without a training row."""
    if recipe.shots is None:
        return splits
    counts = class_counts(task, splits["train"])
    missing = [name for name, count in counts.items() if not count]
    if missing:
        raise ValueError(
            f"`shots` {recipe.shots}: no training row has the labels {missing}: leave them out of `labels`."
        )
    fewer = [name for name, count in counts.items() if count < recipe.shots]
    if fewer and seed == recipe.seeds[0]:
        logger.warning("`shots` %d: all rows of the labels %s are taken, which have fewer", recipe.shots, fewer)
    drawn = {part: few_of(task, splits[part], recipe.shots, seed) for part in ("train", "validation")}
    return DatasetDict({**splits, **drawn})


def check_data(task: Task, splits: DatasetDict) -> None:
    """
    Warn of labels without a training row and of a small validation part; ValueError if all rows of a classifier have the same labels, or if no
    row of a part has one.
    """
    train, validation = splits["train"], splits["validation"]
    if not task.labelled:
        _check_validation(len(validation), 0)
        return
    names, gold = label_names(train), task.gold(train)
    if gold.regression:
        values = gold.values
        if equal := [name for name, own in zip(names, values.T, strict=True) if len(set(own[~np.isnan(own)])) < 2]:
            raise ValueError(
                f"the training rows have one and the same value, or none, for {equal}: add other rows, or leave it out."
            )
        _check_validation(len(validation), 0)
        return
    for part, rows in splits.items():
        if gold.single_label and not task.gold(rows).labelled.any():
            raise ValueError(f"no row of the part {part!r} has a label: add some, or leave the part out.")
    has_label, known = gold.counts(len(names)) > 0, gold.values[gold.labelled]
    if task.selects_labels and (known == known[:1]).all():
        occurring = [name for name, occurs in zip(names, has_label, strict=True) if occurs]
        raise ValueError(
            f"a classifier needs rows with at least two labels, and every training row has the labels {occurring}: add other rows, or, "
            "to tell one label from none, give `dataset_options.label_separator` or `label_columns`."
        )
    if not has_label.all():
        missing = [name for name, occurs in zip(names, has_label, strict=True) if not occurs]
        logger.warning(
            "no training row has the labels %s, which the model then never learns: add rows, or leave them out of `labels`.",
            missing,
        )
    task.warn(train, names, has_label)
    _check_validation(int(task.gold(validation).labelled.sum()), len(names))


def _check_validation(rows: int, labels: int) -> None:
    needed = max(MIN_VALIDATION_ROWS, labels)
    if rows < needed:
        logger.warning(
            "the validation part has %d rows, too few to choose an epoch or thresholds by, or to trust its figures: it should have at "
            "least %d. Give it more rows, or set more of a file aside (`--set dataset_options.validation_fraction=...`).",
            rows,
            needed,
        )
