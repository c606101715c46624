# SPDX-License-Identifier: Apache-2.0
"""Counts the labels of groups and periods: shares (means) with their intervals, and tests of their differences."""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NotRequired, cast

import numpy as np
from typing_extensions import TypedDict  # pydantic needs this one before Python 3.12

from ...io.names import did_you_mean
from ...metrics.quantification import Observed, ValidationCounts, estimates, interval
from ...run_report import RunReport
from ...runtime.names import METRICS
from ...runtime.ready import ReadyModel, find_ready, ready_models
from .reading import Rows


MOST_CELLS = 2_000  # groups and periods
OFF_THRESHOLD = 0.005  # share of chosen labels that may contradict the thresholds: files round probabilities
FEW = 30  # texts of a group or period


class Share(TypedDict):
    """
    The share (mean) of a label in a group and period, with its interval. Beside `share` stands each method that the rows allow: METHOD,
    METHOD_low, METHOD_high.
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
        self, rows: Rows, model: Any, labels: Sequence[str] | None, by: str | None, time: str | None, every: str
    ):
        self.notes: list[str] = []
        self.by, self.values = by, rows.values
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

    def _observed(self, cells: Any) -> Observed:
        """The rows of these groups and periods together."""
        size, *values = (part[cells].sum(axis=0) for part in self.sums)
        return Observed(int(size), *values)

    def _measured(self, group: str, period: str, cells: Any) -> list[Share]:
        """The shares of all labels in these groups and periods together."""
        seen, stream, found = self._observed(cells), next(self.streams), []
        values: dict[str, np.ndarray] = {}
        for name in self.methods:
            samples = estimates(seen, self.errors, name, stream)
            values |= dict(zip((name, f"{name}_low", f"{name}_high"), (samples[0], *interval(samples)), strict=True))
        shown = self.methods[-1]
        values |= {name: values[shown + end] for name, end in (("share", ""), ("low", "_low"), ("high", "_high"))}
        for label, column in zip(self.wanted, self.columns, strict=True):
            own: dict[str, Any] = {"group": group, "period": period, "label": label, "rows": seen.rows}
            own |= {} if self.values else {"chosen": int(seen.chosen[column])}
            found.append(cast(Share, own | {name: float(value[column]) for name, value in values.items()}))
        return found

    def shares(self) -> list[Share]:
        """Those of each group, the largest first, and period."""
        ordered = sorted(self.cells, key=lambda cell: (self.groups.index(cell[0]), cell[1]))
        shares = [one for cell in ordered for one in self._measured(cell[0], cell[1], [self.cells.get_loc(cell)])]
        if self.errors and (outside := sum(one["high"] == 0 or one["low"] == 1 for one in shares)):
            self.notes.append(
                f"{outside} of {len(shares)} shares are 0 or 100 % without an interval: these texts get the label more seldom "
                "(oftener) than any validation texts do. Trust the plain count more."
            )
        return shares

    def overall(self) -> list[Share]:
        """Those of each group over all periods."""
        of = self.cells.get_level_values("group")
        return [one for group in self.groups for one in self._measured(group, "", of == group)]

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
            drawn = np.subtract(
                *(estimates(side, self.errors, self.methods[-1], next(self.streams)) for side in sides)
            )
            errors = drawn[1:].std(axis=0)
            low, high = interval(drawn)
            for label, column in zip(self.wanted, self.columns, strict=True):
                size = drawn[0, column]
                if self.values:
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
        return found, (
            f"{tested}, with Holm's correction (tests: {len(found):,}). Both are judged by one model: where it errs more in one of "
            "them, the test sees that, too."
        )


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
