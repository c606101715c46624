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
    *("i am so happy today", "i am so sad today", "you are so kind", "happy happy day", "i am happy for you"),
    *("what a day", "", "i am so happy today"),
]
REPLIES = ["i am so kind", "happy day for me", "so so so", "", "today you are sad", "nothing known here"]


def random_replies(seed: int, count: int = 60) -> list[str]:
    draw = random.Random(seed)
    vocabulary = "i you am are so happy sad day today . !".split()
    return [" ".join(draw.choices(vocabulary, range(11, 0, -1), k=draw.randint(0, 8))) for _ in range(count)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("I LOVE you", "i love you"),
        *((text, "don 't") for text in ("don't", "don 't", "don ' t")),
        ("it’s", "it 's"),
        ("'tis the 'end'", "' tis the ' end '"),
        ("wait... what?!", "wait ... what ? !"),
        ("<dgt> times, a < b", "<dgt> times , a < b"),
        ("🎶🎶 é", "🎶🎶 é"),
    ],
)
def test_words(text, expected):
    assert words(text) == expected.split()


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
        with pytest.raises(ValueError, match="a ranking must hold each id"):
            hits_at_k(np.array([[0, 1, 1]]), [0])


class TestDiversity:
    def test_by_hand(self):
        texts = ["so so happy", "so happy", "i don't"]
        assert metrics.type_token_ratio(texts, 1) == pytest.approx(5 / 8)  # so happy i don 't
        assert metrics.type_token_ratio(texts, 2) == pytest.approx(4 / 5)  # so so, so happy (2), i don, don 't
        assert metrics.average_length(texts) == pytest.approx(8 / 3)
        assert metrics.stop_word_share(texts) == pytest.approx(6 / 8)

    def test_repetition(self):
        loops = ("so so happy", "i am i am", "a b c d a b c d")
        for text in (*loops, "a b c d e a b c d e", "i am so i am", "what ! !", ""):  # five words are too many
            assert metrics.repetition_rate([text]) == (text in loops)
            assert metrics.repetition_rate([text, "so sad", "so happy", "calm"]) == (text in loops) / 4
        # One pair of three; all three pairs, in other writing; none.
        replies = [["a", "a", "b"], ["so  Happy", "so happy", "SO happy"], ["a", "b", "c"]]
        assert metrics.identical_share(replies) == pytest.approx((1 / 3 + 1 + 0) / 3)
        values = [metrics.average_length([]), metrics.repetition_rate([]), metrics.identical_share([])]
        values += [metrics.type_token_ratio(["word"], 2), metrics.stop_word_share([""])]
        assert np.isnan([*values, hits_at_k(np.zeros((0, 5)), [])["hits@1"]]).all()


def marked(replies: list[str], human: list[str], order: int) -> list[list[str]]:
    """Words with rare ones replaced, between marks."""
    counts = Counter(" ".join(human).split())
    found = ([word if counts[word] > 1 else "<rare>" for word in reply.split()] for reply in replies)
    return [["<s>"] * (order - 1) + row + ["</s>"] for row in found]


