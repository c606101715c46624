# SPDX-License-Identifier: Apache-2.0
"""`hf-emotion label`."""

from pathlib import Path
from typing import Annotated

import typer

from .options import InputEncoding, NoBrowser, Overwrite, TextColumn, checked
from .printing import figure_or_dash, print_table, say
from .sample import names_in, refuse


def label(
    files: Annotated[
        list[Path], typer.Argument(exists=True, dir_okay=False, help="Table from `sample`; with --merge, several.")
    ],
    text_column: TextColumn = None,
    labels: Annotated[
        str | None, typer.Option(help="Labels to choose from: joy,anger. Default: those that the table names.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="Take the labels of this model.")] = None,
    single: Annotated[
        bool, typer.Option("--single", help="One label for each text. Default: several, unless the --model gives one.")
    ] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the page; 0: any that is free.")] = 0,
    no_browser: NoBrowser = False,
    merge: Annotated[
        bool, typer.Option("--merge", help="Make one table of several people's, or of a JSON export of Label Studio.")
    ] = False,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="With --merge: the table to write.")] = None,
    overwrite: Overwrite = False,
    encoding: InputEncoding = None,
) -> None:
    """
    Label the texts of a table in the browser, by keyboard. Every answer is saved at once, and the same command goes on later. Only this
    machine can open the page. --merge keeps the answers that people agree on, and prints Krippendorff's alpha.
    """
    if merge != (output is not None) or (len(files) > 1 and not merge) or (labels is not None and model is not None):
        raise typer.BadParameter(
            "give --merge and --output together, and always for several files; give --labels or --model, not both."
        )
    names = names_in(labels)
    if model is not None:
        from ..serving.labelling import labels_of_model

        names, several = labels_of_model(checked(model))
        single = single or not several
    if output is not None:
        _merge(files, output, names, overwrite, encoding)
        return
    import webbrowser

    from ..serving.label_page import LabelServer, run
    from ..serving.labelling import Table
    from ..serving.sampling import TEXTS

    table = Table.read(files[0], names, encoding, [] if text_column is None else [text_column])
    if not table.form.labels:
        raise ValueError(
            "the table names no labels: give --labels joy,anger, or the model to measure, --model goemotions."
        )
    column = text_column or next((name for name in TEXTS if name in table.columns), None)
    if column is None:
        raise ValueError(f"name the column of the texts (--text-column); the columns are {table.columns}.")
    if single and any(isinstance(answer, list) and len(answer) > 1 for answer in table.answers):
        raise ValueError(f"{files[0]} has rows with several labels: leave --single out, or correct them.")
    try:
        run(LabelServer(table, column, not single, port), None if no_browser else webbrowser.open)
    finally:
        say(f"{table.done:,} of {len(table.rows):,} texts are labelled in {files[0]}")


def _merge(files: list[Path], output: Path, names: list[str] | None, overwrite: bool, encoding: str | None) -> None:
    from ..serving.labelling import merge

    refuse(output, (".csv", ".tsv", ".xlsx"), files, overwrite)
    found = merge(files, output, names, encoding)
    per_label = found.get("per_label", {})
    if per_label:
        cells = [[name, figure_or_dash(value, ".2f")] for name, value in per_label.items()]
        print_table(["label", "Krippendorff's alpha"], cells)
    if found["compared"]:
        alpha = figure_or_dash(found["alpha"], ".2f") + (", the mean over the labels" if per_label else "")
        say(
            f"Krippendorff's alpha {alpha}; {found['unanimous']:.0%} of {found['compared']:,} texts have the same answer"
        )
    say(f"{found['labelled']:,} of {found['rows']:,} texts are labelled in {output}")
    if found["differing"]:
        say(f"{found['differing']:,} differ and are empty: decide them together, hf-emotion label {output}")
