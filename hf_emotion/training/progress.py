# SPDX-License-Identifier: Apache-2.0
"""What a training prints: one line for each evaluation, and a bar or now and then a line. All other figures go to a file."""

import json
import logging
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from tqdm.auto import tqdm
from transformers import PrinterCallback, ProgressCallback, Trainer, TrainerCallback
from transformers.integrations import TensorBoardCallback, WandbCallback

from ..io.progress import Lines, duration
from .fit import metric_of


logger = logging.getLogger(__name__)

LOG = "train.log"  # in the run folder: a JSON object for each entry of the Trainer's log


def say_less(trainer: Trainer, folder: Path, method: str | None = None) -> None:
    """Print lines for evaluations in place of the Trainer's log; `folder`: the run folder, `method`: of `few_shot`."""
    trainer.remove_callback(PrinterCallback)
    if trainer.pop_callback(ProgressCallback) is not None:
        trainer.add_callback(Bar())
    if not sys.stderr.isatty():
        trainer.add_callback(TrainingLines())
    trainer.add_callback(EvaluationLines(folder / LOG, {} if method is None else {"method": method}))
    for callback in trainer.callback_handler.callbacks:
        if isinstance(callback, TensorBoardCallback) and callback.logging_dir is None:
            # In `checkpoints` the events would be removed with it.
            callback.logging_dir = str(folder / "tensorboard" / (method or ""))


class Bar(ProgressCallback):
    """The Trainer's bar without its log lines; it disappears when the training ends."""

    def on_log(self, args, state, control, logs=None, **kwargs):
        pass

    def on_train_end(self, args, state, control, **kwargs):
        if self.training_bar is not None:
            self.training_bar.leave = False
        super().on_train_end(args, state, control, **kwargs)


@contextmanager
def run_of_its_own(trainer: Trainer) -> Iterator[None]:
    """End the wandb run that the trainer begins in this block, also after an error; otherwise the next seed or trial would go on in it."""
    callbacks = [callback for callback in trainer.callback_handler.callbacks if isinstance(callback, WandbCallback)]
    began = [callback._wandb.run is None for callback in callbacks]
    try:
        yield
    finally:
        for callback, new in zip(callbacks, began, strict=True):
            trainer.remove_callback(callback)
            if new and callback._wandb.run is not None:
                callback._wandb.finish()


class TrainingLines(TrainerCallback):
    """The first process prints a plain line now and then: steps of the training, and batches of an evaluation."""

    def __init__(self) -> None:
        self.steps: Lines | None = None
        self.batches: Lines | None = None

    def on_train_begin(self, args, state, control, **kwargs):
        if state.is_world_process_zero:
            self.steps = Lines(state.max_steps, "steps of the training", state.global_step)

    def on_step_end(self, args, state, control, **kwargs):
        if self.steps is not None:
            self.steps.update()

    def on_prediction_step(self, args, state, control, eval_dataloader=None, **kwargs):
        if state.is_world_process_zero and self.batches is None:
            self.batches = Lines(len(eval_dataloader), "batches of the evaluation")
        if self.batches is not None:
            self.batches.update()

    def on_evaluate(self, args, state, control, **kwargs):
        self.batches = None

    on_predict = on_evaluate


class EvaluationLines(TrainerCallback):
    """The first process prints one line for each evaluation, and appends every entry of the log, after `marks`, to a file."""

    def __init__(self, log: Path, marks: dict[str, str]):
        self.log, self.marks = log, marks
        self.loss: float | None = None  # the training loss that was logged last
        self.began, self.first_step = time.monotonic(), 0
        self.warned = False

    def on_train_begin(self, args, state, control, **kwargs):
        self.began, self.first_step = time.monotonic(), state.global_step
        going_on = f", from step {state.global_step} on" if state.global_step else ""
        epochs = f"{args.num_train_epochs:g} epoch{'' if args.num_train_epochs == 1 else 's'}, "
        whole = "" if args.max_steps > 0 else epochs
        self._say(state, f"training: {whole}{state.max_steps} steps{going_on}; every figure goes to {self.log}")

    def on_log(self, args, state, control, logs=None, **kwargs):
        self.loss = (logs or {}).get("loss", self.loss)
        if state.is_world_process_zero:
            entry = {**self.marks, "step": state.global_step, "epoch": state.epoch, **(logs or {})}
            self.log.parent.mkdir(parents=True, exist_ok=True)
            with self.log.open("a", encoding="utf-8") as file:
                file.write(json.dumps(entry) + "\n")

    def on_evaluate(self, args, state, control, metrics=None, **kwargs):
        name = metric_of(args)
        value = (metrics or {}).get(f"eval_{name}")
        if value is None or not state.max_steps:  # the Trainer's error names the figures that there are
            return
        parts = [] if self.loss is None else [f"loss {_figure(self.loss)}"]
        if name != "loss":
            parts.append(f"validation loss {_figure(metrics['eval_loss'])}")
        best = state.best_metric  # the best of the earlier evaluations
        better = best is None or (value > best if args.greater_is_better else value < best)
        parts.append(
            f"validation {name} {_figure(value)} ({'the best so far' if better else f'best so far {_figure(best)}'})"
        )
        done = state.global_step - self.first_step
        if done and state.global_step < state.max_steps:
            left = (time.monotonic() - self.began) / done * (state.max_steps - state.global_step)
            parts.append(f"{duration(left)} left")
        of_epochs = f"epoch {state.epoch:.3g} of {state.num_train_epochs:g}"
        where = f"step {state.global_step} of {state.max_steps}" if args.max_steps > 0 else of_epochs
        self._say(state, f"{where}: {', '.join(parts)}")
        losses = [entry["loss"] for entry in state.log_history if "loss" in entry]
        if state.is_world_process_zero and not self.warned and rose_again(losses):
            self.warned = True
            logger.warning(
                "the training loss rose again, to %s at step %d: most of what was learnt is lost. Try a smaller `learning_rate`, more "
                "`warmup_steps` or another seed",
                _figure(losses[-1]),
                state.global_step,
            )

    def _say(self, state, line: str) -> None:
        if state.is_world_process_zero:
            tqdm.write(line, file=sys.stderr)  # prints above the bar


def rose_again(losses: Sequence[float]) -> bool:
    """Whether a loss fell by a fifth or more, and then rose above the middle between the first losses and the lowest (means of several)."""
    size = max(3, len(losses) // 16)
    if len(losses) < 4 * size:
        return False
    sums = np.cumsum([0.0, *losses])
    means = (sums[size:] - sums[:-size]) / size
    first, lowest, last = means[0], means.min(), means[-1]
    return bool(lowest <= 0.8 * first and last > (first + lowest) / 2)


def _figure(value: float) -> str:
    return f"{value:.4f}" if abs(value) < 10 else f"{value:.2f}"
