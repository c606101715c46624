# SPDX-License-Identifier: Apache-2.0
"""Metrics as plain functions. Fractions lie in [0, 1]; what is undefined is NaN."""

from .multi_label import PUBLISHED_THRESHOLD, classification, goemotions, tune_thresholds


__all__ = ["PUBLISHED_THRESHOLD", "classification", "goemotions", "tune_thresholds"]
