# SPDX-License-Identifier: Apache-2.0
"""`hf-emotion reproduce`."""

from pathlib import Path
from typing import Annotated

import typer

from ..tasks.published import TABLES
from .options import BaseModel, DataDir, TrainFraction
from .printing import print_table, quiet


def reproduce(
    table: Annotated[str, typer.Argument(help=f"{', '.join(list(TABLES)[:-1])} or {list(TABLES)[-1]}.")],
    base_model: BaseModel = None,
    seeds: Annotated[int, typer.Option(min=1, help="Number of seeds of each recipe, counted from its first.")] = 3,
    data_dir: DataDir = None,
    recipe: Annotated[list[str] | None, typer.Option(help="Only this recipe; repeatable.")] = None,
    train_fraction: TrainFraction = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A field of every recipe; repeatable.")
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the runs.")] = Path("runs/reproduction"),
) -> None:
    """Run the recipes of a published table and print it beside the published figures. Finished runs are kept."""
    quiet()
    from ..runs.reproduce import reproduce as run

    overrides = list(set_ or [])
    if train_fraction is not None:
        overrides.append(f"train_fraction={train_fraction:.10f}")  # YAML takes 1e-05 for a string
    found = run(table, base_model, seeds, data_dir, recipe, overrides, output)
    print_table([name.replace(" (", "\n(") for name in found.header], found.rows)
    print(f"{TABLES[table].title}. Ours: mean ± sample standard deviation over seeds.")
