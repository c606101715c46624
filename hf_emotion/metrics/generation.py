# SPDX-License-Identifier: Apache-2.0
"""Metrics of emotional replies: Tables 1-3 of Liu et al., "Modulating Language Models with Emotions" (2021), and a few more."""

import math
import re
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

from ..io.progress import progress_bar
from .checks import check_finite, check_ids, check_shape
from .ngram_perplexity import NgramPerplexity
from .numbers import mean
from .words import ENDINGS, words


if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


# What a contraction ("don't") leaves before the apostrophe, if scikit-learn's list lacks it.
_STEMS = "ain aren couldn didn doesn don hadn hasn haven isn mightn mustn needn shan shouldn wasn weren wouldn"
# scikit-learn's fixed list, which needs no download, and the pieces of contractions, which nltk's list has too. With it the human
# test replies of MojiTalk have 50.7 % stop words; the paper has 50.4 %.
STOP_WORDS = ENGLISH_STOP_WORDS | {f"'{ending}" for ending in ENDINGS} | set(_STEMS.split())

ReplyFigures: TypeAlias = dict[str, Any]  # metric -> figure, and `per_emotion`

LONGEST_REPEAT = 4
_TOKENS_PER_BATCH = 4096


def hits_at_k(
    ranked_or_probabilities: np.ndarray,
    labels: Sequence[int] | np.ndarray,
    ks: Sequence[int] = (1, 3, 5),
    label_names: Sequence[str] | None = None,
) -> ReplyFigures:
    """
    Share of the replies whose asked emotion is among the k that a judge finds most probable (paper, section 4.1).

    Args:
        ranked_or_probabilities: (N, C): floats, the judge's probabilities (or logits), ties in the order of the ids; or
            integers, in each row the ids 0..C-1, most probable first.
        labels: (N,) ids of the asked emotions.
        label_names: C names; default: the ids.

    Returns:
        for each k `hits@k`, over all rows; `macro_hits@k`, the mean over the emotions with rows; and `per_emotion`: {name: {"hits@k": ...,
        "support": rows}}.
    """
    ranked, labels = np.asarray(ranked_or_probabilities), np.asarray(labels, dtype=None if len(labels) else int)
    check_shape("labels", labels, ranked.shape[:1])
    classes = ranked.shape[1]
    check_ids(labels, classes)
    if not np.issubdtype(ranked.dtype, np.integer):
        check_finite("ranked_or_probabilities", ranked)
        ranked = np.argsort(-ranked, axis=1, kind="stable")
    elif (np.sort(ranked, axis=1) != np.arange(classes)).any():
        raise ValueError(f"a ranking must hold each id of 0..{classes - 1} once; probabilities must be floats.")
    rank = (ranked == labels[:, None]).argmax(axis=1)  # (N,), from 0
    names = [str(number) for number in range(classes)] if label_names is None else list(label_names)
    result: ReplyFigures = {}
    support = np.bincount(labels, minlength=classes).tolist()
    per_emotion: dict[str, dict[str, float]] = {name: {} for name in names}
    for k in ks:
        hit = rank < k
        shares = [mean(hit[labels == number]) for number in range(classes)]
        result[f"hits@{k}"] = mean(hit)
        result[f"macro_hits@{k}"] = mean([share for share in shares if not math.isnan(share)])
        for name, share in zip(names, shares, strict=True):
            per_emotion[name][f"hits@{k}"] = share
    for name, rows in zip(names, support, strict=True):
        per_emotion[name]["support"] = rows
    return result | {"per_emotion": per_emotion}


def type_token_ratio(texts: Iterable[str], n: int) -> float:
    """TTR-n (paper, Table 2): distinct n-grams of `words` / all n-grams, over the set; it falls as the set grows. NaN without n-grams."""
    grams = [gram for text in _list_of(texts) for gram in _ngrams(words(text), n)]
    return len(set(grams)) / len(grams) if grams else float("nan")


def average_length(texts: Sequence[str]) -> float:
    """Mean number of `words` per text, not a fraction (paper, Table 2); NaN without texts."""
    return mean([len(words(text)) for text in _list_of(texts)])


def stop_word_share(texts: Iterable[str]) -> float:
    """Share of `STOP_WORDS` in all `words` of the set (paper, Table 2, "%stop"); NaN without words."""
    return mean([word in STOP_WORDS for text in _list_of(texts) for word in words(text)])


