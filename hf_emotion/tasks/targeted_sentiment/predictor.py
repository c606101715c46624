# SPDX-License-Identifier: Apache-2.0
"""Prediction of targeted aspect sentiment: every target and aspect of many texts, length-sorted in large batches."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...runtime.batching import as_texts
from ...runtime.plain import target_texts
from ...runtime.unread import Unread
from ..emotion_classification.predictor import Predictor


if TYPE_CHECKING:
    import torch
    from datasets import Dataset
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


class TargetedPredictor(Predictor):
    """
    Sentiment towards the targets' aspects of texts, from a checkpoint.

    >>> predictor = TargetedPredictor("runs/sentihood_qacg")  # doctest: +SKIP
    >>> predictor(["LOCATION1 is cheap but dodgy"])  # doctest: +SKIP
    [[{'target': 'LOCATION1', 'aspect': 'general', 'label': 'none', 'score': 0.98, 'scores': {...}}, ...]]
    """

    targeted = True

    def __init__(
        self,
        checkpoint: "str | Path | PreTrainedModel",
        tokenizer: "PreTrainedTokenizerBase | None" = None,
        device: "str | torch.device | None" = None,
        max_length: int | None = None,
        dtype: str | None = None,
    ):
        """The arguments and errors of `Predictor`; a checkpoint whose config names no `aspects` is a ValueError."""
        super().__init__(checkpoint, tokenizer, device, max_length, dtype=dtype)
        check_room(self.tokenizer, self.model.config, self.max_length)

    def __call__(  # type: ignore[override]  # asked for targets, it answers with entries: a predictor of its own kind
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
        return self.predict(texts, targets, progress)[0]

    def predict(  # type: ignore[override]
        self,
        texts: Sequence[str] | str,
        targets: Sequence[str] | None = None,
        progress: bool = False,
    ) -> tuple[list[list[dict[str, Any]]], Unread]:
        """As a call, and what the model cannot read of each text."""
        config = self.model.config
        texts = as_texts(texts)
        if targets is not None and (isinstance(targets, str) or not targets):
            raise ValueError(f"`targets` must be a list of names, at least one of {config.targets}; got {targets!r}.")
        if targets is None:
            of = [
                [None] if config.targets is None else self._targets_in(text, number)
                for number, text in enumerate(texts)
            ]
        else:
            of = [list(dict.fromkeys(targets))] * len(texts)
        results, unread = self._predict(texts, of, progress)
        self.warn_unread(*unread.counts)
        return results, unread

    def _targets_in(self, text: str, number: int) -> list[str]:
        found = target_texts.targets_in(self.model.config, text)
        if not found:
            raise ValueError(
                f"text {number + 1} names none of the model's targets {self.model.config.targets}: write one of them where the "
                f"text speaks of it, or pass `targets`. The text: {text!r}"
            )
        return found

    def _predict(self, texts: list[str], targets: list[list], progress: bool) -> tuple[list[list[dict]], Unread]:
        pairs = [
            (number, target, aspect)
            for number, names in enumerate(targets)
            for target in names
            for aspect in self.model.config.aspects
        ]
        numbers = np.array([number for number, _, _ in pairs], dtype=int)
        probabilities, found = self._pair_probabilities(
            [texts[number] for number in numbers], [pair[1:] for pair in pairs], progress
        )
        unread = Unread.nothing(len(texts))
        for of_texts, of_pairs in zip(unread, found, strict=True):
            np.maximum.at(of_texts, numbers, of_pairs)
        results: list[list[dict[str, Any]]] = [[] for _ in texts]
        for (number, target, aspect), row in zip(pairs, probabilities.tolist(), strict=True):
            results[number].append(target_texts.entry(target, aspect, self.labels, row))
        return results, unread

    # What `predict_file` calls. A row whose text names no target has no predictions.

    def _label_probabilities(self, texts, progress: bool = False):
        config = self.model.config
        targets = [[None] if config.targets is None else target_texts.targets_in(config, text) for text in texts]
        return self._predict(list(texts), targets, progress)

    def rank(self, probabilities, top_k: int | None = None) -> list[list[dict]]:
        """Results of `__call__` -> for each text what is not "none", as {"label": "TARGET/ASPECT/LABEL", "score"}."""
        self.check_top_k(top_k)
        return [
            [
                {
                    "label": "/".join(item[part] for part in ("target", "aspect", "label") if part in item),
                    "score": item["score"],
                }
                for item in items
                if item["label"].casefold() != "none"
            ]
            for items in probabilities
        ]

    @staticmethod
    def check_top_k(top_k: int | None) -> None:
        if top_k is not None:
            raise ValueError("`top_k` is for emotions: targeted sentiment has one label for each target and aspect.")

    def row_probabilities(self, rows: "Dataset", progress: bool = False) -> np.ndarray:
        """(N, C) float32 for the rows of targeted sentiment data (columns `text`, `aspect` and, if any, `target`)."""
        from .rows import context_names

        targets, aspects = context_names(rows)
        names = [aspects[i] for i in rows["aspect"]]
        of = [None] * len(rows) if targets is None else [targets[i] for i in rows["target"]]
        probabilities, unread = self._pair_probabilities(
            list(rows["text"]), list(zip(of, names, strict=True)), progress
        )
        self.warn_unread(*unread.counts)
        return probabilities

    def _pair_probabilities(self, texts: list[str], pairs: list[tuple], progress: bool):
        config = self.model.config
        inputs = [target_texts.model_inputs(config, text, *pair) for text, pair in zip(texts, pairs, strict=True)]
        return self._run(
            [text for text, _, _ in inputs],
            [auxiliary for _, auxiliary, _ in inputs if auxiliary is not None] or None,
            [context_id for _, _, context_id in inputs] if hasattr(config, "num_contexts") else None,
            progress,
        )


def check_room(tokenizer: "PreTrainedTokenizerBase", config, max_length: int) -> None:
    """ValueError unless `max_length` leaves room for the longest auxiliary sentence and a word of the text."""
    if not config.auxiliary_sentence:
        return
    words = config.target_texts or config.targets or [None]
    sentences = [target_texts.auxiliary_sentence(target, aspect) for target in words for aspect in config.aspects]
    needed = max(len(ids) for ids in tokenizer(["a"] * len(sentences), sentences)["input_ids"])
    if max_length < needed:
        raise ValueError(
            f"`max_length` must be at least {needed}, so that the longest auxiliary sentence and a word of the text fit in; "
            f"got {max_length}."
        )
