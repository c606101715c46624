# SPDX-License-Identifier: Apache-2.0
"""What the splits of all corpora share: labels, fingerprints."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ..io.lazily import datasets
from ..io.lazily import numpy as np
from .targets import has_targets, target_names


def fingerprint(splits: Mapping[str, datasets.Dataset]) -> str:
    """A fingerprint of the rows of a corpus; it changes when a row changes."""
    digest = hashlib.sha256()
    for split, dataset in splits.items():
        digest.update(f"{split} {dataset.features}\n".encode())
        for batch in dataset.iter(batch_size=10_000):
            digest.update(repr(batch).encode())
    return digest.hexdigest()


def map_rows(dataset: datasets.Dataset, function: Callable[..., dict], **options: Any) -> datasets.Dataset:
    """`dataset.map` in memory: for rows on disk it would keep a file for each call, and hash `function` and its tokenizer."""
    return dataset.map(function, new_fingerprint=uuid.uuid4().hex, keep_in_memory=True, **options)


def check_split(splits: datasets.DatasetDict, split: str, dataset: str) -> None:
    """ValueError unless a corpus, loaded as `splits`, has the split."""
    if split not in splits:
        raise ValueError(f"{dataset} has no split {split!r}: it has {list(splits)}.")


def label_names(dataset: datasets.Dataset) -> list[str]:
    """The names of a split's labels, in the order of their ids, or of its values."""
    if has_targets(dataset):
        return target_names(dataset)
    feature = dataset.features["labels"]
    return list((feature if isinstance(feature, datasets.ClassLabel) else feature.feature).names)


def multi_hot(label_ids: Iterable[Sequence[int]], num_labels: int) -> np.ndarray:
    """Lists of label ids -> (N, C) of 0 and 1, int8."""
    label_ids = list(label_ids)
    matrix = np.zeros((len(label_ids), num_labels), dtype=np.int8)
    for row, ids in enumerate(label_ids):
        matrix[row, list(ids)] = 1
    return matrix


NEEDS_CONTEXT = "needs_context"  # a column of dialogues: turns whose words alone would be read as another emotion
UNANNOTATED = "unannotated"  # a column with the ids of the labels that were not annotated in a row


def gold_matrix(rows: datasets.Dataset) -> np.ndarray:
    """(N, C) int8 of rows that may have several labels: 1, 0, and -1 for a label that was not annotated."""
    number = len(label_names(rows))
    matrix = multi_hot(rows["labels"], number)
    if UNANNOTATED in rows.column_names:
        matrix[multi_hot(rows[UNANNOTATED], number) > 0] = -1
    return matrix
