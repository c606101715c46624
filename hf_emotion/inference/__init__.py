# SPDX-License-Identifier: Apache-2.0
"""Prediction with checkpoints."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..runtime.checkpoints import is_dialogue_model, is_generator, is_targeted, load_checkpoint
from ..tasks.dialogue_emotion.predictor import DialoguePredictor
from ..tasks.emotion_classification.predictor import Predictor
from ..tasks.targeted_sentiment.predictor import TargetedPredictor


if TYPE_CHECKING:
    from ..tasks.emotional_response.predictor import ReplyGenerator


def __getattr__(name: str) -> Any:
    if name == "ReplyGenerator":  # needs torch, which a prediction by an exported model does not
        from ..tasks.emotional_response.predictor import ReplyGenerator

        return ReplyGenerator
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def load_predictor(
    checkpoint: str | Path,
    taxonomy: str | None = None,
    max_length: int | None = None,
    device: str | None = None,
    dtype: str | None = None,
) -> "Predictor | DialoguePredictor | ReplyGenerator":
    """
    A `TargetedPredictor` for a model of targeted sentiment, a `DialoguePredictor` for one of dialogues, a `ReplyGenerator` for one
    that replies, else a `Predictor`.
    """
    model, tokenizer = load_checkpoint(checkpoint, device=device, dtype=dtype)
    kinds = {
        "a generator of replies": is_generator,
        "a model of dialogues": is_dialogue_model,
        "a model of targeted sentiment": is_targeted,
    }
    for kind, found in kinds.items():
        if taxonomy is not None and found(model.config):
            raise ValueError(f"`taxonomy` {taxonomy!r} rolls emotions up: {checkpoint} is {kind}.")
    if is_generator(model.config):
        from ..tasks.emotional_response.predictor import ReplyGenerator

        return ReplyGenerator(model, tokenizer, max_length=max_length)
    if is_dialogue_model(model.config):
        return DialoguePredictor(model, tokenizer, max_length=max_length)
    if is_targeted(model.config):
        return TargetedPredictor(model, tokenizer, max_length=max_length)
    return Predictor(model, tokenizer, max_length=max_length, taxonomy=taxonomy)


__all__ = ["DialoguePredictor", "Predictor", "ReplyGenerator", "TargetedPredictor", "load_predictor"]
