# SPDX-License-Identifier: Apache-2.0
"""
Metrics of emotional replies, those of Tables 1-3 of Liu et al., "Modulating Language Models with Emotions" (2021), and a few
that show copying and loops. All counts of words are made by `words`.
"""

import math
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain, combinations, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS


if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


_ENDINGS = ("t", "s", "m", "d", "re", "ve", "ll")
_WORD = re.compile(rf"<\w+>|['’]\s?(?:{'|'.join(_ENDINGS)})\b|\w+|([^\w\s])\1*")
# What "don't" and its like leave before the apostrophe, where scikit-learn's list has not got it.
_STEMS = "ain aren couldn didn doesn don hadn hasn haven isn mightn mustn needn shan shouldn wasn weren wouldn"
# scikit-learn's fixed list, which needs no download, and the pieces of contractions, which nltk's list has too. With it the human
# test replies of MojiTalk have 50.7 % stop words; the paper has 50.4 %.
STOP_WORDS = ENGLISH_STOP_WORDS | {f"'{ending}" for ending in _ENDINGS} | set(_STEMS.split())

LONGEST_REPEAT = 4
RARE = "<rare>"
_RESERVED = {"<s>", "</s>", "<unk>"}  # lmplz takes no text with them
_TOKENS_PER_BATCH = 4096


def words(text: str) -> list[str]:
    """
    The lower-case words of a text: runs of letters, digits and underscores; the ending of a contraction with its apostrophe;
    placeholders; runs of one other character.

    "don't", "don 't" (as MojiTalk has it) and "don ' t" (as BERT's tokenizer decodes it) all give the same.

    >>> words("I don't know, don ' t ask <dgt> times!!")
    ['i', 'don', "'t", 'know', ',', 'don', "'t", 'ask', '<dgt>', 'times', '!!']
    """
    return [
        "'" + match[0][1:].strip() if match[0][0] in "'’" and len(match[0]) > 1 and match[1] is None else match[0]
        for match in _WORD.finditer(text.lower())
    ]


def hits_at_k(
    ranked_or_probabilities: np.ndarray,
    labels: Sequence[int] | np.ndarray,
    ks: Sequence[int] = (1, 3, 5),
    label_names: Sequence[str] | None = None,
) -> dict[str, Any]:
    """
    Share of the replies whose asked emotion is among the k that a judge finds most probable (paper, section 4.1).

    Args:
        ranked_or_probabilities: (N, C): floats, the judge's probabilities (or logits), equal ones in the order of the ids; or
            integers, in each row the ids 0..C-1, most probable first.
        labels: (N,) ids of the asked emotions.
        ks: values of k, 1..C.
        label_names: C names; default: the ids.

    Returns:
        for each k `hits@k`, over all rows; `macro_hits@k`, the mean over the emotions that were asked for: one without rows
        is left out; and `per_emotion`: {name: {"hits@k": ..., "support": rows}}, with NaN for an emotion without rows.
        Fractions in [0, 1]; NaN without rows.

    Raises:
        ValueError: shapes that do not agree, values outside their range, a row of ids that is no ranking.
    """
    ranked, labels = np.asarray(ranked_or_probabilities), np.asarray(labels)
    if ranked.ndim != 2 or labels.shape != ranked.shape[:1]:
        raise ValueError(
            f"`ranked_or_probabilities` must be (N, C) and `labels` (N,), one row per reply, got {ranked.shape} and "
            f"{labels.shape}."
        )
    count, classes = ranked.shape
    if not all(1 <= k <= classes for k in ks):
        raise ValueError(f"`ks` must lie in 1..{classes}, the number of emotions, got {tuple(ks)}.")
    if label_names is not None and len(label_names) != classes:
        raise ValueError(f"`label_names` must be {classes} names, one per column, got {len(label_names)}.")
    if count:
        if not np.issubdtype(labels.dtype, np.integer):
            raise ValueError(f"`labels` must be integers, the ids of the asked emotions, got {labels.dtype}.")
        if labels.min() < 0 or labels.max() >= classes:
            wrong = labels[(labels < 0) | (labels >= classes)][0]
            raise ValueError(f"`labels` must lie in 0..{classes - 1}, got {wrong}: use the ids of the judge.")
    if np.issubdtype(ranked.dtype, np.integer):
        wrong_rows = (np.sort(ranked, axis=1) != np.arange(classes)).any(axis=1)
        if wrong_rows.any():
            row = int(wrong_rows.argmax())
            raise ValueError(
                f"a ranking must hold each id of 0..{classes - 1} once, got {ranked[row].tolist()} in row {row} of "
                "`ranked_or_probabilities`; probabilities must be floats."
            )
    else:
        if not np.isfinite(ranked).all():
            raise ValueError("`ranked_or_probabilities` must be finite, got NaN or infinity.")
        ranked = np.argsort(-ranked, axis=1, kind="stable")
    rank = (ranked == labels[:, None]).argmax(axis=1)  # (N,), from 0
    names = [str(number) for number in range(classes)] if label_names is None else list(label_names)
    result: dict[str, Any] = {}
    per_emotion: dict[str, dict[str, float]] = {name: {} for name in names}
    for k in ks:
        hit = rank < k
        shares = [_mean(hit[labels == number]) for number in range(classes)]
        result[f"hits@{k}"] = _mean(hit)
        result[f"macro_hits@{k}"] = _mean([share for share in shares if not math.isnan(share)])
        for name, share in zip(names, shares, strict=True):
            per_emotion[name][f"hits@{k}"] = share
    support = np.bincount(labels, minlength=classes) if count else np.zeros(classes, dtype=int)
    for name, rows in zip(names, support, strict=True):
        per_emotion[name]["support"] = int(rows)
    return result | {"per_emotion": per_emotion}


