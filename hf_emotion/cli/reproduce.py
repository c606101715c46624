# SPDX-License-Identifier: Apache-2.0
"""`hf-emotion reproduce`."""

from pathlib import Path
from typing import Annotated

import typer

from ..study.published import TABLES
from .options import BaseModel, DataDir, TrainFraction
from .printing import print_table, quiet


def reproduce(
    table: Annotated[
        str,
        typer.Argument(help=f"{', '.join(list(TABLES)[:-1])} or {list(TABLES)[-1]}."),
    ],
    base_model: BaseModel = None,
    seeds: Annotated[int, typer.Option(min=1, help="Number of seeds of each recipe, counted from its first.")] = 3,
    data_dir: DataDir = None,
    recipe: Annotated[
        list[str] | None, typer.Option(help="Only this row of the table, may be repeated; e.g. goemotions/laa_cb.")
    ] = None,
    train_fraction: TrainFraction = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="key=value for every recipe.")] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the run folders.")] = Path(
        "runs/reproduction"
    ),
    records: Annotated[Path, typer.Option(help="Folder of the small JSON records, one per run.")] = Path(
        "benchmarks/reproduction"
    ),
    judge: Annotated[
        list[str] | None, typer.Option(help="Generators: a classifier of replies, as in `evaluate`.")
    ] = None,
    contexts: Annotated[int, typer.Option(min=1, help="Generators: size of the fixed sample of contexts.")] = 1000,
    bertscore_model: Annotated[str | None, typer.Option(help="Generators: encoder for BERTScore.")] = None,
    collect: Annotated[
        list[Path] | None,
        typer.Option(help="Take the record of this finished run folder instead of training; may be repeated."),
    ] = None,
    encoder: Annotated[
        str | None, typer.Option(help="With --collect: what to call the base model; default: its id or folder.")
    ] = None,
) -> None:
    """
    Run the recipes of a published table and print it beside the published figures. Finished runs are not run again.
    """
    quiet()
    from ..study.reproduce import collect as take
    from ..study.reproduce import reproduce as run
    from ..study.tables import table_rows

    if encoder is not None and not collect:
        raise typer.BadParameter("--encoder goes with --collect.")
    if collect:
        for folder in collect:
            take(table, folder, records, encoder)
    else:
        run(
            table,
            base_model,
            seeds,
            data_dir,
            recipe,
            set_ or [],
            train_fraction,
            output,
            records,
            judge or [],
            contexts,
            bertscore_model,
        )
    print_table(*table_rows(table, records))
