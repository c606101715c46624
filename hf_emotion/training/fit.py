# SPDX-License-Identifier: Apache-2.0
"""What the trainings of classifiers and generators have in common."""

import sys
from pathlib import Path
from typing import Any

import torch
from transformers import Trainer, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint

from ..recipes import Recipe
from .files import write_text


def training_arguments(
    arguments_class: type[TrainingArguments], recipe: Recipe, checkpoints: Path, seed: int, **own: Any
) -> TrainingArguments:
    """The recipe's arguments over the defaults of a run, those in `own` among them."""
    values = {
        "eval_strategy": "epoch",
        "save_strategy": "epoch",
        "save_total_limit": 1,
        "load_best_model_at_end": True,
        "train_sampling_strategy": "group_by_length",
        "per_device_eval_batch_size": 64,
        "logging_steps": 50,
        "report_to": "none",
        "disable_tqdm": not sys.stderr.isatty(),
        "dataloader_pin_memory": torch.cuda.is_available(),
        "bf16": torch.cuda.is_available() and torch.cuda.is_bf16_supported(),
        **own,
        **recipe.training_arguments,
    }
    # The collator drops the column `length`, which the sampler needs.
    return arguments_class(output_dir=str(checkpoints), seed=seed, remove_unused_columns=False, **values)


def fit(
    trainer: Trainer, recipe: Recipe, seed: int, checkpoints: Path, resume: bool, recipe_file: Path | None
) -> dict[str, Any]:
    """Train, from the last checkpoint if there is one to `resume`, and return what is known of the training."""
    if recipe_file is not None:  # not before everything that can be wrong with the input has been read
        write_text(recipe_file, recipe.to_yaml())
    last = get_last_checkpoint(str(checkpoints)) if resume and checkpoints.is_dir() else None
    result = trainer.train(resume_from_checkpoint=last)
    return {
        "seed": seed,
        "train_minutes": result.metrics["train_runtime"] / 60,
        "resumed": last is not None,
        "epochs": trainer.state.epoch,
        "best_dev_metric": trainer.state.best_metric,
        "best_step": trainer.state.best_global_step,
        "history": [entry for entry in trainer.state.log_history if "loss" in entry or "eval_loss" in entry],
    }
