# SPDX-License-Identifier: Apache-2.0
"""Splits texts that are longer than a model reads at once into overlapping windows. Needs only the standard library."""

from collections.abc import Mapping, Sequence


STRATEGIES = ("average", "max")  # how the windows of a text are combined


def window_overlap(
    size: int, stride: int | None, max_windows: int | None, aggregation_strategy: str, multi_label: bool
) -> int:
    """
    The number of tokens that two windows of `size` tokens share: a quarter, unless `stride` is given.

    Raises:
        ValueError: `stride` is negative or more than half a window; `max_windows` is below 1; the strategy is not in
            `STRATEGIES`, or is "max" for a model whose labels exclude each other.
    """
    if aggregation_strategy not in STRATEGIES:
        raise ValueError(f"`aggregation_strategy` must be one of {list(STRATEGIES)}, got {aggregation_strategy!r}.")
    if aggregation_strategy == "max" and not multi_label:
        raise ValueError(
            "`aggregation_strategy` 'max' finds the labels of any window, and this model gives a text one label: take 'average'."
        )
    if stride is not None and not 0 <= stride <= size // 2:
        raise ValueError(
            f"`stride` must lie between 0 and {size // 2}, half a window (`max_length` {size}), got {stride}."
        )
    if max_windows is not None and max_windows < 1:
        raise ValueError(f"`max_windows` must be at least 1, or None to read whole texts, got {max_windows}.")
    return size // 4 if stride is None else stride


def special_borders(tokenizer, encoded, row: int) -> tuple[int, int]:
    """How many special tokens a tokenizer put before and after a text."""
    encodings = getattr(encoded, "encodings", None)
    if not encodings:  # a slow tokenizer, whose mask counts unknown tokens too
        special = tokenizer.build_inputs_with_special_tokens([])
        pairs = zip(special, encoded["input_ids"][row], strict=False)
        before = next((place for place, (one, other) in enumerate(pairs) if one != other), len(special))
        return before, len(special) - before
    mask = encodings[row].special_tokens_mask
    own = [place for place, value in enumerate(mask) if not value]
    return (own[0], len(mask) - 1 - own[-1]) if own else (len(mask), 0)


def window_spans(length: int, size: int, shared: int, most: int | None = None) -> list[tuple[int, int, int, int]]:
    """
    Windows over `length` tokens: (start, end, start and end of the tokens that only this window counts). Neighbours share `shared`
    tokens; the last window ends with the text and may share more. Each counts the half of the shared tokens with more context
    in it.

    >>> window_spans(10, 6, 2)
    [(0, 6, 0, 5), (4, 10, 5, 10)]
    """
    starts = [0]
    while starts[-1] + size < length and len(starts) != most:
        starts.append(min(starts[-1] + size - shared, length - size))
    borders = [(later + start + size) // 2 for start, later in zip(starts, starts[1:], strict=False)]
    end = min(starts[-1] + size, length)
    return [
        (start, min(start + size, length), first, last)
        for start, first, last in zip(starts, [0, *borders], [*borders, end], strict=True)
    ]


def split_row(
    row: Mapping[str, Sequence], borders: tuple[int, int], size: int, shared: int, most: int | None
) -> tuple[list[dict[str, list]], bool]:
    """
    Split a text into windows.

    Args:
        row: name of an input -> a value for each token; `input_ids` among them.
        borders: how many special tokens stand before and behind the text; every window gets them.
        size, shared, most: number of tokens of a window, tokens shared with the next one, maximum number of windows (None: no
            limit).

    Returns:
        the inputs of each window, with `pooling_mask`, which is 0 at tokens that another window counts; and whether the end
        was cut.
    """
    before, behind = borders
    end = len(row["input_ids"]) - behind
    size = max(size - before - behind, 1)
    spans = window_spans(end - before, size, min(shared, size // 2), most)
    windows = []
    for start, stop, first, last in spans:
        window = {
            name: [*values[:before], *values[before + start : before + stop], *values[end:]]
            for name, values in row.items()
        }
        counted = [int(first <= place < last) for place in range(start, stop)]
        windows.append({**window, "pooling_mask": [1] * before + counted + [1] * behind})
    return windows, spans[-1][1] < end - before


__all__ = ["STRATEGIES", "special_borders", "split_row", "window_overlap", "window_spans"]
