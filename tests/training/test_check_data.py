# SPDX-License-Identifier: Apache-2.0
"""What is said of a corpus before the training: nothing to learn, labels without rows, aspects without "none", a small validation part."""

import logging
from pathlib import Path

import pytest
from datasets import Dataset, DatasetDict
from toolkit_helpers import feelings_rows, write_csv, write_sentihood

from hf_emotion import load_dataset_for
from hf_emotion.tasks import task_of_rows
from hf_emotion.training.check_data import check_data


def warnings_of(splits: DatasetDict, caplog) -> list[str]:
    caplog.clear()
    with caplog.at_level(logging.WARNING, logger="hf_emotion"):
        check_data(task_of_rows(splits["train"]), splits)
    return [record.getMessage() for record in caplog.records]


def texts(folder: Path, train: int = 60, validation: int = 21, **options) -> DatasetDict:
    for split, rows in (("train", train), ("validation", validation)):
        write_csv(folder / f"{split}.csv", ["text", "label"], feelings_rows(rows, multi_label=False))
    return load_dataset_for("files", folder, **options)


class TestLabels:
    def test_nothing_to_say(self, tmp_path, caplog):
        assert warnings_of(texts(tmp_path), caplog) == []
        assert warnings_of(texts(tmp_path, label_separator="|"), caplog) == []
        assert warnings_of(load_dataset_for("quickstart"), caplog) == []

    @pytest.mark.parametrize("separator", [None, "|"])
    def test_labels_without_a_training_row(self, tmp_path, caplog, separator):
        labels = ["anger", "pride", "joy", "neutral", "grief"]
        (message,) = warnings_of(texts(tmp_path, labels=labels, label_separator=separator), caplog)
        assert "['pride', 'grief']" in message and "joy" not in message and "`labels`" in message

    @pytest.mark.parametrize(
        ("kind", "header", "row"),
        [
            ("files", ["text", "label"], ["so {}", "joy"]),
            ("dialogue_files", ["dialogue", "utterance", "label"], ["{}", "so {}", "joy"]),
        ],
    )
    def test_rows_of_one_label(self, tmp_path, kind, header, row):
        rows = [[cell.format(i) for cell in row] for i in range(60)]
        for split in ("train", "validation"):
            write_csv(tmp_path / f"{split}.csv", header, rows)
        for options in ({}, {"labels": ["anger", "joy"]}):
            splits = load_dataset_for(kind, tmp_path, **options)
            with pytest.raises(
                ValueError, match=r"at least two labels, and every training row has the labels \['joy'\]"
            ):
                check_data(task_of_rows(splits["train"]), splits)

    def test_the_same_labels_in_every_row(self, tmp_path):
        for split in ("train", "validation"):
            write_csv(tmp_path / f"{split}.csv", ["text", "label"], [[f"t{i}", "joy|fear"] for i in range(30)])
        splits = load_dataset_for("files", tmp_path, label_separator="|")
        with pytest.raises(ValueError, match=r"every training row has the labels \['fear', 'joy'\]"):
            check_data(task_of_rows(splits["train"]), splits)

    @pytest.mark.filterwarnings("error")
    def test_values_that_are_all_the_same(self, tmp_path):
        for part in ("train", "dev"):
            rows = [["a", "1", "2", ""], ["b", "3", "2", ""], ["c", "", "", "4" if part == "dev" else ""]]
            write_csv(tmp_path / f"{part}.csv", ["text", "joy", "anger", "fear"], rows[: 2 if part == "train" else 3])
        splits = load_dataset_for("files", tmp_path, targets=["joy", "anger", "fear"])
        with pytest.raises(ValueError, match=r"one and the same value, or none, for \['anger', 'fear'\]"):
            check_data(task_of_rows(splits["train"]), splits)

    def test_a_generator_may_know_one_emotion(self, tmp_path, caplog):
        rows = [[f"c{i}", "r", "joy"] for i in range(60)]
        for split in ("train", "validation"):
            write_csv(tmp_path / f"{split}.csv", ["context", "reply", "emotion"], rows)
        splits = load_dataset_for("reply_files", tmp_path)
        assert warnings_of(splits, caplog) == []


