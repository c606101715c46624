# SPDX-License-Identifier: Apache-2.0
"""Configuration of the BERT encoder-decoder with modulated layer norms."""

from huggingface_hub.dataclasses import strict
from transformers import BertConfig

from .emotion_fields import EmotionFields


@strict
class BertModLNConfig(EmotionFields, BertConfig):
    r"""
    Everything of [`BertConfig`], for both sides, and of [`EmotionFields`], and:

    Args:
        modulated_norms (`list[str]`, *optional*, defaults to `["attention", "crossattention", "output"]`):
            The sub-layers whose norms follow the emotion; default: all. The norms of the embeddings and of the head are never
            modulated.
        decoder_start_token_id (`int`, *optional*, defaults to 101, the [CLS] of BERT's vocabularies):
            The token that every reply starts with.
        context_separator_token_id, eos_token_id (`int`, *optional*, default to 102, [SEP]):
            The tokens that every context and every reply end with.
        context_start_token_id (`int`, *optional*, defaults to 101, [CLS]):
            The token that every context starts with, if any.
    """

    model_type = "bert-mod-ln"
    base_model_type = "bert"  # the model type of checkpoints that can be wrapped
    norm_names = ("attention", "crossattention", "output")

    decoder_start_token_id: int | None = 101
    eos_token_id: int | list[int] | None = 102
    context_start_token_id: int | None = 101

    def __post_init__(self, **kwargs):
        super().__post_init__(**kwargs)
        # The code lies beside the weights. Set here and not read from a loaded config, whose entries carry the name of
        # the repository they came from and would tie a fine-tuned copy to it.
        self.auto_map = {
            "AutoConfig": "configuration_bert_mod_ln.BertModLNConfig",
            "AutoModel": "modeling_bert_mod_ln.BertModLNModel",
            "AutoModelForSeq2SeqLM": "modeling_bert_mod_ln.BertModLNForConditionalGeneration",
        }

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


__all__ = ["BertModLNConfig"]
