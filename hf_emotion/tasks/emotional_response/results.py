# SPDX-License-Identifier: Apache-2.0
"""What a model answers to a context."""

from typing_extensions import TypedDict

from ..results import Readable


class Reply(TypedDict):
    """A reply, and the emotion or the mixture that was asked for."""

    emotion: str | dict[str, float]
    reply: str


class ReplyResult(Readable):
    """The replies to a context, in the order of the emotions."""

    replies: list[Reply]
