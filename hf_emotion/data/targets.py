# SPDX-License-Identifier: Apache-2.0
"""Values of texts, such as intensities or valence: the column `targets`, an object with a number for each name, null if it was not annotated."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from .lazily import datasets
from .lazily import numpy as np
from .own_files import (
    check_different,
    check_distinct_columns,
    name_of,
    own_files,
    read_own,
    with_validation,
)
from .rows import BadRow, OnBadRows, Row, Rows


COLUMN = "targets"


def target_names(rows: datasets.Dataset) -> list[str]:
    """The names of the values."""
    return list(rows.features[COLUMN])


def target_matrix(rows: datasets.Dataset) -> np.ndarray:
    """(N, C) float64, NaN for a value that was not annotated."""
    names = target_names(rows)
    found = [[row[name] for name in names] for row in rows[COLUMN]]
    return np.array(found, dtype=np.float64).reshape(-1, len(names))


def with_targets(rows: Sequence[Row], columns: Mapping[str, Any] | None = None) -> datasets.Dataset:
    """The dataset of rows with `id`, `text` and `targets`, and the further `columns` ({name: feature})."""
    value, text = datasets.Value("float64"), datasets.Value("string")
    names = list(rows[0][COLUMN]) if rows else []
    features = datasets.Features({"id": text, "text": text, **(columns or {}), COLUMN: dict.fromkeys(names, value)})
    return datasets.Dataset.from_dict({name: [row[name] for row in rows] for name in features}, features=features)


def load_target_files(
    data_dir: str | Path | None,
    targets: Sequence[str],
    text_column: str,
    id_column: str | None,
    validation_fraction: float,
    on_bad_rows: OnBadRows,
    separator: str | None,
) -> datasets.DatasetDict:
    """One's own files with columns of numbers, see `load_files`."""
    files = own_files(data_dir, targets=targets)
    check_different("targets", targets)
    check_distinct_columns({"text_column": text_column, "id_column": id_column, "targets": targets[0]})
    wanted = [text_column, *targets, *([id_column] if id_column else [])]

    def add(split: str, rows: Rows, line: int, row: dict[str, Any]) -> None:
        values = {name: _number(row[name], name) for name in targets}
        if all(value is None for value in values.values()):
            raise BadRow(f"at least one of the columns {list(targets)} must hold a number")
        row_id = (name_of(row[id_column]) if id_column else "") or f"{split}-{line}"
        rows.add(line, row[text_column], [], row_id, **{COLUMN: values})

    splits = {}
    for split, path in files.items():
        parsed = read_own(path, on_bad_rows, wanted, separator, partial(add, split), "text_column or targets")
        parsed.finish()
        splits[split] = with_targets(parsed.rows)
    return with_validation(splits, validation_fraction, _set_aside)


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


def _set_aside(rows: datasets.Dataset, fraction: float) -> tuple[datasets.Dataset, datasets.Dataset]:
    count = math.ceil(fraction * len(rows))
    if not 0 < fraction < 1 or count == len(rows):
        raise ValueError(
            f"`validation_fraction` must lie between 0 and 1 and leave rows in both parts, got {fraction} of {len(rows)} rows; "
            "or add a validation file."
        )
    order = np.random.default_rng(0).permutation(len(rows))
    return rows.select(np.sort(order[count:])), rows.select(np.sort(order[:count]))
