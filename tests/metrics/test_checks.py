# SPDX-License-Identifier: Apache-2.0
"""What metrics take, in which form, and what they refuse: each message names the argument that is wrong."""

import json

import numpy as np
import pytest

from hf_emotion import metrics
from hf_emotion.metrics import macro_f1, mcnemar, modules, paired_bootstrap


ZEROS, ROWS = np.zeros((2, 3), int), np.full((2, 3), 0.5)
NAMES = ["a", "b", "c"]
IDS, SHARES = np.array([0, 1]), np.array([[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]])
GROUP = np.array([0, 1, 2, 0])
SCORES = np.eye(3)[GROUP]


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda: metrics.goemotions(ZEROS, np.zeros((2, 4)), 0.3, NAMES), "probabilities"),
        (lambda: metrics.goemotions(ZEROS + 2, ROWS, 0.3, NAMES), "labels"),
        (lambda: metrics.goemotions(ZEROS, ROWS + 1, 0.3, NAMES), "probabilities"),
        (lambda: metrics.goemotions(ZEROS, ROWS, 30, NAMES), "thresholds"),
        (lambda: metrics.goemotions(ZEROS, ROWS), "labels"),  # which has no 28 columns
        (lambda: metrics.goemotions(ZEROS, ROWS, label_names=NAMES, decisions=ZEROS[:, :2]), "decisions"),
        (lambda: metrics.classification(IDS, ROWS[:1], NAMES), "probabilities"),
        (lambda: metrics.classification(IDS - 1, ROWS, NAMES), "labels"),
        (lambda: metrics.classification(IDS, ROWS * np.inf, NAMES), "probabilities"),
        (lambda: metrics.dialogue(IDS, ROWS[:, :2], NAMES), "probabilities"),
        (lambda: metrics.dialogue(IDS[None], ROWS[None], NAMES), "probabilities"),
        (lambda: metrics.sentihood(GROUP, SCORES[:3]), "probabilities"),
        (lambda: metrics.sentihood(GROUP + 1, SCORES), "labels"),
        (lambda: metrics.sentihood(GROUP > 0, SCORES), "labels"),
        (lambda: metrics.sentihood(GROUP, SCORES - 0.25), "probabilities"),
        (lambda: metrics.sentihood(GROUP, SCORES * 0.99), "probabilities"),
        (lambda: metrics.hits_at_k(SHARES, [0]), "labels"),
        (lambda: metrics.hits_at_k(SHARES, [0, 3]), "labels"),
        (lambda: metrics.hits_at_k(SHARES * np.nan, IDS), "ranked_or_probabilities"),
        (lambda: metrics.against_votes(SHARES[:1], SHARES, False), "probabilities"),
        (lambda: metrics.against_votes(SHARES * 4, SHARES, True), "votes"),
        (lambda: metrics.against_votes(SHARES / 2, SHARES, False), "votes"),
        (lambda: metrics.row_losses(IDS, ZEROS), "decisions"),
        (lambda: metrics.risk_coverage([0.5], [0, 1]), "losses"),
        (lambda: metrics.risk_coverage([0.5, 0.4], [0, np.nan]), "losses"),
        (lambda: metrics.set_threshold(IDS, SHARES * 4, 0.9), "probabilities"),
        (lambda: metrics.set_threshold(IDS[:1], SHARES, 0.9), "labels"),
        (lambda: metrics.prediction_sets(IDS, SHARES, NAMES), "sets"),
        (lambda: metrics.bootstrap_over_seeds(IDS, IDS[None], IDS), "second"),
        (lambda: metrics.bootstrap_over_seeds(IDS, ZEROS[:, :2], IDS[None], paired_seeds=True), "paired_seeds"),
        (lambda: metrics.mcnemar(IDS, IDS, IDS[:1]), "decisions"),
    ],
)
def test_the_message_names_the_argument(call, argument):
    with pytest.raises(ValueError, match=f"`{argument}`"):
        call()


