# SPDX-License-Identifier: Apache-2.0
"""Loaders: GoEmotions, one's own files, the corpora that come with the package, the six emotions, and what is oversampled."""

import collections
import itertools
import re
import unicodedata
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pyarrow.parquet
import pytest
from datasets import ClassLabel, Dataset, DatasetDict, Features, Value
from toolkit_helpers import feelings_rows, write_csv, write_jsonl, write_meld, write_xlsx

from hf_emotion import load_dataset_for
from hf_emotion.data.files import columns_of, read_rows
from hf_emotion.data.rows import packaged_rows
from hf_emotion.data.splits import label_names
from hf_emotion.tasks import corpus_of
from hf_emotion.tasks.emotion_classification import TASK
from hf_emotion.tasks.rows import duplicates_between_splits, gold_of, oversample_minorities, remove_duplicates
from hf_emotion.taxonomies import EKMAN, GOEMOTIONS, TAXONOMIES, group_index


EMOTIONS = ["sadness", "joy", "love", "anger", "fear", "surprise"]
COUNTS = {"sadness": 7, "joy": 11, "love": 3, "anger": 4, "fear": 1, "surprise": 2}
JOY = ["joy", "anger"]
ROWS = [["x is fine", "joy"], ["y is not", "anger"], ["z", "joy"]]


def goemotions_folder(root: Path, **splits: str) -> Path:
    """A data folder with GoEmotions files; splits that are not given hold one row."""
    (root / "goemotions").mkdir(parents=True, exist_ok=True)
    for name in ("train", "dev", "test"):
        (root / "goemotions" / f"{name}.tsv").write_bytes(splits.get(name, "fine\t27\tid1\n").encode("utf-8"))
    return root


def named(dataset: Dataset) -> list[list[str]]:
    names = label_names(dataset)
    return [[names[i] for i in (row if isinstance(row, list) else [row])] for row in dataset["labels"]]


class TestTaxonomies:
    def test_every_one_of_the_28_labels_stands_in_one_group(self):
        assert len(GOEMOTIONS) == 28 and GOEMOTIONS[:3] == ["admiration", "amusement", "anger"]
        assert GOEMOTIONS[-2:] == ["surprise", "neutral"] and GOEMOTIONS[:-1] == sorted(GOEMOTIONS[:-1])
        groups = {name: list(TAXONOMIES[name]) for name in ("ekman", "sentiment")}
        assert groups["ekman"] == ["anger", "disgust", "fear", "joy", "sadness", "surprise", "neutral"]
        assert groups["sentiment"] == ["positive", "negative", "ambiguous", "neutral"]
        for taxonomy in groups:
            members = [label for group in TAXONOMIES[taxonomy].values() for label in group]
            assert sorted(members) == sorted(GOEMOTIONS) and TAXONOMIES[taxonomy]["neutral"] == ["neutral"]

    def test_positions_follow_the_order_of_the_labels_at_hand(self):
        backwards = list(reversed(GOEMOTIONS))
        groups = group_index("ekman", backwards)
        assert {backwards[i] for i in groups["sadness"]} == set(EKMAN["sadness"])
        with pytest.raises(ValueError, match="taxonomy 'ekman' groups the 28 GoEmotions labels.*'rage'"):
            group_index("ekman", ["rage" if label == "anger" else label for label in GOEMOTIONS])


