# SPDX-License-Identifier: Apache-2.0
"""
Texts that are longer than a model reads at once, in overlapping windows. Needs neither torch nor transformers.

Shapes: N texts, W windows, C labels.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Windowing:
    """
    How a text that is longer than a window is read.

    Attributes:
        size: tokens of a window, special tokens included.
        stride: tokens that a window shares with the next one, as `stride` of a tokenizer.
        most: windows of a text at most, the rest of it is cut; None: as many as it needs.
    """

    size: int
    stride: int
    most: int | None = None


def windowing(max_length: int, stride: int | None = None, max_windows: int | None = None) -> Windowing:
    """
    Windows of `max_length` tokens that share a quarter, unless `stride` says otherwise.

    Raises:
        ValueError: `stride` is negative or more than half a window; `max_windows` below 1.
    """
    if stride is not None and not 0 <= stride <= max_length // 2:
        raise ValueError(
            f"`stride` must lie between 0 and {max_length // 2}, half a window (`max_length` {max_length}), got {stride}."
        )
    if max_windows is not None and max_windows < 1:
        raise ValueError(f"`max_windows` must be at least 1, or None to read whole texts, got {max_windows}.")
    return Windowing(max_length, max_length // 4 if stride is None else stride, max_windows)


def special_borders(tokenizer: Any, encoded: Any, row: int) -> tuple[int, int]:
    """How many special tokens stand before and behind a text of what a tokenizer gave."""
    encodings = getattr(encoded, "encodings", None)
    if encodings:
        special = np.array(encodings[row].special_tokens_mask)
    else:
        ids = encoded["input_ids"][row]
        special = np.array(tokenizer.get_special_tokens_mask(ids, already_has_special_tokens=True))
    own = np.flatnonzero(special == 0)
    return (len(special), 0) if not own.size else (int(own[0]), len(special) - 1 - int(own[-1]))


def window_spans(length: int, size: int, shared: int, most: int | None = None) -> list[tuple[int, int, int, int]]:
    """
    Windows over `length` tokens: (start, end, first and last + 1 of those that no other window counts). Neighbours share `shared`
    tokens, the last one, which ends with the text, perhaps more; of what two share each counts the half that it reads in more context.

    >>> window_spans(10, 6, 2)
    [(0, 6, 0, 5), (4, 10, 5, 10)]
    """
    starts = [0]
    while starts[-1] + size < length and len(starts) != most:
        starts.append(min(starts[-1] + size - shared, length - size))
    borders = [(later + start + size) // 2 for start, later in zip(starts, starts[1:], strict=False)]
    return [
        (start, min(start + size, length), first, last)
        for start, first, last in zip(starts, [0, *borders], [*borders, min(starts[-1] + size, length)], strict=True)
    ]


def split_windows(
    inputs: Mapping[str, Sequence[Sequence]], windows: Windowing, borders: Mapping[int, tuple[int, int]]
) -> tuple[dict[str, list], np.ndarray, np.ndarray]:
    """
    Rows of tokens as rows of windows.

    Args:
        inputs: name of an input -> N rows with a value for each token; `input_ids` among them.
        windows: how long texts are read.
        borders: for the rows that are too long, how many special tokens stand before and behind the text; every window gets them.

    Returns:
        the inputs of W windows, with `pooling_mask`, 0 at the tokens that another window counts; (W,) int64, the row of each
        window; (N,) bool, whether the end of a row was cut.
    """
    rows = len(inputs["input_ids"])
    split: dict[str, list] = {name: [] for name in (*inputs, "pooling_mask")}
    documents: list[int] = []
    cut = np.zeros(rows, bool)
    for row in range(rows):
        length = len(inputs["input_ids"][row])
        before, behind = borders.get(row, (0, 0))
        end = length - behind
        size = length if row not in borders else max(windows.size - before - behind, 1)
        shared = min(windows.stride, size // 2)
        spans = window_spans(end - before, size, shared, windows.most)
        cut[row] = spans[-1][1] < end - before
        for start, stop, first, last in spans:
            documents.append(row)
            for name, values in inputs.items():
                whole = values[row]
                split[name].append([*whole[:before], *whole[before + start : before + stop], *whole[end:]])
            counted = [int(first <= place < last) for place in range(start, stop)]
            split["pooling_mask"].append([1] * before + counted + [1] * behind)
    return split, np.array(documents, np.int64), cut


def join_windows(logits: np.ndarray, lse: np.ndarray, documents: np.ndarray, count: int) -> np.ndarray:
    """
    (W, C) logits of windows -> (count, C) of texts; the numpy form of `hf_emotion.modeling.label_attention.join_windows`.

    Args:
        lse: (W, C) or (W, 1): what a window weighs, as a logarithm: of label attention the logarithm of the sum of its exponentials; of
            other models that of the number of tokens that the window counts, so that the result is the mean over windows.
        documents: (W,), the text of each window, in ascending order.
    """
    starts = np.searchsorted(documents, np.arange(count))
    lse = np.broadcast_to(lse, logits.shape).astype(np.float64)
    weights = np.exp(lse - np.maximum.reduceat(lse, starts)[documents])
    total = np.add.reduceat(weights, starts)
    return (np.add.reduceat(weights * logits, starts) / total).astype(np.float32)


__all__ = ["Windowing", "join_windows", "special_borders", "split_windows", "window_spans", "windowing"]
