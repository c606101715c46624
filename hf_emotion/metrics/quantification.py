# SPDX-License-Identifier: Apache-2.0
"""
How frequent labels are among texts that nobody has labelled: counts of a classifier's answers, corrected for its errors on validation rows.

- Plain: classify and count, the share of the rows that get a label.
- Adjusted: p = (share − false positive rate) / (true positive rate − false positive rate), kept in [0, 1] (Forman, 2008, "Quantifying
  Counts and Costs via Classification", adjusted classify & count).
- Probabilistic: the same with mean probabilities instead of shares (Bella et al., 2010, "Quantification via Probability Estimators",
  scaled probability average). For one label per row both solve, for the shares p ≥ 0 with Σp = 1, the least squares of observed = Mᵀ p, where
  row i of M is what rows of class i get on average (Bunse, 2022, "On Multi-Class Extensions of Adjusted Classify and Count").

Both are right where the texts differ from the validation rows only in how frequent the labels are (prior probability shift).
"""

from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ..gold import Gold


SAMPLES = 1000  # of the bootstrap
METHODS = ("plain", "adjusted", "probabilistic")


@dataclass(frozen=True, eq=False)
class ValidationCounts:
    """
    A classifier's errors on V validation rows. G numbers what is known of a row: with several labels whether it has the label (0: no, 1: yes),
    for each of C labels; with one label its class.

    Attributes:
        labels: C names.
        multi_label: whether a row may have several labels.
        thresholds: of the decisions, if a row may have several labels; else None.
        rows: (C, 2) with several labels, else (C,): the number of rows of each G.
        chosen: of these, how many get the label: (C, 2), or of each class (C, C) [gold, predicted].
        means, deviations: mean and standard deviation of the label's probability over them; shapes as `chosen`.
    """

    labels: list[str]
    multi_label: bool
    thresholds: list[float] | None
    rows: np.ndarray
    chosen: np.ndarray
    means: np.ndarray
    deviations: np.ndarray

    @classmethod
    def of(
        cls, labelled: np.ndarray, probabilities: np.ndarray, labels: list[str], thresholds: list[float] | None = None
    ) -> "ValidationCounts":
        """
        Args:
            labelled: the gold labels, (V, C) of 0 and 1, or (V,) class ids, -1 for no label.
            probabilities: (V, C).
            thresholds: a label is chosen above its threshold; None: the most probable one is chosen.
        """
        gold, probabilities = Gold(np.asarray(labelled)), np.asarray(probabilities, np.float64)
        gold, probabilities = gold[gold.labelled], probabilities[gold.labelled]
        decided, has = gold.decided(probabilities, thresholds).astype(float), gold.has(len(labels))
        if gold.single_label:
            groups = [np.repeat(own[:, None], len(labels), axis=1) for own in has.T]
        else:
            groups = [gold.annotated & ~has, has]  # of shape (V, C)
        with np.errstate(invalid="ignore", divide="ignore"):
            rows = np.array([mask.sum(axis=0) for mask in groups])  # (G, C)
            chosen = np.array([(decided * mask).sum(axis=0) for mask in groups])
            means = np.nan_to_num([(probabilities * mask).sum(axis=0) for mask in groups] / rows)
            squares = np.nan_to_num([(probabilities**2 * mask).sum(axis=0) for mask in groups] / rows)
        found = [chosen, means, np.sqrt(np.maximum(squares - means**2, 0))]
        if gold.single_label:
            rows = rows[:, 0]
        else:
            rows, found = rows.T, [values.T for values in found]
        return cls(list(labels), not gold.single_label, None if thresholds is None else list(thresholds), rows, *found)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "ValidationCounts":
        arrays = {name: np.asarray(values[name], float) for name in ("rows", "chosen", "means", "deviations")}
        return cls(**{**values, **arrays})

    def to_dict(self) -> dict[str, Any]:
        """What JSON holds."""
        return {
            name: np.round(value, 6).tolist() if isinstance(value, np.ndarray) else value
            for name, value in asdict(self).items()
        }

    @lru_cache(maxsize=4)  # noqa: B019 - all groups of a summary ask for the same
    def drawn(self, method: str) -> np.ndarray:
        """
        (SAMPLES + 1, ...) what rows of each G get on average, shapes as `chosen`: first as it was measured, then with the sampling error of
        the validation rows, always the same draws. Shares are drawn from their posterior under Jeffreys' prior, means from the normal distribution.
        """
        generator = np.random.default_rng([0, 0])
        rows = self.rows if self.multi_label else self.rows[:, None]
        shape = (SAMPLES, *self.chosen.shape)
        if method == "probabilistic":
            error = error_of_mean(self.means, self.deviations**2, rows)
            drawn = np.clip(generator.normal(self.means, error, shape), 0, 1)
            return np.concatenate([self.means[None], drawn])
        if self.multi_label:
            drawn = generator.beta(self.chosen + 0.5, rows - self.chosen + 0.5, shape)
        else:
            drawn = np.stack([generator.dirichlet(row + 0.5, SAMPLES) for row in self.chosen], axis=1)
        return np.concatenate([(self.chosen / np.maximum(rows, 1))[None], drawn])


