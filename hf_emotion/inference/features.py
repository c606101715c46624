# SPDX-License-Identifier: Apache-2.0
"""Emotions as features of scikit-learn."""

from functools import lru_cache
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin

from . import load_predictor


class EmotionFeatures(TransformerMixin, BaseEstimator):
    """
    Texts -> the probability of each emotion, (N, C) float32, for pipelines, grid searches and `ColumnTransformer` (with one column, whose name
    is not a list). The model is not trained; it is loaded once for all copies with the same parameters.

    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> model = make_pipeline(EmotionFeatures("goemotions"), LogisticRegression())  # doctest: +SKIP

    Args:
        model: a run folder, a ready model or a Hub id that reads single texts.
        taxonomy: "ekman" or "sentiment" to roll the 28 GoEmotions labels up.
        max_length, device: see `Predictor`.
    """

    def __init__(
        self,
        model: str,
        taxonomy: str | None = None,
        max_length: int | None = None,
        device: str | int | None = None,
    ):
        self.model, self.taxonomy, self.max_length, self.device = model, taxonomy, max_length, device

    def fit(self, X: Any, y: Any = None) -> "EmotionFeatures":
        """Load the model; it learns nothing from the texts."""
        self.labels_ = list(self._predictor().labels)
        return self

    def transform(self, X: Any) -> np.ndarray:
        """(N, C) for a list, an array or a Series of N texts."""
        return self._predictor().probabilities(X)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """The C labels."""
        return np.asarray(self._predictor().labels, dtype=object)

    def _predictor(self) -> Any:
        return _loaded(self.model, self.taxonomy, self.max_length, self.device)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string, tags.input_tags.two_d_array = True, False
        tags.requires_fit = False
        return tags


@lru_cache(maxsize=4)
def _loaded(model: str, taxonomy: str | None, max_length: int | None, device: str | int | None) -> Any:
    return load_predictor(model, taxonomy, max_length, device)
