# SPDX-License-Identifier: Apache-2.0
"""Reads a conversation turn by turn, while it goes on."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...runtime.checkpoints import model_probabilities
from ...runtime.plain import text_processing
from ...runtime.unread import Unread
from .predictor import DialoguePredictor, pad_dialogues, utterance_vectors
from .results import NextTurn, Turn


class DialogueStream:
    """
    A conversation; `DialoguePredictor.stream()` begins one. The encoder reads each turn once. A torch model that reads no later turns keeps
    the state of its LSTM and the keys and values of its attention; any other one reads the vectors of the turns so far again.

    Attributes:
        turns: the present answers to the turns so far.
    """

    def __init__(self, predictor: DialoguePredictor):
        self.turns: list[Turn] = []
        self._predictor = predictor
        model = predictor.model
        again = text_processing.reads_later_turns(model.config) or getattr(model, "takes_arrays", False)
        self._past: dict[Any, Any] | None = None if again else {}
        self._vectors = np.empty((0, model.config.utterance_size), np.float32)

    def add(self, turn: Any) -> NextTurn:
        """
        The emotion of the next turn, given as in a call of the predictor, and the earlier answers that it `changed`. ValueError for what is no
        turn; then the conversation stays as it was.
        """
        answer, unread = self.add_quietly(turn)
        self._predictor.warn_unread(unread.counts)
        return answer

    def add_quietly(self, turn: Any) -> tuple[NextTurn, Unread]:
        """As `add`, and what the model cannot read of the turn."""
        predictor, model = self._predictor, self._predictor.model
        turns = [(one["speaker"], one["utterance"]) for one in self.turns]
        turns.append(text_processing.read_turn(turn, len(turns) + 1))
        predictor.tell_of_speakers([turns])
        size, speakers = model.config.context_turns, model.config.num_speakers
        texts = text_processing.turn_windows(turns[-1 - size :], size)[-1:]
        vectors, unread = utterance_vectors(model, predictor.tokenizer, texts, predictor.max_length)
        past = None if self._past is None else dict(self._past)  # what fails changes nothing
        if past is None:
            vectors = np.concatenate([self._vectors, vectors])
        first = len(turns) - len(vectors)
        ids = text_processing.number_speakers([speaker for speaker, _ in turns], max(speakers, 1))
        inputs: dict[str, Any] = pad_dialogues([vectors], [ids[first:]] if speakers else None)
        inputs |= {} if past is None else {"past": past}
        scores = model_probabilities(model, inputs, False, text_processing.temperature_of(model.config))[0]
        (new,) = predictor.present(scores, [turns[first:]])
        old = [one["label"] for one in self.turns[first:]]
        changed = {n: one["label"] for n, one in enumerate(new[:-1], 1) if one["label"] != old[n - 1]}
        self.turns, self._past, self._vectors = [*self.turns[:first], *new], past, vectors
        return NextTurn(**new[-1], number=len(turns), changed=changed), unread
