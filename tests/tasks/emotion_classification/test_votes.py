# SPDX-License-Identifier: Apache-2.0
"""Votes of annotators in one's own files, in GoEmotions, and in the packaged corpus."""

import re
from pathlib import Path

import numpy as np
import pytest
from toolkit_helpers import write_csv, write_jsonl

from hf_emotion import load_dataset_for
from hf_emotion.data.splits import label_names
from hf_emotion.taxonomies import GOEMOTIONS


VOTES = ["joy", "anger", "fear"]
PEOPLE = ["text", *VOTES, "people"]


def load(folder: Path, rows: list[list], header: list[str] | None = None, **options):
    header = header or ["text", *VOTES]
    write_csv(folder / "train.csv", header, [[str(value) for value in row] for row in rows])
    return load_dataset_for("files", folder, **{"votes": VOTES, "validation_fraction": 0, **options})["train"]


def shares(rows) -> list[list[float]]:
    return np.round(np.asarray(rows["votes"][:]), 4).tolist()


class TestOwnFiles:
    def test_counts(self, tmp_path, caplog):
        rows = load(tmp_path, [["a", 3, 0, 1], ["b", 0, 2, 2], ["c", 0, "1.0", 0]])
        assert label_names(rows) == VOTES and rows["labels"][:] == [0, 1, 1]
        assert shares(rows) == [[0.75, 0, 0.25], [0, 0.5, 0.5], [0, 1, 0]]
        assert rows["annotators"][:] == [4, 4, 1]
        (record,) = [record.getMessage() for record in caplog.records if "most votes" in record.getMessage()]
        assert "in 1 of 3 rows" in record

    def test_shares_of_one_label(self, tmp_path):
        rows = load(tmp_path, [["a", 0.7, 0.1, 0.2], ["b", 0, 0, 1], ["c", 0.33, 0.33, 0.33]])
        assert rows["labels"][:] == [0, 2, 0] and rows["annotators"][:] == [0, 0, 0]
        assert shares(rows)[2] == [0.3333] * 3  # rounded shares are scaled

    def test_several_labels(self, tmp_path):
        rows = load(tmp_path, [["a", 4, 2, 1, 4], ["b", 0, 0, 1, 3], ["c", 1, 0, 0, 2]], PEOPLE, annotators="people")
        assert rows["labels"][:] == [[0, 1], [], [0]]
        assert shares(rows) == [[1, 0.5, 0.25], [0, 0, 0.3333], [0.5, 0, 0]] and rows["annotators"][:] == [4, 3, 2]
        rows = load(tmp_path, [["a", 0.9, 0.5, 0.1], ["b", 0, 0, 0]], multi_label=True)
        assert rows["labels"][:] == [[0, 1], []] and rows["annotators"][:] == [0, 0]

    def test_labels_in_another_order(self, tmp_path):
        """As `evaluate` asks for the labels of a model; a label without a column has no votes."""
        rows = load(tmp_path, [["a", 1, 1, 0], ["b", 0, 0, 1]], labels=["fear", "none", "anger", "joy"])
        assert label_names(rows) == ["fear", "none", "anger", "joy"] and rows["labels"][:] == [2, 0]
        assert shares(rows) == [[0, 0, 0.5, 0.5], [1, 0, 0, 0]]

    def test_rows_that_are_no_votes(self, tmp_path, caplog):
        for row, options, reason in (
            (["x", -1, 2, 0], {}, r"votes must be numbers, 0 or more, got .'-1'"),
            (["x", "two", "", 1], {}, r"got .'two', '', '1'"),
            (["x", "inf", 0, 1], {}, "numbers, 0 or more"),
            (["x", 0, 0, 0], {}, "all votes are 0"),
            (["x", 0.5, 0.1, 0.1], {}, "must sum to 1, got 0.7"),
            (["x", 3, 0, 0, 2], {"annotators": "people"}, r"whole numbers up to 'people', got \[3.0"),
            (["x", 0.5, 0, 0, 2], {"annotators": "people"}, "whole numbers.*0.5"),
            (["x", 0, 0, 0, 0], {"annotators": "people"}, "up to 'people', got .* of '0'"),
            (["x", 2, 0, 0], {"multi_label": True}, r"\[0, 1\], got 2.*`annotators`"),
        ):
            header = PEOPLE if options.get("annotators") else ["text", *VOTES]
            good = {5: ["good", 2, 1, 0, 3], 4: ["good", 1, 0, 0]}[len(row)]
            with pytest.raises(ValueError, match=f"train.csv, line 2: .*{reason}"):
                load(tmp_path, [row, good], header, **options)
            caplog.clear()
            rows = load(tmp_path, [row, good, ["better", *good[1:]]], header, on_bad_rows="skip", **options)
            assert rows["text"][:] == ["good", "better"] and "1 bad rows skipped" in caplog.text

    def test_a_number_that_is_missing(self, tmp_path):
        write_jsonl(tmp_path / "train.jsonl", [{"text": "a", "joy": None, "anger": 1, "fear": 0}])
        message = r"train\.jsonl, line 1: votes must be numbers, 0 or more, got \[None, 1, 0\] \(correct the row, or"
        with pytest.raises(ValueError, match=message):
            load_dataset_for("files", tmp_path, votes=VOTES)

    def test_options_that_do_not_go_together(self, tmp_path):
        for options, message in (
            ({"votes": "joy"}, "`votes` must be a list"),
            ({"votes": ["joy", "joy"]}, "`votes` must be different names"),
            ({"votes": ["joy", "angr"]}, "no column 'angr'"),
            ({"votes": None, "annotators": "people"}, "`annotators` and `multi_label` need `votes`"),
            ({"votes": None, "multi_label": True}, "`annotators` and `multi_label` need `votes`"),
            ({"annotators": "joy"}, "`annotators` and `votes` name the same column"),
            ({"label_columns": VOTES}, "come from `votes`.*leave out `label_columns`"),
            ({"label_separator": "|"}, "leave out `label_separator`"),
            ({"labels": ["joy", "angry", "fear"]}, r"\['anger'\] of `votes` are not among `labels`"),
        ):
            with pytest.raises(ValueError, match=message):
                load(tmp_path, [["a", 1, 0, 0]], **options)


