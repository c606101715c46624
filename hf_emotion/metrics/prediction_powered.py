# SPDX-License-Identifier: Apache-2.0
"""
How frequent labels are among texts with predictions, some of which people have labelled: right on average for any texts, whatever the model.

A share is λ·(mean prediction of all rows) + (weighted mean of the residuals gold − λ·prediction of the labelled rows), with the λ in [0, 1] of
the least variance (Angelopoulos, Duchi and Zrnic, 2023, "PPI++: Efficient Prediction-Powered Inference"): a model that tells nothing gets λ = 0.

A domain (group, period) with few labelled rows borrows: the mean residual of the whole is shrunk towards its own (Fay and Herriot, 1979), by how
much the domains differ. Its variance counts what its own residuals say against that.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv

from .quantification import Observed


FEWEST = 30  # labelled rows of a domain that borrows nothing
# Of mean residuals among domains, in standard deviations of the label. These, and the factor 2 in `_shrunk`, are the narrowest that
# were tried on test parts with a coverage near 0.93, even where the odds of groups differ by a factor of 3.
# `benchmarks.labelled_shares` measures them on other rows.
SPREADS = np.array([0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7, 1])


@dataclass(frozen=True, eq=False)
class Estimated:
    """
    Shares of C labels in D domains, with their 95 % intervals.

    Attributes:
        share, low, high, variance: (D, C).
        level: (D, C) the mean residual.
        labelled: (D,) the number of labelled rows.
        borrowed: (D,) bool, whether these were too few.
    """

    share: np.ndarray
    low: np.ndarray
    high: np.ndarray
    variance: np.ndarray
    level: np.ndarray
    labelled: np.ndarray
    borrowed: np.ndarray


class PredictionPowered:
    """
    Estimates from n labelled rows.

    Args:
        gold: (n, C) of 0 and 1.
        predicted: (n, C) probabilities, or decisions of 0 and 1.
        weights: (n,) each proportional to 1 / the probability that the row was drawn.
        strata: (n,) ids of the groups from which they were drawn.
        everything: the predictions of all rows.
    """

    def __init__(
        self, gold: np.ndarray, predicted: np.ndarray, weights: np.ndarray, strata: np.ndarray, everything: Observed
    ):
        if not len(gold):
            raise ValueError("no row is labelled.")
        self.weights, self.strata = np.asarray(weights, float), np.asarray(strata)
        shares = self.weights / self.weights.sum()
        _, variance = _moments(everything)
        covariance = shares @ ((gold - shares @ gold) * (predicted - shares @ predicted))
        with np.errstate(invalid="ignore", divide="ignore"):
            self.tuning = np.nan_to_num(np.clip(covariance / variance, 0, 1))  # (C,)
        self.residuals = gold - self.tuning * predicted
        self.whole = self.of([everything], np.zeros(len(gold), int))

    def of(
        self,
        domains: Sequence[Observed],
        places: np.ndarray,
        above: Estimated | None = None,
        inside: Sequence[int] | None = None,
    ) -> Estimated:
        """
        Args:
            domains: the predictions of all rows of each of the D domains.
            places: (n,) the domain of each labelled row; negative: it lies in none.
            above: the domains that these are parts of, from which those with few labelled rows borrow; None: they borrow nothing.
            inside: (D,) which of them; None: the first.
        """
        means, variances = (np.array(values) for values in zip(*map(_moments, domains), strict=True))
        sizes = np.array([[domain.rows] for domain in domains], float)
        found = [self._residual(places == place) for place in range(len(domains))]
        level, error, effective = (np.array(values) for values in zip(*found, strict=True))
        labelled = np.bincount(places[places >= 0], minlength=len(domains))
        share = np.clip(self.tuning * means + level, 0, 1)
        variance, least = error + self.tuning**2 * variances / sizes, effective[:, None]
        borrowed = (labelled < FEWEST) & (above is not None)
        if above is not None and borrowed.any():
            inside = [0] * len(domains) if inside is None else inside
            base, own = above.level[inside], np.where(labelled[:, None] > 0, level, np.nan)
            wide, one = self._spread(), np.maximum(effective, 1)[:, None]
            whole = np.maximum(self.whole.share * (1 - self.whole.share), 0.25 / len(self.weights))[0]
            spread = np.broadcast_to(wide, base.shape)
            for _ in range(2):  # residuals vary more where the share is nearer one half
                moved, moved_error = _shrunk(own - base, spread / one, np.sqrt(whole))
                lent = np.clip(self.tuning * means + base + moved, 0, 1)
                spread = wide * np.maximum(1, lent * (1 - lent) / whole)
            lent_error = moved_error + above.variance[inside] + lent * (1 - lent) / sizes
            few = borrowed[:, None]
            share, variance = np.where(few, lent, share), np.where(few, lent_error, variance)
            level, least = np.where(few, base + moved, level), np.where(few, len(self.weights), least)
        low, high, variance = bounds(
            share, variance, np.maximum(least, 1), sizes, np.where(borrowed, effective, 0)[:, None]
        )
        return Estimated(share, low, high, variance, level, labelled, borrowed)

    def expected_widths(self, rows: int, everything: Observed) -> np.ndarray:
        """(C,) the width of the interval of the whole, had so many rows been labelled."""
        _, variance = _moments(everything)
        fixed = self.tuning**2 * variance / everything.rows
        _, error, effective = self._residual(np.ones(len(self.weights), bool))
        times = rows / len(self.weights)
        low, high, _ = bounds(self.whole.share, error / times + fixed, max(effective * times, 1), np.inf)
        return (high - low)[0]

    def _spread(self) -> np.ndarray:
        """(C,) the variance of one residual. Few rows may hide some of it: one row more is counted, as far off as can be."""
        off = self.residuals - self.whole.level
        return ((self.weights / self.weights.mean()) @ off**2 + 1) / (len(off) + 1)

    def _residual(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        """The mean residual (C,) of some labelled rows, its variance over strata (C,), and as how many equally weighted rows they count."""
        if not rows.any():
            return np.zeros_like(self.tuning), np.zeros_like(self.tuning), 0.0
        own, weights = self.residuals[rows], self.weights[rows] / self.weights[rows].sum()
        _, stratum, counts = np.unique(self.strata[rows], return_inverse=True, return_counts=True)
        level, sums = weights @ own, np.zeros((len(counts), own.shape[1]))
        np.add.at(sums, stratum, own)
        count = counts[stratum][:, None]  # a stratum of one row does not tell how its rows vary
        off = np.where(count > 1, own - sums[stratum] / count, own - level) ** 2 * count / np.maximum(count - 1, 1)
        return level, weights**2 @ off, float(1 / (weights**2).sum())


def bounds(
    share: np.ndarray,
    variance: np.ndarray,
    rows: np.ndarray | float,
    sizes: np.ndarray | float,
    own: np.ndarray | float = 0,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """
    The bounds of 95 % intervals of shares with a variance, and the variance that they use: those of Jeffreys for as many rows as have this
    variance. Where it comes near 0, they are those of the labelled `rows`, so that a share of 0 or 1 is as unsure as these few make it. A
    share of `sizes` texts is a whole number of them. They are never less sure than `own` rows.
    """
    variance = variance + 1 / rows**2
    counted = np.maximum((share * (1 - share) + 1 / rows) / variance, own)
    low, high = jeffreys(share, counted)
    if np.isfinite(sizes).all():
        low, high = np.floor(low * sizes + 1e-9) / sizes, np.ceil(high * sizes - 1e-9) / sizes
    return low, high, (share * (1 - share) + 1 / rows) / counted


def jeffreys(share: np.ndarray | float, rows: np.ndarray | float) -> tuple[np.ndarray, np.ndarray]:
    """The bounds of Jeffreys' 95 % intervals of shares of so many rows, which hold the share; NaN: a share of no rows."""
    known = np.nan_to_num(share)
    ends = (betaincinv(known * rows + 0.5, (1 - known) * rows + 0.5, end) for end in (0.025, 0.975))
    return np.fmin(next(ends), share), np.fmax(next(ends), share)


