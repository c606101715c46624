# SPDX-License-Identifier: Apache-2.0
"""`hf-emotion faithfulness`."""

from typing import Annotated

import typer

from .options import AsJson, DataDir, LoaderOption, Split, checked
from .printing import figure_or_dash, print_json, print_table, quiet, say
from .reading import read_options


def faithfulness(
    checkpoint: Annotated[str, typer.Argument(help="Run folder or Hub id of a text classifier.", callback=checked)],
    dataset: Annotated[str, typer.Option(help="Corpus, as in `evaluate`.")],
    split: Split = "test",
    data_dir: DataDir = None,
    rows: Annotated[int, typer.Option(min=1, help="Size of the random sample.")] = 100,
    method: Annotated[list[str] | None, typer.Option(help="Method of `explain`, repeatable; default: all.")] = None,
    seed: Annotated[int, typer.Option(help="Random seed for the sample and the random rankings.")] = 0,
    option: LoaderOption = None,
    as_json: AsJson = False,
) -> None:
    """Measure how faithful the methods of `explain` are: comprehensiveness and sufficiency (ERASER), against random rankings."""
    quiet()
    from ..reports.faithfulness import faithfulness as run
    from ..runtime.names import METHODS

    options = read_options(option)
    result = run(
        checkpoint, dataset, data_dir, split, rows, method or METHODS, seed=seed, options=options, progress=True
    )
    if as_json:
        print_json(result)
        return
    table = []
    for name, values in result["methods"].items():
        cells = [
            f"{mean:+.4f} ({figure_or_dash(error, '.4f')})"
            for mean, error in (
                (values["comprehensiveness"], values["comprehensiveness_std_error"]),
                (values["sufficiency"], values["sufficiency_std_error"]),
            )
        ]
        table.append([name, *cells, f"{values['above_random']:.0%}" if "above_random" in values else ""])
    title = f"{dataset} {split} ({result['rows']} texts)"
    print_table([title, "comprehensiveness ↑ (SE)", "sufficiency ↓ (SE)", "above random"], table)
    shares = ", ".join(f"{share:.0%}" for share in result["bins"])
    say(f"means over rationales of {shares} of the words; random: {result['random_rankings']} rankings for each text")
