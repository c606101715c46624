# SPDX-License-Identifier: Apache-2.0
"""Rows that ask for the sentiment towards an aspect."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence, Set

from ...data.rows import Row, Rows
from ...io.lazily import datasets
from ...runtime.plain import text_processing


logger = logging.getLogger(__name__)


# placeholder -> the text that a model reads instead
TARGET_TEXTS = {"LOCATION1": "location - 1", "LOCATION2": "location - 2"}


def replace_targets(text: str) -> str:
    """
    Replace placeholders by the text that a model reads: LOCATION1 by "location - 1", LOCATION2 by "location - 2", everywhere.

    If one touches a letter, digit or other placeholder, a blank is added between them ("xLOCATION1" -> "x location - 1").
    """
    return text_processing.mark_targets(text, TARGET_TEXTS)


def auxiliary_sentence(target: str | None, aspect: str) -> str:
    """The second segment that tells a model what is asked: "location - 1 - price", or only the aspect without a target."""
    return text_processing.auxiliary_sentence(target and TARGET_TEXTS.get(target, target), aspect)


def to_aspect_dataset(
    rows: Rows, names: Sequence[str], aspects: Sequence[str], targets: Sequence[str] | None = None
) -> datasets.Dataset:
    """
    Rows with sentence id, `aspect`, `target` (if there are `targets`) and `labels` by name -> the columns that loading.py lists.
    """
    for row in rows.rows:
        target, aspect = row["target"] if targets else None, row["aspect"]
        row["id"] = "/".join([row["id"], *(() if target is None else (target,)), aspect])
        row["text"] = row["text"].strip()
        if targets:
            row["text"] = replace_targets(row["text"])
        row["auxiliary"] = auxiliary_sentence(target, aspect)
        row["context_id"] = (targets.index(target) if targets else 0) * len(aspects) + aspects.index(aspect)
    columns = {"target": datasets.ClassLabel(names=list(targets))} if targets else {}
    columns |= {
        "aspect": datasets.ClassLabel(names=list(aspects)),
        "auxiliary": datasets.Value("string"),
        "context_id": datasets.Value("int64"),
    }
    return rows.to_dataset(names, columns=columns)


def is_none(label: str) -> bool:
    """Whether this is the label for an aspect that a text does not name; corpora spell it "none" or "None"."""
    return label.casefold() == "none"


def none_label(labels: Iterable[str]) -> str | None:
    """The label for an aspect that a text does not name, in the spelling of the corpus; None if there is no such label."""
    return next(filter(is_none, labels), None)


def question(text: str, target: str | None, aspect: str) -> tuple[str, str | None, str]:
    """What a row asks, the same for all forms of a text."""
    return text_processing.normalized(text), target, aspect


def add_none_rows(rows: Rows, aspects: Sequence[str], label: str, asked: Set[tuple]) -> None:
    """
    Give each text (and target) a row with the label for every aspect that none of its rows names. `asked` has the `question` of
    every row, also of those that were rejected: their label is not known. The rows of a text and target are then together, in the
    order of the aspects.
    """
    groups: dict[tuple, list[Row]] = {}
    for row in rows.rows:
        groups.setdefault(question(row["text"], row.get("target"), "")[:2], []).append(row)
    before = len(rows.rows)
    rows.rows = []
    for (text, target), own in groups.items():
        for aspect in aspects:
            rows.rows += [row for row in own if row["aspect"] == aspect]
            if (text, target, aspect) not in asked:
                rows.rows.append({**own[0], "aspect": aspect, "labels": label})
    logger.warning(
        "%s: %d rows with the label %r for aspects that no row names", rows.source, len(rows.rows) - before, label
    )


def context_names(dataset: datasets.Dataset) -> tuple[list[str] | None, list[str]]:
    """The names of the targets (None if there are none) and of the aspects, in the order of their ids."""
    target = dataset.features.get("target")
    return (None if target is None else list(target.names)), list(dataset.features["aspect"].names)
