# SPDX-License-Identifier: Apache-2.0
"""Aspect sentiment: SentiHood, SemEval-2014 and one's own files."""

import collections
import itertools
import json
import re
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from xml.sax.saxutils import escape, quoteattr

import pytest
from datasets import ClassLabel, Dataset, DatasetDict, Value
from hf_emotion.modeling.text_processing import targets_in
from toolkit_helpers import check_bad_rows, write_csv

from hf_emotion import load_dataset_for
from hf_emotion.data.splits import label_names
from hf_emotion.tasks import task_of_rows
from hf_emotion.tasks.rows import at_most, duplicates_between_splits, gold_of, remove_duplicates
from hf_emotion.tasks.targeted_sentiment import TASK
from hf_emotion.tasks.targeted_sentiment.loading import context_names, replace_targets


SENTIHOOD_ASPECTS = ["general", "price", "safety", "transit-location"]
SEMEVAL_ASPECTS = ["price", "anecdotes", "food", "ambience", "service"]


def opinion(target: str, aspect: str, sentiment: str) -> dict:
    return {"target_entity": target, "aspect": aspect, "sentiment": sentiment}


def place(number: int | str = 1, text: str = "I like LOCATION1", *opinions: dict) -> dict:
    return {"id": number, "text": text, "opinions": list(opinions)}


def sentihood_folder(root: Path, **splits: list | str | bytes) -> Path:
    """A data folder with SentiHood files; splits that are not given hold one sentence of their own."""
    folder = root / "sentihood"
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("train", "dev", "test"):
        content = splits.get(name, [place(1, f"LOCATION1 in the {name} part")])
        content = json.dumps(content) if isinstance(content, list) else content
        content = content if isinstance(content, bytes) else content.encode("utf-8")
        (folder / f"sentihood-{name}.json").write_bytes(content)
    return root


def sentence(number: str, text: str, *categories: tuple[str, str]) -> str:
    inner = "".join(f'<aspectCategory category="{name}" polarity="{polarity}"/>' for name, polarity in categories)
    return (
        f"<sentence id={quoteattr(number)}><text>{escape(text)}</text><aspectTerms/>"
        f"<aspectCategories>{inner}</aspectCategories></sentence>"
    )


def semeval_folder(root: Path, train: list[str] | bytes | None = None, test: list[str] | bytes | None = None) -> Path:
    """A data folder with SemEval files; without `train` ten sentences, without `test` one."""
    folder = root / "semeval2014"
    folder.mkdir(parents=True, exist_ok=True)
    train = [sentence(str(i), f"training sentence {i}") for i in range(10)] if train is None else train
    test = [sentence("t#1", "the test sentence")] if test is None else test
    for name, content in (("Train", train), ("Test_Gold", test)):
        if isinstance(content, list):
            content = f'<?xml version="1.0"?>\n<sentences>\n{"".join(content)}\n</sentences>'.encode()
        (folder / f"Restaurants_{name}.xml").write_bytes(content)
    return root


def check_features(dataset: Dataset, aspects: list[str], labels: list[str], targets: list[str] | None = None) -> None:
    text, target = Value("string"), {} if targets is None else {"target": ClassLabel(names=targets)}
    features = {"id": text, "text": text, **target, "aspect": ClassLabel(names=aspects)}
    features |= {"auxiliary": text, "context_id": Value("int64"), "labels": ClassLabel(names=labels)}
    assert dict(dataset.features) == features and dataset.column_names == list(features)


def named(dataset: Dataset) -> list[str]:
    return [label_names(dataset)[i] for i in dataset["labels"]]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("LOCATION2 beats LOCATION1.", "location - 2 beats location - 1."),
        ("(LOCATION1/LOCATION2)", "(location - 1/location - 2)"),  # no blank at punctuation
        ("wLOCATION1dential", "w location - 1 dential"),
        ("LOCATION12", "location - 1 2"),
        ("LOCATION1LOCATION2LOCATION1", "location - 1 location - 2 location - 1"),
        ("éLOCATION1é", "é location - 1 é"),
        ("a  LOCATION1  b", "a  location - 1  b"),  # blanks stay as they are
        ("location1 LOCATION3 LOCATION", "location1 LOCATION3 LOCATION"),
    ],
)
def test_placeholders(text, expected):
    assert replace_targets(text) == expected