class TestGoEmotionsFiles:
    def test_columns_and_labels(self, tmp_path):
        folder = goemotions_folder(tmp_path, train="so glad\t17,0\tab1\nwell\t27\tab2\n", dev="x\t2\td1\n")
        splits = load_dataset_for("goemotions", folder)
        assert list(splits) == ["train", "validation", "test"]
        train = splits["train"]
        assert train.column_names == ["id", "text", "labels"]
        assert train["id"][:] == ["ab1", "ab2"]
        assert train["labels"][:] == [[0, 17], [27]]  # sorted
        assert label_names(train) == GOEMOTIONS and named(train) == [["admiration", "joy"], ["neutral"]]
        assert named(splits["validation"]) == [["anger"]]
        matrix = gold_of(train).values
        assert matrix.dtype == np.int8 and matrix.shape == (2, 28)
        assert [np.flatnonzero(row).tolist() for row in matrix] == train["labels"][:] and matrix.max() == 1

    def test_text_is_left_as_it_is(self, tmp_path):
        lines = "one\u2028two\u2029three\x85four\x0bfive\x0csix\x1cseven\rnine"  # only a newline ends a row
        # One quote alone swallows rows wherever quoting is on.
        texts = ['He said "no', '"quoted" text', "  spaces  kept ", "None", "\N{RIGHT DOUBLE QUOTATION MARK}\N{FIRE}"]
        texts += [lines, "that\x92s", "cafe\u0301"]
        rows = "".join(f"{text}\t{i}\tid{i}\n" for i, text in enumerate(texts))
        found = load_dataset_for("goemotions", goemotions_folder(tmp_path, train=rows))["train"]["text"][:]
        # But control characters are read as those of Windows-1252.
        lines = lines.replace("\x85", "\N{HORIZONTAL ELLIPSIS}")
        assert found == [*texts[:5], lines, "that\N{RIGHT SINGLE QUOTATION MARK}s", "caf\xe9"]

    @pytest.mark.parametrize("content", ["one\t1\ta\ntwo\t2\tb", "one\t1\ta\r\ntwo\t2\tb\r\n"])
    def test_line_ends(self, tmp_path, content):
        train = load_dataset_for("goemotions", goemotions_folder(tmp_path, train=content))["train"]
        assert train["text"][:] == ["one", "two"] and train["id"][:] == ["a", "b"]

    @pytest.mark.parametrize("taxonomy", ["ekman", "sentiment"])
    def test_groups(self, tmp_path, taxonomy):
        # One row per label, then all labels at once, then two of one group.
        lines = [f"t{i}\t{i}\tx{i}" for i in range(28)] + [f"all\t{','.join(map(str, range(28)))}\ty", "two\t2,3\tz"]
        folder = goemotions_folder(tmp_path, train="\n".join(lines) + "\n")
        train = load_dataset_for("goemotions", folder, taxonomy=taxonomy)["train"]
        groups = TAXONOMIES[taxonomy]
        assert label_names(train) == list(groups)
        rows = named(train)
        for label, row in zip(GOEMOTIONS, rows[:28], strict=True):
            assert row == [group for group, members in groups.items() if label in members]
        assert rows[28] == list(groups)  # each group once
        assert rows[29] == (["anger"] if taxonomy == "ekman" else ["negative"])


class TestRegistry:
    def test_the_environment_variable(self, tmp_path, monkeypatch):
        monkeypatch.setenv("HF_EMOTION_DATA", str(goemotions_folder(tmp_path / "a", train="from a\t1\tx\n")))
        assert load_dataset_for("goemotions")["train"]["text"][:] == ["from a"]
        other = goemotions_folder(tmp_path / "b", train="from b\t1\tx\n")
        assert load_dataset_for("goemotions", other)["train"]["text"][:] == ["from b"]  # the argument wins
        monkeypatch.setenv("HF_EMOTION_DATA", str(tmp_path / "nowhere"))
        with pytest.raises(FileNotFoundError, match="nowhere"):
            load_dataset_for("goemotions")
        assert len(load_dataset_for("quickstart")["train"]) > 0  # comes with the package

    def test_without_folder_the_hub_is_asked(self, monkeypatch):
        monkeypatch.delenv("HF_EMOTION_DATA", raising=False)
        row = {"text": "cafe\u0301 ", "labels": [27, 2], "id": "hub1"}
        parts = {split: Dataset.from_list([row]) for split in ("train", "validation", "test")}
        monkeypatch.setattr("datasets.load_dataset", asked := Mock(return_value=DatasetDict(parts)))
        splits = load_dataset_for("goemotions", taxonomy="ekman")
        asked.assert_called_once_with("google-research-datasets/go_emotions", "simplified")
        assert splits["train"][0] == {"id": "hub1", "text": "caf\xe9 ", "labels": [0, 6]}

    def test_a_corpus_that_the_hub_does_not_give_can_come_from_a_folder(self, monkeypatch):
        monkeypatch.delenv("HF_EMOTION_DATA", raising=False)
        monkeypatch.setattr("datasets.load_dataset", Mock(side_effect=ConnectionError("no way out")))
        for corpus, files in (
            ("goemotions", "`goemotions` with train.tsv, dev.tsv, test.tsv"),
            ("emotion6", "`emotion6` with train.txt, val.txt, test.txt"),
            ("tweet_emoji", "`tweeteval/emoji` with train_text.txt, train_labels.txt, val_text.txt"),
        ):
            with pytest.raises(OSError, match=f"no way out.*`data_dir`.*{re.escape(files)}"):
                load_dataset_for(corpus)