def type_token_ratio(texts: Iterable[str], n: int) -> float:
    """
    TTR-n (paper, Table 2): the distinct n-grams of `words` over all of them, in the whole set; none spans two texts.

    It falls as the set grows: compare sets of the same size only. NaN where no text has n words.
    """
    grams = [gram for text in _list_of(texts) for gram in _ngrams(words(text), n)]
    return len(set(grams)) / len(grams) if grams else float("nan")


def average_length(texts: Sequence[str]) -> float:
    """Mean number of `words` per text, not a fraction (paper, Table 2); NaN without texts."""
    return _mean([len(words(text)) for text in _list_of(texts)])


def stop_word_share(texts: Iterable[str]) -> float:
    """Share of `STOP_WORDS` in all `words` of the set (paper, Table 2, "%stop"); NaN without words."""
    return _mean([word in STOP_WORDS for text in _list_of(texts) for word in words(text)])


def repetition_rate(texts: Iterable[str]) -> float:
    """
    Share of the texts in which an n-gram of `words`, n = 1..4, is followed at once by itself ("so so", "i am i am").

    One of its words must have a letter or a digit: "! !" is no loop. NaN without texts.
    """
    return _mean([_repeats(words(text)) for text in _list_of(texts)])


def identical_share(replies: Iterable[Sequence[str]]) -> float:
    """
    How often the emotion changes nothing: the share of the pairs of emotions whose replies to one context are the same, mean
    over the contexts. Replies are the same if their `words` are.

    Args:
        replies: for each context its replies, one per emotion, at least two.

    Returns:
        0 where all replies to a context differ, 1 where all are the same; NaN without contexts.

    Raises:
        ValueError: a context with fewer than two replies; one string in place of the replies.
    """
    shares = []
    for number, row in enumerate(replies):
        if isinstance(row, str) or len(row) < 2:
            raise ValueError(
                f"`replies` must hold for each context a list of at least two replies, one per emotion, got {row!r} for "
                f"context {number}."
            )
        shares.append(_mean([first == second for first, second in combinations(map(words, row), 2)]))
    return _mean(shares)


