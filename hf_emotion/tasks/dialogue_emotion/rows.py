# SPDX-License-Identifier: Apache-2.0
"""Rows that hold a dialogue."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from ...data.own_files import draw_units
from ...data.rows import Row, Rows
from ...io.lazily import datasets


def to_dataset(rows: Rows, names: Sequence[str]) -> datasets.Dataset:
    """Rows of utterances, with the id of the dialogue, `speaker`, `order` in the dialogue and `labels` -> one row per dialogue."""
    rows.finish()
    dialogues: dict[str, list[Row]] = {}
    for row in rows.rows:
        dialogues.setdefault(row["id"], []).append(row)
    turns = [sorted(rows_of, key=lambda row: row["order"]) for rows_of in dialogues.values()]
    values = {
        "id": list(dialogues),
        "utterances": [[row["text"].strip() for row in rows_of] for rows_of in turns],
        "speakers": [[unicodedata.normalize("NFC", row["speaker"]) for row in rows_of] for rows_of in turns],
        "labels": [[row["labels"] for row in rows_of] for rows_of in turns],
    }
    text = datasets.List(datasets.Value("string"))
    features = {
        "id": datasets.Value("string"),
        "utterances": text,
        "speakers": text,
        "labels": datasets.List(datasets.ClassLabel(names=list(names))),
    }
    return datasets.Dataset.from_dict(values, features=datasets.Features(features))


def set_aside(dialogues: datasets.Dataset, fraction: float) -> tuple[datasets.Dataset, datasets.Dataset]:
    """(the rest, the share of the dialogues to set aside, at least one, drawn at a fixed seed); both keep the order."""
    rest, drawn = draw_units(dialogues, range(len(dialogues)), fraction, lambda number: max(round(number), 1))
    return dialogues.select(sorted(rest)), dialogues.select(sorted(drawn))
