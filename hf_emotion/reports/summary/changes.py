# SPDX-License-Identifier: Apache-2.0
"""Changes over time: periods in which a group's share (mean) is another one than in all its earlier periods."""

from typing import TYPE_CHECKING, TypedDict

import numpy as np


if TYPE_CHECKING:
    from .counting import Counting

FEWEST_PERIODS = 4  # fewer say nothing of how much a share scatters between periods


class Change(TypedDict):
    """
    A label's share (mean) in the periods from `start` to `end` of a group and in its periods before, with the numbers of texts; `p_value` is
    corrected for all looks.
    """

    group: str
    label: str
    start: str
    end: str
    lasts: bool  # until the last period
    rows: int
    rows_before: int
    share: float
    before: float
    difference: float
    low: float
    high: float
    p_value: float


def find_changes(counting: "Counting") -> tuple[list[Change], str]:
    """
    Whether a period of a group, or all from one on, has another share of a label than all periods before; the most significant ones of each
    group and label where p is below 0.05, the surest first; and what was tested. A t-test with the variance of drawing rows times the scatter
    between periods (Pearson's χ² / df, at least 1: that of the group or, if it is larger, of all groups, whose df the test has), and for labels
    Fisher's exact test: the larger p counts, times the number of looks (Bonferroni).
    """
    from scipy.stats import t

    periods = sorted(set(counting.cells.get_level_values("period")))
    if len(periods) < FEWEST_PERIODS:
        return [], ""
    count = len(periods)
    rows, sums, squares = _series(counting, periods)
    first = np.r_[1:count, 1 : count - 1]  # from a period to the last one, and single periods
    last = np.r_[np.full(count - 1, count - 1), 1 : count - 1]
    found, looks = [], 0
    best = np.zeros(sums.shape[::2], int)  # (G, C): the run with the largest z²
    largest = np.zeros(best.shape)
    for group, (n, total, square) in enumerate(zip(rows, sums, squares, strict=True)):
        z2, ok = _z_squared(n, total, square, first, last, counting.values)
        looks += int(ok.sum()) * total.shape[1]
        best[group], largest[group] = z2.argmax(axis=0), z2.max(axis=0)
    own, pooled, df = _scatter(rows, sums, squares, first[best], last[best], counting.values)
    scatter = np.maximum(np.maximum(own, pooled), 1)  # in few periods by chance below 1
    p_values = 2 * t.sf(np.sqrt(largest / scatter), df) * looks  # few periods know the scatter badly
    for group, column in np.argwhere(p_values < 0.05):
        start, end = first[best[group, column]], last[best[group, column]]
        p = float(p_values[group, column])
        if not counting.values:
            p = max(p, looks * _fisher(rows[group], sums[group, :, column], start, end))
        if p < 0.05:
            found.append(_change(counting, counting.groups[group], int(column), periods, int(start), int(end), p))
    name = "mean" if counting.values else "share"
    return sorted(found, key=lambda one: one["p_value"]), (
        f"whether the {name} in each period, or in all periods from it on, is that of all periods before: t-test that allows for the scatter between "
        f"periods{'' if counting.values else ' and Fisher’s exact test'}, with Bonferroni's correction (looks: {looks:,})."
    )


