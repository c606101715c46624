# SPDX-License-Identifier: Apache-2.0
"""Turns texts into batches of numbers. Needs neither torch nor transformers. N texts, B rows of a batch, L tokens."""

import logging
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any

import numpy as np

from .languages import foreign_languages, languages_of
from .plain import WINDOWS_CHARACTERS, text_processing
from .sharing import free_after_forks
from .unread import Unread, is_new, unknown_shares
from .windows import Windowing, is_whole, split_windows


logger = logging.getLogger(__name__)

# Larger batches leave the CPU's caches (measured with MiniLM: 512 rows 1.44 s at 1024 tokens, 1.73 s at 4096).
TOKENS_PER_BATCH = 1024  # times 16 elsewhere
CHUNK = 4096  # texts tokenized and sorted together
CHARACTERS = 2_000_000  # of these texts
INPUT_NAMES = ("input_ids", "token_type_ids", "token_gates", "pooling_mask")

# A fast tokenizer stores truncation as a setting: two threads that change it at once fail with "Already borrowed".
tokenizing = free_after_forks(threading.RLock())


def as_list(texts: Any) -> list[Any]:
    """A list of inputs; a string counts as one. TypeError for anything else, such as a table, a dictionary or bytes."""
    is_table = hasattr(texts, "columns")
    if hasattr(texts, "to_pylist") and not is_table:  # an array of pyarrow, whose items are not strings
        texts = texts.to_pylist()
    # Iterating over a table gives the names of its columns, and a set has no order.
    if isinstance(texts, Mapping | Set | bytes) or not isinstance(texts, Iterable) or is_table:
        raise TypeError(f"texts must be a string or a list of strings, got {type(texts).__name__}.")
    return [texts] if isinstance(texts, str) else list(texts)


def as_texts(texts: Sequence[str] | str) -> list[str]:
    """A list of texts in composed characters (NFC); a string counts as one. ValueError for one that is empty or no string."""
    texts = as_list(texts)
    for row, text in enumerate(texts, 1):
        if not text_processing.is_readable(text):
            hint = ": drop such rows (`dropna`)" if str(text) in ("nan", "<NA>") else ""
            raise ValueError(f"text {row} of {len(texts)} is empty or no string: {text!r}{hint}")
    mended = sum(map(text_processing.has_windows_characters, texts))
    if mended and is_new("windows characters"):
        logger.warning(WINDOWS_CHARACTERS, mended, len(texts))
    return [text_processing.composed(text) for text in texts]


def check_max_length(max_length: int | None, limit: int, of: str, default: int | None = None) -> int:
    """`max_length`, else `default`, else the limit; ValueError unless it lies between 3 and the limit of the model or encoder."""
    if max_length is not None and not (is_whole(max_length) and 3 <= max_length <= limit):
        raise ValueError(
            f"`max_length` must be a whole number between 3 and the {of}'s {limit} positions, got {max_length!r}."
        )
    return max_length or min(limit, default or limit)


def check_top_k(top_k: int | None) -> None:
    """ValueError unless None or a positive whole number."""
    if top_k is not None and not (is_whole(top_k) and top_k >= 1):
        raise ValueError(f"`top_k` must be a whole number of at least 1, got {top_k!r}.")


def chunks(texts: Sequence[str]) -> Iterator[slice]:
    """The rows to tokenize at once: what tokenizers say of the characters of a text takes a hundred times their memory."""
    start = characters = 0
    for end, text in enumerate(texts):
        if end > start and (end - start == CHUNK or characters + len(text) > CHARACTERS):
            yield slice(start, end)
            start, characters = end, 0
        characters += len(text)
    if start < len(texts):
        yield slice(start, len(texts))