class NgramPerplexity:
    """
    Perplexity under an n-gram model with Kneser-Ney smoothing that was fitted to human replies (paper, Table 3).

    Tokens are `words`, and the end of each reply. Words that the human replies hold fewer than twice, and all words that they do
    not hold, count as one word, `RARE`; so every reply has a finite perplexity.

    >>> model = NgramPerplexity().fit(human_replies)  # doctest: +SKIP
    >>> model.perplexity(replies)  # doctest: +SKIP
    87.3

    Attributes:
        backend: "kenlm", the paper's: modified Kneser-Ney as KenLM's `lmplz` estimates it; or "interpolated", our own:
            interpolated Kneser-Ney with one discount per order, D = n₁ / (n₁ + 2·n₂) of the order's counts (Ney et al. 1994;
            0.5 where n₁ or n₂ is 0). Their perplexities differ a little: never compare across backends.
    """

    def __init__(
        self,
        order: int = 5,
        backend: Literal["kenlm", "interpolated"] | None = None,
        discount: float | None = None,
        vocabulary_size: int | None = None,
    ):
        """
        Args:
            order: words per n-gram, at least 2.
            backend: default: "kenlm" where the package `kenlm` and its program `lmplz` are installed, else "interpolated".
            discount: of "interpolated": in [0, 1], one for all orders; default: estimated for each.
            vocabulary_size: number of words there are. The probability of `RARE` is then shared equally by those that are not
                known, so that each word has its own and the perplexity may stand beside that of a model over the same
                words; default: `RARE` is one word.

        Raises:
            ValueError: a value outside its range.
            ImportError: backend "kenlm" where it is not installed.
        """
        if order < 2:
            raise ValueError(f"`order` must be at least 2, got {order}.")
        if backend not in (None, "kenlm", "interpolated"):
            raise ValueError(f"`backend` must be 'kenlm' or 'interpolated', got {backend!r}.")
        if discount is not None and not 0 <= discount <= 1:
            raise ValueError(f"`discount` must lie in [0, 1], got {discount}.")
        if backend is None:
            backend = "kenlm" if _has_kenlm() and discount is None else "interpolated"
        elif backend == "kenlm":
            if discount is not None:
                raise ValueError(
                    "`discount` is for the backend 'interpolated': KenLM estimates its own; leave it out."
                )
            if not _has_kenlm():
                raise ImportError(
                    "the backend 'kenlm' needs the package `kenlm` (pip install kenlm) and KenLM's program `lmplz` on the "
                    "PATH, which the package does not hold: build it from github.com/kpu/kenlm, or leave out `backend`."
                )
        self.order, self.backend, self.discount, self.vocabulary_size = order, backend, discount, vocabulary_size
        self._model: _KenLM | _KneserNey | None = None
        self._vocabulary: set[str] = set()

    def fit(self, replies: Sequence[str]) -> Self:
        """Fit the model to human replies; ValueError without any."""
        if isinstance(replies, str) or not len(replies):
            raise ValueError(f"`replies` must be a list of at least one human reply, got {replies!r}.")
        sentences = [words(reply) for reply in replies]
        counts = Counter(chain.from_iterable(sentences))
        self._vocabulary = {word for word, count in counts.items() if count > 1} - _RESERVED - {RARE}
        if self.vocabulary_size is not None and len(counts) > self.vocabulary_size:
            raise ValueError(
                f"`vocabulary_size` must be at least the {len(counts)} different words of the replies, got "
                f"{self.vocabulary_size}."
            )
        sentences = [self._known(sentence) for sentence in sentences]
        if self.backend == "kenlm":
            self._model = _KenLM(sentences, self.order)
        else:
            self._model = _KneserNey(sentences, self.order, self.discount)
        return self

    def log_probabilities(self, replies: Iterable[str]) -> np.ndarray:
        """
        (T,) natural logarithms of the probabilities of all tokens of all replies, one reply after the other: its words, then
        its end.

        Raises:
            RuntimeError: before `fit`.
        """
        if self._model is None:
            raise RuntimeError("the model knows no replies yet: call `fit` with human replies first.")
        sentences = [self._known(words(reply)) for reply in replies]
        values = self._model.log_probabilities(sentences)
        if self.vocabulary_size is not None:
            rare = np.array([word == RARE for sentence in sentences for word in (*sentence, "")], dtype=bool)
            values = values - rare * math.log(max(1, self.vocabulary_size - len(self._vocabulary)))
        return values

    def perplexity(self, replies: Iterable[str]) -> float:
        """exp(-mean of the tokens' log-probabilities) over all replies together, at least 1; NaN without replies."""
        return math.exp(-_mean(self.log_probabilities(replies)))

    def _known(self, sentence: list[str]) -> list[str]:
        return [word if word in self._vocabulary else RARE for word in sentence]


