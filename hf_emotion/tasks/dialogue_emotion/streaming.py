# SPDX-License-Identifier: Apache-2.0
"""Reads a conversation turn by turn, while it goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...runtime.checkpoints import model_logits, to_probabilities
from ...runtime.plain import text_processing
from ...runtime.unread import Unread
from .predictor import DialoguePredictor, pad_dialogues, utterance_vectors
from .results import NumberedTurn, StreamedTurn, Turn


if TYPE_CHECKING:
    import torch


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
        self._keeps = not (text_processing.reads_later_turns(model.config) or getattr(model, "takes_arrays", False))
        self._past: dict[torch.nn.Module, Any] = {}
        self._vectors: list[np.ndarray] = []

    def add(self, turn: Any) -> StreamedTurn:
        """
        The emotion of the next turn, given as in a call of the predictor, and the earlier answers that it `changed`: their labels are others
        now. ValueError for what is no turn; then the conversation stays as it was.
        """
        answer, unread = self.add_quietly(turn)
        self._predictor.warn_unread(unread.counts)
        return answer

    def add_quietly(self, turn: Any) -> tuple[StreamedTurn, Unread]:
        """As `add`, and what the model cannot read of the turn."""
        predictor, model, number = self._predictor, self._predictor.model, len(self.turns) + 1
        speaker, utterance = text_processing.read_turn(turn, number)
        said = [*((one["speaker"], one["utterance"]) for one in self.turns), (speaker, utterance)]
        predictor.tell_of_speakers([said])
        config = model.config
        texts = text_processing.turn_windows(said[-1 - config.context_turns :], config.context_turns)[-1:]
        vectors, unread = utterance_vectors(model, predictor.tokenizer, texts, predictor.max_length)
        if len(self.turns) + 1 != number:  # the service computes short calls between the batches of long ones
            raise ValueError("another turn of the conversation came in between: send one after the other.")
        self._vectors = [] if self._keeps else [*self._vectors, vectors]
        ids = None
        if config.num_speakers:
            ids = text_processing.number_speakers([speaker for speaker, _ in said], config.num_speakers)
        if self._keeps:
            from ...runtime.torch_models import torch_logits

            inputs = pad_dialogues([vectors], None if ids is None else [ids[-1:]])
            logits = torch_logits(model, inputs, past=self._past)
        else:
            logits = model_logits(
                model, pad_dialogues([np.concatenate(self._vectors)], None if ids is None else [ids])
            )
        scores = to_probabilities(logits[0], False, text_processing.temperature_of(config))
        new = predictor.present(scores, [said[-len(scores) :]])[0]
        earlier = [NumberedTurn(number=place, **turn) for place, turn in enumerate(new[:-1], 1)]
        changed = [one for one, old in zip(earlier, self.turns, strict=False) if one["label"] != old["label"]]
        self.turns = [*self.turns[: number - len(new)], *new]
        return StreamedTurn(number=number, **new[-1], changed=changed), unread