class TestSentiHood:
    def test_rows(self, tmp_path):
        text = "  LOCATION2 is dear, LOCATION1 is not "
        opinions = [
            opinion("LOCATION2", "price", "Negative"),
            opinion("LOCATION1", "price", "Positive"),
            opinion("LOCATION1", "nightlife", "Negative"),
            opinion("LOCATION1", "transit-location", "Negative"),
        ]
        sentences = [place(7, text, *opinions), place(5, "to LOCATION1")]
        splits = load_dataset_for("sentihood", sentihood_folder(tmp_path, train=sentences))
        assert list(splits) == ["train", "validation", "test"]
        train = splits["train"]
        check_features(train, SENTIHOOD_ASPECTS, ["none", "positive", "negative"], ["LOCATION1", "LOCATION2"])
        assert set(train["text"][:8]) == {"location - 2 is dear, location - 1 is not"}
        assert train["target"][:] == [0] * 4 + [1] * 4 + [0] * 4  # in the order of the targets, not of the text
        assert train["aspect"][:] == [0, 1, 2, 3] * 3
        assert train["context_id"][:] == [0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3]
        assert named(train) == ["none", "positive", "none", "negative", "none", "negative"] + ["none"] * 6
        rows = itertools.product(("7/LOCATION1", "7/LOCATION2"), SENTIHOOD_ASPECTS)
        assert train["id"][:8] == [f"{target}/{aspect}" for target, aspect in rows]
        assert train["auxiliary"][1] == "location - 1 - price"
        assert train["auxiliary"][7] == "location - 2 - transit-location"
        assert len(set(train["id"])) == 12

    def test_targets_and_texts(self, tmp_path):
        train = [
            place(1, "near LOCATION2e and inLOCATION1"),  # a target counts wherever it stands
            place(2, "cafe\u0301 LOCATION2"),  # the second target alone; in NFC
            place(3, "LOCATION1", *[opinion("LOCATION1", "price", "Negative")] * 2),  # an opinion given twice
        ]
        train = load_dataset_for("sentihood", sentihood_folder(tmp_path, train=train))["train"]
        assert train["target"][:] == [0] * 4 + [1] * 4 + [1] * 4 + [0] * 4
        assert train["context_id"][8:12] == [4, 5, 6, 7]
        first = ["near location - 2 e and in location - 1"] * 2
        assert train["text"][::4] == [*first, "caf\xe9 location - 2", "location - 1"]
        assert named(train)[12:] == ["none", "negative", "none", "none"]


class TestSemEval2014:
    def test_rows(self, tmp_path):
        fish = [("anecdotes/miscellaneous", "neutral"), ("food", "conflict")]
        fine = [("service", "positive"), ("price", "negative"), ("ambience", "neutral")]
        test = [sentence("9#1", " Fish & chips <3 ", *fish), sentence("9#2", "fine", *fine)]
        splits = load_dataset_for("semeval2014", semeval_folder(tmp_path, test=test))
        assert list(splits) == ["train", "validation", "test"]
        test = splits["test"]
        check_features(test, SEMEVAL_ASPECTS, ["positive", "neutral", "negative", "conflict", "none"])
        assert test["text"][:] == ["Fish & chips <3"] * 5 + ["fine"] * 5
        assert test["aspect"][:] == test["context_id"][:] == [0, 1, 2, 3, 4] * 2
        assert test["auxiliary"][:] == SEMEVAL_ASPECTS * 2
        assert named(test)[:5] == ["none", "neutral", "conflict", "none", "none"]
        assert named(test)[5:] == ["negative", "none", "none", "neutral", "positive"]
        assert test["id"][:5] == [f"9#1/{aspect}" for aspect in SEMEVAL_ASPECTS]

    def test_texts_and_a_category_given_twice(self, tmp_path):
        test = [sentence("1", "LOCATION1 cafe\u0301", ("food", "positive"), ("food", "positive"))]
        test = load_dataset_for("semeval2014", semeval_folder(tmp_path, test=test))["test"]
        assert test["text"][0] == "LOCATION1 caf\xe9"  # placeholders are no targets here
        assert named(test) == ["none", "none", "positive", "none", "none"]

    DOCTYPE = '<!DOCTYPE sentences [<!ENTITY name "value">]>'

    @pytest.mark.parametrize(
        "content",
        [
            b"<!DOCTYPE sentences><sentences/>",
            f"{DOCTYPE}<sentences>&name;</sentences>".encode(),
            f'<?xml version="1.0" encoding="utf-16"?>{DOCTYPE}<sentences/>'.encode("utf-16"),
            b'<!DOCTYPE sentences SYSTEM "file:///etc/hostname"><sentences/>',
        ],
    )
    def test_no_doctype_and_no_entity(self, tmp_path, content):
        with pytest.raises(ValueError, match="Restaurants_Test_Gold.xml: malformed .*a DOCTYPE, .* is not allowed"):
            load_dataset_for("semeval2014", semeval_folder(tmp_path, test=content))


