# SPDX-License-Identifier: Apache-2.0
"""Configurations of the encoder-decoders with modulated layer norms, of two GPT-2 and of two BERT (Liu et al. 2021)."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from huggingface_hub.dataclasses import strict
from transformers import BertConfig, GPT2Config

from .common import CheckpointFields, check_least, set_auto_map


@dataclass(kw_only=True)
class EmotionFields(CheckpointFields):
    r"""
    A base of configurations of encoder-decoders with modulated norms, to name first.

    Args:
        num_emotions: number E of emotions.
        emotions: their names, or emojis.
        modulation: scale and shift of a norm: its own plus the emotion's (`"residual"`), or only the emotion's (`"replace"`, eq. 1).
        modulate_encoder, modulate_decoder: whether the norms of this side follow the emotion.
        modulation_initializer_range: standard deviation of the matrices W₁ at the start.
        emotion_token_ids: a token for each emotion, put in front of the context: so a model without modulated norms learns the emotion.

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
        *("past_key_values", "cache", "decoder_hidden_states", "decoder_attentions", "cross_attentions"),
        *("encoder_last_hidden_state", "encoder_hidden_states", "encoder_attentions"),
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
        name = "GPT2ModLN" if self.base_model_type == "gpt2" else "BertModLN"
        set_auto_map(self, f"{name}Model", f"{name}ForConditionalGeneration", "AutoModelForSeq2SeqLM")

    def validate_emotions(self):
        check_least(self, num_emotions=1, modulation_initializer_range=0)
        for name in ("emotions", "emotion_token_ids"):
            values = getattr(self, name)
            if values is not None and not len(set(values)) == len(values) == self.num_emotions:
                wanted = f"{self.num_emotions} (`num_emotions`) different values"
                raise ValueError(f"`{name}` must be {wanted}, one for each emotion, got {values}.")
        unknown = [name for name in self.modulated_norms if name not in self.norm_names]
        if unknown:
            raise ValueError(f"`modulated_norms` must be some of {list(self.norm_names)}, got {unknown}.")
        if (self.modulate_encoder or self.modulate_decoder) and not self.modulated_norms:
            raise ValueError("`modulated_norms` is empty: set `modulate_encoder` and `modulate_decoder` to False.")
        names = ["decoder_start_token_id", "context_separator_token_id", "pad_token_id"]
        names += ["context_start_token_id"] * (self.context_start_token_id is not None)
        tokens = [(name, getattr(self, name)) for name in names]
        for name, value in tokens + [("emotion_token_ids", value) for value in self.emotion_token_ids or ()]:
            if value is None or not 0 <= value < self.vocab_size:
                wanted = f"a token id in [0, {self.vocab_size})"
                raise ValueError(f"`{name}` must be {wanted}, got {value}: pass the tokenizer's special tokens.")


@strict
class GPT2ModLNConfig(EmotionFields, GPT2Config):
    r"""
    Everything of [`GPT2Config`], for both sides, and of [`EmotionFields`], and:

    Args:
        modulated_norms: the norms that follow the emotion, by default `["ln_1", "ln_cross_attn", "ln_2", "ln_f"]`.
        decoder_start_token_id: the token that every reply starts with, by default `bos_token_id`.
        context_separator_token_id: the token that every context ends with, by default `eos_token_id`: [UNK], GPT-2's end of text.
        context_start_token_id: the token that every context starts with, if any.

    `pad_token_id` defaults to `eos_token_id`.
    """

    model_type = "gpt2-mod-ln"
    base_model_type = "gpt2"
    remedy = "one of 'gpt2' is wrapped by `from_encoder_decoder_pretrained`"
    norm_names = ("ln_1", "ln_cross_attn", "ln_2", "ln_f")

    @staticmethod
    def token_ids(tokenizer) -> dict[str, int | None]:
        """The special tokens of a tokenizer, as fields of this configuration."""
        eos = tokenizer.eos_token_id
        start = eos if tokenizer.bos_token_id is None else tokenizer.bos_token_id
        return {
            "bos_token_id": start,
            "eos_token_id": eos,
            "pad_token_id": eos if tokenizer.pad_token_id is None else tokenizer.pad_token_id,
            "decoder_start_token_id": start,
            "context_separator_token_id": eos if tokenizer.unk_token_id is None else tokenizer.unk_token_id,
        }


@strict
class BertModLNConfig(EmotionFields, BertConfig):
    r"""
    Everything of [`BertConfig`], for both sides, and of [`EmotionFields`], and:

    Args:
        modulated_norms: the sub-layers whose norms follow the emotion, by default `["attention", "crossattention", "output"]`. The norms
            of the embeddings and of the head are never modulated.
        decoder_start_token_id: the token that every reply starts with, by default 101, the [CLS] of BERT's vocabularies.
        context_separator_token_id, eos_token_id: the tokens that every context and every reply end with, by default 102, [SEP].
        context_start_token_id: the token that every context starts with, by default 101, [CLS].
    """

    model_type = "bert-mod-ln"
    base_model_type = "bert"
    remedy = "one of 'bert' is wrapped by `from_encoder_decoder_pretrained`"
    norm_names = ("attention", "crossattention", "output")

    decoder_start_token_id: int | None = 101
    eos_token_id: int | list[int] | None = 102
    context_start_token_id: int | None = 101

    @staticmethod
    def token_ids(tokenizer) -> dict[str, int | None]:
        """The special tokens of a tokenizer, as fields of this configuration."""
        return {
            "pad_token_id": tokenizer.pad_token_id,
            "eos_token_id": tokenizer.sep_token_id,
            "decoder_start_token_id": tokenizer.cls_token_id,
            "context_separator_token_id": tokenizer.sep_token_id,
            "context_start_token_id": tokenizer.cls_token_id,
        }


__all__ = ["BertModLNConfig", "GPT2ModLNConfig"]
