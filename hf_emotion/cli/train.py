# SPDX-License-Identifier: Apache-2.0
"""`hf-emotion train`."""

import json
import os
from pathlib import Path
from typing import Annotated

import typer

from ..runtime.names import check_local
from .options import AllFigures, BaseModel, DataDir, Recipe, TrainFraction
from .printing import print_report, quiet, say


def train(
    recipe: Recipe,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Run folder; default: runs/NAME.")] = None,
    base_model: BaseModel = None,
    data_dir: DataDir = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="Number of seeds, counted from the recipe's first.")] = None,
    train_fraction: TrainFraction = None,
    shots: Annotated[int | None, typer.Option(min=1, help="Emotions of texts: rows per label; default: all.")] = None,
    max_eval_rows: Annotated[int | None, typer.Option(min=1, help="Measure at most N rows of each part.")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="A field of the recipe, such as learning_rate=1e-4; repeatable."
        ),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue a run from its last checkpoint.")] = False,
    all_figures: AllFigures = False,
) -> None:
    """Train a recipe, evaluate it on the validation and the test part, and write a run folder that AutoModel can load."""
    if base_model is not None:
        check_local(base_model, "--base-model")  # before the corpus is read
    from ..training.recipe_checks import load_recipe

    overrides = list(set_ or [])
    if train_fraction is not None:
        overrides.append(f"train_fraction={train_fraction:.10f}")  # YAML takes 1e-05 for a string
    fields = {"base_model": base_model, "shots": shots, "max_eval_rows": max_eval_rows}
    overrides += [f"{name}={json.dumps(value)}" for name, value in fields.items() if value is not None]
    checked = load_recipe(recipe, overrides)
    if seeds is not None:
        checked = load_recipe(recipe, [*overrides, f"seeds={[checked.seeds[0] + i for i in range(seeds)]}"])
    quiet()
    from ..runs.train import train as run

    output = output or Path("runs") / checked.name
    report = run(checked, output, data_dir=data_dir, resume=resume)
    if int(os.environ.get("RANK", "0")) == 0:  # with several processes, only the first one prints
        print_report(report, all_figures)
        say(f"\nrun folder: {output}")
