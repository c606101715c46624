# SPDX-License-Identifier: Apache-2.0
"""Prediction with checkpoints."""

from pathlib import Path

from .dialogue import DialoguePredictor
from .predictor import Predictor, is_dialogue_model, is_targeted, load_checkpoint
from .targeted import TargetedPredictor


def load_predictor(
    checkpoint: str | Path, taxonomy: str | None = None, max_length: int | None = None
) -> Predictor | DialoguePredictor:
    """A `TargetedPredictor` for a model of targeted sentiment, a `DialoguePredictor` for one of dialogues, else a `Predictor`."""
    model, tokenizer = load_checkpoint(checkpoint)
    dialogue = is_dialogue_model(model.config)
    if not dialogue and not is_targeted(model.config):
        return Predictor(model, tokenizer, max_length=max_length, taxonomy=taxonomy)
    if taxonomy is not None:
        kind = "dialogues" if dialogue else "targeted sentiment"
        raise ValueError(f"`taxonomy` {taxonomy!r} rolls emotions up: {checkpoint} is a model of {kind}.")
    return (DialoguePredictor if dialogue else TargetedPredictor)(model, tokenizer, max_length=max_length)


__all__ = ["DialoguePredictor", "Predictor", "TargetedPredictor", "load_predictor"]
