# SPDX-License-Identifier: Apache-2.0
"""Rows that hold a dialogue."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Any

from ...data.lazily import datasets
from ...data.own_files import draw_units
from ...data.rows import Rows


def to_dataset(rows: Rows, names: Sequence[str]) -> datasets.Dataset:
    """Rows of utterances, with the id of the dialogue, `speaker`, `order` in the dialogue and `labels` -> one row per dialogue."""
    if not rows.rows:
        raise ValueError(f"{rows.source} has no {'valid ' if rows.bad else ''}rows.")
    rows.log_bad()
    dialogues: dict[str, list[dict[str, Any]]] = {}
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
    count = max(round(fraction * len(dialogues)), 1) if 0 < fraction < 1 else 0
    if not 0 < count < len(dialogues):
        raise ValueError(
            f"`validation_fraction` must lie between 0 and 1 and leave dialogues in both parts, got {fraction} of "
            f"{len(dialogues)} dialogues."
        )
    rest, drawn = draw_units(dialogues, range(len(dialogues)), count)
    return dialogues.select(sorted(rest)), dialogues.select(sorted(drawn))


def units(rows: datasets.Dataset) -> tuple[list[str], list[str]]:
    """Ids, DIALOGUE/NUMBER, and texts of the turns: what was said, with the speaker if there is one."""
    turns = [
        (f"{row}/{number}", f"{speaker}: {utterance}" if speaker else utterance)
        for row, speakers, utterances in zip(rows["id"], rows["speakers"], rows["utterances"], strict=True)
        for number, (speaker, utterance) in enumerate(zip(speakers, utterances, strict=True), 1)
    ]
    return [name for name, _ in turns], [text for _, text in turns]
