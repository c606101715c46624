# SPDX-License-Identifier: Apache-2.0
"""Rows that hold a conversation without labels."""

from __future__ import annotations

from ...data.lazily import datasets


def is_conversation_dataset(dataset: datasets.Dataset) -> bool:
    """Whether a row is a conversation without labels: the column `turns` is there."""
    return "turns" in dataset.column_names
