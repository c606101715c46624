# SPDX-License-Identifier: Apache-2.0
"""Metrics against plain loops over rows and labels, and scikit-learn."""

import collections
import itertools
import math
import random
from functools import partial

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import binomtest
from sklearn.metrics import average_precision_score, precision_recall_fscore_support

from hf_emotion import metrics
from hf_emotion.tasks.corpus_metrics import single_label
from hf_emotion.taxonomies import GOEMOTIONS


def plain_scores(gold, predicted) -> dict:
    """Precision, recall and F1 of scikit-learn: averaged, and with the support per label."""
    scores = partial(precision_recall_fscore_support, gold, predicted, zero_division=0)
    averaged = {name: scores(average=name)[:3] for name in ("macro", "micro", "weighted")}
    return {**averaged, "per_label": np.array(scores()).T}


def assert_scores(result: dict, expected: dict, averages=("macro", "micro", "weighted")) -> None:
    for average in averages:
        found = [result[f"{average}_{name}"] for name in ("precision", "recall", "f1")]
        assert found == pytest.approx(expected[average], abs=1e-12), average
    for row, values in zip(result["per_label"].values(), expected["per_label"], strict=True):
        assert [row["precision"], row["recall"], row["f1"], row["support"]] == pytest.approx(values.tolist())


def random_case(seed: int, rows: int = 40, labels: int = 6) -> tuple[np.ndarray, np.ndarray]:
    """Gold labels (some rows none, some several; the last label never) and probabilities with many ties."""
    draw = random.Random(seed)
    gold = [[int(draw.random() < 0.3) if c < labels - 1 else 0 for c in range(labels)] for _ in range(rows)]
    scores = [[round(0.35 * gold[r][c] + 0.6 * draw.random(), 2) for c in range(labels)] for r in range(rows)]
    return np.array(gold), np.array(scores)


NAMES = ["joy", "anger", "fear", "neutral", "grief", "relief"]
EMOTIONS = ["joy", "neutral", "anger", "fear"]