def repetition_rate(texts: Iterable[str]) -> float:
    """
    Share of the texts in which an n-gram of `words`, n = 1..4, one of them with a letter or a digit, is followed at once by itself
    ("i am i am"). NaN without texts.
    """
    return mean([_repeats(words(text)) for text in _list_of(texts)])


def identical_share(replies: Iterable[Sequence[str]]) -> float:
    """
    How often the emotion changes nothing: for each context the share of pairs of its `replies`, one per emotion, with the same `words`; mean
    over the contexts. NaN without contexts.
    """
    pairs = [combinations(map(words, row), 2) for row in replies]
    return mean([mean([first == second for first, second in row]) for row in pairs])


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

    As in the package bert-score, the marks at the ends ([CLS] and [SEP]) do not count in the averages, but a token may be matched
    with them; an empty text scores 0; and the texts of byte-level tokenizers (RoBERTa, GPT-2) start with a blank.

    Args:
        candidates, references: N texts each; what exceeds the model's positions is cut off.
        model: an encoder (AutoModel).
        tokenizer: its tokenizer, with a padding token.
        layer: the layer whose output is compared; default: the last. bert-score takes layer 17 of RoBERTa-large, the paper's encoder.

    Returns:
        `precision`, `recall`, `f1`: means over the pairs, in [-1, 1].
    """
    import torch

    from ..modeling.text_processing import usable_positions

    limit = min(usable_positions(model.config), tokenizer.model_max_length)
    encoded = [_token_ids(texts, tokenizer, limit) for texts in (candidates, references)]
    pairs = list(zip(*encoded, strict=True))
    by_length = sorted(range(len(pairs)), key=lambda row: max(map(len, pairs[row])))
    scores = np.full((len(pairs), 3), np.nan)
    was_training = model.training
    model.eval()
    try:
        with torch.inference_mode(), progress_bar(progress, len(pairs), "pairs for BERTScore") as bar:
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
    return {name: mean(scores[:, column]) for column, name in enumerate(("precision", "recall", "f1"))}


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
        for best, counted in ((similarity.amax(dim=2), candidate_counted), (similarity.amax(dim=1), reference_counted))
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
) -> ReplyFigures:
    """
    The metrics of Tables 1-3 of the paper, and repetitions.

    Args:
        replies, references: N generated replies, and N human replies to the same contexts.
        labels: (N,) ids of the emotions that the replies were asked for.
        judge_probabilities: (N, C), what a judge of the emotions `label_names` gives for `replies`; without them no `hits@k`.
        ngram_model: fitted to human replies; without it no `perplexity`.
        encoder: (model, tokenizer) or (model, tokenizer, layer) for `bertscore`; without it no `bertscore_...`.

    Returns:
        `ttr_1`, `ttr_2`, `average_length`, `stop_words`, `repetition_rate`; what `hits_at_k` returns; `perplexity`;
        `bertscore_precision`, `bertscore_recall`, `bertscore_f1`.
    """
    result: ReplyFigures = {
        "ttr_1": type_token_ratio(replies, 1),
        "ttr_2": type_token_ratio(replies, 2),
        "average_length": average_length(replies),
        "stop_words": stop_word_share(replies),
        "repetition_rate": repetition_rate(replies),
    }
    if judge_probabilities is not None:
        result = hits_at_k(judge_probabilities, labels, label_names=label_names) | result
    if ngram_model is not None:
        result["perplexity"] = ngram_model.perplexity(replies)
    if encoder is not None:
        model, tokenizer, *layer = encoder
        scores = bertscore(replies, references, model, tokenizer, layer[0] if layer else None, progress)
        result |= {f"bertscore_{name}": value for name, value in scores.items()}
    return result


def _list_of(texts: Iterable[str]) -> Iterable[str]:
    if isinstance(texts, str):  # a list of letters
        raise ValueError(f"`texts` must be a list of texts, got the string {texts!r}.")
    return texts


def _ngrams(tokens: Sequence[str], n: int) -> list[tuple[str, ...]]:
    return [tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1)]


def _repeats(tokens: Sequence[str]) -> bool:
    return any(
        tokens[i : i + n] == tokens[i + n : i + 2 * n] and any(re.search(r"\w", token) for token in tokens[i : i + n])
        for n in range(1, LONGEST_REPEAT + 1)
        for i in range(len(tokens) - 2 * n + 1)
    )
