# SPDX-License-Identifier: Apache-2.0
"""Mistakes that users make: each ends in a message, or is said in a warning, where it once gave a wrong answer without a word."""

import numpy as np
import pytest

from hf_emotion import metrics
from hf_emotion.metrics import macro_f1, mcnemar, paired_bootstrap


# Metrics. 4 rows, 3 labels.

NAMES = ["anger", "joy", "neutral"]
IDS = np.array([0, 1, 2, 1])
MULTI_HOT = np.eye(3, dtype=int)[IDS]
SCORES = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6], [0.5, 0.3, 0.2]])
LOGITS = np.log(SCORES)


@pytest.mark.parametrize("thresholds", [30, [0.3, 30, 0.3], [0.3, float("nan"), 0.3], -0.1])
def test_thresholds_in_percent_are_no_f1_of_0(thresholds):
    with pytest.raises(ValueError, match=r"`thresholds`.*\[0, 1\]"):
        metrics.goemotions(MULTI_HOT, SCORES, thresholds, NAMES)


def test_probabilities_are_no_decisions():
    with pytest.raises(ValueError, match="`decisions`.*0 and 1"):
        metrics.goemotions(MULTI_HOT, SCORES, label_names=NAMES, decisions=SCORES)
    for labels in (MULTI_HOT, IDS):  # rounded down, or true wherever they are not 0
        with pytest.raises(ValueError, match="decisions"):
            macro_f1(labels, SCORES)
        with pytest.raises(ValueError, match="decisions"):
            mcnemar(labels, SCORES, SCORES[::-1])
    with pytest.raises(ValueError, match="decisions"):
        paired_bootstrap(macro_f1, MULTI_HOT, SCORES, SCORES[::-1], samples=2)


def test_decisions_may_be_numbers_of_any_type():
    chosen = SCORES > 0.4
    for form in (bool, int, float, np.float32):
        assert macro_f1(MULTI_HOT, chosen.astype(form)) == macro_f1(MULTI_HOT, chosen)
        assert mcnemar(MULTI_HOT, chosen.astype(form), MULTI_HOT) == mcnemar(MULTI_HOT, chosen, MULTI_HOT)
    assert macro_f1(IDS, IDS.astype(float)) == 1


@pytest.mark.parametrize("wrong", [LOGITS, 100 * SCORES, SCORES * np.nan])
def test_logits_and_percents_are_no_probabilities(wrong):
    calls = (
        lambda: metrics.reliability(IDS, wrong),
        lambda: metrics.reliability(MULTI_HOT, wrong),
        lambda: metrics.fit_temperature(IDS, wrong),
        lambda: metrics.temperature_scaled(wrong, 2.0, multi_label=False),
        lambda: metrics.threshold_curve(MULTI_HOT[:, 0], wrong[:, 0]),
    )
    for call in calls:
        with pytest.raises(ValueError, match=r"`probabilities`.*\[0, 1\]"):
            call()


def test_threshold_curve_of_swapped_arguments():
    with pytest.raises(ValueError, match="`labels`"):
        metrics.threshold_curve(LOGITS[:, 0], SCORES[:, 0])


@pytest.mark.parametrize("temperature", [0.0, -1.0, float("nan")])
def test_temperature_must_be_positive(temperature):
    with pytest.raises(ValueError, match="`temperature`"):
        metrics.temperature_scaled(SCORES, temperature, multi_label=False)


def test_a_column_without_a_name_is_no_prediction():
    wider = np.hstack([SCORES, np.full((4, 1), 0.9)])  # its argmax is never right
    with pytest.raises(ValueError, match=r"\(4, 3\).*\(4, 4\)"):
        metrics.classification(IDS, wider, NAMES)


@pytest.mark.parametrize("labels", [np.array(["anger", "joy", "neutral", "joy"]), IDS + 0.5])
def test_class_ids_are_whole_numbers(labels):
    with pytest.raises(ValueError, match="`labels`.*class ids"):
        metrics.classification(labels, SCORES, NAMES)


def test_predicted_ids_are_no_probabilities():
    with pytest.raises(ValueError, match=r"`probabilities`.*\(4, 3\)"):
        metrics.classification(IDS, IDS, NAMES)


@pytest.mark.parametrize(
    "metric",
    [
        lambda texts: metrics.type_token_ratio(texts, 1),
        metrics.average_length,
        metrics.stop_word_share,
        metrics.repetition_rate,
    ],
)
def test_one_reply_is_no_list_of_replies(metric):
    with pytest.raises(ValueError, match="list"):
        metric("so so happy")  # which is a list of letters
    assert metric(["so so happy"]) == metric(["So so happy"])
