# SPDX-License-Identifier: Apache-2.0
"""Reads predictions for a summary: tables that `predict` wrote and others may have saved again, their groups and their times."""

import json
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...data.files import ENCODING, all_rows, columns_of, find_separator, format_of, reading
from ...io.paths import as_path, check_file, open_file, shown
from ...runtime.batching import as_texts
from ...runtime.languages import languages_in
from ...runtime.plain import text_processing
from ...tasks import predicted_columns as written
from ...tasks.predictor import LabelPredictor
from ...taxonomies import own_groups


if TYPE_CHECKING:
    import pandas

PERIODS = {"hour": "h", "day": "D", "week": "W", "month": "M", "quarter": "Q", "year": "Y"}
TEXTS = ("text", "utterance")
NONE = "(none)"  # the group of rows without one
JOINT = " / "  # between the columns of a group
OFFSET = r"(?i)([T ]\d\d?\S*?)\s*(?:Z|UTC|GMT|[+-]\d\d(?::?\d\d)?)"
ROUNDED = re.compile(r"\d[.,]\d+E\+\d+", re.IGNORECASE)


@dataclass
class Rows:
    """
    N rows with a prediction.

    Attributes:
        chosen: (N, C) bool, a column for each label.
        scores: (N, C) float64; None where only the chosen labels are known.
        values: whether the scores are values of a regression.
        about: (N, 6) "group", "period", "day", "text", "language" (of texts that the model does not read), "unknown" (share of the text).
        skipped: the numbers of the other rows, from 1.
        table: all rows with all columns, numbered from 0 as in the index of the others.
        foreign: how many texts with terms were left out, because they are in a language that the model does not read.
    """

    chosen: "pandas.DataFrame"
    scores: "pandas.DataFrame | None"
    values: bool
    about: "pandas.DataFrame"
    skipped: Sequence[int]
    table: "pandas.DataFrame"
    foreign: int = 0


def read_rows(
    data: Any,
    model: Any,
    by: str | Sequence[Any] | None,
    time: str | Sequence[Any] | None,
    every: str,
    text_column: str | None,
    time_format: str | None,
    prefix: str,
    on_bad_rows: str,
    encoding: str | None,
    separator: str | None,
) -> Rows:
    """The predictions in `data`, or those of the model for its texts; arguments and errors as those of `summarize`."""
    names = [*_named(by), *(name for name in (time, text_column) if isinstance(name, str))]
    frame = read_table(data, prefix, names, encoding, separator)
    if text_column is not None:
        written.check_column(list(frame), text_column)
    usual = TEXTS if text_column is None else (text_column,)
    texts = next((frame[name] for name in usual if name in frame), None)
    predicted = frame if written.form_of(list(frame), prefix) else _predicted(frame, prefix, texts, model)
    chosen, scores = written.read(predicted, prefix)
    groups: Any = "" if by is None else _groups(frame, by)
    periods: Any = ""
    days: Any = ""
    if time is not None:
        periods, days = _periods(_cells(_column(frame, time)), every, time_format, on_bad_rows)
    whole = frame[[]].assign(group=groups, period=periods, day=days, text=texts)
    whole = whole.assign(language=frame.get(prefix + written.LANGUAGE), unknown=frame.get(prefix + written.UNKNOWN))
    about = whole.loc[chosen.index].dropna(subset=["period"])
    if about.empty:
        raise ValueError("there is no row with a prediction: nothing is summarized.")
    if prefix + written.TERMS in frame:  # rows of one text; files that were joined repeat the numbers
        keys = [frame[prefix + written.ROW], *(whole[name] for name in whole)]
        first = frame.index.to_series().groupby(keys, dropna=False).transform("min")
        chosen = chosen.loc[about.index].groupby(first[about.index]).any()
        skipped = list(frame[prefix + written.ROW][sorted(set(first) - set(chosen.index))])
        about = about.loc[chosen.index]
        foreign = about["language"].fillna("") != ""
        chosen = chosen[~foreign]
        words = [
            name for name in chosen if chosen[name].any() and any(map(str.isalpha, name.rpartition("/")[0] or name))
        ]
        return Rows(chosen[words], None, False, about[~foreign], skipped, frame, int(foreign.sum()))
    scores = None if scores is None else scores.loc[about.index]
    skipped = list(frame.index.difference(about.index) + 1)
    values = written.form_of(list(predicted), prefix) == written.VALUE
    return Rows(chosen.loc[about.index], scores, values, about, skipped, frame)


def only_language(rows: Rows, code: str) -> int:
    """Leave out the texts that are probably in another language, and give their number."""
    found = languages_in(rows.about["text"].fillna("").astype(str).tolist())
    other = rows.about["language"].fillna("").astype(str).to_numpy()
    kept = np.array([(theirs or own or code) == code for theirs, own in zip(other, found, strict=True)])
    if not kept.any():
        raise ValueError(f"no text is in the language {code!r}.")
    rows.chosen, rows.about = rows.chosen[kept], rows.about[kept]
    rows.scores = None if rows.scores is None else rows.scores[kept]
    return int((~kept).sum())


