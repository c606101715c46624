# SPDX-License-Identifier: Apache-2.0
"""Rows of texts with labels: `id`, `text` and `labels`, one `ClassLabel` or a list of them."""

import numpy as np
from datasets import ClassLabel, Dataset

from ...data.splits import label_names, multi_hot


def texts(rows: Dataset) -> list[str]:
    return list(rows["text"])


def gold(rows: Dataset) -> np.ndarray:
    """(N, C) int8 of 0 and 1 if a row has a list of labels, else (N,) int64 class ids."""
    if isinstance(rows.features["labels"], ClassLabel):
        return np.asarray(rows["labels"], dtype=np.int64)
    return multi_hot(rows["labels"], len(label_names(rows)))


def units(rows: Dataset) -> tuple[list[str], list[str]]:
    return list(rows["id"]), list(rows["text"])
