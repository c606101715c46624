# SPDX-License-Identifier: Apache-2.0
"""What a model answers about a dialogue."""

from typing import NotRequired

from typing_extensions import TypedDict

from ..results import Label, Readable


class Turn(Label):
    """A turn with its most probable emotion."""

    speaker: str | None
    utterance: str
    scores: NotRequired[dict[str, float]]
    """The probability of every emotion; from the service for `all_scores`."""


class NumberedTurn(Turn):
    """A turn and its place in the conversation."""

    number: int
    """From 1."""


class StreamedTurn(NumberedTurn):
    """A new turn of a conversation that goes on."""

    changed: list[NumberedTurn]
    """Earlier turns whose most probable emotion is another one now; only from a model that reads later turns."""


class TurnResult(Turn, Readable):
    """The most probable emotion of a turn."""


class NextTurn(StreamedTurn, Readable):
    """A new turn, from the service."""


class DialogueResult(TypedDict):
    """The turns of a dialogue with their emotions."""

    turns: list[TurnResult]