def test_duplicates(tmp_path, caplog):
    rows = lambda *texts: "".join(f"{text}\t{i}\t{i}\n" for i, text in enumerate(texts))  # noqa: E731
    parts = {"train": rows("a", "a", "a", "b", "c", "A"), "dev": rows("a", "d"), "test": rows("b", "d", "d", "e")}
    folder = goemotions_folder(tmp_path, **parts)
    report = {"repeated in train": 2, "repeated in validation": 0, "repeated in test": 1}
    report |= {"train & validation": 1, "train & test": 1, "validation & test": 1}
    assert duplicates_between_splits(TASK, load_dataset_for("goemotions", folder)) == report
    assert "train & validation: 1, train & test: 1, validation & test: 1 (dataset_options.dedupe=true" in caplog.text
    caplog.clear()
    splits = load_dataset_for("goemotions", folder, dedupe=True)
    assert splits["train"]["text"][:] == ["c", "A"] and splits["train"]["labels"][:] == [[4], [5]]
    assert splits["validation"]["text"][:] == ["a", "d"] and len(splits["test"]) == 4
    assert "validation & test: 1" in caplog.text and "train &" not in caplog.text
    alone = DatasetDict({"train": splits["validation"].select([0, 0])})  # without held-out parts
    assert remove_duplicates(TASK, alone)["train"]["text"][:] == ["a", "a"]


def load(folder: Path, **options) -> DatasetDict:
    return load_dataset_for("files", folder, **options)


def write_parts(folder: Path, rows: list[list[str]], header=("text", "label"), parts=("train", "dev", "test")) -> Path:
    for part in parts:
        write_csv(folder / f"{part}.csv", list(header), rows)
    return folder


class TestFormats:
    def test_csv(self, tmp_path):
        rows = [["first line\nsecond, line", "joy"], ['a "quoted" word', "None"], ["", ""], ["nan", "NA"]]
        path = write_csv(tmp_path / "train.csv", ["text", "label"], rows)
        read = list(read_rows(path))
        assert [row for _, row in read] == [{"text": text, "label": label} for text, label in rows]
        assert [line for line, _ in read] == [3, 4, 5, 6]  # a record counts at its last line

    def test_byte_order_mark(self, tmp_path):
        (tmp_path / "a.csv").write_bytes(b"\xef\xbb\xbftext,label\na,joy\n")
        (tmp_path / "a.jsonl").write_bytes(b'\xef\xbb\xbf{"text": "a", "label": "joy"}\n')
        for name, line in (("a.csv", 2), ("a.jsonl", 1)):
            assert list(read_rows(tmp_path / name)) == [(line, {"text": "a", "label": "joy"})]

    def test_nameless_columns_at_the_end(self, tmp_path):
        (tmp_path / "a.csv").write_text("text,x,, \na,1,,\nb,2\nc,3, ,d\n")
        rows = read_rows(tmp_path / "a.csv")
        assert [next(rows)[1], next(rows)[1]] == [{"text": "a", "x": "1"}, {"text": "b", "x": "2"}]
        assert columns_of(tmp_path / "a.csv") == ["text", "x"]
        with pytest.raises(ValueError, match="line 4: the header has 2 columns and the row has more"):
            next(rows)

    def test_unicode_line_separators_are_no_rows(self, tmp_path):
        rows = [{"text": "one\u2028two\x85three\x0cfour, five"}, {"text": "b\tc"}]
        values = [list(row.values()) for row in rows]
        write_csv(tmp_path / "a.csv", ["text"], values)
        write_csv(tmp_path / "a.tsv", ["text"], values, delimiter="\t")
        write_jsonl(tmp_path / "a.jsonl", rows)
        for name in ("a.csv", "a.tsv", "a.jsonl"):
            assert [row for _, row in read_rows(tmp_path / name)] == rows, name

    def test_jsonl(self, tmp_path):
        path = tmp_path / "train.jsonl"
        path.write_text('{"text": "a\\nb", "n": 1}\r\n\n{"text": "c", "n": null}', encoding="utf-8")
        assert list(read_rows(path)) == [(1, {"text": "a\nb", "n": 1}), (3, {"text": "c", "n": None})]

    def test_parquet(self, tmp_path):
        table = pyarrow.table({"text": [f"t{i}" for i in range(5000)], "label": [["joy"]] * 5000})
        pyarrow.parquet.write_table(table, tmp_path / "train.parquet")
        rows = list(read_rows(tmp_path / "train.parquet"))
        assert [number for number, _ in rows] == list(range(1, 5001))
        assert rows[4999][1] == {"text": "t4999", "label": ["joy"]}

    def test_malformed_files_name_file_and_line(self, tmp_path):
        for name, content, message in (
            ("a.csv", "text,label\nx,joy\ny,joy,more\n", "line 3: the header has 2 columns and the row has more"),
            ("a.csv", "text,label\nx,joy\ny\n", "line 3: the header has 2 columns and the row has fewer"),
            ("a.csv", 'text,label\nx,joy\n"y" z,joy\n', "line 3: malformed CSV"),
            ("a.csv", 'text,label\nx,joy\n"y,joy\n', "line 3: malformed CSV"),
            ("a.jsonl", '{"text": "x"}\n{"text": x}\n', "line 2: no valid JSON"),
            ("a.jsonl", '{"text": "x"}\n{"text": "y", "text": "z"}\n', "line 2: no valid JSON: a key occurs more"),
            ("a.jsonl", '{"text": "x"}\n["x"]\n', "line 2: each line must be a JSON object, got list"),
        ):
            (tmp_path / name).write_text(content, encoding="utf-8")
            with pytest.raises(ValueError, match=f"{re.escape(str(tmp_path / name))}, {message}"):
                list(read_rows(tmp_path / name))

    def test_malformed_rows_are_skipped_counted_and_listed(self, tmp_path, caplog):
        (tmp_path / "train.csv").write_text("text,label\n" + "x,joy\ny,joy,more\nz,fear\n" * 5)
        splits = load_dataset_for("files", tmp_path, on_bad_rows="skip")
        assert sum(len(rows) for rows in splits.values()) == 10
        assert "5 bad rows skipped" in caplog.text and "line 3: the header has 2 columns and" in caplog.text

    @pytest.mark.parametrize("read", [columns_of, lambda path: list(read_rows(path))])
    def test_a_repeated_column(self, tmp_path, read):
        path = write_csv(tmp_path / "a.csv", ["text", "note", "note"], [["a", "b", "c"]])
        with pytest.raises(ValueError, match="a.csv: the header names the column 'note' 2 times: rename one"):
            read(path)

    def test_files_that_cannot_be_read(self, tmp_path):
        twice = pyarrow.table([["a day"], ["joy"], ["anger"]], names=["text", "label", "label"])
        pyarrow.parquet.write_table(twice, tmp_path / "b.parquet")
        (tmp_path / "a.xls").write_text("x")
        for name, error, message in (
            ("b.parquet", ValueError, "b.parquet.*2 times"),
            ("a.xls", ValueError, r"a.xls: the file name must end in one of .*'\.csv'"),
            ("b.csv", FileNotFoundError, "no such file: .*b.csv"),
        ):
            with pytest.raises(error, match=message):
                list(read_rows(tmp_path / name))


