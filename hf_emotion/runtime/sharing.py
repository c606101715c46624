# SPDX-License-Identifier: Apache-2.0
"""What a prediction does for others between two batches, and how much it may read. Needs neither torch nor transformers."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np


TOO_MANY_TOKENS = "too_many_tokens"  # `type` of the field of a request that must be sent in parts
CHARACTERS = 8  # of a token: no text has more on average, but one that is no language


def free_after_forks(lock: Any) -> Any:
    """The lock; a forked child, which lacks the thread that may hold it, gets it free."""
    if hasattr(os, "register_at_fork"):  # not on Windows
        os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)
    return lock


class NotWanted(Exception):
    """Nobody waits for the answer any more."""


class TooManyTokens(ValueError):
    """More tokens than a request may have, see `Limits`."""


@dataclass
class Limits:
    """How many `windows` of a text and `tokens` (without padding, with written ones) of all texts one call may have, and has `used`."""

    windows: int
    tokens: int
    used: int = 0


_pause: ContextVar[Callable[[bool], None] | None] = ContextVar("pause", default=None)
_limits: ContextVar[Limits | None] = ContextVar("limits", default=None)


@contextmanager
def shared(pause: Callable[[bool], None]) -> Iterator[None]:
    """In this block predictions call `pause` between two batches: it may raise `NotWanted`, and with True it may predict for others."""
    token = _pause.set(pause)
    try:
        yield
    finally:
        _pause.reset(token)


@contextmanager
def limited(limits: Limits) -> Iterator[None]:
    """In this block a prediction raises ValueError (`TooManyTokens`) where it would go beyond the limits."""
    token = _limits.set(limits)
    try:
        yield
    finally:
        _limits.reset(token)


def pause(for_others: bool = True) -> None:
    """Between two batches; `for_others`: others may use the model here."""
    if (function := _pause.get()) is not None:
        function(for_others)


def is_shared() -> bool:
    return _pause.get() is not None


def use_tokens(count: int) -> None:
    """Count tokens before they are read or written; `TooManyTokens` beyond the limit."""
    if (limits := _limits.get()) is None:
        return
    limits.used += count
    if limits.used > limits.tokens:
        raise TooManyTokens(
            f"`inputs` must have {limits.tokens:,} tokens at most, got {limits.used:,} or more: send several requests, or shorter texts; "
            "--max-tokens of the service raises the limit."
        )


def check_characters(texts: Sequence[str], size: int) -> None:
    """ValueError for a text that would have more windows of `size` tokens than the limit: before it costs time, only by its length."""
    if (limits := _limits.get()) is None:
        return
    for number, text in enumerate(texts):
        if len(text) > CHARACTERS * size * limits.windows:
            _refuse(number, len(texts), f"{len(text):,} characters", limits)


def check_windows(documents: Sequence[int] | np.ndarray, count: int) -> None:
    """ValueError if one of `count` texts has more windows than the limit; `documents` names the text of each window."""
    if (limits := _limits.get()) is None:
        return
    windows = np.bincount(documents, minlength=count)
    if windows.max() > limits.windows:
        longest = int(windows.argmax())
        _refuse(longest, count, f"{windows[longest]:,} windows", limits)


def _refuse(number: int, count: int, size: str, limits: Limits) -> None:
    raise ValueError(
        f"text {number + 1} of {count} has {size}, and a text of `inputs` must have {limits.windows} windows at most: send it in parts, "
        "or start the service with --max-windows N to read the first N windows of each text."
    )
