# SPDX-License-Identifier: Apache-2.0
"""Rows that hold a conversation without labels: `id` and `turns`."""

from datasets import Dataset


def texts(rows: Dataset) -> list[str]:
    return ["\n".join(turns) for turns in rows["turns"]]


def gold(rows: Dataset) -> None:
    """There are no labels."""
