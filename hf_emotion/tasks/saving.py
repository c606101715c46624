# SPDX-License-Identifier: Apache-2.0
"""Writes checkpoints."""

from pathlib import Path
from typing import Any

import transformers
from transformers.pipelines import PIPELINE_REGISTRY

from . import GENERAL, task_of


def save_model(model: Any, tokenizer: Any, folder: Path, **settings: Any) -> None:
    """
    Write a model, its tokenizer and the pipeline that answers for it, with the code of both. A stock classifier of texts answers in
    transformers' own pipeline, and needs none, but for a regression, whose values that pipeline does not know.

    Args:
        settings: arguments of the pipeline, such as its `gate`.
    """
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