class TestGoEmotions:
    @pytest.mark.parametrize("seed", range(2))
    @pytest.mark.parametrize("thresholds", [0.3, [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]], ids=["one", "per label"])
    def test_averages_and_labels(self, seed, thresholds):
        gold, scores = random_case(seed)
        result = metrics.goemotions(gold, scores, thresholds, NAMES)
        assert_scores(result, plain_scores(gold, scores > np.array(thresholds)))
        assert list(result["per_label"]) == NAMES

    def test_the_threshold_itself_does_not_pass(self):
        gold = np.array([[1, 1, 0], [1, 0, 0]])
        scores = np.array([[0.3, 0.4, 0.3], [np.nextafter(0.3, 1), 0.1, 0.3]])
        result = metrics.goemotions(gold, scores, 0.3, ["a", "b", "c"])
        assert result["per_label"]["a"] == {"precision": 1.0, "recall": 0.5, "f1": pytest.approx(2 / 3), "support": 2}
        assert result["micro_precision"] == 1.0  # no "c", which stands at the threshold in both rows

    def test_published_threshold_is_the_default(self):
        gold, scores = random_case(3, labels=28)
        expected, other = (metrics.goemotions(gold, scores, limit, GOEMOTIONS)["per_label"] for limit in (0.3, 0.5))
        assert metrics.goemotions(gold, scores)["per_label"] == expected != other

    def test_decisions_take_the_place_of_thresholds(self):
        gold, scores = random_case(4)
        decisions = np.random.default_rng(0).random(gold.shape) > 0.5
        result = metrics.goemotions(gold, scores, label_names=NAMES, decisions=decisions)
        assert_scores(result, plain_scores(gold, decisions))
        # What the probabilities rank does not depend on decisions.
        thresholded = metrics.goemotions(gold, scores, 0.3, NAMES)
        for name in ("top1_accuracy", "macro_average_precision"):
            assert result[name] == thresholded[name]

    def test_average_precision_is_a_mean_over_the_labels_that_occur(self):
        gold, scores = random_case(5)  # whose sixth label has no rows
        values = [average_precision_score(gold[:, column], scores[:, column]) for column in range(5)]
        result = metrics.goemotions(gold, scores, 0.3, NAMES)
        assert result["macro_average_precision"] == pytest.approx(sum(values) / 5)

    @pytest.mark.parametrize("seed", range(2))
    def test_error_analysis(self, seed):
        gold, scores = random_case(seed)
        scores = scores + np.arange(6) * 1e-4  # no ties
        right = wrong = all_in_top3 = several = 0
        confusions, neutral, others = collections.Counter(), [], []
        for own, row_scores in zip(gold, scores, strict=True):
            present, ranking = np.flatnonzero(own).tolist(), np.argsort(-row_scores).tolist()
            if len(present) == 1:
                label, best = NAMES[present[0]], NAMES[ranking[0]]
                right, wrong = right + (label == best), wrong + (label != best)
                if label != best:
                    confusions[label, best] += 1
                (neutral if label == "neutral" else others).append(best)
            elif len(present) > 1:
                several += 1
                all_in_top3 += set(present) <= set(ranking[:3])
        result = metrics.goemotions(gold, scores, 0.3, NAMES)
        assert right and wrong and several and neutral and others and 0 < all_in_top3 < several
        assert result["top1_accuracy"] == pytest.approx(right / (right + wrong))
        assert result["top3_accuracy"] == pytest.approx(all_in_top3 / several)
        assert result["neutral_to_other"] == pytest.approx(sum(name != "neutral" for name in neutral) / len(neutral))
        assert result["other_to_neutral"] == pytest.approx(sum(name == "neutral" for name in others) / len(others))
        found = {(row["gold"], row["predicted"]): row["rows"] for row in result["confusions"]}
        assert sorted(found.values(), reverse=True) == [row["rows"] for row in result["confusions"]]
        assert all(confusions[pair] == rows for pair, rows in found.items())
        assert sorted(found.values(), reverse=True) == sorted(confusions.values(), reverse=True)[:10]
        many = metrics.goemotions(np.eye(28, dtype=int), np.roll(np.eye(28), 1, axis=1) * 0.9)
        assert [row["rows"] for row in many["confusions"]] == [1] * 10

    def test_shares_without_rows_are_nan(self):
        shares = ("top1_accuracy", "top3_accuracy", "neutral_to_other", "other_to_neutral", "macro_average_precision")
        names, top1, top3, from_neutral, to_neutral, precision = ["joy", "anger", "neutral"], *shares
        for gold, known in (
            (np.eye(3), {top1, from_neutral, to_neutral, precision}),
            (np.ones((2, 3)), {top3, precision}),
            (np.eye(3)[[2, 2]], {top1, from_neutral, precision}),  # neutral rows alone
            (np.zeros((2, 3)), set()),
        ):
            result = metrics.goemotions(gold.astype(int), np.eye(3)[: len(gold)], 0.3, names)
            assert {name for name in shares if not math.isnan(result[name])} == known
        assert result["macro_f1"] == 0.0
        result = metrics.goemotions(np.eye(2, dtype=int), np.eye(2), 0.3, ["joy", "anger"])
        assert not {"neutral_to_other", "other_to_neutral"} & set(result)


def f1_at(gold: list[float], scores: list[float], threshold: float) -> float:
    hits = sum(g for g, s in zip(gold, scores, strict=True) if s > threshold)
    return 2 * hits / (sum(gold) + sum(s > threshold for s in scores)) if hits else 0.0


def platt(gold: list[int], scores: list[float]) -> list[float]:
    """Sigmoids of a * logit + b, a and b by a general minimizer; a penalty of a² / 200."""
    if all(gold):
        return [1.0] * len(gold)
    logits = np.array([math.log(s / (1 - s)) for s in (min(max(s, 1e-6), 1 - 1e-6) for s in scores)])
    signs = 2 * np.array(gold) - 1

    def loss(line):
        return np.logaddexp(0, -signs * (line[0] * logits + line[1])).sum() + line[0] ** 2 / 200

    a, b = minimize(loss, [1.0, 0.0], method="Nelder-Mead", options={"xatol": 1e-7, "fatol": 1e-10, "maxiter": 5000}).x
    return (1 / (1 + np.exp(-(a * logits + b)))).tolist()


