# SPDX-License-Identifier: Apache-2.0
"""Rows that a caller gives to `train` as a `DatasetDict`: what is added to them, and what they must have."""

import logging

import pytest
from datasets import ClassLabel, Dataset, DatasetDict, Features, List, Value

from hf_emotion.data.splits import label_names
from hf_emotion.training.given_splits import complete


def part(rows: int = 20, **columns) -> Dataset:
    return Dataset.from_dict({"text": [f"text {row // 2}" for row in range(rows)], **columns})


def names(rows: int = 20) -> list[str]:
    return [("joy", "fear")[row % 2] for row in range(rows)]


def test_a_column_label_of_strings_or_numbers_with_names():
    of_strings = complete(DatasetDict(train=part(label=names()), validation=part(2, label=["joy", "fear"])))
    features = Features({"text": Value("string"), "label": ClassLabel(names=["joy", "fear"])})
    with_names = {"train": part(label=[i % 2 for i in range(20)]), "validation": part(2, label=[0, 1])}
    of_numbers = complete(DatasetDict({name: rows.cast(features) for name, rows in with_names.items()}))
    for splits, expected in ((of_strings, ["fear", "joy"]), (of_numbers, ["joy", "fear"])):
        assert label_names(splits["train"]) == label_names(splits["validation"]) == expected
        assert [expected[i] for i in splits["train"]["labels"]] == names()
        assert splits["validation"]["id"][:] == ["validation-1", "validation-2"]


def test_lists_of_strings():
    lists = [["joy", "fear"], [], ["fear"]]
    given = DatasetDict(train=part(3, labels=lists), validation=part(3, labels=lists))
    splits = complete(given)
    assert splits["train"].features["labels"] == List(ClassLabel(names=["fear", "joy"]))
    assert splits["validation"]["labels"][:] == [[1, 0], [], [0]]


def test_ids_of_ones_own_stay_and_become_strings():
    rows = part(labels=names(), id=[row * 3 for row in range(20)])
    assert complete(DatasetDict(train=rows, validation=rows))["train"]["id"][:3] == ["0", "3", "6"]


def test_a_tenth_is_set_aside_by_text(caplog):
    with caplog.at_level(logging.WARNING, logger="hf_emotion"):
        splits = complete(DatasetDict(train=part(40, labels=names(40))))
    assert {name: len(rows) for name, rows in splits.items()} == {"train": 36, "validation": 4}
    assert not set(splits["train"]["text"]) & set(splits["validation"]["text"])
    assert [record.getMessage() for record in caplog.records] == [
        "no validation part: 4 training rows set aside for validation"
    ]


@pytest.mark.parametrize(
    ("splits", "message"),
    [
        ({"train": part()}, r"'train' of `splits` lacks the columns \['labels'\]"),
        (
            {"train": part(1, utterances=[["a"]], speakers=[["b"]], labels=[["joy"]]), "test": part(labels=names())},
            r"'test' of `splits` lacks the columns \['speakers', 'utterances'\]",
        ),
        (
            {"train": part(labels=names()), "dev": part(labels=names())},
            r"parts \['dev'\]: name its parts train, valid",
        ),
        (
            {"train": part(labels=names()), "test": part(1, labels=["awe"])},
            r"no training row has the labels \['awe'\]",
        ),
        ({"train": part(2, labels=["joy", None])}, r"`labels` is empty in some rows of the parts \['train'\]"),
    ],
)
def test_what_is_missing_is_named(splits, message):
    with pytest.raises(ValueError, match=message):
        complete(DatasetDict(splits))
