# SPDX-License-Identifier: Apache-2.0
"""Configuration of a decoder-only language model whose norms follow an emotion."""

from typing import Any

from huggingface_hub.dataclasses import strict
from transformers import AutoConfig, PreTrainedConfig

from .common import CheckpointFields, check_least, nested_config, set_auto_map


def _of_text_config(name: str) -> property:
    return property(lambda self: getattr(self.text_config, name), doc=f"`{name}` of the language model.")


@strict
class EmotionModulatedConfig(CheckpointFields, PreTrainedConfig):
    r"""
    Args:
        text_config: configuration of the language model, by default Llama's: a decoder-only model of transformers with norms in its layers.
        num_emotions, emotions: number E of emotions, and their names, or emojis.
        shift: whether an emotion adds Δβ, too. Without it, an emotion can be folded into an ordinary checkpoint.
        modulated_norms: names, within a layer, of the norms that follow the emotion; default: all norms of a layer. An empty list: none.
        modulation_size, modulation_initializer_range: hidden size h of the modulators' MLPs, and standard deviation of W₁ at the start.
        emotion_prompt: a system message that tells the emotion in words, with `{emotion}` for its name, by the tokenizer's chat template.
        freeze_language_model: whether the weights of the language model stay as they are in training.
        base_model_name_or_path, base_model_revision: the checkpoint of the language model, whose weights are not saved then. None: they
            are saved with the modulators.
        eos_token_id, pad_token_id: the tokens that end and pad a text; default: the language model's (the first of several), or to pad
            the one that ends it.

    | what the paper leaves open, and where ours differs | ours |
    |---|---|
    | model | one decoder-only language model; the paper has an encoder-decoder of two GPT-2 |
    | norm | norm(x) · (1 + Δγ(c)) + Δβ(c), for RMSNorm and LayerNorm alike, with the checkpoint's own norm |
    | bias b of eq. 3 | none, so that c = 0 is the language model itself |
    | hidden size of the MLPs | `modulation_size`; in the other two models half of the hidden size |
    | starts | W₁ N(0, `modulation_initializer_range`²), W₂ 0: every emotion starts as the language model |
    | norms that are modulated | those of all layers, not the one after the last layer |
    """

    model_type = "emotion-modulated"
    remedy = "`from_language_model_pretrained` makes a new model"
    sub_configs = {"text_config": AutoConfig}
    keys_to_ignore_at_inference = ["past_key_values", "cache", "hidden_states", "attentions", "cross_attentions"]

    text_config: dict[str, Any] | PreTrainedConfig | None = None
    num_emotions: int = 32
    emotions: list[str] | None = None
    shift: bool = True
    modulated_norms: list[str] | None = None
    modulation_size: int = 64
    modulation_initializer_range: float | int = 0.2
    emotion_prompt: str | None = None
    freeze_language_model: bool = True
    base_model_name_or_path: str | None = None
    base_model_revision: str | None = None
    eos_token_id: int | list[int] | None = None
    pad_token_id: int | None = None

    hidden_size = _of_text_config("hidden_size")
    num_hidden_layers = _of_text_config("num_hidden_layers")
    num_attention_heads = _of_text_config("num_attention_heads")
    vocab_size = _of_text_config("vocab_size")
    max_position_embeddings = _of_text_config("max_position_embeddings")

    def __post_init__(self, **kwargs):
        self.text_config = nested_config(self.text_config or {"model_type": "llama"}, "text_config")
        kwargs.setdefault("tie_word_embeddings", getattr(self.text_config, "tie_word_embeddings", False))
        for name in ("eos_token_id", "pad_token_id"):
            own, inner = getattr(self, name), getattr(self.text_config, name, None)
            found = inner if own is None else own
            setattr(self, name, found[0] if isinstance(found, list) else found)
        self.pad_token_id = self.eos_token_id if self.pad_token_id is None else self.pad_token_id
        super().__post_init__(**kwargs)
        set_auto_map(self, "EmotionModulatedModel", "EmotionModulatedForCausalLM", "AutoModelForCausalLM")

    def forget_base_model(self) -> None:
        """From now on the weights of the language model are saved with the modulators."""
        self.base_model_name_or_path = self.base_model_revision = None

    def get_text_config(self, decoder=None, encoder=None) -> PreTrainedConfig:
        """The configuration of the language model."""
        return self.text_config

    def validate_modulation(self):
        check_least(self, num_emotions=1, modulation_size=1, modulation_initializer_range=0)
        names = self.emotions
        if names is not None and (len(set(names)) != len(names) or len(names) != self.num_emotions):
            raise ValueError(f"`emotions` must be {self.num_emotions} (`num_emotions`) different names, got {names}.")
        if self.emotion_prompt is not None and "{emotion}" not in self.emotion_prompt:
            raise ValueError(f"`emotion_prompt` must hold {{emotion}}, its place, got {self.emotion_prompt!r}.")
        if self.base_model_name_or_path is not None and not self.freeze_language_model:
            found = f"got {self.base_model_name_or_path!r}: load the model, and then train `model.language_model.requires_grad_(True)`"
            raise ValueError(f"`base_model_name_or_path` must be None if `freeze_language_model` is False, {found}.")


__all__ = ["EmotionModulatedConfig"]
