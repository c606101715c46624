# SPDX-License-Identifier: Apache-2.0
"""Metrics of aspect sentiment against examples counted by hand and plain loops over rows."""

import math
import random

import numpy as np
import pytest

from hf_emotion import metrics


def rows_for(decisions: list[int], classes: int, confidence: float = 0.8) -> np.ndarray:
    """Probabilities whose argmax are the decisions; the other classes share the rest."""
    rows = np.full((len(decisions), classes), (1 - confidence) / (classes - 1))
    rows[np.arange(len(decisions)), decisions] = confidence
    return rows


def random_case(seed: int, groups: int, aspects: int, classes: int, none: int) -> tuple[np.ndarray, np.ndarray]:
    """Labels, half of them none, and probabilities on a coarse grid (with ties) that lean towards the labels."""
    draw = random.Random(seed)
    others = [c for c in range(classes) if c != none]
    labels, rows = [], []
    for _ in range(groups * aspects):
        labels.append(none if draw.random() < 0.5 else draw.choice(others))
        weights = [draw.randrange(5) + (3 if c == labels[-1] else 0) for c in range(classes)]
        weights[none] += sum(weights) == 0
        rows.append([weight / sum(weights) for weight in weights])
    return np.array(labels), np.array(rows)


def plain_argmax(row: list[float], among: list[int]) -> int:
    best = among[0]
    for column in among[1:]:
        if row[column] > row[best]:
            best = column
    return best


def plain_auc(gold: list[bool], scores: list[float]) -> float:
    """Share of the (positive, negative) pairs in the right order; a tie counts one half."""
    pairs = [
        (a > b) + 0.5 * (a == b)
        for a, first in zip(scores, gold, strict=True)
        if first
        for b, second in zip(scores, gold, strict=True)
        if not second
    ]
    return sum(pairs) / len(pairs)


def plain_sentihood(labels: list[int], rows: list[list[float]]) -> dict[str, float]:
    strict, precisions, recalls = [], [], []
    for start in range(0, len(labels), 4):
        gold = {i: labels[start + i] for i in range(4)}
        found = {i: plain_argmax(rows[start + i], [0, 1, 2]) for i in range(4)}
        strict.append(gold == found)
        said, there = {i for i in range(4) if found[i]}, {i for i in range(4) if gold[i]}
        if there:
            common = len(said & there)
            precisions.append(common / len(said) if common else 0.0)
            recalls.append(common / len(there) if common else 0.0)
    precision, recall = sum(precisions) / len(precisions), sum(recalls) / len(recalls)
    aspect_aucs, sentiment_aucs, right = [], [], []
    for aspect in range(4):
        mine = range(aspect, len(labels), 4)
        aspect_aucs.append(plain_auc([labels[i] == 0 for i in mine], [rows[i][0] for i in mine]))
        opinions = [i for i in mine if labels[i]]
        ratios = [rows[i][2] / (rows[i][1] + rows[i][2]) if rows[i][1] + rows[i][2] else 0.5 for i in opinions]
        sentiment_aucs.append(plain_auc([labels[i] == 2 for i in opinions], ratios))
        right += [(ratio > 0.5) == (labels[i] == 2) for i, ratio in zip(opinions, ratios, strict=True)]
    return {
        "strict_accuracy": sum(strict) / len(strict),
        "aspect_macro_f1": 2 * precision * recall / (precision + recall),
        "aspect_auc": sum(aspect_aucs) / 4,
        "sentiment_accuracy": sum(right) / len(right),
        "sentiment_auc": sum(sentiment_aucs) / 4,
    }


def plain_semeval2014(labels: list[int], rows: list[list[float]]) -> dict[str, float]:
    said, there, common = 0, 0, 0
    for start in range(0, len(labels), 5):
        gold = {i for i in range(start, start + 5) if labels[i] != 4}
        found = {i for i in range(start, start + 5) if plain_argmax(rows[i], [0, 1, 2, 3, 4]) != 4}
        if gold:
            said, there, common = said + len(found), there + len(gold), common + len(gold & found)
    precision, recall = common / said, common / there
    result = {"precision": precision, "recall": recall, "f1": 2 * precision * recall / (precision + recall)}
    for name, among in (("4way", [0, 1, 2, 3]), ("3way", [0, 1, 2]), ("2way", [0, 2])):
        right = [plain_argmax(row, among) == label for label, row in zip(labels, rows, strict=True) if label in among]
        result[f"accuracy_{name}"] = sum(right) / len(right)
    return result


