# SPDX-License-Identifier: Apache-2.0
"""Metrics against votes, and the agreement of annotators, beside independent formulas."""

import itertools
import math

import numpy as np
import pytest
from scipy.special import xlogy

from hf_emotion import metrics


def rows(several: bool, seed: int = 0, count: int = 30) -> tuple[np.ndarray, np.ndarray]:
    """Votes of five annotators, and probabilities, (N, 4)."""
    generator = np.random.default_rng(seed)
    if several:
        return generator.integers(0, 6, (count, 4)) / 5, generator.random((count, 4))
    return generator.multinomial(5, [0.4, 0.3, 0.2, 0.1], count) / 5, generator.dirichlet(np.ones(4), count)


@pytest.mark.parametrize("several", [False, True])
def test_figures_by_hand(several):
    votes, probabilities = rows(several)
    found = metrics.against_votes(votes, probabilities, several)
    f1, hits, total = [], 0.0, 0.0
    for v, p in zip(votes.T.tolist(), probabilities.T.tolist(), strict=True):
        own = sum(map(min, v, p))
        f1.append(2 * own / (sum(v) + sum(p)))
        hits, total = hits + own, total + sum(v) + sum(p)
    assert found["soft_macro_f1"] == pytest.approx(np.mean(f1))
    assert found["soft_micro_f1"] == pytest.approx(2 * hits / total)
    both = [np.stack([a, 1 - a] if several else [a]) for a in (votes, probabilities)]  # yes, and no
    per_row = 1 if several else 4
    assert found["cross_entropy"] == pytest.approx(-per_row * (both[0] * np.log(both[1])).sum(0).mean())
    assert found["vote_entropy"] == pytest.approx(-per_row * xlogy(both[0], both[0]).sum(0).mean())
    if not several:
        assert found["soft_micro_f1"] == pytest.approx(1 - np.abs(votes - probabilities).sum(axis=1).mean() / 2)
    same = metrics.against_votes(votes, votes, several)
    assert same["soft_macro_f1"] == same["soft_micro_f1"] == pytest.approx(1)
    assert same["cross_entropy"] == same["vote_entropy"]


# The example of Krippendorff's "Computing Krippendorff's Alpha-Reliability" (2011): four observers of twelve units, 0 for a missing value.
PUBLISHED = """
    1 2 3 3 2 1 4 1 2 0 0 0
    1 2 3 3 2 2 4 1 2 5 0 3
    0 3 3 3 2 3 4 2 2 5 1 0
    1 2 3 3 2 4 4 1 2 5 1 0
"""


def test_alpha_of_the_published_example():
    observers = np.array([list(map(int, line.split())) for line in PUBLISHED.strip().splitlines()])
    counts = np.stack([(observers == value).sum(axis=0) for value in range(1, 6)], axis=1)
    assert metrics.krippendorff_alpha(counts) == pytest.approx(0.743, abs=5e-4)


@pytest.mark.parametrize("seed", range(3))
def test_alpha_by_pairs(seed):
    """1 − observed / expected disagreement of pairs of annotators, one by one."""
    counts = np.random.default_rng(seed).integers(0, 3, (8, 3))
    units = [[value for value, count in enumerate(row) for _ in range(count)] for row in counts.tolist()]
    units = [unit for unit in units if len(unit) > 1]
    values = [value for unit in units for value in unit]
    observed = sum(sum(a != b for a, b in itertools.permutations(unit, 2)) / (len(unit) - 1) for unit in units)
    expected = sum(a != b for a, b in itertools.permutations(values, 2)) / (len(values) - 1)
    assert metrics.krippendorff_alpha(counts) == pytest.approx(1 - observed / expected)


def test_alpha_that_is_undefined():
    for counts in ([[1, 0], [0, 1]], [[2, 0], [3, 0]], np.zeros((0, 2))):
        assert math.isnan(metrics.krippendorff_alpha(np.array(counts)))


def test_agreement():
    votes = np.array([[1, 0.0, 0], [2 / 3, 1 / 3, 0], [0, 1, 0], [0, 0.5, 0]], dtype=np.float32)
    annotators = np.array([3, 3, 2, 2])
    found = metrics.agreement(votes, annotators, ["a", "b", "c"], multi_label=True)
    expected = metrics.krippendorff_alpha(np.array([[3, 0], [2, 1], [0, 2], [0, 2]]))
    assert found["per_label"]["a"] == pytest.approx(expected)
    assert math.isnan(found["per_label"]["c"])  # nobody gave it: left out of the mean
    assert found["alpha"] == pytest.approx((found["per_label"]["a"] + found["per_label"]["b"]) / 2)
    assert (found["annotators"], found["unanimous"]) == (2.5, 0.5)
    single = metrics.agreement(votes[:3], annotators[:3], ["a", "b", "c"], multi_label=False)
    assert single["alpha"] == pytest.approx(metrics.krippendorff_alpha(np.array([[3, 0, 0], [2, 1, 0], [0, 2, 0]])))
    unknown = metrics.agreement(votes[:3], np.array([3, 0, 2]), ["a", "b", "c"], multi_label=False)
    assert math.isnan(unknown["alpha"]) and math.isnan(unknown["annotators"])
    assert unknown["unanimous"] == pytest.approx(2 / 3)
