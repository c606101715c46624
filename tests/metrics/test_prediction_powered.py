# SPDX-License-Identifier: Apache-2.0
"""Prediction-powered shares: against ppi-python, by hand, and over worlds whose truth is known."""

import numpy as np
import pytest

from hf_emotion.metrics.prediction_powered import PredictionPowered
from hf_emotion.metrics.quantification import Observed


def seen(values: np.ndarray) -> Observed:
    return Observed(len(values), (values > 0.5).sum(axis=0), values.sum(axis=0), (values**2).sum(axis=0))


def test_share_is_that_of_ppi_python():
    """`ppi_mean_pointestimate` of ppi-python 0.2.3 gives 0.2434515 with its own λ (a variance over N - 1), 0.24264175 with this one."""
    gold = np.array([[1, 0, 0, 1, 0, 0, 0, 0, 1, 0, 1, 0]]).T
    labelled = np.array([[0.9, 0.2, 0.7, 0.6, 0.3, 0.05, 0.4, 0.5, 0.1, 0.2, 0.8, 0.65]]).T
    part = [0.7, 0.1, 0.2, 0.3, 0.9, 0.05, 0.1, 0.4, 0.6, 0.2, 0.1, 0.3, 0.15, 0.8, 0.25, 0.1, 0.05, 0.35, 0.5, 0.2]
    everything = seen(np.concatenate([labelled, np.array([part * 5]).T]))
    found = PredictionPowered(gold, labelled, np.ones(12), np.zeros(12), everything)
    assert found.whole.share[0, 0] == pytest.approx(0.24264175)


def test_weights_of_strata_by_hand():
    """900 and 100 rows; 10 of each are labelled, and the label is frequent in the small stratum."""
    predicted = np.linspace(0, 1, 1000)[:, None]
    rows = np.r_[0:900:90, 900:1000:10]
    gold, strata = np.r_[np.arange(10) < 2, np.arange(10) < 8].astype(float)[:, None], np.repeat([0, 1], 10)
    power = PredictionPowered(gold, predicted[rows], np.repeat([90.0, 10.0], 10), strata, seen(predicted))
    tuned = power.tuning[0] * predicted[:, 0]
    off = gold[:, 0] - tuned[rows]
    assert power.whole.share[0, 0] == pytest.approx(tuned.mean() + 0.9 * off[:10].mean() + 0.1 * off[10:].mean())
    one = PredictionPowered(gold, predicted[rows], np.repeat([90.0, 10.0], 10), np.zeros(20), seen(predicted))
    assert (one.whole.variance > power.whole.variance).all()  # strata differ


def test_shares_of_0_and_1_are_unsure():
    predicted = np.tile([[0.001, 0.999]], (5000, 1))
    power = PredictionPowered(
        np.tile([[0, 1]], (100, 1)), predicted[:100], np.ones(100), np.zeros(100), seen(predicted)
    )
    (share,), (low,), (high,) = power.whole.share, power.whole.low, power.whole.high
    assert share == pytest.approx([0, 1], abs=0.002)
    assert low[0] == 0 and 0.02 < high[0] < 0.04 and high[1] == 1 and 0.96 < low[1] < 0.98  # the rule of three: 3 %
    few = power.of([seen(predicted[:3])], np.full(100, -1), power.whole)
    assert few.borrowed.all() and (few.low * 3 % 1 == 0).all() and few.high[0, 0] == pytest.approx(1 / 3)


@pytest.mark.parametrize("rows", [60, 200])
def test_covers_the_truth_whatever_the_model(rows):
    """Ten labels, of which the model knows some well, some not at all, and some it gives too often; four groups with other shares."""
    generator = np.random.default_rng(0)
    whole, in_groups, borrowed = [], [], []
    for _ in range(60):
        groups = generator.integers(0, 4, 4000)
        share = generator.beta(1, 6, (4, 10))
        gold = generator.random((4000, 10)) < share[groups]
        score = gold * np.linspace(0, 4, 10) + generator.normal(0, 1, gold.shape) + generator.normal(-2, 2, 10)
        predicted = 1 / (1 + np.exp(-score))
        drawn = np.concatenate(
            [generator.choice(np.flatnonzero(groups == g), rows // 4, replace=False) for g in range(4)]
        )
        weights = np.bincount(groups)[groups[drawn]]
        power = PredictionPowered(gold[drawn].astype(float), predicted[drawn], weights, groups[drawn], seen(predicted))
        found = power.of([seen(predicted[groups == g]) for g in range(4)], groups[drawn], power.whole)
        truth = np.array([gold[groups == g].mean(axis=0) for g in range(4)])
        whole.append((power.whole.low <= gold.mean(axis=0)) & (gold.mean(axis=0) <= power.whole.high))
        in_groups.append((found.low <= truth) & (truth <= found.high))
        borrowed.append(found.borrowed.all())
    assert np.mean(whole) > 0.93 and np.mean(in_groups) > 0.93
    assert np.mean(borrowed) == (rows == 60)
