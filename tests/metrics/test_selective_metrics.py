# SPDX-License-Identifier: Apache-2.0
"""Risk over coverage, abstention and prediction sets, against formulas written another way."""

import math
import re

import numpy as np
import pytest

from hf_emotion import metrics


SURE, LOSS = [0.9, 0.5, 0.8, 0.6, 0.7], [0.0, 1.0, 0.0, 0.0, 1.0]


def test_losses_of_rows():
    assert metrics.row_losses([0, 1, 2], [0, 2, 2]).tolist() == [0, 1, 0]
    gold, given = [[1, 1, 0], [0, 0, 0], [1, 0, 0], [0, 0, 0]], [[1, 0, 1], [0, 0, 0], [1, 0, 0], [0, 1, 0]]
    assert metrics.row_losses(gold, given) == pytest.approx([2 / 3, 0, 0, 1])
    assert metrics.row_losses([], []).shape == (0,)


class TestAbstention:
    def test_by_hand(self):
        found = metrics.risk_coverage(SURE, LOSS)
        assert found["coverage"].tolist() == [0.2, 0.4, 0.6, 0.8, 1]
        assert found["risk"] == pytest.approx([0, 0, 1 / 3, 1 / 4, 2 / 5])
        assert found["best"] == pytest.approx([0, 0, 0, 1 / 4, 2 / 5])
        assert found["aurc"] == pytest.approx((1 / 3 + 1 / 4 + 2 / 5) / 5) and found["e_aurc"] == pytest.approx(1 / 15)
        # Rows of equal confidence count as the mean over their orders.
        assert metrics.risk_coverage([1, 1, 0], [0, 1, 0])["risk"] == pytest.approx([1 / 2, 1 / 2, 1 / 3])
        assert np.isnan(metrics.risk_coverage([], [])["aurc"])

    def test_the_area_of_the_best_order_is_that_of_the_paper(self):
        """r + (1 − r) ln(1 − r) for a large number of rows (Geifman, Uziel and El-Yaniv, equation 4)."""
        losses = np.repeat([0.0, 1.0], [70_000, 30_000])
        found = metrics.risk_coverage(-losses, losses)
        assert found["aurc"] == pytest.approx(0.3 + 0.7 * math.log(0.7), abs=1e-4) and found["e_aurc"] == 0

    @pytest.mark.parametrize(
        ("wanted", "threshold"),
        [
            ({"coverage": 0.4}, 0.8),
            ({"coverage": 0.41}, 0.7),  # at least so many
            ({"coverage": 0.2}, 0.9),
            ({"coverage": 1.0}, 0.0),  # refuses nothing, not even rows below all of these
            ({"accuracy": 1.0}, 0.8),
            ({"accuracy": 0.7}, 0.6),  # the most rows, though three rows reach only 2/3
            ({"accuracy": 0.6}, 0.0),
        ],
    )
    def test_thresholds(self, wanted, threshold):
        assert metrics.abstention_threshold(SURE, LOSS, wanted) == threshold

    def test_rows_of_equal_confidence_stay_together_and_what_is_not_reached(self):
        sure = [0.5] * 4 + [0.2]
        assert metrics.abstention_threshold(sure, [0] * 5, {"coverage": 0.3}) == 0.5
        assert metrics.answered(sure, [0, 0, 1, 1, 1], 0.5) == {"coverage": 0.8, "risk": 0.5}
        with pytest.raises(ValueError, match=r"`accuracy` 0.9 is not reached.*best is 0.500"):
            metrics.abstention_threshold([0.2, 0.1], [1, 0], {"accuracy": 0.9})
        none = metrics.answered([0.2], [0], 0.5)
        assert none["coverage"] == 0 and np.isnan(none["risk"]) and np.isnan(metrics.answered([], [], 0)["coverage"])


class TestSets:
    @pytest.mark.parametrize("rows", [9, 10, 19, 57])
    @pytest.mark.parametrize("coverage", [0.5, 0.8, 0.9, 0.95])
    def test_one_label_is_the_quantile_of_the_literature(self, rows, coverage):
        """Sets with 1 − p ≤ q, where q is the ⌈(n + 1)(1 − α)⌉-th smallest 1 − p of the gold label."""
        generator = np.random.default_rng(rows)
        scores = generator.dirichlet(np.ones(4), rows)
        labels = generator.integers(0, 4, rows)
        rank = math.ceil(round((rows + 1) * coverage, 9))
        found = metrics.set_threshold(labels, scores, coverage)
        quantile = np.sort(1 - scores[np.arange(rows), labels])[rank - 1] if rank <= rows else 1
        assert found == pytest.approx(1 - quantile)

    def test_several_labels_take_the_least_probable_gold_label(self):
        gold = np.array([[1, 1, 0], [0, 0, 1], [0, 0, 0]] * 3)
        scores = np.array([[0.9, 0.3, 0.1], [0.2, 0.1, 0.6], [0.1, 0.2, 0.1]] * 3)
        assert metrics.set_threshold(gold, scores, 0.6) == 0.6  # the 4th of .3 .3 .3 .6 .6 .6 1 1 1
        assert metrics.set_threshold(gold, scores, 0.7) == 0.3
        assert metrics.set_threshold(gold, scores, 0.95) == 0  # nine rows cannot promise so much

    def test_figures_by_hand(self):
        gold = np.array([[1, 1, 0], [1, 0, 0], [0, 0, 0], [0, 1, 0]])
        sets = np.array([[1, 0, 1], [1, 0, 0], [0, 0, 0], [1, 1, 1]], dtype=bool)
        found = metrics.prediction_sets(gold, sets, ["a", "b", "c"])
        assert (found["coverage"], found["size"], found["empty"]) == (0.75, 1.5, 0.25)
        assert found["labels"]["a"] == 1 and found["labels"]["b"] == 0.5 and np.isnan(found["labels"]["c"])
        one = metrics.prediction_sets([0, 2], sets[:2], ["a", "b", "c"])
        assert one["coverage"] == 0.5 and one["labels"]["a"] == 1 and one["labels"]["c"] == 0

    def test_no_rows_and_errors(self):
        nothing = metrics.prediction_sets(np.zeros(0, int), np.zeros((0, 2), bool), ["a", "b"])
        assert all(np.isnan(nothing[name]) for name in ("coverage", "size", "empty"))
        assert metrics.set_threshold(np.zeros(0, int), np.zeros((0, 2)), 0.9) == 0
        for coverage in (0, 1, -0.1, 1.5, math.nan):
            with pytest.raises(ValueError, match=re.escape(f"must lie in (0, 1), got {coverage}")):
                metrics.set_threshold([0], [[0.5, 0.5]], coverage)
