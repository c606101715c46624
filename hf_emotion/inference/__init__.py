# SPDX-License-Identifier: Apache-2.0
"""Prediction with checkpoints."""

from pathlib import Path

from .dialogue import DialoguePredictor
from .predictor import (
    Predictor,
    is_dialogue_model,
    is_generator,
    is_targeted,
    load_checkpoint,
)
from .replies import ReplyGenerator
from .targeted import TargetedPredictor


def load_predictor(
    checkpoint: str | Path,
    taxonomy: str | None = None,
    max_length: int | None = None,
    device: str | None = None,
    dtype: str | None = None,
) -> Predictor | DialoguePredictor | ReplyGenerator:
    """
    A `TargetedPredictor` for a model of targeted sentiment, a `DialoguePredictor` for one of dialogues, a `ReplyGenerator` for one
    that replies, else a `Predictor`.
    """
    model, tokenizer = load_checkpoint(checkpoint, device=device, dtype=dtype)
    for found, kind, predictor_class in (
        (is_generator, "a generator of replies", ReplyGenerator),
        (is_dialogue_model, "a model of dialogues", DialoguePredictor),
        (is_targeted, "a model of targeted sentiment", TargetedPredictor),
    ):
        if found(model.config):
            if taxonomy is not None:
                raise ValueError(f"`taxonomy` {taxonomy!r} rolls emotions up: {checkpoint} is {kind}.")
            return predictor_class(model, tokenizer, max_length=max_length)
    return Predictor(model, tokenizer, max_length=max_length, taxonomy=taxonomy)


__all__ = ["DialoguePredictor", "Predictor", "ReplyGenerator", "TargetedPredictor", "load_predictor"]
