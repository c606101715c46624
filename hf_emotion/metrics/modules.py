# SPDX-License-Identifier: Apache-2.0
"""The metrics as `evaluate.Metric` modules: they work offline, where `evaluate.load` would fetch a script."""

import datasets
import evaluate
import numpy as np

from .multi_label import PUBLISHED_THRESHOLD, goemotions


class GoEmotions(evaluate.Metric):
    """`hf_emotion.metrics.goemotions`: references are lists of 0 and 1, predictions lists of probabilities."""

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(
            description="Multi-label precision, recall and F1 of emotion classification, at thresholds.",
            citation="",
            inputs_description="predictions: rows of probabilities; references: rows of 0 and 1.",
            features=datasets.Features(
                {
                    "predictions": datasets.Sequence(datasets.Value("float32")),
                    "references": datasets.Sequence(datasets.Value("int8")),
                }
            ),
        )

    def _compute(self, predictions, references, thresholds=PUBLISHED_THRESHOLD, label_names=None) -> dict:
        return goemotions(np.asarray(references), np.asarray(predictions), thresholds, label_names)
