# SPDX-License-Identifier: Apache-2.0
"""`hf-emotion sample`."""

from pathlib import Path
from typing import Annotated

import typer

from .printing import say


Labels = Annotated[str | None, typer.Option(help="Labels, separated by commas: joy,anger.")]


def names_in(labels: str | None) -> list[str] | None:
    """The names in `--labels`."""
    return None if labels is None else [name.strip() for name in labels.split(",")]


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
        bool, typer.Option("--show-predictions", help="Keep the model's columns. Who sees its answers tends to agree.")
    ] = False,
    prefix: Annotated[str, typer.Option(help="--prefix of the prediction.")] = "",
    encoding: Annotated[
        str | None, typer.Option(help="Encoding of text files, such as cp1252; default: UTF-8.")
    ] = None,
    separator: Annotated[str | None, typer.Option(help="CSV separator. Default: detected from the header.")] = None,
    escape_formulas: Annotated[
        bool,
        typer.Option("--escape-formulas", help="Put an apostrophe before cells of the CSV that look like formulas."),
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an output that exists.")] = False,
) -> None:
    """Draw rows at random for people to label: a table to fill in, in a spreadsheet or with `label`."""
    from ..io.paths import refuse_existing
    from ..serving.sampling import sample as run

    if output.resolve() == Path(file).resolve():
        raise typer.BadParameter(f"{output} is the input: give the output another name.")
    for path in (output, *([output.with_suffix(".xml")] if output.suffix == ".json" else [])):
        if path.is_dir() or not overwrite:
            refuse_existing(path, "--overwrite")
    options = (seed, text_column, show_predictions, prefix, encoding, separator, escape_formulas)
    found = run(file, output, rows, tuple(dict.fromkeys(by or ())), names_in(labels), *options)
    drawn, total = sum(found.drawn.values()), sum(found.rows.values())
    say(
        f"{drawn:,} of {total:,} rows written to {output}"
        + f"; {found.left_out:,} have no prediction" * bool(found.left_out)
    )
    if by:
        each = [f"{group} {own:,} of {found.rows[group]:,}" for group, own in found.drawn.items()]
        say(f"{' / '.join(by)}: {', '.join(each[:10])}" + f" and {len(each) - 10:,} more" * (len(each) > 10))
    if output.suffix == ".json":
        say(
            f"import it into Label Studio, with the labelling interface in {output.with_suffix('.xml')}; then: hf-emotion label --merge EXPORT.json -o labelled.csv"
        )
        return
    say(
        f"fill it in: hf-emotion label {output}{f' --text-column {text_column}' if text_column else ''}, or in a spreadsheet:"
    )
    if labels:
        say("0 or 1 in each column of a label, ? if you cannot tell")
    else:
        say(
            f"`label`: {', '.join(found.labels) or 'a label'}; | stands between several, `none` if no label fits, ? if you cannot tell"
        )
