# SPDX-License-Identifier: Apache-2.0
"""Metrics of emotion in dialogues against an example counted by hand."""

import math

import numpy as np
import pytest

from hf_emotion import metrics


NAMES = ["joy", "neutral", "anger", "fear"]


def rows_for(decisions: list[int], classes: int = 4) -> np.ndarray:
    """Probabilities whose argmax are the decisions."""
    rows = np.full((len(decisions), classes), 0.3 / (classes - 1))
    rows[np.arange(len(decisions)), decisions] = 0.7
    return rows


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


def test_utterances_without_label_count_nowhere():
    """Beside the figures without neutral they are those of `classification`, which test_metrics.py has against loops."""
    draw = np.random.default_rng(8)
    labels, rows = draw.choice([0, 1, 1, 1, 2, -1, -100], 60), draw.dirichlet(np.ones(4), 60)
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
