# SPDX-License-Identifier: Apache-2.0
"""The metrics as `evaluate.Metric` modules: they work offline, where `evaluate.load` would fetch a script."""

from collections.abc import Callable

import datasets
import evaluate
import numpy as np

from .aspect import semeval2014, sentihood
from .dialogue import dialogue
from .multi_label import goemotions


class _Metric(evaluate.Metric):
    """Takes gold labels and rows of probabilities, in the order of the corpus: groups of rows stay together."""

    metric: Callable[..., dict]
    references = datasets.Value("int64")

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(
            description=type(self).__doc__,
            citation="",
            inputs_description="predictions: rows of probabilities; references: gold labels.",
            features=datasets.Features(
                {"predictions": datasets.Sequence(datasets.Value("float32")), "references": self.references}
            ),
        )

    def _compute(self, predictions, references, **options) -> dict:
        return type(self).metric(np.asarray(references), np.asarray(predictions), **options)


class GoEmotions(_Metric):
    """`hf_emotion.metrics.goemotions`: references are lists of 0 and 1, predictions lists of probabilities."""

    metric = staticmethod(goemotions)
    references = datasets.Sequence(datasets.Value("int8"))


class SentiHood(_Metric):
    """`hf_emotion.metrics.sentihood`: references are class ids, predictions lists of 3 probabilities."""

    metric = staticmethod(sentihood)


class SemEval2014(_Metric):
    """`hf_emotion.metrics.semeval2014`: references are class ids, predictions lists of 5 probabilities."""

    metric = staticmethod(semeval2014)


class DialogueEmotion(_Metric):
    """`hf_emotion.metrics.dialogue`: references are class ids, -1 without a label; predictions lists of probabilities."""

    metric = staticmethod(dialogue)