def raw_goemotions(folder: Path, raters: list[tuple[str, str, list[str]]]) -> Path:
    """GoEmotions with raw annotations: (comment id, very unclear, labels) for each rater."""
    (folder / "goemotions").mkdir()
    parts = {"train": 'fine\t17\tab1\nnice, "so"\t0,2\tab2\n', "dev": "well\t27\tab3\n", "test": "hm\t27\tab3\n"}
    for part, rows in parts.items():
        (folder / "goemotions" / f"{part}.tsv").write_text(rows)
    header = "text id author subreddit link_id parent_id created_utc rater_id example_very_unclear".split()
    for number in (1, 2, 3):
        rows = []
        for comment, unclear, labels in raters[number - 1 :: 3]:
            flags = [int(name in labels) for name in GOEMOTIONS]
            rows.append(["two\nlines", comment, *"aslp", "1.5", number, unclear, *flags])
        write_csv(folder / "goemotions" / f"goemotions_{number}.csv", [*header, *GOEMOTIONS], rows)
    return folder


RATERS = [
    *(("ab1", "False", labels) for labels in (["joy"], ["joy", "love"], ["neutral"], ["joy"])),
    *(("ab2", "False", ["admiration", "anger"]), ("ab2", "True", []), ("ab3", "False", ["neutral"])),
]


def test_raw_goemotions(tmp_path):
    folder = raw_goemotions(tmp_path, RATERS)
    train = load_dataset_for("goemotions", folder, votes=True)["train"]
    assert train["labels"][:] == [[17], [0, 2]] and train["annotators"][:] == [4, 1]  # unclear: no vote
    given = {name: share for name, share in zip(GOEMOTIONS, train[0]["votes"], strict=True) if share}
    assert given == {"joy": 0.75, "love": 0.25, "neutral": 0.25}
    ekman = load_dataset_for("goemotions", folder, votes=True, taxonomy="ekman")["train"]
    names = label_names(ekman)
    assert ekman[0]["votes"][names.index("joy")] == 0.75  # joy or love, once for each rater
    assert load_dataset_for("goemotions", folder)["train"].column_names == ["id", "text", "labels"]


def test_raw_goemotions_that_are_not_there(tmp_path):
    folder = raw_goemotions(tmp_path, [rater for rater in RATERS if rater[0] != "ab2"])
    message = "train.tsv, line 2: malformed .the raw annotations have no rater of the comment 'ab2'"
    with pytest.raises(ValueError, match=message):
        load_dataset_for("goemotions", folder, votes=True)
    with pytest.raises(ValueError, match="`everyday_copies` must be 0 or more, and 0 with `votes`"):
        load_dataset_for("goemotions", folder, votes=True, everyday_copies=1)
    path = folder / "goemotions" / "goemotions_2.csv"
    path.write_text("text,id\na,b\n")
    with pytest.raises(ValueError, match=f"{re.escape(str(path))}, line 2: malformed .KeyError"):
        load_dataset_for("goemotions", folder, votes=True)
    path.unlink()
    with pytest.raises(FileNotFoundError, match="goemotions_2.csv does not exist: download.*leave `votes` out"):
        load_dataset_for("goemotions", folder, votes=True)


def test_two_readers():
    splits = load_dataset_for("everyday", votes=True)
    plain = load_dataset_for("everyday")
    for split, readers in (("train", 1), ("validation", 1), ("test", 2)):
        rows = splits[split]
        assert set(rows["annotators"][:]) == {readers} and rows["labels"][:] == plain[split]["labels"][:]
        votes = np.asarray(rows["votes"][:])
        assert set(np.unique(votes)) == ({0, 0.5, 1} if readers == 2 else {0, 1})
        for own, labels in zip(votes, rows["labels"], strict=True):
            assert np.flatnonzero(own == 1).tolist() == labels