class TestValidationPart:
    @pytest.mark.parametrize(("rows", "small"), [(3, True), (19, True), (20, False)])
    def test_rows(self, tmp_path, caplog, rows, small):
        messages = warnings_of(texts(tmp_path, validation=rows), caplog)
        assert len(messages) == small
        for message in messages:
            assert f"{rows} rows" in message and "20" in message
            assert "validation_fraction" in message and "more rows" in message

    def test_fewer_rows_than_labels(self, tmp_path, caplog):
        for split, rows in (("train", 60), ("validation", 25)):
            write_csv(tmp_path / f"{split}.csv", ["text", "label"], [[f"t{i}", f"l{i % 30}"] for i in range(rows)])
        (message,) = warnings_of(load_dataset_for("files", tmp_path), caplog)
        assert "25 rows" in message and "30" in message

    def test_utterances_with_a_label_count(self, tmp_path, caplog):
        for split, labelled in (("train", 60), ("validation", 15)):
            rows = [[f"d{i // 10}", f"u{i}", ("joy", "fear")[i % 2] if i < labelled else ""] for i in range(60)]
            write_csv(tmp_path / f"{split}.csv", ["dialogue", "utterance", "label"], rows)
        (message,) = warnings_of(load_dataset_for("dialogue_files", tmp_path), caplog)
        assert "15 rows" in message

    def test_replies_and_conversations(self, tmp_path, caplog):
        for split, rows in (("train", 60), ("validation", 4)):
            values = [[f"c{i}", "r", ("joy", "fear")[i % 2]] for i in range(rows)]
            write_csv(tmp_path / f"{split}.csv", ["context", "reply", "emotion"], values)
        (message,) = warnings_of(load_dataset_for("reply_files", tmp_path), caplog)
        assert "4 rows" in message
        turns = Dataset.from_dict({"id": ["a", "b"], "turns": [["x", "y"], ["z"]]})
        (message,) = warnings_of(DatasetDict(train=turns, validation=turns), caplog)
        assert "2 rows" in message


HOTELS = ["text", "aspect", "label"]


def hotels(folder: Path, *extra: list[str], **options) -> DatasetDict:
    """Every text names one aspect of two."""
    for split, rows in (("train", 60), ("validation", 30)):
        values = [[f"{split} {i}", ("room", "food")[i % 2], ("good", "bad")[i // 2 % 2]] for i in range(rows)]
        write_csv(folder / f"{split}.csv", HOTELS, [*values, *extra])
    return load_dataset_for("aspect_files", folder, **options)


class TestAspects:
    def test_no_row_says_that_an_aspect_is_not_named(self, tmp_path, caplog):
        (message,) = warnings_of(hotels(tmp_path), caplog)
        assert "60 of 120" in message and "dataset_options.fill_none=true" in message

    def test_the_label_none_without_a_row_does_not_help(self, tmp_path, caplog):
        messages = warnings_of(hotels(tmp_path, labels=["good", "bad", "none"]), caplog)
        assert any("fill_none=true" in message for message in messages)

    @pytest.mark.parametrize("name", ["none", "None", " NONE"])
    def test_rows_of_none(self, tmp_path, caplog, name):
        assert warnings_of(hotels(tmp_path, ["x", "food", name]), caplog) == []

    def test_filled_or_complete(self, tmp_path, caplog):
        assert warnings_of(hotels(tmp_path, fill_none=True), caplog) == []
        for split in ("train", "validation"):  # an opinion on every aspect of every text
            rows = [[f"{split} {i // 2}", ("room", "food")[i % 2], ("good", "bad")[i // 2 % 2]] for i in range(60)]
            write_csv(tmp_path / f"{split}.csv", HOTELS, rows)
        assert warnings_of(load_dataset_for("aspect_files", tmp_path), caplog) == []

    def test_published_corpora(self, tmp_path, caplog):
        splits = load_dataset_for("sentihood", write_sentihood(tmp_path))
        assert not any("fill_none" in message for message in warnings_of(splits, caplog))

    def test_targets_are_counted_by_themselves(self, tmp_path, caplog):
        """A text that names two targets has a row for each aspect of both."""
        header = ["text", "target", "aspect", "label"]
        for split in ("train", "validation"):
            rows = [
                [f"{split} {i}", target, aspect, ("good", "bad")[i % 2]]
                for i in range(20)
                for target in ("inn", "bar")[: 1 + i % 2]
                for aspect in ("room", "food")
            ]
            write_csv(tmp_path / f"{split}.csv", header, rows)
        splits = load_dataset_for("aspect_files", tmp_path, target_column="target")
        assert warnings_of(splits, caplog) == []
        splits["train"] = splits["train"].select(range(1, len(splits["train"])))
        (message,) = warnings_of(splits, caplog)
        assert "1 of 60" in message

    def test_a_target_and_aspect_without_a_training_row(self, tmp_path, caplog):
        header = ["text", "target", "aspect", "label"]
        pairs = [("inn", "room"), ("inn", "food"), ("bar", "food")]
        for split in ("train", "validation"):
            rows = [[f"{split} {i}", *pairs[i % 3], ("good", "bad", "none")[i // 3 % 3]] for i in range(60)]
            write_csv(tmp_path / f"{split}.csv", header, rows)
        splits = load_dataset_for("aspect_files", tmp_path, target_column="target")
        (message,) = warnings_of(splits, caplog)
        assert "bar - room" in message and "inn" not in message