def _moments(seen: Observed) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance (C,) of the predictions."""
    rows = max(seen.rows, 1)
    if seen.sums is None or seen.squares is None:
        mean = seen.chosen / rows
        return mean, mean * (1 - mean)
    mean = seen.sums / rows
    return mean, np.maximum(seen.squares / rows - mean**2, 0)


def _shrunk(off: np.ndarray, error: np.ndarray, deviation: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """
    By how much each domain's mean residual differs from that of the whole, (D, C), and the mean squared error of that: over the posterior of their
    spread, given the differences seen (NaN: none) and their variances. A domain that seems farther off than the spread is counted as up to twice
    as far off. `deviation` (C,): of the label.
    """
    seen, own = ~np.isnan(off), np.nan_to_num(off)
    spread = (SPREADS[:, None, None] * deviation) ** 2
    total = spread + error
    likely = -0.5 * np.where(seen, np.log(total) + own**2 / total, 0).sum(axis=1)
    likely += np.log(np.gradient(SPREADS))[:, None]
    weight = np.exp(likely - likely.max(axis=0))
    weight = (weight / weight.sum(axis=0))[:, None]  # (spreads, 1, C)
    kept = np.where(seen, spread / total, 0)
    mean = (weight * kept * own).sum(axis=0)
    bias = np.clip(np.where(seen, own**2 - error, 0), spread, 4 * spread)
    return mean, (weight * (kept**2 * error + (1 - kept) ** 2 * bias + (kept * own - mean) ** 2)).sum(axis=0)
