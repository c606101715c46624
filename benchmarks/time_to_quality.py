# SPDX-License-Identifier: Apache-2.0
"""
How long label-aware attention trains until it is as good on the validation part of GoEmotions as the stock head at its best. The
stock head trains first; then label-aware attention, which is measured several times an epoch. Processor time without evaluations
and checkpoints.

    python benchmarks/time_to_quality.py --data-dir DATA
"""

import argparse
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from measuring import parse, ratio, result, save
from transformers import TrainerCallback

from hf_emotion import load_recipe, train
from hf_emotion.training.fit import watched_by


METRICS = ("macro_f1", "macro_average_precision")
EVALUATIONS = 8  # of label-aware attention, in its one epoch


class Clock(TrainerCallback):
    """
    Processor seconds of the training steps.

    Attributes:
        measured: (seconds, figures of the validation part) of each evaluation.
    """

    def __init__(self) -> None:
        self.seconds, self.measured = 0.0, []

    def on_train_begin(self, args, state, control, **others):
        self.since = time.process_time()

    def on_step_end(self, args, state, control, **others):
        self.seconds += time.process_time() - self.since
        self.since = time.process_time()

    def on_evaluate(self, args, state, control, metrics, **others):
        self.measured.append((self.seconds, {name: metrics[f"eval_{name}"] for name in METRICS}))
        self.since = time.process_time()

    def on_save(self, args, state, control, **others):
        self.since = time.process_time()


def trained(name: str, settings: list[str], data_dir: Path) -> list[tuple[float, dict[str, float]]]:
    """Train a recipe; returns what `Clock` measured."""
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder, watched_by(clock):
        train(load_recipe(name, settings), Path(folder, "run"), data_dir, test=False)
    for seconds, figures in clock.measured:
        print(f"{name}: {seconds:.0f} s, " + ", ".join(f"{key} {value:.4f}" for key, value in figures.items()))
    return clock.measured


def best(measured: list[tuple[float, dict[str, float]]], metric: str) -> tuple[float, float]:
    """When a metric was highest, and its value."""
    return max(((seconds, figures[metric]) for seconds, figures in measured), key=lambda pair: pair[1])


def reached(measured: list[tuple[float, dict[str, float]]], metric: str, value: float) -> float | None:
    """When a metric first had at least this value; None if it never had."""
    return next((seconds for seconds, figures in measured if figures[metric] >= value), None)


def main(argv: Sequence[str] | None = None) -> list[dict]:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base-model", default="minilm")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--epochs", type=int, default=5, help="of the stock head (default: %(default)s)")
    arguments = parse(parser, argv, pairs=1)
    settings = [
        f"base_model={arguments.base_model}",
        "seeds=[42]",
        *("learning_rate=1e-4", "per_device_train_batch_size=32", "bf16=true", "use_cpu=true"),
    ]
    stock = trained("goemotions/baseline", [*settings, f"num_train_epochs={arguments.epochs}"], arguments.data_dir)
    often = [
        "eval_strategy=steps",
        "save_strategy=steps",
        f"eval_steps={1 / EVALUATIONS}",
        f"save_steps={1 / EVALUATIONS}",
    ]
    ours = trained(
        "goemotions/laa_ce",
        [*settings, "model_config.head_bias_init=prior", "num_train_epochs=1", *often],
        arguments.data_dir,
    )
    rows = []
    for metric in METRICS:
        seconds, value = best(stock, metric)
        needed = reached(ours, metric, value)
        work = f"to the stock head's best {metric} on the validation part, {value:.3f}: label-aware-bert over {arguments.base_model}"
        if needed is None:
            rows.append(result("P15", f"{work} (never reached)", [0.0], "×", at_least=3))
        else:
            rows.append(ratio("P15", work, [needed], [seconds], at_least=3))
    save(arguments, rows)
    return rows


if __name__ == "__main__":
    main()
