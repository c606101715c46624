# SPDX-License-Identifier: Apache-2.0
"""How far a training has come, where no bar can tell it."""

from transformers import TrainerCallback

from ..io.progress import Lines


class TrainingLines(TrainerCallback):
    """Plain lines now and then, of the first process: steps of the training, and batches of an evaluation."""

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


__all__ = ["TrainingLines"]
