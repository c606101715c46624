# SPDX-License-Identifier: Apache-2.0
"""Emotions of the turns of dialogues over HTTP."""

import secrets
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from ...runtime.plain import text_processing
from ..results import Doc
from ..service import Name, NoSession, Request, Service, Text, check_readable, cut, without_scores
from .predictor import DialoguePredictor
from .results import DialogueResult, NextTurnResult, TurnResult
from .showing import EXAMPLES, page
from .showing import turns as turns_of
from .streaming import DialogueStream


MOST_SESSIONS = 1024
SECONDS = 900.0  # after its last turn a session ends
MAX_TURNS = 1024  # attention over the turns costs memory that grows with their square


def _name(speaker: str) -> str:
    return check_readable(speaker) if speaker.strip() else speaker


Speaker = Annotated[str, Field(max_length=1000), AfterValidator(_name)]


class Turn(BaseModel):
    """What one speaker says."""

    model_config = ConfigDict(extra="forbid")

    speaker: Annotated[Speaker | None, Doc("Who says it.")] = None
    utterance: Annotated[Text, Doc("What is said.")]


def _turn(turn: Any) -> Any:
    return {"utterance": turn} if isinstance(turn, str) else turn


Dialogue = Annotated[
    list[Annotated[Turn, BeforeValidator(_turn, json_schema_input_type=Turn | str)]],
    Field(min_length=1, max_length=MAX_TURNS),
]


class DialogueRequest(Request):
    """Dialogues."""

    inputs: Annotated[list[Dialogue], Field(min_length=1, fail_fast=True)] = Field(
        description="Dialogues; a turn has a speaker and an utterance, or is just an utterance."
    )
    all_scores: bool = Field(False, description="Give the probability of every emotion, too.")


class TurnRequest(Request):
    """The next turn of a conversation."""

    session: Name | None = Field(None, description="As in the last answer. Default: a new conversation.")
    turn: Annotated[Turn, BeforeValidator(_turn, json_schema_input_type=Turn | str), Doc("It, or just its utterance.")]
    all_scores: bool = Field(False, description="Give the probability of every emotion, too.")


def service(predictor: DialoguePredictor) -> Service:
    sessions: Sessions = {}
    own = Service(
        page=page(predictor),
        request=DialogueRequest,
        result=DialogueResult,
        example=from_page(EXAMPLES[0], (), None),
        about={
            "labels": predictor.labels,
            "num_speakers": predictor.model.config.num_speakers,
            "reads_later_turns": text_processing.reads_later_turns(predictor.model.config),
        },
        read=read,
        compute=partial(compute, predictor),
        present=present,
        from_page=from_page,
        cut=lambda results: sum(cut(result["turns"]) for result in results),
    )
    streaming = replace(
        own,
        request=TurnRequest,
        result=NextTurnResult,
        example={"turn": {"speaker": "Ana", "utterance": "I got the job!"}},
        read=lambda request: ([partial(add, predictor, sessions, request)], {"call": True}),
        present=lambda found, request: found,
        cut=cut,
    )
    return replace(own, streaming=streaming)


Sessions = dict[str, tuple[float, DialogueStream]]  # when the last turn came, the conversation; the latest at the end


def add(predictor: DialoguePredictor, sessions: Sessions, request: TurnRequest) -> NextTurnResult:
    """The answer to the next turn of a session, or to the first one of a new session; the model's thread calls it."""
    for session in [one for one, (last, _) in sessions.items() if last <= time.monotonic() - SECONDS]:
        del sessions[session]
    if request.session is None:
        session, stream = secrets.token_urlsafe(16), predictor.stream()
    elif request.session in sessions:
        # Out of the dictionary while the turn is read: between batches the thread may call this for another request.
        session, (_, stream) = request.session, sessions.pop(request.session)
    else:
        ends = f"it ends {SECONDS:g} s after its last turn. Begin a new one without `session`"
        raise NoSession(f"there is no such session: {ends}, and send each turn when the one before is answered.")
    try:
        if len(stream.turns) >= MAX_TURNS:
            raise ValueError(f"the conversation has {MAX_TURNS} turns, the most: begin a new one without `session`.")
        answer, unread = stream.add_quietly((request.turn.speaker, request.turn.utterance))
    finally:
        if stream.turns:  # not a new session whose first turn failed
            sessions[session] = time.monotonic(), stream
        for oldest in list(sessions)[:-MOST_SESSIONS]:
            del sessions[oldest]
    (own,) = unread.each()
    found = NextTurnResult(**answer, **own, session=session)
    return found if request.all_scores else without_scores([found])[0]


def read(request: DialogueRequest) -> tuple[list[list[tuple[str | None, str]]], dict[str, Any]]:
    return [[(turn.speaker, turn.utterance) for turn in dialogue] for dialogue in request.inputs], {}


def compute(predictor: DialoguePredictor, dialogues: list[list[tuple[str | None, str]]]) -> list[list[TurnResult]]:
    """The turns of each dialogue, as `TurnResult` has them, with all scores."""
    results, unread = predictor.predict_quietly(dialogues)
    own = iter(unread.each())  # one dialogue after the other
    return [[TurnResult(**turn, **next(own)) for turn in turns] for turns in results]


def present(found: Sequence[list[TurnResult]], request: DialogueRequest) -> list[DialogueResult]:
    return [{"turns": turns if request.all_scores else without_scores(turns)} for turns in found]


def from_page(text: str, emotions: Sequence[str], seed: int | None) -> dict[str, Any]:
    return {"inputs": [[{"speaker": speaker, "utterance": utterance} for speaker, utterance in turns_of(text)]]}
