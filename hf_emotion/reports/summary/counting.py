# SPDX-License-Identifier: Apache-2.0
"""Counts the labels of groups and periods: shares (means) with their intervals, and tests of their differences."""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NotRequired, cast

import numpy as np
from typing_extensions import TypedDict  # pydantic needs this one before Python 3.12

from ...io.names import did_you_mean
from ...metrics.prediction_powered import Estimated, PredictionPowered
from ...metrics.quantification import Observed, ValidationCounts, estimates, interval
from ...run_report import RunReport
from ...runtime.names import METRICS
from ...runtime.ready import ReadyModel, find_ready, ready_models
from .labelled import Labelled
from .reading import Rows


MOST_CELLS = 2_000  # groups and periods
OFF_THRESHOLD = 0.005  # share of chosen labels that may contradict the thresholds: files round probabilities
FEW = 30  # texts of a group or period
POWERED = "prediction-powered"
LABEL_SOME = "For shares that hold for these texts whatever the model, label 200 of them: `hf-emotion sample`, then `summarize --labelled`."
ASSUMED = (
    "The correction assumes that these texts differ from the model's validation texts only in how frequent the labels are. On other texts it was "
    "worse than the plain count: a share of `goemotions` on everyday sentences was off by 0.027, the plain one by 0.007."
)


class Share(TypedDict):
    """
    The share (mean) of a label in a group and period, with its interval. Beside `share` stands each method that the rows allow: METHOD,
    METHOD_low, METHOD_high; of prediction-powered shares `labelled`, the number of labelled rows in it, and `borrowed`: they are too few, and those
    of all groups serve.
    """

    group: str
    period: str
    label: str
    rows: int
    chosen: NotRequired[int]
    plain: NotRequired[float]
    share: float
    low: float
    high: float
    labelled: NotRequired[int]
    borrowed: NotRequired[bool]


class Difference(TypedDict):
    """The difference of a label's share (mean) in `first` to that in `second`, and the p-values of what `Summary.tested` says."""

    label: str
    first: str
    second: str
    difference: float
    low: float
    high: float
    p_value: float
    p_holm: float


