# SPDX-License-Identifier: Apache-2.0
"""Metrics as plain functions. Fractions lie in [0, 1]; what is undefined is NaN."""

from .multi_label import PUBLISHED_THRESHOLD, classification, goemotions, tune_thresholds
from .significance import macro_f1, mcnemar, paired_bootstrap


__all__ = [
    "PUBLISHED_THRESHOLD",
    "classification",
    "goemotions",
    "macro_f1",
    "mcnemar",
    "paired_bootstrap",
    "tune_thresholds",
]
