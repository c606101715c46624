# SPDX-License-Identifier: Apache-2.0
"""The page of a summary, with plots as inline SVG (extra `plots`) that are read on light and dark pages, on a desk and on a phone."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from markupsafe import Markup

from ..io.extras import require
from .classification import drawn
from .figures import to_svg
from .html_report import render
from .summarize import LARGE_DRIFT, Summary


INK = "#010203"  # becomes the colour of the page's text
COLOURS = ("#2f86cf", "#d9782d", "#3d9970", "#a05fb4")
DASHES = ("-", "--", "-.", ":")
PANELS, GROUPS_DRAWN, ROWS_SHOWN = 9, 14, 150
STYLE = {
    **{f"{name}.color": INK for name in ("text", "xtick", "ytick", "grid")},
    **{"axes.labelcolor": INK, "axes.edgecolor": INK, "font.size": 10, "font.family": "sans-serif"},
    **{
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.alpha": 0.2,
    },
    **{"figure.facecolor": "none", "axes.facecolor": "none", "savefig.facecolor": "none"},
}


def page(summary: Summary, title: str = "What the texts say") -> str:
    """The HTML text; everything that comes from the data is escaped."""
    require("matplotlib", "the page of a summary", "plots")
    return render(
        "summary.html",
        title=title,
        summary=summary,
        charts=_charts(summary),
        rows=sorted(summary.shares, key=lambda one: (one["share"] != one["share"], -one["share"]))[:ROWS_SHOWN],
        large_drift=LARGE_DRIFT,
        legend=list(zip(_groups(summary), COLOURS, strict=False)) if summary.time and summary.by else [],
    )


def _groups(summary: Summary) -> list[str]:
    """The groups, the largest first."""
    return list(dict.fromkeys(one["group"] for one in summary.shares))


def _charts(summary: Summary) -> list[tuple[str, Markup]]:
    """(title, SVG) of each panel: all labels in one, or one label in each, over groups or time."""
    if not summary.by and not summary.time:
        rows = sorted(summary.shares, key=lambda one: one["share"])
        return [
            ("", _svg("shares of the labels", partial(_dots, rows=rows, name="label"), 0.26 * len(rows) + 0.7, 5.6))
        ]

    def weight(label: str) -> float:
        """How clearly a label differs, or else how frequent it is."""
        tests = [one for one in summary.differences if one["label"] == label]
        if tests:
            return max(10 * (1 - one["p_holm"]) + abs(np.nan_to_num(one["difference"])) for one in tests)
        return float(np.nansum([one["share"] for one in summary.shares if one["label"] == label]))

    labels = sorted(summary.labels, key=weight, reverse=True)[:PANELS]
    charts = []
    for label in labels:
        own = [one for one in summary.shares if one["label"] == label]
        draw: Callable[[Any], None] = partial(_lines, rows=own, summary=summary)
        height = 2.5
        if not summary.time:
            largest = _groups(summary)[:GROUPS_DRAWN]
            rows = sorted((one for one in own if one["group"] in largest), key=lambda one: one["share"])
            draw, height = partial(_dots, rows=rows, name="group"), 0.26 * len(rows) + 0.7
        charts.append((label, _svg(label, draw, height)))
    return charts


def _svg(name: str, draw: Callable[[Any], None], height: float, width: float = 3.9) -> Markup:
    """A drawing, in inches, as SVG text."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        draw(figure.subplots())
        text = to_svg(figure)
    # Safe: matplotlib escapes what it writes. A page scales it by its `viewBox`.
    text = text[text.index("<svg") + 4 :].replace(INK, "currentColor").replace("'sans-serif'", "system-ui, sans-serif")
    return Markup('<svg role="img" aria-label="{}"').format(name) + Markup(text)


def _dots(axes: Any, rows: Sequence[dict[str, Any]], name: str) -> None:
    """A share with its interval in each line, and the plain count as a ring."""
    for y, one in enumerate(rows):
        axes.plot(
            [100 * one["low"], 100 * one["high"]],
            [y, y],
            color=COLOURS[0],
            linewidth=2.2,
            solid_capstyle="round",
            alpha=0.6,
        )
        axes.plot(100 * one["share"], y, "o", color=COLOURS[0], markersize=6)
        axes.plot(100 * one["plain"], y, "o", markerfacecolor="none", markeredgecolor=INK, markersize=5, alpha=0.7)
    axes.set_yticks(range(len(rows)), [drawn(one[name]) for one in rows])
    axes.set(xlabel="% of the texts", ylim=(-0.6, len(rows) - 0.4))
    axes.set_xlim(left=0)
    axes.grid(axis="y", alpha=0)


def _lines(axes: Any, rows: Sequence[dict[str, Any]], summary: Summary) -> None:
    """Shares over the periods, a line for each of the largest groups."""
    periods = sorted({one["period"] for one in summary.shares})
    for group, colour, dashes in zip(_groups(summary), COLOURS, DASHES, strict=False):
        own = sorted((one for one in rows if one["group"] == group), key=lambda one: one["period"])
        x = [periods.index(one["period"]) for one in own]
        low, share, high = ([100 * one[key] for one in own] for key in ("low", "share", "high"))
        axes.fill_between(x, low, high, color=colour, alpha=0.22, linewidth=0)
        axes.plot(x, share, dashes, color=colour, marker="o", markersize=3.5, linewidth=1.8)
    step = -(-len(periods) // 4)
    axes.set_xticks(range(0, len(periods), step), periods[::step], fontsize=8)
    axes.set(ylabel="% of the texts")
    axes.set_ylim(bottom=0)
