# SPDX-License-Identifier: Apache-2.0
"""`hf-emotion human-eval`."""

from pathlib import Path
from typing import Annotated

import typer

from .options import AsJson
from .printing import figure_or_dash, print_json, print_table


app = typer.Typer(
    help="Human evaluation of replies: blinded rating sheets out, ratings in.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command()
def export(
    replies: Annotated[
        list[Path],
        typer.Argument(
            help="JSONL files with context, emotion and reply, one per source, with the same rows in each. The file's name names the source."
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="New or empty folder.")],
    raters: Annotated[int, typer.Option(min=1, help="Number of raters.")],
    seed: Annotated[int, typer.Option(help="Random seed for the ids and for each rater's order.")] = 0,
) -> None:
    """Write a blinded sheet for each rater (CSV, and HTML to print), and the key that tells the sources."""
    from ..study.human_eval import KEY, export_sheets, read_replies

    sheets = export_sheets(*read_replies(replies), output, raters, seed)
    print(f"{len(sheets)} sheets written to {sheets[0].parent}; keep {output / KEY} from the raters")


@app.command()
def analyze(
    folder: Annotated[Path, typer.Argument(help="The folder that `export` wrote, with the sheets filled in.")],
    as_json: AsJson = False,
) -> None:
    """Analyze the ratings: mean ± standard error per source, Cronbach's alpha, repeated-measures ANOVA and paired tests."""
    from ..study.human_eval import HIGHEST, LOWEST, analyze_ratings

    result = analyze_ratings(folder)
    if as_json:
        print_json(result)
        return
    items = list(next(iter(result["sources"].values())))
    print(f"{result['raters']} raters, {result['replies']} replies; {LOWEST} = worst, {HIGHEST} = best; mean (SE)")
    print_table(
        ["source", *items],
        [
            [source, *(f"{values[item]['mean']:.2f} ({figure_or_dash(values[item]['se'], '.2f')})" for item in items)]
            for source, values in result["sources"].items()
        ],
    )
    print(f"Cronbach's alpha of the readability items: {figure_or_dash(result['cronbach_alpha'], '.2f')}")
    for measure, test in result["anova"].items():
        print(
            f"ANOVA of {measure}: F({test['df_sources']}, {test['df_error']}) = {figure_or_dash(test['f'], '.2f')}, "
            f"p = {figure_or_dash(test['p_value'], '.3g')}"
        )
    print_table(
        ["measure", "first", "second", "difference", "t", "df", "p", "p (Holm)"],
        [
            [
                *(
                    test["measure"],
                    test["first"],
                    test["second"],
                    f"{test['difference']:+.2f}",
                    figure_or_dash(test["t"], ".2f"),
                ),
                *(
                    str(test["df"]),
                    figure_or_dash(test["p_value"], ".3g"),
                    figure_or_dash(test["p_value_holm"], ".3g"),
                ),
            ]
            for test in result["post_hoc"]
        ],
    )