class Counting:
    """
    The counts of the `wanted` labels in groups and periods, by the `methods` that the rows allow, the last is the one to show; `notes`: what a
    reader must know. Arguments and errors as those of `summarize`.
    """

    def __init__(
        self,
        rows: Rows,
        model: Any,
        labels: Sequence[str] | None,
        by: str | None,
        time: str | None,
        every: str,
        labelled: Labelled | None = None,
    ):
        self.notes: list[str] = []
        self.by, self.values = by, rows.values
        self.methods, self.errors = ["plain"], None
        if labelled is None:
            self.methods, self.errors = _methods(rows, model, self.notes)
        names = list(rows.chosen)
        if not names:
            raise ValueError("no text has a label: nothing is summarized.")
        ends = {
            label: [name for name in names if name == label or name.endswith(f"/{label}")] for label in labels or names
        }
        self.wanted = list(dict.fromkeys(name for label, found in ends.items() for name in found or [label]))
        if unknown := sorted(set(self.wanted) - set(names)):
            raise ValueError(f"no label {unknown}." + (did_you_mean(unknown[0], names) or f" The labels are {names}."))
        self.columns = [names.index(label) for label in self.wanted]
        keys = [rows.about["group"], rows.about["period"]]
        sizes = rows.about.groupby(keys).size()
        if len(sizes) > MOST_CELLS:
            raise ValueError(
                f"there are {len(sizes):,} groups and periods, more than {MOST_CELLS:,}: name a column with fewer values, "
                "or longer periods."
            )
        scores = () if rows.scores is None else (rows.scores, rows.scores**2)
        self.sums = [sizes.to_numpy(), *(part.groupby(keys).sum().to_numpy() for part in (rows.chosen, *scores))]
        self.cells = sizes.index
        in_groups = sizes.groupby(level="group").sum().sort_values(ascending=False, kind="stable")
        self.groups = list(in_groups.index)
        if rows.skipped:
            why = "no prediction" + ", or no time that can be read" * bool(time)
            self.notes.append(
                f"texts left out: {len(rows.skipped):,}, the first in row {rows.skipped[0]}, because they have {why}."
            )
        if foreign := [code for code in rows.about["language"] if isinstance(code, str) and code]:
            self.notes.append(
                f"{len(foreign)} of {len(rows.about)} texts are probably in a language that the model does not read "
                f"({', '.join(sorted(set(foreign)))}): their labels mean little."
            )
        pairs_of = f"pairs of group and {every}" if by else f"{every}s"
        for asked, name, texts_in in ((by, "groups", in_groups), (time, pairs_of, sizes)):
            if asked and (tiny := int((texts_in < FEW).sum())):
                self.notes.append(
                    f"{tiny} of {len(texts_in)} {name} have fewer than {FEW} texts: their intervals are wide."
                )
        self.streams = itertools.count(1)
        self.powered: dict[tuple[str, str], tuple[Estimated, int]] = {}  # group and period, "" for all of them
        if labelled is not None:
            self._power(rows, labelled, names, time)

    def _power(self, rows: Rows, labelled: Labelled, names: list[str], time: str | None) -> None:
        """Estimate all shares from the labelled rows."""
        if unasked := sorted(set(self.wanted) - set(labelled.gold)):
            raise ValueError(
                f"nobody was asked for the labels {unasked}; the labelled table has {list(labelled.gold)}."
            )
        self.notes += labelled.notes
        self.methods.append(POWERED)
        gold = labelled.gold.reindex(columns=names, fill_value=False).to_numpy(float)
        scores = rows.chosen if rows.scores is None else rows.scores
        self.power = PredictionPowered(
            gold,
            scores.loc[labelled.index].to_numpy(float),
            labelled.weights,
            labelled.strata,
            self._observed(slice(None)),
        )
        of = rows.about.loc[labelled.index]
        self.places = self.cells.get_indexer(list(zip(of["group"], of["period"], strict=True)))
        self.powered["", ""] = whole, _ = self.power.whole, 0
        if self.by:
            groups = self._estimated("group", whole)
            if time:
                self._estimated(None, *groups)
        if time:
            self._estimated("period", whole)

    def _estimated(self, level: str | None, above: Estimated, inside: Any = None) -> tuple[Estimated, Any]:
        """Keep the estimates of the groups, the periods or (None) the cells, and give them, and which of them each cell lies in."""
        values = self.cells if level is None else self.cells.get_level_values(level)
        codes, names = values.factorize()
        found = self.estimate(codes, above, inside)
        for place, name in enumerate(names):
            key = name if level is None else (name, "") if level == "group" else ("", name)
            self.powered[key] = found, place
        return found, codes

    def estimate(self, codes: Any, above: Estimated, inside: Any = None) -> Estimated:
        """Those of cells with the same code, 0 and higher; see `PredictionPowered.of`."""
        domains = [self._observed(codes == code) for code in range(codes.max() + 1)]
        return self.power.of(domains, codes[self.places], above, inside)

    def side(self, group: str, period: str, cells: Any) -> tuple[Estimated, int]:
        """The estimates of these cells, and their place in them; those of a known group and period as they are shown."""
        found = self.powered.get((group, period))
        return found or (self.estimate(np.where(cells, 0, -1), self.power.whole), 0)

    def _observed(self, cells: Any) -> Observed:
        """The rows of these groups and periods together."""
        size, *values = (part[cells].sum(axis=0) for part in self.sums)
        return Observed(int(size), *values)

    def measured(self, group: str, period: str, cells: Any) -> list[Share]:
        """The shares of all labels in these groups and periods together."""
        seen, stream, found = self._observed(cells), next(self.streams), []
        values: dict[str, np.ndarray] = {}
        more: dict[str, Any] = {}
        for name in self.methods:
            if name == POWERED:
                of, place = self.side(group, period, cells)
                three = (of.share[place], of.low[place], of.high[place])
                values |= dict(zip((name, f"{name}_low", f"{name}_high"), three, strict=True))
                more = {"labelled": int(of.labelled[place]), "borrowed": bool(of.borrowed[place])}
                continue
            samples = estimates(seen, self.errors, name, stream)
            values |= dict(zip((name, f"{name}_low", f"{name}_high"), (samples[0], *interval(samples)), strict=True))
        shown = self.methods[-1]
        values |= {name: values[shown + end] for name, end in (("share", ""), ("low", "_low"), ("high", "_high"))}
        for label, column in zip(self.wanted, self.columns, strict=True):
            own: dict[str, Any] = {"group": group, "period": period, "label": label, "rows": seen.rows}
            own |= {} if self.values else {"chosen": int(seen.chosen[column])}
            found.append(cast(Share, own | {name: float(value[column]) for name, value in values.items()} | more))
        return found

    def shares(self) -> list[Share]:
        """Those of each group, the largest first, and period."""
        ordered = sorted(self.cells, key=lambda cell: (self.groups.index(cell[0]), cell[1]))
        shares = [one for cell in ordered for one in self.measured(cell[0], cell[1], [self.cells.get_loc(cell)])]
        if self.errors and (outside := sum(one["high"] == 0 or one["low"] == 1 for one in shares)):
            self.notes.append(
                f"{outside} of {len(shares)} shares are 0 or 100 % without an interval: these texts get the label less often "
                "(or more often) than any validation texts do. Trust the plain count more."
            )
        return shares

    def overall(self) -> list[Share]:
        """Those of each group over all periods."""
        of = self.cells.get_level_values("group")
        return [one for group in self.groups for one in self.measured(group, "", of == group)]

    def over_groups(self) -> list[Share]:
        """Those of all rows, then of each period, over all groups."""
        periods = self.cells.get_level_values("period")
        every = sorted(set(periods) - {""})
        return [
            one for period in ("", *every) for one in self.measured("", period, (periods == period) | (not period))
        ]

    def widths(self, rows: int) -> np.ndarray:
        """(W,) of the wanted labels, the width of the interval over all rows to expect from so many labelled rows."""
        return self.power.expected_widths(rows, self._observed(slice(None)))[self.columns]

    def differences(self) -> tuple[list[Difference], str]:
        """Those of each group to all other rows, or of each period to the one before, and what their p-values test."""
        from scipy.stats import fisher_exact, norm
        from statsmodels.stats.multitest import multipletests

        of = self.cells.get_level_values("group" if self.by else "period")
        compared = self.groups if self.by else list(of.unique().sort_values())
        pairs: list[tuple] = [(new, old, of == new, of == old) for old, new in itertools.pairwise(compared)]
        if self.by and len(compared) > 2:
            pairs = [(name, "all others", of == name, of != name) for name in compared]
        found: list[Difference] = []
        for first, second, *cells in pairs:
            a, b = sides = [self._observed(own) for own in cells]
            if self.powered:
                size_of, errors, low, high = self._apart(first, second, cells)
            else:
                drawn = np.subtract(
                    *(estimates(side, self.errors, self.methods[-1], next(self.streams)) for side in sides)
                )
                size_of, errors = drawn[0], np.nan_to_num(drawn[1:].std(axis=0), nan=np.inf)  # inf: nothing is known
                low, high = interval(drawn)
            for label, column in zip(self.wanted, self.columns, strict=True):
                size = size_of[column]
                if self.values or self.powered:
                    p = 2 * norm.sf(abs(size) / errors[column]) if errors[column] > 0 else size == 0
                else:
                    p = fisher_exact([(n := int(side.chosen[column]), side.rows - n) for side in (a, b)]).pvalue
                values = {"difference": size, "low": low[column], "high": high[column], "p_value": p}
                own = {"label": label, "first": first, "second": second}
                found.append(cast(Difference, own | {name: float(value) for name, value in values.items()}))
        if found:
            p_values = [one["p_value"] for one in found]
            for one, p in zip(found, multipletests(p_values, method="holm")[1], strict=True):
                one["p_holm"] = float(p)
        tested = "Fisher's exact test, two-sided: whether equally many texts of both get the label"
        if self.values:
            tested = "z-test, two-sided: whether the mean value of both is the same"
        if self.powered:
            tested = "z-test of the prediction-powered shares, two-sided: whether they are the same"
        tested += f", with Holm's correction (tests: {len(found):,})."
        if not self.powered:
            tested += " Both are judged by one model: where it errs more in one of them, the test sees that, too."
        return found, tested

    def _apart(self, first: str, second: str, cells: Sequence[Any]) -> tuple[np.ndarray, ...]:
        """
        Differences (C,) of prediction-powered shares, their standard errors and the bounds of their intervals (Newcombe, 1998: from those of
        both shares).
        """
        keys = [(name, "") if self.by else ("", name) for name in (first, second)]
        pair = [self.side(*key, own) for key, own in zip(keys, cells, strict=True)]
        (a, a_low, a_high, a_error), (b, b_low, b_high, b_error) = (
            (of.share[place], of.low[place], of.high[place], of.variance[place]) for of, place in pair
        )
        low, high = a - b - np.hypot(a - a_low, b_high - b), a - b + np.hypot(a_high - a, b - b_low)
        return a - b, np.sqrt(a_error + b_error), low, high


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

        from ...runtime.hub import asking_once

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
        why = "errors of the model are part of them"
    elif counts is not None and set(getattr(model, "labels", counts.labels)) != set(counts.labels):
        why = "the model keeps its errors for its own labels, and gives others (a taxonomy, added labels)"
    if counts is None or why:
        remedy = "" if any("/" in label for label in labels) else f" {LABEL_SOME}"
        notes.append(f"The shares are plain counts: {why}.{remedy}")
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
        notes.append(
            "Only chosen labels are known: probabilities (--columns wide) would allow the probabilistic correction."
        )
    else:
        rows.scores = rows.scores[counts.labels]
        if counts.multi_label:
            off = ((rows.scores.to_numpy() > counts.thresholds) != chosen).sum()
    fits = bool(off <= OFF_THRESHOLD * chosen.sum())
    if not fits:
        notes.append(
            "The labels were chosen in another way than the model's own (thresholds, `top_k`, an abstention): adjusted counts are left out."
        )
    notes.append(f"{ASSUMED} {LABEL_SOME}")
    return ["plain"] + ["adjusted"] * fits + ["probabilistic"] * (rows.scores is not None), counts
