# SPDX-License-Identifier: Apache-2.0
"""What the configurations of models with modulated norms share, and how their models take emotions."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import torch
from torch.nn import functional as F

from .checked_input import can_look
from .fitting_checkpoints import refuse_other_checkpoints


if TYPE_CHECKING:
    from transformers import PreTrainedConfig as _Config
else:
    _Config = object


@dataclass(kw_only=True)
class EmotionFields(_Config):
    r"""
    A base of configurations of encoder-decoders with modulated norms, to name first.

    Args:
        num_emotions (`int`, defaults to 64):
            Number E of emotions.
        emotions (`list[str]`, *optional*):
            Their names, or emojis.
        modulation (`"residual"` or `"replace"`, defaults to `"residual"`):
            Scale and shift of a norm: its own plus the emotion's, or (eq. 1) only the emotion's.
        modulate_encoder, modulate_decoder (`bool`, default to `True`):
            The sides whose norms follow the emotion.
        modulation_initializer_range (`float`, defaults to 0.2):
            Standard deviation of the matrices W₁ at the start.
        emotion_token_ids (`list[int]`, *optional*):
            A token for each emotion, put in front of the context: so a model without modulated norms learns the emotion.

    | what the paper leaves open, and where ours differs | ours |
    |---|---|
    | what has its own pair of MLPs (the index of eqs. 1-3 is the layer) | each norm |
    | divisor (σ + ε in eq. 1) | √(var + ε), so that pretrained weights mean the same |
    | where the bias b stands (β in eq. 3, γ in the text) | in β; there is no other bias |
    | starts | W₁ N(0, `modulation_initializer_range`²), W₂ and b 0; in `"replace"` one hidden unit gives the start of γ and β |
    | what cross-attention reads | all states of the encoder; its weights are new, N(0, `initializer_range`²) |
    | head | tied to the decoder's word embeddings |
    """

    base_model_type: ClassVar[str]  # the model type of checkpoints that can be wrapped
    norm_names: ClassVar[tuple[str, ...]]  # the norms of a layer that can be modulated
    keys_to_ignore_at_inference = [
        "past_key_values",
        "decoder_hidden_states",
        "decoder_attentions",
        "cross_attentions",
        "encoder_last_hidden_state",
        "encoder_hidden_states",
        "encoder_attentions",
    ]

    num_emotions: int = 64
    emotions: list[str] | None = None
    modulation: Literal["residual", "replace"] = "residual"
    modulate_encoder: bool = True
    modulate_decoder: bool = True
    modulated_norms: list[str] | None = None
    modulation_initializer_range: float | int = 0.2
    decoder_start_token_id: int | None = None
    context_separator_token_id: int | None = None
    context_start_token_id: int | None = None
    emotion_token_ids: list[int] | None = None
    is_encoder_decoder: bool = True

    def __post_init__(self, **kwargs):
        if self.modulated_norms is None:
            self.modulated_norms = list(self.norm_names)
        eos = self.eos_token_id[0] if isinstance(self.eos_token_id, list) else self.eos_token_id
        if self.pad_token_id is None:
            self.pad_token_id = eos
        if self.decoder_start_token_id is None:
            self.decoder_start_token_id = self.bos_token_id
        if self.context_separator_token_id is None:
            self.context_separator_token_id = eos
        super().__post_init__(**kwargs)
        self.custom_pipelines = {
            "emotional-response": {
                "impl": "pipeline_emotional_response.EmotionalResponsePipeline",
                "pt": ["AutoModelForSeq2SeqLM"],
            }
        }

    @classmethod
    def from_dict(cls, config_dict, **kwargs):
        remedy = ""
        if config_dict.get("model_type") == cls.base_model_type:
            remedy = (
                "wrap it with `from_encoder_decoder_pretrained`, a method of the ...ForConditionalGeneration class"
            )
        refuse_other_checkpoints(config_dict, [cls.model_type], remedy)
        # Merged here, so that the checks see the arguments of `from_pretrained` and not only the saved fields.
        given = {name: kwargs.pop(name) for name in list(kwargs) if name in cls.__dataclass_fields__}
        return super().from_dict({**config_dict, **given}, **kwargs)

    def validate_emotions(self):
        if self.num_emotions < 1:
            raise ValueError(f"`num_emotions` must be at least 1, got {self.num_emotions}.")
        names = self.emotions
        if names is not None and len(set(names)) != len(names):
            raise ValueError(f"`emotions` must be different names, got {names}.")
        if names is not None and len(names) != self.num_emotions:
            raise ValueError(
                f"`num_emotions` is {self.num_emotions}, but `emotions` has {len(names)} names: pass `num_emotions={len(names)}` too."
            )
        unknown = [name for name in self.modulated_norms if name not in self.norm_names]
        if unknown:
            raise ValueError(f"`modulated_norms` must be some of {list(self.norm_names)}, got {unknown}.")
        if (self.modulate_encoder or self.modulate_decoder) and not self.modulated_norms:
            raise ValueError(
                "`modulated_norms` is empty: name the norms, or set `modulate_encoder` and `modulate_decoder` to False."
            )
        if self.modulation_initializer_range < 0:
            raise ValueError(
                f"`modulation_initializer_range` must not be negative, got {self.modulation_initializer_range}."
            )
        tokens = self.emotion_token_ids
        if tokens is not None and (len(tokens) != self.num_emotions or len(set(tokens)) != len(tokens)):
            raise ValueError(
                f"`emotion_token_ids` must be {self.num_emotions} different token ids, one for each emotion, got {tokens}."
            )
        for name in ("decoder_start_token_id", "context_separator_token_id", "pad_token_id", "context_start_token_id"):
            value = getattr(self, name)
            if value is None and name == "context_start_token_id":
                continue
            if value is None or not 0 <= value < self.vocab_size:
                raise ValueError(
                    f"`{name}` must be a token id in [0, {self.vocab_size}), got {value}: pass the tokenizer's, with the other "
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
    if emotion_weights is not None:
        if can_look(given) and not emotion_weights.isfinite().all():
            raise ValueError(f"`emotion_weights` must be finite, got {emotion_weights.tolist()}.")
        return emotion_weights
    if given.is_floating_point() or given.dtype == torch.bool:
        raise ValueError(f"`emotion_ids` must be whole numbers, got {given.dtype}: weights are `emotion_weights`.")
    if can_look(given):
        outside = (given < 0) | (given >= config.num_emotions)
        if outside.any():
            raise ValueError(
                f"`emotion_ids` must lie in [0, {config.num_emotions}), got {given[outside].tolist()}.{known}"
            )
    return F.one_hot(given.long(), config.num_emotions)


EMOTION_ARGUMENTS = ("emotion_ids", "emotion_weights", "emotion_modulation")


def refuse_in_batches(arguments: Mapping[str, Any]) -> None:
    """ValueError for emotions among the arguments of `generate_batch`, which hands none to the model."""
    for name in EMOTION_ARGUMENTS:
        if arguments.get(name) is not None:
            raise ValueError(
                f"`{name}` must not be given to `generate_batch`, which does not hand it to the model: pass all rows to `generate`, as one "
                "padded batch."
            )


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


__all__ = ["EMOTION_ARGUMENTS", "EmotionFields", "check_emotions", "in_every_emotion", "refuse_in_batches"]