def encode_texts(
    tokenizer,
    segments: Sequence[Sequence[str]],
    max_length: int,
    gate: "text_processing.TfidfGate | None",
    config,
    windows: Windowing | None = None,
    places: bool = False,
) -> tuple[dict[str, list], Unread]:
    """
    Texts as a model reads them, in training and in prediction.

    Args:
        segments: the texts, and for pairs the second segment of each, which is never cut.
        max_length: maximum number of tokens per text, special tokens included; the rest is cut.
        gate, config: the model's TF-IDF gate and its configuration.
        windows: read longer texts in windows of `max_length` tokens.
        places: add `offset_mapping`, the places of the tokens in the texts, which are then read as they are, without NFC.

    Returns:
        `input_ids`, for pairs `token_type_ids`, with `tfidf_gating="scale"` `token_gates`; and what the model cannot
        read of the texts. If a text needs several `windows`, the rows are windows: they have `pooling_mask`, and `documents`
        says which text each belongs to, see `split_windows`.
    """
    texts, *auxiliary = segments
    if not places:
        texts = [text_processing.composed(text) for text in texts]  # as the loaders do
    foreign = foreign_languages(texts, languages_of(config))
    scaled = gate is not None and config.tfidf_gating == "scale"
    if gate is not None and not scaled:
        texts = [gate.filter(text) for text in texts]
    options: dict[str, Any] = {
        "return_token_type_ids": bool(auxiliary),
        "return_attention_mask": False,
        "verbose": False,
    }
    with tokenizing:
        encoded = tokenizer(texts, *auxiliary, return_offsets_mapping=scaled or places, **options)
        cut = np.array([len(ids) > max_length for ids in encoded["input_ids"]], dtype=bool)
        unknown = unknown_shares(tokenizer, texts, encoded)
        unread = Unread.nothing(len(texts))._replace(truncated=cut, unknown=unknown, language=foreign)
        rows = np.flatnonzero(cut).tolist()
        borders = {}
        if windows is not None:
            borders = {row: text_processing.special_borders(tokenizer, encoded, row) for row in rows}
        elif rows:
            options |= {"truncation": "only_first", "max_length": max_length}
            parts = [[segment[row] for row in rows] for segment in (texts, *auxiliary)]
            shorter = tokenizer(*parts, return_offsets_mapping=scaled or places, **options)
            for name, values in shorter.items():
                for row, value in zip(rows, values, strict=True):
                    encoded[name][row] = value
    if gate is not None and scaled:
        offsets = encoded.pop("offset_mapping")
        encoded["token_gates"] = [gate.token_gates(*pair) for pair in zip(texts, offsets, strict=True)]
    if windows is None or not borders:
        return dict(encoded), unread
    split, documents, cut = split_windows(encoded, windows, borders)
    return {**split, "documents": documents.tolist()}, unread._replace(truncated=cut)


def pad_rows(tokenizer, batch: Mapping[str, Sequence], padding_side: str | None = None) -> dict[str, np.ndarray]:
    """
    Rows of token ids -> arrays padded to the longest row, on `padding_side`, else the tokenizer's.

    Args:
        batch: rows of `encode_texts`, and one number per row (`context_ids`), if any.

    Returns:
        (B, L) `input_ids`, `attention_mask`, and what else there is: `token_type_ids`, `token_gates` (float32, 1 at padding);
        (B,) what has one number per row. int64.
    """
    if tokenizer.pad_token_id is None:
        raise ValueError("the tokenizer has no padding token: set `tokenizer.pad_token` before rows go into a batch.")
    lengths = np.array([len(ids) for ids in batch["input_ids"]])
    places = np.arange(lengths.max())
    if (padding_side or tokenizer.padding_side) == "right":
        real = places < lengths[:, None]  # (B, L)
    else:
        real = places >= lengths.max() - lengths[:, None]
    fillings = {
        "input_ids": tokenizer.pad_token_id,
        "token_type_ids": tokenizer.pad_token_type_id,
        "token_gates": 1.0,
        "pooling_mask": 0,
        "turn_mask": 0,
    }
    padded = {}
    for name, rows in batch.items():
        dtype = np.float32 if name == "token_gates" else np.int64
        if name not in fillings:
            padded[name] = np.asarray(rows, dtype)
            continue
        padded[name] = np.full(real.shape, fillings[name], dtype)
        padded[name][real] = np.concatenate([np.asarray(row, dtype) for row in rows])
    return {**padded, "attention_mask": real.astype(np.int64)}


def token_budget_batches(lengths: Sequence[int], tokens: int) -> list[list[int]]:
    """
    Rows sorted by length, longest first, and cut into batches of at most `tokens` tokens, padding included (a longer row is a batch of its
    own). No other borders cost less, where a batch costs its tokens, and `tokens` / 32 for the call itself.
    """
    order = np.argsort(-np.asarray(lengths, dtype=np.int64), kind="stable")
    longest = np.asarray(lengths, dtype=np.int64)[order].tolist()
    count = len(longest)
    sizes, costs = np.arange(1, count + 1), np.zeros(count + 1)  # of the rows from here on, in their best batches
    ends = [0] * count
    for start in reversed(range(count)):
        most = max(1, tokens // max(1, longest[start]))
        options = costs[start + 1 : start + 1 + most] + longest[start] * sizes[: min(most, count - start)]
        best = int(options.argmin())
        ends[start] = start + 1 + best
        costs[start] = options[best] + tokens / 32
    batches, start = [], 0
    while start < count:
        batches.append(order[start : ends[start]].tolist())
        start = ends[start]
    return batches
