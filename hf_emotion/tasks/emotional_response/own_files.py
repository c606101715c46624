# SPDX-License-Identifier: Apache-2.0
"""Own contexts and replies in CSV, TSV, JSONL or Parquet files."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...data.files import SPLIT_STEMS, separator_hint, split_files, valid_rows
from ...data.lazily import datasets
from ...data.own_files import known_names, read_name
from ...data.rows import BadRow, OnBadRows, Rows
from ...data.splits import split_by_text
from .rows import add_reply, to_dataset


logger = logging.getLogger(__name__)


def load_reply_files(
    data_dir: str | Path | None = None,
    context_column: str = "context",
    reply_column: str = "reply",
    label_column: str = "emotion",
    labels: Sequence[str] | None = None,
    id_column: str | None = None,
    validation_fraction: float = 0.1,
    on_bad_rows: OnBadRows = "error",
    separator: str | None = None,
) -> datasets.DatasetDict:
    """
    One's own pairs of context and reply in CSV, TSV, JSONL or Parquet files. The texts stay as they are: see `strip_emojis`.

    Args:
        data_dir: a folder with `train.*` and, where there are any, `validation.*` (also valid, val, dev) and `test.*`; or
            one file, which is then the training part.
        context_column, reply_column, label_column, id_column: column names.
        labels: the label names in their order. None: those of the training part, sorted.
        validation_fraction: share of the distinct training contexts, with all their replies, set aside at a fixed seed where
            there is no validation file; 0: none.
        on_bad_rows: "error", or "skip" to drop, count and list rows without context or reply, or without a known label.
        separator: what separates the values of CSV. None: "," ";" tab or "|", that with which the header names the columns.

    Raises:
        FileNotFoundError, ValueError: no file, no such column, an empty context or reply, an id that occurs twice in a file,
            an unknown label, such as one that no training row has (with the nearest one).
    """
    if data_dir is None:
        raise ValueError("`data_dir` must name a folder with train.csv (or .tsv, .jsonl, .parquet), or one such file.")
    if isinstance(labels, str):
        raise ValueError(f"`labels` must be a list of names, got the string {labels!r}: write [{labels}].")
    columns = [context_column, reply_column, label_column, *([] if id_column is None else [id_column])]
    parsed: dict[str, Rows] = {}
    for split, path in split_files(Path(data_dir)).items():
        parsed[split] = rows = Rows(path, on_bad_rows)
        seen: set[str] = set()
        for line, row in valid_rows(path, rows, columns, separator):
            _check_columns(path, line, row, columns)
            try:
                label = read_name(row[label_column], label_column)
                row_id = f"{split}-{line}" if id_column is None else read_name(row[id_column], id_column)
                if row_id in seen:
                    raise BadRow(f"a row before it has the id {row_id!r} too")
            except BadRow as reason:
                rows.reject(line, str(reason))
                continue
            seen.add(row_id)
            add_reply(rows, line, row[context_column], row[reply_column], label, row_id)
    names = known_names(parsed, "labels", labels)
    ids = {name: number for number, name in enumerate(names)}
    splits = {}
    for split, rows in parsed.items():
        for row in rows.rows:
            row["labels"] = ids[row["labels"]]
        splits[split] = to_dataset(rows, names)
    if "validation" not in splits and validation_fraction != 0:
        splits["train"], splits["validation"] = split_by_text(splits["train"], validation_fraction, column="context")
        logger.warning("no validation file: %d training rows set aside for validation", len(splits["validation"]))
    return datasets.DatasetDict({split: splits[split] for split in SPLIT_STEMS if split in splits})


def _check_columns(path: Path, line: int, row: Mapping[str, Any], columns: Iterable[str]) -> None:
    missing = [name for name in columns if name not in row]
    if missing:
        raise ValueError(
            f"{path}, line {line}: no column {missing[0]!r}; the columns are {sorted(row)}. Name yours with context_column, "
            f"reply_column, label_column or id_column.{separator_hint(path)}"
        )
