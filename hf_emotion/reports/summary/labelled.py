# SPDX-License-Identifier: Apache-2.0
"""Rows of the predictions that people have labelled (`hf-emotion sample`): reads them, and measures the model on them."""

import codecs
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, cast

import numpy as np

from ...io.names import did_you_mean
from ...io.paths import shown
from ...metrics.multi_label import tune_thresholds
from ...metrics.prediction_powered import FEWEST, jeffreys
from ...tasks import labelled_columns as columns
from .reading import TEXTS, Rows, read_table


if TYPE_CHECKING:
    import pandas

    from .counting import Counting, Share

FEWEST_OF_LABEL = 5  # labelled rows with a label, by which its threshold is chosen
WIDTHS_FOR = (100, 200, 400)


@dataclass
class Labelled:
    """
    n rows that somebody has labelled.

    Attributes:
        index: (n,) which rows of `Rows` they are.
        gold: (n, L) bool, a column for each label that was asked for.
        weights: (n,) how many rows each stands for.
        strata: (n,) ids of the groups from which they were drawn.
        left: the number of drawn rows without an answer.
        notes: what a reader must know.
    """

    index: "pandas.Index"
    gold: "pandas.DataFrame"
    weights: np.ndarray
    strata: np.ndarray
    left: int
    notes: list[str]


class Quality(TypedDict):
    """What a label's decisions are worth on the labelled rows: of all texts, with 95 % intervals."""

    label: str
    labelled: int
    precision: float
    precision_low: float
    precision_high: float
    recall: float
    recall_low: float
    recall_high: float
    f1: float
    f1_low: float
    f1_high: float


class Checked(TypedDict):
    """
    What labelled rows say.

    Attributes:
        rows, left: how many are labelled, and how many were drawn and are not.
        shares: those of all groups together, and of them in each period.
        quality: of each label what the model's decisions are worth.
        thresholds: tuned on the labelled rows; None where only decisions are known.
        widths: of each label the width of its interval over all texts to expect from so many labelled rows.
    """

    rows: int
    left: int
    shares: list["Share"]
    quality: list[Quality]
    thresholds: dict[str, float] | None
    widths: dict[str, dict[int, float]]


def read_labelled(
    source: Any, rows: Rows, text_column: str | None, encoding: str | None, separator: str | None
) -> Labelled:
    """
    The labelled rows of a table that `sample` wrote; ValueError for what cannot be read, rows of another table, and where none is labelled.
    """
    import pandas

    if isinstance(source, str | Path) and Path(source).is_file():
        with Path(source).open("rb") as file:
            if file.read(3) == codecs.BOM_UTF8:
                encoding = None  # as `sample` and `label` write it, whatever the encoding of the texts
    table = read_table(source, "", [columns.NUMBER], encoding, separator)
    where = "the labelled table" if isinstance(source, pandas.DataFrame) else shown(source)
    if rows.values:
        raise ValueError("labelled rows give shares of labels, and the predictions hold values.")
    if columns.NUMBER not in table:
        raise ValueError(
            f"{where} has no column {columns.NUMBER!r}, the number of each row in the predictions: `hf-emotion sample` makes a table with it."
        )
    known, form = list(rows.chosen), columns.LabelColumns.of(list(table), list(rows.chosen))
    for name in form.labels:
        if name not in known:
            raise ValueError(f"{where}: the predictions have no label {name!r}.{did_you_mean(name, known)}")
    numbers = _numbers(table[columns.NUMBER], where)
    if not (numbers % 1 == 0).all() or not numbers.between(0, len(rows.table) - 1).all() or numbers.duplicated().any():
        raise ValueError(
            f"{where}: {columns.NUMBER!r} must hold whole numbers from 0 to {len(rows.table) - 1:,}, each once: it was drawn from another table."
        )
    table = table.set_index(numbers.astype(int))
    _check_texts(table, rows, text_column, where)
    weights = pandas.Series(1.0, table.index)
    notes = []
    if columns.WEIGHT in table:
        weights = _numbers(table[columns.WEIGHT], where)
        if not (weights > 0).all():
            raise ValueError(f"{where}: {columns.WEIGHT!r} must hold numbers above 0.")
    else:
        notes.append(f"{where} has no column {columns.WEIGHT!r}: its rows count as drawn at random from all.")
    try:
        gold, has = _answers(table, form, where)
    except ValueError as error:
        if rows.scores is None:
            error = ValueError(
                f"{error} Predictions know a label that they never give only with `predict --columns wide`."
            )
        raise error from None
    drawn = table.index.isin(rows.about.index)  # the summary leaves out others: in another language, without a time
    weights, gold, has = weights[drawn], gold[drawn], has[drawn]
    if not has.any():
        raise ValueError(f"{where}: no row is labelled: fill in {form.names[0]!r}.")
    strata = _strata(weights, rows)
    sums = [own.groupby(strata[own.index]).sum() for own in (weights, weights[has])]
    if lost := int((~sums[0].index.isin(sums[1].index)).sum()):
        notes.append(
            f"{lost} of {len(sums[0])} groups from which rows were drawn have no labelled row: nothing is known of them."
        )
    # what nobody could label counts as the other rows of its group
    weights, strata = weights[has] * strata[has].map(sums[0] / sums[1]), strata[has]
    return Labelled(weights.index, gold[has], weights.to_numpy(), strata.to_numpy(), int((~has).sum()), notes)


def _numbers(cells: "pandas.Series", where: str) -> "pandas.Series":
    """The cells as numbers; a spreadsheet may write a decimal comma."""
    import pandas

    found = pandas.to_numeric(cells.astype(str).str.strip().str.replace(",", "."), errors="coerce")
    if found.isna().any():
        place = int(np.flatnonzero(found.isna())[0])
        raise ValueError(f"{where}, row {place + 1}: {cells.name!r} holds no number: {cells.iloc[place]!r}.")
    return found


