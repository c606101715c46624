# SPDX-License-Identifier: Apache-2.0
"""Training of generators: replies in a chosen emotion, and language models of dialogue."""

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset, DatasetDict
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from torch.nn import functional as F
from transformers import (
    AutoModelForCausalLM,
    EarlyStoppingCallback,
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
    TrainingArguments,
    set_seed,
)

from ..data import fingerprint
from ..io.files import filling
from ..modeling import BertModLNForConditionalGeneration, GPT2ModLNForConditionalGeneration
from ..modeling.pipeline_emotional_response import encode_contexts, pad_contexts
from ..recipes import SCRATCH, Recipe
from ..runtime.loading import read_config, read_model, reading
from ..runtime.unread import MUCH, unknown_shares, warn_unknown
from .fit import fit, training_arguments
from .models import load_base_tokenizer, not_found, resolve_base_model
from .order import ExactTrainer


logger = logging.getLogger(__name__)

GENERATORS: dict[str, type[PreTrainedModel]] = {
    "gpt2-mod-ln": GPT2ModLNForConditionalGeneration,
    "bert-mod-ln": BertModLNForConditionalGeneration,
}
END_OF_TEXT = "<|endoftext|>"  # of GPT-2: stands between turns, and at the ends of a conversation


def train_generator(
    recipe: Recipe, seed: int, folder: Path, splits: DatasetDict, resume: bool, recipe_file: Path | None
) -> dict[str, Any]:
    """
    Train one seed of a generator of replies or of a language model, write the checkpoint with the
    lowest perplexity on dev, and return its entry in `runs`. The perplexities of development and test part are those per token
    of the tokenizer, the end of each reply included.
    """
    set_seed(seed)
    collate: Callable[[list[dict]], dict[str, Any]]
    if recipe.model_type == "gpt2":
        model, tokenizer = build_language_model(recipe, splits["train"]["turns"])
        encoded = {split: encode_conversations(rows, tokenizer, recipe.max_length) for split, rows in splits.items()}
        collate, shifted = _collate_blocks, True
    else:
        model, tokenizer = build_generator(recipe, splits["train"].features["labels"].names)
        encoded = {
            split: encode_replies(rows, tokenizer, model.config, recipe.max_length) for split, rows in splits.items()
        }
        collate, shifted = make_reply_collator(model), False
    checkpoints = folder / "checkpoints"
    arguments = training_arguments(
        TrainingArguments,
        recipe,
        checkpoints,
        seed,
        metric_for_best_model="perplexity",
        # Blocks of conversations are all of one length.
        train_sampling_strategy="random" if recipe.model_type == "gpt2" else "group_by_length",
    )
    patience = recipe.early_stopping_patience
    # Not a Seq2SeqTrainer, which counts rows twice where the last batch of several processes is filled up with them.
    trainer = ExactTrainer(
        model=model,
        args=arguments,
        train_dataset=encoded["train"],
        eval_dataset=encoded["validation"],
        processing_class=tokenizer,
        data_collator=collate,
        compute_metrics=_perplexity,
        preprocess_logits_for_metrics=_shifted_token_losses if shifted else _token_losses,
        callbacks=[] if patience is None else [EarlyStoppingCallback(patience)],
    )
    run = fit(trainer, recipe, seed, checkpoints, resume, recipe_file, fingerprint(splits))
    run["parameters"] = model.num_parameters()
    for split, rows in encoded.items():
        if split != "train":
            # Not `evaluate`, after which early stopping would look for a metric of the development split.
            measured = trainer.predict(rows, metric_key_prefix=split).metrics
            run[split] = {
                "teacher_forcing": {name: measured[f"{split}_{name}"] for name in ("perplexity", "tokens")},
            }
    model = trainer.whole_model()
    if recipe_file is not None:  # only the first process writes
        with filling(folder) as temporary:
            model.save_pretrained(temporary)
            tokenizer.save_pretrained(temporary)
    return run


