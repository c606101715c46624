# SPDX-License-Identifier: Apache-2.0
"""Emotions of the turns of dialogues from a service."""

from collections.abc import Sequence
from typing import Any

from ...runtime.remote import Remote, unread_of
from ...runtime.unread import Unread
from ..results import Label
from .predictor import DialoguePredictor, read_dialogues
from .results import Turn
from .streaming import DialogueStream


class RemotePredictor(Remote, DialoguePredictor):
    """A `DialoguePredictor` whose model is behind a service."""

    def predict_quietly(
        self, dialogues: Sequence[Sequence[Any]], progress: bool = False
    ) -> tuple[list[list[Turn]], Unread]:
        turns = [
            [_turn(speaker, utterance) for speaker, utterance in dialogue] for dialogue in read_dialogues(dialogues)
        ]
        found = [result["turns"] for result in self.client.ask(turns, progress, all_scores=True)]
        unread = unread_of([turn for turns in found for turn in turns])
        return [[{name: turn[name] for name in Turn.__annotations__} for turn in turns] for turns in found], unread  # type: ignore[misc]

    def stream(self) -> DialogueStream:
        raise ValueError("through a service, turns are sent one by one to its route /v1/dialogue-emotion/turn.")

    def of_items(
        self, dialogues: Sequence[Sequence[tuple[str | None, str]]], top_k: int | None = None
    ) -> tuple[list[list[Label]], Unread]:
        """The most probable label of each turn, one dialogue after the other, or its `top_k` most probable ones."""
        self.check_top_k(top_k)
        turns = [[_turn(speaker, text) for speaker, text in dialogue] for dialogue in dialogues]
        found = [turn for result in self.client.ask(turns, all_scores=True) for turn in result["turns"]]
        best = [sorted(turn["scores"].items(), key=lambda item: -item[1])[: top_k or 1] for turn in found]
        return [[{"label": label, "score": score} for label, score in own] for own in best], unread_of(found)


def _turn(speaker: Any, utterance: str) -> dict[str, str | None]:
    """A turn as the service takes it: files may number their speakers."""
    return {"speaker": None if speaker is None else str(speaker), "utterance": utterance}
