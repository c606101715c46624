# SPDX-License-Identifier: Apache-2.0
"""Conversations without labels: what each corpus gives, the tokenizer that is trained on them, and their blocks of tokens."""

import unicodedata
from pathlib import Path

import pytest
import reply_corpora as replies
import toolkit_helpers as helpers
import torch
from datasets import Dataset, Features, List, Value
from tokenizers import processors
from transformers import AutoTokenizer, BertTokenizer

from hf_emotion import load_dataset_for
from hf_emotion.recipes import make_recipe
from hf_emotion.runtime.batching import encode_texts
from hf_emotion.tasks import task_of_rows
from hf_emotion.tasks.emotional_response.loading import load_empathetic_conversations
from hf_emotion.tasks.language_modeling import TASK, building
from hf_emotion.tasks.language_modeling.loading import CONVERSATION_LOADERS, load_conversations
from hf_emotion.tasks.rows import duplicates_between_splits
from hf_emotion.tasks.sequence_classification import base_tokenizer


PARTS = {"train": "train", "validation": "dev", "test": "test"}
TEXT, QUESTION = "the pier is cheap", "pier - price"
END_OF_TEXT = "<|endoftext|>"
DEFAULT = ("daily_dialog", "empathetic_dialogues", "meld", "emorynlp", "mojitalk")


@pytest.fixture(scope="module")
def corpora(tmp_path_factory) -> Path:
    folder = replies.mojitalk_folder(tmp_path_factory.mktemp("conversations"))
    for write in (helpers.write_daily_dialog, helpers.write_emorynlp, helpers.write_meld, replies.empathetic_folder):
        write(folder)
    helpers.write_rows(folder / "train.jsonl", replies.OWN)
    helpers.write_rows(folder / "dev.jsonl", replies.OWN[:1])
    return folder


def rows_of(dataset: Dataset) -> list[tuple[str, list[str]]]:
    return [(row["id"], row["turns"]) for row in dataset]


def turns_of(emotions, split: str) -> list[list[str]]:
    made = helpers.dialogues(emotions, *helpers.DIALOGUE_PARTS[PARTS[split]])
    return [[text for _, text, _ in turns] for turns in made]


def conversations_of(*turns: list[str]) -> Dataset:
    return Dataset.from_dict({"id": [str(i) for i in range(len(turns))], "turns": list(turns)})


class TestCorpora:
    @pytest.mark.parametrize("split", PARTS)
    def test_dialogues(self, corpora, split):
        spoken = turns_of(helpers.DAILY_DIALOG_EMOTIONS, split)
        expected = {"daily_dialog": [[f"{text.replace(' ,', ',')}." for text in turns] for turns in spoken]}
        expected |= {"meld": turns_of(helpers.MELD_EMOTIONS, split)}
        expected |= {"emorynlp": turns_of(helpers.EMORYNLP_EMOTIONS, split)}
        for name, turns in expected.items():
            own = [f"{name}/{row_id}" for row_id in load_dataset_for(name, corpora)[split]["id"]]
            assert rows_of(load_conversations(corpora, [name])[split]) == list(zip(own, turns, strict=True))

    def test_posts_and_their_replies(self, corpora):
        splits = load_conversations(corpora, ["mojitalk"])
        for split, part in (("train", "generator"), ("validation", "validation")):  # nothing of the judges'
            expected = [(i, row) for i, row in enumerate(replies.POSTS, 1) if replies.part_of(row[0]) == part]
            assert rows_of(splits[split]) == [(f"mojitalk/dev-{i}", [post, reply]) for i, (post, reply, _) in expected]
        assert rows_of(splits["test"]) == [("mojitalk/test-1", ["a test post", "a test reply"])]

    def test_own_pairs(self, corpora):
        splits, pairs = load_conversations(corpora, ["reply_files"]), [list(pair[:2]) for pair in replies.OWN_PAIRS]
        assert list(splits) == ["train", "validation"] and splits["validation"]["turns"][0] == pairs[0]
        assert rows_of(splits["train"]) == [(f"reply_files/train-{i}", pair) for i, pair in enumerate(pairs, 1)]

    @pytest.mark.parametrize("kind", ["jsonl", "csv"])
    def test_whole_conversations_of_empathetic_dialogues(self, tmp_path, kind):
        """Every turn, that of the speaker at the end and the one alone too, with its commas and in NFC."""
        texts = ["cafe\u0301_comma_ yes", "b", "c"]
        if kind == "jsonl":
            train = [replies.conversation("hit:1", texts=texts)]
            train += [replies.conversation("hit:0", emotion="sad", texts=["alone"])]
        else:
            train = [replies.release_row(n, texts[n - 1], conversation="hit:1") for n in (2, 1, 3)]
            train += [replies.release_row(1, "alone", "sad", "hit:0")]
        folder = replies.empathetic_folder(tmp_path, train=train)
        splits = load_empathetic_conversations(folder)
        expected = [("hit:1", ["caf\xe9, yes", "b", "c"]), ("hit:0", ["alone"])]
        assert list(splits) == ["train", "validation", "test"] and rows_of(splits["train"]) == expected
        assert splits["test"]["turns"][:] == [["said in test", "b"]]
        found = load_conversations(folder, ["empathetic_dialogues"])["train"]
        assert rows_of(found) == [(f"empathetic_dialogues/{row_id}", turns) for row_id, turns in expected]