class TestExcel:
    ROWS = [["text", "label"], *([f"x {i}", ("joy", "anger")[i % 2]] for i in range(40))]

    @pytest.mark.parametrize("claimed", ["A1:A3", "A1:XFD99", ""])
    def test_the_whole_sheet_whatever_size_it_claims(self, tmp_path, claimed):
        change = f'<dimension ref="{claimed}"/>' if claimed else ""
        path = write_xlsx(tmp_path / "train.xlsx", self.ROWS, ("<dimension [^>]*>", change))
        assert [(number, list(row.values())) for number, row in read_rows(path)] == [*enumerate(self.ROWS[1:], 2)]
        assert columns_of(path) == ["text", "label"]
        assert sum(map(len, load(tmp_path).values())) == 40

    def test_names_of_columns(self, tmp_path):
        """pandas writes an index without a name, and columns that are numbers."""
        path = write_xlsx(
            tmp_path / "a.xlsx", [[None, "text", 0, 2024, None], [1, "a", 2, 3], [4, "b", 5, 6, None, 7]]
        )
        rows = read_rows(path)
        assert next(rows) == (2, {"": 1, "text": "a", "0": 2, "2024": 3})
        with pytest.raises(ValueError, match="a.xlsx, line 3: row 1 names no column for the cell F3: name it"):
            next(rows)
        with pytest.raises(ValueError, match="the header has 2 columns without a name"):
            columns_of(write_xlsx(path, [["text", None, None, "n"]]))

    def test_the_first_sheet_that_is_shown(self, tmp_path, caplog):
        book = pytest.importorskip("openpyxl").Workbook()
        book.active.sheet_state = "hidden"
        for name, cells in (("Answers", ["text", "a"]), ("More", ["text", "b"]), ("Empty", [])):
            sheet = book.create_sheet(name)
            for cell in cells:
                sheet.append([cell])
        book.save(tmp_path / "a.xlsx")
        for _ in range(2):
            assert list(read_rows(tmp_path / "a.xlsx")) == [(2, {"text": "a"})]
        assert [record.getMessage() for record in caplog.records] == [
            f"{tmp_path / 'a.xlsx'}: only the sheet 'Answers' is read, not ['More']."
        ]

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (('<row r="3"', '<row r="3" <'), r"row 3 cannot be read \(ParseError: not well-formed"),
            (('r="(A?)3"', r'r="\g<1>1000000000"'), "a sheet has at most 1,048,576 rows"),
            (("<sheets>.*</sheets>", "<sheets/>"), "row 1 cannot be read .*no visible sheet"),
            (("^", '<!DOCTYPE x [<!ENTITY a "ha">]>'), "row 1 cannot be read .*EntitiesForbidden"),
            (
                ('<row r="3">', '<row r="3">' + " " * (101 << 20)),
                "unpacks to more than 100 MiB and more than 100 times",
            ),
        ],
        ids=["xml", "row", "sheets", "entities", "bomb"],
    )
    def test_what_cannot_be_read(self, tmp_path, change, message):
        path = write_xlsx(tmp_path / "a.xlsx", [["text"], ["a"], ["b"]], change)
        with pytest.raises(ValueError, match=f"{path}, .*{message}.*save it again in Excel") as caught:
            list(read_rows(path))
        assert type(caught.value) is ValueError


