# SPDX-License-Identifier: Apache-2.0
"""What the configurations of models with modulated norms share, and how their models take emotions."""

import torch
from torch.nn import functional as F


def set_emotion_defaults(config) -> None:
    """Set the fields of a configuration that follow from others, if they are not given."""
    if config.modulated_norms is None:
        config.modulated_norms = list(config.norm_names)
    eos = config.eos_token_id[0] if isinstance(config.eos_token_id, list) else config.eos_token_id
    if config.pad_token_id is None:
        config.pad_token_id = eos
    if config.decoder_start_token_id is None:
        config.decoder_start_token_id = config.bos_token_id
    if config.context_separator_token_id is None:
        config.context_separator_token_id = eos


def validate_emotion_fields(config) -> None:
    """ValueError unless the fields that modulated norms and generation read follow their rules."""
    if config.num_emotions < 1:
        raise ValueError(f"`num_emotions` must be at least 1, got {config.num_emotions}.")
    names = config.emotions
    if names is not None and len(set(names)) != len(names):
        raise ValueError(f"`emotions` must be different names, got {names}.")
    if names is not None and len(names) != config.num_emotions:
        raise ValueError(
            f"`num_emotions` is {config.num_emotions}, but `emotions` has {len(names)} names: pass `num_emotions={len(names)}` too."
        )
    unknown = [name for name in config.modulated_norms if name not in config.norm_names]
    if unknown:
        raise ValueError(f"`modulated_norms` must be some of {list(config.norm_names)}, got {unknown}.")
    if (config.modulate_encoder or config.modulate_decoder) and not config.modulated_norms:
        raise ValueError(
            "`modulated_norms` is empty: name the norms, or set `modulate_encoder` and `modulate_decoder` to False."
        )
    if config.modulation_initializer_range < 0:
        raise ValueError(
            f"`modulation_initializer_range` must not be negative, got {config.modulation_initializer_range}."
        )
    tokens = config.emotion_token_ids
    if tokens is not None and (len(tokens) != config.num_emotions or len(set(tokens)) != len(tokens)):
        raise ValueError(
            f"`emotion_token_ids` must be {config.num_emotions} different token ids, one for each emotion, got {tokens}."
        )
    for name in ("decoder_start_token_id", "context_separator_token_id", "pad_token_id", "context_start_token_id"):
        value = getattr(config, name)
        if value is None and name == "context_start_token_id":
            continue
        if value is None or not 0 <= value < config.vocab_size:
            raise ValueError(
                f"`{name}` must be a token id in [0, {config.vocab_size}), got {value}: pass the tokenizer's, with the other "
                "special tokens."
            )


def check_emotions(
    config, emotion_ids: torch.Tensor | None, emotion_weights: torch.Tensor | None, batch_size: int | None
) -> torch.Tensor:
    """
    The weights c (B, E) of the emotions: one-hot for ids, or the given weights, any mixture. `batch_size` None: any number of
    rows.
    """
    known = "" if config.emotions is None else f" The emotions are {', '.join(config.emotions)}."
    if (emotion_ids is None) == (emotion_weights is None):
        raise ValueError(
            f"Pass exactly one of `emotion_ids`, one id in [0, {config.num_emotions}) for each row, and `emotion_weights` "
            f"of shape (batch_size, {config.num_emotions}); got {'neither' if emotion_ids is None else 'both'}.{known}"
        )
    name, given = ("emotion_ids", emotion_ids) if emotion_weights is None else ("emotion_weights", emotion_weights)
    if not isinstance(given, torch.Tensor):
        raise ValueError(f"`{name}` must be a tensor, got {type(given).__name__} {given!r}.{known}")
    sizes = () if emotion_weights is None else (config.num_emotions,)
    rows = len(given) if batch_size is None and given.dim() else batch_size
    if tuple(given.shape) != (rows, *sizes):
        wanted = ", ".join(str(size) for size in ("batch_size" if batch_size is None else batch_size, *sizes))
        raise ValueError(f"`{name}` must have shape ({wanted}{'' if sizes else ','}), got {tuple(given.shape)}.")
    # On other devices reading the values would wait for them, and it would break a graph.
    can_look = given.device.type == "cpu" and not torch.compiler.is_compiling()
    if emotion_weights is not None:
        if can_look and not emotion_weights.isfinite().all():
            raise ValueError(f"`emotion_weights` must be finite, got {emotion_weights.tolist()}.")
        return emotion_weights
    if given.is_floating_point() or given.dtype == torch.bool:
        raise ValueError(f"`emotion_ids` must be whole numbers, got {given.dtype}: weights are `emotion_weights`.")
    if can_look:
        outside = (given < 0) | (given >= config.num_emotions)
        if outside.any():
            raise ValueError(
                f"`emotion_ids` must lie in [0, {config.num_emotions}), got {given[outside].tolist()}.{known}"
            )
    return F.one_hot(given.long(), config.num_emotions)


def in_every_emotion(model, input_ids: torch.Tensor, attention_mask: torch.Tensor | None, **kwargs) -> torch.Tensor:
    """
    What `model.generate` writes for contexts in every emotion, all in one batch: (L,) or (B, L) -> (E, T) or (B, E, T); with
    `num_return_sequences` R > 1 (E, R, T) or (B, E, R, T).
    """
    emotions = model.config.num_emotions
    ids = torch.atleast_2d(input_ids)
    rows = {"attention_mask": attention_mask}
    rows |= {name: kwargs.get(name) for name in ("decoder_input_ids", "decoder_attention_mask")}
    for name, value in rows.items():
        if value is not None:
            kwargs[name] = torch.atleast_2d(value).repeat_interleave(emotions, dim=0)
    outputs = model.generate(
        input_ids=ids.repeat_interleave(emotions, dim=0),
        emotion_ids=torch.arange(emotions, device=ids.device).repeat(len(ids)),
        **kwargs,
    )
    sequences = outputs if isinstance(outputs, torch.Tensor) else outputs.sequences  # (B·E·R, T)
    replies = len(sequences) // (len(ids) * emotions)
    sizes = (*input_ids.shape[:-1], emotions, *([replies] if replies > 1 else []))
    return sequences.view(*sizes, sequences.shape[-1])


__all__ = ["check_emotions", "in_every_emotion", "set_emotion_defaults", "validate_emotion_fields"]