class TestTogether:
    def test_one_after_the_other(self, corpora):
        together = load_conversations(corpora, ["mojitalk", "meld"])
        apart = [load_conversations(corpora, [name]) for name in ("mojitalk", "meld")]
        assert list(together) == ["train", "validation", "test"]
        for split, dataset in together.items():
            assert rows_of(dataset) == rows_of(apart[0][split]) + rows_of(apart[1][split])
            assert len(set(dataset["id"])) == len(dataset) and task_of_rows(dataset).name == "language-modeling"
            assert dataset.features == Features({"id": Value("string"), "turns": List(Value("string"))})
        lacking = load_conversations(corpora, ["reply_files", "meld"])  # one of them has no test part
        assert [len(lacking[split]) for split in ("train", "validation", "test")] == [3 + 12, 1 + 4, 4]

    def test_the_default_is_all_corpora_but_ones_own(self, corpora):
        splits = load_conversations(corpora)
        for split in splits:
            names = [row_id.partition("/")[0] for row_id in splits[split]["id"]]
            assert list(dict.fromkeys(names)) == list(DEFAULT)
        assert set(CONVERSATION_LOADERS) == {*DEFAULT, "reply_files"}

    @pytest.mark.parametrize("names", [["melt"], ["meld", "goemotions"], [], "meld", ["daily_dialog_replies"]])
    def test_unknown(self, corpora, names):
        with pytest.raises(ValueError, match=r"`corpora` must be a list of some of \['daily_dialog', .*got") as e:
            load_conversations(corpora, names)
        assert str(e.value).endswith(f"got {names!r}.")

    def test_dedupe_removes_whole_conversations(self, tmp_path, caplog):
        held_out = replies.POSTS[0]
        train = [held_out, (held_out[0], "else", replies.JOY), ("x", "y", replies.SOB)]
        folder = replies.mojitalk_folder(tmp_path, train=train, dev=[replies.POSTS[1]], test=[held_out])
        splits = load_dataset_for("conversations", folder, corpora=["mojitalk"])
        assert duplicates_between_splits(TASK, splits)["train & test"] == 1 and "train & test: 1" in caplog.text
        assert task_of_rows(splits["test"]).texts(splits["test"]) == [f"{held_out[0]}\n{held_out[1]}"]
        left = load_dataset_for("conversations", folder, corpora=["mojitalk"], dedupe=True)
        assert left["train"]["turns"][:] == [[held_out[0], "else"], ["x", "y"]] and len(left["test"]) == 1


TURNS = ["the keys are lost again", "I can't find the keys", "the keys, the keys!", f"so {replies.JOY} good"] * 4
TURNS += ["lost keys, again"] * 4
SAMPLES = [
    "the keys are lost",
    "I can't, it's 3 o'clock — don’t",
    "caf\xe9 \u00fcber \u4f60\u597d",
    "<|endoftext is text",
]
SAMPLES += [
    f"so {replies.JOY}{replies.HEART} good \U0001f469\U0001f3fd\u200d\U0001f680",
    "two  blanks,\ttab\nand line",
]


@pytest.fixture(scope="module")
def small():
    return building.train_tokenizer(TURNS, 280)


class TestTokenizer:
    @pytest.mark.parametrize("text", SAMPLES)
    def test_round_trip(self, small, text):
        for written in (text, text.upper(), unicodedata.normalize("NFD", text)):
            ids = small(written, add_special_tokens=False)["input_ids"]
            assert small.decode(ids).strip() == unicodedata.normalize("NFC", written).lower()
            assert small.eos_token_id not in ids

    def test_the_size(self, small):
        assert len(small) == small.vocab_size == 280
        assert len(building.train_tokenizer(TURNS, 10)) == 257  # every byte and the end

    def test_words_are_the_same_wherever_they_stand(self, small):
        (first, *rest) = small("keys lost keys", add_special_tokens=False)["input_ids"]
        assert rest[-1] == first and len(rest) == 2
        assert small.convert_ids_to_tokens(first) == "\u0120keys"

    def test_one_special_token(self, small):
        ids = {small.bos_token_id, small.eos_token_id, small.unk_token_id, small.pad_token_id}
        assert ids == {small.convert_tokens_to_ids(END_OF_TEXT)} == {0}
        assert small.all_special_tokens == [END_OF_TEXT]
        assert small("keys")["input_ids"] == small("keys", add_special_tokens=False)["input_ids"]
        assert small(f"keys{END_OF_TEXT}keys")["input_ids"].count(0) == 1
        assert small.decode([0, *small("keys")["input_ids"], 0], skip_special_tokens=True).strip() == "keys"


