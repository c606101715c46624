# SPDX-License-Identifier: Apache-2.0
"""Metrics of replies against plain loops; Kneser-Ney also against nltk."""

import json
import math
import random
from collections import Counter

import numpy as np
import pytest
import torch
from model_cases import TINY_BERT, WORDS, asymmetric_
from nltk.lm import KneserNeyInterpolated
from nltk.util import everygrams
from transformers import BertConfig, BertModel

from hf_emotion import metrics
from hf_emotion.metrics import generation
from hf_emotion.metrics.generation import bertscore, hits_at_k
from hf_emotion.metrics.ngram_perplexity import NgramPerplexity
from hf_emotion.metrics.words import words
from hf_emotion.tasks.published import TABLES


# Some words more than twice, some twice, and in each list some once, which stand for the rare ones.
HUMAN = [
    "i am so happy today",
    "i am so sad today",
    "you are so kind",
    "happy happy day",
    "i am happy for you",
    "what a day",
    "",
    "i am so happy today",
]
REPLIES = ["i am so kind", "happy day for me", "so so so", "", "today you are sad", "nothing known here"]


def random_replies(seed: int, count: int = 60) -> list[str]:
    draw = random.Random(seed)
    vocabulary = "i you am are so happy sad day today . !".split()
    return [" ".join(draw.choices(vocabulary, range(11, 0, -1), k=draw.randint(0, 8))) for _ in range(count)]


class TestWords:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("", []),
            ("I LOVE you", ["i", "love", "you"]),
            ("don't", ["don", "'t"]),
            ("don 't", ["don", "'t"]),
            ("don ' t", ["don", "'t"]),
            ("it’s", ["it", "'s"]),
            ("'tis the 'end'", ["'", "tis", "the", "'", "end", "'"]),
            ("wait... what?!", ["wait", "...", "what", "?", "!"]),
            ("<dgt> times", ["<dgt>", "times"]),
            ("a < b", ["a", "<", "b"]),
            ("🎶🎶 é", ["🎶🎶", "é"]),
        ],
    )
    def test_by_hand(self, text, expected):
        assert words(text) == expected


class TestHits:
    @pytest.mark.parametrize("seed", range(2))
    def test_against_loops(self, seed):
        generator = np.random.default_rng(seed)
        scores = generator.integers(0, 6, (50, 9)) / 7  # with ties
        labels = generator.integers(0, 7, 50)  # two emotions without rows
        result = hits_at_k(scores, labels)
        for k in (1, 3, 5):
            hits = {}
            for row, label in zip(scores.tolist(), labels.tolist(), strict=True):
                before = sum(p > row[label] or (p == row[label] and i < label) for i, p in enumerate(row))
                hits.setdefault(label, []).append(before < k)
            every = [hit for row in hits.values() for hit in row]
            shares = {label: sum(row) / len(row) for label, row in hits.items()}
            assert result[f"hits@{k}"] == pytest.approx(sum(every) / len(every))
            assert result[f"macro_hits@{k}"] == pytest.approx(sum(shares.values()) / len(shares))
            for label, share in shares.items():
                assert result["per_emotion"][str(label)][f"hits@{k}"] == pytest.approx(share)

    def test_a_ranking_is_the_same_as_its_probabilities(self):
        probabilities = np.random.default_rng(0).random((30, 6))
        labels = np.arange(30) % 6
        assert hits_at_k(probabilities.argsort(axis=1)[:, ::-1], labels) == hits_at_k(probabilities, labels)


class TestDiversity:
    def test_by_hand(self):
        texts = ["so so happy", "so happy", "i don't"]
        assert metrics.type_token_ratio(texts, 1) == pytest.approx(5 / 8)  # so happy i don 't
        assert metrics.type_token_ratio(texts, 2) == pytest.approx(4 / 5)  # so so, so happy (2), i don, don 't
        assert metrics.average_length(texts) == pytest.approx(8 / 3)
        assert metrics.stop_word_share(texts) == pytest.approx(6 / 8)

    @pytest.mark.parametrize(
        ("text", "loops"),
        [
            ("so so happy", True),
            ("i am i am", True),
            ("a b c d e a b c d e", False),  # five words
            ("a b c d a b c d", True),
            ("i am so i am", False),
            ("what ! !", False),
            ("", False),
        ],
    )
    def test_repetition(self, text, loops):
        assert metrics.repetition_rate([text]) == loops
        assert metrics.repetition_rate([text, "so sad", "so happy", "calm"]) == loops / 4

    def test_identical_share(self):
        # One pair of three; all three pairs, in other writing; none.
        replies = [["a", "a", "b"], ["so  Happy", "so happy", "SO happy"], ["a", "b", "c"]]
        assert metrics.identical_share(replies) == pytest.approx((1 / 3 + 1 + 0) / 3)

    def test_undefined(self):
        for value in (
            metrics.type_token_ratio(["word"], 2),
            metrics.average_length([]),
            metrics.stop_word_share([""]),
            metrics.repetition_rate([]),
            metrics.identical_share([]),
            hits_at_k(np.zeros((0, 5)), [])["hits@1"],
        ):
            assert math.isnan(value)