def best_f1(gold: list[float], scores: list[float]) -> float:
    """Best F1 over every cut: below all scores, at each of them, and between."""
    values = sorted({0.0, *scores})
    cuts = values + [(a + b) / 2 for a, b in itertools.pairwise(values)]
    return max(f1_at(gold, scores, cut) for cut in cuts)


class TestTuning:
    @pytest.mark.parametrize("seed", range(5))
    def test_no_cut_has_a_better_expected_f1(self, seed):
        gold, scores = random_case(seed, rows=5 + 3 * seed)
        thresholds = metrics.tune_thresholds(gold, scores)
        assert len(thresholds) == 6 and all(0 <= threshold < 1 for threshold in thresholds)
        for column in range(6):
            rows, column_scores = gold[:, column].tolist(), scores[:, column].tolist()
            if any(rows):
                expected = platt(rows, column_scores)
                best = best_f1(expected, column_scores)
                assert f1_at(expected, column_scores, thresholds[column]) == pytest.approx(best, abs=1e-4)

    def test_expected_counts_below_one(self):
        found = metrics.threshold_curve([0.3, 0.2], [0.8, 0.4], [0.6, 0.1, 0.9])
        np.testing.assert_allclose(found["precision"], [0.3, 0.25, 0])
        np.testing.assert_allclose(found["recall"], [0.6, 1, 0])
        np.testing.assert_allclose(found["f1"], [0.6 / 1.5, 1 / 2.5, 0])

    def test_single_precision_probabilities(self):
        # Neighbours in float32. Of the second label, which has no rows, the threshold is that of all labels together.
        low = np.float32(0.2)
        high = np.nextafter(low, np.float32(1))
        gold, scores = np.array([[1, 0], [0, 0], [0, 0]]), np.array([[high, low], [low, low], [low, low]])
        assert scores.dtype == np.float32
        assert float(low) < metrics.tune_thresholds(gold, scores)[1] < float(high)

    def test_of_equally_good_cuts_the_widest_gap(self):
        # One of one, or two of three with one wrong: F1 0.667 both ... cut after the 1st or after the 4th row.
        gold, scores = [1, 0, 0, 1], [0.9, 0.85, 0.8, 0.7]
        assert f1_at(gold, scores, 0.87) == f1_at(gold, scores, 0.3) == best_f1(gold, scores)
        # Of the second label, which has no rows, the threshold is that of all labels together.
        for rows, expected in ((scores, 0.35), ([0.9, 0.2, 0.15, 0.1], 0.55)):
            columns = np.stack([gold, np.zeros(4, int)], axis=1), np.stack([rows, np.zeros(4)], axis=1)
            assert metrics.tune_thresholds(*columns)[1] == pytest.approx(expected)
        assert metrics.tune_thresholds(np.zeros((3, 2), dtype=int), np.full((3, 2), 0.2)) == [0.5, 0.5]

    @pytest.mark.parametrize(
        ("gold", "scores", "low", "high"),
        [
            pytest.param([1, 1, 0, 0], [0.9, 0.7, 0.2, 0.1], 0.45, 0.45, id="halfway-between-neighbours"),
            pytest.param([1, 1, 0, 1, 0], [0.6, 0.6, 0.6, 0.4, 0.1], 0.25, 0.25, id="equal-ones-stay-together"),
            pytest.param([0, 1, 0, 1, 1], [0.1, 0.4, 0.6, 0.6, 0.6], 0.25, 0.25, id="in-any-order"),
            pytest.param([1, 0], [0.4, 0.4], 0, np.nextafter(0.4, 0), id="all-equal"),
            pytest.param([1, 1, 0], [0.0, 0.8, 0.0], 0, 0.79, id="zeros-cannot-be-predicted"),
            pytest.param([1, 0], [0.0, 0.0], 0, 1, id="zeros-alone"),
            pytest.param([1, 0], [1.0, 0.0], 0.5, 0.5, id="one"),
        ],
    )
    def test_edges(self, gold, scores, low, high):
        (threshold,) = metrics.tune_thresholds(np.array(gold)[:, None], np.array(scores)[:, None])
        assert low - 1e-12 <= threshold <= high + (1e-12 if low == high else 0)


