# SPDX-License-Identifier: Apache-2.0
"""Corrections of counted labels, on cases whose truth is computed by hand."""

import json

import numpy as np
import pytest

from hf_emotion.metrics.quantification import Observed, ValidationCounts, estimates, interval


def several() -> ValidationCounts:
    """Two labels over ten rows: the first is found in 3 of 4 rows with it and in 1 of 6 without it."""
    gold = np.array([[1, 0]] * 4 + [[0, 1]] * 6)
    probabilities = np.array([[0.9, 0.2]] * 3 + [[0.1, 0.2]] + [[0.7, 0.8]] + [[0.3, 0.8]] * 5)
    return ValidationCounts.of(gold, probabilities, ["joy", "fear"], [0.5, 0.5])


RATES = np.array([[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.05, 0.25, 0.7]])  # errors (gold, predicted) of three classes


def draw(gold: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """(N, C) probabilities whose largest one errs as `RATES` say."""
    answers = np.array([generator.choice(3, p=RATES[g]) for g in gold])
    probabilities = np.full((len(gold), 3), 0.2)
    probabilities[np.arange(len(gold)), answers] = 0.6
    return probabilities


class TestCorrection:
    def test_several_labels(self):
        counts = several()
        assert counts.rows.tolist() == [[6, 4], [4, 6]]
        assert counts.chosen.tolist() == [[1, 3], [0, 6]]
        np.testing.assert_allclose(counts.means, [[(0.7 + 5 * 0.3) / 6, (3 * 0.9 + 0.1) / 4], [0.2, 0.8]])
        assert counts.deviations[0, 1] == pytest.approx(np.std([0.9, 0.9, 0.9, 0.1]))
        again = ValidationCounts.from_dict(json.loads(json.dumps(counts.to_dict())))
        assert again.labels == ["joy", "fear"] and again.chosen.tolist() == [[1, 3], [0, 6]]

    def test_one_label_leaves_out_rows_without_a_label(self):
        probabilities = np.array([[0.7, 0.3], [0.4, 0.6], [0.1, 0.9], [0.5, 0.5]])
        counts = ValidationCounts.of([0, 0, 1, -1], probabilities, ["a", "b"])
        assert counts.rows.tolist() == [2, 1]
        assert counts.chosen.tolist() == [[1, 1], [0, 1]]
        np.testing.assert_allclose(counts.means, [[0.55, 0.45], [0.1, 0.9]])

    def test_counts_by_hand(self):
        # 40 of 100 rows are chosen: (0.4 - 1/6) / (3/4 - 1/6) = 0.4
        found = estimates(Observed(100, np.array([40, 50])), several(), "adjusted")[0]
        np.testing.assert_allclose(found, [0.4, 0.5])
        sums = np.array([50, 50])
        found = estimates(Observed(100, np.zeros(2), sums, sums), several(), "probabilistic")[0]
        without, having = (0.7 + 1.5) / 6, 2.8 / 4
        np.testing.assert_allclose(found, [(0.5 - without) / (having - without), 0.5])

        found = estimates(Observed(100, np.array([1, 100])), several(), "adjusted")  # shares stay between 0 and 1
        assert found[0].tolist() == [0, 1] and np.nanmin(found) == 0 and np.nanmax(found) == 1

    def test_a_label_that_the_model_cannot_tell_has_no_share(self):
        gold, probabilities = np.array([[1], [1], [0], [0]]), np.array([[0.1], [0.2], [0.8], [0.1]])
        counts = ValidationCounts.of(gold, probabilities, ["a"], [0.5])
        assert np.isnan(estimates(Observed(10, np.array([3])), counts, "adjusted")[0, 0])

    @pytest.mark.parametrize("method", ["adjusted", "probabilistic"])
    def test_classes_are_corrected_together(self, method):
        generator = np.random.default_rng(0)
        gold = np.repeat([0, 1, 2], 1000)
        counts = ValidationCounts.of(gold, draw(gold, generator), ["a", "b", "c"])
        truth = np.array([0.1, 0.3, 0.6])
        answers = draw(generator.choice(3, 20_000, p=truth), generator)
        chosen = np.bincount(answers.argmax(axis=1), minlength=3)
        found = estimates(Observed(20_000, chosen, answers.sum(axis=0), (answers**2).sum(axis=0)), counts, method)
        assert np.abs(chosen / 20_000 - truth).max() > 0.07  # the plain count is wrong
        np.testing.assert_allclose(found[0], truth, atol=0.02)
        np.testing.assert_allclose(found.sum(axis=1), 1)
        low, high = interval(found)
        assert ((low <= truth) & (truth <= high)).all()

    def test_needs_what_it_corrects_with(self):
        with pytest.raises(ValueError, match="errors of the model"):
            estimates(Observed(10, np.array([1])), None, "adjusted")
        with pytest.raises(ValueError, match="every label"):
            estimates(Observed(10, np.array([1, 2])), several(), "probabilistic")


class TestIntervals:
    @pytest.mark.parametrize("method", ["adjusted", "probabilistic"])
    def test_covers_new_samples_and_new_validation_rows(self, method):
        """200 worlds in which the validation rows are drawn anew, too: without their error the interval would cover about 0.75."""
        generator = np.random.default_rng(1)
        covered = []
        for stream in range(200):
            parts = []
            for rows, share in ((400, 0.1), (2000, 0.3)):
                gold = (generator.random((rows, 1)) < share).astype(int)
                parts.append((gold, 1 / (1 + np.exp(1 - 2.0 * gold - generator.normal(size=gold.shape)))))
            (known, scored), (gold, scores) = parts
            counts = ValidationCounts.of(known, scored, ["a"], [0.5])
            observed = Observed(2000, (scores > 0.5).sum(axis=0), scores.sum(axis=0), (scores**2).sum(axis=0))
            low, high = interval(estimates(observed, counts, method, stream))
            covered.append(low[0] <= gold.mean() <= high[0])
        assert 0.92 <= np.mean(covered) <= 0.995

    def test_one_row_tells_hardly_anything(self):
        low, high = interval(estimates(Observed(1, np.array([0, 1])), None, "plain"))
        assert low[0] == 0 and high[0] > 0.5 and low[1] < 0.5 and high[1] == 1
        # Nor do 23: if none of them has the label, 10 % of all may have it (Jeffreys), however sure the model is.
        counts = ValidationCounts.of(np.array([[1], [0]] * 500), np.array([[0.9], [0.3]] * 500), ["a"], [0.5])
        seen = Observed(23, np.zeros(1), np.array([23 * 0.05]), np.array([23 * 0.05**2]))
        assert interval(estimates(seen, counts, "probabilistic"))[1] == pytest.approx(0.10, abs=0.02)

    def test_groups_share_the_validation_errors(self):
        """Two groups of a million rows with 30 and 20 % chosen: their difference is far surer than each share."""
        groups = enumerate((300_000, 290_000))
        a, b = (estimates(Observed(10**6, np.array([k, k])), several(), "adjusted", stream) for stream, k in groups)
        width = lambda samples: float(np.subtract(*interval(samples)[::-1])[0])  # noqa: E731
        assert width(a - b) < 0.3 * width(a)
