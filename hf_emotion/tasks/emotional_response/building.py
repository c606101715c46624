# SPDX-License-Identifier: Apache-2.0
"""Builds the generator of replies of a recipe, and encodes replies for its training."""

import logging
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from datasets import Dataset, DatasetDict
from torch.nn import functional as F
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ...data.splits import map_rows
from ...modeling import (
    BertModLNForConditionalGeneration,
    EmotionModulatedForCausalLM,
    GPT2ModLNForConditionalGeneration,
)
from ...modeling.pipeline_emotional_response import (
    around_context,
    encode_contexts,
    pad_contexts,
    reads_emotion,
    text_positions,
)
from ...recipes import Recipe
from ...runtime.base_models import finding, load_base_tokenizer, resolve_base_model
from ...runtime.loading import read_config, read_model, reading
from ...runtime.ready import HUB_IDS
from ...runtime.unread import LARGE_SHARE, is_new, unknown_shares, warn_unknown
from ..base import Prepared
from ..perplexity import padded, perplexity, shifted_token_losses, token_losses
from .predictor import with_replies


logger = logging.getLogger(__name__)


GENERATORS: dict[str, type[PreTrainedModel]] = {
    "gpt2-mod-ln": GPT2ModLNForConditionalGeneration,
    "bert-mod-ln": BertModLNForConditionalGeneration,
    "emotion-modulated": EmotionModulatedForCausalLM,
}

DECODING = {"do_sample": True, "top_k": 10}  # the paper's


def build_generator(recipe: Recipe, emotions: Sequence[str]) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """
    The generator of a recipe, in float32, and its tokenizer: a plain GPT-2 or BERT checkpoint or a language model that is
    wrapped, or a generator that is trained further. `emotion_tokens` gives the tokenizer a special token for each emotion.
    ValueError for a base model that does not fit, OSError without it.
    """
    path = resolve_base_model(recipe.base_model)
    tokenizer = load_base_tokenizer(recipe.base_model)
    assert recipe.model_type is not None  # a stock model cannot reply
    model_class = GENERATORS[recipe.model_type]
    fields = dict(recipe.model_config)
    for name in ("num_emotions", "emotions", "emotion_token_ids", "text_config", "base_model_name_or_path"):
        if name in fields:
            raise ValueError(f"`model_config.{name}` comes from the corpus or from `base_model`: leave it out.")
    if recipe.emotion_tokens and model_class is EmotionModulatedForCausalLM:
        raise ValueError("`emotion_tokens` is for encoder-decoders: use `model_config.emotion_prompt`.")
    with finding(recipe.base_model):
        found = read_config(path)
        if found.model_type == recipe.model_type:
            other = None
            model, info = read_model(model_class, path, dtype=torch.float32, output_loading_info=True, **fields)
            if list(found.emotions or []) != list(emotions):
                other = f"the emotions {found.emotions}, and the corpus has {list(emotions)}"
            elif found.is_encoder_decoder and recipe.emotion_tokens != reads_emotion(found):
                other = f"other tokens for emotions than `emotion_tokens: {recipe.emotion_tokens}`"
            elif info["missing_keys"] or info["unexpected_keys"]:
                other = f"other norms than `model_config` {fields}"
            if other is not None:
                raise ValueError(f"the generator {recipe.base_model!r} has {other}: start from a plain checkpoint.")
            return model, tokenizer
        fields |= {"num_emotions": len(emotions), "emotions": list(emotions)}
        with reading(path, "weights"):
            if issubclass(model_class, EmotionModulatedForCausalLM):
                if recipe.base_model in HUB_IDS:  # the name that other machines find
                    fields["base_model_name_or_path"] = HUB_IDS[recipe.base_model]
                model = model_class.from_language_model_pretrained(path, use_safetensors=True, **fields)
            else:
                model = model_class.from_encoder_decoder_pretrained(
                    path,
                    tokenizer=tokenizer,
                    dtype=torch.float32,
                    use_safetensors=True,
                    trust_remote_code=False,
                    **fields,
                )
    model.generation_config.update(**DECODING)
    if recipe.emotion_tokens:
        tokenizer.add_special_tokens({"additional_special_tokens": [f"<emotion {name}>" for name in emotions]})
        model.resize_token_embeddings(len(tokenizer))
        ids = tokenizer.convert_tokens_to_ids([f"<emotion {name}>" for name in emotions])
        model.config.emotion_token_ids = ids
    return model, tokenizer


