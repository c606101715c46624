# SPDX-License-Identifier: Apache-2.0
"""
A sweep on the small packaged corpus, and then the recipe's own values and the best ones, trained with several seeds each, on the
validation and on the test part. A sweep that stands in FOLDER already goes on there.

    python benchmarks/sweep.py FOLDER --set base_model=goemotions --set num_train_epochs=2 --output benchmarks/sweep.json
"""

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from measuring import machine

import hf_emotion
from hf_emotion.io.files import write_json
from hf_emotion.metrics.significance import over_seeds


SPACE = {"learning_rate": {"low": 1e-5, "high": 1e-3, "log": True}, "per_device_train_batch_size": [8, 16, 32]}


def measured(recipe: Any, folder: Path) -> dict[str, Any]:
    """Macro-F1 at tuned thresholds of each part, over the seeds."""
    runs = hf_emotion.train(recipe, folder).runs
    return {
        part: over_seeds([run.figures(part)["tuned"]["macro_f1"] for run in runs]) for part in ("validation", "test")
    }


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--recipe", default="quickstart")
    parser.add_argument("--set", action="append", default=[], help="key=value, as in `hf-emotion train`")
    parser.add_argument("--trials", type=int, default=8)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--output", type=Path, required=True)
    arguments = parser.parse_args(argv)
    torch.set_num_threads(arguments.threads)
    recipe = hf_emotion.load_recipe(arguments.recipe, arguments.set)
    seeds = list(range(42, 42 + arguments.seeds))
    found = hf_emotion.sweep(recipe, SPACE, arguments.trials, arguments.folder, resume=True)
    best = hf_emotion.load_recipe(arguments.folder / "best.yaml")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        record = {
            "recipe": arguments.recipe,
            "set": arguments.set,
            "encoder": recipe.base_model,
            "space": SPACE,
            "seeds": seeds,
            "metric": found["metric"],
            "trials": found["trials"],
            "pruned": sum(trial["state"] == "pruned" for trial in found["trials"]),
            "minutes": sum(trial["seconds"] for trial in found["trials"]) / 60,
            "best": next(trial for trial in found["trials"] if trial["number"] == found["best"]),
            "own_values": measured(replace(recipe, seeds=seeds), folder / "own"),
            "best_values": measured(replace(best, seeds=seeds), folder / "best"),
            "machine": machine(arguments.threads),
        }
    write_json(arguments.output, record)


if __name__ == "__main__":
    main()
