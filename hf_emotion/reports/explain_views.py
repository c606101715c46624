# SPDX-License-Identifier: Apache-2.0
"""Shows explanations in a terminal, as PNG, HTML or JSON. Purple is above 0, orange below; colour is never the only sign."""

import importlib.util
import textwrap
import unicodedata
from html import escape
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..io.files import replacing, write_json, write_text
from ..runtime.attribution import Explanation, HeatMap
from .classification import save_figure


ABOVE, BELOW = (
    (94, 60, 153),
    (230, 97, 1),
)  # the colours of ColorBrewer's PuOr, which colour-blind people can tell apart
COLUMNS_AT_ONCE = 24  # columns of a map in one part of a picture
LONGEST_NAME = 40


def write_explanation(explanation: Explanation, path: Path) -> None:
    """
    Write an explanation to a file; its ending, .png, .html or .json, gives the format.

    Raises:
        ModuleNotFoundError: a PNG needs matplotlib, which is not installed.
        ValueError: the path has another ending.
    """
    kind = path.suffix.lower()
    if kind not in (".png", ".html", ".json"):
        raise ValueError(f"`path` must end in .png, .html or .json, got {path}.")
    if kind == ".png":
        _write_png(explanation, path)
    elif kind == ".html":
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


def _title(explanation: Explanation) -> str:
    """The model and the method; of a path only the last part."""
    return f"{Path(explanation.checkpoint).name or explanation.model_type}: {explanation.method}"


def _subtitle(heat: HeatMap) -> str:
    scores = "" if heat.score_name is None else f", with its {heat.score_name}"
    return f"{heat.unit} (row: {heat.axes[0]}{scores}; column: {heat.axes[1]})"


def print_explanation(explanation: Explanation, console: Console) -> None:
    """
    Print each row as its words, with a colon and its value after each word; the background shows the value too if there are
    colours.
    """
    for heat in explanation.maps:
        console.print(Text(heat.title, style="bold"))
        console.print(Text(_subtitle(heat)))
        number = _number(heat)
        table = Table(show_header=False, pad_edge=False, show_lines=True)
        table.add_column(ratio=1, overflow="fold")
        table.add_column(ratio=4, overflow="fold")
        for row in range(len(heat.rows)):
            words = Text()
            for word, value in zip(heat.columns, heat.values[row], strict=True):
                words.append(word, style=_background(value / heat.largest))
                # no blank, so that no line breaks between word and value
                words.append(f":{number(value)}  ", style="dim")
            table.add_row(Text(_row_name(heat, row)), words)
        console.print(table)
    for note in explanation.notes:
        console.print(Text(f"- {note}"))
    console.print(Text(f"{explanation.method}, {explanation.seconds:.2f} s"))


def _background(share: float) -> str:
    if abs(share) < 0.05:
        return ""
    colour = ABOVE if share > 0 else BELOW
    red, green, blue = (round(255 + (part - 255) * 0.7 * abs(share)) for part in colour)
    return f"black on rgb({red},{green},{blue})"


STYLE = """
:root { color-scheme: light dark; --ink: #1b1b1f; --paper: #ffffff; --line: #c9c9d2; --soft: #5b5b66;
  --above: 94,60,153; --below: 230,97,1; }
@media (prefers-color-scheme: dark) { :root { --ink: #f1f1f4; --paper: #17171b; --line: #44444e; --soft: #b3b3bf;
  --above: 154,120,226; } }
body { margin: 0 auto; padding: 1rem; max-width: 60rem; color: var(--ink); background: var(--paper);
  font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.3rem; }
pre { white-space: pre-wrap; font: inherit; border-left: 3px solid var(--line); padding-left: .6rem; }
h2 { font-size: 1.1rem; margin: 2rem 0 0; }
p.unit, footer { color: var(--soft); font-size: .9rem; margin: .2rem 0; }
dl { margin: .5rem 0; overflow-wrap: anywhere; } dt { font-weight: 600; padding-top: .5rem; border-top: 1px solid var(--line); }
dd { margin: 0 0 .6rem; }
.word { display: inline-block; margin: .1rem; padding: 0 .3rem; border-radius: .3rem; text-align: center; vertical-align: top; }
.word small { display: block; font-size: .72rem; line-height: 1.2; font-variant-numeric: tabular-nums; }
.below { border-bottom: 3px double currentColor; }
"""


def to_html(explanation: Explanation) -> str:
    """A page without scripts and without links to other files. Words with a negative value are underlined twice."""
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
        f"<title>{escape(_title(explanation))}: {escape(explanation.text[:80])}</title><style>{STYLE}</style></head><body>",
        f"<h1>{escape(_title(explanation))}</h1><pre>{escape(explanation.text)}</pre>",
    ]
    for heat in explanation.maps:
        number = _number(heat)
        parts.append(f'<h2>{escape(heat.title)}</h2><p class="unit">{escape(_subtitle(heat))}</p><dl>')
        for row in range(len(heat.rows)):
            words = "".join(
                _word(column, value / heat.largest, number(value))
                for column, value in zip(heat.columns, heat.values[row], strict=True)
            )
            parts.append(f"<dt>{escape(_row_name(heat, row))}</dt><dd>{words}</dd>")
        parts.append("</dl>")
    notes = "".join(f"<li>{escape(note)}</li>" for note in explanation.notes)
    signed = any(heat.signed for heat in explanation.maps)
    legend = "<li>purple: above 0; orange and underlined twice: below 0</li>" if signed else ""
    parts += [
        f"<footer><ul>{notes}{legend}</ul><p>{escape(explanation.checkpoint)} ({escape(explanation.model_type)}), "
        f"{explanation.seconds:.2f} s</p></footer>",
        "</body></html>\n",
    ]
    return "\n".join(parts)