def marked(replies: list[str], human: list[str], order: int) -> list[list[str]]:
    """Words with rare ones replaced, between marks."""
    counts = Counter(word for reply in human for word in reply.split())
    return [
        ["<s>"] * (order - 1) + [word if counts[word] > 1 else "<rare>" for word in reply.split()] + ["</s>"]
        for reply in replies
    ]


def plain_kneser_ney(human: list[list[str]], order: int, discount: float | None):
    """P(word, context) with dictionaries, from the definition; the discount of each order from its counts if None."""
    grams = {k: Counter() for k in range(1, order + 1)}
    for row in human:
        for i in range(order - 1, len(row)):
            for k in grams:
                grams[k][tuple(row[i - k + 1 : i + 1])] += 1
    counts = {order: grams[order]}
    for k in range(1, order):
        counts[k] = Counter(gram[1:] for gram in grams[k + 1])

    def probability(word, context):
        k = len(context) + 1
        mine = {gram[-1]: count for gram, count in counts[k].items() if gram[:-1] == tuple(context)}
        if k == 1:
            return mine[word] / sum(mine.values())
        lower = probability(word, context[1:])
        if not mine:
            return lower
        d = discount
        if d is None:
            once, twice = (sum(count == n for count in counts[k].values()) for n in (1, 2))
            d = once / (once + 2 * twice) if once and twice else 0.5
        return (max(mine.get(word, 0) - d, 0) + d * len(mine) * lower) / sum(mine.values())

    return probability


class TestKneserNey:
    @pytest.mark.parametrize(("order", "discount"), [(2, None), (3, 0.4), (5, None)])
    def test_against_dictionaries(self, order, discount):
        human, replies = random_replies(3) + HUMAN, random_replies(4, 10) + REPLIES
        model = NgramPerplexity(order, discount).fit(human)
        probability = plain_kneser_ney(marked(human, human, order), order, discount)
        expected = [
            probability(row[i], row[i - order + 1 : i])
            for row in marked(replies, human, order)
            for i in range(order - 1, len(row))
        ]
        np.testing.assert_allclose(np.exp(model.log_probabilities(replies)), expected, rtol=1e-12)

    def test_against_nltk(self):
        order, discount = 3, 0.75
        human, replies = random_replies(1) + HUMAN, random_replies(2, 20) + REPLIES
        model = NgramPerplexity(order, discount).fit(human)
        reference = KneserNeyInterpolated(order, discount)
        rows = marked(human, human, order)
        # The marks at the start are never predicted.
        grams = [[gram for gram in everygrams(row, max_len=order) if gram[-1] != "<s>"] for row in rows]
        reference.fit(grams, sorted({word for row in rows for word in row}))
        expected = [
            reference.score(row[i], row[i - order + 1 : i])
            for row in marked(replies, human, order)
            for i in range(order - 1, len(row))
        ]
        np.testing.assert_allclose(np.exp(model.log_probabilities(replies)), expected, rtol=1e-9, atol=1e-12)

    def test_probabilities_sum_to_one(self):
        model = NgramPerplexity().fit(HUMAN)
        known = ["i", "am", "so", "happy", "today", "you", "day", "never-seen".replace("-", "")]
        for context in ("", "i am", "you you you you you", "unknown so"):
            length = len(context.split())
            values = model.log_probabilities([f"{context} {word}" for word in known])
            total = np.exp(values.reshape(len(known), length + 2)[:, length]).sum()
            end = np.exp(model.log_probabilities([context])[-1])
            assert total + end == pytest.approx(1)

    def test_unknown_words_count_as_rare_ones(self):
        model = NgramPerplexity().fit(HUMAN)
        values = [model.perplexity([f"so {word}"]) for word in ("unknown", "kind", "<unk>", "<s>", "<rare>")]
        assert len(set(values)) == 1 and math.isfinite(values[0])
        # Even where no word is rare.
        assert math.isfinite(NgramPerplexity().fit(["a b", "a b"]).perplexity(["c"]))

    def test_with_a_vocabulary_each_of_its_words_has_its_own_probability(self):
        seen = sorted({word for reply in HUMAN for word in reply.split()})
        vocabulary = [*seen, "new", "newer", "newest"]
        model = NgramPerplexity(vocabulary_size=len(vocabulary)).fit(HUMAN)
        for context in ("", "i am", "unknown so"):
            length = len(context.split())
            values = model.log_probabilities([f"{context} {word}" for word in vocabulary])
            total = np.exp(values.reshape(len(vocabulary), length + 2)[:, length]).sum()
            assert total + np.exp(model.log_probabilities([context])[-1]) == pytest.approx(1)

    def test_perplexity_is_per_token_of_all_replies(self):
        model = NgramPerplexity().fit(HUMAN)
        values = model.log_probabilities(REPLIES)
        assert len(values) == sum(len(reply.split()) + 1 for reply in REPLIES)
        assert model.perplexity(REPLIES) == pytest.approx(math.exp(-values.sum() / len(values)))
        assert math.isnan(model.perplexity([]))
        assert model.perplexity(HUMAN) < model.perplexity(REPLIES)