class TestOwnFiles:
    def test_a_list_of_labels_in_a_test_part_of_single_labels(self, tmp_path):
        """It would make the whole corpus multi-label."""
        write_parts(tmp_path, ROWS, parts=("train", "dev"))
        write_jsonl(tmp_path / "test.jsonl", [{"text": "c", "label": "joy"}, {"text": "d", "label": ["joy"]}])
        with pytest.raises(ValueError, match=r"test.jsonl, line 2: .*one label.*got \['joy'\]"):
            load(tmp_path)
        splits = load(tmp_path, on_bad_rows="skip")
        ids = gold_of(splits["train"]).values
        assert ids.dtype == np.int64 and ids.tolist() == [1, 0, 1] and splits["test"]["text"][:] == ["c"]

    def test_a_part_of_several_labels_without_any(self, tmp_path, caplog):
        for split, cell in (("train", "joy|anger"), ("validation", "joy"), ("test", "")):
            write_csv(tmp_path / f"{split}.csv", ["text", "label"], [["a", cell], ["b", cell]])
        load(tmp_path, label_separator="|")
        assert re.search(r"test.csv: none of its 2 rows has a label", caplog.text)
        assert "validation.csv" not in caplog.text

    def test_refused(self, tmp_path):
        csv, joy = "text,label\nx is fine,joy\ny is not,anger\n", {"label_columns": JOY}
        no_column = r"train.csv, line 2: no column 'nix'; the columns are \['label', 'text'\]"
        for content, options, message in (
            ('text,label\na,\nb,","\n', {"label_separator": ","}, "no row has a label; name their column with"),
            ("id;note;label\n1;a, b;joy\n", {}, r"no column 'text'; the columns are \['id', 'label', 'note'\]"),
            (csv, {"label_separator": ""}, "`label_separator` splits"),
            (csv, {"label_columns": ["nix", "label"]}, no_column),
            (csv, {"id_column": "nix"}, no_column),
            ("text,joy,anger\na,1,0\n", {**joy, "label_separator": "|"}, "`label_separator`.*`label_columns`"),
            ("text,joy,anger\na,0,2\n", joy, r"line 2: .* must hold 0 or 1, got \{'anger': '2'\}"),
        ):
            for part in ("train", "dev"):
                (tmp_path / f"{part}.csv").write_text(content)
            with pytest.raises(ValueError, match=message):
                load(tmp_path, **options)

    def test_cells(self, tmp_path):
        write_parts(tmp_path, [["a", "joy | anger"], ["b", "None"], ["NA", ""], ["d", "joy|joy|"]])
        train = load(tmp_path, label_separator="|")["train"]
        assert gold_of(train).multi_label and label_names(train) == ["None", "anger", "joy"]
        assert train["labels"][:] == [[1, 2], [0], [], [2]] and train["text"][2] == "NA"
        write_parts(tmp_path, [["a", "joy|other"], ["b", "None"], ["None", "NA"], *ROWS])
        train = load(tmp_path)["train"]
        assert named(train)[:3] == [["joy|other"], ["None"], ["NA"]] and train["text"][2] == "None"

    def test_indicator_columns(self, tmp_path):
        rows = [["a", "1", "0", "x"], ["b", " 1 ", "1", "y"], ["c", "0", "0", "z"]]
        write_parts(tmp_path, rows, ("text", "joy", "anger", "other"))
        train = load(tmp_path, label_columns=JOY, id_column="other")["train"]
        assert label_names(train) == JOY and train["labels"][:] == [[0], [0, 1], []]
        assert train["id"][:] == ["x", "y", "z"]
        write_csv(tmp_path / "train.csv", ["text", "joy", "anger"], [["a", "0.0", "1.0"], ["b", "TRUE", "false"]])
        assert load(tmp_path, label_columns=JOY)["train"]["labels"][:] == [[1], [0]]  # as pandas and R write them

    def test_indicator_columns_of_parquet(self, tmp_path):
        """Truth values, and columns with gaps, which hold 1.0 for 1."""
        truths = [{"text": "a", "joy": True, "anger": False}, {"text": "b", "joy": True, "anger": True}]
        gaps = [{"text": "a", "joy": 1.0, "anger": 0.0, "number": 7.0}, {"text": "b", "joy": 1.0, "anger": 1.0}]
        for rows, options in ((truths, {}), (gaps, {"id_column": "number"})):
            for part in ("train", "dev"):
                pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / f"{part}.parquet")
            train = load(tmp_path, label_columns=JOY, **options)["train"]
            assert named(train) == [["joy"], ["joy", "anger"]]
        assert train["id"][:] == ["7", "train-2"]

    def test_lists(self, tmp_path):
        rows = [{"text": "a", "label": ["joy", "anger"]}, {"text": "b", "label": []}, {"text": "c", "label": ["joy"]}]
        write_jsonl(tmp_path / "train.jsonl", rows)
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "validation.parquet")
        for part in load(tmp_path).values():
            assert gold_of(part).multi_label and named(part) == [["anger", "joy"], [], ["joy"]]

    @pytest.mark.parametrize("value", ["  ", float("nan"), None])
    def test_forms_of_one_label(self, tmp_path, value):
        labels = ["joy", " joy ", 1, 1.0, "1", value]
        write_jsonl(tmp_path / "train.jsonl", [{"text": "a", "label": label} for label in labels])
        write_jsonl(tmp_path / "dev.jsonl", [{"text": "a", "label": "joy"}])
        with pytest.raises(ValueError, match="train.jsonl, line 6: the column 'label' has no label"):
            load(tmp_path)
        assert named(load(tmp_path, on_bad_rows="skip")["train"]) == [["joy"], ["joy"], ["1"], ["1"], ["1"]]

    def test_empty_items_of_lists(self, tmp_path):
        for split in ("train", "dev"):
            write_jsonl(tmp_path / f"{split}.jsonl", [{"text": "a", "label": ["", " joy", None, "joy", 2.0]}])
        assert named(load(tmp_path)["train"]) == [["2", "joy"]]
        rows = [{"text": "a", "label": ["joy"]}, {"text": "b", "label": [None, " "]}, {"text": "c", "label": []}]
        for split in ("train", "dev"):
            write_jsonl(tmp_path / f"{split}.jsonl", rows)
        with pytest.raises(ValueError, match=r"line 2: the column 'label' has no label in \[None, ' '\]"):
            load(tmp_path)
        assert named(load(tmp_path, on_bad_rows="skip")["train"]) == [["joy"], []]

    @pytest.mark.parametrize("name", ["validation", "valid", "val", "dev"])
    def test_names_of_the_validation_part(self, tmp_path, name):
        write_csv(tmp_path / "train.csv", ["text", "label"], ROWS)
        write_csv(tmp_path / f"{name}.tsv", ["text", "label"], [["held out", "joy"]], delimiter="\t")
        (tmp_path / f"{name}.txt").write_text("some other file")
        splits = load(tmp_path)
        assert splits["validation"]["text"][:] == ["held out"]
        assert len(splits["train"]) == 3 and list(splits) == ["train", "validation"]

    def test_two_files_for_one_part_and_capital_endings(self, tmp_path):
        write_csv(tmp_path / "train.CSV", ["text", "label"], ROWS)
        assert load(tmp_path)["train"]["text"][:]
        for name in ("validation.csv", "dev.csv"):
            write_csv(tmp_path / name, ["text", "label"], ROWS)
        with pytest.raises(ValueError, match="more than one file for the split 'validation'.*validation.csv.*dev.csv"):
            load(tmp_path)


