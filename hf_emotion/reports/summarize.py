# SPDX-License-Identifier: Apache-2.0
"""From predictions to shares of labels (means of values), per group and over time, corrected for the model's errors, with 95 % intervals."""

import itertools
import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..data.files import ENCODING, all_rows, columns_of, find_separator, format_of
from ..io.files import finite_or_none
from ..io.names import did_you_mean
from ..io.paths import as_path, check_file, open_file, shown
from ..metrics.quantification import Observed, ValidationCounts, estimates, interval
from ..run_report import RunReport
from ..runtime.batching import as_texts
from ..runtime.names import METRICS
from ..runtime.plain import text_processing
from ..runtime.ready import ReadyModel, find_ready, ready_models
from ..tasks.results import ALL_SCORES, DECISION, LABELS, PLACES, PROBABILITY, ROW, SCORES, UNREAD, VALUE


if TYPE_CHECKING:
    import pandas

MOST_CELLS = 2_000  # groups and periods
MOST_TERMS = 50
PERIODS = {"hour": "h", "day": "D", "week": "W", "month": "M", "quarter": "Q", "year": "Y"}
WORDS_SHOWN, FEWEST_TEXTS = 20, 5
FEW = 30  # texts of a group or period
WORD = re.compile(r"[^\W\d_]{3,}")
OFF_THRESHOLD = 0.005  # share of chosen labels that may contradict the thresholds: files round probabilities
Every = Literal["hour", "day", "week", "month", "quarter", "year"]
TERMS, TRUNCATED, LANGUAGE = PLACES[0], UNREAD[0], UNREAD[2]
NEGATIVE = "/negative"  # ends the label of an aspect or term with this sentiment


