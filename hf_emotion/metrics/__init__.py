# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F401 - what users import from here
"""
Metrics as plain functions. Fractions lie in [0, 1]; an undefined figure is NaN. Arrays that do not fit raise a ValueError that names them.
"""

from ..gold import Gold
from .aspect import semeval2014, sentihood
from .calibration import at_bound, fit_temperature, reliability, scaled_threshold, temperature_scaled
from .dialogue import dialogue, in_context
from .generation import (
    ReplyFigures,
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
from .ngram_perplexity import NgramPerplexity
from .quantification import ValidationCounts
from .regression import regression
from .selective import abstention_threshold, answered, prediction_sets, risk_coverage, row_losses, set_threshold
from .significance import bootstrap_over_seeds, macro_f1, mcnemar, paired_bootstrap
from .votes import against_votes, agreement, krippendorff_alpha


# Figures whose names end like this are better when they are lower.
LOWER_IS_BETTER = ("loss", "mae", "cross_entropy", "perplexity", "neutral_to_other", "other_to_neutral")


def sign_of(metric: str) -> int:
    """-1 for a metric that is better when it is lower, else 1: times this, higher is better."""
    return -1 if metric.endswith(LOWER_IS_BETTER) else 1
