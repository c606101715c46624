# SPDX-License-Identifier: Apache-2.0
"""
What is said of a corpus before the training: nothing to learn, labels without rows, aspects without "none", a small validation part; and
what rows must have that a caller gives as a `DatasetDict`.
"""

import logging
from collections.abc import Callable
from pathlib import Path

import pytest
from datasets import ClassLabel, Dataset, DatasetDict, Features, List, Value
from toolkit_helpers import feelings_rows, write_csv, write_sentihood

from hf_emotion import load_dataset_for
from hf_emotion.data.splits import label_names
from hf_emotion.tasks import task_of_rows
from hf_emotion.tasks.corpus import mark
from hf_emotion.tasks.given_splits import complete
from hf_emotion.training.training_rows import check_data


COLUMNS = {
    **{"files": ["text", "label"], "aspect_files": ["text", "aspect", "label"]},
    **{"dialogue_files": ["dialogue", "utterance", "label"], "reply_files": ["context", "reply", "emotion"]},
}


def warnings_of(splits: DatasetDict, caplog) -> list[str]:
    caplog.clear()
    with caplog.at_level(logging.WARNING, logger="hf_emotion"):
        check_data(task_of_rows(splits["train"]), splits)
    return [record.getMessage() for record in caplog.records]


def corpus(folder: Path, row: Callable[[int], list[str]], kind="files", validation=60, **options) -> DatasetDict:
    """60 rows to train on, whose cells `row` tells from their number."""
    for split, rows in (("train", 60), ("validation", validation)):
        write_csv(folder / f"{split}.csv", COLUMNS[kind], [row(i) for i in range(rows)])
    return load_dataset_for(kind, folder, **options)


def texts(folder: Path, validation: int = 21, **options) -> DatasetDict:
    return corpus(folder, feelings_rows(60, multi_label=False).__getitem__, validation=validation, **options)


def one_of_two(i: int) -> str:
    return ("joy", "fear")[i % 2]


class TestLabels:
    def test_nothing_to_say(self, tmp_path, caplog):
        assert warnings_of(texts(tmp_path), caplog) == []
        assert warnings_of(texts(tmp_path, label_separator="|"), caplog) == []
        assert warnings_of(load_dataset_for("quickstart"), caplog) == []
        # A generator may know one emotion.
        assert warnings_of(corpus(tmp_path, lambda i: [f"c{i}", "r", "joy"], "reply_files"), caplog) == []

    @pytest.mark.parametrize("separator", [None, "|"])
    def test_labels_without_a_training_row(self, tmp_path, caplog, separator):
        labels = ["anger", "pride", "joy", "neutral", "grief"]
        (message,) = warnings_of(texts(tmp_path, labels=labels, label_separator=separator), caplog)
        assert "['pride', 'grief']" in message and "joy" not in message and "`labels`" in message

    @pytest.mark.parametrize(
        ("kind", "row", "options", "names"),
        [
            ("files", lambda i: [f"so {i}", "joy"], {}, r"\['joy'\]"),
            ("files", lambda i: [f"so {i}", "joy"], {"labels": ["anger", "joy"]}, r"\['joy'\]"),
            ("dialogue_files", lambda i: [f"{i}", f"so {i}", "joy"], {}, r"\['joy'\]"),
            ("files", lambda i: [f"t{i}", "joy|fear"], {"label_separator": "|"}, r"\['fear', 'joy'\]"),
        ],
    )
    def test_the_same_labels_in_every_row(self, tmp_path, kind, row, options, names):
        splits = corpus(tmp_path, row, kind, **options)
        with pytest.raises(ValueError, match=f"at least two labels, and every training row has the labels {names}"):
            check_data(task_of_rows(splits["train"]), splits)

    def test_a_part_without_labels(self, tmp_path):
        """As data sets of the Hub keep those of their test part back."""
        splits = texts(tmp_path)
        splits["test"] = splits["validation"].map(lambda row: {"labels": -1})
        with pytest.raises(ValueError, match="no row of the part 'test' has a label"):
            check_data(task_of_rows(splits["train"]), splits)

    @pytest.mark.filterwarnings("error")
    def test_values_that_are_all_the_same(self, tmp_path):
        for part in ("train", "dev"):
            rows = [["a", "1", "2", ""], ["b", "3", "2", ""], ["c", "", "", "4" if part == "dev" else ""]]
            write_csv(tmp_path / f"{part}.csv", ["text", "joy", "anger", "fear"], rows[: 2 if part == "train" else 3])
        splits = load_dataset_for("files", tmp_path, targets=["joy", "anger", "fear"])
        with pytest.raises(ValueError, match=r"one and the same value, or none, for \['anger', 'fear'\]"):
            check_data(task_of_rows(splits["train"]), splits)


