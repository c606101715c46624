# SPDX-License-Identifier: Apache-2.0
"""One's own files of texts whose columns hold something else, and those that are right as they are."""

import pytest
from datasets import DatasetDict
from model_cases import BY_ID, LABEL_NAMES
from toolkit_helpers import write_csv

from hf_emotion import Predictor, load_dataset_for
from hf_emotion.data.splits import label_names
from hf_emotion.serving.bulk import predict_file
from hf_emotion.tasks.loading import load_split


pytest_plugins = ["toolkit_fixtures"]


def files_with(folder, rows: list[list[str]], header=("text", "label"), **options) -> DatasetDict:
    return load_dataset_for("files", write_csv(folder / "train.csv", list(header), rows), **options)


TWO_LABELS = [["a day", "joy"], ["home", "anger"], ["the sun", "joy|anger"]] * 4


LISTS = [["a day", "['joy']"], ["home", "['anger']"], ["the sun", "['joy' 'anger']"]] * 4  # as pandas writes lists


NUMBERS = [[("happy", "sad")[i % 2], f"{i / 7}"] for i in range(40)]  # swapped columns, or a regression's


PUNCTUATION = [["a day", "n/a, other"], ["home", "anger"], ["the sun", "fear/terror"]] * 4


COLUMNS = [["happy", "joy", "1", "0"], ["sad", "anger", "0", "1"]] * 4


def test_columns_that_hold_something_else(tmp_path):
    for rows, columns, options, message in (
        (TWO_LABELS, (), {}, r"'joy\|anger'.*label_separator.*labels"),
        (TWO_LABELS, (), {"label_separator": ","}, r"'joy\|anger'.*label_separator.*labels"),
        (LISTS, (), {"label_separator": ","}, "label_separator"),
        ([["a day", "joy"], ["the sun", "{'joy': 1}"]] * 4, (), {}, "{'joy': 1}.*label_separator"),
        (NUMBERS, (), {}, "'label'.*40 different labels in 40 rows.*label_column"),
        (TWO_LABELS, (), {"text_column": "label"}, "`text_column` and `label_column`.*'label'"),
        (COLUMNS, ("joy", "anger"), {"labels": ["joy", "joy"]}, "`labels`.*different names"),
        (COLUMNS, ("joy", "anger"), {"label_columns": ["joy", "joy"]}, "`label_columns`.*different names"),
    ):
        with pytest.raises(ValueError, match=message):
            files_with(tmp_path, rows, ("text", "label", *columns), **options)


def test_labels_that_are_right(tmp_path):
    many = [[f"the day of {i}", f"emotion {i % 30}"] for i in range(90)]
    for rows, options, names in (
        (TWO_LABELS, {"labels": ["joy", "anger", "joy|anger"]}, ["joy", "anger", "joy|anger"]),  # on one's word
        (PUNCTUATION, {}, ["anger", "fear/terror", "n/a, other"]),
        (many, {}, sorted(f"emotion {i}" for i in range(30))),
    ):
        assert label_names(files_with(tmp_path, rows, **options)["train"]) == names


@pytest.fixture
def predictor(tokenizer) -> Predictor:
    model = BY_ID["label-aware"].build(**LABEL_NAMES, problem_type="single_label_classification")
    return Predictor(model, tokenizer)


def test_the_header_once_more(tmp_path, predictor):
    rows = [["happy", "joy"], ["text", "label"], ["sad", "grief"]] * 4  # cat a.csv b.csv
    skipped = files_with(tmp_path, rows, on_bad_rows="skip", validation_fraction=0)
    assert label_names(skipped["train"]) == ["grief", "joy"]
    marked = [["\ufefftext" if text == "text" else text, label] for text, label in rows]  # of b.csv
    for call in (
        lambda: files_with(tmp_path, rows),
        lambda: predict_file(predictor, tmp_path / "train.csv", tmp_path / "out.csv"),
        lambda: files_with(tmp_path, marked),  # a row with the label "label"
    ):
        with pytest.raises(ValueError, match="line 3.*header"):
            call()


def test_one_file_has_no_parts(tmp_path, caplog):
    path = write_csv(tmp_path / "mine.csv", ["text", "label"], [["happy", "joy"], ["sad", "grief"]] * 4)
    assert len(load_split("files", "test", path)) == 8 and not caplog.records
    assert len(load_split("files", "validation", path)) == 8
    assert all(word in caplog.text for word in ("mine.csv", "whole", "validation"))


def test_characters_of_windows(single_run, tmp_path, caplog):
    predictor = Predictor(single_run, device="cpu")
    wrong, right = "that\x92s so happy\x85", "that\u2019s so happy\u2026"
    assert predictor([wrong]) == predictor([right])
    texts = files_with(tmp_path, [[wrong, "joy"], ["home\x81", "joy"], ["the sun", "anger"]] * 2)["train"]["text"]
    assert right in texts and "home\x81" in texts
    for said in ("1 of 1 texts hold control characters", "train.csv: 2 of 6 texts hold control characters"):
        assert said in caplog.text
