# SPDX-License-Identifier: Apache-2.0
"""The six emotions: reading their files, removing what stands in two parts, oversampling, and that nothing leaks."""

import collections
from pathlib import Path

import pytest
from datasets import ClassLabel, Dataset, DatasetDict, Features, Value
from toolkit_helpers import feelings_rows, write_csv, write_meld

from hf_emotion import load_dataset_for
from hf_emotion.data.splits import label_names, oversample_minorities
from hf_emotion.tasks.rows import duplicates_between_splits, label_matrix


EMOTIONS = ["sadness", "joy", "love", "anger", "fear", "surprise"]
SHARED = {"validation": ["i am joy", "so calm"], "test": ["i am joy", "the rain"]}  # in train too
COUNTS = {"sadness": 7, "joy": 11, "love": 3, "anger": 4, "fear": 1, "surprise": 2}


def emotion6_folder(folder: Path, **content: str) -> Path:
    """`folder/emotion6/{train,val,test}.txt`; returns `folder`."""
    (folder / "emotion6").mkdir(parents=True)
    for name in ("train", "val", "test"):
        text = content.get(name, f"{name} a;joy\n{name} b;fear\n")
        (folder / "emotion6" / f"{name}.txt").write_text(text, encoding="utf-8", newline="")
    return folder


def lines(rows: list[tuple[str, str]]) -> str:
    return "".join(f"{text};{label}\n" for text, label in rows)


def rows_of(dataset: Dataset) -> list[tuple[str, str, str]]:
    names = label_names(dataset)
    return [(row["id"], row["text"], names[row["labels"]]) for row in dataset]


def label_counts(dataset: Dataset) -> dict[str, int]:
    return dict(collections.Counter(label for *_, label in rows_of(dataset)))


def labelled(counts: dict[str, int]) -> Dataset:
    """A single-label data set whose classes have these sizes, one after the other by turns."""
    rows, left = [], dict(counts)
    while any(left.values()):
        for name in left:
            if left[name]:
                left[name] -= 1
                rows.append((f"{name} {left[name]}", list(counts).index(name)))
    features = Features({"id": Value("string"), "text": Value("string"), "labels": ClassLabel(names=list(counts))})
    texts, labels = zip(*rows, strict=True)
    return Dataset.from_dict({"id": list(texts), "text": list(texts), "labels": list(labels)}, features=features)


class TestFiles:
    def test_rows(self, tmp_path):
        folder = emotion6_folder(tmp_path, train="i am sad;sadness\r\nso happy ;joy\r\n", val="a\u2028b;love")
        splits = load_dataset_for("emotion6", folder)
        assert list(splits) == ["train", "validation", "test"]
        assert rows_of(splits["train"]) == [("train-1", "i am sad", "sadness"), ("train-2", "so happy ", "joy")]
        assert rows_of(splits["validation"]) == [("validation-1", "a\u2028b", "love")]
        assert rows_of(splits["test"]) == [("test-1", "test a", "joy"), ("test-2", "test b", "fear")]

    def test_labels_have_the_ids_of_the_hub(self, tmp_path):
        every = lines([(f"text {label}", label) for label in sorted(EMOTIONS)])
        splits = load_dataset_for("emotion6", emotion6_folder(tmp_path, train=every))
        assert all(label_names(split) == EMOTIONS and not (label_matrix(split).ndim == 2) for split in splits.values())
        ids = dict(zip(splits["train"]["text"], splits["train"]["labels"], strict=True))
        expected = {"sadness": 0, "joy": 1, "love": 2, "anger": 3, "fear": 4, "surprise": 5}
        assert ids == {f"text {label}": number for label, number in expected.items()}

    def test_the_last_semicolon_splits(self, tmp_path):
        folder = emotion6_folder(tmp_path, train="so; happy;joy\n;;fear\nlove;anger;love\n")
        texts = [(text, label) for _, text, label in rows_of(load_dataset_for("emotion6", folder)["train"])]
        assert texts == [("so; happy", "joy"), (";", "fear"), ("love;anger", "love")]

    def test_without_folder_the_hub_is_asked(self, monkeypatch):
        monkeypatch.delenv("HF_EMOTION_DATA", raising=False)
        asked = []

        def load_dataset(*arguments):
            asked.append(arguments)
            features = Features({"text": Value("string"), "label": ClassLabel(names=EMOTIONS)})
            rows = lambda texts, ids: Dataset.from_dict({"text": texts, "label": ids}, features=features)  # noqa: E731
            return DatasetDict(
                test=rows(["c"], [5]), train=rows(["a", "cafe\u0301"], [0, 2]), validation=rows(["b"], [4])
            )

        monkeypatch.setattr("datasets.load_dataset", load_dataset)
        splits = load_dataset_for("emotion6")
        assert asked == [("dair-ai/emotion", "split")]
        assert list(splits) == ["train", "validation", "test"]
        assert rows_of(splits["train"]) == [("train-1", "a", "sadness"), ("train-2", "caf\u00e9", "love")]
        assert rows_of(splits["validation"]) == [("validation-1", "b", "fear")]
        assert rows_of(splits["test"]) == [("test-1", "c", "surprise")]


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


class TestNothingLeaks:
    @pytest.fixture
    def folder(self, tmp_path):
        train = [(f"{label} {number}", label) for label, count in COUNTS.items() for number in range(count)]
        train += [("i am joy", "joy"), ("i am joy", "love"), ("so calm", "love"), ("the rain", "sadness")]
        train += [("joy 0", "joy")]  # a copy within train is no leak
        parts = {
            "val": [(text, "joy") for text in SHARED["validation"]] + [("val a", "fear"), ("val a", "love")],
            "test": [(text, "sadness") for text in SHARED["test"]] + [("test a", "fear"), ("test b", "anger")],
        }
        return emotion6_folder(tmp_path, train=lines(train), **{name: lines(rows) for name, rows in parts.items()})

    def test_dedupe_and_oversample(self, folder):
        plain = load_dataset_for("emotion6", folder)
        assert set(plain["train"]["text"]) & set(plain["test"]["text"])  # there is something to leak
        splits = load_dataset_for("emotion6", folder, dedupe=True, oversample=True)
        for split in ("validation", "test"):
            assert not set(splits["train"]["text"]) & set(splits[split]["text"])
            assert rows_of(splits[split]) == rows_of(plain[split])
        held_out = {text for split in ("validation", "test") for text in plain[split]["text"]}
        assert set(rows_of(splits["train"])) == {row for row in rows_of(plain["train"]) if row[1] not in held_out}
        # Joy is the largest class without the rows that went: they are counted after the duplicates are removed.
        assert label_counts(splits["train"]) == dict.fromkeys(EMOTIONS, COUNTS["joy"] + 1)
        report = duplicates_between_splits(splits)
        assert {count for pair, count in report.items() if "train &" in pair} == {0}
