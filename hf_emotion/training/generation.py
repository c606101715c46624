# SPDX-License-Identifier: Apache-2.0
"""Training of generators: replies in a chosen emotion, and language models of dialogue."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from datasets import DatasetDict
from transformers import (
    EarlyStoppingCallback,
    TrainingArguments,
    set_seed,
)

from ..data.splits import fingerprint
from ..io.files import filling
from ..recipes import Recipe
from ..tasks.emotional_response.building import build_generator, encode_replies, make_reply_collator
from ..tasks.language_modeling.building import (
    _collate_blocks,
    _shifted_token_losses,
    build_language_model,
    encode_conversations,
)
from ..tasks.perplexity import _perplexity, _token_losses
from .fit import fit, training_arguments
from .order import ExactTrainer


logger = logging.getLogger(__name__)


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