def encode_replies(dataset: Dataset, tokenizer: PreTrainedTokenizerBase, config, max_length: int) -> Dataset:
    """
    Columns `input_ids` (the context as the model reads it), `labels` (the reply and the token that ends it), `emotion_ids` and
    `length`. Contexts lose their beginning, and replies their end, beyond `max_length` tokens, with one warning that counts them; a
    cut reply has no end token.
    """

    def encode(batch: dict) -> dict:
        contexts = encode_contexts(tokenizer, batch["context"], config, max_length, batch["labels"])
        replies = tokenizer(batch["reply"], add_special_tokens=False)["input_ids"]
        replies = [[*ids, end] for ids in replies]
        texts = tokenizer(batch["context"], add_special_tokens=False)
        cut = [
            len(text) + special[emotion] > len(context) or len(reply) > max_length
            for text, context, reply, emotion in zip(
                texts["input_ids"], contexts, replies, batch["labels"], strict=True
            )
        ]
        return {
            "input_ids": contexts,
            "labels": [ids[:max_length] for ids in replies],
            "emotion_ids": batch["labels"],
            "length": [
                len(context) + min(len(ids), max_length) for context, ids in zip(contexts, replies, strict=True)
            ],
            "cut": cut,
            "unknown": unknown_shares(tokenizer, batch["context"], texts),
        }

    end = config.eos_token_id
    special = [  # tokens around a context of each emotion
        sum(map(len, around_context(tokenizer, config, emotion if reads_emotion(config) else None)))
        for emotion in range(config.num_emotions)
    ]
    if not 3 <= max_length <= text_positions(config):
        raise ValueError(
            f"`max_length` must lie between 3 and the model's {text_positions(config)} positions, got {max_length}."
        )
    dataset = map_rows(dataset, encode, batched=True, remove_columns=dataset.column_names, desc="tokenizing")
    cut = sum(dataset["cut"])
    if cut and is_new("cut"):
        logger.warning(
            "%d of %d pairs have a context or a reply of more than %d tokens, which is cut",
            cut,
            len(dataset),
            max_length,
        )
    warn_unknown(int((np.array(dataset["unknown"][:]) > LARGE_SHARE).sum()), len(dataset), "contexts")
    return dataset.remove_columns(["cut", "unknown"])


def make_reply_collator(model: PreTrainedModel) -> Callable[[list[dict]], dict[str, Any]]:
    """A collator that pads contexts and replies to the longest of the batch; the labels of padding are -100."""

    def collate(rows: list[dict]) -> dict[str, Any]:
        labels = padded([row["labels"] for row in rows], -100)
        # Not made by the model: with label smoothing the Trainer does not pass the labels on.
        inputs = with_replies(model, pad_contexts([row["input_ids"] for row in rows], model.config), labels)
        if not model.config.is_encoder_decoder:
            labels = F.pad(labels, (1, 0), value=-100)
        return {**inputs, "emotion_ids": torch.tensor([row["emotion_ids"] for row in rows]), "labels": labels}

    return collate


def prepare(recipe: Recipe, splits: DatasetDict, *_: Any) -> Prepared:
    model, tokenizer = build_generator(recipe, splits["train"].features["labels"].names)
    encoded = {
        split: encode_replies(rows, tokenizer, model.config, recipe.max_length) for split, rows in splits.items()
    }
    return Prepared(
        model=model,
        tokenizer=tokenizer,
        train=encoded.pop("train"),
        validation=encoded["validation"],
        collate=make_reply_collator(model),
        measure=perplexity,
        reduce_logits=token_losses if model.config.is_encoder_decoder else shifted_token_losses,
        held_out=encoded,
    )
