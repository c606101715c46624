# SPDX-License-Identifier: Apache-2.0
"""Splits long texts into overlapping windows. Needs neither torch nor transformers. N texts, W windows, C labels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np

from .plain import text_processing


def is_whole(value: Any) -> bool:
    """Whether a value is a whole number: no truth value, no fraction, no text."""
    return isinstance(value, Integral) and not isinstance(value, bool)


@dataclass(frozen=True)
class Windowing:
    """
    How a text that is longer than a window is read.

    Attributes:
        size: tokens of a window, special tokens included.
        stride: tokens that a window shares with the next one, as `stride` of a tokenizer.
        most: maximum number of windows per text, the rest is cut; None: no limit.
        strategy: how the answers of the windows are combined, "average" or "max".
    """

    size: int
    stride: int
    most: int | None = None
    strategy: str = "average"


def windowing(
    max_length: int,
    stride: int | None = None,
    max_windows: int | None = None,
    aggregation_strategy: str | None = None,
    multi_label: bool = True,
) -> Windowing:
    """Windows of `max_length` tokens; ValueError, see `window_overlap`."""
    strategy = aggregation_strategy or "average"
    shared = text_processing.window_overlap(max_length, stride, max_windows, strategy, multi_label)
    return Windowing(max_length, shared, max_windows, strategy)


def split_windows(
    inputs: Mapping[str, Sequence[Sequence]], windows: Windowing, borders: Mapping[int, tuple[int, int]]
) -> tuple[dict[str, list], np.ndarray, np.ndarray]:
    """
    Split rows of tokens into rows of windows.

    Args:
        inputs: name of an input -> N rows with a value for each token; `input_ids` among them.
        borders: for the rows that are too long, how many special tokens stand before and behind the text; every window gets them.

    Returns:
        the inputs of W windows, with `pooling_mask`, which is 0 at tokens that another window counts; (W,) int64, the row of
        each window; (N,) bool, whether the end of a row was cut.
    """
    rows = len(inputs["input_ids"])
    split: dict[str, list] = {name: [] for name in (*inputs, "pooling_mask")}
    documents: list[int] = []
    cut = np.zeros(rows, bool)
    for row in range(rows):
        whole = {name: values[row] for name, values in inputs.items()}
        parts: list[dict[str, Any]] = [{**whole, "pooling_mask": [1] * len(whole["input_ids"])}]
        if row in borders:
            parts, cut[row] = text_processing.split_row(
                whole, borders[row], windows.size, windows.stride, windows.most
            )
        documents += [row] * len(parts)
        for part in parts:
            for name, values in part.items():
                split[name].append(values)
    return split, np.array(documents, np.int64), cut


def join_windows(
    logits: np.ndarray, lse: np.ndarray, documents: np.ndarray, count: int, strategy: str = "average"
) -> np.ndarray:
    """
    Combine the logits of windows (W, C) to those of texts (count, C): the maximum for each label, or their average, the numpy form of
    `hf_emotion.modeling.modeling_label_aware.join_windows`.

    Args:
        lse: (W, C) or (W, 1), the logarithm of each window's weight: log-sum-exp of the scores of label attention, or the logarithm of
            the number of tokens that the window counts.
        documents: (W,), the text of each window, in ascending order.
    """
    starts = np.searchsorted(documents, np.arange(count))
    if strategy == "max":
        return np.maximum.reduceat(logits, starts)
    lse = np.broadcast_to(lse, logits.shape).astype(np.float64)
    weights = np.exp(lse - np.maximum.reduceat(lse, starts)[documents])
    total = np.add.reduceat(weights, starts)
    return (np.add.reduceat(weights * logits, starts) / total).astype(np.float32)
