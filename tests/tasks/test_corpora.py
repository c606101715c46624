# SPDX-License-Identifier: Apache-2.0
"""The records of the corpora: whole, read by whoever needs them, and the only place that names a corpus."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from datasets import Dataset
from fuzzing import CORPORA as FOLDERS
from fuzzing import write_corpora

from hf_emotion import load_dataset_for, metrics
from hf_emotion.tasks import corpora, corpus_of, labelled_corpora, options_of, task_of_rows
from hf_emotion.tasks.measures import single_label


CORPORA, LABELLED = corpora(), labelled_corpora()


@pytest.mark.parametrize("name", CORPORA)
def test_a_record_is_whole(name):
    corpus = corpus_of(name)
    assert corpus.name == name and corpus.terms
    assert "data_dir" not in options_of(name)
    assert all(callable(getattr(metrics, name)) for name in corpus.metrics)
    assert bool(corpus.languages) is not corpus.own_files


def test_the_selection_metric_is_one_that_is_measured():
    labels, rng = np.arange(40) % 5, np.random.default_rng(0)
    for name in LABELLED:
        count = {"sentihood": 3}.get(name, 5)
        scores = rng.dirichlet(np.ones(count), size=40)
        names = ["neutral", "b", "c", "d", "e"][:count]
        found = single_label(name, labels % count, scores, names)
        assert isinstance(found[corpus_of(name).selection_metric], float), name


def test_unknown_names_get_the_nearest():
    with pytest.raises(ValueError, match="'goemotion'.*'goemotions'"):
        corpus_of("goemotion")


def test_rows_of_no_task_are_named_by_their_columns():
    rows = Dataset.from_dict({"sentence": ["a day"], "label": [0]})
    with pytest.raises(ValueError, match=r"columns \['sentence', 'label'\], .*texts \['text'\]"):
        task_of_rows(rows)


def test_the_corpora_are_listed_without_heavy_libraries():
    heavy = ["datasets", "torch", "transformers", "sklearn", "scipy", "pandas", "pyarrow"]
    code = f"import sys, hf_emotion.tasks; print([name for name in {heavy} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


@pytest.mark.parametrize("name", FOLDERS)
def test_files_that_are_missing_or_no_utf8(name, tmp_path):
    options = {"corpora": ["meld"]} if name == "conversations" else {}
    with pytest.raises(FileNotFoundError, match=f"`data_dir` must hold the folder `{FOLDERS[name]}`"):
        load_dataset_for(name, tmp_path, **options)
    write_corpora(tmp_path)
    paths = sorted((tmp_path / FOLDERS[name]).iterdir())
    if name == "iemocap":  # whose files may be in Latin-1
        paths = sorted(tmp_path.rglob("Session3/dialog/EmoEvaluation/*"))
    for path in paths:
        content = path.read_bytes()
        if name not in ("iemocap", "semeval2014"):  # XML names its encoding
            path.write_bytes(b"\xff\xfe" + content)
            with pytest.raises(ValueError, match=f"{re.escape(str(path))} is not UTF-8 text"):
                load_dataset_for(name, tmp_path, **options)
        path.unlink()
        with pytest.raises(FileNotFoundError, match=re.escape(path.name)):
            load_dataset_for(name, tmp_path, **options)
        path.write_bytes(content)


class TestTweetEmoji:
    @staticmethod
    def folder(root: Path, texts: str = "a day &amp; night \n  b\ufe0f\n", labels: str = "0\n19\n") -> Path:
        (root / "tweeteval" / "emoji").mkdir(parents=True)
        for stem in ("train", "val", "test"):
            for kind, content in (("text", texts), ("labels", labels)):
                path = root / "tweeteval" / "emoji" / f"{stem}_{kind}.txt"
                path.write_text(content, encoding="utf-8", newline="")
        return root

    def test_rows(self, tmp_path):
        train = load_dataset_for("tweet_emoji", self.folder(tmp_path))["train"]
        names = train.features["labels"].names
        assert train["text"][:] == ["a day & night", "b"]
        assert [names[i] for i in train["labels"]] == ["red_heart", "winking_with_tongue"] and len(set(names)) == 20

    @pytest.mark.parametrize("labels, reason", [("0\n20\n", "line 2: .*'20'"), ("0\n", "has 2 lines and .* 1")])
    def test_errors(self, tmp_path, labels, reason):
        with pytest.raises(ValueError, match=reason):
            load_dataset_for("tweet_emoji", self.folder(tmp_path, labels=labels))

    @pytest.mark.real_data
    @pytest.mark.skipif("HF_EMOTION_DATA" not in os.environ, reason="HF_EMOTION_DATA names no folder")
    def test_the_corpus(self):
        splits = load_dataset_for("tweet_emoji")
        assert {split: len(rows) for split, rows in splits.items()} == {
            "train": 45_000,
            "validation": 5_000,
            "test": 50_000,
        }
        counts = np.bincount(splits["train"]["labels"], minlength=20)
        assert (counts[0], counts.min()) == (9_204, 934)
