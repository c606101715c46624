# SPDX-License-Identifier: Apache-2.0
"""From many predictions to shares of labels, per group and over time, corrected for the model's errors, with 95 % intervals."""

import dataclasses
import itertools
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from ..data.files import ENCODING, all_rows, columns_of, find_separator, format_of
from ..io.files import finite_or_none
from ..io.paths import as_path, check_file, open_file, shown
from ..io.progress import progress_bar
from ..metrics.quantification import Observed, ValidationCounts, estimates, interval
from ..run_report import RunReport
from ..runtime.batching import as_texts
from ..runtime.names import METRICS
from ..runtime.plain import text_processing
from ..runtime.ready import ReadyModel, find_ready, ready_models


if TYPE_CHECKING:
    import pandas

ROWS_AT_ONCE = 50_000
MOST_GROUPS, MOST_CELLS = 500, 20_000
PERIODS = {"hour": "h", "day": "D", "week": "W", "month": "M", "quarter": "Q", "year": "Y"}
EDGES = np.array(
    [0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9]
)  # of the ten bins of probabilities that drift compares
LARGE_DRIFT = 0.25
WORDS_SHOWN, FEWEST_TEXTS = 20, 5
OFF_THRESHOLD = 0.005  # share of chosen labels that may contradict the thresholds: files round probabilities
Every = Literal["hour", "day", "week", "month", "quarter", "year"]
# what `serving.file_rows` calls the columns of predictions
LABELS, ALL_SCORES, PROBABILITY, DECISION = "predicted_labels", "all_scores", "probability_", "decision_"


