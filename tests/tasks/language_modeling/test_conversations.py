# SPDX-License-Identifier: Apache-2.0
"""Conversations without labels: what each corpus gives, the tokenizer that is trained on them, and their blocks of tokens."""

import unicodedata
from pathlib import Path

import pytest
import torch
from datasets import Dataset, Features, List, Value
from reply_corpora import (
    HEART,
    JOY,
    OWN,
    OWN_PAIRS,
    POSTS,
    SOB,
    conversation,
    empathetic_folder,
    mojitalk_folder,
    part_of,
    release_row,
    write_own,
)
from toolkit_helpers import (
    DAILY_DIALOG_EMOTIONS,
    DIALOGUE_PARTS,
    EMORYNLP_EMOTIONS,
    MELD_EMOTIONS,
    dialogues,
    write_daily_dialog,
    write_emorynlp,
    write_meld,
)

from hf_emotion import load_dataset_for
from hf_emotion.tasks import task_of_rows
from hf_emotion.tasks.emotional_response.loading import load_empathetic_conversations
from hf_emotion.tasks.language_modeling.building import (
    END_OF_TEXT,
    _collate_blocks,
    encode_conversations,
    train_tokenizer,
)
from hf_emotion.tasks.language_modeling.loading import CONVERSATION_LOADERS, load_conversations
from hf_emotion.tasks.rows import duplicates_between_splits


PARTS = {"train": "train", "validation": "dev", "test": "test"}
DEFAULT = ("daily_dialog", "empathetic_dialogues", "meld", "emorynlp", "mojitalk")


@pytest.fixture(scope="module")
def corpora(tmp_path_factory) -> Path:
    folder = mojitalk_folder(tmp_path_factory.mktemp("conversations"))
    for write in (write_daily_dialog, write_emorynlp, write_meld, empathetic_folder):
        write(folder)
    write_own(folder / "train.jsonl", OWN)
    write_own(folder / "dev.jsonl", OWN[:1])
    return folder


def rows_of(dataset: Dataset) -> list[tuple[str, list[str]]]:
    return [(row["id"], row["turns"]) for row in dataset]


def turns_of(emotions, split: str) -> list[list[str]]:
    return [[text for _, text, _ in turns] for turns in dialogues(emotions, *DIALOGUE_PARTS[PARTS[split]])]


def conversations_of(*turns: list[str]) -> Dataset:
    return Dataset.from_dict({"id": [str(i) for i in range(len(turns))], "turns": list(turns)})


class TestCorpora:
    @pytest.mark.parametrize("split", PARTS)
    def test_dialogues(self, corpora, split):
        found = {
            name: rows_of(load_conversations(corpora, [name])[split]) for name in ("meld", "emorynlp", "daily_dialog")
        }
        assert [turns for _, turns in found["meld"]] == turns_of(MELD_EMOTIONS, split)
        assert [turns for _, turns in found["emorynlp"]] == turns_of(EMORYNLP_EMOTIONS, split)
        detokenized = [
            [f"{text.replace(' ,', ',')}." for text in turns] for turns in turns_of(DAILY_DIALOG_EMOTIONS, split)
        ]
        assert [turns for _, turns in found["daily_dialog"]] == detokenized
        for name, rows in found.items():
            own = load_dataset_for(name, corpora)[split]["id"]
            assert [row_id for row_id, _ in rows] == [f"{name}/{row_id}" for row_id in own]

    def test_posts_and_their_replies(self, corpora):
        splits = load_conversations(corpora, ["mojitalk"])
        for split, part in (("train", "generator"), ("validation", "validation")):  # nothing of the judges'
            expected = [(i, row) for i, row in enumerate(POSTS, 1) if part_of(row[0]) == part]
            assert rows_of(splits[split]) == [(f"mojitalk/dev-{i}", [post, reply]) for i, (post, reply, _) in expected]
        assert rows_of(splits["test"]) == [("mojitalk/test-1", ["a test post", "a test reply"])]

    def test_emojis_of_replies_are_stripped(self, tmp_path):
        folder = mojitalk_folder(tmp_path, test=[(f"so {JOY}", f"yes {SOB} no {HEART}", SOB)])
        assert load_conversations(folder, ["mojitalk"])["test"]["turns"][:] == [[f"so {JOY}", "yes no"]]

    def test_own_pairs(self, corpora):
        splits = load_conversations(corpora, ["reply_files"])
        assert list(splits) == ["train", "validation"]
        expected = [(f"reply_files/train-{i}", [context, reply]) for i, (context, reply, _) in enumerate(OWN_PAIRS, 1)]
        assert rows_of(splits["train"]) == expected and rows_of(splits["validation"])[0][1] == list(OWN_PAIRS[0][:2])

    @pytest.mark.parametrize("kind", ["jsonl", "csv"])
    def test_whole_conversations_of_empathetic_dialogues(self, tmp_path, kind):
        """Every turn, that of the speaker at the end and the one alone too, with its commas and in NFC."""
        texts = ["cafe\u0301_comma_ yes", "b", "c"]
        if kind == "jsonl":
            train = [conversation("hit:1", texts=texts), conversation("hit:0", emotion="sad", texts=["alone"])]
        else:
            train = [release_row(n, texts[n - 1], conversation="hit:1") for n in (2, 1, 3)]
            train.append(release_row(1, "alone", "sad", "hit:0"))
        folder = empathetic_folder(tmp_path, train=train)
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
        held_out = POSTS[0]
        train = [held_out, (held_out[0], "else", JOY), ("x", "y", SOB)]
        folder = mojitalk_folder(tmp_path, train=train, dev=[POSTS[1]], test=[held_out])
        splits = load_dataset_for("conversations", folder, corpora=["mojitalk"])
        assert duplicates_between_splits(splits)["train & test"] == 1 and "train & test: 1" in caplog.text
        assert task_of_rows(splits["test"]).texts(splits["test"]) == [f"{held_out[0]}\n{held_out[1]}"]
        left = load_dataset_for("conversations", folder, corpora=["mojitalk"], dedupe=True)
        assert left["train"]["turns"][:] == [[held_out[0], "else"], ["x", "y"]] and len(left["test"]) == 1


