# SPDX-License-Identifier: Apache-2.0
"""What a summary finds; ready for JSON."""

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict

from ...io.files import finite_or_none


if TYPE_CHECKING:
    import pandas

FEW = 30  # texts of a group or period
NEGATIVE = "/negative"  # ends the label of an aspect or term with this sentiment


class Share(TypedDict):
    """The share (mean) of a label among the `rows` of a group and period; each method that the rows allow has its own, with its interval."""

    group: str
    period: str
    label: str
    rows: int
    chosen: NotRequired[int]
    mean: NotRequired[float]
    mean_low: NotRequired[float]
    mean_high: NotRequired[float]
    plain: NotRequired[float]
    plain_low: NotRequired[float]
    plain_high: NotRequired[float]
    adjusted: NotRequired[float]
    adjusted_low: NotRequired[float]
    adjusted_high: NotRequired[float]
    probabilistic: NotRequired[float]
    probabilistic_low: NotRequired[float]
    probabilistic_high: NotRequired[float]
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


class Word(TypedDict):
    """A word in so many `texts`, and in so many of the reference `before`."""

    word: str
    texts: int
    before: int
    z: float


class Drift(TypedDict):
    """Against a reference: the population stability index of each label, and the words that are more frequent here."""

    reference_rows: int
    stability: dict[str, float]
    words: list[Word]


@dataclass
class Summary:
    """
    What `summarize` found. All fields are ready for JSON.

    Attributes:
        rows, skipped: texts with a prediction, and without one (or without a time). A text with a row for each of its terms is one.
        labels: C names.
        by, time, every: as they were asked for.
        method: what the column `share` holds: "probabilistic" or "adjusted" counts, "plain" ones without a correction, or the "mean" of values.
        shares: one for each group, period and label.
        overall: with a time, the same over all periods; else empty.
        differences: of each group to all other rows, or of each period to the one before.
        tested: what the p-values test.
        typical: group -> label -> the texts that the model is surest of; of the labels that are most over-represented in the group.
        drift: against a reference; None without one.
        notes: what a reader must know.
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
    drift: Drift | None = field(default=None, repr=False)
    notes: list[str] = field(default_factory=list)
    overall: list[Share] = field(default_factory=list, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """What JSON holds; None stands for what is not known."""
        return finite_or_none(asdict(self))

    @property
    def clear(self) -> list[Difference]:
        """The differences with `p_holm` below 0.05, the largest first."""
        found = [one for one in self.differences if one["p_holm"] < 0.05]
        return sorted(found, key=lambda one: -abs(one["difference"]))

    @property
    def counted(self) -> dict[str, str]:
        """The counts that tables show: keys of a share and their titles."""
        return ({"chosen": "with it"} if self.method == "plain" else {}) | {"rows": "texts"}

    def counts(self, one: Share) -> list[int]:
        return [one[key] for key in self.counted]  # type: ignore[literal-required]

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
