# SPDX-License-Identifier: Apache-2.0
"""Values of texts, such as intensities or valence: the column `targets`, an object with a number for each name, null if it was not annotated."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ..io.lazily import datasets
from ..io.lazily import numpy as np
from .own_files import (
    check_different,
    check_distinct_columns,
    name_of,
    own_files,
    read_own,
    split_units,
    with_validation,
)
from .rows import BadRow, OnBadRows, Row, Rows


COLUMN = "targets"


def has_targets(rows: datasets.Dataset) -> bool:
    """Whether the rows have values, and no labels."""
    return COLUMN in rows.features


def target_names(rows: datasets.Dataset) -> list[str]:
    """The names of the values."""
    return list(rows.features[COLUMN])


def target_matrix(rows: datasets.Dataset) -> np.ndarray:
    """(N, C) float64, NaN for a value that was not annotated."""
    names = target_names(rows)
    found = [[row[name] for name in names] for row in rows[COLUMN]]
    return np.array(found, dtype=np.float64).reshape(-1, len(names))


def to_dataset(rows: Rows, columns: Mapping[str, Any] | None = None) -> datasets.Dataset:
    """The dataset of rows with the columns `id`, `text`, the ones in `columns` ({name: feature}), and `targets`."""
    value, text = datasets.Value("float64"), datasets.Value("string")
    names = list(rows.rows[0][COLUMN]) if rows.rows else []
    return rows.with_features({"id": text, "text": text, **(columns or {}), COLUMN: dict.fromkeys(names, value)})


def load_target_files(
    data_dir: str | Path | None,
    targets: Sequence[str],
    text_column: str,
    id_column: str | None,
    validation_fraction: float,
    on_bad_rows: OnBadRows,
    separator: str | None,
) -> datasets.DatasetDict:
    """Your own files with columns of numbers, see `load_files`."""
    files = own_files(data_dir, targets=targets)
    check_different("targets", targets)
    check_distinct_columns({"text_column": text_column, "id_column": id_column, "targets": targets[0]})
    wanted = [text_column, *targets, *([id_column] if id_column else [])]

    def add(split: str, rows: Rows, line: int, row: Row) -> None:
        values = {name: _number(row[name], name) for name in targets}
        if all(value is None for value in values.values()):
            raise BadRow(f"at least one of the columns {list(targets)} must hold a number")
        row_id = (name_of(row[id_column]) if id_column else "") or f"{split}-{line}"
        rows.add(line, row[text_column], [], row_id, **{COLUMN: values})

    splits = {
        split: to_dataset(
            read_own(path, on_bad_rows, wanted, separator, partial(add, split), "text_column or targets")
        )
        for split, path in files.items()
    }
    return with_validation(splits, validation_fraction, partial(split_units, rounded=math.ceil))


def _number(value: Any, column: str) -> float | None:
    """The number in a cell, None for an empty one; BadRow for anything else."""
    if name_of(value) == "":
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if isinstance(value, bool) or not math.isfinite(number):
        raise BadRow(f"{column!r} must hold a number, or be empty where it was not annotated, got {value!r}")
    return number