class TestClassification:
    @pytest.mark.parametrize("seed", range(2))
    def test_against_loops(self, seed):
        draw = random.Random(seed)
        gold = [draw.randrange(3) for _ in range(30)]  # the fourth class never occurs
        scores = [[draw.random() + (0.4 if c == g else 0) for c in range(4)] for g in gold]
        chosen = [max(range(4), key=row.__getitem__) for row in scores]
        result = metrics.classification(np.array(gold), np.array(scores), ["a", "b", "c", "d"])
        assert result["accuracy"] == pytest.approx(np.mean(np.array(gold) == chosen))
        assert_scores(result, plain_scores(np.eye(4)[gold], np.eye(4)[chosen]), ("macro", "weighted"))

    def test_rows_without_a_label_count_nowhere(self):
        scores = np.array([[0.9, 0.1], [0.2, 0.8], [0.7, 0.3]])
        result = single_label("files", np.array([0, -1, 0]), scores, ["a", "b"])
        assert result == metrics.classification(np.array([0, 0]), scores[[0, 2]], ["a", "b"])
        assert result["accuracy"] == 1
        with pytest.raises(ValueError, match="none of the 2 rows has a label"):
            single_label("files", np.array([-1, -1]), scores[:2], ["a", "b"])


def rows_for(decisions: list[int], classes: int = 4) -> np.ndarray:
    """Probabilities whose argmax are the decisions."""
    rows = np.full((len(decisions), classes), 0.3 / (classes - 1))
    rows[np.arange(len(decisions)), decisions] = 0.7
    return rows


class TestDialogue:
    def test_by_hand(self):
        #         joy joy neu neu neu anger -    -     neu
        labels = [0, 0, 1, 1, 1, 2, -1, -100, 1]
        found = [0, 1, 1, 0, 1, 0, 3, 3, 1]
        result = metrics.dialogue(np.array(labels), rows_for(found), EMOTIONS)
        assert result["accuracy"] == pytest.approx(4 / 7)
        # Joy: 1 of 3 found is right, 1 of 2 is found. Anger: none found.
        joy = {"precision": pytest.approx(1 / 3), "recall": 0.5, "f1": pytest.approx(0.4), "support": 2}
        assert result["per_label"]["joy"] == joy
        assert result["per_label"]["fear"]["support"] == 0 and result["per_label"]["fear"]["precision"] == 0
        assert result["macro_f1"] == pytest.approx((0.4 + 0.75 + 0 + 0) / 4)
        assert result["weighted_f1"] == pytest.approx((2 * 0.4 + 4 * 0.75) / 7)
        assert result["micro_f1_without_neutral"] == pytest.approx(2 * 1 / (3 + 3))
        assert result["macro_f1_without_neutral"] == pytest.approx(0.4 / 3)
        assert result["weighted_f1_without_neutral"] == pytest.approx(2 * 0.4 / 3)

    def test_utterances_without_label_count_nowhere(self):
        """Beside the figures without neutral they are those of `classification`."""
        draw = np.random.default_rng(8)
        labels, rows = draw.choice([0, 1, 1, 1, 2, -1, -100], 60), draw.dirichlet(np.ones(4), 60)
        known = labels >= 0
        rows[~known] = np.nan
        result = metrics.dialogue(labels, rows, EMOTIONS)
        assert result == metrics.dialogue(labels[known], rows[known], EMOTIONS)
        assert metrics.classification(labels[known], rows[known], EMOTIONS).items() <= result.items()

    def test_turns_that_need_their_context(self):
        #         joy joy neu anger -   of which the last two do not need it, or have no label
        labels, rows = np.array([0, 0, 1, 2, -1]), rows_for([0, 1, 1, 0, 1])
        result = metrics.in_context(labels, rows, EMOTIONS, np.array([True, True, False, False, True]))
        joy = 2 / 3  # 1 of 1 found is right, 1 of 2 is found
        assert result["needs_context_macro_f1"] == pytest.approx(joy / 4)
        assert result["needs_context_weighted_f1"] == pytest.approx(joy)
        nothing = metrics.in_context(labels, rows, EMOTIONS, labels < 0)
        assert all(map(math.isnan, nothing.values()))

    def test_neutral_alone_and_without_a_neutral_label(self):
        result = metrics.dialogue(np.array([1, 1, -1]), rows_for([1, 0, 0]), EMOTIONS)
        for average in ("micro", "macro", "weighted"):
            assert math.isnan(result[f"{average}_f1_without_neutral"])
        names = ["joy", "calm", "anger", "fear"]
        expected = metrics.classification(np.array([0, 1]), rows_for([0, 2]), names)
        assert metrics.dialogue(np.array([0, 1]), rows_for([0, 2]), names) == expected


