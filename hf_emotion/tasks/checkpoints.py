# SPDX-License-Identifier: Apache-2.0
"""Loads checkpoints of any task."""

import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..runtime.checkpoints import check_vocabulary, load_checkpoint
from ..runtime.names import check_local
from . import task_of
from .base import Task


if TYPE_CHECKING:
    import torch


def load_any(
    checkpoint: Any, tokenizer: Any = None, device: "str | int | torch.device | None" = None, dtype: str | None = None
) -> tuple[Any, Any]:
    """A checkpoint's model and tokenizer, see `load_checkpoint`; the task's class loads it."""
    if isinstance(checkpoint, str | Path):
        check_local(checkpoint, "the checkpoint")
    return load_checkpoint(checkpoint, tokenizer, device, dtype, task_of)


def load_for(
    task: Task, checkpoint: Any, tokenizer: Any, device: "str | int | torch.device | None", dtype: str | None
) -> tuple[Any, Any]:
    """As `load_any`, for one task; ValueError for a checkpoint of another task."""
    model, tokenizer = load_any(checkpoint, tokenizer, device, dtype)
    config = copy.copy(model.config)
    # the config of a new model names the class of the weights that it started from
    config.architectures = [type(model).__name__]
    found = task_of(config)
    if found is not task:
        name = checkpoint if isinstance(checkpoint, str | Path) else f"the {model.config.model_type!r} model"
        use = f"{found.predictor_class}, or `hf-emotion {found.command}`" if found.predictor_class else "transformers"
        raise ValueError(f"{name} is a model for {found.name} and reads {found.reads}: use {use}.")
    check_vocabulary(model.config, tokenizer)
    return model, tokenizer
