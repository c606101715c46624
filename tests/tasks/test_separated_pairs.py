# SPDX-License-Identifier: Apache-2.0
"""A pair of texts stays a pair over the tokenizer of a decoder-only model, which joins them without a token between."""

import pytest
from tokenizers import processors
from transformers import AutoTokenizer, BertTokenizer

from hf_emotion.recipes import make_recipe
from hf_emotion.runtime.batching import encode_texts
from hf_emotion.tasks.language_modeling.building import train_tokenizer
from hf_emotion.tasks.sequence_classification import base_tokenizer


TEXT, QUESTION = "the pier is cheap", "pier - price"


def read(folder):
    return base_tokenizer(make_recipe({"name": "x", "base_model": str(folder), "max_length": 9}))


@pytest.mark.parametrize("own", [None, processors.ByteLevel(trim_offsets=True)], ids=["nothing", "byte-level"])
def test_a_token_between_two_texts(tmp_path, own):
    plain = train_tokenizer([TEXT, QUESTION], 300)
    plain.backend_tokenizer.post_processor = own
    plain.save_pretrained(tmp_path / "base")
    first, second = (plain(text)["input_ids"] for text in (TEXT, QUESTION))
    read(tmp_path / "base").save_pretrained(tmp_path / "run")
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
    assert read(tmp_path)(TEXT, QUESTION).data == plain(TEXT, QUESTION).data
