# SPDX-License-Identifier: Apache-2.0
"""Perplexity of replies under an n-gram model of human replies."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple, Self

import numpy as np

from .words import words


RARE = "<rare>"


class NgramPerplexity:
    """
    Perplexity under an n-gram model with Kneser-Ney smoothing fitted to human replies (paper, Table 3).

    Tokens are `words`, and the end of each reply. Words that occur fewer than twice in the human replies, unseen words included,
    count as one word, `RARE`; so every reply has a finite perplexity.

    The paper has KenLM's modified Kneser-Ney. This is interpolated Kneser-Ney with one discount per order, D = n₁ / (n₁ + 2·n₂) of the
    order's counts (Ney et al. 1994; 0.5 where n₁ or n₂ is 0), whose perplexities differ a little from those. For a context h of k-1 words

        P(w|h) = max(c(hw) - D_k, 0) / Σ_w c(hw) + D_k · |{w: c(hw) > 0}| / Σ_w c(hw) · P(w|h without its first word)

    and P(w|h) = P(w|h without its first word) where h was never seen; c counts occurrences in the highest order, and in the lower
    ones the distinct words before hw. P(w) = c(w) / Σ c. Each reply follows order-1 start marks, which are never predicted. nltk's
    KneserNeyInterpolated gives the same from the same n-grams (tested), 1,000 times more slowly.
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
        self._orders: list[_Order] = []

    def fit(self, replies: Sequence[str]) -> Self:
        """Fit the model to human replies, at least one."""
        sentences = [words(reply) for reply in replies]
        counted = Counter(chain.from_iterable(sentences))
        known = sorted(word for word, count in counted.items() if count > 1 and word != RARE)
        self._ids = {word: number for number, word in enumerate(known, 1)}  # 0 is RARE
        self._end, self._start, self._base = len(known) + 1, len(known) + 2, len(known) + 3
        windows = self._windows(sentences)  # (T, order)
        # The n-grams of order k are numbered by the sorted keys number(last k-1 words)·base + first word; their contexts too.
        grams, contexts, parts = windows[:, -1], np.zeros(len(windows), dtype=np.int64), []
        parts.append((np.arange(self._base), np.zeros(1, dtype=np.int64), np.zeros(self._base, dtype=np.int64)))
        for k in range(2, self.order + 1):
            keys, first, grams = np.unique(grams * self._base + windows[:, -k], return_index=True, return_inverse=True)
            context_keys, contexts = np.unique(contexts * self._base + windows[:, -k], return_inverse=True)
            parts.append((keys, context_keys, contexts[first]))
        self._orders = []
        for k, (keys, context_keys, context_of) in enumerate(parts, 1):
            # In the lower orders the suffixes of the distinct n-grams of the next order are counted.
            counts = np.bincount(grams if k == self.order else parts[k][0] // self._base, minlength=len(keys))
            if k == 1:
                counts[0] = max(counts[0], 1)  # unknown words are possible in any case
            once, twice = int((counts == 1).sum()), int((counts == 2).sum())
            estimate = once / (once + 2 * twice) if once and twice else 0.5
            discount = 0.0 if k == 1 else estimate if self.discount is None else self.discount
            totals = np.bincount(context_of, weights=counts)
            weights = discount * np.bincount(context_of) / totals
            self._orders.append(_Order(keys, context_keys, counts, totals, weights, discount))
        return self

    def log_probabilities(self, replies: Iterable[str]) -> np.ndarray:
        """
        (T,) natural logarithms of the probabilities of all tokens of all replies, in order: the words of each reply, then its end.
        """
        assert self._orders, "call `fit` with human replies first"
        windows = self._windows(words(reply) for reply in replies)
        grams, contexts = windows[:, -1], np.zeros(len(windows), dtype=np.int64)
        result = self._orders[0].counts[grams] / self._orders[0].totals[0]
        for k, order in enumerate(self._orders[1:], 2):
            grams = _find(order.gram_keys, grams, windows[:, -k], self._base)
            contexts = _find(order.context_keys, contexts, windows[:, -k], self._base)
            seen = contexts >= 0
            counts = np.where(grams >= 0, order.counts[grams], 0)[seen]
            own = np.maximum(counts - order.discount, 0) / order.totals[contexts[seen]]
            result[seen] = own + order.weights[contexts[seen]] * result[seen]
        with np.errstate(divide="ignore"):  # with a discount of 0 an unseen n-gram is impossible
            values = np.log(result)
        if self.vocabulary_size is not None:
            values[windows[:, -1] == 0] -= math.log(max(1, self.vocabulary_size - len(self._ids)))
        return values

    def perplexity(self, replies: Iterable[str]) -> float:
        """exp(-mean of the tokens' log-probabilities) over all replies together, at least 1; NaN without replies."""
        values = self.log_probabilities(replies)
        return math.exp(-values.mean()) if len(values) else float("nan")

    def _windows(self, sentences: Iterable[Sequence[str]]) -> np.ndarray:
        """(T, order): for each token to predict, the words before it and the token itself."""
        flat = [self._start] * self.order
        for sentence in sentences:
            flat += [*(self._ids.get(word, 0) for word in sentence), self._end, *[self._start] * (self.order - 1)]
        windows = np.lib.stride_tricks.sliding_window_view(np.array(flat, dtype=np.int64), self.order)
        return windows[windows[:, -1] != self._start]


class _Order(NamedTuple):
    """The n-grams of one order by their numbers: counts; of their contexts the sums of counts, and the weights of the order below."""

    gram_keys: np.ndarray
    context_keys: np.ndarray
    counts: np.ndarray
    totals: np.ndarray
    weights: np.ndarray
    discount: float


def _find(keys: np.ndarray, known: np.ndarray, first_word: np.ndarray, base: int) -> np.ndarray:
    """Numbers of n-grams, from the numbers of their last words (-1: never seen) and of their first word; -1 if never seen."""
    wanted = known * base + first_word
    found = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where((known >= 0) & (keys[found] == wanted), found, -1)