def test_equal_texts_stay_together_in_a_validation_part(tmp_path):
    """Of 40 sentences with 20 texts: every text twice, far apart."""
    folder = semeval_folder(tmp_path, train=[sentence(str(i), f"text {i % 20}") for i in range(40)])
    for options, texts in (({}, 2), ({"validation_fraction": 0.25}, 5)):  # a tenth of the distinct texts
        splits = load_dataset_for("semeval2014", folder, **options)
        train, validation = splits["train"], splits["validation"]
        assert len(set(validation["text"])) == texts and len(validation) == texts * 2 * 5
        assert len(train) == (40 - 2 * texts) * 5 and not set(train["text"]) & set(validation["text"])
        numbers = [int(row_id.split("/")[0]) for row_id in train["id"]]
        assert numbers == sorted(numbers) and train["aspect"][:] == [0, 1, 2, 3, 4] * (len(train) // 5)


ROWS = [
    ["the screen is bright", "phone", "screen", "good"],
    ["the screen is bright", "phone", "battery", "none"],
    ["dim screen", "tablet", "screen", "bad"],
]
HEADER = ["text", "target", "aspect", "label"]
COLUMNS = {"target_column": "target"}


def load(folder: Path, **options) -> DatasetDict:
    return load_dataset_for("aspect_files", folder, **options)


def write_parts(folder: Path, rows: list[list[str]], parts=("train", "dev"), header=HEADER) -> Path:
    for part in parts:
        write_csv(folder / f"{part}.csv", header, rows)
    return folder


class TestOwnFiles:
    @pytest.fixture
    def folder(self, tmp_path):
        return write_parts(tmp_path, ROWS, ("train", "validation", "test"))

    def test_targets_and_aspects(self, folder):
        train = load(folder, **COLUMNS)["train"]
        check_features(train, ["battery", "screen"], ["bad", "good", "none"], ["phone", "tablet"])
        assert gold_of(train).single_label and task_of_rows(train) is TASK
        assert train["text"][:] == [row[0] for row in ROWS]
        assert train["target"][:] == [0, 0, 1] and train["aspect"][:] == [1, 0, 1]
        assert train["context_id"][:] == [1, 0, 3]
        assert train["auxiliary"][:] == ["phone - screen", "phone - battery", "tablet - screen"]
        assert named(train) == ["good", "none", "bad"]  # "none" is a label like any other
        assert train["id"][0] == "train-2/phone/screen"

    def test_other_column_names_and_ids(self, tmp_path):
        write_parts(tmp_path, [["7", "A", "b", "x", "y"]], header=["number", "what", "quality", *HEADER[::3]])
        train = load(tmp_path, aspect_column="quality", target_column="what", id_column="number")["train"]
        ids = dict.fromkeys(("target", "aspect", "context_id", "labels"), 0)
        assert train[0] == {"id": "7/A/b", "text": "x", "auxiliary": "A - b", **ids}

    @pytest.mark.parametrize("split", ["validation", "test"])
    @pytest.mark.parametrize(
        ("column", "name", "near", "known"),
        [("target", "Phone", "phone", ["phone", "tablet"]), ("aspect", "SCREEN", "screen", ["battery", "screen"])],
    )
    def test_names_that_no_training_row_has(self, folder, split, column, name, near, known, caplog):
        row = dict(zip(HEADER, ROWS[0], strict=True)) | {column: name}
        path = write_csv(folder / f"{split}.csv", HEADER, [ROWS[0], list(row.values())])
        message = f"{re.escape(str(path))}, line 3: unknown {column} '{name}': no training row has it.*"
        with pytest.raises(ValueError, match=f"{message}`{column}s`.*Did you mean '{near}'"):
            load(folder, **COLUMNS)
        splits = load(folder, **COLUMNS, on_bad_rows="skip")
        assert splits[split]["text"][:] == [ROWS[0][0]] and "1 bad rows skipped" in caplog.text
        assert splits[split].features[column].names == known
        given = load(folder, **COLUMNS, **{f"{column}s": [*known, name]})
        assert given[split].features[column].names == [*known, name]

    @pytest.mark.parametrize("given", [{}, {"targets": ["cafe\u0301"], "aspects": ["prix\u0301"]}])
    def test_targets_are_found_in_their_own_texts(self, tmp_path, given):
        rows = [["the cafe\u0301 is nice", "cafe\u0301", "prix\u0301", label] for label in ("good", "bad")]
        train = load(write_parts(tmp_path, rows), **COLUMNS, **given)["train"]
        (target,), _ = context_names(train)
        for text in (train["text"][0], rows[0][0], "le caf\xe9"):
            assert targets_in(SimpleNamespace(targets=[target], target_texts=None), text) == [target]

    def test_an_aspect_of_one_text_stays_in_training(self, tmp_path):
        rows = [[f"text {i}", "phone", "screen", ("good", "bad")[i % 2]] for i in range(40)]
        path = write_csv(tmp_path / "mine.csv", HEADER, rows)
        drawn = load(path, **COLUMNS)["validation"]["text"][:]
        assert len(drawn) == 4
        for text in drawn:
            write_csv(path, HEADER, [*rows, [text, "phone", "battery", "good"]])
            splits = load(path, **COLUMNS)
            assert splits["train"]["text"][:].count(text) == 2  # with all its rows
            assert set(drawn) - {text} < set(splits["validation"]["text"]) and len(splits["validation"]) == 4

    def test_given_names_keep_their_order(self, folder):
        names = {"aspects": ["screen", "sound", "battery"], "targets": ["tablet", "phone"]}
        train = load(folder, **COLUMNS, **names)["train"]
        assert context_names(train) == (names["targets"], names["aspects"])
        assert train["context_id"][:] == [3, 5, 0]

    def test_bad_rows(self, folder, caplog):
        names = {"aspects": ["screen", "battery"], "targets": ["phone", "tablet"], "labels": ["good", "bad", "none"]}
        bad = [
            (["a", "phone", "", "good"], "'aspect' must hold one name or number, got ''"),
            (["a", " ", "screen", "good"], "'target' must hold one name or number, got ' '"),
            (["a", "phone", "screen", ""], "'label' must hold one name or number"),
            ([" ", "phone", "screen", "good"], "the text is empty"),
            (["a", "phone", "scren", "good"], "unknown aspect 'scren'; .* Did you mean 'screen'"),
            (["a", "fone", "screen", "good"], "unknown target 'fone'; .* Did you mean 'phone'"),
            (["a", "phone", "screen", "god"], "unknown label 'god'; .* Did you mean 'good'"),
        ]
        path = write_csv(folder / "test.csv", HEADER, [ROWS[0], *(row for row, _ in bad)])
        messages = [message for _, message in bad]
        splits = check_bad_rows(partial(load, folder, **COLUMNS, **names), path, 3, messages, caplog)
        assert splits["test"]["text"][:] == [ROWS[0][0]]

    NAMED = ["two,phone,screen,good", " one ,phone,battery,bad", "two,tablet,sound,bad", "two,phone,battery,good"]
    NAMED = [row.split(",") for row in [*NAMED, "one,phone,battery,good"]]  # the same question again stays
    FILLED = [
        *("two phone battery good", "two phone screen good", "two phone sound none"),
        *("one phone battery bad", "one phone battery good", "one phone screen none", "one phone sound none"),
        *("two tablet battery none", "two tablet screen none", "two tablet sound bad"),
    ]

    def rows_of(self, dataset: Dataset) -> list[str]:
        """Text, target, aspect and label of each row."""
        ids = zip(*(dataset[name] for name in ("target", "aspect") if name in dataset.features), strict=True)
        known = [names for names in context_names(dataset) if names]
        found = [[names[i] for names, i in zip(known, row, strict=True)] for row in ids]
        return [" ".join([t, *row, n]) for t, row, n in zip(dataset["text"], found, named(dataset), strict=True)]

    def test_fill_none(self, tmp_path, caplog):
        write_parts(tmp_path, self.NAMED, ("train", "validation"))
        write_csv(tmp_path / "test.csv", HEADER, self.NAMED[:1])
        splits = load(tmp_path, **COLUMNS, fill_none=True)
        assert label_names(splits["train"]) == ["bad", "good", "none"]
        assert self.rows_of(splits["train"]) == self.rows_of(splits["validation"]) == self.FILLED
        # The aspects are those of the corpus, not of the part.
        expected = ["two phone battery none", "two phone screen good", "two phone sound none"]
        assert self.rows_of(splits["test"]) == expected
        train = splits["train"]
        assert len(set(train["id"])) == len(train) and train["id"][2] == "train-2/phone/sound"
        assert train["context_id"][:3] == [0, 1, 2] and train["auxiliary"][2] == "phone - sound"
        assert re.search(r"train.csv: 5 rows with the label 'none'", caplog.text)
        assert load(tmp_path, **COLUMNS)["train"]["text"][:] == [row[0].strip() for row in self.NAMED]

    @pytest.mark.parametrize("targets", [True, False])
    def test_fill_none_leaves_skipped_rows_out(self, tmp_path, targets):
        """The label of a skipped row is not known; a text that has no other row stays out."""
        rows = ["one,phone,screen,good", "one,phone,battery,", "two,phone,screen,goood", "three,phone,battery,"]
        rows += ["e\u0301,phone,battery,bad", " \u00e9 ,phone,sound,goood"]  # one text
        rows += [",phone,battery,good", "four,phone,,good", "five,phone,sound,bad"]
        write_parts(tmp_path, [row.split(",") for row in rows])
        options = {**COLUMNS, "aspects": ["screen", "battery", "sound"], "labels": ["good", "bad", "none"]}
        if not targets:
            del options["target_column"]
        splits = load(tmp_path, **options, fill_none=True, on_bad_rows="skip")
        for part in splits.values():
            assert [row.replace("phone ", "") for row in self.rows_of(part)] == [
                *("one screen good", "one sound none", "\u00e9 screen none", "\u00e9 battery bad"),
                *("five screen none", "five battery none", "five sound bad"),
            ]

    def test_fill_none_with_nothing_to_fill(self, tmp_path):
        write_parts(tmp_path, [row.split() for row in self.FILLED[:2]])
        train = load(tmp_path, **COLUMNS, fill_none=True)["train"]
        assert label_names(train) == ["good"] and len(train) == 2

    def test_fill_none_before_the_validation_part(self, tmp_path):
        rows = [[f"text {i}", "phone", ("a", "b", "c")[i % 3], "good"] for i in range(60)]
        path = write_csv(tmp_path / "mine.csv", HEADER, rows)
        splits = load(path, **COLUMNS, fill_none=True)
        assert {split: len(part) for split, part in splits.items()} == {"train": 54 * 3, "validation": 6 * 3}

    @pytest.mark.parametrize("spelling", ["None", "none"])
    def test_fill_none_takes_the_corpus_own_spelling(self, tmp_path, spelling):
        write_parts(tmp_path, [*ROWS[::2], ["more", "phone", "battery", spelling]])
        train = load(tmp_path, **COLUMNS, fill_none=True)["train"]
        assert sorted(label_names(train)) == sorted(["bad", "good", spelling])
        assert self.rows_of(train)[0] == f"the screen is bright phone battery {spelling}"

    def test_fill_none_with_given_labels(self, folder):
        names = ["none", "good", "bad"]
        assert label_names(load(folder, **COLUMNS, labels=names, fill_none=True)["train"]) == names
        write_parts(folder, self.NAMED, ("train", "validation", "test"))
        with pytest.raises(ValueError, match=r"`fill_none` needs .*'none'.*`labels`.*\['good', 'bad'\]"):
            load(folder, **COLUMNS, labels=["good", "bad"], fill_none=True)

    def test_targets_are_placeholders_where_there_are_targets(self, tmp_path):
        write_parts(tmp_path, [[" wLOCATION1dential ", "LOCATION1", "price", "good"]])
        train = load(tmp_path, **COLUMNS)["train"]
        assert train["text"][:] + train["auxiliary"][:] == ["w location - 1 dential", "location - 1 - price"]
        assert load(tmp_path)["train"]["text"][:] == ["wLOCATION1dential"]

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"targets": ["phone"]}, "`targets` needs `target_column`"),
            ({"aspect_column": "text"}, "`aspect_column`.* must name different columns"),
            ({"aspects": "screen"}, r"`aspects` must be a list .* write \['?screen'?\]"),
            ({**COLUMNS, "targets": "phone"}, "`targets` must be a list of names, got the string 'phone'"),
            ({"target_column": "what"}, "no column 'what'; the columns are .*target_column"),
        ],
    )
    def test_options(self, folder, options, message):
        with pytest.raises(ValueError, match=message):
            load(folder, **options)


