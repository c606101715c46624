# SPDX-License-Identifier: Apache-2.0
"""Prediction with checkpoints of any task."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ..io.names import given
from ..runtime.ready import with_weights
from ..tasks import task_of
from ..tasks.base import Task
from ..tasks.checkpoints import load_any


def load_predictor(
    checkpoint: str | Path,
    taxonomy: str | Mapping[str, Sequence[str]] | None = None,
    max_length: int | None = None,
    device: str | int | None = None,
    dtype: str | None = None,
    stride: int | None = None,
    max_windows: int | None = None,
    aggregation_strategy: str | None = None,
    add_labels: Sequence[str] | None = None,
    sentiment_model: str | Path | None = None,
) -> Any:
    """
    The predictor of a checkpoint's task: a `Predictor` for emotions of texts, a `TargetedPredictor`, an `AspectPredictor`, a
    `DialoguePredictor` or a `ReplyGenerator`.

    Args:
        checkpoint: a local folder (also an exported one) or a Hub id.
        max_length, device, dtype: see `Predictor`.
        taxonomy, stride, max_windows, aggregation_strategy, add_labels: for emotions of texts, see `Predictor`.
        sentiment_model: for terms, see `AspectPredictor`.

    Raises:
        OSError: no such checkpoint, or one without a tokenizer.
        ValueError: an argument for models of another task; a model that predicts nothing here.
    """
    if add_labels:
        checkpoint = with_weights(checkpoint)
    options = given(
        taxonomy=taxonomy,
        stride=stride,
        max_windows=max_windows,
        aggregation_strategy=aggregation_strategy,
        add_labels=add_labels or None,
        sentiment_model=sentiment_model,
    )
    task, predictor_with = open_checkpoint(checkpoint, device, dtype)
    for name in options.keys() - task.predictor_options:
        raise ValueError(f"`{name}` {options[name]!r} does not go with a model for {task.name}: leave it out.")
    return predictor_with(max_length=max_length, **options)


def open_checkpoint(
    checkpoint: str | Path, device: str | int | None = None, dtype: str | None = None
) -> tuple[Task, Callable[..., Any]]:
    """A task, and what makes its predictor from `max_length` and `predictor_options`. Errors as `load_predictor`."""
    model, tokenizer = load_any(checkpoint, device=device, dtype=dtype)
    task = task_of(model.config)
    if task.predictor_class is None:
        raise ValueError(f"{checkpoint} is a model for {task.name}, which predicts nothing here: use transformers.")
    return task, partial(task.predictor, model, tokenizer)
