# SPDX-License-Identifier: Apache-2.0
"""What a model answers to a context."""

from typing import Annotated

from typing_extensions import TypedDict

from ..results import Doc, Readable


class Reply(TypedDict):
    """A reply, and the emotion or the mixture that was asked for."""

    emotion: Annotated[str | dict[str, float], Doc("The emotion, or the mixture, as it was asked for.")]
    reply: Annotated[str, Doc("The reply.")]


class ReplyResult(Readable):
    """The replies to a context, in the order of the emotions."""

    replies: Annotated[list[Reply], Doc("The replies, in the order of the emotions.")]
