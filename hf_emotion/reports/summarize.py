# SPDX-License-Identifier: Apache-2.0
"""From predictions to shares of labels (means of values), per group and over time, corrected for the model's errors, with 95 % intervals."""

import itertools
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..data.files import ENCODING, all_rows, columns_of, find_separator, format_of
from ..io.files import finite_or_none
from ..io.paths import as_path, check_file, open_file, shown
from ..metrics.quantification import Observed, ValidationCounts, estimates, interval
from ..run_report import RunReport
from ..runtime.batching import as_texts
from ..runtime.names import METRICS
from ..runtime.plain import text_processing
from ..runtime.ready import ReadyModel, find_ready, ready_models


if TYPE_CHECKING:
    import pandas

MOST_CELLS = 2_000  # groups and periods
MOST_TERMS = 50
PERIODS = {"hour": "h", "day": "D", "week": "W", "month": "M", "quarter": "Q", "year": "Y"}
LARGE_DRIFT = 0.25
WORDS_SHOWN, FEWEST_TEXTS = 20, 5
OFF_THRESHOLD = 0.005  # share of chosen labels that may contradict the thresholds: files round probabilities
Every = Literal["hour", "day", "week", "month", "quarter", "year"]
# what `serving.file_rows` calls the columns of predictions
LABELS, ALL_SCORES, TERMS, TRUNCATED = "predicted_labels", "all_scores", "predicted_terms", "truncated"
PROBABILITY, DECISION, VALUE = "probability_", "decision_", "value_"


@dataclass
class Summary:
    """
    What `summarize` found. All fields are ready for JSON.

    Attributes:
        rows, skipped: rows with a prediction, and without one (or without a time).
        labels: C names.
        by, time, every: as they were asked for.
        method: what the column `share` holds: "probabilistic" or "adjusted" counts, "plain" ones without a correction, or the "mean" of values.
        shares: for each group, period and label "group", "period", "label", "rows", "share", "low", "high", of labels "chosen", and for each
            method METHOD, METHOD_low, METHOD_high.
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
    shares: list[dict[str, Any]]
    differences: list[dict[str, Any]]
    tested: str
    typical: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    drift: dict[str, Any] | None = None
    notes: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """What JSON holds; None stands for what is not known."""
        return finite_or_none(asdict(self))

    @property
    def clear(self) -> list[dict[str, Any]]:
        """The differences with `p_holm` below 0.05, the largest first."""
        found = [one for one in self.differences if one["p_holm"] < 0.05]
        return sorted(found, key=lambda one: -abs(one["difference"]))

    @property
    def largest(self) -> list[dict[str, Any]]:
        """The shares, the largest first, unknown ones last."""
        return sorted(self.shares, key=lambda one: (one["share"] != one["share"], -one["share"]))

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

    def __repr__(self) -> str:
        kinds = [f"by={self.by!r}"] * bool(self.by) + [f"time={self.time!r}, every={self.every!r}"] * bool(self.time)
        return f"Summary({', '.join([f'{self.rows} rows', f'{len(self.labels)} labels', *kinds, self.method])})"


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
    separator: str | None = None,
    encoding: str | None = None,
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
        labels: those to show; default: all.
        reference: data of the same form, to find drift.
        texts: how many typical texts of a group and label are kept.
        text_column: default: "text" or "utterance", where there is one.
        time_format: of times, as in `strptime`; default: ISO 8601.
        prefix: before the names of the prediction's columns.
        on_bad_rows: "skip" leaves out rows whose time cannot be read.
        separator, encoding: of a text file.

    Raises:
        ValueError: times that cannot be read, no such column, no predictions, labels of another model.
    """
    import pandas

    if every not in PERIODS:
        raise ValueError(f"`every` must be one of {sorted(PERIODS)}, got {every!r}.")

    def read(source: Any, by: Any, time: Any) -> _Rows:
        strings = [name for name in (by, time, text_column, prefix + LABELS) if isinstance(name, str)]
        frame = _table(source, strings, separator, encoding)
        rows = _predictions(frame, prefix, text_column, model)
        keys = pandas.DataFrame({"group": "", "period": ""}, frame.index)
        if by is not None:
            keys["group"] = frame[_column(frame, by)] if isinstance(by, str) else list(by)
            keys["group"] = keys["group"].astype(str).where(keys["group"].notna() & (keys["group"] != ""), "(none)")
        if time is not None:
            keys["period"] = frame[_column(frame, time)] if isinstance(time, str) else list(time)
            keys["period"] = _periods(keys["period"], every, time_format, on_bad_rows)
        return rows.kept(keys)

    here = read(data, by, time)
    names = [
        value if value is None or isinstance(value, str) else name for name, value in (("group", by), ("time", time))
    ]
    past = None if reference is None else read(reference, None, None)
    return _summary(here, past, model, names[0], names[1], every, labels, texts)


