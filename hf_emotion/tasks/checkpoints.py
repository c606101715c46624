# SPDX-License-Identifier: Apache-2.0
"""Loads and writes checkpoints of any task."""

import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..runtime.checkpoints import check_vocabulary, load_checkpoint
from ..runtime.names import check_local
from . import GENERAL, task_of
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


def save_model(model: Any, tokenizer: Any, folder: Path, **settings: Any) -> None:
    """
    Write a model, its tokenizer and the pipeline that answers for it, with the code of both. A stock classifier of texts answers in
    transformers' own pipeline, and needs none, but for a regression, whose values that pipeline does not know.

    Args:
        settings: arguments of the pipeline, such as its `gate`.
    """
    import transformers
    from transformers.pipelines import PIPELINE_REGISTRY

    name = task_of(model.config).name
    stock = type(model).__module__.startswith("transformers.")
    if name in PIPELINE_REGISTRY.supported_tasks and (
        settings or not stock or name != GENERAL.name or model.config.problem_type == "regression"
    ):
        pipeline = transformers.pipeline(name, model=model, tokenizer=tokenizer, device=model.device, **settings)
        pipeline.save_pretrained(folder)
    else:
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