TURNS = ["the keys are lost again", "I can't find the keys", "the keys, the keys!", f"so {JOY} good"] * 4
TURNS += ["lost keys, again"] * 4
SAMPLES = [
    "the keys are lost",
    "I can't, it's 3 o'clock — don’t",
    f"so {JOY}{HEART} good \U0001f469\U0001f3fd\u200d\U0001f680",
    "caf\xe9 \u00fcber \u4f60\u597d",
    "two  blanks,\ttab\nand line",
    "<|endoftext is text",
]


@pytest.fixture(scope="module")
def small():
    return train_tokenizer(TURNS, 280)


class TestTokenizer:
    @pytest.mark.parametrize("text", SAMPLES)
    def test_round_trip(self, small, text):
        for written in (text, text.upper(), unicodedata.normalize("NFD", text)):
            ids = small(written, add_special_tokens=False)["input_ids"]
            assert small.decode(ids).strip() == unicodedata.normalize("NFC", written).lower()
            assert small.eos_token_id not in ids

    def test_the_size(self, small):
        assert len(small) == small.vocab_size == 280
        assert len(train_tokenizer(TURNS, 10)) == 257  # every byte and the end

    def test_words_are_the_same_wherever_they_stand(self, small):
        (first, *rest) = small("keys lost keys", add_special_tokens=False)["input_ids"]
        assert rest[-1] == first and len(rest) == 2
        assert small.convert_ids_to_tokens(first) == "\u0120keys"

    def test_one_special_token(self, small):
        ids = {small.bos_token_id, small.eos_token_id, small.unk_token_id, small.pad_token_id}
        assert ids == {small.convert_tokens_to_ids(END_OF_TEXT)} == {0}
        assert END_OF_TEXT == "<|endoftext|>" and small.all_special_tokens == [END_OF_TEXT]
        # It adds none by itself.
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
        blocks = encode_conversations(conversations_of(*self.CONVERSATIONS), small, length)
        assert blocks.column_names == ["input_ids"]
        blocks = blocks["input_ids"][:]
        assert stream.count(0) == 7 and stream[0] == stream[-1] == 0
        whole = len(stream) - (len(stream) % length == 1)  # a token alone has nothing to be predicted from
        assert [len(block) for block in blocks[:-1]] == [length] * (len(blocks) - 1)
        assert [token for block in blocks for token in block] == stream[:whole]

    def test_more_conversations_than_are_encoded_at_once(self, small):
        blocks = encode_conversations(conversations_of(*[["keys"]] * 1001), small, 500)["input_ids"][:]
        (keys,) = small("keys")["input_ids"]
        assert [len(block) for block in blocks] == [500] * 4 + [3]  # 2001 tokens, the last of them alone; and 3
        assert sum(block.count(keys) for block in blocks) == 1001 and blocks[-1] == [0, keys, 0]

    def test_short_blocks_are_masked(self):
        batch = _collate_blocks([{"input_ids": [5, 0, 7]}, {"input_ids": [0, 8]}])
        assert batch["input_ids"].tolist() == [[5, 0, 7], [0, 8, 0]]
        assert batch["attention_mask"].tolist() == [[1, 1, 1], [1, 1, 0]]
        assert batch["labels"].tolist() == [[5, 0, 7], [0, 8, -100]]  # the mark itself is predicted
        assert all(value.dtype == torch.int64 for value in batch.values())