class TestPairedBootstrap:
    @pytest.fixture(scope="class")
    def systems(self):
        draw = np.random.default_rng(7)
        gold = draw.integers(0, 4, 300)
        good = np.where(draw.random(300) < 0.9, gold, (gold + 1) % 4)
        poor = np.where(draw.random(300) < 0.6, gold, (gold + 2) % 4)
        return gold, good, poor

    def test_a_better_system(self, systems):
        gold, good, poor = systems
        result, again, reseeded, other = (
            metrics.paired_bootstrap(metrics.macro_f1, gold, *pair, samples=200, seed=seed)
            for pair, seed in (((poor, good), 0), ((poor, good), 0), ((poor, good), 1), ((good, poor), 0))
        )
        expected = metrics.macro_f1(gold, good) - metrics.macro_f1(gold, poor)
        assert result["difference"] == pytest.approx(expected) and expected > 0.1
        assert 0 < result["low"] < result["difference"] < result["high"]
        assert result["p_value"] == pytest.approx(1 / 200)  # never below one sample
        assert again == result != reseeded
        assert other["difference"] == pytest.approx(-expected) and other["high"] < 0

    def test_the_rows_of_a_sample_are_the_same_for_both_systems(self, systems):
        gold, good, _ = systems
        # The second system is right in the same rows: paired, no sample can tell them apart.
        accuracy = lambda labels, predictions: float((labels == predictions).mean())  # noqa: E731
        wrong_elsewhere = np.where(good == gold, gold, (gold + 3) % 4)
        result = metrics.paired_bootstrap(accuracy, gold, good, wrong_elsewhere, samples=50)
        assert result["low"] == result["high"] == 0.0

    def test_interval_and_p_value_from_the_samples(self, systems):
        gold, good, _ = systems
        # The difference of the metrics in sample i is i-th of these, whatever the rows.
        values = [0.1 * (i - 5) for i in range(40)]
        calls = itertools.count()

        def metric(labels, predictions):
            number = next(calls)
            return values[number // 2] if number % 2 == 0 and number < 80 else 0.0

        result = metrics.paired_bootstrap(metric, gold, good, good, samples=40)
        assert result["low"] == pytest.approx(np.quantile(values, 0.025))
        assert result["high"] == pytest.approx(np.quantile(values, 0.975))
        assert result["p_value"] == pytest.approx(2 * 6 / 40)  # six of the samples are not above 0


def noisy(gold, classes, wrong, seeds, draw):
    """Decisions of some seeds, (S, N), each wrong in about this share of the rows."""
    shift = draw.integers(1, classes, (seeds, len(gold)))
    return np.where(draw.random((seeds, len(gold))) < wrong, (gold + shift) % classes, gold)


def plain_macro_f1(gold, own):
    """Over the class ids that occur, or over all columns; in few rows much faster than scikit-learn's."""
    if gold.ndim == 1:
        gold, own = (values[:, None] == np.union1d(gold, own) for values in (gold, own))
    found = gold.sum(axis=0) + own.sum(axis=0)
    return np.mean(2 * (gold & own).sum(axis=0) / np.maximum(found, 1))


def bootstrap_in_loops(labels, first, second, paired, samples, seed):
    """What the docstring of `bootstrap_over_seeds` says, one sample and one seed at a time."""
    draw = np.random.default_rng(seed)

    def mean(system, rows):
        return np.mean([plain_macro_f1(labels[rows], own[rows]) for own in system])

    every = np.arange(len(labels))
    whole = mean(second, every) - mean(first, every)
    values = []
    for _ in range(samples):
        rows = draw.choice(every, len(every))
        value = mean(second, rows) - mean(first, rows)
        of_first = [draw.integers(len(first)) for _ in range(len(first) - 1)] or [0]
        of_second = of_first if paired else [draw.integers(len(second)) for _ in range(len(second) - 1)] or [0]
        value += mean([second[i] for i in of_second], every) - mean([first[i] for i in of_first], every) - whole
        values.append(value)
    return whole, np.array(values)


class TestBootstrapOverSeeds:
    @pytest.mark.parametrize(
        ("seeds", "paired", "multi_label"),
        [((3, 3), True, False), ((2, 4), False, True), ((1, 3), False, False)],
        ids=str,
    )
    def test_a_loop_over_samples_and_seeds(self, seeds, paired, multi_label):
        draw = np.random.default_rng(3)
        gold = draw.integers(0, 3, 30)
        first, second = (noisy(gold, 3, wrong, count, draw) for wrong, count in zip((0.2, 0.35), seeds, strict=True))
        if multi_label:
            gold, first, second = (values[..., None] == np.arange(3) for values in (gold, first, second))
        found = metrics.bootstrap_over_seeds(gold, first, second, paired, samples=2000)
        difference, values = bootstrap_in_loops(gold, first, second, paired, 300, seed=1)
        assert found["difference"] == pytest.approx(difference)
        low, high = np.percentile(values, [2.5, 97.5])
        spread = 0.25 * (high - low)  # of two draws of samples
        assert found["low"] == pytest.approx(low, abs=spread) and found["high"] == pytest.approx(high, abs=spread)
        assert found["high"] - found["low"] == pytest.approx(high - low, rel=0.15)

    def test_rare_classes_count_as_in_macro_f1(self):
        """A class id that a sample of the rows lacks does not count in it; a label of several does, with 0."""
        draw = np.random.default_rng(5)
        gold = np.array([0] * 12 + [1] * 12 + [2])
        first, second = noisy(gold, 3, 0.3, 2, draw)
        multi_hot = [ids[:, None] == range(3) for ids in (gold, first, second)]
        for labels, *systems in ((gold, first, second), multi_hot):
            expected = metrics.paired_bootstrap(metrics.macro_f1, labels, *systems, samples=300, seed=4)
            found = metrics.bootstrap_over_seeds(labels, *(system[None] for system in systems), samples=300, seed=4)
            assert found == pytest.approx(expected)

    def test_draws_of_seeds(self):
        """Seeds that are right or wrong in all rows: no draw of rows matters, of three seeds two are drawn."""
        gold = right = np.ones((20, 1))
        seeds = np.stack([right, right * 0, right])
        found = metrics.bootstrap_over_seeds(gold, seeds[1:2], seeds)
        assert found["difference"] == pytest.approx(2 / 3) and (found["low"], found["high"]) == (0, 1)
        assert found["p_value"] == pytest.approx(2 * (1 / 3) ** 2, abs=0.02)
        own, same = (metrics.bootstrap_over_seeds(gold, seeds, seeds, paired) for paired in (False, True))
        assert (own["low"], own["high"]) == (-1, 1) and (same["low"], same["high"]) == (0, 0)


class TestMcNemar:
    @pytest.mark.parametrize(("only_first", "only_second"), [(1, 5), (5, 1), (7, 7), (0, 0)])
    def test_the_exact_binomial_test(self, only_first, only_second):
        both, neither = 10, 6
        gold = np.ones(both + neither + only_first + only_second, dtype=int)
        first = np.array([1] * both + [0] * neither + [1] * only_first + [0] * only_second)
        second = np.array([1] * both + [0] * neither + [0] * only_first + [1] * only_second)
        discordant, result = only_first + only_second, metrics.mcnemar(gold, first, second)
        assert (result["only_first"], result["only_second"]) == (only_first, only_second)
        assert result["p_value"] == pytest.approx(binomtest(only_first, discordant).pvalue if discordant else 1)

    def test_a_row_counts_when_all_its_labels_are_right(self):
        gold = np.array([[1, 0], [1, 1], [0, 0], [0, 1]])
        first = np.array([[1, 0], [1, 0], [0, 0], [0, 1]])  # three rows wholly right
        second = np.array([[1, 1], [1, 1], [1, 0], [1, 1]])  # one
        result = metrics.mcnemar(gold, first, second)
        assert (result["only_first"], result["only_second"]) == (3, 1)
        assert result["p_value"] == pytest.approx(2 * (1 + 4) / 16)