def has_predictions(
    path: str | Path, prefix: str = "", separator: str | None = None, encoding: str | None = None
) -> bool:
    """Whether `predict` wrote this file."""
    path = as_path(path)
    check_file(path)
    columns = columns_of(path, find_separator(path, [], separator, encoding), encoding)
    return _written(columns or next((list(row) for _, row in all_rows(path, encoding=encoding)), []), prefix) != ""


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
        from huggingface_hub import hf_hub_download

        folder = Path(hf_hub_download(str(model), METRICS)).parent
    counts = RunReport.read(folder).best.validation_counts if (folder / METRICS).is_file() else None
    return None if counts is None else ValidationCounts.from_dict(counts)


def _table(data: Any, strings: list[str], separator: str | None, encoding: str | None) -> "pandas.DataFrame":
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
            return pandas.read_parquet(file)
    if format_of(path) != "csv":
        return pandas.DataFrame([row for _, row in all_rows(path, encoding=encoding)])
    separator = find_separator(path, [], separator, encoding)
    try:  # Only an empty cell is missing: "None" is a label.
        with open_file(path, "r", encoding=encoding or ENCODING, newline="") as file:
            kinds = dict.fromkeys(strings, str)
            return pandas.read_csv(file, sep=separator, keep_default_na=False, na_values=[""], dtype=kinds)
    except (pandas.errors.ParserError, UnicodeDecodeError) as error:
        raise ValueError(f"{shown(path)} cannot be read: {' '.join(str(error).split())}") from error


def _column(frame: "pandas.DataFrame", name: str) -> str:
    """The name; ValueError if there is no such column."""
    if name not in frame.columns:
        raise ValueError(f"no column {name!r}; the columns are {_own(frame)}.")
    return name