def test_quickstart():
    splits = load_dataset_for("quickstart")
    rows = [row for split in splits.values() for row in zip(split["text"], named(split), strict=True)]
    counts = collections.Counter(label for _, labels in rows for label in labels)
    assert min(counts.values()) >= 16
    assert all(labels for _, labels in rows) and sum(len(labels) > 1 for _, labels in rows) >= 20
    for split in splits.values():
        assert label_names(split) == GOEMOTIONS
        assert {label for labels in named(split) for label in labels} == {*GOEMOTIONS}
    assert len({" ".join(re.findall(r"\w+", text.lower())) for text, _ in rows}) == len(rows)
    assert set(duplicates_between_splits(TASK, splits).values()) == {0}


class TestLanguages:
    def test_three_sentences_for_each_label_and_language(self):
        rows = [row for _, row in packaged_rows("languages", "test")]
        counts = collections.Counter((row["language"], row["labels"][0]) for row in rows)
        assert counts == dict.fromkeys(itertools.product(corpus_of("languages").languages, GOEMOTIONS), 3)
        texts = [row["text"] for row in rows]
        assert all(text == text.strip() and unicodedata.is_normalized("NFC", text) for text in texts)
        assert len({" ".join(re.findall(r"\w+", text.lower())) for text in texts}) == len(texts)

    def test_the_option(self):
        every = load_dataset_for("languages")
        assert list(every) == ["test"] and len(every["test"]) == 504 and label_names(every["test"]) == GOEMOTIONS
        russian = load_dataset_for("languages", language="ru")["test"]
        assert len(russian) == 84 and all(re.search("[а-я]", text) for text in russian["text"])
        assert set(russian["id"]) < set(every["test"]["id"])  # a sentence keeps its id
        with pytest.raises(ValueError, match=r"'language' .*'en', 'de', 'es', 'fr', 'pt', 'ru'.* got 'it'"):
            load_dataset_for("languages", language="it")

    def test_what_needs_a_training_part_says_so(self):
        for option in ("dedupe", "oversample"):
            with pytest.raises(ValueError, match=r"no split 'train': it has \['test'\]"):
                load_dataset_for("languages", **{option: True})