class TestSentiHood:
    """Groups of general, price, safety, transit-location: 0 none, 1 positive, 2 negative."""

    def test_by_hand(self):
        # First group: one of two found, with two wrong ones. Second: both, with the other polarity, which does not count here. Third:
        # no gold aspect, so that its two findings are left out.
        labels = np.array([1, 2, 0, 0, 0, 0, 2, 1, 0, 0, 0, 0])
        precision, recall = (1 / 3 + 1) / 2, (1 / 2 + 1) / 2
        result = metrics.sentihood(labels, rows_for([1, 0, 2, 1, 0, 0, 1, 2, 1, 1, 0, 0], 3))
        assert result["aspect_macro_f1"] == pytest.approx(2 * precision * recall / (precision + recall))
        # P(none) is the largest everywhere: the argmax says nothing about the polarity. r = 0.5 is positive; the third row is wrong.
        r = np.array([0.2, 0.4, 0.6, 0.5, 0.9, 0.7, 0.55, 0.5])
        rows = np.stack([np.full(8, 0.8), 0.2 * (1 - r), 0.2 * r], axis=1)
        rows[[3, 7]] = [0.8, 0.1, 0.1]
        result = metrics.sentihood(np.array([1, 1, 1, 1, 2, 2, 2, 2]), rows)
        assert result["sentiment_accuracy"] == pytest.approx(6 / 8)
        assert result["sentiment_auc"] == pytest.approx((1 + 1 + 0 + 0.5) / 4)

    def test_certain_of_none(self):
        """P(positive) and P(negative) are both 0: r is 0.5, which is positive, and no warning."""
        labels = np.array([1, 1, 1, 1, 2, 2, 2, 2])
        with np.errstate(all="raise"):
            result = metrics.sentihood(labels, rows_for([0] * 8, 3, confidence=1.0))
        assert result["sentiment_accuracy"] == result["sentiment_auc"] == 0.5
        rows = np.concatenate([np.tile([0.0, 0.8, 0.2], (4, 1)), rows_for([0] * 4, 3, confidence=1.0)])
        assert metrics.sentihood(labels, rows)["sentiment_auc"] == 1.0  # between r = 0.2
        rows[:4] = [0.0, 0.2, 0.8]
        assert metrics.sentihood(labels, rows)["sentiment_auc"] == 0.0  # and r = 0.8

    @pytest.mark.parametrize("seed", range(3))
    def test_against_loops(self, seed):
        labels, rows = random_case(seed, groups=40, aspects=4, classes=3, none=0)
        result = metrics.sentihood(labels, rows)
        assert result == pytest.approx(plain_sentihood(labels.tolist(), rows.tolist()), abs=1e-12)
        assert all(isinstance(value, float) for value in result.values())

    def test_no_gold_aspect_at_all(self):
        result = metrics.sentihood(np.zeros(8, dtype=int), rows_for([0] * 8, 3))
        assert result["strict_accuracy"] == 1.0
        undefined = ("aspect_macro_f1", "aspect_auc", "sentiment_accuracy", "sentiment_auc")
        assert all(math.isnan(result[name]) for name in undefined)

    def test_one_class_in_one_aspect(self):
        labels, rows = random_case(1, groups=40, aspects=4, classes=3, none=0)
        expected = plain_sentihood(labels.tolist(), rows.tolist())
        labels[2::4][labels[2::4] == 2] = 1  # no negative opinion on safety
        result = metrics.sentihood(labels, rows)
        assert math.isnan(result["sentiment_auc"]) and not math.isnan(result["sentiment_accuracy"])
        assert result["aspect_auc"] == pytest.approx(expected["aspect_auc"])
        labels[2::4][labels[2::4] == 0] = 1  # an opinion on safety everywhere
        result = metrics.sentihood(labels, rows)
        assert math.isnan(result["aspect_auc"]) and not math.isnan(result["aspect_macro_f1"])


class TestSemEval2014:
    # Two sentences, five aspects: 0 positive, 1 neutral, 2 negative, 3 conflict, 4 none.
    LABELS = np.array([4, 0, 4, 2, 4, 1, 4, 4, 3, 0])

    def test_by_hand(self):
        # Found: six, of which four are there; of the five that are there one is missed. The polarity does not matter.
        result = metrics.semeval2014(self.LABELS, rows_for([0, 2, 4, 2, 4, 0, 1, 4, 3, 4], 5))
        assert [result[name] for name in ("precision", "recall", "f1")] == pytest.approx([4 / 6, 4 / 5, 8 / 11])
        rows = [
            [0.2, 0.0, 0.1, 0.0, 0.7],  # positive, though none is more probable
            [0.1, 0.2, 0.3, 0.4, 0.0],  # negative in the 3-way and 2-way figures, conflict in the 4-way one
            [0.3, 0.4, 0.1, 0.2, 0.0],  # gold positive: right in the 2-way figure alone
            [0.1, 0.5, 0.2, 0.2, 0.0],  # gold neutral
            [0.6, 0.1, 0.0, 0.3, 0.0],  # gold conflict, taken for positive
        ]
        result = metrics.semeval2014(np.array([0, 2, 0, 1, 3]), np.array(rows))
        found = [result[f"accuracy_{name}"] for name in ("4way", "3way", "2way")]
        assert found == pytest.approx([2 / 5, 3 / 4, 1])

    @pytest.mark.parametrize("seed", range(3))
    def test_against_loops(self, seed):
        labels, rows = random_case(seed, groups=30, aspects=5, classes=5, none=4)
        result = metrics.semeval2014(labels, rows)
        assert result == pytest.approx(plain_semeval2014(labels.tolist(), rows.tolist()), abs=1e-12)
        assert all(isinstance(value, float) for value in result.values())

    def test_nothing_found(self):
        result = metrics.semeval2014(self.LABELS, rows_for([4] * 10, 5))
        assert math.isnan(result["precision"]) and result["recall"] == result["f1"] == 0.0

    @pytest.mark.parametrize("decisions", [[4, 4, 0, 4, 4], [4] * 5])
    def test_nothing_there(self, decisions):
        result = metrics.semeval2014(np.full(5, 4), rows_for(decisions, 5))
        assert all(math.isnan(value) for value in result.values())
