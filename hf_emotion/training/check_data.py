# SPDX-License-Identifier: Apache-2.0
"""Checks a corpus before a model is trained on it."""

import logging
from typing import Any

import numpy as np
from datasets import Dataset, DatasetDict

from ..data.splits import label_names
from ..recipes import Recipe
from ..tasks import TASKS, Task, task_of_rows, task_of_type


logger = logging.getLogger(__name__)

MIN_VALIDATION_ROWS = 20  # with fewer rows the standard error of an accuracy of .5 is above .11


def task_of_training(recipe: Recipe, splits: DatasetDict) -> tuple[Task, DatasetDict]:
    """
    The task that a recipe trains, and the rows as its models read them (a classifier of texts reads replies, too).

    Raises:
        ValueError: the model type does not read what the corpus holds; a field is for another task.
    """
    found, task = task_of_rows(splits["train"]), task_of_type(recipe.model_type)
    if task is not found and not (task is None and found.stock):
        parts = {split: found.as_texts(rows) for split, rows in splits.items()}
        read = None if parts["train"] is None else task_of_rows(parts["train"])
        if read is None or task not in (None, read):
            readers = [found] if read is None else [found, read]
            fitting = [repr(name) for reader in readers for name in reader.model_types]
            fitting += ["null"] if any(reader.stock for reader in readers) else []
            wanted = "the base model's own classifier reads texts" if task is None else f"it reads {task.reads}"
            raise ValueError(
                f"`model_type` {recipe.model_type!r} does not fit `dataset` {recipe.dataset!r}: {wanted}, and the corpus holds "
                f"{found.reads}. These fit: {', '.join(fitting)}."
            )
        found, splits = read, DatasetDict(parts)
    for name in sorted({name for other in TASKS for name in other.recipe_fields}):
        if getattr(recipe, name) and name not in found.recipe_fields:
            raise ValueError(f"`{name}` does not fit a training of {found.name} on {found.reads}: leave it out.")
    return found, splits


def check_data(task: Task, splits: DatasetDict) -> None:
    """
    Warn if a label has no training row; if the task finds a problem; and if the validation part has fewer than 20 labelled rows
    (utterances), or fewer than there are labels.

    Args:
        task: what is trained.
        splits: train and validation part, and perhaps others.

    Raises:
        ValueError: all training rows of a classifier have the same labels.
    """
    train, validation = splits["train"], splits["validation"]
    gold = _labelled(task, train)
    if gold is None:
        _check_validation(len(validation), 0)
        return
    names = label_names(train)
    several = gold.ndim == 2
    has_label = gold.any(axis=0) if several else np.bincount(gold, minlength=len(names)) > 0
    if task.selects_labels and (gold == gold[:1]).all():
        occurring = [name for name, found in zip(names, has_label, strict=True) if found]
        if several:
            raise ValueError(
                f"every training row has the labels {occurring}: add rows with other labels, or without labels."
            )
        raise ValueError(
            f"a classifier needs at least two labels, and the training part has {occurring}: add rows of others, or, to tell "
            "that label from none, give `dataset_options.label_separator` or `label_columns`."
        )
    if not has_label.all():
        missing = [name for name, found in zip(names, has_label, strict=True) if not found]
        logger.warning(
            "no training row has the labels %s, which the model then never learns: add rows, or leave them out of `labels`.",
            missing,
        )
    task.warn(train, names, has_label)
    _check_validation(len(_labelled(task, validation)), len(names))


def _labelled(task: Task, rows: Dataset) -> Any:
    """The gold labels of all labelled rows (utterances); None if the rows have no labels."""
    gold = task.gold(rows)
    return gold if gold is None or gold.ndim == 2 else gold[gold >= 0]


def _check_validation(rows: int, labels: int) -> None:
    needed = max(MIN_VALIDATION_ROWS, labels)
    if rows < needed:
        logger.warning(
            "the validation part has %d rows, too few to choose an epoch or thresholds by, or to trust its figures: it should have at "
            "least %d. Set more aside (`--set dataset_options.validation_fraction=...`), or add a validation file.",
            rows,
            needed,
        )