def _word(word: str, share: float, value: str) -> str:
    # At most 0.6 opaque: black ink on it in light mode and white ink in dark mode keep a contrast above 4.5.
    background = f"rgba(var(--{'above' if share > 0 else 'below'}),{0.6 * abs(share):.2f})"
    kind = "word below" if value.startswith("-") else "word"
    return f'<span class="{kind}" style="background:{background}">{escape(word)}<small>{value}</small></span> '


def _write_png(explanation: Explanation, path: Path) -> None:
    if importlib.util.find_spec("matplotlib") is None:
        raise ModuleNotFoundError("a PNG needs matplotlib: pip install 'hf-emotion[plots]'; --format html does not.")
    from matplotlib.figure import Figure  # without pyplot: no window system, no global state

    # A map of a long text is drawn in several parts, one below the other.
    parts = [
        (heat, start, min(start + COLUMNS_AT_ONCE, len(heat.columns)))
        for heat in explanation.maps
        for start in range(0, len(heat.columns), COLUMNS_AT_ONCE)
    ]
    widest = max(end - start for _, start, end in parts)
    names = max(len(_drawn(_row_name(heat, row))) for heat, _, _ in parts for row in range(len(heat.rows)))
    heights = [0.38 * len(heat.rows) + 1.9 for heat, _, _ in parts]
    width = max(7.0, 0.55 * widest + 0.085 * names + 2.2)
    figure = Figure(figsize=(width, sum(heights) + 0.6), layout="constrained")
    axes = figure.subplots(len(parts), 1, squeeze=False, height_ratios=heights)[:, 0]
    figure.suptitle(_drawn(f"{_title(explanation)} ({explanation.model_type})", 100), fontsize=10)
    for axis, (heat, start, end) in zip(axes, parts, strict=True):
        _draw(figure, axis, heat, start, end)
    with replacing(path) as temporary:
        save_figure(figure, temporary, dpi=130, format="png")


def _draw(figure, axes, heat: HeatMap, start: int, end: int) -> None:
    from matplotlib.patches import Rectangle

    values, number = heat.values[:, start:end], _number(heat)
    # Only the lighter purples, as in the half of PuOr above 0.
    low = -heat.largest if heat.signed else 0
    image = axes.imshow(
        values,
        cmap="PuOr" if heat.signed else "Purples",
        vmin=low,
        vmax=heat.largest,
        aspect="auto",
        interpolation="nearest",
    )
    bar = figure.colorbar(image, ax=axes, fraction=0.05, pad=0.01)
    bar.set_label(_drawn(heat.unit, 36, lines=4), fontsize=8)
    bar.ax.tick_params(labelsize=8)
    for row, line in enumerate(values):
        for column, value in enumerate(line):
            dark = abs(value) > 0.6 * heat.largest
            text = number(value)
            if text.startswith("-"):
                edge = "white" if dark else "dimgray"
                axes.add_patch(
                    Rectangle(
                        (column - 0.5, row - 0.5),
                        1,
                        1,
                        fill=False,
                        hatch="///",
                        edgecolor=edge,
                        linewidth=0,
                        alpha=0.5,
                    )
                )
            axes.text(
                *(column, row, text.replace("-", "−")),
                **{"ha": "center", "va": "center", "fontsize": 7, "color": "white" if dark else "black"},
            )
    part = "" if len(heat.columns) <= COLUMNS_AT_ONCE else f" ({start + 1} to {end} of {len(heat.columns)})"
    axes.set_title(_drawn(f"{heat.title}{part}", 100), fontsize=9, loc="left")
    axes.set_xlabel(heat.axes[1], fontsize=8)
    axes.set_ylabel(heat.axes[0] if heat.score_name is None else f"{heat.axes[0]}, {heat.score_name}", fontsize=8)
    axes.set_xticks(
        range(end - start),
        [_drawn(name, 16) for name in heat.columns[start:end]],
        rotation=60,
        ha="right",
        rotation_mode="anchor",
        fontsize=8,
    )
    axes.set_yticks(range(len(heat.rows)), [_drawn(_row_name(heat, row)) for row in range(len(heat.rows))], fontsize=8)


def _drawn(text: str, longest: int = LONGEST_NAME, lines: int = 1) -> str:
    """Text for a picture, shortened: `$` starts no formula, and an emoji becomes its name, because the font has few emojis."""
    text = "".join(
        unicodedata.name(letter, letter).lower() if unicodedata.category(letter) == "So" else letter for letter in text
    )
    if lines > 1:
        text = "\n".join(textwrap.wrap(text, longest, max_lines=lines, placeholder=" …"))
    elif len(text) > longest:
        text = text[: longest - 1] + "…"
    return text.replace("$", r"\$")
