# SPDX-License-Identifier: Apache-2.0
"""The TF-IDF gate: its words, its figures, what it removes, the factors of tokens, and its file."""

import json
import math
import re

import pytest
from hf_emotion.modeling import RobertaESAConfig
from hf_emotion.modeling.text_processing import TfidfGate, find_words, load_gate
from model_cases import make_tokenizer
from sklearn.feature_extraction.text import TfidfVectorizer
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import BertConfig, PreTrainedTokenizerFast

from hf_emotion.tasks.emotion_classification.building import fit_tfidf_gate


TEXTS = [
    "the day is so calm",
    "The rain, the rain and THE sun",
    "i don't feel happy!",
    "so sad... so very sad \N{CRYING FACE}",
    "the day is so calm",  # a copy
    "happy day :)",
    "the day is so calm",
]


def words_of(text: str) -> list[str]:
    return [word for _, _, word in find_words(text)]


def gate_of(threshold: float = 3.5, min_words: int = 4, **idf: float) -> TfidfGate:
    return TfidfGate(idf, unseen_idf=9.0, threshold=threshold, min_words=min_words)


class TestWords:
    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("I am HAPPY", ["i", "am", "happy"]),
            ("happy, (very) happy!!", ["happy", "very", "happy"]),
            ("don't 'don't' well-known", ["don't", "don't", "well-known"]),
            ("so \N{CRYING FACE} sad\N{CRYING FACE}", ["so", "\N{CRYING FACE}", "sad"]),
            (":) ... hello", [":)", "...", "hello"]),
            # A heart and a sad face with the mark that chooses their picture; a key, of a digit and two marks.
            ("\u2764\ufe0f \u2639\ufe0f \U0001f602", ["\u2764\ufe0f", "\u2639\ufe0f", "\U0001f602"]),
            ("happy!!\u2764\ufe0f sad\u2639\ufe0f 1\ufe0f\u20e3", ["happy", "sad", "1"]),
            ("\u00c9T\u00c9, \u0130stanbul.", ["\u00e9t\u00e9", "i\u0307stanbul"]),
            ("4ever 2", ["4ever", "2"]),
            (" two\t\nlines\u00a0here ", ["two", "lines", "here"]),
            ("  ", []),
        ],
    )
    def test_words(self, text, words):
        assert words_of(text) == words

    def test_places_are_those_of_the_text_as_it_stands(self):
        text = "  (\u0130stanbul)\t so,  SAD!"  # in lower case the first word is longer
        assert [text[start:end] for start, end, _ in find_words(text)] == ["(\u0130stanbul)", "so,", "SAD!"]


class TestFitting:
    def test_scores_are_the_unnormalised_ones_of_scikit_learn_over_distinct_texts(self):
        texts = list(dict.fromkeys(TEXTS))
        vectorizer = TfidfVectorizer(norm=None, analyzer=words_of)
        matrix = vectorizer.fit_transform(texts).toarray()
        gate = fit_tfidf_gate(TEXTS)
        for text, row in zip(texts, matrix, strict=True):
            words = words_of(text)
            expected = [row[vectorizer.vocabulary_[word]] for word in words]
            assert gate.scores(words) == pytest.approx(expected, abs=1e-5)
        assert set(gate.idf) == set(vectorizer.vocabulary_)
        assert gate.unseen_idf == pytest.approx(math.log(6 / 1) + 1, abs=1e-9)
        assert (gate.threshold, gate.min_words) == (3.5, 4)
        rain = gate.idf["rain"]
        assert gate.scores(["rain", "the", "rain"])[::2] == pytest.approx([2 * rain, 2 * rain])


class TestFilter:
    @pytest.mark.parametrize(
        ("scores", "text", "left"),
        [
            ([3.5, 3.4999, 3.5, 3.6, 3.5, 1.0], "a b c d e f", "a c d e"),  # the threshold itself is kept
            ([1.75, 3.4, 4, 4, 4, 4], "a b c d e a f", "a c d e a f"),  # twice the frequency, twice the score
            ([1.1, 1.5, 1.2, 1.4, 1.3, 1.6], "a b c d e f", "b d e f"),  # the four best, whatever they are
            ([5.0, 5.0, 1.0, 2.0, 1.0, 2.5], "a b c d e f", "a b d f"),  # a floor and not an addition
            ([5.0, 5.0, 5.0, 5.0, 5.0, 1.0], "a b c d e f", "a b c d e"),  # more than four
            ([1.0, 1.0, 1.0, 1.0, 1.0, 2.0], "a b c d e f", "a b c f"),  # among equals the first
            ([1.0] * 5, "a b c d e Unseen", "a b c Unseen"),  # words that were never seen stay
            *(([1.0] * 4, text, text) for text in ("", "a", " a  b\tc\n d ", "A, b! a a")),
        ],
    )
    def test_what_is_left(self, scores, text, left):
        assert gate_of(**dict(zip("abcdef", scores, strict=False))).filter(text) == left

    def test_order_and_spelling_stay(self):
        gate = gate_of(sad=4.0, so=1.0, day=4.0, rain=5.0, home=4.0, the=1.0)
        assert gate.filter("So SAD,  the 'day'\n\tthe (Rain)! Home?") == "SAD, 'day' (Rain)! Home?"

    def test_threshold_and_floor_can_be_set(self):
        idf = {"a": 1.0, "b": 2.0, "c": 3.0, "d": 1.0}
        assert gate_of(threshold=2.0, min_words=1, **idf).filter("a b c d") == "b c"
        assert gate_of(threshold=9.0, min_words=1, **idf).filter("a b c d") == "c"