def emotion6_folder(folder: Path, **content: str) -> Path:
    (folder / "emotion6").mkdir(parents=True)
    for name in ("train", "val", "test"):
        text = content.get(name, f"{name} a;joy\n{name} b;fear\n")
        (folder / "emotion6" / f"{name}.txt").write_text(text, encoding="utf-8", newline="")
    return folder


def rows_of(dataset: Dataset) -> list[tuple[str, str, str]]:
    names = label_names(dataset)
    return [(row["id"], row["text"], names[row["labels"]]) for row in dataset]


def label_counts(dataset: Dataset) -> dict[str, int]:
    return dict(collections.Counter(label for *_, label in rows_of(dataset)))


def labelled(counts: dict[str, int]) -> Dataset:
    """A single-label data set whose classes have these sizes, one after the other by turns."""
    turns = itertools.product(range(max(counts.values())), counts)
    texts = [f"{name} {number}" for number, name in turns if number < counts[name]]
    features = Features({"id": Value("string"), "text": Value("string"), "labels": ClassLabel(names=list(counts))})
    labels = [text.split()[0] for text in texts]
    return Dataset.from_dict({"id": texts, "text": texts, "labels": labels}, features=features)


class TestEmotion6:
    def test_rows(self, tmp_path):
        """The last semicolon splits; the labels have the ids of the Hub."""
        train = "i am sad;sadness\r\nso; happy ;joy\r\n;;fear\nlove;anger;love\n"
        splits = load_dataset_for("emotion6", emotion6_folder(tmp_path, train=train, val="a\u2028b;love"))
        assert list(splits) == ["train", "validation", "test"]
        assert all(label_names(split) == EMOTIONS for split in splits.values())
        rows = [("i am sad", "sadness"), ("so; happy ", "joy"), (";", "fear"), ("love;anger", "love")]
        assert rows_of(splits["train"]) == [(f"train-{i}", *row) for i, row in enumerate(rows, 1)]
        assert rows_of(splits["validation"]) == [("validation-1", "a\u2028b", "love")]
        assert rows_of(splits["test"]) == [("test-1", "test a", "joy"), ("test-2", "test b", "fear")]

    def test_without_folder_the_hub_is_asked(self, monkeypatch):
        monkeypatch.delenv("HF_EMOTION_DATA", raising=False)
        features = Features({"text": Value("string"), "label": ClassLabel(names=EMOTIONS)})
        rows = Dataset.from_dict({"text": ["a", "cafe\u0301"], "label": [0, 2]}, features=features)
        parts = {"test": rows.select([0]), "train": rows, "validation": rows.select([1])}
        monkeypatch.setattr("datasets.load_dataset", asked := Mock(return_value=DatasetDict(parts)))
        splits = load_dataset_for("emotion6")
        asked.assert_called_once_with("dair-ai/emotion", "split")
        assert list(splits) == ["train", "validation", "test"]
        assert rows_of(splits["train"]) == [("train-1", "a", "sadness"), ("train-2", "caf\u00e9", "love")]
        assert rows_of(splits["validation"]) == [("validation-1", "caf\u00e9", "love")]
        assert rows_of(splits["test"]) == [("test-1", "a", "sadness")]


