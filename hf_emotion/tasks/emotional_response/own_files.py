# SPDX-License-Identifier: Apache-2.0
"""Loads your own contexts and replies from CSV, TSV, JSONL or Parquet files."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from ...data.own_files import known_names, names_of, own_files, read_name, read_own, with_validation
from ...data.rows import BadRow, OnBadRows, Row, Rows
from ...data.splits import split_by_text
from ...io.lazily import datasets
from ..corpus import OWN_TERMS, Corpus, rows_of
from .rows import add_reply, to_dataset


@rows_of("emotional-response")
def load_reply_files(
    data_dir: str | Path | None = None,
    context_column: str = "context",
    reply_column: str = "reply",
    label_column: str = "emotion",
    labels: Sequence[str] | None = None,
    id_column: str | None = None,
    validation_fraction: float | int = 0.1,
    on_bad_rows: OnBadRows = "error",
    separator: str | None = None,
) -> datasets.DatasetDict:
    """
    Your own pairs of context and reply in CSV, TSV, JSONL or Parquet files. The texts stay as they are: see `strip_emojis`.

    Args:
        data_dir, separator: see `load_files`.
        context_column, reply_column, label_column, id_column: column names.
        labels: the label names in their order. None: the names in the training part, sorted.
        validation_fraction: share of the distinct training contexts, with all their replies, set aside at a fixed seed if
            there is no validation file; 0: none.
        on_bad_rows: "error", or "skip" to drop, count and list rows without context or reply, or without a known label.
    """
    columns = [context_column, reply_column, label_column, *([] if id_column is None else [id_column])]
    remedy = "context_column, reply_column, label_column or id_column"
    files = own_files(data_dir, labels=labels)

    def add(split: str, seen: set[str], rows: Rows, line: int, row: Row) -> None:
        label = read_name(row[label_column], label_column)
        row_id = f"{split}-{line}" if id_column is None else read_name(row[id_column], id_column)
        if row_id in seen:
            raise BadRow(f"a row before it has the id {row_id!r} too")
        seen.add(row_id)
        add_reply(rows, line, row[context_column], row[reply_column], label, row_id)

    parsed = {
        split: read_own(path, on_bad_rows, columns, separator, partial(add, split, set()), remedy)
        for split, path in files.items()
    }
    names = known_names(parsed, "labels", names_of(labels))
    splits = {split: to_dataset(rows, names) for split, rows in parsed.items()}
    return with_validation(splits, validation_fraction, partial(split_by_text, column="context"))


CORPUS = Corpus(
    name="reply_files",
    loader=load_reply_files,
    languages=(),
    terms=OWN_TERMS,
    own_files=True,
)
