# SPDX-License-Identifier: Apache-2.0
"""
Kill trainings (SIGKILL) at random moments, many of them while a checkpoint is being written, resume them until they end, and
compare what they leave with a training that nobody killed: `python -m tests.endurance.kill_training --kills 50`.
"""

import contextlib
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil
import yaml


sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the helpers of the tests

from toolkit_helpers import feelings_rows, save_base_bert, write_csv

from .fork_server import ForkServer
from .small_model import end, options_of


LAST_FILE = "trainer_state.json"  # of a checkpoint, in the order in which the Trainer writes
CHANGING = ("runtime", "per_second", "train_minutes", "resumed", "model_preparation_time")  # measured times


def make_training(folder: Path, **arguments: Any) -> list[str]:
    """A tiny base model, a corpus and a recipe with many saves, within epochs too; returns the command without --output."""
    base = save_base_bert(folder / "base", hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1)
    for part, size in {"train": (93, 0), "dev": (25, 93), "test": (24, 118)}.items():  # last batches that are not full
        write_csv(folder / "data" / f"{part}.csv", ["text", "label"], feelings_rows(*size))
    recipe = {
        **{"name": "killed", "base_model": str(base), "model_type": "label-aware-bert", "max_length": 32},
        **{"dataset": "files", "dataset_options": {"label_separator": "|"}, "early_stopping_patience": 6},
        "model_config": {"class_balanced_beta": 0.9},
        "training_arguments": {
            **{"num_train_epochs": 3, "per_device_train_batch_size": 8, "learning_rate": 2e-3, "logging_steps": 2},
            **{"eval_strategy": "steps", "eval_steps": 5, "save_strategy": "steps", "save_steps": 5},
            **{"save_total_limit": 1, "use_cpu": True, "bf16": False, **arguments},
        },
    }
    (folder / "recipe.yaml").write_text(yaml.safe_dump(recipe), encoding="utf-8")
    return ["train", str(folder / "recipe.yaml"), "--data-dir", str(folder / "data")]


def half_written(checkpoints: Path) -> dict[str, list[str]]:
    """Checkpoints newer than all whole ones that lack their last file, or have it cut off, and what they hold."""
    found = {}
    for path in sorted(checkpoints.glob("checkpoint-*"), key=lambda path: int(path.name.split("-")[1])):
        try:
            json.loads((path / LAST_FILE).read_text(encoding="utf-8"))
            found.clear()
        except (FileNotFoundError, ValueError):
            with contextlib.suppress(FileNotFoundError):  # an old one that is being deleted
                found[path.name] = os.listdir(path)
    return found


def kill_once(server, command, output: Path, log: Path, in_save: bool, moments, seconds: float) -> str | None:
    """
    Start (or resume) the training in `output` and kill it: `in_save`, when a checkpoint folder holds some of its files but not
    the last one, else at any moment of the `seconds` that a training takes. Returns where it was; None if it ended before.
    """
    checkpoints = output / "checkpoints"
    before = set(half_written(checkpoints))
    process = server.start([*command, "--output", str(output), *(["--resume"] if output.exists() else [])], log)
    time.sleep(moments.uniform(0.3, 0.8 if in_save else 1) * seconds)
    if in_save:
        files = moments.randrange(16)  # of those that a whole checkpoint has
        while psutil.pid_exists(process):
            now = half_written(checkpoints)
            if any(len(held) >= files for name, held in now.items() if name not in before):
                time.sleep(moments.uniform(0, 0.002))
                break
            before &= set(now)  # what is gone was set aside
            time.sleep(0.0002)
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)
    if (status := server.wait(process)) != -signal.SIGKILL:
        assert status == 0, log.read_text(encoding="utf-8")
        return None
    if half_written(checkpoints).keys() - before:
        return "in a save"
    writing = (output / "recipe.yaml").exists() and any(output.glob(".partial-*"))
    return "while results were written" if writing else "elsewhere"


def steady(value: Any) -> Any:
    """A report without measured times."""
    if isinstance(value, dict):
        return {key: steady(item) for key, item in value.items() if not key.endswith(CHANGING)}
    return [steady(item) for item in value] if isinstance(value, list) else value


def runs_of(folder: Path) -> list[dict[str, Any]]:
    return json.loads((folder / "metrics.json").read_text(encoding="utf-8"))["runs"]


def differences(found: Path, expected: Path) -> list[str]:
    """In what the run folders differ: names of files, or of values of the report; weights and predictions byte for byte."""
    names = [{str(path.relative_to(folder)) for path in folder.rglob("*")} for folder in (found, expected)]
    files = ("model.safetensors", "predictions.parquet", "recipe.yaml")
    differing = sorted(names[0] ^ names[1])
    differing += [name for name in files if (found / name).read_bytes() != (expected / name).read_bytes()]
    for one, other in zip(steady(runs_of(found)), steady(runs_of(expected)), strict=True):
        differing += [key for key in other if one.get(key) != other[key]]
    return differing


def steps_of(folder: Path) -> set[int]:
    return {entry["step"] for entry in runs_of(folder)[0]["history"] if "loss" in entry}


def kill_trainings(folder: Path, kills: int, server: ForkServer, seed: int = 0) -> dict[str, Any]:
    """Kill trainings `kills` times, about half of them in a save, and let them end."""
    command, moments, log = make_training(folder), random.Random(seed), folder / "log.txt"
    reference, start = folder / "reference", time.monotonic()
    assert server.run([*command, "--output", str(reference)], log) == 0, log.read_text(encoding="utf-8")
    seconds = time.monotonic() - start
    each: list[str] = []  # where each was killed
    differing, lost, runs, output = [], 0, 0, folder / "run-0"
    while len(each) < kills or output.exists():
        in_save = each.count("in a save") < (len(each) + 1) / 2
        if len(each) == kills:
            ended = server.run([*command, "--output", str(output), "--resume"], log)
            assert ended == 0, log.read_text(encoding="utf-8")
        elif killed := kill_once(server, command, output, log, in_save, moments, seconds):
            each.append(killed)
            continue
        differing += [f"run {runs}: {name}" for name in differences(output, reference)]
        lost += len(steps_of(reference) - steps_of(output))
        runs, output = runs + 1, folder / f"run-{runs + 1}"
    return {
        **{"kills": len(each), "inside_save": each.count("in a save")},
        **{"while_writing_results": each.count("while results were written"), "runs": runs},
        "set_aside": log.read_text(encoding="utf-8").count(": set aside as "),
        **{"steps_lost": lost, "differences": differing, "equal": not differing},
        "seconds": round(time.monotonic() - start, 1),
    }


def main(argv: Sequence[str] | None = None) -> None:
    options = options_of(argv, kills=50, seed=0)
    with tempfile.TemporaryDirectory() as name, contextlib.closing(ForkServer(Path(name) / "cache")) as server:
        found = kill_trainings(Path(name), server=server, **options)
    end(found, found["steps_lost"] or not found["equal"])


if __name__ == "__main__":
    main()
