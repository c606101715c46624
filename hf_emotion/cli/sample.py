# SPDX-License-Identifier: Apache-2.0
"""`hf-emotion sample`."""

from pathlib import Path
from typing import Annotated

import typer

from .options import Encoding, EscapeFormulas, Overwrite, Prefix, Separator
from .printing import say


def names_in(labels: str | None) -> list[str] | None:
    """The names in `--labels`."""
    return None if labels is None else [name.strip() for name in labels.split(",")]


def refuse(output: Path, endings: tuple[str, ...], inputs: list[Path], overwrite: bool) -> None:
    """An error for an output of another kind, one that is an input, and one that must not be replaced."""
    from ..io.paths import refuse_existing

    if output.suffix.lower() not in endings or output.resolve() in [path.resolve() for path in inputs]:
        raise typer.BadParameter(f"--output must end in one of {', '.join(endings)}, and be no input; got {output}.")
    if output.is_dir() or not overwrite:
        refuse_existing(output, "--overwrite")


def sample(
    file: Annotated[str, typer.Argument(help="CSV, TSV, JSONL, Parquet or Excel: what `predict` wrote, or texts.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Table to fill in, .csv, .tsv or .xlsx; .json: for Label Studio.")
    ],
    rows: Annotated[int, typer.Option("--rows", "-n", min=1, help="How many rows to draw.")] = 200,
    by: Annotated[
        list[str] | None,
        typer.Option(
            help="Column of the groups: equally many rows from each. Repeatable: each combination of values."
        ),
    ] = None,
    labels: Annotated[
        str | None, typer.Option(help="joy,anger: a column for each, for 0 or 1. Default: one column, `label`.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the draw.")] = 0,
    text_column: Annotated[
        str | None, typer.Option(help="Label Studio: column of the texts; default: text or utterance.")
    ] = None,
    show_predictions: Annotated[
        bool, typer.Option("--show-predictions", help="Keep the model's answers. Seeing them, people tend to agree.")
    ] = False,
    prefix: Prefix = "",
    encoding: Encoding = None,
    separator: Separator = None,
    escape_formulas: EscapeFormulas = False,
    overwrite: Overwrite = False,
) -> None:
    """Draw rows at random for people to label: a table to fill in, in a spreadsheet or with `label`."""
    from ..serving.sampling import sample as run

    refuse(output, (".csv", ".tsv", ".xlsx", ".json"), [Path(file)], overwrite)
    if studio := output.suffix.lower() == ".json":
        refuse(output.with_suffix(".xml"), (".xml",), [Path(file)], overwrite)
    options = (seed, text_column, show_predictions, prefix, encoding, separator, escape_formulas)
    found = run(file, output, rows, tuple(dict.fromkeys(by or ())), names_in(labels), *options)
    left = f"; {found.left_out:,} more have no prediction" if found.left_out else ""
    say(f"{sum(found.drawn.values()):,} of {sum(found.rows.values()):,} rows written to {output}{left}")
    if by:
        each = [f"{group} {own:,} of {found.rows[group]:,}" for group, own in found.drawn.items()]
        say(f"{' / '.join(by)}: {', '.join(each[:10])}" + f" and {len(each) - 10:,} more" * (len(each) > 10))
    column = f" --text-column {text_column}" if text_column else ""
    if studio:
        say(f"the labelling interface for Label Studio: {output.with_suffix('.xml')}")
        say("then, with its JSON export: hf-emotion label --merge EXPORT.json --output labelled.csv")
    elif labels:
        say(f"fill in 0 or 1 for each label (? if you cannot tell), or: hf-emotion label {output}{column}")
    else:
        say(
            f"fill in `label` (joy|anger for two, none if no label fits, ? if you cannot tell), or: hf-emotion label {output}{column}"
        )
        say(
            f"labels: {', '.join(found.labels)}"
            if found.labels
            else "labels: yours (`label` takes --labels or --model)"
        )