def roll_up(rows: Rows, groups: Mapping[str, Sequence[str]]) -> None:
    """Replace the labels by groups of them: a text has a group if it has one of its labels."""
    if rows.values:
        raise ValueError("groups are for labels, and the predictions hold values.")
    members = own_groups(groups, list(rows.chosen))
    chosen, scores = rows.chosen, rows.scores
    rows.chosen = chosen[[]].assign(**{name: chosen.iloc[:, of].any(axis=1) for name, of in members.items()})
    if scores is not None:
        rows.scores = scores[[]].assign(**{name: scores.iloc[:, of].max(axis=1) for name, of in members.items()})


def _predicted(
    frame: "pandas.DataFrame", prefix: str, texts: "pandas.Series | None", model: Any
) -> "pandas.DataFrame":
    """The columns that the model adds to the texts which can be read."""
    import pandas

    asked = isinstance(model, LabelPredictor) and model.wide_labels is not None
    if texts is None or not asked or model.task.file_columns.grouped:
        raise ValueError(
            f"there are no predictions (`{prefix}{written.LABELS}` or `{prefix}{written.DECISION}LABEL`), only the columns "
            f"{written.own_columns(list(frame))}: give the `model` as a predictor and a column of texts, or the file that "
            "`hf-emotion predict` wrote."
        )
    texts = texts[texts.map(text_processing.is_readable).astype(bool)]
    _, unread, (scores, decisions) = model.scored_items(as_texts(texts.tolist()))
    model.warn_unread(unread.counts)
    kinds = {written.VALUE: scores} if model.regression else {written.PROBABILITY: scores, written.DECISION: decisions}
    columns = {prefix + written.TRUNCATED: unread.truncated}
    for begin, of_labels in kinds.items():
        names = (f"{prefix}{begin}{name}" for name in model.wide_labels)
        columns |= zip(names, of_labels.T, strict=True)
    return pandas.DataFrame(columns, texts.index)


def has_predictions(
    path: str | Path,
    prefix: str = "",
    needed: Sequence[str] = (),
    encoding: str | None = None,
    separator: str | None = None,
) -> bool:
    """Whether `predict` wrote this file; ValueError if it lacks a needed column."""
    path = as_path(path)
    check_file(path)
    columns = columns_of(path, _separator(path, prefix, needed, encoding, separator), encoding)
    columns = columns or next((list(row) for _, row in all_rows(path, encoding=encoding)), [])
    for name in needed:
        written.check_column(columns, name)
    return written.form_of(columns, prefix) != ""


def name_of(by: Any) -> str | None:
    """What the groups are called; None where none are asked for."""
    return None if by is None else JOINT.join(_named(by)) or "group"


def _named(by: Any) -> tuple[str, ...]:
    """The columns of the groups; none where there is a value for each row."""
    return (by,) if isinstance(by, str) else by if isinstance(by, tuple) else ()


def _separator(
    path: str | Path, prefix: str, needed: Sequence[str], encoding: str | None, given: str | None
) -> str | None:
    """The separator of a CSV; labels in its header may hold others, so that a column of every prediction decides."""
    found = find_separator(path, [prefix + written.TRUNCATED], given, encoding)
    if found is None or given is not None or prefix + written.TRUNCATED in columns_of(path, found, encoding):
        return found
    return find_separator(path, needed, encoding=encoding)


def read_table(
    data: Any, prefix: str, names: Sequence[str], encoding: str | None, separator: str | None
) -> "pandas.DataFrame":
    """The rows; whole numbers stay whole, and these columns of a CSV hold text, even if it looks like numbers."""
    import pandas

    if isinstance(data, pandas.DataFrame):
        return data.reset_index(drop=True)
    if not isinstance(data, str | Path):
        return pandas.DataFrame({"text": pandas.Series(list(data), dtype=object)})
    path = as_path(data)
    check_file(path)
    if format_of(path) == "parquet":
        import pyarrow.parquet

        with open_file(path) as file:  # a missing number would make floats of all, which have 15 digits
            return pyarrow.parquet.read_table(file).to_pandas(integer_object_nulls=True).reset_index(drop=True)
    if format_of(path) != "csv":
        return pandas.DataFrame([row for _, row in all_rows(path, encoding=encoding)], dtype=object)
    between = _separator(path, prefix, names, encoding, separator)
    strings = dict.fromkeys([*names, *TEXTS, prefix + written.LABELS, prefix + written.TERMS], str)
    try:  # Only an empty cell is missing: "None" is a label.
        with (
            reading(path, encoding),
            open_file(path, "r", encoding=encoding or ENCODING, newline="") as file,
            warnings.catch_warnings(),
        ):
            # With more values in each row than in the header pandas would shift the columns, or drop the last.
            warnings.simplefilter("error", pandas.errors.ParserWarning)
            kept = {"keep_default_na": False, "na_values": [""], "dtype": strings, "index_col": False}
            frame = pandas.read_csv(file, sep=between, **kept)
    except (pandas.errors.ParserError, pandas.errors.ParserWarning) as error:
        reason = str(error) if isinstance(error, ValueError) else "the rows have more values than the header"
        raise ValueError(
            f"{shown(path)} cannot be read ({' '.join(reason.split())}): close each quote, and quote values that contain the separator."
        ) from error
    columns = list(frame)
    for number in np.flatnonzero(frame[columns[0]].astype(str) == columns[0]) if len(columns) > 1 else ():
        if list(map(str, frame.iloc[number])) == columns:
            raise ValueError(
                f"{shown(path)}: row {number + 1} is the header once more: leave it out when files are joined."
            )
    return frame


