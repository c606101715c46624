# SPDX-License-Identifier: Apache-2.0
"""Pipeline `emotional-response`: from a context and an emotion to replies. Also turns contexts into tokens, for training too."""

import logging
import math
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, Pipeline

from .common import TextPipeline
from .text_processing import is_readable, normalized


logger = logging.getLogger(__name__)

# Weights that add up to this are likely meant as percent; a few times the emotion is a wanted exaggeration.
PERCENT = 20
_PLACE = "<<context>>"  # where a chat template puts the message
DEFAULT_NEW_TOKENS = 40  # tokens of a reply, if neither the call nor the checkpoint sets a length


def around_context(tokenizer, config, emotion_id: int | None = None) -> tuple[list[int], list[int]]:
    """
    The tokens before and after a context in a model's input. An encoder reads the start token and the emotion's token, if the model has
    them, the context, and the separator. A decoder-only model reads the context as the message of a user, in the chat template of the
    tokenizer; without a template, the context and the token that ends a text. A model that reads the emotion needs `emotion_id`.
    """
    if reads_emotion(config) and emotion_id is None:
        raise ValueError("`emotion_ids` must have one id for each context: the model reads it as a token or in words.")
    if config.is_encoder_decoder:
        start = [] if config.context_start_token_id is None else [config.context_start_token_id]
        emotion = [config.emotion_token_ids[emotion_id]] if reads_emotion(config) else []
        return [*start, *emotion], [config.context_separator_token_id]
    if tokenizer.chat_template is None:
        if reads_emotion(config):
            raise ValueError("`emotion_prompt` needs a tokenizer with a chat template, and this one has none.")
        return [], [config.eos_token_id]
    messages = [{"role": "user", "content": _PLACE}]
    if reads_emotion(config):
        told = config.emotion_prompt.format(emotion=config.emotions[emotion_id])
        messages.insert(0, {"role": "system", "content": told})
    text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    before, after = (tokenizer(part, add_special_tokens=False)["input_ids"] for part in text.split(_PLACE))
    return before, after


def text_positions(config) -> int:
    """The most tokens of a context, and of a reply. A decoder-only model writes behind the context: each has half of its positions."""
    return config.max_position_embeddings // (1 if config.is_encoder_decoder else 2)


def reads_emotion(config) -> bool:
    """Whether a model is told the emotion as a token or in words."""
    told = config.emotion_token_ids if config.is_encoder_decoder else config.emotion_prompt
    return told is not None


def encode_contexts(
    tokenizer, contexts: Sequence[str], config, max_length: int | None = None, emotion_ids: Sequence[int] | None = None
) -> list[list[int]]:
    """
    The model's input for each context, see `around_context`. The beginning of a context is cut if the whole would be longer than
    `max_length`, by default and at most `text_positions`: the turn to answer ends a context. `emotion_ids`: one for each context.
    """
    limit = min(max_length or text_positions(config), text_positions(config))
    emotions: Sequence[int | None] = [None] * len(contexts) if emotion_ids is None else emotion_ids
    if len(emotions) != len(contexts):
        raise ValueError(f"`emotion_ids` must have one id for each context, {len(contexts)}, got {len(emotions)}.")
    if not contexts:  # tokenizers fail on an empty list
        return []
    around = {emotion: around_context(tokenizer, config, emotion) for emotion in set(emotions)}
    room = limit - max(len(before) + len(after) for before, after in around.values())
    if room < 1:
        raise ValueError(f"`max_length` must leave room for the text, got {max_length}: at least {limit - room + 1}.")
    encoded = tokenizer(list(map(normalized, contexts)), add_special_tokens=False, verbose=False)["input_ids"]
    pairs = zip(map(around.__getitem__, emotions), encoded, strict=True)
    return [[*before, *ids[-room:], *after] for (before, after), ids in pairs]


def pad_contexts(rows: Sequence[Sequence[int]], config) -> dict[str, torch.Tensor]:
    """
    `input_ids` and `attention_mask` (B, L) of rows from `encode_contexts`, padded on the left for a decoder-only model, which writes
    behind them. The mask follows from the lengths: the padding id may also be a real token's.
    """
    ids = [torch.tensor(row) for row in rows]
    side = "right" if config.is_encoder_decoder else "left"
    mask = pad_sequence([torch.ones_like(row) for row in ids], batch_first=True, padding_side=side)
    padded = pad_sequence(ids, batch_first=True, padding_value=config.pad_token_id, padding_side=side)
    return {"input_ids": padded, "attention_mask": mask}


def written(sequences: torch.Tensor, inputs: Mapping[str, torch.Tensor], config) -> torch.Tensor:
    """What `generate` has written: (N, T) without the context, which a decoder-only model returns with it."""
    return sequences if config.is_encoder_decoder else sequences[:, inputs["input_ids"].shape[1] :]


