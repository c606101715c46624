# SPDX-License-Identifier: Apache-2.0
"""
Few examples: each method of `few_shot`, the one that the validation part chose, and SetFit from its own environment, on the same rows. Figures are
those of one part of test, drawn once; time is processor time of one thread, without reading the corpus and without the test.

    OMP_NUM_THREADS=1 python benchmarks/few_shot.py --data-dir DATA --setfit ENVIRONMENT/bin/python --output benchmarks/few_shot.json

What is in the file already is not measured again.
"""

import argparse
import json
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from datasets import DatasetDict
from measuring import machine, recorded

from hf_emotion import Predictor, load_dataset_for, load_recipe, metrics
from hf_emotion.data.splits import label_names
from hf_emotion.io.files import write_json
from hf_emotion.recipes import Recipe
from hf_emotion.runtime.base_models import resolve_base_model
from hf_emotion.tasks.corpus_metrics import at_thresholds
from hf_emotion.tasks.rows import at_most, few_of, label_matrix
from hf_emotion.training.check_data import task_of_training
from hf_emotion.training.seeds import fit_model


FIGURES = ("accuracy", "macro_f1", "macro_average_precision", "seconds", "memory", "dev")


def largest_memory(reset: bool = False) -> float:
    """The largest resident memory of this process in MiB since the last reset (Linux)."""
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def ours(recipe: Recipe, method: str, seed: int, splits: DatasetDict) -> dict[str, float]:
    """One training by one method: figures on the validation and the test part, processor seconds, MiB."""
    task, splits = task_of_training(recipe, splits)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        largest_memory(reset=True)
        start = time.process_time()
        trainer, prepared, run = fit_model(
            task, recipe, seed, place / "checkpoints", splits, False, place / "recipe.yaml", method=method
        )
        spent, memory = time.process_time() - start, largest_memory()
    predictor = Predictor(trainer.whole_model(), prepared.tokenizer, max_length=recipe.max_length)
    names = label_names(splits["test"])
    gold = {part: label_matrix(splits[part]) for part in ("validation", "test")}
    scores, decisions = predictor.of_rows(splits["test"]), None
    if gold["test"].ndim == 2:
        decisions = scores > metrics.tune_thresholds(gold["validation"], predictor.of_rows(splits["validation"]))
    found = at_thresholds(recipe.dataset, gold["test"], scores, names, recipe.threshold, decisions)
    figures = found["argmax" if decisions is None else "tuned"]
    kept = {name: figures[name] for name in FIGURES if name in figures}
    return {**kept, "seconds": spent, "memory": memory, "dev": run.best_dev_metric}


def setfit(python: Path, steps: int, recipe: Recipe, seed: int, splits: DatasetDict) -> dict[str, float]:
    """The same rows and weights with SetFit, in a process of its own environment."""
    with tempfile.TemporaryDirectory() as folder:
        task = Path(folder) / "task.json"
        parts = {
            part: {"text": splits[part]["text"][:], "label": splits[part]["labels"][:]} for part in ("train", "test")
        }
        task.write_text(
            json.dumps({"model": resolve_base_model(recipe.base_model), "seed": seed, "steps": steps, **parts}),
            encoding="utf-8",
        )
        script = Path(__file__).with_name("few_shot_setfit.py")
        done = subprocess.run([python, script, task], check=True, stdout=subprocess.PIPE, text=True, cwd=folder)
    found = json.loads(done.stdout.splitlines()[-1])
    scores = torch.tensor(found.pop("probabilities")).numpy()
    figures = at_thresholds(
        recipe.dataset, label_matrix(splits["test"]), scores, label_names(splits["test"]), recipe.threshold, None
    )["argmax"]
    return {**{name: figures[name] for name in FIGURES if name in figures}, **found}


def over_draws(runs: Sequence[dict[str, float]]) -> dict[str, list[float]]:
    """Figure -> its values in the draws."""
    return {name: [run[name] for run in runs] for name in runs[0] if name in FIGURES}


def summed_up(draws: dict[str, dict[str, dict[str, Any]]]) -> dict[str, Any]:
    """Method -> its figures over the draws; "chosen" is the method that was best on the validation part in each draw, with the seconds of all."""
    methods = list(dict.fromkeys(method for runs in draws.values() for method in runs))
    found = {method: over_draws([runs[method] for runs in draws.values() if method in runs]) for method in methods}
    own = [{name: run for name, run in runs.items() if "dev" in run} for runs in draws.values()]
    best = [max(runs, key=lambda name: runs[name]["dev"]) for runs in own]
    chosen = over_draws([runs[name] for runs, name in zip(own, best, strict=True)])
    total = over_draws([{"seconds": sum(run["seconds"] for run in runs.values())} for runs in own])
    return {**found, "chosen": {**chosen, **total, "methods": best}}


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipe", default="emotion6/few")
    parser.add_argument("--base-model", help="default: the recipe's")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--shots", type=int, nargs="+", default=[8, 64])
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--test-rows", type=int, default=400)
    parser.add_argument("--methods", nargs="+", help="default: the recipe's")
    parser.add_argument("--setfit", type=Path, help="the Python of an environment with SetFit")
    parser.add_argument("--setfit-steps", type=int, default=60, help="steps of 16 pairs (default: %(default)s)")
    parser.add_argument("--output", type=Path, required=True)
    arguments = parser.parse_args(argv)
    torch.set_num_threads(1)
    changes = [f"base_model={json.dumps(arguments.base_model)}"] if arguments.base_model else []
    recipe = load_recipe(arguments.recipe, changes)
    splits = load_dataset_for(recipe.dataset, arguments.data_dir, **recipe.dataset_options)
    splits["test"] = at_most(splits["test"], arguments.test_rows)
    methods = [*(arguments.methods or recipe.few_shot), *(["setfit"] if arguments.setfit else [])]
    record = recorded(arguments.output)
    name = f"{recipe.dataset}-{Path(recipe.base_model).name}"
    own = record.setdefault(name, {"setfit_steps": arguments.setfit_steps, "shots": {}})
    own |= {"rows": {part: len(rows) for part, rows in splits.items()}, "machine": machine(1)}
    for shots in arguments.shots:
        place = own["shots"].setdefault(str(shots), {"draws": {}})
        for seed in recipe.seeds[0] + torch.arange(arguments.draws):
            few = {part: few_of(splits[part], shots, int(seed)) for part in ("train", "validation")}
            drawn = DatasetDict({**few, "test": splits["test"]})
            runs = place["draws"].setdefault(str(int(seed)), {})
            for method in methods:
                if method in runs:
                    continue
                if method == "setfit":
                    runs[method] = setfit(arguments.setfit, arguments.setfit_steps, recipe, int(seed), drawn)
                else:
                    runs[method] = ours(recipe, method, int(seed), drawn)
                print(shots, int(seed), method, runs[method], flush=True)
                write_json(arguments.output, record)
        place["summary"] = summed_up(place["draws"])
        write_json(arguments.output, record)


if __name__ == "__main__":
    main()