def _column(frame: "pandas.DataFrame", asked: str | Sequence[Any]) -> "pandas.Series":
    """The values of a column, or the given ones."""
    import pandas

    if isinstance(asked, str):
        written.check_column(list(frame), asked)
        return frame[asked]
    if len(asked) != len(frame):
        raise ValueError(
            f"`by` and `time` take one value for each of the {len(frame)} rows, got {len(asked)}; `by` takes several columns as a tuple."
        )
    return pandas.Series(list(asked), frame.index, dtype=object)


def _cells(values: "pandas.Series") -> "pandas.Series":
    """The cells as strings, empty where there is none; ValueError for numbers that lost digits, which made different ones equal."""
    import pandas

    kind = getattr(values.dtype, "numpy_dtype", values.dtype)
    digits = np.finfo(kind).nmant if kind.kind == "f" else 52
    whole = 2.0 ** (digits + 1)  # up to here a float has every whole number

    def cell(value: Any) -> str:
        if isinstance(value, float | np.floating):
            if whole <= abs(float(value)) < np.inf:
                raise ValueError(lost(value))
            return str(int(value)) if value == value // 1 else str(value)
        if "+" in (text := str(value)) and ROUNDED.fullmatch(text):
            raise ValueError(lost(text))
        return text

    def lost(value: Any) -> str:
        return (
            f"{values.name!r} holds {value}: numbers of so many digits became floats, and different ones became equal. Take the "
            "column from where it is whole, and keep it as text."
        )

    if isinstance(values.dtype, pandas.StringDtype):
        if (bad := values.str.fullmatch(ROUNDED.pattern, case=False)).any():
            raise ValueError(lost(values[bad].iloc[0]))
        return values.fillna("").astype(object)
    codes, distinct = np.where(values.isna(), -1, np.arange(len(values))), values
    if values.dtype != object:  # else 1, True and 1.0 would be one
        codes, distinct = values.factorize()
    cells = np.array([*map(cell, distinct), ""], object)  # the last: none
    return pandas.Series(cells[codes], values.index, dtype=object)


def _groups(frame: "pandas.DataFrame", by: str | Sequence[Any]) -> "pandas.Series":
    """The group of each row; of several columns their values, joined so that no two groups become one."""
    columns = [_cells(_column(frame, name)).replace("", NONE) for name in _named(by) or (by,)]
    if len(columns) == 1:
        return columns[0]

    def quoted(part: str) -> str:
        return json.dumps(part, ensure_ascii=False) if part[:1] == '"' or JOINT in f" {part} " else part

    return columns[0].map(quoted).str.cat([own.map(quoted) for own in columns[1:]], JOINT)


def _periods(
    texts: "pandas.Series", every: str, time_format: str | None, on_bad_rows: str
) -> "tuple[pandas.Series, pandas.Series]":
    """The first day (hour) of the period of each time, and its day; missing for a time that cannot be read, where that is allowed."""
    times = _times(texts, time_format)
    if (bad := times.isna()).any() and on_bad_rows == "error":
        first = int(np.flatnonzero(bad)[0])
        raise ValueError(
            f"{int(bad.sum())} of {len(texts)} times cannot be read, first in row {first + 1}: {texts.iloc[first]!r}. Write 2026-11-27 or "
            "2026-11-27T15:30, name the form (--time-format %d/%m/%Y), or leave such rows out (--on-bad-rows skip)."
        )
    starts = times.dt.to_period(PERIODS[every]).dt.start_time
    return starts.dt.strftime("%Y-%m-%d %H:00" if every == "hour" else "%Y-%m-%d"), times.dt.strftime("%Y-%m-%d")


def _times(texts: "pandas.Series", time_format: str | None) -> "pandas.Series":
    """The times as they are named, without their offsets: 00:30+01:00 is half past midnight of its date. Missing: cannot be read."""
    import pandas

    if time_format is None:  # pandas reads "now" and "today", too
        import pyarrow
        from pyarrow import compute

        named = pyarrow.array(
            [text if text.isascii() and text[:1].isdigit() else "" for text in texts], pyarrow.string()
        )
        named = compute.replace_substring_regex(named, OFFSET, r"\1").to_pandas().set_axis(texts.index)
        return pandas.to_datetime(named, format="ISO8601", errors="coerce")

    def read(text: str) -> datetime | None:
        try:
            return datetime.strptime(text, time_format).replace(tzinfo=None)
        except (ValueError, re.error):
            return None

    return pandas.to_datetime(texts.map({text: read(text) for text in texts.unique()}))