def byte_level(trim_offsets: bool, add_prefix_space: bool = False) -> PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer of RoBERTa's kind, so small that longer words are parted."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=add_prefix_space)
    tokenizer.decoder = decoders.ByteLevel()
    letters = {"initial_alphabet": pre_tokenizers.ByteLevel.alphabet(), "show_progress": False}
    trainer = trainers.BpeTrainer(vocab_size=300, special_tokens=["<s>", "<pad>", "</s>", "<unk>"], **letters)
    tokenizer.train_from_iterator(["the day is so calm", "the rain and the sun", "i am so sad"] * 4, trainer)
    options = {"trim_offsets": trim_offsets, "add_prefix_space": add_prefix_space}
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), **options)
    names = {"bos_token": "<s>", "cls_token": "<s>", "eos_token": "</s>", "sep_token": "</s>"}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", unk_token="<unk>", **names)


TOKENIZERS = {
    "word pieces": make_tokenizer,
    "bytes, trimmed": lambda folder: byte_level(True),
    "bytes, with blanks": lambda folder: byte_level(False),
    "bytes, first word too": lambda folder: byte_level(True, add_prefix_space=True),
}
PARTED = "I am  so nervousness, homesick day!\N{CRYING FACE} \N{CRYING FACE} \u00c9t\u00e9 today"


class TestTokenGates:
    @pytest.fixture(params=TOKENIZERS)
    def tokenizer(self, request, tmp_path):
        return TOKENIZERS[request.param](tmp_path)

    @pytest.mark.parametrize("text", [PARTED, f" {PARTED}", "sad", "so sad so", "sad. \n Sad? day"])
    def test_every_piece_of_a_word_has_its_score(self, tokenizer, text):
        idf = {"i": 1.0, "am": 1.25, "so": 1.5, "nervousness": 4.0, "homesick": 3.0, "day": 2.0, "sad": 2.5}
        gate = TfidfGate(idf, unseen_idf=5.0)
        offsets = tokenizer(text, return_offsets_mapping=True)["offset_mapping"]
        words = list(re.finditer(r"\S+", text))
        names = [word[0].lower().strip("!.,?\N{CRYING FACE}") or word[0] for word in words]
        scores = [names.count(name) * idf.get(name, 5.0) for name in names]
        expected = []
        for start, end in offsets:
            # The blanks before a word, where they are tokens of their own, go with it or count as nothing.
            score = next((score for word, score in zip(words, scores, strict=True) if word.end() > start), None)
            expected.append(1.0 if start == end else score / max(scores))
        found = gate.token_gates(text, offsets)
        assert found == pytest.approx(expected)
        assert found[0] == found[-1] == 1.0  # special tokens
        assert max(found) == 1.0 and min(found) > 0

    def test_the_largest_counts_though_it_is_cut_off(self, tmp_path):
        cut = {"return_offsets_mapping": True, "truncation": True, "max_length": 4}
        gate = TfidfGate({"so": 1.0, "sad": 2.0, "rain": 4.0}, unseen_idf=8.0)
        offsets = make_tokenizer(tmp_path)("so sad rain", **cut).offset_mapping
        assert gate.token_gates("so sad rain", offsets) == pytest.approx([1, 0.25, 0.5, 1])

    @pytest.mark.parametrize("text", ["", " \n\t  "])
    def test_a_text_without_words(self, tokenizer, text):
        offsets = tokenizer(text, return_offsets_mapping=True)["offset_mapping"]
        assert TfidfGate({"so": 1.0}, 2.0).token_gates(text, offsets) == [1.0] * len(offsets)


class TestFile:
    def test_round_trip(self, tmp_path):
        gate = TfidfGate({"\u00e9t\u00e9": 1.5, "\N{CRYING FACE}": 2.25, "so": 1.0}, 3.75, threshold=2.0, min_words=6)
        gate.save_pretrained(tmp_path)
        assert [path.name for path in tmp_path.iterdir()] == ["tfidf_gate.json"]
        content = (tmp_path / "tfidf_gate.json").read_text(encoding="utf-8")
        assert "\u00e9t\u00e9" in content and json.loads(content)["min_words"] == 6
        config = RobertaESAConfig(tfidf_gating="filter")
        config.name_or_path = str(tmp_path)
        assert load_gate(config) == gate
        for without in (RobertaESAConfig(), BertConfig()):
            without.name_or_path = str(tmp_path)
            assert load_gate(without) is None

    def test_no_file_beside_the_weights(self, tmp_path):
        config = RobertaESAConfig(tfidf_gating="scale")
        for place, message in (
            (str(tmp_path), rf"(?s)`tfidf_gating` is 'scale'.*tfidf_gate.json is not beside its weights.*{tmp_path}"),
            (str(tmp_path), "copy it there from the run folder, or pass the gate as `gate`"),
            ("", "tfidf_gate.json .*a model that was not loaded.*pass the gate as `gate`"),
            ("somebody/no-such-model", "tfidf_gate.json"),
        ):
            config.name_or_path = place
            with pytest.raises(OSError, match=message):
                load_gate(config)