class _KneserNey:
    """
    Interpolated Kneser-Ney. For a context h of k-1 words

        P(w|h) = max(c(hw) - D_k, 0) / Σ_w c(hw) + D_k · |{w: c(hw) > 0}| / Σ_w c(hw) · P(w|h without its first word)

    and P(w|h) = P(w|h without its first word) where h was never seen; c counts occurrences in the highest order, and in the lower
    ones the distinct words before hw. P(w) = c(w) / Σ c. Each sentence stands after order-1 start marks, which are never
    predicted. nltk's KneserNeyInterpolated gives the same from the same n-grams (tested), 1,000 times more slowly.
    """

    def __init__(self, sentences: Sequence[Sequence[str]], order: int, discount: float | None):
        vocabulary = sorted(set(chain.from_iterable(sentences)) | {RARE})
        self.order = order
        self.ids = {word: number for number, word in enumerate(vocabulary)}
        self.end, self.start = len(vocabulary), len(vocabulary) + 1
        self.base = len(vocabulary) + 2
        windows = self._windows(sentences)  # (T, order)

        # The n-grams of order k are numbered by the sorted keys number(last k-1 words)·base + first word; their contexts likewise.
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
        with np.errstate(divide="ignore"):  # a discount of 0 makes what was never seen impossible
            return np.log(result)

    def _windows(self, sentences: Sequence[Sequence[str]]) -> np.ndarray:
        """(T, order): for each token to predict, it and what stands before it."""
        flat = [self.start] * self.order
        for sentence in sentences:
            flat += [self.ids[word] for word in sentence]
            flat.append(self.end)
            flat += repeat(self.start, self.order - 1)
        windows = np.lib.stride_tricks.sliding_window_view(np.array(flat, dtype=np.int64), self.order)
        return windows[windows[:, -1] != self.start]


def _find(keys: np.ndarray, known: np.ndarray, first_word: np.ndarray, base: int) -> np.ndarray:
    """Numbers of n-grams from those of their last words (-1: never seen) and their first word; -1 where never seen."""
    wanted = known * base + first_word
    found = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where((known >= 0) & (keys[found] == wanted), found, -1)


class _KenLM:
    def __init__(self, sentences: Sequence[Sequence[str]], order: int):
        import kenlm

        with tempfile.TemporaryDirectory() as folder:
            text, arpa = Path(folder) / "replies.txt", Path(folder) / "model.arpa"
            text.write_text("".join(" ".join(sentence) + "\n" for sentence in sentences), encoding="utf-8")
            command = [
                "lmplz",
                "-o",
                order,
                "-S",
                "1G",
                "-T",
                folder,
                "--discount_fallback",
                "--text",
                text,
                "--arpa",
                arpa,
            ]
            done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
            if done.returncode:
                raise RuntimeError(
                    f"lmplz failed with exit code {done.returncode}: {done.stderr.strip()[-500:]}\nThe backend 'interpolated' "
                    "does without it."
                )
            config = kenlm.Config()
            config.show_progress = False
            self.model = kenlm.Model(str(arpa), config)

    def log_probabilities(self, sentences: Sequence[Sequence[str]]) -> np.ndarray:
        scores = [score for sentence in sentences for score, *_ in self.model.full_scores(" ".join(sentence))]
        return np.array(scores, dtype=np.float64) * math.log(10)


def _has_kenlm() -> bool:
    from importlib.util import find_spec

    return find_spec("kenlm") is not None and shutil.which("lmplz") is not None