def _check_texts(table: "pandas.DataFrame", rows: Rows, text_column: str | None, where: str) -> None:
    """ValueError if a row's text is another one in the predictions: the tables do not belong together, or one was sorted anew."""
    both = [name for name in table if name in rows.table and table[name].map(lambda cell: isinstance(cell, str)).any()]
    usual = [name for name in (text_column, *TEXTS) if name in both]
    if not both:
        return
    name = usual[0] if usual else max(both, key=lambda one: table[one].astype(str).str.len().mean())
    given, own = (
        values.fillna("").astype(str).str.removeprefix("'").str.split().str.join(" ")  # of --escape-formulas
        for values in (table[name], rows.table.loc[table.index, name])
    )
    if (other := given != own).any():
        number = table.index[int(np.flatnonzero(other)[0])]
        raise ValueError(
            f"{where} does not fit the predictions: {int(other.sum())} of {len(table)} texts differ, first in row {number}: {given[number][:60]!r}, "
            f"and in the predictions {own[number][:60]!r}."
        )


def _answers(
    table: "pandas.DataFrame", form: columns.LabelColumns, where: str
) -> tuple["pandas.DataFrame", "pandas.Series"]:
    """The labels of each row, and whether it has an answer."""
    import pandas

    answers = form.read_all((f"{where}, row {place}", row) for place, row in enumerate(table.to_dict("records"), 1))
    has = pandas.Series([isinstance(answer, list) for answer in answers], table.index)
    gold = {name: [isinstance(answer, list) and name in answer for answer in answers] for name in form.labels}
    return pandas.DataFrame(gold, table.index), has


def _strata(weights: "pandas.Series", rows: Rows) -> "pandas.Series":
    """
    The groups from which rows were drawn: those of the summary if the weights add up to their sizes, else rows of equal weight together.
    """
    groups = rows.about["group"]
    own = groups.reindex(weights.index)
    by_group = weights.groupby(own)
    fits = np.isclose(by_group.sum(), groups.value_counts().reindex(by_group.sum().index), rtol=0.01)
    if fits.all() and (by_group.max() - by_group.min() < 0.01 * by_group.min()).all() and own.notna().all():
        return own
    return weights.round(3)


def check(rows: Rows, labelled: Labelled, counting: "Counting") -> Checked:
    """What the labelled rows say of the labels that the summary shows."""
    names = counting.wanted
    gold, chosen = (part[names].to_numpy() for part in (labelled.gold, rows.chosen.loc[labelled.index]))
    scores = None if rows.scores is None else rows.scores.loc[labelled.index, names].to_numpy()
    asked = [count for count in WIDTHS_FOR if count < len(rows.about)]
    widths = [counting.widths(count) for count in asked]
    return Checked(
        rows=len(gold),
        left=labelled.left,
        shares=counting.over_groups(),
        quality=quality(gold, chosen, labelled.weights, names),
        thresholds=None if scores is None else tuned(gold, scores, names),
        widths={
            name: {count: float(of[i]) for count, of in zip(asked, widths, strict=True)}
            for i, name in enumerate(names)
        },
    )


def checked_notes(checked: Checked, shares: Sequence["Share"]) -> list[str]:
    """What a reader of the estimates must know."""
    notes = []
    if checked["left"]:
        notes.append(f"{checked['left']} drawn rows have no answer: they count like the labelled rows of their group.")
    if any(one["borrowed"] for one in shares):
        notes.append(
            f"* Fewer than {FEWEST} labelled rows here: the calibration is that of all labelled rows, and the interval allows for how much it "
            "differs between groups and periods."
        )
    widths = list(checked["widths"].values())
    means = [f"{np.mean([of[count] for of in widths]):.1%} with {count}" for count in widths[0]]
    if means:
        notes.append(
            f"Expected width of an interval over all texts, on average over the labels shown: {', '.join(means)} labelled rows; you have "
            f"{checked['rows']}."
        )
    return notes


def quality(gold: np.ndarray, chosen: np.ndarray, weights: np.ndarray, labels: list[str]) -> list[Quality]:
    """
    Precision, recall and F1 of the decisions (n, C) on labelled rows, weighted, with the intervals of Jeffreys for as many equally weighted rows.
    That of F1 = 2J / (1 + J) comes from the share J of rows that both have, of those that one has.
    """
    found = []
    for label, has, got in zip(labels, gold.T, chosen.T, strict=True):
        values: dict[str, float] = {}
        for name, rows in (("precision", got), ("recall", has), ("f1", got | has)):
            own = weights * rows
            share, count = (own @ (got & has) / own.sum(), own.sum() ** 2 / (own @ own)) if rows.any() else (np.nan, 0)
            three = [share, *jeffreys(share, count)]
            if name == "f1":
                three = [2 * value / (1 + value) for value in three]
            values |= dict(zip((name, f"{name}_low", f"{name}_high"), map(float, three), strict=True))
        found.append(cast(Quality, {"label": label, "labelled": int(has.sum())} | values))
    return found


def tuned(gold: np.ndarray, scores: np.ndarray, labels: list[str]) -> dict[str, float]:
    """Thresholds tuned on the labelled rows, of the labels that enough of them have."""
    enough = np.flatnonzero(gold.sum(axis=0) >= FEWEST_OF_LABEL)
    if not len(enough):
        return {}
    found = tune_thresholds(gold[:, enough].astype(int), scores[:, enough])
    return {labels[label]: round(threshold, 4) for label, threshold in zip(enough, found, strict=True)}