class TestSample:
    """The rows that `max_eval_rows` leaves."""

    def test_all_aspects_of_a_text_and_target_stay_together(self, tmp_path):
        places = [place(i, f"LOCATION1 and LOCATION2, {i}" if i % 3 else f"LOCATION1 alone, {i}") for i in range(30)]
        dev = load_dataset_for("sentihood", sentihood_folder(tmp_path, dev=places))["validation"]
        for rows, expected in ((2, 4), (4, 4), (30, 28), (1000, 200)):
            drawn = at_most(TASK, dev, rows)
            assert drawn["aspect"][:] == [0, 1, 2, 3] * (expected // 4)
            assert len({row_id.rpartition("/")[0] for row_id in drawn["id"]}) == expected // 4
            assert drawn["id"][:] == [row_id for row_id in dev["id"] if row_id in set(drawn["id"])]
        assert at_most(TASK, dev, 28)["id"][:] != dev["id"][:28]

    def test_groups_of_different_sizes(self, tmp_path):
        """Of one's own files a text may lack aspects, and its rows need not follow each other."""
        texts = [("a", range(20)), ("b", range(20)), ("c", range(9))]
        rows = [[f"text {i}", "phone", aspect, "good"] for aspect, numbers in texts for i in numbers]
        dev = load(write_parts(tmp_path, rows), **COLUMNS)["validation"]
        whole = collections.Counter(dev["text"])
        for most in (5, 17, 40):
            drawn = at_most(TASK, dev, most)
            found = collections.Counter(drawn["text"])
            assert most - 2 <= len(drawn) <= most and found == {text: whole[text] for text in found}


class TestDuplicates:
    @pytest.fixture
    def folder(self, tmp_path):
        """In train "LOCATION1 a" three times, with two targets "b" twice; the first stands in dev, "c" in test and dev."""
        train = ["LOCATION1 a", "LOCATION1 a ", " LOCATION1 a", "LOCATION1 LOCATION2 b", "LOCATION1 LOCATION2 b"]
        parts = {"train": [*train, "LOCATION2 d"], "dev": ["LOCATION1 a", "LOCATION1 c"], "test": ["LOCATION1 c"]}
        numbered = {name: [place(i, text) for i, text in enumerate(texts)] for name, texts in parts.items()}
        return sentihood_folder(tmp_path, **numbered)

    def test_sentences_are_counted_not_rows(self, folder):
        report = {"repeated in train": 3, "repeated in validation": 0, "repeated in test": 0}
        report |= {"train & validation": 1, "train & test": 0, "validation & test": 1}
        assert duplicates_between_splits(TASK, load_dataset_for("sentihood", folder)) == report

    def test_a_sentence_without_some_aspects(self, tmp_path):
        rows = [["a", "x", "good"], ["a", "y", "good"], ["a", "y", "bad"], ["b", "x", "bad"], ["b", "y", "bad"]]
        report = duplicates_between_splits(TASK, load(write_parts(tmp_path, rows, header=["text", "aspect", "label"])))
        assert report == {"repeated in train": 1, "repeated in validation": 1, "train & validation": 2}

    def test_dedupe_takes_whole_groups_out_of_train(self, folder):
        splits = load_dataset_for("sentihood", folder, dedupe=True)
        b = "location - 1 location - 2 b"
        assert splits["train"]["text"][:] == [b] * 16 + ["location - 2 d"] * 4
        assert splits["train"]["aspect"][:] == [0, 1, 2, 3] * 5
        assert len(splits["validation"]) == 8 and len(splits["test"]) == 4
        assert remove_duplicates(TASK, splits)["train"]["id"][:] == splits["train"]["id"][:]
