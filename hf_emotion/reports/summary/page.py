# SPDX-License-Identifier: Apache-2.0
"""The page of a summary, with plots as inline SVG (extra `plots`) that are read on light and dark pages, on a desk and on a phone."""

import re
from collections.abc import Sequence
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup

from ...io.extras import require
from ...io.files import replacing
from ..figures import drawn, save_figure, to_svg
from ..html_report import render
from .wording import day, p_value


if TYPE_CHECKING:
    from . import Summary

LARGE_DRIFT = 0.25  # of the population stability index
INK = "#010203"  # becomes the colour of the page's text
TAG = re.compile("<[^>]+>")
OPTIONS = re.compile(r" \([^()]*--[^()]*\)")  # for those who run the command, not for readers of the page
COLOURS = ("#2f86cf",)
PANELS, GROUPS_DRAWN, ROWS_SHOWN = 9, 14, 150
FACETS = 4  # charts of groups side by side
WIDE = 4.4  # inches of a chart with a line for each label or group: its letters can be read on a phone
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
        title=summary.title or "What the texts say",
        summary=summary,
        dates=_dates(summary),
        notes=[OPTIONS.sub("", note).replace("`", "") for note in summary.notes],
        p_value=p_value,
        charts=[(name, _svg(name or summary.measure, *drawing)) for name, *drawing in _charts(summary, groups)],
        facets=bool(summary.time and summary.by),
        rows=summary.largest[:ROWS_SHOWN],
        overall=summary.together[:ROWS_SHOWN] if summary.time else [],
        large_drift=LARGE_DRIFT,
        colours=COLOURS,
    )


def write_charts(summary: "Summary", folder: Path, kind: str) -> list[Path]:
    """Write the page's charts, PNG or SVG, into a folder, and give their paths."""
    import matplotlib

    groups = list(dict.fromkeys(one["group"] for one in summary.shares))
    folder.mkdir(parents=True, exist_ok=True)
    paths: list[Path] = []
    for number, (name, draw, height, width) in enumerate(_charts(summary, groups), 1):
        safe = re.sub(r"[^\w-]+", "_", name)[:60] or "labels"
        paths.append(folder / f"{number:02d}_{safe}.{kind}")
        plain = {key: "black" if value == INK else value for key, value in STYLE.items()}
        with matplotlib.rc_context(plain | {"figure.facecolor": "white", "savefig.facecolor": "white"}):
            figure = _figure(draw, height, width, drawn(name))
            with replacing(paths[-1]) as temporary:
                save_figure(figure, temporary, format=kind)
    return paths


def _dates(summary: "Summary") -> str:
    """From the first day to the last one."""
    return "" if summary.dates is None else " to ".join(dict.fromkeys(day(one, "day") for one in summary.dates))


def _charts(summary: "Summary", groups: Sequence[str]) -> list[tuple[str, Any, float, float]]:
    """(title, drawing, height, width in inches) of each chart: all labels in one, or one label in each, over groups or time."""
    if not summary.by and not summary.time:
        rows = summary.largest[::-1]
        draw = partial(_dots, rows=rows, name="label", summary=summary)
        return [("", draw, 0.26 * len(rows) + 0.7, WIDE)]

    def weight(label: str) -> tuple[float, float]:
        """How clearly a label differs, and how frequent it is."""
        tests = [one["p_holm"] for one in summary.differences if one["label"] == label]
        tests += [one["p_value"] for one in summary.changes if one["label"] == label]
        return -min(tests, default=1), float(
            np.nansum([one["share"] for one in summary.shares if one["label"] == label])
        )

    charts = []
    for label in sorted(summary.labels, key=weight, reverse=True)[:PANELS]:
        own = [one for one in summary.largest[::-1] if one["label"] == label]
        shown = groups[:GROUPS_DRAWN] if summary.by else groups
        draw, height, width = partial(_facets, rows=own, groups=shown, summary=summary), 2.5, 3.9
        if not summary.time:
            own = [one for one in own if one["group"] in groups[:GROUPS_DRAWN]]
            draw, height, width = partial(_dots, rows=own, name="group", summary=summary), 0.26 * len(own) + 0.7, WIDE
        elif summary.by:
            height, width = 0.5 + 1.6 * -(-len(shown) // FACETS), 1.9 * min(FACETS, len(shown)) + 0.6
        charts.append((label, draw, height, width))
    return charts


def _figure(draw: Any, height: float, width: float, title: str = "") -> Any:
    """A drawing, in inches."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    figure.suptitle(title)
    draw(figure)
    return figure


def _svg(name: str, draw: Any, height: float, width: float) -> Markup:
    """A drawing as SVG text."""
    import matplotlib

    with matplotlib.rc_context(STYLE):
        text = to_svg(_figure(draw, height, width))
    # Safe: matplotlib escapes what it writes. A page scales it by its `viewBox`. Names stand between tags, and stay as they are.
    text = TAG.sub(
        lambda tag: tag[0].replace(INK, "currentColor").replace("'sans-serif'", "system-ui, sans-serif"), text
    )
    text = text[text.index("<svg") + 4 :]
    return Markup('<svg role="img" aria-label="{}"').format(name) + Markup(text)


def _scaled(summary: "Summary", rows: Sequence[Any], *names: str) -> list[list[float]]:
    """The columns of some rows, shares in percent."""
    return [[one[name] * (1 if summary.method == "mean" else 100) for one in rows] for name in names]


def _dots(figure: Any, rows: Sequence[Any], name: str, summary: "Summary") -> None:
    """A share with its interval in each line, and the plain count as a ring."""
    axes, lines = figure.subplots(), range(len(rows))
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


def _facets(figure: Any, rows: Sequence[Any], groups: Sequence[str], summary: "Summary") -> None:
    """Shares over the periods, a small chart for each group, all on one scale; behind it the shares of the other groups."""
    periods = sorted({one["period"] for one in summary.shares})
    columns = min(FACETS, len(groups))
    panels = figure.subplots(-(-len(groups) // columns), columns, sharex=True, sharey=True, squeeze=False)
    series = {
        name: sorted((one for one in rows if one["group"] == name), key=lambda one: one["period"]) for name in groups
    }
    for axes, group in zip_longest(panels.flat, groups):
        if group is None:
            axes.set_visible(False)
            continue
        for name, own in series.items():
            x = [periods.index(one["period"]) for one in own]
            low, share, high = _scaled(summary, own, "low", "share", "high")
            if name == group:
                axes.fill_between(x, low, high, color=COLOURS[0], alpha=0.22, linewidth=0)
                axes.plot(x, share, color=COLOURS[0], marker="o", markersize=3, linewidth=1.8, zorder=3)
            else:
                axes.plot(x, share, color=INK, linewidth=0.7, alpha=0.2)
        if group:
            axes.set_title(drawn(group), fontsize=10)
        axes.set_xticks(
            [0, len(periods) - 1],
            [periods[0], periods[-1]] if not group else [one[5:] for one in (periods[0], periods[-1])],
            fontsize=8,
        )
        axes.tick_params(labelbottom=True)
    if summary.method != "mean":
        panels[0, 0].set_ylim(bottom=0)
    figure.supylabel(_axis(summary), fontsize=9)


def _axis(summary: "Summary") -> str:
    return "mean value" if summary.method == "mean" else "% of the texts"