def scored(probability, replies: list[str], human: list[str], order: int) -> list[float]:
    """probability(word, context) of each word and end of the replies."""
    rows = marked(replies, human, order)
    return [probability(row[i], row[i - order + 1 : i]) for row in rows for i in range(order - 1, len(row))]


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
        expected = scored(plain_kneser_ney(marked(human, human, order), order, discount), replies, human, order)
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
        expected = scored(reference.score, replies, human, order)
        np.testing.assert_allclose(np.exp(model.log_probabilities(replies)), expected, rtol=1e-9, atol=1e-12)

    @pytest.mark.parametrize("vocabulary", [None, [*sorted(set(" ".join(HUMAN).split())), "new", "newer", "newest"]])
    def test_probabilities_sum_to_one(self, vocabulary):
        """With a vocabulary each of its words has its own probability."""
        known = vocabulary or ["i", "am", "so", "happy", "today", "you", "day", "unseen"]
        model = NgramPerplexity(vocabulary_size=vocabulary and len(vocabulary)).fit(HUMAN)
        for context in ("", "i am", "you you you you you", "unknown so"):
            length = len(context.split())
            values = model.log_probabilities([f"{context} {word}" for word in known])
            total = np.exp(values.reshape(len(known), length + 2)[:, length]).sum()
            assert total + np.exp(model.log_probabilities([context])[-1]) == pytest.approx(1)

    def test_unknown_words_count_as_rare_ones(self):
        model = NgramPerplexity().fit(HUMAN)
        values = [model.perplexity([f"so {word}"]) for word in ("unknown", "kind", "<unk>", "<s>", "<rare>")]
        assert len(set(values)) == 1 and math.isfinite(values[0])
        # Even where no word is rare.
        assert math.isfinite(NgramPerplexity().fit(["a b", "a b"]).perplexity(["c"]))

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
OTHERS = [" ".join(WORDS[a : a + length]) for a, length in [(1, 4), (4, 2), (7, 2), (9, 4), (0, 7), (12, 3)]]


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
        special = (tokenizer.cls_token_id, tokenizer.sep_token_id)
        kept = [state for number, state in zip(ids, mine, strict=True) if number not in special]
        best = [max(float(state @ other / (state.norm() * other.norm())) for other in others) for state in kept]
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
        own, texts = (encoder, tokenizer, -1 if layer is None else layer), zip(TEXTS, OTHERS, strict=True)
        means = np.mean([plain_bertscore(*pair, *own) for pair in texts], axis=0)
        assert [result[name] for name in ("precision", "recall", "f1")] == pytest.approx(means, abs=1e-6)
        assert result["precision"] < 0.999 and result["precision"] != pytest.approx(result["recall"], abs=1e-4)

    def test_empty_texts_score_nothing(self, encoder, tokenizer):
        one = bertscore(TEXTS[:1], OTHERS[:1], encoder, tokenizer)
        result = bertscore([TEXTS[0], "", TEXTS[1], ""], [OTHERS[0], "the day", " ", ""], encoder, tokenizer)
        assert result == {name: pytest.approx(value / 4, abs=1e-6) for name, value in one.items()}

    def test_long_texts_are_cut_off(self, encoder, tokenizer):
        assert bertscore(["the day " * 40], ["the day " * 50], encoder, tokenizer)["f1"] == pytest.approx(1)


def test_all_metrics_of_replies(encoder, tokenizer):
    model, names = NgramPerplexity().fit(HUMAN), ["joy", "fear", "calm", "anger", "love"]
    judged = [0, 1, 2, 3, 4, 0], np.random.default_rng(0).random((6, 5))
    result = metrics.reply_metrics(REPLIES, OTHERS, *judged, model, (encoder, tokenizer, 1), label_names=names)
    expected = {"ttr_2": metrics.type_token_ratio(REPLIES, 2), "stop_words": metrics.stop_word_share(REPLIES)}
    expected |= {"average_length": metrics.average_length(REPLIES), "repetition_rate": pytest.approx(1 / 6)}
    expected |= {"perplexity": model.perplexity(REPLIES), **hits_at_k(*judged[::-1], label_names=names)}
    expected["bertscore_f1"] = bertscore(REPLIES, OTHERS, encoder, tokenizer, 1)["f1"]
    assert {name: result[name] for name in expected} == expected
    assert set(TABLES["mod-ln"].published["R-CVAE, 10 %"]) < set(result)
    json.dumps(result)


@pytest.mark.parametrize("name", ["type_token_ratio", "average_length", "stop_word_share", "repetition_rate"])
def test_one_reply_is_no_list_of_replies(name):
    more = (1,) if name == "type_token_ratio" else ()
    metric = getattr(metrics, name)
    with pytest.raises(ValueError, match="list"):
        metric("so so happy", *more)  # which is a list of letters
    assert metric(["so so happy"], *more) == metric(["So so happy"], *more)
