# SPDX-License-Identifier: Apache-2.0
"""`hf-emotion sweep`."""

from pathlib import Path
from typing import Annotated

import typer

from .options import DataDir, Recipe
from .printing import print_table, quiet, say


def sweep(
    recipe: Recipe,
    space: Annotated[
        Path,
        typer.Option(
            exists=True, dir_okay=False, help="YAML: `KEY: {low: 1, high: 9}` (`log: true`, `step`), or a list."
        ),
    ],
    trials: Annotated[int, typer.Option(min=1, help="Number of trials, including those before --resume.")] = 20,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Folder; default: runs/NAME-sweep.")] = None,
    data_dir: DataDir = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A field of the recipe, for all trials; repeatable."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a sweep, or with more trials.")] = False,
) -> None:
    """Train a recipe with different values of some fields (extra `sweep`: Optuna), and keep the best on the validation part."""
    from ..recipes import read_yaml_file
    from ..training.recipe_checks import load_recipe

    values = read_yaml_file(space)
    checked = load_recipe(recipe, list(set_ or []))
    quiet()
    from ..runs.sweep import BEST, PLOT
    from ..runs.sweep import sweep as run

    output = output or Path("runs") / f"{checked.name}-sweep"
    result = run(checked, values, trials, output, data_dir, resume)
    order = sorted(result["trials"], key=lambda trial: trial["number"] != result["best"])
    rows = [
        [
            f"{trial['number']}{' (best)' * (trial['number'] == result['best'])}",
            trial["state"],
            "-" if trial["dev"] is None else f"{trial['dev']:.4f}",
            *(f"{value:.4g}" if isinstance(value, float) else str(value) for value in trial["values"].values()),
            f"{trial['seconds']:.0f}",
        ]
        for trial in order
    ]
    print_table(["trial", "state", f"validation {result['metric']}", *order[0]["values"], "seconds"], rows)
    say(f"\nbest recipe: {output / BEST}\nits run: {result['folder']}\nplot: {output / PLOT}")
