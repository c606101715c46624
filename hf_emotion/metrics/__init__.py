# SPDX-License-Identifier: Apache-2.0
"""Metrics as plain functions. Fractions lie in [0, 1]; what is undefined is NaN."""

from collections.abc import Sequence

import numpy as np

from .aspect import semeval2014, sentihood
from .calibration import fit_temperature, reliability, temperature_scaled
from .dialogue import dialogue
from .generation import (
    NgramPerplexity,
    average_length,
    bertscore,
    hits_at_k,
    identical_share,
    repetition_rate,
    reply_metrics,
    stop_word_share,
    type_token_ratio,
)
from .multi_label import (
    PUBLISHED_THRESHOLD,
    classification,
    confusions,
    goemotions,
    paper_errors,
    threshold_curve,
    tune_thresholds,
)
from .significance import bootstrap_over_seeds, macro_f1, mcnemar, paired_bootstrap


CORPUS_METRICS = {"sentihood": sentihood, "semeval2014": semeval2014}
# What chooses the epoch on the development split, macro-F1 elsewhere: a figure that covers aspect and sentiment.
SELECTION_METRICS = {
    "emotion6": "accuracy",
    "sentihood": "strict_accuracy",
    "semeval2014": "accuracy",
    "meld": "weighted_f1",
    "emorynlp": "weighted_f1",
    "daily_dialog": "micro_f1_without_neutral",
}
# How the names of the figures end of which the lowest is the best.
LOWER_IS_BETTER = ("loss", "perplexity", "neutral_to_other", "other_to_neutral")
DIALOGUE_CORPORA = ("meld", "emorynlp", "daily_dialog", "iemocap", "dialogue_files")


def single_label(corpus: str, labels: np.ndarray, probabilities: np.ndarray, label_names: Sequence[str]) -> dict:
    """
    `classification`, and the published metrics of the corpus where it has its own. Rows without label (-1) are left out.

    Raises:
        ValueError: see `classification`; no row has a label.
    """
    if corpus in DIALOGUE_CORPORA:
        return dialogue(labels, probabilities, label_names)
    known = np.asarray(labels) >= 0
    if not known.any():
        raise ValueError(f"none of the {len(known)} rows has a label (an id of 0 or above): is this the right split?")
    result = classification(np.asarray(labels)[known], np.asarray(probabilities)[known], label_names)
    if corpus in CORPUS_METRICS:
        result |= CORPUS_METRICS[corpus](labels, probabilities)
    return result


def at_thresholds(
    corpus: str,
    labels: np.ndarray,
    probabilities: np.ndarray,
    label_names: Sequence[str],
    threshold: float,
    tuned: Sequence[float] | None,
) -> dict[str, dict]:
    """`goemotions` at one "fixed" threshold and at "tuned" ones, one for each label; without these `single_label` as "argmax"."""
    if tuned is None:
        return {"argmax": single_label(corpus, labels, probabilities, label_names)}
    return {
        "fixed": goemotions(labels, probabilities, threshold, label_names),
        "tuned": goemotions(labels, probabilities, tuned, label_names),
    }


__all__ = [
    "CORPUS_METRICS",
    "LOWER_IS_BETTER",
    "NgramPerplexity",
    "PUBLISHED_THRESHOLD",
    "SELECTION_METRICS",
    "at_thresholds",
    "average_length",
    "bertscore",
    "bootstrap_over_seeds",
    "classification",
    "confusions",
    "dialogue",
    "fit_temperature",
    "goemotions",
    "hits_at_k",
    "identical_share",
    "macro_f1",
    "mcnemar",
    "paired_bootstrap",
    "paper_errors",
    "reliability",
    "repetition_rate",
    "reply_metrics",
    "semeval2014",
    "sentihood",
    "single_label",
    "stop_word_share",
    "temperature_scaled",
    "threshold_curve",
    "tune_thresholds",
    "type_token_ratio",
]