class TestValidationPart:
    @pytest.mark.parametrize(("rows", "small"), [(3, True), (19, True), (20, False)])
    def test_rows(self, tmp_path, caplog, rows, small):
        messages = warnings_of(texts(tmp_path, validation=rows), caplog)
        assert len(messages) == small
        for message in messages:
            assert f"{rows} rows" in message and "20" in message
            assert "validation_fraction" in message and "more rows" in message

    def test_fewer_rows_than_labels(self, tmp_path, caplog):
        splits = corpus(tmp_path, lambda i: [f"t{i}", f"l{i % 30}"], validation=25)
        (message,) = warnings_of(splits, caplog)
        assert "25 rows" in message and "30" in message

    def test_utterances_with_a_label_count(self, tmp_path, caplog):
        for split, labelled in (("train", 60), ("validation", 15)):
            rows = [[f"d{i // 10}", f"u{i}", one_of_two(i) if i < labelled else ""] for i in range(60)]
            write_csv(tmp_path / f"{split}.csv", COLUMNS["dialogue_files"], rows)
        (message,) = warnings_of(load_dataset_for("dialogue_files", tmp_path), caplog)
        assert "15 rows" in message

    def test_replies_and_conversations(self, tmp_path, caplog):
        splits = corpus(tmp_path, lambda i: [f"c{i}", "r", one_of_two(i)], "reply_files", validation=4)
        (message,) = warnings_of(splits, caplog)
        assert "4 rows" in message
        turns = mark(Dataset.from_dict({"id": ["a", "b"], "turns": [["x", "y"], ["z"]]}), "language-modeling")
        (message,) = warnings_of(DatasetDict(train=turns, validation=turns), caplog)
        assert "2 rows" in message


def hotels(folder: Path, *extra: list[str], aspects: int = 1, **options) -> DatasetDict:
    """Every text names one aspect of two, or both."""
    rows = [[f"{i // aspects}", ("room", "food")[i % 2], ("good", "bad")[i // 2 % 2]] for i in range(60)]
    return corpus(folder, [*extra, *rows].__getitem__, "aspect_files", **options)


class TestAspects:
    def test_no_row_says_that_an_aspect_is_not_named(self, tmp_path, caplog):
        (message,) = warnings_of(hotels(tmp_path), caplog)
        assert "60 of 120" in message and "dataset_options.fill_none=true" in message
        # The label none without a row does not help.
        messages = warnings_of(hotels(tmp_path, labels=["good", "bad", "none"]), caplog)
        assert any("fill_none=true" in message for message in messages)

    @pytest.mark.parametrize("name", ["none", "None", " NONE"])
    def test_rows_of_none(self, tmp_path, caplog, name):
        assert warnings_of(hotels(tmp_path, ["x", "food", name]), caplog) == []

    def test_filled_or_complete(self, tmp_path, caplog):
        for more in ({"fill_none": True}, {"aspects": 2}):
            assert warnings_of(hotels(tmp_path, **more), caplog) == []
        splits = load_dataset_for("sentihood", write_sentihood(tmp_path))
        assert not any("fill_none" in message for message in warnings_of(splits, caplog))


def part(rows: int = 20, **columns) -> Dataset:
    return Dataset.from_dict({"text": [f"text {row // 2}" for row in range(rows)], **columns})


def names(rows: int = 20) -> list[str]:
    return [one_of_two(row) for row in range(rows)]


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
    rows = part(3, labels=[["joy", "fear"], [], ["fear"]])
    splits = complete(DatasetDict(train=rows, validation=rows))
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
    assert caplog.messages == ["no validation part: 4 training rows set aside for validation"]


@pytest.mark.parametrize(
    ("splits", "message"),
    [
        ({"train": part()}, r"'train' of `splits` lacks the columns \['labels'\]"),
        (
            {"train": part(1, utterances=[["a"]], speakers=[["b"]], labels=[["joy"]]), "test": part(labels=names())},
            r"'test' of `splits` lacks the columns \['speakers', 'utterances'\]",
        ),
        ({"train": part(labels=names()), "dev": part(labels=names())}, r"parts \['dev'\]: name its parts train, val"),
        ({"train": part(labels=names()), "test": part(1, labels=["awe"])}, r"no training row has the labels \['awe'"),
        ({"train": part(2, labels=["joy", None])}, r"`labels` is empty in some rows of the parts \['train'\]"),
    ],
)
def test_what_is_missing_is_named(splits, message):
    with pytest.raises(ValueError, match=message):
        complete(DatasetDict(splits))
