# SPDX-License-Identifier: Apache-2.0
"""Rows that hold a context, a reply and its emotion."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Any, TypeVar

from ...data.lazily import datasets
from ...data.rows import Rows
from ...runtime.plain import readable


def _add(rows: Rows, line: int, context: Any, reply: Any, label: Any, row_id: str) -> None:
    for name, text in (("context", context), ("reply", reply)):
        if not readable.is_readable(text):
            rows.reject(line, f"the {name} is empty or no string: {text!r}")
            return
    context, reply = (unicodedata.normalize("NFC", text).strip() for text in (context, reply))
    rows.rows.append({"id": row_id, "context": context, "reply": reply, "labels": label, "line": line})


def _to_dataset(rows: Rows, names: Sequence[str]) -> datasets.Dataset:
    if not rows.rows:
        raise ValueError(f"{rows.source} has no {'valid ' if rows.bad else ''}rows.")
    rows.log_bad()
    features = _features(names)
    return datasets.Dataset.from_dict({name: [row[name] for row in rows.rows] for name in features}, features=features)


def _features(names: Sequence[str]) -> datasets.Features:
    text = datasets.Value("string")
    return datasets.Features(
        {"id": text, "context": text, "reply": text, "labels": datasets.ClassLabel(names=list(names))}
    )


def is_reply_dataset(dataset: datasets.Dataset) -> bool:
    """Whether a row is a reply: the columns `context` and `reply` are there."""
    return {"context", "reply"} <= set(dataset.column_names)


Splits = TypeVar("Splits", "datasets.Dataset", "datasets.DatasetDict")


def replies_as_texts(splits: Splits) -> Splits:
    """The replies as the texts of a classifier, such as a judge of emotional replies: columns `id`, `text`, `labels`."""
    return splits.remove_columns("context").rename_column("reply", "text")