class TestOversampling:
    @pytest.mark.parametrize("counts", [COUNTS, {"a": 5, "b": 5}, {"a": 1, "b": 9, "c": 8}, {"a": 0, "b": 4, "c": 2}])
    def test_every_class_is_as_large_as_the_largest(self, counts):
        dataset = labelled(counts)
        sampled = oversample_minorities(dataset)
        most = max(counts.values())
        assert label_counts(sampled) == {name: most for name, count in counts.items() if count}
        times = collections.Counter(sampled["text"])
        assert set(rows_of(sampled)) == set(rows_of(dataset)) and sampled.features == dataset.features  # none is lost
        for text, count in times.items():
            own = counts[text.split()[0]]
            assert count in (most // own, -(-most // own)), text

    def test_the_seed_alone_decides_which_rows_come_once_more(self):
        dataset = labelled({"a": 5, "b": 12})
        drawn = {seed: oversample_minorities(dataset, seed)["text"][:] for seed in range(6)}
        assert drawn[3] == oversample_minorities(dataset, 3)["text"][:]
        assert oversample_minorities(dataset)["text"][:] == drawn[0]
        assert len({tuple(texts) for texts in drawn.values()}) > 1

    def test_data_of_several_labels_are_refused(self, tmp_path):
        write_csv(tmp_path / "train.csv", ["text", "label"], feelings_rows(12))
        write_meld(tmp_path)
        for name, options in (("files", {"label_separator": "|"}), ("meld", {})):
            with pytest.raises(ValueError, match="`oversample` needs one label per row"):
                load_dataset_for(name, tmp_path, oversample=True, **options)

    def test_own_files_are_parted_before(self, tmp_path):
        write_csv(tmp_path / "train.csv", ["text", "label"], [[f"text {i}", "ab"[i % 5 == 0]] for i in range(60)])
        plain = load_dataset_for("files", tmp_path, validation_fraction=0.25)
        sampled = load_dataset_for("files", tmp_path, validation_fraction=0.25, oversample=True)
        assert rows_of(sampled["validation"]) == rows_of(plain["validation"])
        assert not set(sampled["train"]["text"]) & set(sampled["validation"]["text"])
        assert len(set(label_counts(sampled["train"]).values())) == 1


def test_nothing_leaks_where_rows_are_oversampled(tmp_path):
    train = [(f"{label} {number}", label) for label, count in COUNTS.items() for number in range(count)]
    train += [("i am joy", "joy"), ("i am joy", "love"), ("so calm", "love"), ("the rain", "sadness")]
    train += [("joy 0", "joy")]  # a copy within train is no leak
    parts = {
        "train": "".join(f"{text};{label}\n" for text, label in train),
        "val": "i am joy;joy\nso calm;joy\nval a;fear\nval a;love\n",
        "test": "i am joy;sadness\nthe rain;sadness\ntest a;fear\ntest b;anger\n",
    }
    folder = emotion6_folder(tmp_path, **parts)
    plain = load_dataset_for("emotion6", folder)
    splits = load_dataset_for("emotion6", folder, dedupe=True, oversample=True)
    for split in ("validation", "test"):
        assert set(plain["train"]["text"]) & set(plain[split]["text"])  # there is something to leak
        assert not set(splits["train"]["text"]) & set(splits[split]["text"])
        assert rows_of(splits[split]) == rows_of(plain[split])
    held_out = {text for split in ("validation", "test") for text in plain[split]["text"]}
    assert set(rows_of(splits["train"])) == {row for row in rows_of(plain["train"]) if row[1] not in held_out}
    # Joy is the largest class without the rows that went: they are counted after the duplicates are removed.
    assert label_counts(splits["train"]) == dict.fromkeys(EMOTIONS, COUNTS["joy"] + 1)