def _series(counting: "Counting", periods: list[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows (G, T), and the sums and sums of squares (G, T, C) of the wanted labels in each group and period."""
    size, chosen, *scores = counting.sums
    values = scores if counting.values else [chosen, chosen]
    shape = (len(counting.groups), len(periods))
    places = (
        counting.cells.get_level_values("group").map({name: i for i, name in enumerate(counting.groups)}),
        counting.cells.get_level_values("period").map({name: i for i, name in enumerate(periods)}),
    )
    rows, parts = np.zeros(shape), [np.zeros((*shape, len(counting.columns))) for _ in values]
    rows[places] = size
    for part, own in zip(parts, values, strict=True):
        part[places] = own[:, counting.columns]
    return rows, parts[0], parts[1]


def _variance(n: np.ndarray, total: np.ndarray, square: np.ndarray, values: bool) -> np.ndarray:
    """That of one row, from the sums over n rows."""
    mean = total / n
    return np.maximum(square / n - mean**2, 0) if values else mean * (1 - mean)


def _z_squared(
    n: np.ndarray, total: np.ndarray, square: np.ndarray, first: np.ndarray, last: np.ndarray, values: bool
) -> tuple[np.ndarray, np.ndarray]:
    """(runs, C) of one group without scatter, 0 where nothing can be said; and (runs,) whether there are rows to compare."""
    up = [np.concatenate([np.zeros_like(part[:1]), part]).cumsum(axis=0) for part in (n, total, square)]
    (m, x, y), (m0, x0, y0) = ([part[last + 1] - part[first] for part in up], [part[first] for part in up])
    ok = (m > 0) & (m0 > 0) & (n[first] > 0) & (n[last] > 0)
    m, m0 = np.maximum(m, 1)[:, None], np.maximum(m0, 1)[:, None]
    variance = _variance(m + m0, x + x0, y + y0, values) * (1 / m + 1 / m0)
    apart = np.where(ok[:, None], x / m - x0 / m0, 0)
    return np.divide(apart**2, variance, where=variance > 0, out=np.zeros_like(variance)), ok


def _scatter(
    rows: np.ndarray, sums: np.ndarray, squares: np.ndarray, first: np.ndarray, last: np.ndarray, values: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """
    χ² / df of the periods around the share before, in and after the run (G, C); the same together with that of the other groups around their
    shares, which no choice of a run made small; and its df.
    """
    place = np.arange(rows.shape[1])[None, :, None]
    n = rows[:, :, None]

    def chi2_df(parts: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        chi2, df = np.zeros(first.shape), np.zeros(first.shape)
        for part in parts:
            m = np.maximum((n * part).sum(axis=1, keepdims=True), 1)
            x, y = ((of * part).sum(axis=1, keepdims=True) for of in (sums, squares))
            variance = n * _variance(m, x, y, values)
            used = part & (variance > 0)
            off = np.divide((sums - n * x / m) ** 2, variance, where=used, out=np.zeros_like(sums))
            chi2 += off.sum(axis=1)
            df += np.maximum(used.sum(axis=1) - 1, 0)
        return chi2, df

    before = place < first[:, None]
    after = place > last[:, None]
    (chi2, df), (free, free_df) = chi2_df([before, ~before & ~after, after]), chi2_df([np.ones_like(before)])
    together, together_df = (own + of.sum(axis=0) - of for own, of in ((chi2, free), (df, free_df)))
    together_df = np.maximum(together_df, 1)
    return chi2 / np.maximum(df, 1), together / together_df, together_df


def _fisher(n: np.ndarray, chosen: np.ndarray, start: int, end: int) -> float:
    """p of the run against all periods before it."""
    from scipy.stats import fisher_exact

    sides = [(chosen[part].sum(), n[part].sum()) for part in (slice(start, end + 1), slice(0, start))]
    return float(fisher_exact([(int(has), int(of - has)) for has, of in sides]).pvalue)


def _change(
    counting: "Counting", group: str, column: int, periods: list[str], start: int, end: int, p: float
) -> Change:
    """A change with its shares as the summary shows them; the interval comes from those of both shares (Newcombe, 1998)."""
    of, when = (counting.cells.get_level_values(name) for name in ("group", "period"))
    inside = (of == group) & (when >= periods[start]) & (when <= periods[end])
    earlier = (of == group) & (when < periods[start])
    now = counting.measured(group, "in the run", inside)[column]
    before = counting.measured(group, "before", earlier)[column]
    apart = now["share"] - before["share"]
    return Change(
        group=group,
        label=now["label"],
        start=periods[start],
        end=periods[end],
        lasts=end == len(periods) - 1,
        rows=now["rows"],
        rows_before=before["rows"],
        share=now["share"],
        before=before["share"],
        difference=apart,
        low=apart - float(np.hypot(now["share"] - now["low"], before["high"] - before["share"])),
        high=apart + float(np.hypot(now["high"] - now["share"], before["share"] - before["low"])),
        p_value=min(p, 1.0),
    )
