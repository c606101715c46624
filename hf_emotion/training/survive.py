# SPDX-License-Identifier: Apache-2.0
"""
Lets a training survive interruptions: tells whole checkpoints from half-written ones, answers a SIGTERM with a checkpoint,
and says what to do about an error."""

import errno
import json
import logging
import re
import shutil
import signal
import sys
import threading
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from transformers import EarlyStoppingCallback, Trainer, TrainerCallback, TrainerState
from transformers.trainer_callback import ExportableState

from ..io.files import write_json


logger = logging.getLogger(__name__)

STATE = "trainer_state.json"  # the Trainer writes it last
ASIDE = "half-written-"
CHECKED_EVERY = 8  # every 8 steps the processes ask each other whether one got SIGTERM


def last_whole_checkpoint(checkpoints: Path) -> Path | None:
    """The newest checkpoint that has all that a resume needs, its best checkpoint included; broken ones are renamed, with a warning."""
    steps = {path: path.name.removeprefix("checkpoint-") for path in checkpoints.glob("checkpoint-*")}
    paths = {int(step): path for path, step in steps.items() if step.isdecimal()}
    defects = {path: defect(path) for path in paths.values()}
    for path, reason in defects.items():
        if reason is not None:
            _set_aside(path, reason)
    for _, path in sorted(paths.items(), reverse=True):
        if defects[path] is not None:
            continue
        state = json.loads((path / STATE).read_text(encoding="utf-8"))
        if (best := state["best_model_checkpoint"]) is None:
            return path
        place = checkpoints / Path(best).name
        if defects.get(place, "missing") is None:
            if str(place) != best:  # the run folder was moved, or is named from another working directory
                write_json(path / STATE, {**state, "best_model_checkpoint": str(place)})
            return path
        _set_aside(path, f"its best checkpoint {place.name} is missing")
    return None


def defect(checkpoint: Path) -> str | None:
    """Why a checkpoint of the Trainer is not complete; None if it is."""
    try:
        state = json.loads((checkpoint / STATE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return f"it has no {STATE}"
    except ValueError:
        return f"{STATE} is cut off"
    names = {path.name for path in checkpoint.iterdir()}
    processes = _saved(state).get("processes", 1)
    random_states = ["rng_state.pth"] if processes == 1 else [f"rng_state_{rank}.pth" for rank in range(processes)]
    for name in ("scheduler.pt", *random_states):
        if name not in names:
            return f"it has no {name}"
    weights = r"(adapter_)?model.*\.safetensors$|pytorch_model"  # FSDP's too
    for what, pattern in (("weights", weights), ("optimizer", "optimizer")):
        if not any(re.match(pattern, name) for name in names):
            return f"it has no {what}"
    for index in checkpoint.glob("*.safetensors.index.json"):
        missing = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()) - names
        if missing:
            return f"it has no {min(missing)}"
    for path in checkpoint.iterdir():
        try:
            if path.suffix == ".safetensors":
                with safe_open(path, "pt"):  # compares the header with the size of the file
                    pass
            elif path.suffix in (".pt", ".pth", ".bin"):
                zipfile.ZipFile(path).close()  # the table of contents stands at the end
        except (SafetensorError, zipfile.BadZipFile):
            return f"{path.name} is cut off"
    return None


def _saved(state: dict) -> dict:
    """What `Survival` keeps in a checkpoint; empty if there is nothing."""
    return state.get("stateful_callbacks", {}).get("Survival", {}).get("attributes", {})


def _set_aside(checkpoint: Path, reason: str) -> None:
    target, number = checkpoint.with_name(ASIDE + checkpoint.name), 1
    while target.exists():
        number += 1
        target = checkpoint.with_name(f"{ASIDE}{checkpoint.name}-{number}")
    checkpoint.rename(target)
    logger.warning("%s is not whole (%s): set aside as %s until the run ends well", checkpoint, reason, target.name)


def remove_leftovers(folder: Path) -> None:
    """Checkpoints and half-written files of a run that has ended well."""
    for name in ("checkpoints", ".partial-*"):
        for path in list(folder.rglob(name)):
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)