class TestBlocks:
    CONVERSATIONS = (["the keys", "I can't"], ["lost"], ["so good", "the keys again", "lost keys"])

    def stream(self, tokenizer) -> list[int]:
        """Written as one text: the mark before each turn, and one more at the end."""
        texts = [turn for turns in self.CONVERSATIONS for turn in turns]
        written = END_OF_TEXT + END_OF_TEXT.join(f" {text}" for text in texts) + END_OF_TEXT
        ids = []
        for piece in written.split(END_OF_TEXT)[1:]:
            ids += [0, *tokenizer(piece.strip())["input_ids"]] if piece else [0]
        return ids

    @pytest.mark.parametrize("length", [3, 7, 8, 1000, None])
    def test_nothing_is_lost_or_moved(self, small, length):
        stream = self.stream(small)
        length = length or len(stream) - 1  # the last token stands alone
        blocks = building.encode_conversations(conversations_of(*self.CONVERSATIONS), small, length)
        assert blocks.column_names == ["input_ids"]
        blocks = blocks["input_ids"][:]
        assert stream.count(0) == 7 and stream[0] == stream[-1] == 0
        whole = len(stream) - (len(stream) % length == 1)  # a token alone has nothing to be predicted from
        assert [len(block) for block in blocks[:-1]] == [length] * (len(blocks) - 1)
        assert [token for block in blocks for token in block] == stream[:whole]

    def test_more_conversations_than_are_encoded_at_once(self, small):
        blocks = building.encode_conversations(conversations_of(*[["keys"]] * 1001), small, 500)["input_ids"][:]
        (keys,) = small("keys")["input_ids"]
        assert [len(block) for block in blocks] == [500] * 4 + [3]  # 2001 tokens, the last of them alone; and 3
        assert sum(block.count(keys) for block in blocks) == 1001 and blocks[-1] == [0, keys, 0]

    def test_short_blocks_are_masked(self):
        batch = building._collate_blocks([{"input_ids": [5, 0, 7]}, {"input_ids": [0, 8]}])
        assert batch["input_ids"].tolist() == [[5, 0, 7], [0, 8, 0]]
        assert batch["attention_mask"].tolist() == [[1, 1, 1], [1, 1, 0]]
        assert batch["labels"].tolist() == [[5, 0, 7], [0, 8, -100]]  # the mark itself is predicted
        assert all(value.dtype == torch.int64 for value in batch.values())


def base_tokenizer_of(folder):
    return base_tokenizer(make_recipe({"name": "x", "base_model": str(folder), "max_length": 9}))


@pytest.mark.parametrize("own", [None, processors.ByteLevel(trim_offsets=True)], ids=["nothing", "byte-level"])
def test_a_token_between_two_texts(tmp_path, own):
    """A pair of texts stays a pair over the tokenizer of a decoder-only model, which joins them without one."""
    plain = building.train_tokenizer([TEXT, QUESTION], 300)
    plain.backend_tokenizer.post_processor = own
    plain.save_pretrained(tmp_path / "base")
    first, second = (plain(text)["input_ids"] for text in (TEXT, QUESTION))
    base_tokenizer_of(tmp_path / "base").save_pretrained(tmp_path / "run")
    kept = AutoTokenizer.from_pretrained(tmp_path / "run")  # what others read
    assert kept(TEXT, QUESTION)["input_ids"] == [*first, plain.eos_token_id, *second]
    assert kept(TEXT)["input_ids"] == first
    offsets = kept(TEXT, return_offsets_mapping=True)["offset_mapping"]
    assert offsets == plain(TEXT, return_offsets_mapping=True)["offset_mapping"]
    limit = len(second) + 3
    cut, unread = encode_texts(kept, [[TEXT], [QUESTION]], limit, None, None)
    assert cut["input_ids"] == [[*first[:2], plain.eos_token_id, *second]] and unread.truncated.tolist() == [True]


def test_a_tokenizer_that_separates_them_keeps_its_way(tmp_path):
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "pier", "is", "cheap", "-", "price"]
    plain = BertTokenizer(vocab={word: number for number, word in enumerate(words)})
    plain.save_pretrained(tmp_path)
    assert base_tokenizer_of(tmp_path)(TEXT, QUESTION).data == plain(TEXT, QUESTION).data
