# SPDX-License-Identifier: Apache-2.0
"""Loads your own dialogues from CSV, TSV, JSONL or Parquet files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ...data.own_files import (
    check_columns,
    name_of,
    names_of,
    own_files,
    read_name,
    read_own,
    training_names,
    unknown_name,
    with_validation,
)
from ...data.rows import BadRow, OnBadRows, Row, Rows
from ...io.lazily import datasets
from ...runtime.plain import text_processing
from ..corpus import OWN_TERMS, Corpus, rows_of
from .rows import set_aside, to_dataset


COLUMNS_REMEDY = "dialogue_column, utterance_column, speaker_column or label_column; a file with one dialogue per row has the column 'turns'"


@rows_of("dialogue-emotion")
def load_dialogue_files(
    data_dir: str | Path | None = None,
    dialogue_column: str = "dialogue",
    utterance_column: str = "utterance",
    speaker_column: str = "speaker",
    label_column: str = "label",
    labels: Sequence[str] | None = None,
    validation_fraction: float | int = 0.1,
    on_bad_rows: OnBadRows = "error",
    separator: str | None = None,
) -> datasets.DatasetDict:
    """
    Your own dialogues in CSV, TSV, JSONL or Parquet files, in one of two layouts.

    First layout: a row is an utterance. Its columns name its dialogue, the utterance, its label and, if there is such a column,
    the speaker; the rows of a dialogue are in the order of its turns. Second layout, JSONL or Parquet: a row is a dialogue. The
    column `turns` holds a list of objects with utterance, speaker and label; the column `id`, if there is one, names the
    dialogue. An utterance whose label is empty or null has no label and serves only as context.

    Args:
        data_dir, separator: see `load_files`.
        dialogue_column, utterance_column, speaker_column, label_column: names of the columns, or of the keys in `turns`.
        labels: the label names in their order. None: the names in the training part, sorted.
        validation_fraction: share of the training dialogues set aside, at a fixed seed, if there is no validation file; 0: none.
        on_bad_rows: "error", or "skip" to drop, count and list malformed utterances (in the second layout: dialogues).
    """
    columns = {"utterance": utterance_column, "speaker": speaker_column, "label": label_column}
    wanted = [dialogue_column, utterance_column, label_column]
    if speaker_column != "speaker":  # a name that was given must be there
        wanted.append(speaker_column)
    files = own_files(data_dir, labels=labels)
    labels = names_of(labels)
    names = list(labels or [])
    layouts: dict[str, bool] = {}  # whether a row of the file is a dialogue

    def add(split: str, seen: set[str], rows: Rows, line: int, row: Row) -> None:
        whole_dialogues = layouts.setdefault(split, "turns" in row)
        if whole_dialogues:
            dialogue_id = f"{split}-{line}" if row.get("id") is None else read_name(row["id"], "id")
            if dialogue_id in seen:
                raise BadRow(f"a dialogue before it has the id {dialogue_id!r} too")
            turns = _turns(row, columns, names, bool(labels))
            seen.add(dialogue_id)
        else:
            check_columns(rows.source, line, row, wanted, COLUMNS_REMEDY)
            dialogue_id = read_name(row[dialogue_column], dialogue_column)
            turns = [_turn(row, columns, names, bool(labels))]
        for text, speaker, label in turns:
            rows.add(line, text, label, dialogue_id, speaker=speaker, order=len(rows.rows))

    parsed: dict[str, Rows] = {}
    for split, path in files.items():
        parsed[split] = rows = read_own(path, on_bad_rows, wanted, separator, partial(add, split, set()))
        occurring = {row["labels"] for row in rows.rows} - {None}
        if rows.rows and not occurring:
            raise ValueError(
                f"{path}: no utterance has a label; name their column with label_column, now {label_column!r}."
            )
        if split == "train":
            names[:] = training_names("label", occurring, labels)

    ids = {None: -1} | {name: number for number, name in enumerate(names)}
    splits = {}
    for split, rows in parsed.items():
        for row in rows.rows:
            row["labels"] = ids[row["labels"]]
        splits[split] = to_dataset(rows, names)
    return with_validation(splits, validation_fraction, set_aside, "dialogues")


def _turns(
    row: Mapping[str, Any], columns: Mapping[str, str], names: Sequence[str], given: bool
) -> list[tuple[str, str, str | None]]:
    turns = row.get("turns")
    if not isinstance(turns, list) or not turns:
        raise BadRow(f"the column 'turns' must hold a list of turns, at least one, got {turns!r}")
    result = []
    for number, turn in enumerate(turns, 1):
        if not isinstance(turn, dict):
            raise BadRow(f"turn {number} must be an object, got {type(turn).__name__}")
        try:
            result.append(_turn(turn, columns, names, given))
        except BadRow as reason:
            raise BadRow(f"turn {number}: {reason}") from None
    return result


def _turn(
    turn: Mapping[str, Any], columns: Mapping[str, str], names: Sequence[str], given: bool
) -> tuple[str, str, str | None]:
    """Utterance, speaker ("" if there is none) and label (None if there is none; one of `names` if these are given)."""
    text, speaker, label = (turn.get(columns[name]) for name in ("utterance", "speaker", "label"))
    if not isinstance(text, str) or not text_processing.is_readable(text):
        raise BadRow(f"the utterance in {columns['utterance']!r} is empty or no string: {text!r}")
    speaker = read_name(speaker, columns["speaker"]) if name_of(speaker) else ""
    label = read_name(label, columns["label"]) if name_of(label) else None
    if names and label is not None and label not in names:
        raise BadRow(unknown_name("label", label, names, given))
    return text, speaker, label


CORPUS = Corpus(
    name="dialogue_files",
    loader=load_dialogue_files,
    languages=(),
    terms=OWN_TERMS,
    metrics=("dialogue",),
    own_files=True,
)
