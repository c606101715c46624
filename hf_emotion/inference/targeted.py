# SPDX-License-Identifier: Apache-2.0
"""Prediction of targeted aspect sentiment: every target and aspect of many texts, length-sorted in large batches."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ..data import context_names
from ..modeling.pipeline_targeted_sentiment import entry, model_inputs, targets_in
from .predictor import Predictor


class TargetedPredictor(Predictor):
    """
    Sentiment towards the targets' aspects of texts, from a checkpoint.

    >>> predictor = TargetedPredictor("runs/sentihood_qacg")  # doctest: +SKIP
    >>> predictor(["LOCATION1 is cheap but dodgy"])  # doctest: +SKIP
    [[{'target': 'LOCATION1', 'aspect': 'general', 'label': 'none', 'score': 0.98, 'scores': {...}}, ...]]
    """

    def __init__(
        self,
        checkpoint: str | Path | PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase | None = None,
        device: str | torch.device | None = None,
        max_length: int | None = None,
    ):
        """
        The arguments of `Predictor`.

        Raises:
            ValueError: a checkpoint whose config names no `aspects`.
        """
        super().__init__(checkpoint, tokenizer, device, max_length)
        if not is_targeted(self.model.config):
            raise ValueError(f"{checkpoint} was not trained for targeted sentiment: its config names no `aspects`.")

    def __call__(  # type: ignore[override]
        self,
        texts: Sequence[str] | str,
        targets: Sequence[str] | None = None,
        progress: bool = False,
    ) -> list[list[dict[str, Any]]]:
        """
        For each text the label of every target and aspect.

        Args:
            texts: the texts; a single string counts as a list of one.
            targets: the targets to ask for in every text, instead of those that it names.
            progress: show a progress bar.

        Returns:
            for each text a list of {"target", "aspect", "label", "score", "scores"}, without "target" where the model knows
            aspects only.

        Raises:
            ValueError: an empty text, a text that names none of the model's targets, an unknown target.
        """
        results, truncated = self._predict(texts, targets, progress)
        self.warn_truncated(truncated, len(results))
        return results

    def _predict(self, texts, targets=None, progress: bool = False) -> tuple[list[list[dict[str, Any]]], int]:
        config = self.model.config
        texts = [texts] if isinstance(texts, str) else list(texts)
        pairs: list[tuple[int, str | None, str]] = []
        for number, text in enumerate(texts):
            if not isinstance(text, str) or not text.strip():
                raise ValueError(f"text {number + 1} of {len(texts)} is empty or no string: {text!r}")
            found = targets or ([None] if config.targets is None else targets_in(config, text))
            pairs += [(number, target, aspect) for target in found for aspect in config.aspects]
        probabilities, truncated = self._pair_probabilities(
            [texts[number] for number, _, _ in pairs], [pair[1:] for pair in pairs], progress
        )
        results: list[list[dict[str, Any]]] = [[] for _ in texts]
        for (number, target, aspect), row in zip(pairs, probabilities.tolist(), strict=True):
            results[number].append(entry(target, aspect, self.labels, row))
        return results, truncated

    def row_probabilities(self, rows: Dataset, progress: bool = False) -> np.ndarray:
        """(N, C) float32 for the rows of targeted sentiment data (columns `text`, `aspect` and, if any, `target`)."""
        targets, aspects = context_names(rows)
        names = [aspects[i] for i in rows["aspect"]]
        of = [None] * len(rows) if targets is None else [targets[i] for i in rows["target"]]
        probabilities, truncated = self._pair_probabilities(list(rows["text"]), list(zip(of, names, strict=True)), progress)
        self.warn_truncated(truncated, len(rows))
        return probabilities

    def _pair_probabilities(self, texts: list[str], pairs: list[tuple], progress: bool) -> tuple[np.ndarray, int]:
        config = self.model.config
        inputs = [model_inputs(config, text, *pair) for text, pair in zip(texts, pairs, strict=True)]
        return self._run(
            [text for text, _, _ in inputs],
            [auxiliary for _, auxiliary, _ in inputs] if config.auxiliary_sentence else None,
            [context_id for _, _, context_id in inputs] if hasattr(config, "num_contexts") else None,
            progress,
        )


def is_targeted(config) -> bool:
    """Whether a model was trained for targeted sentiment."""
    return getattr(config, "aspects", None) is not None
