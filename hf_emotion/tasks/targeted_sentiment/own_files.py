# SPDX-License-Identifier: Apache-2.0
"""Loads your own texts with aspects from CSV, TSV, JSONL or Parquet files."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from ...data.own_files import (
    check_distinct_columns,
    check_label_column,
    known_names,
    name_of,
    names_of,
    own_files,
    read_name,
    read_own,
    with_validation,
)
from ...data.rows import OnBadRows, Row, Rows
from ...data.splits import split_by_text
from ...io.lazily import datasets
from ..corpus import OWN_TERMS, Corpus, rows_of
from .rows import add_none_rows, none_label, question, to_aspect_dataset


@rows_of("targeted-sentiment")
def load_aspect_files(
    data_dir: str | Path | None = None,
    text_column: str = "text",
    label_column: str = "label",
    aspect_column: str = "aspect",
    target_column: str | None = None,
    labels: Sequence[str] | None = None,
    aspects: Sequence[str] | None = None,
    targets: Sequence[str] | None = None,
    fill_none: bool = False,
    id_column: str | None = None,
    validation_fraction: float | int = 0.1,
    on_bad_rows: OnBadRows = "error",
    separator: str | None = None,
) -> datasets.DatasetDict:
    """
    Your own CSV, TSV, JSONL or Parquet files. A row asks about one aspect (of one target) of its text and has one label; the result has
    the columns that `loading.py` lists. A pair of target and aspect without a row is not asked about, unless `fill_none` adds one.

    Args:
        data_dir, separator: see `load_files`.
        text_column, label_column, aspect_column, target_column, id_column: column names. With targets, the placeholders LOCATION1 and
            LOCATION2 in a text are replaced, see `replace_targets`.
        labels, aspects, targets: their names in their order. None: the names in the training part, sorted.
        fill_none: in every part, each text (and target) gets a row with the label "none" (in the spelling of the corpus) for every aspect
            that none of its rows names; a row that is skipped counts as one of them. For files that list only the aspects that a text
            names: trained only on these, a model would find an opinion on every aspect of every text.
        validation_fraction: share of the distinct training texts, with all their rows, set aside, at a fixed seed, if there is no
            validation file; 0: none. The only row with a label, or with a target and aspect, stays in training.
        on_bad_rows: "error", or "skip" to drop, count and list rows without text or with an unknown label.
    """
    files = own_files(data_dir, labels=labels, aspects=aspects, targets=targets)
    labels, aspects, targets = names_of(labels), names_of(aspects), names_of(targets)
    if target_column is None and targets is not None:
        raise ValueError("`targets` needs `target_column`, the column with the target of each row.")
    columns = {
        "text_column": text_column,
        "label_column": label_column,
        "aspect_column": aspect_column,
        "target_column": target_column,
    }
    check_distinct_columns(columns)
    contexts = {"aspect": aspect_column} | ({} if target_column is None else {"target": target_column})
    wanted = [name for name in (*columns.values(), id_column) if name is not None]
    asked: dict[str, set[tuple]] = {split: set() for split in files}

    def add(split: str, rows: Rows, line: int, row: Row) -> None:
        context = {name: read_name(row[column], column) for name, column in contexts.items()}
        if fill_none and isinstance(row[text_column], str):
            asked[split].add(question(row[text_column], context.get("target"), context["aspect"]))
        row_id = (name_of(row[id_column]) if id_column else "") or f"{split}-{line}"
        rows.add(line, row[text_column], read_name(row[label_column], label_column), row_id, **context)

    parsed = {
        split: read_own(path, on_bad_rows, wanted, separator, partial(add, split), ", ".join(columns))
        for split, path in files.items()
    }
    names = {"aspect": known_names(parsed, "aspect", aspects)}
    if target_column is not None:
        names["target"] = known_names(parsed, "target", targets)
    none: str | None = None
    if fill_none:
        none = none_label(labels or {row["labels"] for row in parsed["train"].rows})
        if labels and none is None:
            raise ValueError(f"`fill_none` needs the label 'none' among `labels`, got {list(labels)}: add it.")
        none = none or "none"
    names["labels"] = known_names(parsed, "labels", labels, [] if none is None else [none])
    if none is not None:
        for split, rows in parsed.items():  # of the rows that are left
            add_none_rows(rows, names["aspect"], none, asked[split])
        if not labels and not any(row["labels"] == none for rows in parsed.values() for row in rows.rows):
            names["labels"].remove(none)  # nothing was to fill
    if not labels:
        check_label_column(parsed["train"], names["labels"], label_column)
    splits = {
        split: to_aspect_dataset(rows, names["labels"], names["aspect"], names.get("target"))
        for split, rows in parsed.items()
    }
    return with_validation(splits, validation_fraction, split_by_text)


CORPUS = Corpus(name="aspect_files", loader=load_aspect_files, languages=(), terms=OWN_TERMS, own_files=True)
