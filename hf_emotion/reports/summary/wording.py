# SPDX-License-Identifier: Apache-2.0
"""The findings of a summary as sentences, for the terminal and the page."""

from datetime import datetime
from typing import TYPE_CHECKING

from .changes import Change
from .counting import Difference


if TYPE_CHECKING:
    from . import Summary


def p_value(p: float) -> str:
    """ "p < 0.001", "p = 0.02"."""
    return "p " + ("= " * (p >= 0.001)) + bare_p(p)


def bare_p(p: float) -> str:
    """ "< 0.001", "0.02": for a column of p-values."""
    return "< 0.001" if p < 0.001 else f"{p:.2g}"


def day(period: str, every: str | None) -> str:
    """The first day (hour) of a period, or its name: 26 October 2026, October 2026."""
    begin = datetime.fromisoformat(period)
    if every == "year":
        return str(begin.year)
    if every == "quarter":
        return f"quarter {(begin.month + 2) // 3} of {begin.year}"
    if every == "month":
        return f"{begin:%B %Y}"
    return f"{begin.day} {begin:%B %Y}" + (f" {begin:%H:%M}" if every == "hour" else "")


def percent(value: float) -> str:
    """A share in words: 35 %, 3.2 %."""
    return f"{100 * value:.{0 if value >= 0.1 else 1}f} %"


def of_change(summary: "Summary", one: Change) -> str:
    """West: anger 35 % since 26 October 2026, 13 % before"""
    shown = summary.shown if summary.method == "mean" else percent
    start, end = day(one["start"], summary.every), day(one["end"], summary.every)
    among = "week of " if summary.every == "week" else ""
    when = (
        f"since {start}"
        if one["lasts"]
        else f"from the {among}{start} to that of {end}"
        if among
        else f"from {start} to {end}"
    )
    if one["start"] == one["end"]:
        when = (
            f"in the {among}{start}"
            if among
            else f"in {start}"
            if summary.every in ("month", "quarter", "year")
            else f"on {start}"
        )
        when += " (the last period)" * one["lasts"]
    whose = f"{one['group']}: " if one["group"] else ""
    return f"{whose}{one['label']} {shown(one['share'])} {when}, {shown(one['before'])} before ({p_value(one['p_value'])})"


def of_difference(summary: "Summary", one: Difference) -> str:
    """joy: West 10.7 points less than the others (95 % interval 6.1 to 15.3 points less; p < 0.001)"""
    period = not summary.by
    first, second = (day(one[side], summary.every) if period else one[side] for side in ("first", "second"))
    if second == "all others":
        second = "the others"
    mean = summary.method == "mean"

    def size(value: float) -> str:
        return f"{abs(value):.2f}" if mean else f"{abs(100 * value):.1f}"

    more = "more" if one["difference"] > 0 else "less"
    ends = sorted((one["low"], one["high"]), key=abs)
    ends_shown = f"{size(ends[0])} to {size(ends[1])}"
    if ends[0] * ends[1] < 0:  # the test and the interval are made in different ways
        ends_shown = f"{summary.interval(one, '+')}"
    unit = "" if mean else " points"
    return f"{one['label']}: {first} {size(one['difference'])}{unit} {more} than {second} (95 % interval {ends_shown}; {p_value(one['p_holm'])})"
