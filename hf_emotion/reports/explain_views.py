# SPDX-License-Identifier: Apache-2.0
"""Shows explanations in a terminal, as HTML or JSON. Purple is above 0, orange below; colour is never the only sign."""

from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..io.files import write_json, write_text
from ..io.names import visible
from ..runtime.attribution import Explanation, HeatMap
from .html_report import render


ABOVE, BELOW = (94, 60, 153), (230, 97, 1)  # of ColorBrewer's PuOr, which colour-blind people can tell apart


def write_explanation(explanation: Explanation, path: Path) -> None:
    """Write an explanation to a file: a page if its ending is .html, else JSON."""
    if path.suffix.lower() == ".html":
        write_text(path, to_html(explanation))
    else:
        write_json(path, explanation.to_dict())


def _number(heat: HeatMap):
    """A function that formats values: the largest value gets at least two significant digits; a rounded 0 has no minus."""
    digits = int(np.clip(1 - np.floor(np.log10(heat.largest)), 2 if heat.largest < 10 else 1, 4))
    sign = "+" if heat.signed else ""
    return lambda value: format(value, f"{sign}z.{digits}f")


def _row_name(heat: HeatMap, row: int) -> str:
    return heat.rows[row] if heat.scores is None else f"{heat.rows[row]} {heat.scores[row]:.2f}"


def _subtitle(heat: HeatMap) -> str:
    scores = "" if heat.score_name is None else f", with its {heat.score_name}"
    return f"{heat.unit} (row: {heat.axes[0]}{scores}; column: {heat.axes[1]})"


def print_explanation(explanation: Explanation, console: Console) -> None:
    """Print each row as its words, with its value after each word; the background shows the value, too."""
    for heat in explanation.maps:
        console.print(Text(visible(heat.title), style="bold"))
        console.print(Text(visible(_subtitle(heat))))
        number = _number(heat)
        table = Table(show_header=False, pad_edge=False, show_lines=True)
        table.add_column(ratio=1, overflow="fold")
        table.add_column(ratio=4, overflow="fold")
        for row in range(len(heat.rows)):
            words = Text()
            for word, value in zip(heat.columns, heat.values[row], strict=True):
                words.append(visible(word), style=_background(value / heat.largest))
                # no blank, so that no line breaks between word and value
                words.append(f":{number(value)}  ", style="dim")
            table.add_row(Text(visible(_row_name(heat, row))), words)
        console.print(table)
    for note in explanation.notes:
        console.print(Text(visible(f"- {note}")))
    console.print(Text(f"{explanation.method}, {explanation.seconds:.2f} s"))


def _background(share: float) -> str:
    if abs(share) < 0.05:
        return ""
    colour = ABOVE if share > 0 else BELOW
    red, green, blue = (round(255 + (part - 255) * 0.7 * abs(share)) for part in colour)
    return f"black on rgb({red},{green},{blue})"


def to_html(explanation: Explanation) -> str:
    """A page without scripts and without links to other files. Words with a negative value are underlined twice."""
    return render(
        "explanation.html",
        explanation=explanation,
        title=f"{Path(explanation.checkpoint).name or explanation.model_type}: {explanation.method}",
        subtitle=_subtitle,
        number_of=_number,
        row_name=_row_name,
    )
