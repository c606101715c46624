# SPDX-License-Identifier: Apache-2.0
"""From predictions to shares of labels (means of values), per group and over time, corrected for the model's errors, with 95 % intervals."""

from collections.abc import Sequence
from typing import Any, Literal

from .counting import Counting
from .drift import drift
from .reading import PERIODS, Rows, name_of, read_rows
from .results import Difference, Summary


Every = Literal["hour", "day", "week", "month", "quarter", "year"]


def summarize(
    data: Any,
    model: Any = None,
    by: str | tuple[str, ...] | Sequence[Any] | None = None,
    time: str | Sequence[Any] | None = None,
    every: Every = "week",
    labels: Sequence[str] | None = None,
    reference: Any = None,
    texts: int = 3,
    text_column: str | None = None,
    time_format: str | None = None,
    prefix: str = "",
    on_bad_rows: Literal["error", "skip"] = "error",
    encoding: str | None = None,
    separator: str | None = None,
) -> Summary:
    """
    Shares of labels among texts, per group and period, with 95 % intervals; of a regression the means of its values.

    Args:
        data: texts, a DataFrame, or a file that `predict` wrote (joined or wide). Texts and a DataFrame without predictions are predicted
            by the model; a file of texts by `hf-emotion summarize`, or with `predict_file` first.
        model: a run folder, a ready model, a Hub id or a predictor: whose errors on validation rows correct the shares; or the errors on labelled
            rows of your own, `metrics.ValidationCounts.of(...)`. None: plain shares.
        by: the column of the groups, a tuple of columns whose values together are the group, or a list of one value for each row.
        time: the column of the times, or one value for each row. A time belongs to the date that it names, whatever its offset.
        every: the period of time that is one row of the result.
        labels: those to show; default: all. Of aspects and terms also a sentiment for all of them: "negative".
        reference: data of the same form, to find drift.
        texts: how many typical texts of a group and label are kept.
        text_column: default: "text" or "utterance", where there is one.
        time_format: of times, as in `strptime`; default: ISO 8601.
        prefix: before the names of the prediction's columns.
        on_bad_rows: "skip" leaves out rows whose time cannot be read.
        encoding: of text files that were saved again, such as "cp1252"; default: UTF-8.
        separator: of CSV files; default: what separates the header.

    Raises:
        ValueError: times that cannot be read, numbers that lost digits as groups, no such column, no predictions, labels of another model.
    """
    if every not in PERIODS:
        raise ValueError(f"`every` must be one of {sorted(PERIODS)}, got {every!r}.")
    options = (every, text_column, time_format, prefix, on_bad_rows, encoding, separator)
    rows = read_rows(data, model, by, time, *options)
    past = None if reference is None else read_rows(reference, model, None, None, *options)
    by, time = name_of(by), time if isinstance(time, str | None) else "time"
    counting = Counting(rows, model, labels, by, time, every)
    shares = counting.shares()
    differences, tested = counting.differences()
    return Summary(
        rows=len(rows.about),
        skipped=len(rows.skipped),
        labels=counting.wanted,
        by=by,
        time=time,
        every=every if time else None,
        method=counting.methods[-1],
        shares=shares,
        differences=differences,
        tested=tested,
        typical=_typical(rows, differences, counting.groups, counting.wanted, texts),
        drift=None if past is None else drift(rows, past),
        notes=counting.notes,
        overall=counting.overall() if time else [],
    )


def _typical(
    rows: Rows, differences: list[Difference], groups: list[str], wanted: list[str], texts: int
) -> dict[str, dict[str, list[str]]]:
    """The surest texts of the three labels that are most over-represented in a group, else of its three most frequent ones."""
    weight: dict[Any, float] = rows.chosen.groupby(rows.about["group"]).sum().stack().to_dict()
    for one in differences:
        weight[one["first"], one["label"]] = one["difference"]
        weight[one["second"], one["label"]] = -one["difference"]
    found: dict[str, dict[str, list[str]]] = {group: {} for group in groups}
    about = rows.about.dropna(subset=["text"]).astype({"text": str})
    # numbers instead of strings: each label sorts them
    keys = about[[]].assign(
        group=about.groupby("group").ngroup(), copy=about.groupby(["group", "text"], sort=False).ngroup()
    )
    for label in wanted:
        own = keys[rows.chosen.loc[about.index, label]]
        if rows.scores is not None:
            own = own.loc[rows.scores.loc[own.index, label].sort_values(ascending=False, kind="stable").index]
        own = about.loc[own.drop_duplicates("copy").groupby("group").head(texts).index]
        for group, best in own.groupby("group")["text"]:
            found[group][label] = best.tolist()
    for group, of_labels in found.items():
        best = sorted(of_labels, key=lambda label: -weight[group, label])[:3]
        found[group] = {label: of_labels[label] for label in best}
    return {group: of_labels for group, of_labels in found.items() if of_labels}