def bertscore(
    candidates: Sequence[str],
    references: Sequence[str],
    model: "PreTrainedModel",
    tokenizer: "PreTrainedTokenizerBase",
    layer: int | None = None,
    progress: bool = False,
) -> dict[str, float]:
    """
    BERTScore (Zhang et al. 2020; paper, Table 3): each token of a text is matched with the most similar one of the other text,
    by the cosine of their hidden states. No idf weights, no rescaling with a baseline.

    As in the package bert-score, the marks at the ends ([CLS] and [SEP]) have no part in the averages, but may be what a token
    is matched with; an empty text scores 0; and the texts of byte-level tokenizers (RoBERTa, GPT-2) start with a blank.

    Args:
        candidates, references: N texts each; what exceeds the model's positions is cut off.
        model: an encoder (AutoModel).
        tokenizer: its tokenizer, with a padding token.
        layer: whose output is compared, 0 (the embeddings) to the number of layers; default: the last. bert-score takes
            layer 17 of the 24 of RoBERTa-large, the paper's encoder.
        progress: show a progress bar, where standard error is a terminal.

    Returns:
        `precision`, `recall`, `f1`: means over the pairs. Cosines, so in [-1, 1], in practice in [0, 1]; NaN without pairs.

    Raises:
        ValueError: numbers of texts that differ, no such layer, a tokenizer without padding token.
    """
    import torch
    from tqdm.auto import tqdm

    from ..modeling.usable_positions import usable_positions

    if len(candidates) != len(references):
        raise ValueError(
            f"`candidates` and `references` must be pairs, got {len(candidates)} and {len(references)} texts."
        )
    layers = model.config.num_hidden_layers
    if layer is not None and not 0 <= layer <= layers:
        raise ValueError(f"`layer` must lie in 0..{layers}, the model's layers, got {layer}.")
    if tokenizer.pad_token_id is None:
        raise ValueError("`tokenizer` must have a padding token: set tokenizer.pad_token, e.g. to its eos_token.")
    limit = min(usable_positions(model.config), tokenizer.model_max_length)
    encoded = [_token_ids(texts, tokenizer, limit) for texts in (candidates, references)]
    pairs = list(zip(*encoded, strict=True))
    by_length = sorted(range(len(pairs)), key=lambda row: max(map(len, pairs[row])))
    scores = np.full((len(pairs), 3), np.nan)
    was_training = model.training
    model.eval()
    try:
        with (
            torch.inference_mode(),
            tqdm(total=len(pairs), desc="BERTScore", unit="pairs", disable=None if progress else True) as bar,
        ):
            while by_length:  # the longest first: what does not fit in memory fails at once
                size = max(1, _TOKENS_PER_BATCH // max(map(len, pairs[by_length[-1]])))
                rows, by_length = by_length[-size:], by_length[:-size]
                sides = [
                    _token_vectors([pairs[row][side] for row in rows], model, tokenizer, layer) for side in (0, 1)
                ]
                scores[rows] = _greedy_match(*sides[0], *sides[1]).double().cpu().numpy()
                bar.update(len(rows))
    finally:
        model.train(was_training)
    return {name: _mean(scores[:, column]) for column, name in enumerate(("precision", "recall", "f1"))}


def _token_ids(texts: Sequence[str], tokenizer: "PreTrainedTokenizerBase", limit: int) -> list[list[int]]:
    if not len(texts):
        return []
    from transformers import GPT2Tokenizer, RobertaTokenizer

    blank = " " if isinstance(tokenizer, GPT2Tokenizer | RobertaTokenizer) else ""
    texts = [blank + text.strip() if text.strip() else "" for text in texts]
    return tokenizer(texts, truncation=True, max_length=limit)["input_ids"]


def _token_vectors(
    ids: list[list[int]], model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerBase", layer: int | None
) -> tuple["torch.Tensor", "torch.Tensor", "torch.Tensor"]:
    """Vectors of length 1 (B, T, H), which of them are tokens (B, T), and which of these count in the averages (B, T)."""
    import torch

    ends = {tokenizer.cls_token_id, tokenizer.sep_token_id} - {None}
    longest = max(1, *map(len, ids))
    padded = [row + [tokenizer.pad_token_id] * (longest - len(row)) for row in ids]
    tokens = torch.tensor([[i < len(row) for i in range(longest)] for row in ids], device=model.device)
    counted = torch.tensor(
        [[i < len(row) and row[i] not in ends for i in range(longest)] for row in ids], device=model.device
    )
    output = model(
        input_ids=torch.tensor(padded, device=model.device),
        attention_mask=tokens.long(),
        output_hidden_states=layer is not None,
    )
    states = output.last_hidden_state if layer is None else output.hidden_states[layer]
    return torch.nn.functional.normalize(states.float(), dim=-1), tokens, counted


def _greedy_match(
    candidate: "torch.Tensor",  # (B, T, H)
    candidate_tokens: "torch.Tensor",  # (B, T)
    candidate_counted: "torch.Tensor",
    reference: "torch.Tensor",  # (B, U, H)
    reference_tokens: "torch.Tensor",  # (B, U)
    reference_counted: "torch.Tensor",
) -> "torch.Tensor":
    """(B, 3): precision, recall, F1."""
    import torch

    similarity = candidate @ reference.transpose(1, 2)  # (B, T, U)
    # A finite bound: 0 · -inf would be NaN in the sums below.
    similarity = similarity.masked_fill(~(candidate_tokens[:, :, None] & reference_tokens[:, None, :]), -2.0)
    empty = ~(candidate_counted.any(dim=1) & reference_counted.any(dim=1))
    precision, recall = (
        (best * counted).sum(dim=1) / counted.sum(dim=1).clamp(min=1)
        for best, counted in (
            (similarity.amax(dim=2), candidate_counted),
            (similarity.amax(dim=1), reference_counted),
        )
    )
    precision, recall = precision.masked_fill(empty, 0.0), recall.masked_fill(empty, 0.0)
    f1 = torch.nan_to_num(2 * precision * recall / (precision + recall), nan=0.0)
    return torch.stack([precision, recall, f1], dim=1)


def reply_metrics(
    replies: Sequence[str],
    references: Sequence[str],
    labels: Sequence[int] | np.ndarray,
    judge_probabilities: np.ndarray | None = None,
    ngram_model: NgramPerplexity | None = None,
    encoder: tuple | None = None,
    label_names: Sequence[str] | None = None,
    progress: bool = False,
) -> dict[str, Any]:
    """
    The metrics of Tables 1-3 of the paper, and repetitions.

    Args:
        replies: N generated replies.
        references: N human replies to the same contexts.
        labels: (N,) ids of the emotions that the replies were asked for.
        judge_probabilities: (N, C) of a judge on `replies`; without them no `hits@k`.
        ngram_model: fitted to human replies; without it no `perplexity`.
        encoder: (model, tokenizer) or (model, tokenizer, layer) for `bertscore`; without it no `bertscore_...`.
        label_names: C names of the judge's emotions.
        progress: of `bertscore`.

    Returns:
        `ttr_1`, `ttr_2`, `average_length`, `stop_words`, `repetition_rate`; what `hits_at_k` returns; `perplexity` with
        `perplexity_backend`; `bertscore_precision`, `bertscore_recall`, `bertscore_f1`. Fractions in [0, 1], but for lengths and
        perplexities.

    Raises:
        ValueError: numbers of rows that differ, and what the metrics raise.
    """
    if not len(replies) == len(references) == len(labels):
        raise ValueError(
            "`replies`, `references` and `labels` must have one row per reply, got "
            f"{len(replies)}, {len(references)} and {len(labels)}."
        )
    result: dict[str, Any] = {
        "ttr_1": type_token_ratio(replies, 1),
        "ttr_2": type_token_ratio(replies, 2),
        "average_length": average_length(replies),
        "stop_words": stop_word_share(replies),
        "repetition_rate": repetition_rate(replies),
    }
    if judge_probabilities is not None:
        result = hits_at_k(judge_probabilities, labels, label_names=label_names) | result
    if ngram_model is not None:
        result |= {"perplexity": ngram_model.perplexity(replies), "perplexity_backend": ngram_model.backend}
    if encoder is not None:
        model, tokenizer, *layer = encoder
        scores = bertscore(replies, references, model, tokenizer, layer[0] if layer else None, progress)
        result |= {f"bertscore_{name}": value for name, value in scores.items()}
    return result


def _list_of(texts: Iterable[str]) -> Iterable[str]:
    if isinstance(texts, str):  # a list of letters
        raise ValueError(f"`texts` must be a list of texts, got the string {texts!r}: write [text].")
    return texts


def _ngrams(tokens: Sequence[str], n: int) -> list[tuple[str, ...]]:
    if n < 1:
        raise ValueError(f"`n` must be at least 1, got {n}.")
    return [tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1)]


def _repeats(tokens: Sequence[str]) -> bool:
    return any(
        tokens[i : i + n] == tokens[i + n : i + 2 * n] and any(re.search(r"\w", token) for token in tokens[i : i + n])
        for n in range(1, LONGEST_REPEAT + 1)
        for i in range(len(tokens) - 2 * n + 1)
    )


def _mean(values: Sequence[float] | np.ndarray) -> float:
    return float(np.mean(values)) if len(values) else float("nan")