def solve(observed: np.ndarray, rates: np.ndarray, multi_label: bool) -> np.ndarray:
    """
    Corrected shares (S, C) from the observed shares or mean probabilities (S, C) and what rows get on average, (S, C, 2) or (S, C, C); NaN
    for a label that rows with it do not get more often than others.
    """
    if multi_label:
        without, having = rates[..., 0], rates[..., 1]
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(having > without, np.clip((observed - without) / (having - without), 0, 1), np.nan)
    from scipy.optimize import nnls

    weight = 1e3  # of the row that says Σp = 1
    ones = np.full((1, observed.shape[1]), weight)
    found = [nnls(np.vstack([m.T, ones]), np.append(o, weight))[0] for o, m in zip(observed, rates, strict=True)]
    return np.array(found) / np.maximum(np.sum(found, axis=1, keepdims=True), 1e-12)


@dataclass(frozen=True)
class Observed:
    """
    What a classifier answered for some rows.

    Attributes:
        rows: N.
        chosen: (C,) how many rows get each label.
        sums, squares: (C,) sums of the probabilities and of their squares; None where only the chosen labels are known.
    """

    rows: int
    chosen: np.ndarray
    sums: np.ndarray | None = None
    squares: np.ndarray | None = None


def estimates(observed: Observed, counts: ValidationCounts | None, method: str, stream: int = 0) -> np.ndarray:
    """
    Shares of the labels, (1 + SAMPLES, C): first the estimate, then its bootstrap over the rows and over the validation rows. The validation
    errors are the same in all calls, so that the difference of two groups does not count them twice; each `stream` has its own rows.

    It is parametric, so that a million rows cost no more than ten: shares are drawn from their posterior under Jeffreys' prior (a label that no
    row gets may still be there), means from the normal distribution. Rows count as independent of each other.
    """
    count = max(observed.rows, 1)
    share = observed.chosen / count
    rows = np.random.default_rng([1, stream])
    if method in ("mean", "probabilistic"):
        if observed.sums is None or observed.squares is None:
            raise ValueError("the probabilistic correction needs the probability of every label.")
        mean = observed.sums / count
        variance, shape = observed.squares / count - mean**2, (SAMPLES, len(mean))
        if method == "mean":  # of a regression: Student's t; nothing is known of the deviation of one row
            error = np.sqrt(np.maximum(variance, 0) / (count - 1)) if count > 1 else np.full(len(mean), np.nan)
            return np.concatenate([mean[None], mean + error * rows.standard_t(max(count - 1, 1), shape)])
        error = error_of_mean(mean, variance, observed.rows)
        seen = np.concatenate([mean[None], rows.normal(mean, error, shape)])
    elif counts is None or counts.multi_label:
        others = observed.rows - observed.chosen
        seen = np.concatenate([share[None], rows.beta(observed.chosen + 0.5, others + 0.5, (SAMPLES, len(share)))])
    else:
        seen = np.concatenate([share[None], rows.dirichlet(observed.chosen + 0.5, SAMPLES)])
    if method == "plain":
        return seen
    if counts is None:
        raise ValueError("a correction needs the errors of the model on validation rows.")
    solved = solve(seen, counts.drawn(method), counts.multi_label)
    # An estimate that ends at 0 or 1 is still one of few rows: what none of them has may be there (Jeffreys' prior).
    for label in np.flatnonzero(np.isin(solved[0], (0, 1))):
        end, draws = solved[0, label], solved[1:, label]
        cut = draws == end
        draws[cut] = np.abs(end - rows.beta(0.5, count + 0.5, np.count_nonzero(cut)))
    return solved


def error_of_mean(mean: np.ndarray, variance: np.ndarray, rows: int | np.ndarray) -> np.ndarray:
    """
    The standard error of a mean of probabilities. The variance of few rows is itself uncertain, so one row more is counted, as far from the
    mean as probabilities can be.
    """
    farthest = np.maximum(mean, 1 - mean) ** 2
    return np.sqrt(np.maximum(variance * rows + farthest, 0) / (rows + 1) / np.maximum(rows, 1))


def interval(samples: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The bounds (C,) of the 95 % interval, percentiles of `estimates` that hold the estimate; NaN where nothing is known."""
    with np.errstate(invalid="ignore"):
        missing = np.isnan(samples[1:]).mean(axis=0) > 0.5
        filled = np.where(np.isnan(samples[1:]), np.random.default_rng(0).random(samples[1:].shape), samples[1:])
        low, high = np.percentile(filled, [2.5, 97.5], axis=0)
    low, high = np.fmin(low, samples[0]), np.fmax(high, samples[0])
    return np.where(missing, np.nan, low), np.where(missing, np.nan, high)
