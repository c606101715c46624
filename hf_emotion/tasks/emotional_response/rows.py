# SPDX-License-Identifier: Apache-2.0
"""Rows that hold a context, a reply and its emotion."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...data.rows import Rows
from ...io.lazily import datasets
from ...runtime.plain import text_processing


def add_reply(rows: Rows, line: int, context: Any, reply: Any, label: Any, row_id: str) -> None:
    for name, text in (("context", context), ("reply", reply)):
        if not text_processing.is_readable(text):
            rows.reject(line, f"the {name} is empty or no string: {text!r}")
            return
    context, reply = (text_processing.normalized(text) for text in (context, reply))
    rows.rows.append({"id": row_id, "context": context, "reply": reply, "labels": label, "line": line})


def to_dataset(rows: Rows, names: Sequence[str]) -> datasets.Dataset:
    return rows.with_features(reply_features(names))


def reply_features(names: Sequence[str]) -> datasets.Features:
    text = datasets.Value("string")
    return datasets.Features(
        {"id": text, "context": text, "reply": text, "labels": datasets.ClassLabel(names=list(names))}
    )
