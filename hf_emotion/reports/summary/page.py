# SPDX-License-Identifier: Apache-2.0
"""The page of a summary, with plots as inline SVG (extra `plots`) that are read on light and dark pages, on a desk and on a phone."""

import re
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup

from ...io.extras import require
from ..classification import drawn
from ..figures import to_svg
from ..html_report import render


if TYPE_CHECKING:
    from . import Summary

LARGE_DRIFT = 0.25  # of the population stability index
INK = "#010203"  # becomes the colour of the page's text
TAG = re.compile("<[^>]+>")
COLOURS = ("#2f86cf", "#d9782d", "#3d9970", "#a05fb4")
DASHES = ("-", "--", "-.", ":")
PANELS, GROUPS_DRAWN, ROWS_SHOWN = 9, 14, 150
STYLE: dict[str, Any] = {
    **dict.fromkeys(
        ("text.color", "xtick.color", "ytick.color", "grid.color", "axes.labelcolor", "axes.edgecolor"), INK
    ),
    **dict.fromkeys(("figure.facecolor", "axes.facecolor", "savefig.facecolor"), "none"),
    **dict.fromkeys(("axes.spines.top", "axes.spines.right"), False),
    **{"axes.grid": True, "axes.axisbelow": True, "grid.alpha": 0.2, "font.size": 10, "font.family": "sans-serif"},
}


def page(summary: "Summary") -> str:
    """The HTML text; everything that comes from the data is escaped."""
    require("matplotlib", "the page of a summary", "plots")
    groups = list(dict.fromkeys(one["group"] for one in summary.shares))  # the largest first
    return render(
        "summary.html",
        title="What the texts say",
        summary=summary,
        charts=_charts(summary, groups),
        rows=summary.largest[:ROWS_SHOWN],
        overall=summary.together[:ROWS_SHOWN] if summary.time else [],
        large_drift=LARGE_DRIFT,
        colours=COLOURS,
        legend=list(zip(groups, COLOURS, strict=False)) if summary.time and summary.by else [],
    )


def _charts(summary: "Summary", groups: Sequence[str]) -> list[tuple[str, Markup]]:
    """(title, SVG) of each panel: all labels in one, or one label in each, over groups or time."""
    if not summary.by and not summary.time:
        rows = summary.largest[::-1]
        draw = partial(_dots, rows=rows, name="label", summary=summary)
        return [("", _svg(f"{summary.measure} of each label", draw, 0.26 * len(rows) + 0.7, 5.6))]

    def weight(label: str) -> tuple[float, float]:
        """How clearly a label differs, and how frequent it is."""
        tests = [one["p_holm"] for one in summary.differences if one["label"] == label]
        return -min(tests, default=1), float(
            np.nansum([one["share"] for one in summary.shares if one["label"] == label])
        )

    charts = []
    for label in sorted(summary.labels, key=weight, reverse=True)[:PANELS]:
        own = [one for one in summary.largest[::-1] if one["label"] == label]
        draw, height = partial(_lines, rows=own, groups=groups, summary=summary), 2.5
        if not summary.time:
            own = [one for one in own if one["group"] in groups[:GROUPS_DRAWN]]
            draw, height = partial(_dots, rows=own, name="group", summary=summary), 0.26 * len(own) + 0.7
        charts.append((label, _svg(label, draw, height)))
    return charts


def _svg(name: str, draw: Any, height: float, width: float = 3.9) -> Markup:
    """A drawing, in inches, as SVG text."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        draw(figure.subplots())
        text = to_svg(figure)
    # Safe: matplotlib escapes what it writes. A page scales it by its `viewBox`. Names stand between tags, and stay as they are.
    text = TAG.sub(
        lambda tag: tag[0].replace(INK, "currentColor").replace("'sans-serif'", "system-ui, sans-serif"), text
    )
    text = text[text.index("<svg") + 4 :]
    return Markup('<svg role="img" aria-label="{}"').format(name) + Markup(text)


def _scaled(summary: "Summary", rows: Sequence[Any], *names: str) -> list[list[float]]:
    """The columns of some rows, shares in percent."""
    return [[one[name] * (1 if summary.method == "mean" else 100) for one in rows] for name in names]


def _dots(axes: Any, rows: Sequence[Any], name: str, summary: "Summary") -> None:
    """A share with its interval in each line, and the plain count as a ring."""
    lines = range(len(rows))
    share, low, high = _scaled(summary, rows, "share", "low", "high")
    axes.hlines(lines, low, high, color=COLOURS[0], linewidth=2.2, alpha=0.6)
    axes.plot(share, lines, "o", color=COLOURS[0], markersize=6)
    if summary.corrected:
        (plain,) = _scaled(summary, rows, "plain")
        axes.plot(plain, lines, "o", markerfacecolor="none", markeredgecolor=INK, markersize=5, alpha=0.7)
    axes.set_yticks(lines, [drawn(one[name]) for one in rows])
    axes.set(xlabel=_axis(summary), ylim=(-0.6, len(rows) - 0.4))
    axes.grid(axis="y", alpha=0)
    if summary.method != "mean":
        axes.set_xlim(left=0)


def _lines(axes: Any, rows: Sequence[Any], groups: Sequence[str], summary: "Summary") -> None:
    """Shares over the periods, a line for each of the largest groups."""
    periods = sorted({one["period"] for one in summary.shares})
    for group, colour, dashes in zip(groups, COLOURS, DASHES, strict=False):
        own = sorted((one for one in rows if one["group"] == group), key=lambda one: one["period"])
        x = [periods.index(one["period"]) for one in own]
        low, share, high = _scaled(summary, own, "low", "share", "high")
        axes.fill_between(x, low, high, color=colour, alpha=0.22, linewidth=0)
        axes.plot(x, share, dashes, color=colour, marker="o", markersize=3.5, linewidth=1.8)
    step = -(-len(periods) // 4)
    axes.set_xticks(range(0, len(periods), step), periods[::step], fontsize=8)
    axes.set(ylabel=_axis(summary))
    if summary.method != "mean":
        axes.set_ylim(bottom=0)


def _axis(summary: "Summary") -> str:
    return "mean value" if summary.method == "mean" else "% of the texts"