def _own(frame: "pandas.DataFrame") -> list[str]:
    """The columns that no prediction added, for messages."""
    return [name for name in map(str, frame.columns) if not re.search("(probability|decision|predicted)_", name)]


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
    Predictions of N rows.

    Attributes:
        chosen: (N, C) bool, a column for each label.
        scores: (N, C) float64; None where only the chosen labels are known.
        good: (N,) bool, whether there is a prediction.
        texts: (N,); None if there is no column of texts.
        values: whether the scores are values of a regression.
        keys: (N, 2) "group", "period".
        skipped: rows that `kept` left out.
    """

    chosen: "pandas.DataFrame"
    scores: "pandas.DataFrame | None"
    good: np.ndarray
    texts: "pandas.Series | None" = None
    values: bool = False
    keys: Any = None
    skipped: int = 0

    def kept(self, keys: "pandas.DataFrame") -> "_Rows":
        """The rows with a prediction and with a period."""
        good = self.good & keys["period"].notna().to_numpy()
        if not good.any():
            raise ValueError("there is no row with a prediction: nothing is summarized.")
        scores, texts = (None if part is None else part[good] for part in (self.scores, self.texts))
        return _Rows(self.chosen[good], scores, good[good], texts, self.values, keys[good], int((~good).sum()))


def _predictions(frame: "pandas.DataFrame", prefix: str, text_column: str | None, model: Any) -> _Rows:
    """The predictions in a frame, or those of the model for its texts."""
    import pandas

    usual = ("text", "utterance") if text_column is None else (_column(frame, text_column),)
    text = next((name for name in usual if name in frame.columns), None)

    def part(begin: str) -> "pandas.DataFrame":
        names = [str(name) for name in frame.columns if str(name).startswith(prefix + begin)]
        return frame[names].rename(columns=lambda name: name.removeprefix(prefix + begin))

    written = _written(frame.columns, prefix)
    if written == DECISION:
        rows = _wide(part(DECISION), part(PROBABILITY))
    elif written == VALUE:
        rows = _values(part(VALUE))
    elif written == LABELS:
        rows = _joined(frame, prefix)
    elif text is None or not hasattr(model, "scored_items"):
        raise ValueError(
            f"there are no predictions (`{prefix}{LABELS}` or `{prefix}{DECISION}LABEL`), only the columns {_own(frame)}: give the `model` as a "
            "predictor and a column of texts, or the file that `hf-emotion predict` wrote."
        )
    else:
        good = frame[text].map(text_processing.is_readable).to_numpy(bool)
        _, _, found = model.scored_items(as_texts(frame.loc[good, text].tolist()))
        scores, decisions = (
            pandas.DataFrame(values, frame.index[good], model.wide_labels).reindex(frame.index) for values in found
        )
        rows = _values(scores) if getattr(model, "regression", False) else _wide(decisions, scores)
    rows.texts = None if text is None else frame[text]
    return rows


def _values(scores: "pandas.DataFrame") -> _Rows:
    scores = scores.astype(float)
    return _Rows(scores.notna(), scores, scores.notna().all(axis=1).to_numpy(), values=True)


def _wide(decisions: "pandas.DataFrame", scores: "pandas.DataFrame") -> _Rows:
    import pandas

    words = decisions.apply(lambda own: own if own.dtype == bool else own.astype(str).str.lower().fillna(""))
    if set(pandas.unique(words.to_numpy().ravel())) <= {True, False, "true", "false", "nan", "none", ""}:
        scores = scores[list(words)].astype(float)
        return _Rows(words.isin([True, "true"]), scores, scores.notna().all(axis=1).to_numpy())
    pairs = pandas.get_dummies(words, prefix_sep="/", dtype=bool)  # of aspects: a label for each aspect and sentiment
    named = [name for name in pairs if not name.endswith(("/none", "/nan", "/"))]
    return _Rows(pairs[named], None, ~words.isin(["", "nan"]).all(axis=1).to_numpy())


def _joined(frame: "pandas.DataFrame", prefix: str) -> _Rows:
    import pandas

    def joined(cell: Any) -> str:
        if cell is None or isinstance(cell, str | float):  # NaN
            return cell if isinstance(cell, str) else ""
        if any(not isinstance(label, str) for label in cell):
            raise ValueError("the rows hold whole dialogues: predict a file with one row for each turn.")
        return "|".join(cell)

    cells = frame[prefix + LABELS].map(joined)
    read = cells if prefix + TRUNCATED not in frame else frame[prefix + TRUNCATED].astype(str).str.lower().fillna("")
    good = ~read.isin(["", "nan", "none"]).to_numpy()
    if prefix + TERMS in frame:  # a row for each term; a text without a term is none
        good &= (cells != "").to_numpy()
        cells = frame[prefix + TERMS].map(joined).str.lower() + "/" + cells
        cells = cells.where(cells.isin(cells[good].value_counts().index[:MOST_TERMS]), "")
    codes, distinct = pandas.factorize(cells)
    if len(set(cells[good])) == 1 < good.sum() and "|" in cells[good].iloc[0]:
        raise ValueError(
            "all rows have the same labels (values of a regression, or all labels by `top_k`): predict with --columns wide."
        )
    separator = "\0" if prefix + TERMS in frame else "|"
    table = pandas.Series(distinct, dtype=object).str.get_dummies(separator).astype(bool)
    table = table.drop(columns=["", text_processing.ABSTAINED], errors="ignore")
    chosen, scores = table.iloc[codes].reset_index(drop=True), None
    if (every := frame.get(prefix + ALL_SCORES)) is not None:
        objects = [json.loads(cell) if isinstance(cell, str) else cell or {} for cell in every.where(good, "{}")]
        scores = pandas.DataFrame(objects).astype(float)
        chosen = chosen.reindex(columns=scores.columns, fill_value=False)
    return _Rows(chosen, scores, good)


def _periods(values: "pandas.Series", every: str, time_format: str | None, on_bad_rows: str) -> "pandas.Series":
    """The first day (hour) of the period of each time; missing for a time that cannot be read, where that is no error."""
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
    """
    The methods that these predictions allow, the last is the one to show, and the model's errors; brings the labels of the rows into their
    order.
    """
    if rows.values:
        return ["mean"], None
    counts, labels = validation_counts(model), list(rows.chosen)
    if any("/" in label and (counts is None or label not in counts.labels) for label in labels):
        notes.append("The shares are plain counts: there is no correction for aspects and terms.")
        return ["plain"], None
    if counts is None:
        why = f"{model} keeps no errors on validation rows (train it anew)"
        why = "no model is named (`model`, --model)" if model is None else why
        notes.append(f"The shares are plain counts: {why}, so the model's errors are not corrected.")
        return ["plain"], None
    here, there = (sorted(set(a) - set(b)) for a, b in ((labels, counts.labels), (counts.labels, labels)))
    if here or (rows.scores is not None and there):
        raise ValueError(
            f"the predictions are of another model than {model}: only in them {here[:5]}, only in the model {there[:5]}."
        )
    chosen = rows.chosen = rows.chosen.reindex(columns=counts.labels, fill_value=False)
    if rows.scores is None:
        notes.append("Only chosen labels are known: --columns wide would allow the probabilistic correction.")
    else:
        rows.scores = rows.scores[counts.labels]
    fits = bool((chosen.sum(axis=1) == 1).all()) or counts.multi_label
    if counts.multi_label and rows.scores is not None:
        off = (rows.scores.to_numpy() > counts.thresholds) != chosen.to_numpy()
        fits = off.sum() <= OFF_THRESHOLD * chosen.to_numpy().sum()
    if not fits:
        notes.append(
            "The labels were chosen in another way than the model's own (thresholds, `top_k`, an abstention): adjusted counts are left out."
        )
    return ["plain"] + ["adjusted"] * bool(fits) + ["probabilistic"] * (rows.scores is not None), counts


def _summary(
    rows: _Rows,
    past: _Rows | None,
    model: Any,
    by: str | None,
    time: str | None,
    every: str,
    wanted: Sequence[str] | None,
    texts: int,
) -> Summary:
    notes: list[str] = []
    methods, counts = _methods(rows, model, notes)
    method, labels = methods[-1], list(rows.chosen)
    wanted = list(wanted or labels)
    if unknown := sorted(set(wanted) - set(labels)):
        raise ValueError(f"no label {unknown}; the labels are {labels}.")
    columns = [labels.index(label) for label in wanted]
    keys = [rows.keys["group"], rows.keys["period"]]
    sizes = rows.keys.groupby(keys).size()
    if len(sizes) > MOST_CELLS:
        raise ValueError(
            f"there are {len(sizes):,} groups and periods, more than {MOST_CELLS:,}: name a column with fewer values, or longer periods."
        )
    scores = () if rows.scores is None else (rows.scores, rows.scores**2)
    sums = [sizes.to_numpy(), *(part.groupby(keys).sum().to_numpy() for part in (rows.chosen, *scores))]
    in_groups = sizes.groupby(level="group").sum().sort_values(ascending=False, kind="stable")
    groups, periods = list(in_groups.index), sorted(sizes.index.unique("period"))
    if rows.skipped:
        notes.append(f"{rows.skipped} rows are left out: they have no prediction, or no time that can be read.")
    if by and (tiny := int((in_groups < 30).sum())):
        notes.append(f"{tiny} of {len(in_groups)} groups have fewer than 30 rows: their intervals are wide.")

    def observed(cells: Any) -> Observed:
        """The rows of these cells together."""
        size, *values = (part[cells].sum(axis=0) for part in sums)
        return Observed(int(size), *values)

    shares: list[dict[str, Any]] = []
    streams = itertools.count(1)
    for group, period in ((g, p) for g in groups for p in periods if (g, p) in sizes.index):
        seen, stream = observed([sizes.index.get_loc((group, period))]), next(streams)
        own = [{"group": group, "period": period, "label": label, "rows": seen.rows} for label in wanted]
        for one, column in zip(own, columns, strict=True):
            one |= {} if rows.values else {"chosen": int(seen.chosen[column])}
        for name in methods:
            samples = estimates(seen, counts, name, stream)[:, columns]
            for one, values in zip(own, np.stack([samples[0], *interval(samples)], axis=1).tolist(), strict=True):
                one |= dict(zip((name, f"{name}_low", f"{name}_high"), values, strict=True))
                one |= dict(zip(("share", "low", "high"), values, strict=True))  # those of the last method stay
        shares += own
    if counts is not None and (outside := sum(one["high"] == 0 or one["low"] == 1 for one in shares)):
        notes.append(
            f"{outside} of {len(shares)} shares are 0 or 100 % without an interval: there these texts get the label more seldom (oftener) than any "
            "validation texts, which they differ from in more than how frequent labels are. Trust the plain count more."
        )
    pairs: list[
        tuple
    ] = []  # each group and all other rows (of two: the first and the second), or each period and the one before
    names, of = (groups if by else periods if time else []), sizes.index.get_level_values("group" if by else "period")
    if not by or len(names) == 2:
        pairs = [(new, old, of == new, of == old) for old, new in itertools.pairwise(names)]
    elif len(names) > 2:
        pairs = [(name, "all others", of == name, of != name) for name in names]
    differences: list[dict[str, Any]] = []
    for first, second, *cells in pairs:
        sides = [observed(own) for own in cells]
        a, b = (estimates(side, counts, method, next(streams))[:, columns] for side in sides)
        low, high = interval(a - b)
        for row, (label, column) in enumerate(zip(wanted, columns, strict=True)):
            values = map(float, (a[0, row] - b[0, row], low[row], high[row]))
            test = {"label": label, "first": first, "second": second, "p_value": _p_value(sides, column, rows.values)}
            differences.append(test | dict(zip(("difference", "low", "high"), values, strict=True)))
    least = 0.0
    for rank, one in enumerate(sorted(differences, key=lambda one: one["p_value"])):  # Holm, 1979
        one["p_holm"] = least = max(least, min(1.0, one["p_value"] * (len(differences) - rank)))
    tested = "Fisher's exact test, two-sided: whether equally many rows of both get the label"
    if rows.values:
        tested = "Welch's t-test, two-sided: whether the mean value of both is the same"
    tested += (
        f"; p_holm: with Holm's correction for {len(differences)} tests. Both are judged by one model: where it errs more in one of them, the test "
        "sees that, too."
    )
    result = Summary(
        len(rows.good), rows.skipped, wanted, by, time, every if time else None, method, shares, differences, tested
    )
    result.notes, result.drift = notes, None if past is None else _drift(rows, past)
    if texts and rows.texts is not None:
        result.typical = _typical(rows, differences, groups, wanted, texts)
    return result


def _p_value(sides: list[Observed], column: int, values: bool) -> float:
    from scipy.stats import fisher_exact, ttest_ind_from_stats

    if not values:
        hits = [(int(side.chosen[column]), side.rows) for side in sides]
        return float(fisher_exact([[count, rows - count] for count, rows in hits]).pvalue)
    moments: list[float] = []
    for side in sides:
        mean, deviation = side.mean_and_deviation()
        moments += [mean[column], deviation[column], side.rows]
    with np.errstate(invalid="ignore", divide="ignore"):
        found = float(ttest_ind_from_stats(*moments, equal_var=False).pvalue)
    return 1.0 if np.isnan(found) else found


def _typical(
    rows: _Rows, differences: list[dict[str, Any]], groups: list[str], wanted: list[str], texts: int
) -> dict[str, dict[str, list[str]]]:
    """The surest texts of the three labels that are most over-represented in a group, else of its three most frequent ones."""
    import pandas

    weight: dict[tuple, float] = rows.chosen.groupby(rows.keys["group"]).sum().stack().to_dict()
    for one in differences:
        weight[one["first"], one["label"]] = one["difference"]
        weight[one["second"], one["label"]] = -one["difference"]
    best: dict[str, dict[str, list[str]]] = {}
    for label in wanted:
        chosen = rows.chosen[label]
        found = pandas.DataFrame({"group": rows.keys["group"][chosen], "text": rows.texts[chosen].astype(str)})
        if rows.scores is not None:
            found = found.loc[rows.scores[label][chosen].sort_values(ascending=False, kind="stable").index]
        found = found.drop_duplicates().groupby("group").head(texts)
        best[label] = {group: own.tolist() for group, own in found.groupby("group")["text"]}
    typical = {}
    for group in groups:
        ranked = sorted((label for label in wanted if group in best[label]), key=lambda one: -weight[group, one])
        typical[group] = {label: best[label][group] for label in ranked[:3]}
    return {group: found for group, found in typical.items() if found}


def _words(rows: _Rows) -> Counter[str]:
    """In how many texts each word is."""
    texts: Iterator[str] = iter(()) if rows.texts is None else map(str, rows.texts)
    return Counter(word for text in texts for word in set(re.findall(r"[^\W\d_]{3,}", text.lower())))


def _drift(rows: _Rows, past: _Rows) -> dict[str, Any]:
    """
    The population stability index Σ (a − b) ln(a / b) over the reference's tenths of a label's probability, or over chosen or not, with half a row
    more in each bin (Siddiqi, 2006, "Credit Risk Scorecards": below 0.1 stable, above 0.25 a large change); and the words with the largest z of
    the log odds ratio (Monroe et al., 2008, "Fightin' Words", eq. 15 and 16 without a prior) between the share of texts that hold them.
    """
    stability = {}
    for label in rows.chosen:
        sides = [one.chosen.get(label, np.zeros(len(one.good))) for one in (rows, past)]
        edges = np.array([0.5])
        if rows.scores is not None and past.scores is not None and label in past.scores:
            sides = [rows.scores[label], past.scores[label]]
            edges = np.unique(np.quantile(sides[1], np.arange(1, 10) / 10))
        bins = [np.bincount(np.searchsorted(edges, one, side="right"), minlength=len(edges) + 1) for one in sides]
        a, b = ((values + 0.5) / (values.sum() + 0.5 * len(values)) for values in bins)
        stability[label] = float(((a - b) * np.log(a / b)).sum())
    words: list[dict[str, Any]] = []
    earlier = _words(past)
    for word, texts in _words(rows).items():
        before = earlier[word]
        cells = np.array([texts, len(rows.good) - texts, before, len(past.good) - before]) + 0.5
        z = float(np.log(cells[0] * cells[3] / cells[1] / cells[2]) / np.sqrt((1 / cells).sum()))
        if texts >= FEWEST_TEXTS and z > 1.96:
            words.append({"word": word, "texts": texts, "before": before, "z": z})
    words.sort(key=lambda word: -word["z"])
    return {"reference_rows": len(past.good), "stability": stability, "words": words[:WORDS_SHOWN]}
