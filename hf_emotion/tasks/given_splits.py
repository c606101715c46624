# SPDX-License-Identifier: Apache-2.0
"""Makes the rows of a given `DatasetDict` complete, as loaders do with those of files."""

import logging
import math
from collections.abc import Sequence
from typing import Any

from datasets import ClassLabel, Dataset, DatasetDict, List, Value

from ..data.files import SPLIT_STEMS
from ..data.own_files import split_units, training_names
from ..data.targets import COLUMN as TARGETS
from . import Task, task_of_columns
from .corpus import mark


logger = logging.getLogger(__name__)


def complete(splits: DatasetDict) -> DatasetDict:
    """
    The splits with an `id` for each row, with `labels` as `ClassLabel` (`label` is renamed, names are numbered), and without a validation part
    with a tenth of the training part set aside for it, at a fixed seed.

    Raises:
        ValueError: a part with another name; a column that the task needs is missing; `labels` without names, or the names of the parts differ.
    """
    if unknown := [part for part in splits if part not in SPLIT_STEMS]:
        raise ValueError(f"`splits` has the parts {unknown}: name its parts {', '.join(SPLIT_STEMS)}.")
    if not len(splits.get("train", ())):
        return splits  # the training says what is missing
    splits = DatasetDict({part: _with_own_columns(part, rows) for part, rows in splits.items()})
    task = task_of_columns(splits["train"].column_names)
    for part, rows in splits.items():
        _check_columns(task, part, rows)
    splits = _with_numbers(splits)
    _check_names(splits)
    if "validation" not in splits and len(set(texts := task.held_out_texts(splits["train"]))) > 1:
        splits["train"], splits["validation"] = split_units(splits["train"], 0.1, texts, math.ceil)
        logger.warning("no validation part: %d training rows set aside for validation", len(splits["validation"]))
    return DatasetDict({part: mark(rows, task.name) for part, rows in splits.items()})


def _with_own_columns(part: str, rows: Dataset) -> Dataset:
    if "label" in rows.column_names and "labels" not in rows.column_names:
        rows = rows.rename_column("label", "labels")
    if "id" not in rows.column_names:
        return rows.add_column("id", [f"{part}-{number}" for number in range(1, len(rows) + 1)])
    return rows.cast_column("id", Value("string"))


def _check_columns(task: Task, part: str, rows: Dataset) -> None:
    """ValueError for a column that the task needs and the rows lack."""
    needed = [*sorted(task.columns), *(["labels"] if task.labelled and TARGETS not in rows.column_names else [])]
    if missing := [name for name in needed if name not in rows.column_names]:
        raise ValueError(
            f"the part {part!r} of `splits` lacks the columns {missing}: a training on {task.reads} needs {needed}, and the part has "
            f"{rows.column_names}."
        )


def _label_kinds(splits: DatasetDict) -> dict[str, Any]:
    """Part -> the type of its labels, or of the items of their lists."""
    kinds = {part: rows.features["labels"] for part, rows in splits.items() if "labels" in rows.features}
    return {part: getattr(kind, "feature", kind) for part, kind in kinds.items()}


def _with_numbers(splits: DatasetDict) -> DatasetDict:
    """Numbers for labels that are strings: their names are those of the training part, sorted, as in own files."""
    kinds = _label_kinds(splits)
    if not kinds or not all("string" in str(getattr(kind, "dtype", "")) for kind in kinds.values()):
        return splits
    found = {part: [_listed(cell) for cell in splits[part]["labels"]] for part in kinds}
    empty = [part for part, rows in found.items() if any(name is None for own in rows for name in own)]
    if empty:
        raise ValueError(f"`labels` is empty in some rows of the parts {empty}: fill it, or leave these rows out.")
    names = training_names("label", (name for own in found["train"] for name in own), None)
    numbered = {}
    for part, rows in found.items():
        if other := sorted({name for own in rows for name in own} - set(names)):
            raise ValueError(
                f"no training row has the labels {other} of the part {part!r}; to keep them, cast `labels` to ClassLabel(names=[...])."
            )
        several, kind = hasattr(splits[part].features["labels"], "feature"), ClassLabel(names=names)
        ids = [[names.index(name) for name in own] for own in rows]
        values = ids if several else [own[0] for own in ids]
        rest = splits[part].remove_columns("labels")
        numbered[part] = rest.add_column("labels", values, feature=List(kind) if several else kind)
    return DatasetDict({**splits, **numbered})


def _listed(cell: Any) -> Sequence[Any]:
    """The labels of a row; those of each turn of a dialogue and each word of a text are lists, too."""
    return cell if isinstance(cell, list) else [cell]


def _check_names(splits: DatasetDict) -> None:
    """ValueError unless the labels of all parts have names, the same in the same order."""
    kinds = _label_kinds(splits)
    names = [getattr(kind, "names", None) for kind in kinds.values()]
    if any(own is None or own != names[0] for own in names):
        raise ValueError(
            f"`labels` of all `splits` must be `ClassLabel`, or lists of them, with the same names in the same order; got {kinds}."
        )