def build_generator(recipe: Recipe, emotions: Sequence[str]) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """
    The encoder-decoder of a recipe, in float32, and its tokenizer: a plain GPT-2 or BERT checkpoint wrapped, or a generator that
    is trained on. `emotion_tokens` gives the tokenizer a special token for each emotion.

    Raises:
        ValueError: a base model of another architecture; a trained generator with other emotions than the corpus, other norms
            than `model_config` asks for, or with tokens for emotions where the recipe has none (or the other way round).
        OSError: no such base model.
    """
    path = resolve_base_model(recipe.base_model)
    tokenizer = load_base_tokenizer(recipe.base_model)
    assert recipe.model_type is not None  # `train` comes here for generators only
    model_class = GENERATORS[recipe.model_type]
    fields = dict(recipe.model_config)
    for name in ("num_emotions", "emotions", "emotion_token_ids"):
        if name in fields:
            raise ValueError(f"`model_config.{name}` comes from the corpus: leave it out.")
    try:
        found = read_config(path)
        if found.model_type == recipe.model_type:
            if list(found.emotions or []) != list(emotions):
                raise ValueError(
                    f"`base_model` {recipe.base_model!r} generates the emotions {found.emotions}, and the corpus has "
                    f"{list(emotions)}: start from a plain checkpoint instead."
                )
            if recipe.emotion_tokens != (found.emotion_token_ids is not None):
                raise ValueError(
                    f"`base_model` {recipe.base_model!r} has {'no ' if recipe.emotion_tokens else ''}tokens for emotions: set "
                    f"`emotion_tokens` to {not recipe.emotion_tokens}, or start from a plain checkpoint instead."
                )
            model, info = read_model(model_class, path, dtype=torch.float32, output_loading_info=True, **fields)
            if info["missing_keys"] or info["unexpected_keys"]:
                raise ValueError(
                    f"`model_config` {fields} asks for other norms than the generator {recipe.base_model!r} has: leave it out, or "
                    "start from a plain checkpoint instead."
                )
            return model, tokenizer
        if tokenizer.eos_token_id is None and found.model_type == "gpt2":
            raise ValueError(f"the tokenizer of {recipe.base_model!r} has no token for the end of a text.")
        with reading(path, "weights"):
            model = model_class.from_encoder_decoder_pretrained(
                path,
                tokenizer=tokenizer,
                dtype=torch.float32,
                num_emotions=len(emotions),
                emotions=list(emotions),
                use_safetensors=True,
                trust_remote_code=False,
                **fields,
            )
    except OSError as error:
        raise OSError(not_found(recipe.base_model, error)) from error
    if recipe.emotion_tokens:
        tokenizer.add_special_tokens({"additional_special_tokens": [f"<emotion {name}>" for name in emotions]})
        model.resize_token_embeddings(len(tokenizer))
        ids = tokenizer.convert_tokens_to_ids([f"<emotion {name}>" for name in emotions])
        model.config.emotion_token_ids = ids
    return model, tokenizer


