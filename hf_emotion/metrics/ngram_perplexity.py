# SPDX-License-Identifier: Apache-2.0
"""Perplexity of replies under an n-gram model of human replies."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain, repeat
from typing import Self

import numpy as np

from .words import words


RARE = "<rare>"


class NgramPerplexity:
    """
    Perplexity under an n-gram model with Kneser-Ney smoothing fitted to human replies (paper, Table 3).

    Tokens are `words`, and the end of each reply. Words that occur fewer than twice in the human replies, unseen words included,
    count as one word, `RARE`; so every reply has a finite perplexity.

    The paper has KenLM's modified Kneser-Ney. This is interpolated Kneser-Ney with one discount per order, D = n₁ / (n₁ + 2·n₂) of the
    order's counts (Ney et al. 1994; 0.5 where n₁ or n₂ is 0), whose perplexities differ a little from those.
    """

    def __init__(self, order: int = 5, discount: float | None = None, vocabulary_size: int | None = None):
        """
        Args:
            order: words per n-gram, at least 2.
            discount: in [0, 1], one for all orders; default: estimated for each.
            vocabulary_size: number of possible words: all unknown words then share the probability of `RARE` equally, as in a model over
                the same words; default: `RARE` is one word.
        """
        self.order, self.discount, self.vocabulary_size = order, discount, vocabulary_size
        self._model: _KneserNey | None = None
        self._vocabulary: set[str] = set()

    def fit(self, replies: Sequence[str]) -> Self:
        """Fit the model to human replies, at least one."""
        sentences = [words(reply) for reply in replies]
        counts = Counter(chain.from_iterable(sentences))
        self._vocabulary = {word for word, count in counts.items() if count > 1} - {RARE}
        self._model = _KneserNey([self._known(sentence) for sentence in sentences], self.order, self.discount)
        return self

    def log_probabilities(self, replies: Iterable[str]) -> np.ndarray:
        """
        (T,) natural logarithms of the probabilities of all tokens of all replies, in order: the words of each reply, then its end.
        """
        assert self._model is not None, "call `fit` with human replies first"
        sentences = [self._known(words(reply)) for reply in replies]
        values = self._model.log_probabilities(sentences)
        if self.vocabulary_size is not None:
            rare = np.array([word == RARE for sentence in sentences for word in (*sentence, "")], dtype=bool)
            values = values - rare * math.log(max(1, self.vocabulary_size - len(self._vocabulary)))
        return values

    def perplexity(self, replies: Iterable[str]) -> float:
        """exp(-mean of the tokens' log-probabilities) over all replies together, at least 1; NaN without replies."""
        values = self.log_probabilities(replies)
        return math.exp(-values.mean()) if len(values) else float("nan")

    def _known(self, sentence: list[str]) -> list[str]:
        return [word if word in self._vocabulary else RARE for word in sentence]


class _KneserNey:
    """
    Interpolated Kneser-Ney. For a context h of k-1 words

        P(w|h) = max(c(hw) - D_k, 0) / Σ_w c(hw) + D_k · |{w: c(hw) > 0}| / Σ_w c(hw) · P(w|h without its first word)

    and P(w|h) = P(w|h without its first word) where h was never seen; c counts occurrences in the highest order, and in the lower
    ones the distinct words before hw. P(w) = c(w) / Σ c. Each sentence follows order-1 start marks, which are never
    predicted. nltk's KneserNeyInterpolated gives the same from the same n-grams (tested), 1,000 times more slowly.
    """

    def __init__(self, sentences: Sequence[Sequence[str]], order: int, discount: float | None):
        vocabulary = sorted(set(chain.from_iterable(sentences)) | {RARE})
        self.order = order
        self.ids = {word: number for number, word in enumerate(vocabulary)}
        self.end, self.start = len(vocabulary), len(vocabulary) + 1
        self.base = len(vocabulary) + 2
        windows = self._windows(sentences)  # (T, order)

        # The n-grams of order k are numbered by the sorted keys number(last k-1 words)·base + first word; their contexts too.
        grams, contexts = windows[:, -1], np.zeros(len(windows), dtype=np.int64)
        self.gram_keys, self.context_keys = [np.arange(self.base)], [np.zeros(1, dtype=np.int64)]
        context_of = [np.zeros(self.base, dtype=np.int64)]
        for k in range(2, order + 1):
            keys, first, grams = np.unique(grams * self.base + windows[:, -k], return_index=True, return_inverse=True)
            self.gram_keys.append(keys)
            keys, contexts = np.unique(contexts * self.base + windows[:, -k], return_inverse=True)
            self.context_keys.append(keys)
            context_of.append(contexts[first])
        self.counts, self.totals, self.weights, self.discounts = [], [], [], []
        for k in range(1, order + 1):
            size = len(self.gram_keys[k - 1])
            if k == order:
                counts = np.bincount(grams, minlength=size)
            else:  # the suffixes of the distinct n-grams of the next order
                counts = np.bincount(self.gram_keys[k] // self.base, minlength=size)
            if k == 1:
                counts[self.ids[RARE]] = max(counts[self.ids[RARE]], 1)  # unknown words are possible in any case
                discount_k = 0.0
            else:
                once, twice = int((counts == 1).sum()), int((counts == 2).sum())
                estimate = once / (once + 2 * twice) if once and twice else 0.5
                discount_k = estimate if discount is None else discount
            totals = np.bincount(context_of[k - 1], weights=counts)
            self.counts.append(counts)
            self.totals.append(totals)
            self.weights.append(discount_k * np.bincount(context_of[k - 1]) / totals)
            self.discounts.append(discount_k)

    def log_probabilities(self, sentences: Sequence[Sequence[str]]) -> np.ndarray:
        windows = self._windows(sentences)
        grams, contexts = windows[:, -1], np.zeros(len(windows), dtype=np.int64)
        result = self.counts[0][grams] / self.totals[0][0]
        for k in range(2, self.order + 1):
            grams = _find(self.gram_keys[k - 1], grams, windows[:, -k], self.base)
            contexts = _find(self.context_keys[k - 1], contexts, windows[:, -k], self.base)
            seen = contexts >= 0
            counts = np.where(grams >= 0, self.counts[k - 1][grams], 0)[seen]
            own = np.maximum(counts - self.discounts[k - 1], 0) / self.totals[k - 1][contexts[seen]]
            result[seen] = own + self.weights[k - 1][contexts[seen]] * result[seen]
        with np.errstate(divide="ignore"):  # with a discount of 0 an unseen n-gram is impossible
            return np.log(result)

    def _windows(self, sentences: Sequence[Sequence[str]]) -> np.ndarray:
        """(T, order): for each token to predict, the words before it and the token itself."""
        flat = [self.start] * self.order
        for sentence in sentences:
            flat += [self.ids[word] for word in sentence]
            flat.append(self.end)
            flat += repeat(self.start, self.order - 1)
        windows = np.lib.stride_tricks.sliding_window_view(np.array(flat, dtype=np.int64), self.order)
        return windows[windows[:, -1] != self.start]


def _find(keys: np.ndarray, known: np.ndarray, first_word: np.ndarray, base: int) -> np.ndarray:
    """Numbers of n-grams, from the numbers of their last words (-1: never seen) and of their first word; -1 if never seen."""
    wanted = known * base + first_word
    found = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where((known >= 0) & (keys[found] == wanted), found, -1)
