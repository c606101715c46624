# SPDX-License-Identifier: Apache-2.0
"""The page of the service for replies."""

from collections.abc import Sequence
from functools import partial

from ..base import Page, Table
from .predictor import ReplyGenerator


EXAMPLES = (
    "i lost my keys again",
    "we finally moved into our new flat",
    "my exam is tomorrow and i have not slept",
)


def page(predictor: ReplyGenerator) -> Page:
    return Page(
        "Context",
        EXAMPLES,
        partial(table, predictor),
        ["likelihood"],
        None,
        button="Reply",
        emotions=predictor.emotions,
        arguments=lambda method, emotions: {"emotions": list(emotions) or predictor.emotions[:1]},
    )


def table(predictor: ReplyGenerator, text: str, emotions: Sequence[str], seed: int | None) -> Table:
    """A reply in each of the chosen emotions, or in every emotion of the model if none is chosen."""
    emotions = list(emotions) or predictor.emotions
    replies, unread = predictor.predict([text] * len(emotions), emotions, seed=seed)
    return Table(["emotion", "reply"], [list(row) for row in zip(emotions, replies, strict=True)], unread.each()[:1])