@dataclass
class Summary:
    """
    What `summarize` found. All fields are ready for JSON.

    Attributes:
        rows, skipped: texts with a prediction, and without one (or without a time). A text with a row for each of its terms is one.
        labels: C names.
        by, time, every: as they were asked for.
        method: what the column `share` holds: "probabilistic" or "adjusted" counts, "plain" ones without a correction, or the "mean" of values.
        shares: for each group, period and label "group", "period", "label", "rows", "share", "low", "high", of labels "chosen", and for each
            method METHOD, METHOD_low, METHOD_high.
        overall: with a time, the same over all periods; else empty.
        differences: of each group to all other rows, or of each period to the one before: "label", "first", "second", "difference" of the
            shares with "low" and "high", and "p_value", "p_holm" of `tested`.
        tested: what the p-values test.
        typical: group -> label -> the texts that the model is surest of; of the labels that are most over-represented in the group.
        drift: against a reference "stability": label -> population stability index, "words": those that are more frequent here; None
            without one.
        notes: what a reader must know.
    """

    rows: int
    skipped: int
    labels: list[str]
    by: str | None
    time: str | None
    every: str | None
    method: str
    shares: list[dict[str, Any]] = field(repr=False)
    differences: list[dict[str, Any]] = field(repr=False)
    tested: str = field(repr=False)
    typical: dict[str, dict[str, list[str]]] = field(default_factory=dict, repr=False)
    drift: dict[str, Any] | None = field(default=None, repr=False)
    notes: list[str] = field(default_factory=list)
    overall: list[dict[str, Any]] = field(default_factory=list, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """What JSON holds; None stands for what is not known."""
        return finite_or_none(asdict(self))

    @property
    def clear(self) -> list[dict[str, Any]]:
        """The differences with `p_holm` below 0.05, the largest first."""
        found = [one for one in self.differences if one["p_holm"] < 0.05]
        return sorted(found, key=lambda one: -abs(one["difference"]))

    @property
    def counted(self) -> dict[str, str]:
        """The counts that tables show: keys of a share and their titles."""
        return ({"chosen": "with it"} if self.method == "plain" else {}) | {"rows": "texts"}

    def counts(self, one: dict[str, Any]) -> list[int]:
        return [one[key] for key in self.counted]

    @property
    def nothing_clear(self) -> str:
        """What to say where no difference is clear."""
        few = any(one["rows"] < FEW for one in (self.by and self.overall) or self.shares)
        hint = f" A group or period of fewer than {FEW} texts could hardly show one." if few else ""
        return f"No difference is significant at 5 %.{hint}"

    @property
    def largest(self) -> list[dict[str, Any]]:
        """
        The shares, the largest first, unknown ones last; over time the periods in their order, of what is largest over all of them.
        Of aspects and terms the negative ones come first.
        """
        order = {(one["label"], one["group"]): place for place, one in enumerate(self.together)}
        return sorted(self.shares, key=lambda one: order[one["label"], one["group"]])

    @property
    def together(self) -> list[dict[str, Any]]:
        """The shares over all periods, in the order of `largest`."""

        def place(one: dict[str, Any]) -> tuple:
            return not one["label"].endswith(NEGATIVE), one["share"] != one["share"], -one["share"]

        return sorted(self.overall or self.shares, key=place)

    @property
    def complaints(self) -> bool:
        """Whether there are negative aspects or terms."""
        return any(label.endswith(NEGATIVE) for label in self.labels)

    @property
    def corrected(self) -> bool:
        return self.method not in ("plain", "mean")

    @property
    def measure(self) -> str:
        """What the column `share` holds, for people."""
        return "mean" if self.method == "mean" else f"share ({self.method})"

    def shown(self, value: float, sign: str = "") -> str:
        """A share in percent, a mean as it is; `sign`: "+" for differences."""
        return "–" if value != value else format(value, sign + (".2f" if self.method == "mean" else ".1%"))

    def interval(self, one: dict[str, Any], sign: str = "") -> str:
        """The interval of one of the shares or differences."""
        return f"{self.shown(one['low'], sign)} to {self.shown(one['high'], sign)}"

    def to_frame(self) -> "pandas.DataFrame":
        """The shares as a table."""
        import pandas

        return pandas.DataFrame(self.shares)

    def to_html(self) -> str:
        """The page with plots; everything that comes from the data is escaped."""
        from .summary_page import page

        return page(self)


def summarize(
    data: Any,
    model: Any = None,
    by: str | Sequence[Any] | None = None,
    time: str | Sequence[Any] | None = None,
    every: Every = "week",
    labels: Sequence[str] | None = None,
    reference: Any = None,
    texts: int = 3,
    text_column: str | None = None,
    time_format: str | None = None,
    prefix: str = "",
    on_bad_rows: Literal["error", "skip"] = "error",
) -> Summary:
    """
    Shares of labels among texts, per group and period, with 95 % intervals; of a regression the means of its values.

    Args:
        data: texts, a DataFrame, or a file that `predict` wrote (joined or wide). Texts and a DataFrame without predictions are predicted
            by the model; a file of texts by `hf-emotion summarize`, or with `predict_file` first.
        model: a run folder, a ready model, a Hub id or a predictor: whose errors on validation rows correct the shares; or the errors on labelled
            rows of your own, `metrics.ValidationCounts.of(...)`. None: plain shares.
        by: the column of the groups, or one value for each row.
        time: the column of the times, or one value for each row.
        every: the period of time that is one row of the result.
        labels: those to show; default: all. Of aspects and terms also a sentiment for all of them: "negative".
        reference: data of the same form, to find drift.
        texts: how many typical texts of a group and label are kept.
        text_column: default: "text" or "utterance", where there is one.
        time_format: of times, as in `strptime`; default: ISO 8601.
        prefix: before the names of the prediction's columns.
        on_bad_rows: "skip" leaves out rows whose time cannot be read.

    Raises:
        ValueError: times that cannot be read, no such column, no predictions, labels of another model.
    """
    if every not in PERIODS:
        raise ValueError(f"`every` must be one of {sorted(PERIODS)}, got {every!r}.")

    def read(source: Any, by: Any, time: Any) -> _Rows:
        strings = [name for name in (by, time, text_column, prefix + LABELS) if isinstance(name, str)]
        frame = _table(source, strings)
        usual = ("text", "utterance") if text_column is None else (text_column,)
        if text_column is not None:
            _check_column(list(frame), text_column)
        texts = next((frame[name] for name in usual if name in frame), None)
        rows = _predictions(frame, prefix, texts, model)
        groups, periods = (_keys(frame, asked) for asked in (by, time))
        if by is not None:
            groups = groups.astype(str).where(groups.notna() & (groups != ""), "(none)")
        if time is not None:
            periods = _periods(periods, every, time_format, on_bad_rows)
        whole = frame[[]].assign(group=groups, period=periods, text=texts, language=frame.get(prefix + LANGUAGE))
        about = whole.loc[rows.chosen.index].dropna(subset=["period"])
        if about.empty:
            raise ValueError("there is no row with a prediction: nothing is summarized.")
        if prefix + TERMS in frame:  # rows of one text; files that were joined repeat the numbers
            keys = [frame[prefix + ROW], *(whole[name] for name in whole)]
            first = frame.index.to_series().groupby(keys, dropna=False).transform("min")
            chosen = rows.chosen.loc[about.index].groupby(first[about.index]).any()
            skipped = list(frame[prefix + ROW][sorted(set(first) - set(chosen.index))])
            return _Rows(chosen, None, about=about.loc[chosen.index], skipped=skipped)
        scores = None if rows.scores is None else rows.scores.loc[about.index]
        skipped = list(frame.index.difference(about.index) + 1)
        return _Rows(rows.chosen.loc[about.index], scores, rows.values, about, skipped)

    from scipy.stats import fisher_exact, norm

    rows, past = read(data, by, time), None if reference is None else read(reference, None, None)
    by, time = (asked if isinstance(asked, str | None) else name for name, asked in (("group", by), ("time", time)))
    notes: list[str] = []
    methods, counts = _methods(rows, model, notes)
    method, names = methods[-1], list(rows.chosen)
    if not names:
        raise ValueError("no text has a label: nothing is summarized.")
    ends = {
        label: [name for name in names if name == label or name.endswith(f"/{label}")] for label in labels or names
    }
    wanted = list(dict.fromkeys(name for label, found in ends.items() for name in found or [label]))
    if unknown := sorted(set(wanted) - set(names)):
        raise ValueError(f"no label {unknown}." + (did_you_mean(unknown[0], names) or f" The labels are {names}."))
    columns = [names.index(label) for label in wanted]
    keys = [rows.about["group"], rows.about["period"]]
    sizes = rows.about.groupby(keys).size()
    if len(sizes) > MOST_CELLS:
        raise ValueError(
            f"there are {len(sizes):,} groups and periods, more than {MOST_CELLS:,}: name a column with fewer values, or longer periods."
        )
    scores = () if rows.scores is None else (rows.scores, rows.scores**2)
    sums = [sizes.to_numpy(), *(part.groupby(keys).sum().to_numpy() for part in (rows.chosen, *scores))]
    in_groups = sizes.groupby(level="group").sum().sort_values(ascending=False, kind="stable")
    groups, periods = list(in_groups.index), list(sizes.index.unique("period").sort_values())
    if rows.skipped:
        why = "no prediction" + ", or no time that can be read" * bool(time)
        notes.append(
            f"texts left out: {len(rows.skipped):,}, the first in row {rows.skipped[0]}, because they have {why}."
        )
    if foreign := [code for code in rows.about["language"] if isinstance(code, str) and code]:
        notes.append(
            f"{len(foreign)} of {len(rows.about)} texts are probably in a language that the model does not read "
            f"({', '.join(sorted(set(foreign)))}): their labels mean little."
        )
    pairs_of = f"pairs of group and {every}" if by else f"{every}s"
    for asked, name, texts_in in ((by, "groups", in_groups), (time, pairs_of, sizes)):
        if asked and (tiny := int((texts_in < FEW).sum())):
            notes.append(f"{tiny} of {len(texts_in)} {name} have fewer than {FEW} texts: their intervals are wide.")
    streams = itertools.count(1)

    def observed(cells: Any) -> Observed:
        """The rows of these groups and periods together."""
        size, *values = (part[cells].sum(axis=0) for part in sums)
        return Observed(int(size), *values)

    def measured(group: Any, period: str, cells: Any) -> list[dict[str, Any]]:
        """The shares of all labels in these groups and periods together."""
        seen, stream, found = observed(cells), next(streams), []
        values: dict[str, np.ndarray] = {}
        for name in methods:
            samples = estimates(seen, counts, name, stream)
            values |= dict(zip((name, f"{name}_low", f"{name}_high"), (samples[0], *interval(samples)), strict=True))
        values |= {name: values[method + end] for name, end in (("share", ""), ("low", "_low"), ("high", "_high"))}
        for label, column in zip(wanted, columns, strict=True):
            own = {"group": group, "period": period, "label": label, "rows": seen.rows}
            own |= {} if rows.values else {"chosen": int(seen.chosen[column])}
            found.append(own | {name: float(value[column]) for name, value in values.items()})
        return found

    ordered = sorted(sizes.index, key=lambda cell: (groups.index(cell[0]), cell[1]))
    shares = [one for key in ordered for one in measured(key[0], key[1], [sizes.index.get_loc(key)])]
    if counts is not None and (outside := sum(one["high"] == 0 or one["low"] == 1 for one in shares)):
        notes.append(
            f"{outside} of {len(shares)} shares are 0 or 100 % without an interval: these texts get the label more seldom (oftener) than any "
            "validation texts do. Trust the plain count more."
        )

    compared, of = (groups if by else periods), sizes.index.get_level_values("group" if by else "period")
    pairs: list[tuple] = [(new, old, of == new, of == old) for old, new in itertools.pairwise(compared)]
    if by and len(groups) > 2:
        pairs = [(name, "all others", of == name, of != name) for name in groups]
    differences: list[dict[str, Any]] = []
    for first, second, *cells in pairs:
        a, b = sides = [observed(own) for own in cells]
        drawn = np.subtract(*(estimates(side, counts, method, next(streams)) for side in sides))
        errors = drawn[1:].std(axis=0)
        low, high = interval(drawn)
        for label, column in zip(wanted, columns, strict=True):
            size = drawn[0, column]
            if rows.values:
                p = 2 * norm.sf(abs(size) / errors[column]) if errors[column] > 0 else size == 0
            else:
                hits = [(int(side.chosen[column]), side.rows - int(side.chosen[column])) for side in (a, b)]
                p = fisher_exact(hits).pvalue
            own = {"difference": size, "low": low[column], "high": high[column], "p_value": p}
            own = {name: float(value) for name, value in own.items()}
            differences.append({"label": label, "first": first, "second": second} | own)
    least = 0.0
    for rank, one in enumerate(sorted(differences, key=lambda one: one["p_value"])):  # Holm, 1979
        one["p_holm"] = least = max(least, min(1.0, one["p_value"] * (len(differences) - rank)))
    tested = "Fisher's exact test, two-sided: whether equally many texts of both get the label"
    if rows.values:
        tested = "z-test, two-sided: whether the mean value of both is the same"
    tested += (
        f", with Holm's correction (tests: {len(differences):,}). Both are judged by one model: where it errs more in one of them, the test "
        "sees that, too."
    )
    of_group, period = sizes.index.get_level_values("group"), every if time else None
    overall = [one for group in groups for one in measured(group, "", of_group == group)] if time else []
    found = Summary(len(rows.about), len(rows.skipped), wanted, by, time, period, method, shares, differences, tested)
    found.typical = _typical(rows, differences, groups, wanted, texts)
    found.drift = None if past is None else _drift(rows, past)
    found.notes, found.overall = notes, overall
    return found


def has_predictions(
    path: str | Path, prefix: str = "", encoding: str | None = None, needed: Sequence[str] = ()
) -> bool:
    """Whether `predict` wrote this file; ValueError if it lacks a needed column."""
    path = as_path(path)
    check_file(path)
    columns = columns_of(path, find_separator(path, needed, encoding=encoding), encoding)
    columns = columns or next((list(row) for _, row in all_rows(path, encoding=encoding)), [])
    for name in needed:
        _check_column(columns, name)
    return _written(columns, prefix) != ""


def validation_counts(model: Any) -> ValidationCounts | None:
    """A model's errors on its validation rows, from its metrics.json; None if it keeps none."""
    if model is None or isinstance(model, ValidationCounts):
        return model
    if not isinstance(model, str | Path):
        place = model.model.config._name_or_path
        in_cache = {f"{ready.name}-{ready.key()}": ready.name for ready in ready_models()}
        model = in_cache.get(Path(place).parent.name, place)
    found = find_ready(str(model))
    folder = Path(str(model)) if found is None else found.folder if isinstance(found, ReadyModel) else found
    if not folder.is_dir():
        import huggingface_hub
        from huggingface_hub.errors import RemoteEntryNotFoundError

        from ..runtime.hub import asking_once

        try:
            with asking_once(str(model)):
                folder = Path(huggingface_hub.hf_hub_download(str(model), METRICS)).parent
        except RemoteEntryNotFoundError:  # a model from elsewhere
            return None
    counts = RunReport.read(folder).best.validation_counts if (folder / METRICS).is_file() else None
    return None if counts is None else ValidationCounts.from_dict(counts)


def _table(data: Any, strings: list[str]) -> "pandas.DataFrame":
    """The rows; the columns `strings` of a CSV hold text, even if it looks like numbers."""
    import pandas

    if isinstance(data, pandas.DataFrame):
        return data.reset_index(drop=True)
    if not isinstance(data, str | Path):
        return pandas.DataFrame({"text": pandas.Series(list(data), dtype=object)})
    path = as_path(data)
    check_file(path)
    if format_of(path) == "parquet":
        with open_file(path) as file:
            return pandas.read_parquet(file).reset_index(drop=True)
    if format_of(path) != "csv":
        return pandas.DataFrame([row for _, row in all_rows(path)])
    try:  # Only an empty cell is missing: "None" is a label.
        with open_file(path, "r", encoding=ENCODING, newline="") as file:
            kinds = dict.fromkeys(strings, str)
            return pandas.read_csv(
                file, sep=find_separator(path, []), keep_default_na=False, na_values=[""], dtype=kinds
            )
    except (pandas.errors.ParserError, UnicodeDecodeError) as error:
        raise ValueError(f"{shown(path)} cannot be read: {' '.join(str(error).split())}") from error


def _check_column(columns: Sequence[Any], name: str) -> None:
    """ValueError if there is no such column."""
    if name not in columns:
        raise ValueError(f"no column {name!r}; the columns are {_own(columns)}.")


def _keys(frame: "pandas.DataFrame", asked: str | Sequence[Any] | None) -> "pandas.Series":
    """The values of a column, or the given ones."""
    if isinstance(asked, str):
        _check_column(list(frame), asked)
        return frame[asked]
    return frame.assign(key="" if asked is None else list(asked))["key"]


def _own(columns: Sequence[Any]) -> list[str]:
    """The columns that no prediction added, for messages."""
    return [name for name in map(str, columns) if not re.search("(probability|decision|predicted)_", name)]


def _written(columns: Sequence[Any], prefix: str) -> str:
    """How the columns of predictions begin: `DECISION`, `LABELS` or `VALUE`; "" if there are none."""
    for begin in (DECISION, LABELS, VALUE):
        # a file may have a column `value_...` of its own
        if any(str(name).startswith(prefix + begin) for name in columns) and (
            begin != VALUE or prefix + TRUNCATED in columns
        ):
            return begin
    return ""


@dataclass
class _Rows:
    """
    N rows with a prediction.

    Attributes:
        chosen: (N, C) bool, a column for each label.
        scores: (N, C) float64; None where only the chosen labels are known.
        values: whether the scores are values of a regression.
        about: (N, 4) "group", "period", "text", "language" (of texts that the model does not read).
        skipped: the numbers of the other rows, from 1.
    """

    chosen: "pandas.DataFrame"
    scores: "pandas.DataFrame | None"
    values: bool = False
    about: Any = None
    skipped: Sequence[int] = ()


def _predictions(frame: "pandas.DataFrame", prefix: str, texts: "pandas.Series | None", model: Any) -> _Rows:
    """The predictions in a frame, or those of the model for its texts; without the rows that have none."""
    import pandas

    def part(begin: str) -> "pandas.DataFrame":
        begin = prefix + begin
        names = [name for name in map(str, frame) if name.startswith(begin)]
        return frame[names].rename(columns=lambda name: name.removeprefix(begin))

    written = _written(list(frame), prefix)
    if written == LABELS:
        return _joined(frame, prefix)
    if written:
        return _values(part(VALUE)) if written == VALUE else _wide(part(DECISION), part(PROBABILITY))
    if texts is None or not hasattr(model, "scored_items") or model.task.file_columns.grouped:
        raise ValueError(
            f"there are no predictions (`{prefix}{LABELS}` or `{prefix}{DECISION}LABEL`), only the columns {_own(list(frame))}: give the `model` as a "
            "predictor and a column of texts, or the file that `hf-emotion predict` wrote."
        )
    texts = texts[texts.map(text_processing.is_readable).astype(bool)]
    _, unread, found = model.scored_items(as_texts(texts.tolist()))
    model.warn_unread(unread.counts)
    scores, decisions = (pandas.DataFrame(values, texts.index, model.wide_labels) for values in found)
    return _values(scores) if getattr(model, "regression", False) else _wide(decisions, scores)


def _values(scores: "pandas.DataFrame") -> _Rows:
    scores = scores.astype(float).dropna()
    return _Rows(scores.notna(), scores, values=True)


def _wide(decisions: "pandas.DataFrame", scores: "pandas.DataFrame") -> _Rows:
    import pandas

    words = decisions.apply(
        lambda own: own if own.dtype == bool else own.where(own.notna(), "").astype(str).str.lower()
    )
    words = words[~words.isin(["", "nan"]).all(axis=1)]
    if set(pandas.unique(words.to_numpy().ravel())) <= {True, False, "true", "false"}:
        known = set(words) <= set(scores)  # somebody may have left these columns out
        return _Rows(words.isin([True, "true"]), scores.loc[words.index, list(words)].astype(float) if known else None)
    pairs = pandas.get_dummies(words, prefix_sep="/", dtype=bool)  # of aspects: a label for each aspect and sentiment
    return _Rows(pairs[[name for name in pairs if not name.endswith(("/none", "/nan", "/"))]], None)


def _joined(frame: "pandas.DataFrame", prefix: str) -> _Rows:
    import pandas

    def joined(cell: Any) -> str:
        if cell is None or isinstance(cell, str | float):  # NaN
            return cell if isinstance(cell, str) else ""
        if any(not isinstance(label, str) for label in cell):
            raise ValueError("the rows hold whole dialogues: predict a file with one row for each turn.")
        return "|".join(cell)

    if prefix + TRUNCATED in frame:  # it is empty in rows without a prediction
        frame = frame[~frame[prefix + TRUNCATED].astype(str).str.lower().fillna("").isin(["", "nan", "none"])]
    cells = frame[prefix + LABELS].map(joined)
    if prefix + TRUNCATED not in frame:
        cells = cells[cells != ""]
    separator = "|"
    if prefix + TERMS in frame:  # a row for each term, or for a text without a term
        _check_column(list(frame), prefix + ROW)
        separator = "\0"
        cells = (frame[prefix + TERMS].map(joined).str.lower() + "/" + cells).where(cells != "", "")
        once = cells[(cells != "") & ~frame[[prefix + ROW]].assign(pair=cells).duplicated()]
        cells = cells.where(cells.isin(once.value_counts().index[:MOST_TERMS]), "")
    codes, distinct = pandas.factorize(cells)
    if len(distinct) == 1 < len(cells) and "|" in distinct[0]:
        raise ValueError(
            "all rows have the same labels (values of a regression, or all labels by `top_k`): predict with --columns wide."
        )
    table = pandas.Series(distinct, dtype=object).str.get_dummies(separator).astype(bool)
    table = table.drop(columns=["", text_processing.ABSTAINED], errors="ignore")
    if prefix + TERMS in frame and prefix + SCORES in frame:  # of equally frequent ones the surer come first
        sure = pandas.to_numeric(frame[prefix + SCORES].explode(), errors="coerce").groupby(cells).mean()
        table = table[sorted(table, key=lambda pair: -sure[pair])]
    chosen, scores = table.iloc[codes].set_axis(cells.index), None
    if prefix + ALL_SCORES in frame:
        objects = [json.loads(cell) if isinstance(cell, str) else cell for cell in frame[prefix + ALL_SCORES]]
        scores = pandas.DataFrame(objects, cells.index, dtype=float)
        chosen = chosen.reindex(columns=scores.columns, fill_value=False)
    return _Rows(chosen, scores)


def _periods(values: "pandas.Series", every: str, time_format: str | None, on_bad_rows: str) -> "pandas.Series":
    """The first day (hour) of the period of each time; missing for a time that cannot be read, where that is allowed."""
    import pandas

    times = pandas.to_datetime(values.astype(str), format=time_format or "ISO8601", errors="coerce", utc=True)
    if (bad := times.isna()).any() and on_bad_rows == "error":
        first = int(np.flatnonzero(bad)[0])
        raise ValueError(
            f"{int(bad.sum())} of {len(values)} times cannot be read, first in row {first + 1}: {values.iloc[first]!r}. Write 2026-11-27 or "
            "2026-11-27T15:30, name the form (--time-format %d/%m/%Y), or leave such rows out (--on-bad-rows skip)."
        )
    starts = times.dt.tz_localize(None).dt.to_period(PERIODS[every]).dt.start_time
    return starts.dt.strftime("%Y-%m-%d %H:00" if every == "hour" else "%Y-%m-%d")


def _methods(rows: _Rows, model: Any, notes: list[str]) -> tuple[list[str], ValidationCounts | None]:
    """The methods that these rows allow, the last is the one to show, and the model's errors, whose labels the rows get in their order."""
    if rows.values:
        return ["mean"], None
    counts, labels = validation_counts(model), list(rows.chosen)
    why = f"{model} keeps no errors on validation rows (train it anew)" if counts is None else ""
    if any("/" in label and (counts is None or label not in counts.labels) for label in labels):
        why = "there is no correction for aspects and terms"
    elif model is None:
        why = "no model is named (`model`, --model), whose errors correct them"
    elif counts is not None and set(getattr(model, "labels", counts.labels)) != set(counts.labels):
        why = "the model keeps its errors for its own labels, and gives others (a taxonomy, added labels)"
    if counts is None or why:
        notes.append(f"The shares are plain counts: {why}.")
        return ["plain"], None
    here, there = (sorted(set(a) - set(b)) for a, b in ((labels, counts.labels), (counts.labels, labels)))
    if here or (rows.scores is not None and there):
        raise ValueError(
            f"the predictions are of another model than {model}: only in them {here[:5]}, only in the model {there[:5]}."
        )
    rows.chosen = rows.chosen.reindex(columns=counts.labels, fill_value=False)
    chosen = rows.chosen.to_numpy()
    off = 0 if counts.multi_label else (chosen.sum(axis=1) != 1).sum()
    if rows.scores is None:
        notes.append("Only chosen labels are known: --columns wide would allow the probabilistic correction.")
    else:
        rows.scores = rows.scores[counts.labels]
        if counts.multi_label:
            off = ((rows.scores.to_numpy() > counts.thresholds) != chosen).sum()
    fits = bool(off <= OFF_THRESHOLD * chosen.sum())
    if not fits:
        notes.append(
            "The labels were chosen in another way than the model's own (thresholds, `top_k`, an abstention): adjusted counts are left out."
        )
    return ["plain"] + ["adjusted"] * fits + ["probabilistic"] * (rows.scores is not None), counts


def _typical(
    rows: _Rows, differences: list[dict[str, Any]], groups: list[str], wanted: list[str], texts: int
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


def _drift(rows: _Rows, past: _Rows) -> dict[str, Any]:
    """
    The population stability index Σ (a − b) ln(a / b) over the reference's tenths of a label's probability, or over chosen or not, with half a row
    more in each bin (Siddiqi, 2006, "Credit Risk Scorecards": below 0.1 stable, above 0.25 a large change); and the words with the largest z of
    the log odds ratio (Monroe et al., 2008, "Fightin' Words", eq. 15 and 16 without a prior) between the share of texts that hold them.
    """
    sides = (rows, past)
    stability = {}
    for label in rows.chosen:
        values: list[Any] = [side.chosen.get(label, np.zeros(len(side.about))) for side in sides]
        edges = np.array([0.5])
        if rows.scores is not None and past.scores is not None and label in past.scores:
            values = [rows.scores[label], past.scores[label]]
            edges = np.unique(np.quantile(values[1], np.arange(1, 10) / 10))
        bins = [np.bincount(np.searchsorted(edges, own, side="right"), minlength=len(edges) + 1) for own in values]
        a, b = ((own + 0.5) / (own.sum() + 0.5 * len(own)) for own in bins)
        stability[label] = float(((a - b) * np.log(a / b)).sum())
    now, then = (
        Counter(word for text in side.about["text"].dropna() for word in set(WORD.findall(str(text).lower())))
        for side in sides
    )
    words: list[dict[str, Any]] = []
    for word, texts in now.items():
        cells = np.array([texts, len(rows.about) - texts, then[word], len(past.about) - then[word]]) + 0.5
        z = float(np.log(cells[0] * cells[3] / cells[1] / cells[2]) / np.sqrt((1 / cells).sum()))
        if texts >= FEWEST_TEXTS and z > 1.96:
            words.append({"word": word, "texts": texts, "before": then[word], "z": z})
    words.sort(key=lambda word: -word["z"])
    return {"reference_rows": len(past.about), "stability": stability, "words": words[:WORDS_SHOWN]}
