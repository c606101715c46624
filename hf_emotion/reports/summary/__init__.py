# SPDX-License-Identifier: Apache-2.0
"""From predictions to shares of labels (means of values), per group and over time, corrected for the model's errors, with 95 % intervals."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from ...io import paths
from ...io.files import finite_or_none
from .changes import Change, find_changes
from .counting import FEW, Counting, Difference, Share
from .drift import drift, drift_notes
from .endings import endings
from .labelled import Checked, Quality, check, checked_notes, read_labelled
from .reading import PERIODS, Rows, name_of, only_language, read_rows, roll_up
from .wording import of_change, of_difference


if TYPE_CHECKING:
    import pandas

QUALITY = ("precision", "recall", "f1")
MOST_UNKNOWN = 0.7  # of a text that stands as an example
NEGATIVE = "/negative"  # ends the label of an aspect or term with this sentiment
Every = Literal["hour", "day", "week", "month", "quarter", "year"]


@dataclass
class Summary:
    """
    What `summarize` found. All fields are ready for JSON.

    Attributes:
        rows, skipped: texts with a prediction, and without one (or without a time). A text with a row for each of its terms is one.
        labels: C names.
        by, time, every: as they were asked for.
        method: what the column `share` holds: "prediction-powered" shares, "probabilistic" or "adjusted" counts, "plain" ones without a
            correction, or the "mean" of values.
        shares: one for each group, period and label.
        overall: with a time, the same over all periods; else empty.
        differences: of each group to all other rows, or of each period to the one before.
        tested: what the p-values test.
        typical: group -> label -> the texts that the model is surest of; of the labels that are most over-represented in the group.
        drift: against a reference "shares": each label's share then and now, with the difference and its p-value, the largest first,
            "stability": label -> population stability index, "words": those that are more frequent here; None without one.
        notes: what a reader must know.
        checked: with labelled rows the shares of all groups, and of all groups in each period; what the model is worth on these rows; None
            without them.
        changes: with a time, what is another share in some periods of a group than in all its earlier ones, the surest first.
        changes_tested: what their p-values test; empty where there are too few periods.
        title, source, model: for the page: its title, the file's name, the model's name.
        dates: with a time, the first and the last one.
        endings: with probabilities of emotions and a column `dialogue`: the share of dialogues that end worse than they began; else None.
        sharpest: of labels that were asked for, the texts that the model is surest of: "text" and what it is "about" (group, period).
    """

    rows: int
    skipped: int
    labels: list[str]
    by: str | None
    time: str | None
    every: str | None
    method: str
    shares: list[Share] = field(repr=False)
    differences: list[Difference] = field(repr=False)
    tested: str = field(repr=False)
    typical: dict[str, dict[str, list[str]]] = field(default_factory=dict, repr=False)
    drift: dict[str, Any] | None = field(default=None, repr=False)
    notes: list[str] = field(default_factory=list)
    overall: list[Share] = field(default_factory=list, repr=False)
    checked: Checked | None = field(default=None, repr=False)
    changes: list[Change] = field(default_factory=list, repr=False)
    changes_tested: str = field(default="", repr=False)
    title: str | None = field(default=None, repr=False)
    source: str | None = field(default=None, repr=False)
    model: str | None = field(default=None, repr=False)
    dates: tuple[str, str] | None = field(default=None, repr=False)
    sharpest: dict[str, list[dict[str, str]]] = field(default_factory=dict, repr=False)
    endings: dict[str, Any] | None = field(default=None, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """What JSON holds; None stands for what is not known."""
        return finite_or_none(asdict(self))

    @property
    def clear(self) -> list[Difference]:
        """The differences with `p_holm` below 0.05, the largest first."""
        found = [one for one in self.differences if one["p_holm"] < 0.05]
        return sorted(found, key=lambda one: -abs(one["difference"]))

    @property
    def changed(self) -> list[str]:
        """The changes as sentences."""
        return [of_change(self, one) for one in self.changes]

    @property
    def apart(self) -> list[str]:
        """The clear differences as sentences."""
        return [of_difference(self, one) for one in self.clear]

    @property
    def counted(self) -> dict[str, str]:
        """The counts that tables show: keys of a share and their titles."""
        more = {"labelled": "labelled"} if self.checked else {}
        return ({"chosen": "with it"} if self.method == "plain" else {}) | {"rows": "texts"} | more

    def counts(self, one: Share) -> list[int | str]:
        more = [f"{one['labelled']}{'*' * one['borrowed']}"] if self.checked else []
        return [*([one["chosen"]] if self.method == "plain" else []), one["rows"], *more]

    @property
    def nothing_clear(self) -> str:
        """What to say where no difference is clear."""
        few = any(one["rows"] < FEW for one in (self.by and self.overall) or self.shares)
        hint = f" A group or period of fewer than {FEW} texts could hardly show one." if few else ""
        return f"No difference is significant at 5 %.{hint}"

    @property
    def largest(self) -> list[Share]:
        """
        The shares, the largest first, unknown ones last; over time the periods in their order, of what is largest over all of them.
        Negative aspects and terms come first.
        """
        order = {(one["label"], one["group"]): place for place, one in enumerate(self.together)}
        return sorted(self.shares, key=lambda one: order[one["label"], one["group"]])

    @property
    def together(self) -> list[Share]:
        """The shares over all periods, in the order of `largest`."""

        def place(one: Share) -> tuple:
            return not one["label"].endswith(NEGATIVE), one["share"] != one["share"], -one["share"]

        return sorted(self.overall or self.shares, key=place)

    @property
    def over_groups(self) -> list[Share]:
        """The shares over all groups and periods, the largest first; none without labelled rows."""
        whole = [one for one in self.checked["shares"] if not one["period"]] if self.checked else []
        return sorted((cast(Share, one | {"group": "all"}) for one in whole), key=lambda one: -one["share"])

    def quality(self) -> list[list[str]]:
        """The label, the number of labelled rows with it, precision, recall and F1 with their intervals; of labels that rows have."""

        def cell(one: Quality, name: str) -> str:
            values: Any = one
            value, low, high = (values[name + end] for end in ("", "_low", "_high"))
            return "–" if value != value else f"{value:.2f} ({low:.2f} to {high:.2f})"

        known = [one for one in self.checked["quality"] if one["labelled"]] if self.checked else []
        return [[one["label"], str(one["labelled"]), *(cell(one, name) for name in QUALITY)] for one in known]

    @property
    def ended(self) -> list[list[str]]:
        """The speaker, the shares of dialogues that end worse and better, with intervals, and the number of dialogues."""

        def cells(one: dict[str, Any], name: str) -> tuple[str, str]:
            return f"{one[name]:.1%}", f"{one[name + '_low']:.1%} to {one[name + '_high']:.1%}"

        rows = self.endings["rows"] if self.endings else []
        return [[one["speaker"], *cells(one, "worse"), *cells(one, "better"), str(one["dialogues"])] for one in rows]

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

    def interval(self, one: Share | Difference, sign: str = "") -> str:
        """The interval of one of the shares or differences."""
        return f"{self.shown(one['low'], sign)} to {self.shown(one['high'], sign)}"

    def to_frame(self) -> "pandas.DataFrame":
        """The shares as a table."""
        import pandas

        return pandas.DataFrame(self.shares)

    def to_html(self) -> str:
        """The page with plots; everything that comes from the data is escaped."""
        from .page import page

        return page(self)


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
    labelled: Any = None,
    title: str | None = None,
    groups: Mapping[str, Sequence[str]] | None = None,
    language: str | None = None,
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
        texts: how many typical texts of a group and label are kept, and of each of `labels`, if they are named, over all groups. Texts in
            another language, and those of which the model knows less than 30 %, are left out.
        text_column: default: "text" or "utterance", where there is one.
        time_format: of times, as in `strptime`; default: ISO 8601.
        prefix: before the names of the prediction's columns.
        on_bad_rows: "skip" leaves out rows whose time cannot be read.
        encoding: of text files that were saved again, such as "cp1252"; default: UTF-8.
        separator: of CSV files; default: what separates the header.
        labelled: a table with some of the rows, which `hf-emotion sample` drew and people have labelled, as a file or a DataFrame: the shares
            are then prediction-powered, valid for any texts whatever the model.
        title: of the page.
        groups: own groups of labels, as in {"upset": ["anger", "sadness"]}; their shares are plain counts.
        language: ISO 639-1 code; texts that are probably in another language are left out.

    Raises:
        ValueError: times that cannot be read, numbers that lost digits as groups, no such column, no predictions, labels of another model,
            labelled rows of another table.
    """
    if every not in PERIODS:
        raise ValueError(f"`every` must be one of {sorted(PERIODS)}, got {every!r}.")
    options = (every, text_column, time_format, prefix, on_bad_rows, encoding, separator)
    rows = read_rows(data, model, by, time, *options)
    past = None if reference is None else read_rows(reference, model, None, None, *options)
    sides = [rows] if past is None else [rows, past]
    left = [only_language(side, language) for side in sides] if language else [0]
    found_endings = endings(rows)  # by the model's own labels
    if groups and labelled is not None:
        raise ValueError("labelled rows name the model's own labels: leave out `groups`, or the labelled rows.")
    if groups:
        model = None
        for side in sides:
            roll_up(side, groups)
    by, time = name_of(by), time if isinstance(time, str | None) else "time"
    own = None if labelled is None else read_labelled(labelled, rows, text_column, encoding, separator)
    counting = Counting(rows, model, labels, by, time, every, own)
    shares, (differences, tested) = counting.shares(), counting.differences()
    labels_asked = bool(labels)
    labels, period, method = counting.wanted, every if time else None, counting.methods[-1]
    found = Summary(len(rows.about), len(rows.skipped), labels, by, time, period, method, shares, differences, tested)
    found.endings = found_endings
    counting.notes += found_endings["notes"] if found_endings else []
    if "dialogue" in rows.table and rows.table["dialogue"][rows.about.index].dropna().duplicated().any():
        counting.notes.append(
            "Each turn counts by itself. Turns of a dialogue are alike: of few dialogues, intervals and tests claim too much."
        )
    if left[0]:
        counting.notes.append(
            f"texts left out: {left[0]:,} of {left[0] + len(rows.about):,}, because they are probably not in the language asked for ({language})."
        )
    if rows.foreign:
        counting.notes.append(
            f"texts left out: {rows.foreign:,}, because they are probably in a language that the model does not read."
        )
    found.notes, found.overall = counting.notes, counting.overall() if time else []
    if own is not None:
        found.checked = check(rows, own, counting)
        found.notes += checked_notes(found.checked, shares)
    found.typical = _typical(rows, differences, counting.groups, labels, texts)
    if past is not None:
        found.drift = drift(rows, past, labels)
        found.notes += drift_notes(rows, past)
    if labels_asked:
        found.sharpest = _sharpest(rows, labels, texts)
    found.title, found.source = title, paths.name_of(data) if isinstance(data, str | Path) else None
    found.model = model if isinstance(model, str) else None
    if time:
        found.changes, found.changes_tested = find_changes(counting)
        found.dates = rows.about["day"].min(), rows.about["day"].max()
    return found