@pytest.fixture(scope="module")
def encoder():
    config = BertConfig(**{**TINY_BERT, "hidden_dropout_prob": 0.5})
    return asymmetric_(BertModel(config), seed=3)


TEXTS = [" ".join(WORDS[start : start + length]) for start, length in [(0, 3), (4, 1), (2, 6), (9, 4), (1, 5), (3, 3)]]
OTHERS = [
    " ".join(WORDS[start : start + length]) for start, length in [(1, 4), (4, 2), (7, 2), (9, 4), (0, 7), (12, 3)]
]


def plain_bertscore(candidate, reference, model, tokenizer, layer):
    """Precision, recall and F1 of one pair, token by token."""
    sides = []
    for text in (candidate, reference):
        ids = tokenizer(text)["input_ids"]
        with torch.no_grad():
            states = model(torch.tensor([ids]), output_hidden_states=True).hidden_states[layer][0]
        sides.append((ids, [state.double() for state in states]))
    averages = []
    for (ids, mine), (_, others) in (sides, sides[::-1]):
        best = []
        for number, state in zip(ids, mine, strict=True):
            if number in (tokenizer.cls_token_id, tokenizer.sep_token_id):
                continue
            best.append(max(float(state @ other / (state.norm() * other.norm())) for other in others))
        averages.append(sum(best) / len(best))
    precision, recall = averages
    return precision, recall, 2 * precision * recall / (precision + recall)


class TestBertScore:
    @pytest.mark.parametrize("layer", [0, 1, None])
    def test_against_loops(self, encoder, tokenizer, layer, monkeypatch):
        monkeypatch.setattr(generation, "_TOKENS_PER_BATCH", 20)  # several batches, with padding
        encoder.train()
        result = bertscore(TEXTS, OTHERS, encoder, tokenizer, layer)
        assert encoder.training
        encoder.eval()
        pairs = [
            plain_bertscore(text, other, encoder, tokenizer, -1 if layer is None else layer)
            for text, other in zip(TEXTS, OTHERS, strict=True)
        ]
        for column, name in enumerate(("precision", "recall", "f1")):
            assert result[name] == pytest.approx(sum(pair[column] for pair in pairs) / len(pairs), abs=1e-6)
        assert result["precision"] < 0.999 and result["precision"] != pytest.approx(result["recall"], abs=1e-4)

    def test_empty_texts_score_nothing(self, encoder, tokenizer):
        one = bertscore(TEXTS[:1], OTHERS[:1], encoder, tokenizer)
        result = bertscore([TEXTS[0], "", TEXTS[1], ""], [OTHERS[0], "the day", " ", ""], encoder, tokenizer)
        assert result == {name: pytest.approx(value / 4, abs=1e-6) for name, value in one.items()}

    def test_long_texts_are_cut_off(self, encoder, tokenizer):
        assert bertscore(["the day " * 40], ["the day " * 50], encoder, tokenizer)["f1"] == pytest.approx(1)


class TestReplyMetrics:
    def test_joins(self, encoder, tokenizer):
        model = NgramPerplexity().fit(HUMAN)
        labels = [0, 1, 2, 3, 4, 0]
        probabilities = np.random.default_rng(0).random((6, 5))
        names = ["joy", "fear", "calm", "anger", "love"]
        result = metrics.reply_metrics(
            REPLIES, OTHERS, labels, probabilities, model, (encoder, tokenizer, 1), label_names=names
        )
        assert result["ttr_2"] == metrics.type_token_ratio(REPLIES, 2)
        assert result["stop_words"] == metrics.stop_word_share(REPLIES)
        assert result["average_length"] == metrics.average_length(REPLIES)
        assert result["repetition_rate"] == pytest.approx(1 / 6)
        assert result["perplexity"] == model.perplexity(REPLIES)
        assert result["bertscore_f1"] == bertscore(REPLIES, OTHERS, encoder, tokenizer, 1)["f1"]
        assert {name: result[name] for name in result if "hits" in name or name == "per_emotion"} == hits_at_k(
            probabilities, labels, label_names=names
        )
        assert set(TABLES["mod-ln"].published["R-CVAE, 10 %"]) < set(result)
        json.dumps(result)
