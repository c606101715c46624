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


class NextTurn(Turn):
    """A new turn of a conversation that goes on."""

    number: int
    """Its place in the conversation, from 1."""

    changed: dict[int, str]
    """Earlier turns, by number, whose most probable emotion is another one now, this; only from a model that reads later turns."""


class TurnResult(Turn, Readable):
    """The most probable emotion of a turn."""


class NextTurnResult(NextTurn, Readable):
    """A new turn of a session."""

    session: str
    """For the next turn."""


class DialogueResult(TypedDict):
    """The turns of a dialogue with their emotions."""

    turns: list[TurnResult]
