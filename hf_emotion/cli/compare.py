# SPDX-License-Identifier: Apache-2.0
"""`hf-emotion compare`."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from .options import AllFigures, AsJson
from .printing import print_json, print_table, say


def compare(
    runs: Annotated[list[Path], typer.Argument(help="Run folders of one corpus; the first is the baseline.")],
    split: Annotated[Literal["validation", "test"] | None, typer.Option(help="Default: test, if all have it.")] = None,
    all_figures: AllFigures = False,
    as_json: AsJson = False,
) -> None:
    """Print a table of runs (mean ± std over their seeds), and test each run against the first."""
    from ..reports.compare import compare as run

    result = run(runs, split, all_figures or as_json)
    if as_json:
        print_json(result)
        return
    metrics = [name.replace(" (", "\n(") for name in result["metrics"]]
    print_table(["run", "encoder", "seeds", *metrics], result["table"])
    for note in result["notes"]:
        say(f"note: {note}")
    for number, row in enumerate(result["tests"]):
        p_value = f"= {row['p_value']:.3f}" if row["p_value"] >= 0.001 else "< 0.001"
        line = (
            f"{row['second']} vs {row['first']} ({row['title']}): macro-F1 difference {row['difference']:+.4f}, 95 % interval "
            f"[{row['low']:+.4f}, {row['high']:+.4f}], bootstrap p {p_value}"
        )
        if row["mcnemar_p_value"] is not None:
            line += (
                f"; rows fully right in only one run: {row['only_second']} vs {row['only_first']}, McNemar p = "
                f"{row['mcnemar_p_value']:.3g}"
            )
        say(line)
        following = result["tests"][number + 1 : number + 2]
        if not following or following[0]["second"] != row["second"]:
            say(f"  tested: {row['tested']}")
