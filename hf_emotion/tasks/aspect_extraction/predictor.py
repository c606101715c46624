# SPDX-License-Identifier: Apache-2.0
"""Finds the terms of many texts, length-sorted in large batches, and the sentiment towards each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ...io.progress import progress_bar
from ...runtime.batching import (
    TOKENS_PER_BATCH,
    as_list,
    as_texts,
    chunks,
    encode_texts,
    pad_rows,
    token_budget_batches,
)
from ...runtime.checkpoints import model_probabilities
from ...runtime.classifying import TextRows, row_probabilities
from ...runtime.plain import text_processing
from ...runtime.sharing import pause, use_tokens
from ...runtime.unread import Unread
from ...runtime.windows import windowing
from ..predictor import LabelPredictor
from ..results import Results
from . import TASK
from .results import AspectTerm


if TYPE_CHECKING:
    import torch
    from datasets import Dataset
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from ..corpus import Corpus
    from ..loading import CorpusSplit


class AspectPredictor(LabelPredictor[list[AspectTerm]]):
    """
    The terms that texts speak of, and the sentiment towards each, from a checkpoint. Threads and forked processes may share it.

    >>> predictor = AspectPredictor("runs/ready_aspects")  # doctest: +SKIP
    >>> predictor(["The pizza was cold but our waiter was lovely."])  # doctest: +SKIP
    [[{'term': 'pizza', 'start': 4, 'end': 9, 'label': 'negative', 'score': 0.97}, ...]]
    """

    task = TASK
    gate = None  # a TF-IDF gate could remove the terms
    sentiments: Any = None  # the predictor of the `sentiment_model`

    def __init__(
        self,
        checkpoint: str | Path | PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase | None = None,
        device: str | int | torch.device | None = None,
        max_length: int | None = None,
        dtype: str | None = None,
        sentiment_model: str | Path | None = None,
    ):
        """
        Texts of any length are read whole, in overlapping windows of `max_length` tokens. A word is read in the window that holds more of
        the text around it.

        Args:
            sentiment_model: a checkpoint that decides the sentiment of the terms in the place of the tags; it reads pairs of a text and a
                term (the corpus option `as_pairs`).

        Other arguments and errors as for `Predictor`; ValueError also for a tokenizer that does not tell the places of its tokens.
        """
        super().__init__(checkpoint, tokenizer, device, max_length, dtype)
        if not self.tokenizer.is_fast:
            raise ValueError(
                f"{type(self.tokenizer).__name__} does not tell the places of its tokens: use a fast tokenizer."
            )
        self.windows = windowing(self.max_length)
        if sentiment_model is not None:
            from ..targeted_sentiment.predictor import TargetedPredictor

            self.sentiments = TargetedPredictor(sentiment_model, device=device, dtype=dtype)
            known = text_processing.tag_labels(self.labels)
            pairwise = getattr(self.sentiments.model.config, "auxiliary_sentence", False)
            if not pairwise or not set(known) <= set(self.sentiments.labels):
                raise ValueError(
                    f"`sentiment_model` must read a term together with the text (`model_config.auxiliary_sentence`) and know {known}; "
                    f"{sentiment_model} knows {self.sentiments.labels}."
                )

    def fingerprint(self) -> str:
        own = super().fingerprint()
        return own if self.sentiments is None else f"{own}-{self.sentiments.fingerprint()}"

    def __call__(self, texts: Sequence[str] | str, progress: bool = False) -> Results[list[AspectTerm]]:
        """
        The terms of each text, in its order: {"term", "start", "end", "label", "score"}, where `text[start:end]` is the term. `to_frame()`
        of the result has one row for each term.

        Args:
            texts: the texts; a single string counts as a list of one.
            progress: show a progress bar.

        Raises:
            ValueError: an empty text.
        """
        return Results.of(self.predict(texts, progress)[0], texts)

    def predict_quietly(
        self, texts: Sequence[str] | str, progress: bool = False
    ) -> tuple[list[list[AspectTerm]], Unread]:
        texts = readable(texts)
        results: list[list[AspectTerm]] = []
        unread = Unread.nothing(len(texts))
        with progress_bar(progress, total=len(texts), unit="texts") as bar:
            for part in chunks(texts):
                encoded = self.encode(texts[part])
                unread.put(part, encoded.unread)
                results += self.present(self._run(encoded, bar), encoded)
        return results, unread

    def encode(self, texts: Sequence[str] | str, cut: bool = False) -> EncodedTexts:
        """Texts as the model reads them; `cut`: without further windows, as in training."""
        texts = readable(texts)
        encoded = EncodedTexts(
            texts, [], [text_processing.term_words(text) for text in texts], [], [], Unread.nothing(len(texts))
        )
        for part in chunks(texts):
            windows = None if cut else self.windows
            rows, unread = encode_texts(
                self.tokenizer, [texts[part]], self.max_length, None, self.model.config, windows, places=True
            )
            encoded.input_ids.extend(rows["input_ids"])
            documents = [part.start + text for text in rows.get("documents", range(len(rows["input_ids"])))]
            masks = rows.get("pooling_mask", [None] * len(documents))
            for text, offsets, mask in zip(documents, rows["offset_mapping"], masks, strict=True):
                encoded.read.append(text_processing.words_read(encoded.words[text], offsets, mask))
            encoded.documents.extend(documents)
            encoded.unread.put(part, unread)
        use_tokens(sum(map(len, encoded.input_ids)))
        return encoded

    def probabilities(
        self, texts: Sequence[str] | str | EncodedTexts, progress: bool = False, raw: bool = False
    ) -> np.ndarray:
        """
        (N, C) float32 for the N words of texts, or of what `encode` returned for them, one text after the other: the probability of each
        tag; a word that was cut has 1 for "O". `raw`: without the model's temperature.
        """
        encoded = texts if isinstance(texts, EncodedTexts) else self.encode(texts)
        with progress_bar(progress, total=len(encoded.texts), unit="texts") as bar:
            return self._run(encoded, bar, raw)

    def _run(self, encoded: EncodedTexts, bar: Any, raw: bool = False) -> np.ndarray:
        if self.model.training:
            self.model.eval()
        temperature = 1.0 if raw else text_processing.temperature_of(self.model.config)
        starts = np.cumsum([0, *map(len, encoded.words)])
        output = np.zeros((starts[-1], len(self.labels)), np.float32)
        output[:, self.labels.index(text_processing.OUTSIDE)] = 1
        begins = np.diff(encoded.documents, prepend=-1)  # 1 for the first window of a text
        budget = TOKENS_PER_BATCH * (1 if self.model.device.type == "cpu" else 16)
        for rows in token_budget_batches([len(ids) for ids in encoded.input_ids], budget):
            pause()
            inputs = pad_rows(self.tokenizer, {"input_ids": [encoded.input_ids[row] for row in rows]}, "right")
            scores = model_probabilities(self.model, inputs, multi_label=False, temperature=temperature)  # (B, L, C)
            for row, of_tokens in zip(rows, scores, strict=True):
                words, tokens = np.array(encoded.read[row], dtype=int).reshape(-1, 2).T
                output[starts[encoded.documents[row]] + words] = of_tokens[tokens]
            bar.update(int(begins[rows].sum()))
        return output

    def present(self, probabilities: np.ndarray, encoded: EncodedTexts) -> list[list[AspectTerm]]:
        """The result of a call, from the probabilities (N, C) of the words of texts."""
        results = []
        for text, words, rows in zip(encoded.texts, encoded.words, by_text(probabilities, encoded.words), strict=True):
            found = text_processing.find_terms(rows.tolist(), self.labels)
            results.append(cast(list[AspectTerm], text_processing.term_entries(text, words, found)))
        if self.sentiments is not None:
            self._decide(encoded.texts, results)
        return results

    def _decide(self, texts: Sequence[str], results: list[list[AspectTerm]]) -> None:
        """Put the sentiments of the `sentiment_model` into the results."""
        pairs = [(text, term) for text, terms in zip(texts, results, strict=True) for term in terms]
        contexts = [0] * len(pairs) if hasattr(self.sentiments.model.config, "num_contexts") else None
        asked = TextRows([text for text, _ in pairs], [term["term"] for _, term in pairs], contexts)
        scores, _ = row_probabilities(self.sentiments, asked)
        for (_, term), row in zip(pairs, scores, strict=True):
            term["label"], term["score"] = self.sentiments.labels[int(row.argmax())], float(row.max())

    def of_rows(self, rows: Dataset, progress: bool = False) -> np.ndarray:
        """(N, C) for all words of the rows of a corpus."""
        encoded = self.encode(list(rows["text"]))
        self.warn_unread(encoded.unread.counts)
        return self.probabilities(encoded, progress)

    def of_items(self, texts: Sequence[str], top_k: int | None = None) -> tuple[list[list[AspectTerm]], Unread]:
        """The terms of each text of a file, without warnings."""
        self.check_top_k(top_k)
        return self.predict_quietly(texts)

    @staticmethod
    def check_top_k(top_k: int | None) -> None:
        if top_k is not None:
            raise ValueError("`top_k` is for emotions: a term has one sentiment.")

    def loader_options(self, corpus: Corpus) -> Mapping[str, Any]:
        """A file need not have every label of the model."""
        return {"labels": TASK.labels(self.labels)} if "labels" in corpus.options else {}

    def evaluate(self, of: CorpusSplit, **settings: Any) -> Mapping[str, Any]:
        from .evaluating import evaluate_terms

        return evaluate_terms(self, of)


@dataclass(frozen=True)
class EncodedTexts:
    """
    Texts as a model reads them.

    Attributes:
        texts: the texts.
        input_ids: the tokens of each window.
        words: (start, end) of the words of each text.
        read: for each window the words of its text that it reads: (word, its first token).
        documents: the text of each window.
        unread: what the model cannot read of each text.
    """

    texts: list[str]
    input_ids: list[list[int]]
    words: list[list[tuple[int, int]]]
    read: list[list[tuple[int, int]]]
    documents: list[int]
    unread: Unread


def readable(texts: Sequence[str] | str) -> list[str]:
    """A list of texts as they are, so that places in them stay true. Errors and warnings as of `as_texts`."""
    texts = as_list(texts)
    as_texts(texts)
    return texts


def by_text(values: np.ndarray, words: Sequence[Sequence[Any]]) -> Iterator[np.ndarray]:
    """Split (N, ...) for the words of texts into the part of each text."""
    ends = np.cumsum([len(own) for own in words])
    return iter(np.split(values, ends[:-1])) if len(words) else iter(())
