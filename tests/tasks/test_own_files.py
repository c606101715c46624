# SPDX-License-Identifier: Apache-2.0
"""One's own files of every kind: labels, validation parts, formats, and what is wrong with them. Each task tests what it adds."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from datasets import Dataset, DatasetDict
from toolkit_helpers import write_rows

from hf_emotion import load_dataset_for
from hf_emotion.data.splits import label_names


@dataclass(frozen=True)
class Kind:
    dataset: str
    columns: dict[str, str]  # what stands in a row's columns; the first one names its group, "{}" is the row's number
    label: str = "label"
    unit: str = "rows"  # what is drawn for validation; equal groups stay together, but for texts alone
    options: dict[str, Any] = field(default_factory=dict)

    def row(self, number: int, label: Any, group: int | None = None) -> dict[str, Any]:
        values = {name: value.format(number) for name, value in self.columns.items()}
        first = next(iter(self.columns))
        return {**values, first: self.columns[first].format(number if group is None else group), self.label: label}

    def load(self, path: Path | None, **options) -> DatasetDict:
        return load_dataset_for(self.dataset, path, **self.options, **options)

    def names(self, dataset: Dataset) -> list[str]:
        return dataset.features["labels"].feature.names if self.unit == "dialogues" else label_names(dataset)

    def labels(self, dataset: Dataset) -> list[str]:
        values = dataset["labels"][:]
        ids = [i for row in values for i in row] if isinstance(values[0], list) else values
        return [self.names(dataset)[i] for i in ids]

    def groups(self, dataset: Dataset) -> list[str]:
        return dataset["id" if self.unit == "dialogues" else next(iter(self.columns))][:]


ASPECTS = {"text": "text {}", "target": "phone", "aspect": "screen"}
DIALOGUES = {"dialogue": "d{}", "speaker": "Ann", "utterance": "said {}"}
KINDS = {
    "texts": Kind("files", {"text": "text {}"}),
    "texts-of-several-labels": Kind("files", {"text": "text {}"}, options={"label_separator": "|"}),
    "aspects": Kind("aspect_files", ASPECTS, options={"target_column": "target"}),
    "dialogues": Kind("dialogue_files", DIALOGUES, unit="dialogues"),
    "replies": Kind("reply_files", {"context": "context {}", "reply": "reply {}"}, "emotion"),
}
pytestmark = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
TWO = ["joy", "anger", "joy"]
ALIKE = [("Joy", "joy"), ("not joy", "not  joy"), ("\u2764", "\u2764\ufe0f"), ("a", "\uff41")]
FILES = [("csv", ","), ("csv", ";"), ("tsv", "\t"), ("tsv.gz", "|"), ("jsonl.gz", ""), ("jsonl", ""), ("parquet", "")]


def parts(kind: Kind, folder: Path, ending: str = "jsonl", separator: str = ",", **labels: list) -> Path:
    """Files {train,dev,test}; those whose labels are not given have `TWO`."""
    for number, name in enumerate(("train", "dev", "test")):
        rows = [kind.row(10 * number + i, label) for i, label in enumerate(labels.get(name, TWO))]
        write_rows(folder / f"{name}.{ending}", rows, separator)
    return folder


class TestLabels:
    @pytest.mark.parametrize(("ending", "separator"), FILES)
    def test_formats(self, kind, ending, separator, tmp_path):
        splits = kind.load(parts(kind, tmp_path, ending, separator))
        assert list(splits) == ["train", "validation", "test"]
        for number, dataset in enumerate(splits.values()):
            assert kind.names(dataset) == ["anger", "joy"] and kind.labels(dataset) == TWO
            column = next(iter(kind.columns.values()))
            assert kind.groups(dataset) == [column.format(10 * number + i) for i in range(3)]
        ids = [row_id for dataset in splits.values() for row_id in dataset["id"]]
        assert len(set(ids)) == len(ids)

    @pytest.mark.parametrize("split", ["dev", "test"])
    @pytest.mark.parametrize("label", ["Joy", "zeal"])
    def test_a_label_that_no_training_row_has(self, kind, split, label, tmp_path, caplog):
        path = parts(kind, tmp_path, **{split: ["joy", label]}) / f"{split}.jsonl"
        message = rf"{re.escape(str(path))}, line 2: unknown label '{label}': no training row has it.*`labels`"
        with pytest.raises(ValueError, match=message):
            kind.load(tmp_path)
        part = "validation" if split == "dev" else split
        given = kind.load(tmp_path, labels=["joy", "anger", label])[part]
        assert kind.names(given) == ["joy", "anger", label] and kind.labels(given) == ["joy", label]
        caplog.clear()
        skipped = kind.load(tmp_path, on_bad_rows="skip")[part]
        assert kind.names(skipped) == ["anger", "joy"] and kind.labels(skipped) == ["joy"]
        assert "1 bad rows skipped" in caplog.text and f"{split}.jsonl, line 2: unknown label" in caplog.text

    @pytest.mark.parametrize(("first", "second"), ALIKE)
    def test_labels_that_look_alike(self, kind, first, second, tmp_path, caplog):
        parts(kind, tmp_path, train=[first, second, "anger"], dev=[first], test=[first])
        assert len(kind.names(kind.load(tmp_path)["train"])) == 3
        (message,) = (record.getMessage() for record in caplog.records)
        assert all(ascii(name) in message for name in (first, second)) and "anger" not in message
        caplog.clear()
        kind.load(tmp_path, labels=[first, second, "anger"])
        assert not caplog.records

    def test_a_name_in_two_forms_is_one(self, kind, tmp_path):
        composed, decomposed = "caf\xe9", "cafe\u0301"
        parts(kind, tmp_path, train=[composed, decomposed, "anger"], dev=[decomposed], test=[composed])
        for given in ({}, {"labels": ["anger", f" {decomposed}"]}):
            splits = kind.load(tmp_path, **given)
            assert [kind.names(dataset) for dataset in splits.values()] == [["anger", composed]] * 3
            assert kind.labels(splits["train"]) == [composed, composed, "anger"]
            assert kind.labels(splits["validation"]) == kind.labels(splits["test"]) == [composed]

    def test_whole_numbers_are_names(self, kind, tmp_path):
        """Also in columns with gaps: such a column holds 1.0 for 1, in one file and not in another."""
        parts(kind, tmp_path, **dict.fromkeys(("train", "dev", "test"), [9, 10]))
        assert kind.names(kind.load(tmp_path)["train"]) == ["10", "9"]
        for part, values in (("train", [1.0, 2.0, None]), ("dev", [1, 2]), ("test", [2, 1])):
            rows = [kind.row(number, value) for number, value in enumerate(values)]
            named = {"aspect", "target", "speaker"} & rows[0].keys()
            (tmp_path / f"{part}.jsonl").unlink()
            write_rows(tmp_path / f"{part}.parquet", [row | dict.fromkeys(named, row[kind.label]) for row in rows])
        splits = kind.load(tmp_path, on_bad_rows="skip")
        for part, labels in (("train", ["1", "2"]), ("validation", ["1", "2"]), ("test", ["2", "1"])):
            dataset = splits[part]
            assert kind.names(dataset) == ["1", "2"] and kind.labels(dataset)[:2] == labels
            for name in named - {"speaker"}:
                assert dataset.features[name].names == ["1", "2"]
            assert "speaker" not in named or dataset["speakers"][:2] == [[label] for label in labels]

    @pytest.mark.parametrize("value", [1.5, float("inf"), True])
    def test_what_is_no_name(self, kind, value, tmp_path):
        column = "aspect" if "aspect" in kind.columns else kind.label
        if kind.dataset == "files" and column == "label":
            pytest.skip("any value is a label of a text")
        for part in ("train", "dev", "test"):
            write_rows(
                tmp_path / f"{part}.parquet", [kind.row(number, "joy") | {column: value} for number in range(2)]
            )
        with pytest.raises(ValueError, match=f"'{column}' must hold one name or number, got {value!r}"):
            kind.load(tmp_path)


class TestValidationPart:
    @pytest.mark.parametrize("drawn", range(2))
    def test_what_alone_has_a_label_stays_in_training(self, kind, drawn, tmp_path):
        labels = [TWO[i % 2] for i in range(40)]
        path = write_rows(tmp_path / "mine.jsonl", [kind.row(i, label) for i, label in enumerate(labels)])
        groups = kind.groups(kind.load(path)["validation"])
        assert len(groups) == 4
        number = int(re.search(r"\d+", groups[drawn])[0])
        write_rows(path, [kind.row(i, "fear" if i == number else label) for i, label in enumerate(labels)])
        splits = kind.load(path)
        assert "fear" in kind.labels(splits["train"]) and len(splits["validation"]) == 4
        assert {*groups} - {groups[drawn]} < {*kind.groups(splits["validation"])}  # the rest of the draw is as it was

    def test_a_validation_part_of_whole_groups(self, kind, tmp_path, caplog):
        rows = [kind.row(i, TWO[i % 2], group=i % 30) for i in range(60)]
        path = write_rows(tmp_path / "mine.jsonl", rows)
        splits = kind.load(path, validation_fraction=0.2)
        train, validation = (kind.groups(splits[split]) for split in ("train", "validation"))
        size = 6 if kind.unit == "dialogues" else 12
        assert len(validation) == size and f"{size} training {kind.unit} set aside" in caplog.text
        if set(kind.columns) != {"text"}:
            assert not {*train} & {*validation} and len({*validation}) == 6
            for dataset in splits.values():  # the rows are in the order of the file
                numbers = [int(re.search(r"\d+", row_id)[0]) for row_id in dataset["id"]]
                assert numbers == sorted(numbers)
        assert len({*train, *validation}) == 30
        assert kind.load(path, validation_fraction=0.2)["validation"]["id"][:] == splits["validation"]["id"][:]
        numbers = {int(re.search(r"\d+", group)[0]) for group in validation}
        assert numbers not in ({*range(6)}, {*range(24, 30)}), "drawn, not cut off"

    @pytest.mark.parametrize("fraction", [1, -0.5, 0.99, float("nan")])
    def test_validation_parts_that_leave_nothing(self, kind, fraction, tmp_path):
        path = write_rows(tmp_path / "mine.jsonl", [kind.row(i, label) for i, label in enumerate(TWO)])
        with pytest.raises(ValueError, match=f"`validation_fraction` must leave .*got {fraction} of 3"):
            kind.load(path, validation_fraction=fraction)
        with pytest.raises(ValueError, match="`validation_fraction` must leave .*got 0.1 of 1"):
            kind.load(write_rows(path, [kind.row(0, "joy")]))


class TestMistakes:
    @pytest.mark.parametrize("split", ["train", "dev", "test"])
    def test_nothing_valid(self, kind, split, tmp_path):
        parts(kind, tmp_path, **{split: ["zeal"]})
        with pytest.raises(ValueError, match=f"{split}.jsonl has no valid rows") as caught:
            kind.load(tmp_path, labels=["joy", "anger"], on_bad_rows="skip")
        assert kind.dataset != "files" or "line 1: unknown label 'zeal'" in str(caught.value)

    def test_columns_and_separators_that_are_not_there(self, kind, tmp_path):
        parts(kind, tmp_path, "csv")
        for column in (*kind.columns, "label"):
            with pytest.raises(ValueError, match=r"no column 'nix'; the columns are \["):
                load_dataset_for(kind.dataset, tmp_path, **{**kind.options, f"{column}_column": "nix"})
        with pytest.raises(ValueError, match="`separator` must be one character.*'::'"):
            kind.load(tmp_path, separator="::")
        parts(kind, tmp_path, "csv", "^", train=["joy", "an,ger", "joy"])
        with pytest.raises(ValueError, match="no column.*the separator of a CSV with separator"):
            kind.load(tmp_path)
        parts(kind, tmp_path, "csv", "^")
        assert kind.labels(kind.load(tmp_path, separator="^")["train"]) == TWO

    def test_wrong_arguments(self, kind, tmp_path, monkeypatch):
        monkeypatch.setenv("HF_EMOTION_DATA", str(parts(kind, tmp_path)))  # which is not one's own folder
        with pytest.raises(ValueError, match="`data_dir` must name a folder"):
            kind.load(None)
        with pytest.raises(ValueError, match="`labels` must be a list of names, got the string 'joy'"):
            kind.load(tmp_path, labels="joy")
        with pytest.raises(FileNotFoundError, match="`data_dir` does not exist: .*nowhere"):
            kind.load(tmp_path / "nowhere")
        (tmp_path / "train.jsonl").unlink()
        with pytest.raises(FileNotFoundError, match="no training file in"):
            kind.load(tmp_path)
