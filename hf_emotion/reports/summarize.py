# SPDX-License-Identifier: Apache-2.0
"""From predictions to shares of labels (means of values), per group and over time, corrected for the model's errors, with 95 % intervals."""

import itertools
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..io.files import finite_or_none
from ..io.names import did_you_mean
from ..metrics.quantification import Observed, ValidationCounts, estimates, interval
from ..run_report import RunReport
from ..runtime.names import METRICS
from ..runtime.ready import ReadyModel, find_ready, ready_models
from .summary_rows import PERIODS, Rows, name_of, read_rows


if TYPE_CHECKING:
    import pandas

MOST_CELLS = 2_000  # groups and periods
WORDS_SHOWN, FEWEST_TEXTS = 20, 5
FEW = 30  # texts of a group or period
WORD = re.compile(r"[^\W\d_]{3,}")
OFF_THRESHOLD = 0.005  # share of chosen labels that may contradict the thresholds: files round probabilities
Every = Literal["hour", "day", "week", "month", "quarter", "year"]
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
    from scipy.stats import fisher_exact, norm
    from statsmodels.stats.multitest import multipletests

    options = (every, text_column, time_format, prefix, on_bad_rows, encoding, separator)
    rows = read_rows(data, model, by, time, *options)
    past = None if reference is None else read_rows(reference, model, None, None, *options)
    by, time = name_of(by), time if isinstance(time, str | None) else "time"
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
    if differences:
        p_values = [one["p_value"] for one in differences]
        for one, p in zip(differences, multipletests(p_values, method="holm")[1], strict=True):
            one["p_holm"] = float(p)
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


def validation_counts(model: Any) -> ValidationCounts | None:
    """A model's errors on its validation rows, from its metrics.json; None if it keeps none."""
    if model is None or isinstance(model, ValidationCounts):
        return model
    if not isinstance(model, str | Path):
        place = model.model.config.name_or_path
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


def _methods(rows: Rows, model: Any, notes: list[str]) -> tuple[list[str], ValidationCounts | None]:
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
    rows: Rows, differences: list[dict[str, Any]], groups: list[str], wanted: list[str], texts: int
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


def _drift(rows: Rows, past: Rows) -> dict[str, Any]:
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
