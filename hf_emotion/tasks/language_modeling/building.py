# SPDX-License-Identifier: Apache-2.0
"""Builds the language model of a recipe, and encodes conversations for its training."""

from collections.abc import Sequence
from typing import Any

import torch
from datasets import Dataset, DatasetDict
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import (
    AutoModelForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
)

from ...data.splits import map_rows
from ...recipes import SCRATCH, Recipe
from ...runtime.base_models import finding, load_base_tokenizer, resolve_base_model
from ...runtime.loading import read_config, read_model
from ..base import Prepared
from ..perplexity import padded, perplexity, shifted_token_losses
from ..sequence_classification import check_length


END_OF_TEXT = "<|endoftext|>"  # GPT-2's token, between turns and at both ends of a conversation


def build_language_model(
    recipe: Recipe, conversations: Sequence[Sequence[str]]
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """
    A causal language model and its tokenizer: the base model's, or (`base_model="scratch"`) a new GPT-2 with a byte-level BPE
    tokenizer trained on these conversations, which lower-cases all letters. ValueError for a base model that does not fit, OSError without it.
    """
    if recipe.base_model != SCRATCH:
        tokenizer = load_base_tokenizer(recipe.base_model)
        with finding(recipe.base_model):
            path = resolve_base_model(recipe.base_model)
            found = read_config(path)
            if found.model_type != "gpt2":
                raise ValueError(f"`base_model` {recipe.base_model!r} is a {found.model_type!r} model, no 'gpt2'.")
            model = read_model(AutoModelForCausalLM, path, dtype=torch.float32, **recipe.model_config)
        check_length(recipe, model.config.n_positions)
        return model, tokenizer
    size = recipe.model_config.get("vocab_size", GPT2Config.vocab_size)
    tokenizer = train_tokenizer((turn for turns in conversations for turn in turns), size)
    end = tokenizer.eos_token_id
    fields = {**recipe.model_config, "vocab_size": len(tokenizer), "bos_token_id": end, "eos_token_id": end}
    config = GPT2Config(**{"n_positions": max(recipe.max_length, 128), **fields})
    check_length(recipe, config.n_positions)
    tokenizer.model_max_length = config.n_positions
    return GPT2LMHeadModel(config), tokenizer


def train_tokenizer(texts, vocab_size: int) -> PreTrainedTokenizerFast:
    """Train a tokenizer like GPT-2's (byte-level BPE) on lower-case texts; `END_OF_TEXT` is its only special token."""
    bpe = Tokenizer(models.BPE())
    bpe.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Lowercase()])
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[END_OF_TEXT],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bpe.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        bos_token=END_OF_TEXT,
        eos_token=END_OF_TEXT,
        unk_token=END_OF_TEXT,
        pad_token=END_OF_TEXT,
        clean_up_tokenization_spaces=False,
    )


def encode_conversations(dataset: Dataset, tokenizer: PreTrainedTokenizerBase, length: int) -> Dataset:
    """The conversations one after the other, `END_OF_TEXT` before each turn and at the end, in blocks of `length` tokens."""
    end = tokenizer.eos_token_id

    def encode(batch: dict) -> dict:
        turns = tokenizer([turn for turns in batch["turns"] for turn in turns], add_special_tokens=False)["input_ids"]
        stream = [token for ids in turns for token in (end, *ids)] + [end]
        blocks = [stream[start : start + length] for start in range(0, len(stream), length)]
        return {"input_ids": [block for block in blocks if len(block) > 1]}

    return map_rows(
        dataset, encode, batched=True, batch_size=1000, remove_columns=dataset.column_names, desc="tokenizing"
    )


def _collate_blocks(rows: list[dict]) -> dict[str, torch.Tensor]:
    """
    Pad blocks to the longest; the last block of a batch of conversations may be shorter. Padding at the end is never attended
    to.
    """
    ids = [row["input_ids"] for row in rows]
    mask = [[1] * len(block) for block in ids]
    return {"input_ids": padded(ids, 0), "attention_mask": padded(mask, 0), "labels": padded(ids, -100)}


def prepare(recipe: Recipe, splits: DatasetDict, *_: Any) -> Prepared:
    model, tokenizer = build_language_model(recipe, splits["train"]["turns"])
    encoded = {split: encode_conversations(rows, tokenizer, recipe.max_length) for split, rows in splits.items()}
    return Prepared(
        model=model,
        tokenizer=tokenizer,
        train=encoded.pop("train"),
        validation=encoded["validation"],
        collate=_collate_blocks,
        measure=perplexity,
        reduce_logits=shifted_token_losses,
        held_out=encoded,
    )
