# SPDX-License-Identifier: Apache-2.0
"""Metrics of aspect sentiment against plain loops over rows."""

import math
import random

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

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
    return max(among, key=row.__getitem__)  # of several the first one


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
        aspect_aucs.append(roc_auc_score([labels[i] == 0 for i in mine], [rows[i][0] for i in mine]))
        opinions = [i for i in mine if labels[i]]
        ratios = [rows[i][2] / (rows[i][1] + rows[i][2]) if rows[i][1] + rows[i][2] else 0.5 for i in opinions]
        sentiment_aucs.append(roc_auc_score([labels[i] == 2 for i in opinions], ratios))
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
    """Groups of five aspects: 0 positive, 1 neutral, 2 negative, 3 conflict, 4 none."""

    @pytest.mark.parametrize("seed", range(3))
    def test_against_loops(self, seed):
        labels, rows = random_case(seed, groups=30, aspects=5, classes=5, none=4)
        result = metrics.semeval2014(labels, rows)
        assert result == pytest.approx(plain_semeval2014(labels.tolist(), rows.tolist()), abs=1e-12)
        assert all(isinstance(value, float) for value in result.values())

    def test_nothing_found(self):
        result = metrics.semeval2014(np.array([4, 0, 4, 2, 4, 1, 4, 4, 3, 0]), rows_for([4] * 10, 5))
        assert math.isnan(result["precision"]) and result["recall"] == result["f1"] == 0.0

        for decisions in ([4, 4, 0, 4, 4], [4] * 5):  # nothing there
            result = metrics.semeval2014(np.full(5, 4), rows_for(decisions, 5))
            assert all(math.isnan(value) for value in result.values())
