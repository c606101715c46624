# SPDX-License-Identifier: Apache-2.0
"""Metrics of emotion in dialogues against an example counted by hand and plain loops over utterances."""

import math
import random

import numpy as np
import pytest

from hf_emotion import metrics


NAMES = ["joy", "neutral", "anger", "fear"]


def rows_for(decisions: list[int], classes: int = 4) -> np.ndarray:
    """Probabilities whose argmax are the decisions."""
    rows = np.full((len(decisions), classes), 0.3 / (classes - 1))
    rows[np.arange(len(decisions)), decisions] = 0.7
    return rows


def random_case(seed: int, count: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """Labels, some of them -1 or -100, never fear, and probabilities that lean towards them."""
    draw = random.Random(seed)
    labels = [draw.choice([0, 1, 1, 1, 2, -1, -100]) for _ in range(count)]
    rows = []
    for label in labels:
        weights = [draw.random() + (0.5 if c == label else 0) for c in range(4)]
        rows.append([weight / sum(weights) for weight in weights])
    return np.array(labels), np.array(rows)


def plain_f1(labels: list[int], rows: list[list[float]], among: list[int]) -> dict[str, float]:
    """F1 of the labels in `among`, micro, macro and weighted, counted one utterance at a time."""
    f1s, supports, all_hits, all_found = [], [], 0, 0
    for label in among:
        hits = found = support = 0
        for gold, row in zip(labels, rows, strict=True):
            if gold < 0:
                continue
            decision = max(range(len(row)), key=lambda column: row[column])
            hits += gold == decision == label
            found += decision == label
            support += gold == label
        f1s.append(2 * hits / (found + support) if found + support else 0.0)
        supports.append(support)
        all_hits, all_found = all_hits + hits, all_found + found
    return {
        "micro": 2 * all_hits / (all_found + sum(supports)),
        "macro": sum(f1s) / len(f1s),
        "weighted": sum(f1 * support for f1, support in zip(f1s, supports, strict=True)) / sum(supports),
    }


def test_by_hand():
    #         joy joy neu neu neu anger -    -     neu
    labels = [0, 0, 1, 1, 1, 2, -1, -100, 1]
    found = [0, 1, 1, 0, 1, 0, 3, 3, 1]
    result = metrics.dialogue(np.array(labels), rows_for(found), NAMES)
    assert result["accuracy"] == pytest.approx(4 / 7)
    # Joy: 1 of 3 found is right, 1 of 2 is found. Anger: none found.
    assert result["per_label"]["joy"] == {
        **{"precision": pytest.approx(1 / 3), "recall": 0.5, "f1": pytest.approx(0.4)},
        "support": 2,
    }
    assert result["per_label"]["fear"]["support"] == 0 and result["per_label"]["fear"]["precision"] == 0
    assert result["macro_f1"] == pytest.approx((0.4 + 0.75 + 0 + 0) / 4)
    assert result["weighted_f1"] == pytest.approx((2 * 0.4 + 4 * 0.75) / 7)
    assert result["micro_f1_without_neutral"] == pytest.approx(2 * 1 / (3 + 3))
    assert result["macro_f1_without_neutral"] == pytest.approx(0.4 / 3)
    assert result["weighted_f1_without_neutral"] == pytest.approx(2 * 0.4 / 3)


@pytest.mark.parametrize("seed", range(3))
def test_against_loops(seed):
    labels, rows = random_case(seed)
    result = metrics.dialogue(labels, rows, NAMES)
    everything, others = (plain_f1(labels.tolist(), rows.tolist(), among) for among in ([0, 1, 2, 3], [0, 2, 3]))
    for average in ("macro", "weighted"):
        assert result[f"{average}_f1"] == pytest.approx(everything[average])
    assert result["accuracy"] == pytest.approx(everything["micro"])  # the same where every row has one decision
    for average in ("micro", "macro", "weighted"):
        assert result[f"{average}_f1_without_neutral"] == pytest.approx(others[average])


def test_utterances_without_label_count_nowhere():
    labels, rows = random_case(8)
    known = labels >= 0
    rows[~known] = np.nan
    assert metrics.dialogue(labels, rows, NAMES) == metrics.dialogue(labels[known], rows[known], NAMES)
    expected = metrics.classification(labels[known], rows[known], NAMES)
    result = metrics.dialogue(labels, rows, NAMES)
    assert {name: result[name] for name in expected} == expected


def test_neutral_alone_and_without_a_neutral_label():
    result = metrics.dialogue(np.array([1, 1, -1]), rows_for([1, 0, 0]), NAMES)
    for average in ("micro", "macro", "weighted"):
        assert math.isnan(result[f"{average}_f1_without_neutral"])
    names = ["joy", "calm", "anger", "fear"]
    expected = metrics.classification(np.array([0, 1]), rows_for([0, 2]), names)
    assert metrics.dialogue(np.array([0, 1]), rows_for([0, 2]), names) == expected
