# SPDX-License-Identifier: Apache-2.0
"""What a model answers about a dialogue."""

from typing import Annotated, NotRequired

from typing_extensions import TypedDict

from ..results import Doc, Label, Readable


class Turn(Label):
    """A turn with its most probable emotion."""

    speaker: Annotated[str | None, Doc("Who says it.")]
    utterance: Annotated[str, Doc("What is said.")]
    scores: NotRequired[
        Annotated[dict[str, float], Doc("The probability of every emotion; from the service for `all_scores`.")]
    ]


class NextTurn(Turn):
    """A new turn of a conversation that goes on."""

    number: Annotated[int, Doc("Its place in the conversation, from 1.")]
    changed: Annotated[
        dict[int, str],
        Doc(
            "Earlier turns, by number, whose most probable emotion is another one now, this; only from a model that reads later turns."
        ),
    ]


class TurnResult(Turn, Readable):
    """The most probable emotion of a turn."""


class NextTurnResult(NextTurn, Readable):
    """A new turn of a session."""

    session: Annotated[str, Doc("For the next turn.")]


class DialogueResult(TypedDict):
    """The turns of a dialogue with their emotions."""

    turns: Annotated[list[TurnResult], Doc("The turns, in their order.")]