def encode_replies(dataset: Dataset, tokenizer: PreTrainedTokenizerBase, config, max_length: int) -> Dataset:
    """
    Columns `input_ids` (what the encoder reads), `labels` (the reply and the token that ends it), `emotion_ids` and `length`.
    Contexts and replies are cut to `max_length` tokens, with one counted warning; a reply that is cut has no end.
    """

    def encode(batch: dict) -> dict:
        contexts = encode_contexts(tokenizer, batch["context"], config, max_length, batch["labels"])
        replies = tokenizer(batch["reply"], add_special_tokens=False)["input_ids"]
        replies = [[*ids, end] for ids in replies]
        texts = tokenizer(batch["context"], add_special_tokens=False)
        cut = [
            len(text) + special > len(context) or len(reply) > max_length
            for text, context, reply in zip(texts["input_ids"], contexts, replies, strict=True)
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
    special = 1 + sum(token is not None for token in (config.context_start_token_id, config.emotion_token_ids))
    if not 3 <= max_length <= config.max_position_embeddings:
        raise ValueError(
            f"`max_length` must lie between 3 and the model's {config.max_position_embeddings} positions, got {max_length}."
        )
    dataset = dataset.map(encode, batched=True, remove_columns=dataset.column_names, desc="tokenizing")
    cut = sum(dataset["cut"])
    if cut:
        logger.warning(
            "%d of %d pairs have a context or a reply of more than %d tokens, which is cut",
            cut,
            len(dataset),
            max_length,
        )
    warn_unknown(int((np.array(dataset["unknown"][:]) > MUCH).sum()), len(dataset), "contexts")
    return dataset.remove_columns(["cut", "unknown"])


def make_reply_collator(model: PreTrainedModel) -> Callable[[list[dict]], dict[str, torch.Tensor]]:
    """A collator that pads contexts and replies to the longest of the batch; the labels of padding are -100."""

    def collate(rows: list[dict]) -> dict[str, torch.Tensor]:
        labels = _padded([row["labels"] for row in rows], -100)
        return {
            **pad_contexts([row["input_ids"] for row in rows], model.config),
            # Given here and not made by the model: with label smoothing, the Trainer takes the labels out.
            "decoder_input_ids": model.prepare_decoder_input_ids_from_labels(labels),
            "emotion_ids": torch.tensor([row["emotion_ids"] for row in rows]),
            "labels": labels,
        }

    return collate


def _padded(rows: list[list[int]], value: int) -> torch.Tensor:
    longest = max(map(len, rows))
    return torch.tensor([row + [value] * (longest - len(row)) for row in rows])


def build_language_model(
    recipe: Recipe, conversations: Sequence[Sequence[str]]
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """
    A causal language model and its tokenizer: those of the base model, or (`base_model="scratch"`) a new GPT-2, with a
    byte-level BPE tokenizer that is trained on these conversations. The tokenizer writes all letters small.

    Raises:
        ValueError: a base model of another architecture, or with fewer positions than `max_length`.
        OSError: no such base model.
    """
    if recipe.base_model != SCRATCH:
        tokenizer = load_base_tokenizer(recipe.base_model)
        try:
            path = resolve_base_model(recipe.base_model)
            found = read_config(path)
            if found.model_type != "gpt2":
                raise ValueError(
                    f"`base_model` {recipe.base_model!r} is a {found.model_type!r} model, not a 'gpt2' one."
                )
            model = read_model(AutoModelForCausalLM, path, dtype=torch.float32, **recipe.model_config)
        except OSError as error:
            raise OSError(not_found(recipe.base_model, error)) from error
        _check_blocks(recipe, model.config)
        return model, tokenizer
    size = recipe.model_config.get("vocab_size", GPT2Config.vocab_size)
    tokenizer = train_tokenizer((turn for turns in conversations for turn in turns), size)
    end = tokenizer.eos_token_id
    fields = {**recipe.model_config, "vocab_size": len(tokenizer), "bos_token_id": end, "eos_token_id": end}
    config = GPT2Config(**{"n_positions": max(recipe.max_length, 128), **fields})
    _check_blocks(recipe, config)
    tokenizer.model_max_length = config.n_positions
    return GPT2LMHeadModel(config), tokenizer


def _check_blocks(recipe: Recipe, config) -> None:
    if recipe.max_length > config.n_positions:
        raise ValueError(f"`max_length` is {recipe.max_length}, but the model has {config.n_positions} positions.")


def train_tokenizer(texts, vocab_size: int) -> PreTrainedTokenizerFast:
    """GPT-2's kind of tokenizer, byte-level BPE, of lower-case texts; with `END_OF_TEXT` as its one special token."""
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

    return dataset.map(encode, batched=True, batch_size=1000, remove_columns=dataset.column_names, desc="tokenizing")


def _collate_blocks(rows: list[dict]) -> dict[str, torch.Tensor]:
    """The last block of a batch of conversations may be short; no padding is attended to, for it stands at the end."""
    longest = max(len(row["input_ids"]) for row in rows)
    ids = _padded([row["input_ids"] for row in rows], 0)
    real = torch.arange(longest)[None] < torch.tensor([len(row["input_ids"]) for row in rows])[:, None]
    return {"input_ids": ids, "attention_mask": real.long(), "labels": ids.masked_fill(~real, -100)}


def _token_losses(logits, labels: torch.Tensor) -> torch.Tensor:
    """
    (B, T, V), (B, T) -> (B, 2): the sum of the tokens' losses of each row and their number. The Trainer's `eval_loss` is a mean
    over batches, which weighs the tokens of short replies more, and is smoothed where training is.
    """
    logits = logits[0] if isinstance(logits, tuple) else logits
    losses = F.cross_entropy(logits.float().transpose(1, 2), labels, ignore_index=-100, reduction="none")
    return torch.stack([losses.double().sum(dim=1), (labels != -100).sum(dim=1).double()], dim=1)


def _shifted_token_losses(logits, labels: torch.Tensor) -> torch.Tensor:
    """The same for a causal language model, whose logits are those of the next token."""
    logits = logits[0] if isinstance(logits, tuple) else logits
    return _token_losses(logits[:, :-1], labels[:, 1:])


def _perplexity(prediction) -> dict[str, float]:
    loss, tokens = np.asarray(prediction.predictions).sum(axis=0)
    with np.errstate(over="ignore"):  # of a training that diverged it is infinite
        return {"perplexity": float(np.exp(loss / tokens)), "tokens": int(tokens)}