def emotion_vector(emotion: str | Mapping[str, float], config) -> list[float]:
    """The weights of an emotion's name or emoji, or of a mixture {name: weight}."""
    names = config.emotions
    if names is None:
        raise ValueError("the model's configuration names no `emotions`: set `config.emotions`, one name for each.")
    mixture = {emotion: 1.0} if isinstance(emotion, str) else emotion
    if not isinstance(mixture, Mapping) or not mixture:
        raise ValueError(f"an emotion must be a name, or a mixture such as {{{names[0]!r}: 1.0}}; got {emotion!r}.")
    weights = [0.0] * len(names)
    for name, weight in mixture.items():
        if name not in names:
            near = " or ".join(map(repr, get_close_matches(str(name), names, n=3, cutoff=0.5) or names[:3]))
            raise ValueError(f"unknown emotion {name!r}: did you mean {near}? The model knows {len(names)}.")
        if isinstance(weight, bool) or not isinstance(weight, (int, float)) or not math.isfinite(weight):
            raise ValueError(f"the weight of {name!r} must be a finite number, got {weight!r}.")
        weights[names.index(name)] = float(weight)
    total = sum(map(abs, weights))
    if total >= PERCENT:
        logger.warning("the weights of %s add up to %g, and shares add up to 1 in training", mixture, total)
    return weights


def emotion_ids_of(weights: Sequence[Sequence[float]], config) -> list[int] | None:
    """The emotion id of each row of weights, for a model that reads the emotion as a token or in words; None for other models."""
    if not reads_emotion(config):
        return None
    for row in weights:
        if sorted(row)[-1] != 1 or sum(map(abs, row)) != 1:
            taken = "it takes one emotion of weight 1, neither mixtures nor intensities"
            raise ValueError(f"the model reads the emotion as a token or in words: {taken}.")
    return [list(row).index(1) for row in weights]


def limit_length(settings: dict[str, Any], model, most: int) -> None:
    """Set `max_new_tokens` of `generate` to `most`, or to a decoder-only model's positions, if neither call nor checkpoint set a length."""
    names = ("max_length", "max_new_tokens")
    saved = settings.get("generation_config") or model.generation_config
    if all(settings.get(name) is None and getattr(saved, name) is None for name in names):
        config = model.config
        settings["max_new_tokens"] = most if config.is_encoder_decoder else min(most, text_positions(config))


class EmotionalResponsePipeline(TextPipeline, Pipeline):
    r"""
    Returns for a context and an emotion (or for each of several) a list of `{"emotion", "generated_text"}`: one reply, or as many
    as `num_return_sequences`.

    An input is a pair (context, emotion) or a dictionary with the keys `context` and `emotion`. An emotion is a name or an
    emoji of the model, or a mixture such as `{"joy": 0.7, "surprise": 0.3}`; weights that sum to more than 1 make it stronger.
    Other arguments go to `generate`; without a length, a reply has at most 40 new tokens. `batch_size` has no effect.
    """

    task_name, model_classes = "emotional-response", (AutoModelForSeq2SeqLM, AutoModelForCausalLM)
    default_max_new_tokens = DEFAULT_NEW_TOKENS

    def _sanitize_parameters(self, **kwargs):
        return {}, kwargs, {}

    def __call__(self, inputs, batch_size=None, **kwargs):
        return super().__call__(inputs, batch_size=1, **kwargs)

    def preprocess(self, inputs):
        context, emotion = _pair(inputs)
        config = self.model.config
        weights = emotion_vector(emotion, config)
        ids = encode_contexts(self.tokenizer, [context], config, emotion_ids=emotion_ids_of([weights], config))
        encoded = {**pad_contexts(ids, config), "emotion_weights": torch.tensor([weights])}
        return {"emotion": emotion, "inputs": encoded}

    def _forward(self, model_inputs, **generate_kwargs):
        limit_length(generate_kwargs, self.model, self.default_max_new_tokens)
        output = self.model.generate(**model_inputs["inputs"], **generate_kwargs)
        sequences = output if isinstance(output, torch.Tensor) else output.sequences
        sequences = written(sequences, model_inputs["inputs"], self.model.config)
        return {"emotion": model_inputs["emotion"], "sequences": sequences}

    def postprocess(self, model_outputs):
        texts = self.tokenizer.batch_decode(model_outputs["sequences"], skip_special_tokens=True)
        return [{"emotion": model_outputs["emotion"], "generated_text": text.strip()} for text in texts]


def _pair(inputs: Any) -> tuple[str, str | Mapping[str, float]]:
    """The pair (context, emotion) of one input."""
    pair = inputs
    if isinstance(inputs, Mapping) and set(inputs) == {"context", "emotion"}:
        pair = inputs["context"], inputs["emotion"]
    if not isinstance(pair, tuple) or len(pair) != 2 or not is_readable(pair[0]):
        wanted = "(context, emotion), or a dictionary with these keys, the context a string that is not empty"
        raise ValueError(f"an input must be {wanted}; got {inputs!r}.")
    return pair


__all__ = [
    "DEFAULT_NEW_TOKENS",
    "EmotionalResponsePipeline",
    "around_context",
    "emotion_ids_of",
    "emotion_vector",
    "encode_contexts",
    "limit_length",
    "pad_contexts",
    "reads_emotion",
    "text_positions",
    "written",
]
