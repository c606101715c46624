# SPDX-License-Identifier: Apache-2.0
"""What the trainings of all tasks share."""

from __future__ import annotations

import ctypes
import logging
import math
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from accelerate.utils import broadcast_object_list
from transformers import Trainer, TrainerCallback, TrainingArguments

from ..io.files import write_text
from ..metrics import sign_of
from ..recipes import Recipe
from ..run_report import SeedRun
from .survive import Survival, check_same_data, last_whole_checkpoint, stopped_at, survival_in


if TYPE_CHECKING:
    from .seeds import SeedTraining


logger = logging.getLogger(__name__)


_watchers: ContextVar[tuple[TrainerCallback, ...]] = ContextVar("watchers", default=())


@contextmanager
def watched_by(callback: TrainerCallback) -> Iterator[None]:
    """Give every training in this block one more callback."""
    token = _watchers.set((*_watchers.get(), callback))
    try:
        yield
    finally:
        _watchers.reset(token)


def training_arguments(
    arguments_class: type[TrainingArguments], recipe: Recipe, checkpoints: Path, seed: int, **own: Any
) -> TrainingArguments:
    """The recipe's training arguments; `own`, then the defaults of a run, fill what the recipe does not set."""
    cuda = torch.cuda.is_available() and not recipe.training_arguments.get("use_cpu")
    values = {
        "eval_strategy": "epoch",
        "save_strategy": "epoch",
        "save_total_limit": 2,  # with 1 the Trainer would keep only the best one, and a resume would start from there
        "load_best_model_at_end": recipe.training_arguments.get("eval_strategy") != "no",
        "train_sampling_strategy": "group_by_length",
        "per_device_eval_batch_size": 64,
        "logging_steps": 50,
        "logging_nan_inf_filter": False,  # the filter hides a diverged training
        "log_level_replica": "error",  # with several processes, only the first one logs
        "report_to": "none",
        "run_name": f"{recipe.name}-seed-{seed}",  # the name of the run in wandb and MLflow
        "disable_tqdm": not sys.stderr.isatty(),
        "dataloader_pin_memory": cuda,
        "bf16": cuda and torch.cuda.is_bf16_supported(),
        **own,
        **recipe.training_arguments,
    }
    greater = sign_of(values.get("metric_for_best_model") or "loss") > 0  # "loss": the Trainer's own default
    values.setdefault("greater_is_better", greater)
    if values.get("lr_scheduler_type") == "reduce_lr_on_plateau":  # which steps on the metric, and takes it for a loss
        values["lr_scheduler_kwargs"] = {
            "mode": "max" if greater else "min",
            **(values.get("lr_scheduler_kwargs") or {}),
        }
    # The collator drops the column `length`, which the sampler needs.
    return arguments_class(output_dir=str(checkpoints), seed=seed, remove_unused_columns=False, **values)


def fit(training: SeedTraining, trainer: Trainer, data: str) -> SeedRun:
    """
    Train and return the facts of the training. With `resume`, go on from the last whole checkpoint, if there is one. The main
    process writes the recipe first. `data` is the fingerprint of the corpus. FloatingPointError if loss or weights are not finite;
    SystemExit, with a checkpoint, if the process was told to end (SIGTERM).
    """
    first = trainer.is_world_process_zero()
    if first:  # only after every check of the input
        write_text(training.recipe_file, training.recipe.to_yaml())
    checkpoint = last_whole_checkpoint(training.checkpoints) if training.resume and first else None
    last = broadcast_object_list([checkpoint])[0]
    saved = {} if last is None else survival_in(last)
    if last is not None:
        check_same_data(saved.get("data"), data, last)
    state = None if last is None else stopped_at(last)
    if state is None:
        survival = Survival(trainer, data)
        trainer.add_callback(survival)
        for callback in _watchers.get():
            trainer.add_callback(callback)
        kept = freed_memory_kept() if trainer.args.device.type == "cpu" else nullcontext()
        with survival.listening(), kept:
            trainer.train(resume_from_checkpoint=None if last is None else str(last))
        minutes = survival.seconds() / 60
    else:  # the run was interrupted after the training
        best = state.best_model_checkpoint if trainer.args.load_best_model_at_end else None
        trainer._load_from_checkpoint(best or str(last))
        trainer.state, minutes = state, saved.get("seconds", 0.0) / 60
    metric, state = metric_of(trainer.args), trainer.state
    best = state.best_model_checkpoint if trainer.args.load_best_model_at_end else None
    best_step = None if best is None else int(Path(best).name.split("-")[1])
    value = state.best_metric
    if best_step is None or best_step != state.best_global_step:  # the best evaluation may have no checkpoint
        value = trainer.predict(trainer.eval_dataset, metric_key_prefix="eval").metrics[f"eval_{metric}"]
    if state.best_metric is not None and not math.isfinite(state.best_metric):
        logger.warning(
            "`metric_for_best_model` %s was never a number on the validation part: the last weights are kept", metric
        )
    return SeedRun(
        seed=training.seed,
        train_minutes=minutes,
        resumed=last is not None,
        data=data,
        epochs=trainer.state.epoch,
        best_dev_metric=value if math.isfinite(value) else None,
        selected_by=metric,
        best_step=best_step,
        history=[entry for entry in state.log_history if "loss" in entry or "eval_loss" in entry],
    )


def metric_of(arguments: TrainingArguments) -> str:
    """The metric that selects the epoch, the seed and the trial of a sweep."""
    return (arguments.metric_for_best_model or "loss").removeprefix("eval_")


def measured(training: SeedTraining, trainer: Trainer, data: str) -> SeedRun:
    """The facts of a model that is trained already, as `fit` returns them; the Trainer only measures it on the validation part."""
    if trainer.is_world_process_zero():
        write_text(training.recipe_file, training.recipe.to_yaml())
    metric = metric_of(trainer.args)
    value = trainer.evaluate()[f"eval_{metric}"]
    return SeedRun(
        seed=training.seed,
        train_minutes=0.0,
        resumed=False,
        data=data,
        epochs=0,
        best_dev_metric=value if math.isfinite(value) else None,
        selected_by=metric,
        best_step=None,
        history=[],
    )


# glibc's mallopt(3): parameters, and what their values come to in a process that used large blocks.
TRIM_THRESHOLD, MMAP_THRESHOLD, MMAP_MAX = -1, -3, -4
AFTERWARDS = {MMAP_MAX: 65536, MMAP_THRESHOLD: 32 * 2**20, TRIM_THRESHOLD: 64 * 2**20}


@contextmanager
def freed_memory_kept() -> Iterator[None]:
    """
    In this block glibc, if it is there, keeps freed memory for the next use; the peak rises little. Else it returns large freed blocks to the
    system, and every step would get new pages to map and clear (benchmarks/NOTES.md).
    """
    if platform.libc_ver()[0] != "glibc":
        yield
        return
    libc = ctypes.CDLL(None)
    libc.mallopt(MMAP_MAX, 0)
    libc.mallopt(TRIM_THRESHOLD, -1)  # never
    try:
        yield
    finally:
        for parameter, value in AFTERWARDS.items():
            libc.mallopt(parameter, value)
        libc.malloc_trim(0)
