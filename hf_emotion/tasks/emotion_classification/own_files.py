# SPDX-License-Identifier: Apache-2.0
"""Loads your own texts from CSV, TSV, JSONL or Parquet files."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ...data.own_files import (
    check_different,
    check_distinct_columns,
    check_label_column,
    draw_units,
    known_names,
    name_of,
    names_of,
    own_files,
    read_own,
    with_validation,
)
from ...data.rows import BadRow, OnBadRows, Row, Rows
from ...data.splits import UNANNOTATED
from ...data.targets import load_target_files
from ...data.votes import read_votes, settle_votes, vote_features
from ...io.lazily import datasets
from ..corpus import OWN_TERMS, Corpus, rows_of


logger = logging.getLogger(__name__)

# cells of label columns; a CSV that pandas wrote has 1.0 in a column that once had gaps
FLAGS = {"0": False, "0.0": False, "false": False, "1": True, "1.0": True, "true": True}


@rows_of("emotion-classification")
def load_files(
    data_dir: str | Path | None = None,
    text_column: str = "text",
    label_column: str = "label",
    label_columns: Sequence[str] | None = None,
    label_separator: str | None = None,
    votes: Sequence[str] | None = None,
    annotators: str | None = None,
    multi_label: bool = False,
    labels: Sequence[str] | None = None,
    id_column: str | None = None,
    validation_fraction: float | int = 0.1,
    on_bad_rows: OnBadRows = "error",
    separator: str | None = None,
    targets: Sequence[str] | None = None,
) -> datasets.DatasetDict:
    """
    Your own CSV, TSV, JSONL or Parquet files.

    Args:
        data_dir: a folder with `train.*` and optionally `validation.*` (also valid, val, dev) and `test.*`; or one file, which
            is then the training part.
        text_column, label_column, id_column: column names.
        label_columns: instead of `label_column`, one column of 0 and 1 per label (multi-label). An empty cell means that the label was not
            annotated in this row: it counts neither in the loss nor in any figure.
        label_separator: splits the label column, e.g. "," or "|" (multi-label). A list in JSONL or Parquet is multi-label
            without it.
        votes: instead of `label_column`, one column per label with the votes of annotators: counts, or shares that sum to 1 (in
            every row of a file that has values between whole numbers). The label of a row is the one with the most votes, the
            first in label order where several have. The shares become the column `votes`.
        annotators: with `votes`: the column with the number of annotators of a row, each of whom may have given several labels
            (multi-label). A row has the labels that at least half of them gave.
        multi_label: with `votes` and without `annotators`: each value is the share of annotators who gave the label, in [0, 1].
        labels: the label names in their order. None: the names in the training part, sorted.
        validation_fraction: share of the training rows set aside, at a fixed seed, if there is no validation file; 0: none. The only
            row with a label stays in training.
        on_bad_rows: "error", or "skip" to drop, count and list rows without text or with an unknown label.
        targets: instead of labels, columns of numbers, such as valence and arousal; an empty cell was not annotated.
        separator: the separator of a CSV. None: the one of "," ";" tab and "|" with which the header names the columns.
    """
    if targets is not None:
        others = {"label_columns": label_columns, "label_separator": label_separator, "votes": votes, "labels": labels}
        if given := [name for name, value in others.items() if value is not None]:
            raise ValueError(f"`targets` are numbers, and `{given[0]}` is for labels: leave one of them out.")
        options = (id_column, validation_fraction, on_bad_rows, separator)
        return load_target_files(data_dir, targets, text_column, *options)
    files = own_files(data_dir, labels=labels, label_columns=label_columns, votes=votes)
    single = label_columns is None and votes is None
    if single:  # else the labels are names of columns
        labels = names_of(labels)
    if label_separator is not None and (label_columns is not None or not label_separator):
        raise ValueError(
            "`label_separator` splits `label_column`: name it, or leave it out, with `label_columns` too."
        )
    if label_columns is not None:
        check_different("label_columns", label_columns)
    given_labels = {"label_columns": label_columns, "label_separator": label_separator}
    _check_vote_options(votes, annotators, multi_label, labels, given_labels)
    check_distinct_columns({"text_column": text_column, "label_column": label_column if single else None})
    shares = multi_label and annotators is None
    multi_label = multi_label or any(name is not None for name in (label_columns, label_separator, annotators))
    named = [text_column, *(votes or label_columns or [label_column]), annotators, id_column]
    wanted = [name for name in named if name is not None]
    remedy = f"text_column, {'label_column or label_columns' if votes is None else 'votes or annotators'}"

    def add(split: str, rows: Rows, line: int, row: Row) -> None:
        nonlocal multi_label
        row_id = (name_of(row[id_column]) if id_column else "") or f"{split}-{line}"
        row_labels: list[str] = []
        columns: Row = {}
        if votes is not None:
            columns = read_votes(row, votes, annotators, shares)
        elif label_columns is not None:
            row_labels, columns[UNANNOTATED] = _flagged(row, label_columns)
        else:
            row_labels = _listed(row[label_column], label_column, label_separator)
            if isinstance(row[label_column], list) and not multi_label:
                if split != "train":
                    raise BadRow(f"each row has one label, as in the training part, got {row[label_column]}")
                multi_label = True
        rows.add(line, row[text_column], row_labels, row_id, **columns)

    parsed = {
        split: read_own(path, on_bad_rows, wanted, separator, partial(add, split), remedy)
        for split, path in files.items()
    }
    if votes is not None:
        for rows in parsed.values():
            settle_votes(rows, votes, labels or votes, multi_label)
    names = known_names(parsed, "labels", labels or label_columns or votes)
    if single and not labels:
        check_label_column(parsed["train"], names, label_column)
    for path, rows in zip(files.values(), parsed.values(), strict=True):
        if rows.rows and not names:
            raise ValueError(f"{path}: no row has a label; name their column with label_column or label_columns.")
        if rows.rows and not any(row["labels"] for row in rows.rows):
            logger.warning("%s: none of its %d rows has a label", path, len(rows.rows))
    known = {name: number for number, name in enumerate(names)}
    masked = any(row.get(UNANNOTATED) for rows in parsed.values() for row in rows.rows)
    splits = {}
    for split, rows in parsed.items():
        for row in rows.rows:
            ids = sorted({known[name] for name in row["labels"]})
            row["labels"] = ids if multi_label else ids[0]
            if masked:
                row[UNANNOTATED] = sorted(known[name] for name in row[UNANNOTATED] if name in known)
        features = {UNANNOTATED: datasets.List(datasets.Value("int64"))} if masked else None
        splits[split] = rows.to_dataset(names, multi_label, features if votes is None else vote_features())
    return with_validation(splits, validation_fraction, _split_rows)


def _flagged(row: Mapping[str, Any], columns: Sequence[str]) -> tuple[list[str], list[str]]:
    """The columns with 1 in them, and the empty ones; BadRow unless the others have 0, or if all are empty."""
    flags = {name: name_of(row[name]) for name in columns}
    no_flags = {name: flag for name, flag in flags.items() if flag and flag.casefold() not in FLAGS}
    if no_flags:
        raise BadRow(f"label columns must hold 0 or 1, got {no_flags}")
    if not any(flags.values()):
        raise BadRow("all label columns are empty, which stands for labels that were not annotated: fill one")
    chosen = [name for name, flag in flags.items() if flag and FLAGS[flag.casefold()]]
    return chosen, [name for name, flag in flags.items() if not flag]


def _listed(cell: Any, column: str, separator: str | None) -> list[str]:
    """The labels in a cell: a list, a text with separators, or one label, which must be there then."""
    value = cell.split(separator) if separator is not None and isinstance(cell, str) else cell
    labels = [name for item in (value if isinstance(value, list) else [value]) if (name := name_of(item))]
    if not labels and isinstance(cell, list) and cell:
        raise BadRow(f"the column {column!r} has no label in {cell}; [] stands for a text without one")
    if not labels and not isinstance(value, list):
        raise BadRow(f"the column {column!r} has no label")
    return labels


def _split_rows(rows: datasets.Dataset, fraction: float) -> tuple[datasets.Dataset, datasets.Dataset]:
    rest, drawn = draw_units(rows, range(len(rows)), fraction, math.ceil)
    return rows.select(rest), rows.select(drawn)


def _check_vote_options(
    votes: Sequence[str] | None,
    annotators: str | None,
    multi_label: bool,
    labels: Sequence[str] | None,
    others: Mapping[str, Any],
) -> None:
    if votes is None:
        if annotators is not None or multi_label:
            raise ValueError("`annotators` and `multi_label` need `votes`, a column for each label.")
        return
    check_different("votes", votes)
    for option, value in others.items():
        if value is not None:
            raise ValueError(f"the labels come from `votes`, one label for each of its columns: leave out `{option}`.")
    if annotators in votes:
        raise ValueError(f"`annotators` and `votes` name the same column, {annotators!r}: give each its own.")
    if unknown := sorted(set(votes) - set(labels or votes)):
        raise ValueError(f"the columns {unknown} of `votes` are not among `labels`: list them, or leave `labels` out.")


CORPUS = Corpus(
    name="files",
    loader=load_files,
    languages=(),
    terms=OWN_TERMS,
    own_files=True,
)