@dataclass
class Summary:
    """
    What `summarize` found. All fields are ready for JSON.

    Attributes:
        rows, skipped: rows with a prediction, and without one (or without a time).
        labels: C names.
        by, time, every: as they were asked for.
        method: the correction in the columns `share`, `low`, `high`: "probabilistic", "adjusted", or "plain" without a correction.
        shares: for each group, period and label "group", "period", "label", "rows", "chosen", "share", "low", "high", and for each
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

    def to_frame(self) -> "pandas.DataFrame":
        """The shares as a table."""
        import pandas

        return pandas.DataFrame(self.shares)

    def to_html(self) -> str:
        """The page with plots, see `summary_page`."""
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
    progress: bool = False,
    **reading: Any,
) -> Summary:
    """
    Shares of labels among texts, per group and period, with 95 % intervals.

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
        reading: the fields of `Reading`.

    Raises:
        ValueError: times that cannot be read, no such column, no predictions, labels of another model.
    """
    if every not in PERIODS:
        raise ValueError(f"`every` must be one of {sorted(PERIODS)}, got {every!r}.")
    counts, how = validation_counts(model), Reading(**reading)
    tally = _Tally(how, model, counts, reference is not None)
    tally.read(data, by, time, every, progress)
    past = None
    if reference is not None:
        past = _Tally(dataclasses.replace(how, texts=0), model, None, True)
        past.read(reference, None, None, every, progress)
    names = [
        value if value is None or isinstance(value, str) else name for name, value in (("group", by), ("time", time))
    ]
    return tally.summary(names[0], names[1], every, labels, past)


@dataclass(frozen=True)
class Reading:
    """
    How a summary reads data.

    Attributes:
        text_column: default: "text" or "utterance", where there is one.
        time_format: of times, as in `strptime`; default: ISO 8601.
        prefix: before the names of the prediction's columns.
        on_bad_rows: "skip" leaves out rows whose time cannot be read.
        texts: how many typical texts of a group and label are kept.
        separator, encoding: of a text file.
    """

    text_column: str | None = None
    time_format: str | None = None
    prefix: str = ""
    on_bad_rows: Literal["error", "skip"] = "error"
    texts: int = 3
    separator: str | None = None
    encoding: str | None = None

    def text_of(self, frame: "pandas.DataFrame") -> str | None:
        """The column of the texts; None if there is none."""
        names = ("text", "utterance") if self.text_column is None else (_column(frame, self.text_column),)
        return next((name for name in names if name in frame.columns), None)


def has_predictions(
    path: str | Path, prefix: str = "", separator: str | None = None, encoding: str | None = None
) -> bool:
    """Whether `predict` wrote this file."""
    path = as_path(path)
    check_file(path)
    separator = find_separator(path, [], separator, encoding)
    columns = columns_of(path, separator, encoding) or next(
        (list(row) for _, row in all_rows(path, encoding=encoding)), []
    )
    return any(name == prefix + LABELS or name.startswith(prefix + DECISION) for name in columns)


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


def _frames(data: Any, how: Reading) -> Iterator["pandas.DataFrame"]:
    """The rows in pieces."""
    import pandas
    import pyarrow.parquet

    if isinstance(data, pandas.DataFrame):
        yield data.reset_index(drop=True)
        return
    if not isinstance(data, str | Path):
        yield pandas.DataFrame({"text": pandas.Series(list(data), dtype=object)})
        return
    path = as_path(data)
    if format_of(path) == "parquet":
        with open_file(path) as opened, pyarrow.parquet.ParquetFile(opened) as file:
            yield from (batch.to_pandas() for batch in file.iter_batches(ROWS_AT_ONCE))
    elif format_of(path) == "csv":
        try:  # Strings stay strings: the label "None" is no missing value.
            with open_file(path, "r", encoding=how.encoding or ENCODING, newline="") as file:
                separator = find_separator(path, [], how.separator, how.encoding)
                yield from pandas.read_csv(
                    file, sep=separator, keep_default_na=False, dtype=str, chunksize=ROWS_AT_ONCE
                )
        except (pandas.errors.ParserError, UnicodeDecodeError) as error:
            raise ValueError(f"{shown(path)} cannot be read: {' '.join(str(error).split())}") from error
    else:
        rows = [row for _, row in all_rows(path, encoding=how.encoding)]
        for start in range(0, len(rows), ROWS_AT_ONCE):
            yield pandas.DataFrame(rows[start : start + ROWS_AT_ONCE])


def _column(frame: "pandas.DataFrame", name: str) -> str:
    """The name; ValueError if there is no such column."""
    if name not in frame.columns:
        raise ValueError(f"no column {name!r}; the columns are {_own(frame)}.")
    return name


def _own(frame: "pandas.DataFrame") -> list[str]:
    """The columns that no prediction added, for messages."""
    return [name for name in map(str, frame.columns) if not re.search("(probability|decision|predicted)_", name)]


class _Predicted(NamedTuple):
    """
    Predictions of N rows.

    Attributes:
        chosen: (N, C) bool, a column for each label.
        scores: (N, C); None where only the chosen labels are known.
        good: (N,) bool, whether there is a prediction.
    """

    chosen: "pandas.DataFrame"
    scores: "pandas.DataFrame | None"
    good: np.ndarray


def _predictions(frame: "pandas.DataFrame", how: Reading, model: Any) -> _Predicted:
    """The predictions in a frame, or those of the model for its texts."""
    import pandas

    begin = how.prefix + DECISION
    labels = [str(name).removeprefix(begin) for name in frame.columns if str(name).startswith(begin)]
    if labels:
        return _wide(
            frame[[begin + label for label in labels]].set_axis(labels, axis=1), frame, how.prefix + PROBABILITY
        )
    if how.prefix + LABELS in frame.columns:
        return _joined(frame, how.prefix)
    column = how.text_of(frame)
    if not hasattr(model, "scored_items") or column is None:
        raise ValueError(
            f"there are no predictions (`{how.prefix}{LABELS}` or `{begin}LABEL`), only the columns {_own(frame)}: give the `model` as a predictor "
            "and a column of texts, or the file that `hf-emotion predict` wrote."
        )
    good = frame[column].map(text_processing.is_readable).to_numpy(bool)
    _, _, (scores, decisions) = model.scored_items(as_texts(frame.loc[good, column].tolist()))
    if decisions.dtype == object:
        raise ValueError("aspects are summarized from a file: `hf-emotion predict --columns wide` writes it.")
    rows = [pandas.DataFrame(values, frame.index[good], model.wide_labels) for values in (scores, decisions)]
    return _Predicted(rows[1].reindex(frame.index, fill_value=False), rows[0].reindex(frame.index), good)


def _wide(decisions: "pandas.DataFrame", frame: "pandas.DataFrame", begin: str) -> _Predicted:
    import pandas

    words = decisions.astype("category").apply(lambda own: own.cat.rename_categories(lambda word: str(word).lower()))
    distinct = {str(word) for own in words for word in words[own].cat.categories}
    if distinct <= {"true", "false", "nan", "none", ""}:
        scores = frame[[begin + label for label in words]].set_axis(list(words), axis=1)
        scores = scores.apply(pandas.to_numeric, errors="coerce")
        return _Predicted(words == "true", scores, scores.notna().all(axis=1).to_numpy())
    pairs = pandas.get_dummies(words, prefix_sep="/", dtype=bool)  # of aspects: a label for each aspect and sentiment
    named = [name for name in pairs if not name.endswith(("/none", "/nan", "/"))]
    return _Predicted(pairs[named], None, (words.notna() & (words != "")).any(axis=1).to_numpy())


def _joined(frame: "pandas.DataFrame", prefix: str) -> _Predicted:
    import pandas

    def joined(cell: Any) -> str:
        if cell is None or isinstance(cell, str | float):  # NaN
            return cell if isinstance(cell, str) else ""
        if any(not isinstance(label, str) for label in cell):
            raise ValueError("the rows hold whole dialogues: predict a file with one row for each turn.")
        return "|".join(cell)

    cells = frame[prefix + LABELS].map(joined)
    codes, distinct = pandas.factorize(cells)
    table = pandas.Series(distinct, dtype=object).str.get_dummies("|").astype(bool)
    table = table.drop(columns=text_processing.ABSTAINED, errors="ignore")
    chosen, scores = table.iloc[codes].reset_index(drop=True), None
    read = cells if prefix + "truncated" not in frame else frame[prefix + "truncated"].astype(str).str.lower()
    if (every := frame.get(prefix + ALL_SCORES)) is not None:
        scores = pandas.DataFrame(
            [json.loads(cell or "{}") if isinstance(cell, str) else cell or {} for cell in every]
        )
        chosen = chosen.reindex(columns=scores.columns, fill_value=False)
    return _Predicted(chosen, scores, ~read.isin(["", "nan", "none"]).to_numpy())


def _periods(values: "pandas.Series", every: str, how: Reading, start: int) -> "pandas.Series":
    """The first day (hour) of the period of each time; missing for a time that cannot be read, where that is no error."""
    import pandas

    times = pandas.to_datetime(values.astype(str), format=how.time_format or "ISO8601", errors="coerce", utc=True)
    if (bad := times.isna()).any() and how.on_bad_rows == "error":
        first = int(np.flatnonzero(bad)[0])
        raise ValueError(
            f"{int(bad.sum())} of {len(values)} times cannot be read, first in row {start + first + 1}: {values.iloc[first]!r}. Write 2026-11-27 or "
            "2026-11-27T15:30, name the form (--time-format %d/%m/%Y), or leave such rows out (--on-bad-rows skip)."
        )
    form = "%Y-%m-%d %H:00" if every == "hour" else "%Y-%m-%d"
    codes, distinct = pandas.factorize(times.dt.tz_localize(None).dt.to_period(PERIODS[every]))
    names = np.array([*(span.start_time.strftime(form) for span in distinct), None], dtype=object)
    return pandas.Series(names[codes], values.index, dtype=object)


class _Tally:
    """Counts rows as they are read, so that memory does not grow with their number."""

    def __init__(self, how: Reading, model: Any, counts: ValidationCounts | None, words: bool):
        self.how, self.model, self.counts, self.count_words = how, model, counts, words
        self.labels: list[str] = []
        self.cells: Any = None  # (group, period) -> "rows", and "chosen", "sums", "squares" of each label
        self.best: Any = None  # "group", "label", "score", "text" of the surest texts
        self.scored = True
        self.rows = self.skipped = self.off = 0
        self.words: Counter[str] = Counter()
        self.histogram: dict[str, Any] = {}  # label -> rows in each bin of its probability

    def read(self, data: Any, by: Any, time: Any, every: str, progress: bool) -> None:
        import pandas

        start = 0
        with progress_bar(progress, None, "rows") as bar:
            for frame in _frames(data, self.how):
                keys = pandas.DataFrame({"group": "", "period": ""}, frame.index)
                for name, asked in (("group", by), ("period", time)):
                    if isinstance(asked, str):
                        keys[name] = frame[_column(frame, asked)]
                    elif asked is not None:
                        if len(own := list(asked)[start : start + len(frame)]) != len(frame):
                            raise ValueError(f"`by` and `time` must have one value for each row, got {len(asked)}.")
                        keys[name] = own
                if by is not None:
                    named = keys["group"].notna() & (keys["group"] != "")
                    keys["group"] = keys["group"].astype(str).where(named, "(none)")
                if time is not None:
                    keys["period"] = _periods(keys["period"], every, self.how, start)
                self._add(frame, keys, _predictions(frame, self.how, self.model))
                start += len(frame)
                bar.update(len(frame))
        if not self.rows:
            raise ValueError("there is no row with a prediction: nothing is summarized.")

    def _add(self, frame: "pandas.DataFrame", keys: "pandas.DataFrame", found: _Predicted) -> None:
        import pandas

        good = found.good & keys["period"].notna().to_numpy()
        self.rows, self.skipped = self.rows + int(good.sum()), self.skipped + int((~good).sum())
        self.labels += [label for label in found.chosen if label not in self.labels]
        self.scored &= found.scores is not None
        keys, chosen = keys[good], found.chosen[good]
        parts = {"chosen": chosen.astype(float)}
        if found.scores is not None:
            scores = found.scores[good].astype(float)
            parts |= {"sums": scores, "squares": scores**2}
            counts = self.counts
            if counts is not None and counts.thresholds is not None and set(scores) == set(counts.labels):
                self.off += int(((scores > counts.in_order(list(scores)).thresholds) != chosen).to_numpy().sum())
            for label in scores if self.count_words else ():
                bins = np.bincount(np.searchsorted(EDGES, scores[label], side="right"), minlength=len(EDGES) + 1)
                self.histogram[label] = self.histogram.get(label, 0) + bins
        table = pandas.concat({**parts, "rows": pandas.DataFrame({"all": 1.0}, keys.index)}, axis=1)
        table = table.groupby([keys["group"], keys["period"]], sort=False).sum()
        self.cells = table if self.cells is None else self.cells.add(table, fill_value=0)
        if len(self.cells) > MOST_CELLS:
            raise ValueError(
                f"there are more than {MOST_CELLS:,} groups and periods: name a column with fewer values, or longer periods."
            )
        if (column := self.how.text_of(frame)) is not None:
            self._keep(frame[column][good], keys["group"], chosen, found)

    def _keep(
        self, texts: "pandas.Series", groups: "pandas.Series", chosen: "pandas.DataFrame", found: _Predicted
    ) -> None:
        import pandas

        if self.count_words:
            for text in texts:
                self.words.update(set(re.findall(r"[^\W\d_]{3,}", str(text).lower())))
        if not self.how.texts:
            return
        rows, columns = np.nonzero(chosen.to_numpy())
        score = 0.0 if found.scores is None else found.scores.loc[chosen.index, list(chosen)].to_numpy()[rows, columns]
        found_texts = pandas.DataFrame(
            {"group": groups.to_numpy()[rows], "score": score, "text": texts.to_numpy()[rows]}
        )
        found_texts["label"] = chosen.columns.to_numpy()[columns]
        ranked = pandas.concat([self.best, found_texts]).sort_values("score", ascending=False, kind="stable")
        ranked = ranked.groupby(["group", "label"]).head(self.how.texts * 5)  # texts may be repeated
        self.best = ranked.drop_duplicates(["group", "label", "text"]).groupby(["group", "label"]).head(self.how.texts)

    def observed(self, part: "pandas.DataFrame") -> Observed:
        """The rows of these cells together."""
        kinds = ("chosen", "sums", "squares") if self.scored else ("chosen",)
        values = (part[kind].reindex(columns=self.labels).fillna(0).sum().to_numpy() for kind in kinds)
        return Observed(int(part["rows"]["all"].sum()), *values)

    def summary(
        self, by: str | None, time: str | None, every: str, wanted: Sequence[str] | None, past: "_Tally | None"
    ) -> Summary:
        notes: list[str] = []
        methods = self._methods(notes)
        method, wanted = methods[-1], list(wanted or self.labels)
        if unknown := sorted(set(wanted) - set(self.labels)):
            raise ValueError(f"no label {unknown}; the labels are {self.labels}.")
        columns = [self.labels.index(label) for label in wanted]
        sizes = self.cells["rows"]["all"].groupby(level="group").sum().sort_values(ascending=False, kind="stable")
        groups, periods = list(sizes.index[:MOST_GROUPS]), sorted(self.cells.index.unique("period"))
        if self.skipped:
            notes.append(f"{self.skipped} rows are left out: they have no prediction, or no time that can be read.")
        if len(sizes) > MOST_GROUPS:
            notes.append(f"{len(sizes)} groups: the {MOST_GROUPS} largest are shown.")
        if by and (tiny := int((sizes < 30).sum())):
            notes.append(f"{tiny} of {len(sizes)} groups have fewer than 30 rows: their intervals are wide.")
        shares: list[dict[str, Any]] = []
        streams = itertools.count(1)
        for group, period in ((g, p) for g in groups for p in periods if (g, p) in self.cells.index):
            observed, stream = self.observed(self.cells.loc[[(group, period)]]), next(streams)
            own = [{"group": group, "period": period, "label": label, "rows": observed.rows} for label in wanted]
            for one, column in zip(own, columns, strict=True):
                one["chosen"] = int(observed.chosen[column])
            for name in methods:
                samples = estimates(observed, self.counts, name, stream)[:, columns]
                for one, values in zip(own, np.stack([samples[0], *interval(samples)], axis=1).tolist(), strict=True):
                    one |= dict(zip((name, f"{name}_low", f"{name}_high"), values, strict=True))
                    one |= dict(zip(("share", "low", "high"), values, strict=True))  # those of the last method stay
            shares += own
        if method != "plain" and any(not one["high"] - one["low"] <= 0.5 for one in shares):
            notes.append(
                "An interval wider than half of all says: the rows are too few, or the model tells the label from others too seldom."
            )
        if method != "plain" and (outside := sum(one["high"] == 0 or one["low"] == 1 for one in shares)):
            notes.append(
                f"{outside} of {len(shares)} shares are 0 or 100 % without an interval: there these texts get the label more seldom (oftener) than any "
                "validation texts, which they differ from in more than how frequent labels are. Trust the plain count more."
            )
        differences = self._differences(
            groups if by else periods if time else [], "group" if by else "period", wanted, columns, method, streams
        )
        tested = (
            f"Fisher's exact test, two-sided: whether equally many rows of both get the label; p_holm: with Holm's correction for {len(differences)} "
            "tests. Both are judged by one model: where it errs more in one of them, the test sees that, too."
        )
        kind = every if time else None
        result = Summary(self.rows, self.skipped, wanted, by, time, kind, method, shares, differences, tested)
        result.notes, result.drift = notes, None if past is None else self._drift(past)
        if self.best is not None:
            typical = {group: self._typical(group, differences, wanted) for group in groups}
            result.typical = {group: found for group, found in typical.items() if found}
        return result

    def _methods(self, notes: list[str]) -> list[str]:
        """The methods that these predictions allow, the last is the one to show; brings `labels` and `counts` into one order."""
        counts = self.counts
        if counts is not None and any("/" in label and label not in counts.labels for label in self.labels):
            notes.append("The shares are plain counts: there is no correction for aspects.")
            return ["plain"]
        if counts is None:
            why = f"{self.model} keeps no errors on validation rows (train it anew)"
            why = "no model is named (`model`, --model)" if self.model is None else why
            notes.append(f"The shares are plain counts: {why}, so the model's errors are not corrected.")
            return ["plain"]
        here, there = (
            sorted(set(a) - set(b)) for a, b in ((self.labels, counts.labels), (counts.labels, self.labels))
        )
        if here or (self.scored and there):
            raise ValueError(
                f"the predictions are of another model than {self.model}: only in them {here[:5]}, only in the model {there[:5]}."
            )
        self.labels += there
        self.counts = counts.in_order(self.labels)
        total = self.observed(self.cells).chosen.sum()
        # files round probabilities: a few decisions may differ
        fits = self.off <= OFF_THRESHOLD * total if counts.multi_label else total == self.rows
        if not fits:
            notes.append(
                "The labels were chosen in another way than the model's own (thresholds, `top_k`, an abstention): adjusted counts are left out."
            )
        if not self.scored:
            notes.append(
                "Only chosen labels are known: all scores (--columns wide) would allow the probabilistic correction."
            )
        return ["plain"] + ["adjusted"] * int(fits) + ["probabilistic"] * self.scored

    def _differences(
        self, names: list[str], level: str, wanted: list[str], columns: list[int], method: str, streams: Iterator[int]
    ) -> list[dict[str, Any]]:
        """Of each group to all other rows (of two: of the first to the second), or of each period to the one before."""
        from scipy.stats import fisher_exact

        of = self.cells.index.get_level_values(level)
        pairs = [(name, "all others", of == name, of != name) for name in names] if len(names) > 1 else []
        if level == "period" or len(names) == 2:
            pairs = [(new, old, of == new, of == old) for old, new in zip(names, names[1:], strict=False)]
        found: list[dict[str, Any]] = []
        for first, second, *cells in pairs:
            sides = [self.observed(self.cells[own]) for own in cells]
            a, b = (estimates(side, self.counts, method, next(streams))[:, columns] for side in sides)
            low, high = interval(a - b)
            for row, label in enumerate(wanted):
                table = [[(hits := int(side.chosen[columns[row]])), side.rows - hits] for side in sides]
                test: dict[str, Any] = {"label": label, "first": first, "second": second}
                test["p_value"] = float(fisher_exact(table).pvalue)
                values = (a[0, row] - b[0, row], low[row], high[row])
                found.append(test | dict(zip(("difference", "low", "high"), map(float, values), strict=True)))
        least = 0.0
        for rank, one in enumerate(sorted(found, key=lambda one: one["p_value"])):  # Holm, 1979
            one["p_holm"] = least = max(least, min(1.0, one["p_value"] * (len(found) - rank)))
        return found

    def _typical(self, group: str, differences: list[dict[str, Any]], wanted: list[str]) -> dict[str, list[str]]:
        """The surest texts of the three labels that are most over-represented in a group, else of its three most frequent ones."""
        rows = self.cells[self.cells.index.get_level_values("group") == group]
        weight = dict(zip(self.labels, self.observed(rows).chosen, strict=True))
        for one in differences:
            if group in (one["first"], one["second"]):
                weight[one["label"]] = one["difference"] if one["first"] == group else -one["difference"]
        own = self.best[(self.best["group"] == group) & self.best["label"].isin(wanted)]
        ranked = sorted(own["label"].unique(), key=lambda label: -weight[label])
        return {label: own.loc[own["label"] == label, "text"].astype(str).tolist() for label in ranked[:3]}

    def _drift(self, past: "_Tally") -> dict[str, Any]:
        """
        The population stability index Σ (a − b) ln(a / b) over ten bins of a label's probability, or over chosen or not, with half a row more in
        each bin (Siddiqi, 2006, "Credit Risk Scorecards": below 0.1 stable, above 0.25 a large change); and the words with the largest z of the log
        odds ratio (Monroe et al., 2008, "Fightin' Words", eq. 15 and 16 without a prior) between the share of texts that hold them.
        """
        stability = {}
        for label in self.labels:
            pair = []
            for tally in (self, past):
                hits = tally.cells["chosen"][label].sum() if label in tally.labels else 0
                pair.append(np.array([hits, tally.rows - hits]))
                if self.scored and past.scored:
                    pair[-1] = tally.histogram[label]
            a, b = ((values + 0.5) / (values.sum() + 0.5 * len(values)) for values in pair)
            stability[label] = float(((a - b) * np.log(a / b)).sum())
        words: list[dict[str, Any]] = []
        for word, texts in self.words.items():
            before = past.words[word]
            cells = np.array([texts, self.rows - texts, before, past.rows - before]) + 0.5
            z = float(np.log(cells[0] * cells[3] / cells[1] / cells[2]) / np.sqrt((1 / cells).sum()))
            if texts >= FEWEST_TEXTS and z > 1.96:
                words.append({"word": word, "texts": texts, "before": before, "z": z})
        words.sort(key=lambda word: -word["z"])
        return {"reference_rows": past.rows, "stability": stability, "words": words[:WORDS_SHOWN]}