def _readable(rows: Rows) -> "pandas.DataFrame":
    """The rows that may stand as examples: with a text that the model can read."""
    about = rows.about.dropna(subset=["text"]).astype({"text": str})
    return about[(about["language"].fillna("") == "") & (about["unknown"].astype(float).fillna(0) <= MOST_UNKNOWN)]


def _sharpest(rows: Rows, labels: list[str], texts: int) -> dict[str, list[dict[str, str]]]:
    """Of each label the surest texts over all groups, each once."""
    found, about = {}, _readable(rows)
    for label in labels:
        own = about[rows.chosen.loc[about.index, label]]
        if rows.scores is not None:
            own = own.loc[rows.scores.loc[own.index, label].sort_values(ascending=False, kind="stable").index]
        best = own.drop_duplicates("text").head(texts)
        cells = zip(best["text"], best["group"], best["day"], strict=True)
        found[label] = [{"text": text, "about": ", ".join(filter(None, about))} for text, *about in cells]
    return {label: of for label, of in found.items() if of}


def _typical(
    rows: Rows, differences: list[Difference], groups: list[str], wanted: list[str], texts: int
) -> dict[str, dict[str, list[str]]]:
    """The surest texts of the three labels that are most over-represented in a group, else of its three most frequent ones."""
    weight: dict[Any, float] = rows.chosen.groupby(rows.about["group"]).sum().stack().to_dict()
    for one in differences:
        weight[one["first"], one["label"]] = one["difference"]
        weight[one["second"], one["label"]] = -one["difference"]
    found: dict[str, dict[str, list[str]]] = {group: {} for group in groups}
    about = _readable(rows)
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