class Survival(TrainerCallback, ExportableState):
    """
    Saves a checkpoint and ends the process with status 143 when it gets SIGTERM; stops, without saving, once loss or
    weights are not finite; and keeps in a checkpoint what the Trainer forgets: the losses since they were last logged, the
    patience of early stopping, the number of processes, the seconds of the training, and the fingerprint of the corpus.
    """

    def __init__(self, trainer: Trainer, data: str):
        self.trainer = trainer
        self.data = data
        self.told_to_end = False
        self.unlogged = {"loss": 0.0, "since_step": 0}
        self.earlier, self.began = 0.0, time.monotonic()

    def seconds(self) -> float:
        """Seconds of the whole training until now, with its parts before interruptions."""
        return self.earlier + time.monotonic() - self.began

    def state(self) -> dict:
        facts = {"processes": self.trainer.args.world_size, "data": self.data, "seconds": self.seconds()}
        return {"args": {}, "attributes": {**self.unlogged, **facts}}

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Wait for SIGTERM; only the main thread of a process can."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def remember(number, frame):
            self.told_to_end = True

        before = signal.signal(signal.SIGTERM, remember)
        try:
            yield
        finally:
            signal.signal(signal.SIGTERM, before)

    def on_train_begin(self, args, state, control, **kwargs):
        saved = _saved({"stateful_callbacks": state.stateful_callbacks})
        if state.global_step and saved:
            self.earlier = saved.get("seconds", 0.0)
            self.trainer._tr_loss += saved["loss"]
            self.trainer._globalstep_last_logged = saved["since_step"]
            for callback in self.trainer.callback_handler.callbacks:
                if isinstance(callback, EarlyStoppingCallback):
                    vars(callback).update(state.stateful_callbacks["EarlyStoppingCallback"]["attributes"])
        state.stateful_callbacks["Survival"] = self.state()

    def on_step_end(self, args, state, control, **kwargs):
        # At the end of an epoch the evaluation comes first: a checkpoint before it would lose it.
        within = state.epoch != int(state.epoch) and state.global_step < state.max_steps
        if within and self._any_told_to_end(state.global_step % CHECKED_EVERY == 0):
            control.should_save = True
        self._before_save(args, state, control)

    def on_epoch_end(self, args, state, control, **kwargs):
        if self._any_told_to_end(True):
            control.should_save = True
        self._before_save(args, state, control)

    def on_save(self, args, state, control, **kwargs):
        if self._any_told_to_end(True):
            self.trainer.accelerator.wait_for_everyone()  # wait until all processes have written
            if state.is_world_process_zero:
                print(
                    f"told to end (SIGTERM): saved step {state.global_step} of {state.max_steps} in "
                    f"{args.output_dir}/checkpoint-{state.global_step}. Give the same command with --resume to go on.",
                    file=sys.stderr,
                )
            raise SystemExit(128 + signal.SIGTERM)

    def _any_told_to_end(self, ask: bool) -> bool:
        """Whether any process was told to end. All must stop at the same step, or the others would wait for ever."""
        if self.trainer.args.world_size == 1:
            return self.told_to_end
        if not ask:
            return False
        told = torch.tensor([self.told_to_end], dtype=torch.int32, device=self.trainer.accelerator.device)
        return bool(self.trainer.accelerator.gather(told).any())

    def _before_save(self, args, state, control) -> None:
        trainer, saves = self.trainer, control.should_save or control.should_evaluate
        # Reading the loss makes a GPU wait, so it is not read at every step there.
        if args.device.type == "cpu" or control.should_log or saves:
            finite = bool(torch.isfinite(trainer._tr_loss))
            if finite and saves:
                finite = all(bool(parameter.isfinite().all()) for parameter in trainer.model.parameters())
            if not finite:
                raise diverged(trainer, trainer._tr_loss.item())
        if saves:
            self.unlogged = {"loss": 0.0, "since_step": state.global_step}
            if not control.should_log:
                loss = trainer.accelerator.gather(trainer._tr_loss.reshape(1)).mean().item()
                self.unlogged = {"loss": loss, "since_step": trainer._globalstep_last_logged}


def diverged(trainer: Trainer, loss: float) -> FloatingPointError:
    """What a training ends with whose loss, weights or predictions are not finite."""
    args, state = trainer.args, trainer.state
    return FloatingPointError(
        f"the training diverged: loss {loss} at step {state.global_step}, learning rate {trainer.lr_scheduler.get_last_lr()[0]:.3g} "
        f"(`learning_rate` {args.learning_rate:.3g}). Train again in another run folder with a smaller one, or a smaller `max_grad_norm`."
    )


def survival_in(checkpoint: Path) -> dict:
    """What `Survival` kept in a checkpoint; empty if there is nothing."""
    return _saved(json.loads((checkpoint / STATE).read_text(encoding="utf-8")))


def check_same_data(before: str | None, now: str, what: Path) -> None:
    """ValueError if the run to continue was trained on other rows."""
    if before not in (None, now):
        raise ValueError(
            f"--resume: {what} was trained on other rows than this command reads: give the same files and options."
        )


def stopped_at(checkpoint: Path) -> TrainerState | None:
    """The Trainer's state in a checkpoint, if the training was to stop after it (early or at its end); None if it was to go on."""
    state = TrainerState.load_from_json(str(checkpoint / STATE))
    control = state.stateful_callbacks.get("TrainerControl", {})
    return state if control.get("args", {}).get("should_training_stop", False) else None


@contextmanager
def explained(output: Path) -> Iterator[None]:
    """Give errors of disk and memory a message that says what to do. Their class stays OSError or MemoryError."""
    try:
        yield
    except (OSError, RuntimeError, MemoryError, SafetensorError) as error:
        text = (str(error) or type(error).__name__).splitlines()[0]
        number = error.errno if isinstance(error, OSError) else None
        full = number in (errno.ENOSPC, errno.EDQUOT) or re.search("No space left|quota exceeded|StorageFull", text)
        if full or (isinstance(error, RuntimeError) and "inline_container" in str(error)):  # how torch.save says it
            raise OSError(
                f"{output} cannot be written, the disk is full or failing ({text}). Make room, then give the same command with --resume."
            ) from error
        if isinstance(error, (MemoryError, torch.OutOfMemoryError)) or "can't allocate memory" in str(error):
            raise MemoryError(
                f"out of memory ({text}). Train in another run folder with smaller batches (`per_device_train_batch_size`, "
                "`gradient_accumulation_steps`) or a smaller `max_length`; or make room, and give the same command with --resume."
            ) from error
        raise
