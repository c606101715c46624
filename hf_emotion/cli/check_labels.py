# SPDX-License-Identifier: Apache-2.0
"""`hf-emotion check-labels`."""

from pathlib import Path
from typing import Annotated

import typer

from ..io.paths import refuse_existing
from .options import AsJson, DataDir, LoaderOption, Split, checked
from .printing import print_json, print_table, quiet, say
from .reading import read_options


def check_labels(
    checkpoint: Annotated[str, typer.Argument(help="Encoder: run, ready model, minilm or Hub id.", callback=checked)],
    dataset: Annotated[str, typer.Option(help="Corpus, as in `evaluate`.")],
    split: Split = "train",
    data_dir: DataDir = None,
    folds: Annotated[
        int, typer.Option(min=2, help="Number of parts; each is judged by a classifier trained on the others.")
    ] = 5,
    output: Annotated[Path, typer.Option("--output", "-o", help="New folder: page and CSV.")] = Path("label_errors"),
    option: LoaderOption = None,
    as_json: AsJson = False,
) -> None:
    """Find the rows whose labels are probably wrong (extra `cleanlab`), judged by classifiers that were fitted without them."""
    refuse_existing(output)
    quiet()
    from ..reports.label_errors import CSV, PAGE
    from ..reports.label_errors import check_labels as run

    result = run(checkpoint, dataset, data_dir, split, folds, output, read_options(option), progress=True)
    if as_json:
        print_json(result)
        return
    pairs = [
        [pair["given"] or "no label", pair["suggested"] or "no label", str(pair["rows"])]
        for pair in result["pairs"][:10]
    ]
    if pairs:
        print_table([f"{dataset} {split}: given", "suggested", "rows"], pairs)
    say(
        f"{result['flagged']} of {result['rows']} rows are probably wrong; {folds} folds, encoder {result['encoder']} and TF-IDF; "
        f"their most probable label is among the given ones in {result['accuracy']:.1%} of the rows"
    )
    say(f"\nrows: {output / CSV}\npage: {output / PAGE}")