@pytest.mark.parametrize(
    ("metric", "module", "classes", "several"),
    [
        (metrics.goemotions, modules.GoEmotions, 3, True),
        (metrics.dialogue, modules.DialogueEmotion, 3, False),
        (metrics.sentihood, modules.SentiHood, 3, False),
        (metrics.semeval2014, modules.SemEval2014, 5, False),
    ],
)
def test_lists_batches_and_half_precision_give_the_same_and_inputs_stay(metric, module, classes, several, tmp_path):
    draw = np.random.default_rng(0)
    rows = draw.dirichlet(np.ones(classes), 20).astype(np.float32)
    labels = draw.integers(0, 2, (20, classes)) if several else draw.integers(0, classes, 20)
    options = {"label_names": NAMES} if metric in (metrics.goemotions, metrics.dialogue) else {}
    copies = labels.copy(), rows.copy()
    expected = metric(labels, rows, **options)
    assert (labels == copies[0]).all() and (rows == copies[1]).all()
    assert json.dumps(metric(labels.tolist(), rows.tolist(), **options)) == json.dumps(expected)  # NaN, too
    metric(labels, rows.astype(np.float16), **options)  # whose sums are a little off
    module = module(cache_dir=str(tmp_path))
    for start in range(0, 20, 7):  # batches that cut groups apart
        batch = slice(start, start + 7)
        module.add_batch(predictions=rows[batch].tolist(), references=labels[batch].tolist())
    assert json.dumps(module.compute(**options)) == json.dumps(expected)


# The same four rows as classes, as 0 and 1, as probabilities and as logits.
CLASSES = np.array([0, 1, 2, 1])
MULTI_HOT = np.eye(3, dtype=int)[CLASSES]
PROBABILITIES = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6], [0.5, 0.3, 0.2]])
LOGITS = np.log(PROBABILITIES)
WIDER = np.hstack([PROBABILITIES, np.full((4, 1), 0.9)])  # whose argmax is never right


def test_probabilities_are_no_decisions():
    with pytest.raises(ValueError, match="`decisions`.*0 and 1"):
        metrics.goemotions(MULTI_HOT, PROBABILITIES, label_names=NAMES, decisions=PROBABILITIES)
    calls = [lambda: paired_bootstrap(macro_f1, MULTI_HOT, PROBABILITIES, PROBABILITIES[::-1], samples=2)]
    for labels in (MULTI_HOT, CLASSES):  # rounded down, or true wherever they are not 0
        calls += [
            lambda y=labels: macro_f1(y, PROBABILITIES),
            lambda y=labels: mcnemar(y, PROBABILITIES, PROBABILITIES[::-1]),
        ]
    for call in calls:
        with pytest.raises(ValueError, match="decisions"):
            call()
    chosen = PROBABILITIES > 0.4  # decisions may be numbers of any type
    for form in (bool, int, float, np.float32):
        assert macro_f1(MULTI_HOT, chosen.astype(form)) == macro_f1(MULTI_HOT, chosen)
        assert mcnemar(MULTI_HOT, chosen.astype(form), MULTI_HOT) == mcnemar(MULTI_HOT, chosen, MULTI_HOT)
    assert macro_f1(CLASSES, CLASSES.astype(float)) == 1


@pytest.mark.parametrize(
    ("metric", "arguments", "message"),
    [
        pytest.param(metrics.threshold_curve, (LOGITS[:, 0], PROBABILITIES[:, 0]), "`labels`", id="swapped"),
        pytest.param(
            metrics.classification, (CLASSES, WIDER, NAMES), r"\(4, 3\).*\(4, 4\)", id="a column without a name"
        ),
        pytest.param(
            metrics.classification, (CLASSES + 0.5, PROBABILITIES, NAMES), "`labels`.*class ids", id="halves"
        ),
        pytest.param(
            metrics.classification, (np.array(["joy"] * 4), PROBABILITIES, NAMES), "`labels`.*class ids", id="words"
        ),
        pytest.param(metrics.classification, (CLASSES, CLASSES, NAMES), r"`probabilities`.*\(4, 3\)", id="classes"),
        *(
            pytest.param(metrics.temperature_scaled, (PROBABILITIES, t, False), "`temperature`", id=f"temperature {t}")
            for t in (0.0, -1.0, np.nan)
        ),
    ],
)
def test_arguments_of_another_kind(metric, arguments, message):
    with pytest.raises(ValueError, match=message):
        metric(*arguments)


@pytest.mark.parametrize(
    "wrong", [LOGITS, 100 * PROBABILITIES, PROBABILITIES * np.nan], ids=["logits", "percents", "nan"]
)
def test_what_is_no_probability(wrong):
    for metric, arguments in (
        (metrics.reliability, (CLASSES, wrong)),
        (metrics.reliability, (MULTI_HOT, wrong)),
        (metrics.fit_temperature, (CLASSES, wrong)),
        (metrics.temperature_scaled, (wrong, 2.0, False)),
        (metrics.threshold_curve, (MULTI_HOT[:, 0], wrong[:, 0])),
    ):
        with pytest.raises(ValueError, match=r"`probabilities`.*\[0, 1\]"):
            metric(*arguments)
