# SPDX-License-Identifier: Apache-2.0
"""Configuration of the GPT-2 encoder-decoder with modulated layer norms."""

from huggingface_hub.dataclasses import strict
from transformers import GPT2Config

from .emotion_fields import EmotionFields


@strict
class GPT2ModLNConfig(EmotionFields, GPT2Config):
    r"""
    Everything of [`GPT2Config`], for both sides, and of [`EmotionFields`], and:

    Args:
        modulated_norms (`list[str]`, *optional*, defaults to `["ln_1", "ln_cross_attn", "ln_2", "ln_f"]`):
            The norms that follow the emotion.
        decoder_start_token_id (`int`, *optional*, defaults to `bos_token_id`):
            The token that every reply starts with.
        context_separator_token_id (`int`, *optional*, defaults to `eos_token_id`):
            The token that every context ends with: [UNK], which is GPT-2's end of text.
        context_start_token_id (`int`, *optional*):
            The token that every context starts with, if any.

    `pad_token_id` defaults to `eos_token_id`.
    """

    model_type = "gpt2-mod-ln"
    base_model_type = "gpt2"  # the model type of checkpoints that can be wrapped
    norm_names = ("ln_1", "ln_cross_attn", "ln_2", "ln_f")

    def __post_init__(self, **kwargs):
        super().__post_init__(**kwargs)
        # The code lies beside the weights. Set here and not read from a loaded config, whose entries carry the name of
        # the repository they came from and would tie a fine-tuned copy to it.
        self.auto_map = {
            "AutoConfig": "configuration_gpt2_mod_ln.GPT2ModLNConfig",
            "AutoModel": "modeling_gpt2_mod_ln.GPT2ModLNModel",
            "AutoModelForSeq2SeqLM": "modeling_gpt2_mod_ln.GPT2ModLNForConditionalGeneration",
        }

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


__all__ = ["GPT2ModLNConfig"]
