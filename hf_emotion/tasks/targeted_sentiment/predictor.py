# SPDX-License-Identifier: Apache-2.0
"""Predicts targeted sentiment: every target and aspect of many texts, length-sorted in large batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ...runtime.batching import as_texts
from ...runtime.classifying import (
    Encoded,
    TextRows,
    encode_rows,
    encoded_probabilities,
    is_multi_label,
    row_probabilities,
)
from ...runtime.plain import text_processing
from ...runtime.unread import Unread
from ..predictor import LabelPredictor
from ..results import Label, Results, Scored
from . import TASK
from .loading import context_names, is_none
from .results import Sentiment


if TYPE_CHECKING:
    import torch
    from datasets import Dataset
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from ..corpus import Corpus

# A question about a text: the text's number, the target (None if the model has only aspects) and the aspect.
Pair = tuple[int, str | None, str]


class TargetedPredictor(LabelPredictor[list[Sentiment]]):
    """
    Sentiment towards the aspects of the targets in texts, from a checkpoint. Threads and forked processes may share it, as
    `Predictor`.

    >>> predictor = TargetedPredictor("runs/sentihood_qacg")  # doctest: +SKIP
    >>> predictor(["LOCATION1 is cheap but dodgy"])  # doctest: +SKIP
    [[{'target': 'LOCATION1', 'aspect': 'general', 'label': 'none', 'score': 0.98, 'scores': {...}}, ...]]
    """

    task = TASK
    gate = None  # a TF-IDF gate could remove the targets

    def __init__(
        self,
        checkpoint: str | Path | PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase | None = None,
        device: str | int | torch.device | None = None,
        max_length: int | None = None,
        dtype: str | None = None,
    ):
        """Arguments and errors as for `Predictor`; ValueError also for a checkpoint whose config names no `aspects`."""
        super().__init__(checkpoint, tokenizer, device, max_length, dtype)
        self.multi_label = is_multi_label(self.model.config)
        check_room(self.tokenizer, self.model.config, self.max_length)

    def __call__(
        self,
        texts: Sequence[str] | str,
        targets: Sequence[str] | None = None,
        progress: bool = False,
    ) -> Results[list[Sentiment]]:
        """
        The label of every target and aspect of each text.

        Args:
            texts: the texts; a single string counts as a list of one.
            targets: the targets to ask for in every text, instead of the targets that it names.
            progress: show a progress bar.

        Returns:
            for each text a list of {"target", "aspect", "label", "score", "scores"}, without "target" if the model has only
            aspects.

        Raises:
            ValueError: an empty text, a text that names none of the model's targets, an unknown target.
        """
        return Results.of(self.predict(texts, targets, progress)[0], texts)

    def predict_quietly(
        self, texts: Sequence[str] | str, targets: Sequence[str] | None = None, progress: bool = False
    ) -> tuple[list[list[Sentiment]], Unread]:
        texts = as_texts(texts)
        pairs = self.pairs(texts, targets)
        probabilities, found = self._of_pairs(texts, pairs, progress)
        return self.present(probabilities, pairs, len(texts)), _by_text(found, pairs, len(texts))

    def pairs(self, texts: Sequence[str], targets: Sequence[str] | None = None) -> list[Pair]:
        """
        The questions about texts: every aspect of the given targets, or of the targets that each text names. Errors as in a
        call.
        """
        config = self.model.config
        if targets is not None and (isinstance(targets, str) or not targets):
            raise ValueError(f"`targets` must be a list of names, at least one of {config.targets}; got {targets!r}.")
        if targets is None:
            asked = [self.targets_in(text, number) for number, text in enumerate(texts)]
        else:
            own: list[str | None] = list(dict.fromkeys(targets))
            for target in own:
                text_processing.check_target(config, target)
            asked = [own] * len(texts)
        return self._all(asked)

    def targets_in(self, text: str, number: int = 0) -> list[str | None]:
        """The targets that a text names, at least one; [None] if the model has only aspects."""
        config = self.model.config
        found: list[str | None]
        found = [None] if config.targets is None else list(text_processing.targets_in(config, text))
        if not found:
            raise ValueError(
                f"text {number + 1} names none of the model's targets {config.targets}: {text!r}. Or pass `targets`."
            )
        return found

    def _all(self, targets: Sequence[Sequence[str | None]]) -> list[Pair]:
        aspects = self.model.config.aspects
        return [(number, target, aspect) for number, own in enumerate(targets) for target in own for aspect in aspects]

    def encode(self, texts: Sequence[str] | str, targets: Sequence[str] | None = None) -> Encoded:
        """The pairs of texts as the model reads them, in the order of `pairs`."""
        texts = as_texts(texts)
        return encode_rows(self, self._rows(texts, self._inputs(self.pairs(texts, targets))))

    def probabilities(
        self,
        texts: Sequence[str] | str | Encoded,
        targets: Sequence[str] | None = None,
        progress: bool = False,
        raw: bool = False,
    ) -> np.ndarray:
        """
        (N, C) float32 for the N pairs of texts, or of what `encode` returned for them, in the order of `pairs`; `raw`: without the
        model's temperature.
        """
        if isinstance(texts, Encoded):
            return encoded_probabilities(self, texts, raw=raw).reshape(-1, len(self.labels))
        texts = as_texts(texts)
        probabilities, unread = self._of_pairs(texts, self.pairs(texts, targets), progress, raw=raw)
        self.warn_unread(unread.counts)
        return probabilities

    def present(self, probabilities: np.ndarray, pairs: Sequence[Pair], texts: int) -> list[list[Sentiment]]:
        """The result of a call, from the probabilities (N, C) of N pairs; `texts`: the number of texts."""
        results: list[list[Sentiment]] = [[] for _ in range(texts)]
        for (number, target, aspect), row in zip(pairs, probabilities.tolist(), strict=True):
            results[number].append(cast(Sentiment, text_processing.target_entry(target, aspect, self.labels, row)))
        return results

    def of_rows(self, rows: Dataset, progress: bool = False) -> np.ndarray:
        """(N, C) float32 for the rows of targeted sentiment data (columns `text`, `aspect` and, if any, `target`)."""
        targets, aspects = context_names(rows)
        names = [aspects[i] for i in rows["aspect"]]
        of = [None] * len(rows) if targets is None else [targets[i] for i in rows["target"]]
        pairs = list(zip(range(len(rows)), of, names, strict=True))
        texts = list(rows["text"])
        if getattr(self.model.config, "auxiliary_sentence", False):
            # Terms are all one aspect, and each row has its own.
            asked = replace(self._rows(texts, pairs), auxiliaries=list(rows["auxiliary"]))
            probabilities, unread = row_probabilities(self, asked, progress)
        else:
            known = list(dict.fromkeys(texts))
            numbers = {text: number for number, text in enumerate(known)}
            pairs = [(numbers[texts[row]], target, aspect) for row, target, aspect in pairs]
            probabilities, unread = self._of_pairs(known, pairs, progress)
        self.warn_unread(unread.counts)
        return probabilities

    def scored_items(self, texts: Sequence[str], top_k: int | None = None) -> tuple[list[list[Label]], Unread, Scored]:
        """
        For each text its labels except "none", as {"label": "TARGET/ASPECT/LABEL", "score"}, none if it names no target; what the model
        cannot read of it; and for each of `wide_labels` the most probable label and its probability, NaN and None for the aspects of
        targets that the text does not name.
        """
        self.check_top_k(top_k)
        config = self.model.config
        pairs = self._all(
            [[None] if config.targets is None else text_processing.targets_in(config, text) for text in texts]
        )
        probabilities, found = self._of_pairs(texts, pairs)
        present = self.present(probabilities, pairs, len(texts))
        number_of = {name: number for number, name in enumerate(self.wide_labels)}
        shape = len(texts), len(number_of)
        scored = Scored(np.full(shape, np.nan, np.float32), np.full(shape, None, object))
        for row, items in enumerate(present):
            for item in items:
                column = number_of["/".join(filter(None, (item.get("target"), item["aspect"])))]
                scored.probabilities[row, column], scored.decisions[row, column] = item["score"], item["label"]
        return [as_labels(items) for items in present], _by_text(found, pairs, len(texts)), scored

    @property
    def wide_labels(self) -> list[str]:
        """What `scored_items` has a column for: the aspects, for each target if the model knows targets."""
        config = self.model.config
        return [
            "/".join(filter(None, (target, aspect)))
            for target in config.targets or [None]
            for aspect in config.aspects
        ]

    @staticmethod
    def check_top_k(top_k: int | None) -> None:
        if top_k is not None:
            raise ValueError("`top_k` is for emotions: targeted sentiment has one label for each target and aspect.")

    def loader_options(self, corpus: Corpus) -> Mapping[str, Any]:
        """A file need not have every label, aspect and target of the model."""
        if "aspects" not in corpus.options:
            return {}
        config = self.model.config
        options = {"labels": self.labels, "aspects": config.aspects}
        return options if config.targets is None else {**options, "target_column": "target", "targets": config.targets}

    def _inputs(self, pairs: Sequence[Pair]) -> list[Pair]:
        """The pairs that the model reads: of one that answers for all aspects at once, each text and target with its first aspect."""
        if not text_processing.all_aspects_at_once(self.model.config):
            return list(pairs)
        first: dict[tuple, Pair] = {}
        for pair in pairs:
            first.setdefault(pair[:2], pair)
        return list(first.values())

    def _of_pairs(
        self, texts: Sequence[str], pairs: Sequence[Pair], progress: bool = False, raw: bool = False
    ) -> tuple[np.ndarray, Unread]:
        """(N, C) float32, and what the model cannot read, for each of N pairs."""
        read = self._inputs(pairs)
        probabilities, found = row_probabilities(self, self._rows(texts, read), progress, raw=raw)
        if probabilities.ndim == 2:
            return probabilities, found
        places = {pair[:2]: place for place, pair in enumerate(read)}
        rows = np.array([places[pair[:2]] for pair in pairs], dtype=int)
        aspects = self.model.config.aspects
        return probabilities[rows, [aspects.index(aspect) for *_, aspect in pairs]], found.take(rows)

    def _rows(self, texts: Sequence[str], pairs: Sequence[Pair]) -> TextRows:
        config = self.model.config
        inputs = [
            text_processing.model_inputs(config, texts[number], target, aspect) for number, target, aspect in pairs
        ]
        return TextRows(
            [text for text, _, _ in inputs],
            [auxiliary for _, auxiliary, _ in inputs if auxiliary is not None] or None,
            [context_id for _, _, context_id in inputs] if hasattr(config, "num_contexts") else None,
        )


def as_labels(items: Sequence[Sentiment]) -> list[Label]:
    """The sentiments of a text but "none", as {"label": "TARGET/ASPECT/LABEL", "score"}."""
    return [
        {
            "label": "/".join(item[part] for part in ("target", "aspect", "label") if part in item),
            "score": item["score"],
        }
        for item in items
        if not is_none(item["label"])
    ]


def _by_text(found: Unread, pairs: Sequence[Pair], texts: int) -> Unread:
    """For each text the values of its worst pair."""
    numbers = np.array([number for number, _, _ in pairs], dtype=int)
    unread = Unread.nothing(texts)
    for of_texts, of_pairs in zip(unread[:2], found[:2], strict=True):
        np.maximum.at(of_texts, numbers, of_pairs)
    unread.language[numbers] = found.language
    return unread


def check_room(tokenizer: PreTrainedTokenizerBase, config, max_length: int) -> None:
    """ValueError unless `max_length` leaves room for the longest auxiliary sentence and a word of the text."""
    if not getattr(config, "auxiliary_sentence", False):
        return
    words = config.target_texts or config.targets or [None]
    sentences = [text_processing.auxiliary_sentence(target, aspect) for target in words for aspect in config.aspects]
    needed = max(len(ids) for ids in tokenizer(["a"] * len(sentences), sentences)["input_ids"])
    if max_length < needed:
        raise ValueError(
            f"`max_length` must be at least {needed}, for the auxiliary sentence and a word; got {max_length}."
        )
