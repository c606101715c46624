# SPDX-License-Identifier: Apache-2.0
"""Rows that hold a conversation without labels: `id` and `turns`."""

from __future__ import annotations

from collections import Counter

from datasets import Dataset


def texts(rows: Dataset) -> list[str]:
    return ["\n".join(turns) for turns in rows["turns"]]


def counted_texts(rows: Dataset) -> Counter[str]:
    return Counter(texts(rows))


def gold(rows: Dataset) -> None:
    """There are no labels."""


def no_texts(rows: Dataset) -> None:
    """A classifier of texts cannot read conversations without labels."""
