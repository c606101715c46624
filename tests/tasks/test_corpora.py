# SPDX-License-Identifier: Apache-2.0
"""The records of the corpora: whole, read by whoever needs them, and the only place that names a corpus."""

import hashlib
import os
import random
import re
from pathlib import Path
from unittest.mock import Mock

import aiohttp
import numpy as np
import pytest
from datasets import Dataset, load_from_disk
from fuzzing import CORPORA as FOLDERS
from fuzzing import write_corpora

import hf_emotion.tasks.dialogue_emotion.loading as dialogue
import hf_emotion.tasks.emotional_response.loading as reply
import hf_emotion.tasks.targeted_sentiment.loading as aspect
from hf_emotion import load_dataset_for, metrics
from hf_emotion.data.misspelling import misspell
from hf_emotion.data.splits import map_rows
from hf_emotion.tasks import corpora, corpus_of, labelled_corpora, packaged_corpus, task_of_columns, task_of_rows
from hf_emotion.tasks.corpus_metrics import single_label
from hf_emotion.tasks.rows import duplicates_between_splits


CORPORA, LABELLED = corpora(), labelled_corpora()


@pytest.mark.parametrize("name", CORPORA)
def test_a_record_is_whole(name):
    corpus = corpus_of(name)
    assert corpus.name == name and corpus.terms
    assert "data_dir" not in corpus_of(name).options
    assert all(callable(getattr(metrics, name)) for name in corpus.metrics)
    assert bool(corpus.languages) is not (corpus.own_files or name == "brighter")  # whose languages an option names
    if name in LABELLED and corpus.selection_metric not in ("pearson", "pair_f1"):  # of values, of terms
        names = ["neutral", "b", "c", "d", "e"][: 3 if name == "sentihood" else 5]
        scores = np.random.default_rng(0).dirichlet(np.ones(len(names)), size=40)
        found = single_label(name, np.arange(40) % len(names), scores, names)
        assert isinstance(found[corpus.selection_metric], float)


def test_the_epoch_is_chosen_by_the_metric_that_papers_compare():
    chosen = {name: corpus_of(name).selection_metric for name in LABELLED}
    others = {"sentihood": "strict_accuracy", "semeval2014": "accuracy", "daily_dialog": "micro_f1_without_neutral"}
    others |= dict.fromkeys(("meld", "emorynlp"), "weighted_f1") | {"emotion6": "accuracy", "emobank": "pearson"}
    others |= dict.fromkeys(("semeval2014_terms", "review_terms", "term_files"), "pair_f1")
    assert chosen == dict.fromkeys(LABELLED, "macro_f1") | others


def test_unknown_names_get_the_nearest_and_rows_of_no_task_their_columns():
    with pytest.raises(ValueError, match="'goemotion'.*'goemotions'"):
        corpus_of("goemotion")
    rows = Dataset.from_dict({"sentence": ["a day"], "label": [0]})
    with pytest.raises(ValueError, match=r"columns \['sentence', 'label'\], .*texts \['text'\]"):
        task_of_columns(rows.column_names)
    with pytest.raises(ValueError, match="do not say which task"):
        task_of_rows(rows)


def test_exports_are_checked_with_the_corpus_of_emotions_in_english():
    assert packaged_corpus() == "quickstart"


def test_rows_on_disk_get_no_file_beside_them(tmp_path):
    Dataset.from_dict({"text": ["a day", "home"]}).save_to_disk(tmp_path / "rows")
    before = os.listdir(tmp_path / "rows")
    rows = map_rows(load_from_disk(tmp_path / "rows"), lambda row: {"length": len(row["text"])})
    assert rows["length"][:] == [5, 4] and os.listdir(tmp_path / "rows") == before


@pytest.mark.parametrize("name", FOLDERS)
def test_files_that_are_missing_or_no_utf8(name, tmp_path):
    options = {"corpora": ["meld"]} if name == "conversations" else {}
    with pytest.raises(FileNotFoundError, match=f"`data_dir` must hold the folder `{FOLDERS[name]}`"):
        load_dataset_for(name, tmp_path, **options)
    write_corpora(tmp_path)
    paths = sorted((tmp_path / FOLDERS[name]).iterdir())
    if name == "iemocap":  # whose files may be in Latin-1
        paths = sorted(tmp_path.rglob("Session3/dialog/EmoEvaluation/*"))
    path = paths[-1]
    if name not in ("iemocap", "semeval2014"):  # XML names its encoding
        path.write_bytes(b"\xff\xfe" + path.read_bytes())
        with pytest.raises(ValueError, match=f"{re.escape(str(path))}, line 1 is not UTF-8"):
            load_dataset_for(name, tmp_path, **options)
    path.unlink()
    with pytest.raises(FileNotFoundError, match=re.escape(path.name)):
        load_dataset_for(name, tmp_path, **options)


# {file: (what stands in a line, what is written instead, the place that is named)}
MALFORMED = {
    "goemotions/dev.tsv": ("\t2,3\t", "\t2,28\t", "line 2"),
    "emotion6/val.txt": (";sadness", ";sorrow", "line 2"),
    "sentihood/sentihood-test.json": ('"opinions"', '"opinion"', "sentence 1"),
    "semeval2014/Restaurants_Train.xml": ("polarity=", "polar=", r"sentence \d"),
    "meld/test_sent_emo.csv": (",joy,", ",glee,", r"line \d"),
    "emorynlp/emorynlp_dev_final.csv": ("[", "", "line 2"),
    "daily_dialog/dialogues_emotion_test.txt": (" ", " 7 ", "line 1"),
    "iemocap/Session5/dialog/transcriptions/Ses05F_impro01.txt": (" [", " ", r"line \d"),
    "mojitalk/test.ori": ("😭 ", "", "line 2"),
    "empathetic_dialogues/valid.jsonl": ('"joyful"', '"glee"', "line 1"),
    "empathetic_dialogues/valid.csv": ("joyful", "glee", "line 2"),
    "emobank/emobank.csv": (",dev,", ",tune,", "line 5"),
    "tweeteval/emoji/val_labels.txt": ("19", "20", "line 2"),
}


@pytest.mark.parametrize("file", MALFORMED)
def test_malformed_lines(file, tmp_path):
    write_corpora(tmp_path)
    write_tweets(tmp_path)
    if file.endswith("valid.csv"):
        for path in sorted((tmp_path / "empathetic_dialogues").iterdir()):
            path.unlink()
            row = "c1,1,joyful,p,1,so happy,5,\nc1,2,joyful,p,2,me too,5,\n"
            path.with_suffix(".csv").write_text(f"{','.join(reply.EMPATHETIC_COLUMNS)}\n{row}")
    old, new, place = MALFORMED[file]
    path = tmp_path / file
    content = path.read_text(encoding="utf-8")
    assert old in content
    path.write_text(content.replace(old, new, 1), encoding="utf-8")
    name = file.split("/")[0].replace("tweeteval", "tweet_emoji")
    # Of two files for one part the first is named.
    named = file.replace("_emotion_", "_").replace("_labels", "_text")
    with pytest.raises(ValueError, match=rf"{named}, {place}: malformed \(.+\): use the corpus' own file") as caught:
        load_dataset_for(name, tmp_path)
    assert type(caught.value) is ValueError and "on_bad_rows" not in corpus_of(name).options


ABSA = "https://raw.githubusercontent.com/HSLCY/ABSA-BERT-pair/7d238eb8c772946b9e572373c144b11151e4187f/data"
MELD_DATA = "https://raw.githubusercontent.com/declare-lab/MELD/2d2011b409d3ca2d7e94460cd007d434b1d0a102/data"
ADDRESSES = {
    "sentihood": (aspect, f"{ABSA}/sentihood"),
    "semeval2014": (aspect, f"{ABSA}/semeval2014"),
    "meld": (dialogue, f"{MELD_DATA}/MELD"),
    "emorynlp": (dialogue, f"{MELD_DATA}/emorynlp"),
}


@pytest.mark.parametrize("name", ADDRESSES)
def test_downloads(name, tmp_path, monkeypatch):
    module, address = ADDRESSES[name]
    folder, asked = write_corpora(tmp_path) / name, []
    expected = load_dataset_for(name, tmp_path)

    class FromFolder:
        def __init__(self, download_config):
            assert not download_config.use_etag  # otherwise the cache is of no use offline

        def download(self, asked_for):
            asked.append(asked_for)
            cached = tmp_path / hashlib.sha256(asked_for.encode()).hexdigest()  # whose files have no ending
            cached.write_bytes((folder / asked_for.rpartition("/")[2]).read_bytes())
            return str(cached)

    sums = {file: hashlib.sha256((folder / file).read_bytes()).hexdigest() for file in module.FILES[name]}
    monkeypatch.delenv("HF_EMOTION_DATA", raising=False)
    monkeypatch.setattr("datasets.DownloadManager", FromFolder)
    monkeypatch.setitem(module.FILES, name, sums)
    found = load_dataset_for(name)
    assert all(found[split][:] == expected[split][:] for split in expected)
    assert sorted(asked) == sorted(f"{address}/{path.name}" for path in folder.iterdir())
    path = folder / asked[0].rpartition("/")[2]
    path.write_bytes(path.read_bytes() + b" ")
    with pytest.raises(OSError, match=f"{path.name} was not downloaded whole .*SHA-256.*HF_EMOTION_DATA"):
        load_dataset_for(name)
    for error in (FileNotFoundError("gone"), TimeoutError(), aiohttp.ClientPayloadError("cut off")):
        monkeypatch.setattr(FromFolder, "download", Mock(side_effect=error))
        with pytest.raises(OSError, match=f"cannot download {address}/{path.name} .*`data_dir` or HF_EMOTION_DATA"):
            load_dataset_for(name)


def write_tweets(root: Path) -> Path:
    for stem in ("train", "val", "test"):
        path = root / "tweeteval" / "emoji" / f"{stem}_text.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("a day &amp; night \n  b\ufe0f\n", encoding="utf-8", newline="")
        path.with_name(f"{stem}_labels.txt").write_text("0\n19\n", encoding="utf-8")
    return root


def test_tweets_of_emojis(tmp_path):
    train = load_dataset_for("tweet_emoji", write_tweets(tmp_path))["train"]
    names = train.features["labels"].names
    assert train["text"][:] == ["a day & night", "b"]
    assert [names[i] for i in train["labels"]] == ["red_heart", "winking_with_tongue"] and len(set(names)) == 20


def counts_of(*names: str):
    return lambda *numbers: dict(zip(names, numbers, strict=True))


# (corpus, options, rows, labels that were counted, texts of two parts or in one twice): published figures, or counted once.
SIX = counts_of("joy", "sadness", "anger", "fear", "love", "surprise")
EKMAN = counts_of("anger", "disgust", "fear", "joy", "sadness", "surprise")
MELD = counts_of("neutral", "joy", "surprise", "anger", "sadness", "disgust", "fear")
EMORYNLP = counts_of("neutral", "joyful", "peaceful", "powerful", "scared", "mad", "sad")
DAILY_DIALOG = counts_of("neutral", "anger", "disgust", "fear", "happiness", "sadness", "surprise")
POLARITIES = counts_of("positive", "negative", "neutral", "conflict", "none")
HOOD = counts_of("none", "positive", "negative")
TERMS = counts_of("B-positive", "B-negative", "B-neutral")
FOUR = counts_of("angry", "happy", "neutral", "sad")
GOEMOTIONS = counts_of("neutral", "admiration", "grief", "pride", "relief")
REAL = {
    # 3,608 of 3,699 terms for training, and 1,120 of 1,134: without those of the polarity conflict.
    "semeval2014_terms": ({}, (2739, 305, 800), {"train": TERMS(1947, 729, 575), "test": TERMS(728, 196, 196)}),
    "review_terms": ({}, (4123, 200, 200), {"test": TERMS(97, 81, 38)}),
    "goemotions": ({}, (43410, 5426, 5427), {"train": GOEMOTIONS(14219, 4130, 77, 111, 153)}),
    "emotion6": ({}, (16000, 2000, 2000), {"train": SIX(5362, 4666, 2159, 1937, 1304, 572)}),
    "brighter": (
        *({"languages": ["eng", "deu", "esp"]}, (7363, 499, 5369)),  # no Spanish test part
        {"train": EKMAN(1593, 1486, 2166, 1857, 1701, 1419), "test": EKMAN(1097, 825, 1788, 1228, 1398, 960)},
    ),
    "sentihood": ({}, (15008, 3748, 7516), {"train": HOOD(12548, 1626, 834), "test": HOOD(6300, 810, 406)}),
    "semeval2014": ({}, (13695, 1525, 4000), {"test": POLARITIES(657, 222, 94, 52, 2975)}),
    "meld": ({}, (1038, 114, 280), {"train": MELD(4710, 1743, 1205, 1109, 683, 271, 268)}),
    "meld, four classes": ({"four_classes": True}, (1038, 114, 280), {"test": FOUR(345, 402, 1256, 208)}),
    "emorynlp": ({}, (659, 89, 79), {"train": EMORYNLP(2485, 1677, 638, 551, 941, 785, 474)}),
    "emorynlp, four classes": ({"four_classes": True}, (659, 89, 79), {"test": FOUR(86, 217, 288, 70)}),
    # Without the one dialogue of 12 utterances and 11 labels, all neutral: 72143 are published.
    "daily_dialog": ({}, (11117, 1000, 1000), {"train": DAILY_DIALOG(72132, 827, 303, 146, 11182, 969, 1600)}),
    "daily_dialog, four classes": ({"four_classes": True}, (11117, 1000, 1000), {"test": FOUR(118, 1019, 6321, 102)}),
    # One turn less for each dialogue.
    "daily_dialog_replies": ({}, (76042, 7069, 6740), {"test": {"neutral": 5454}}),
    "empathetic_dialogues": ({}, (40252, 5736, 5257), {}),
    "tweet_emoji": ({}, (45000, 5000, 50000), {"train": {"red_heart": 9204}}),
}
DUPLICATES = {
    "semeval2014_terms": {"train & test": 1},
    "review_terms": dict.fromkeys(("train & test", "train & validation", "validation & test"), 0),
    "goemotions": {"train & test": 32, "train & validation": 41, "validation & test": 10},
    "emotion6": {"repeated in train": 31, "train & validation": 5, "train & test": 11, "validation & test": 3},
    "brighter": {"repeated in train": 6, "train & test": 1},
    "sentihood": {"train & test": 34, "train & validation": 24, "validation & test": 5},
    "semeval2014": {"repeated in train": 5, "train & validation": 0, "train & test": 1},
}


@pytest.mark.real_data
@pytest.mark.skipif("HF_EMOTION_DATA" not in os.environ, reason="HF_EMOTION_DATA names no folder with the corpora")
@pytest.mark.parametrize("case", REAL)
def test_the_corpora_themselves(case):
    options, rows, labels = REAL[case]
    splits = load_dataset_for(case.partition(",")[0], **options)
    assert tuple(len(splits[split]) for split in ("train", "validation", "test")) == rows
    for split, dataset in splits.items():
        assert len(set(dataset["id"])) == len(dataset)
        feature = dataset.features["labels"]
        names = getattr(feature, "feature", feature).names
        ids = np.concatenate([np.atleast_1d(value) for value in dataset["labels"]]).astype(int)
        found = dict(zip(names, np.bincount(ids[ids >= 0], minlength=len(names)).tolist(), strict=True))
        wanted = labels.get(split, {})
        assert {label: found[label] for label in wanted} == wanted
    duplicates, report = DUPLICATES.get(case, {}), duplicates_between_splits(task_of_rows(dataset), splits)
    assert {pair: report[pair] for pair in duplicates} == duplicates


def test_misspelt_training_rows():
    """A share of the training rows gets typing errors: all rows of a text the same ones, and words keep their places and tags."""
    clean, found = (load_dataset_for("review_terms", **options) for options in ({}, {"misspelt": 0.3}))
    pairs = [*zip(clean["train"], found["train"], strict=True)]
    changed = [(a, b) for a, b in pairs if a["text"].lower() != b["text"].lower()]
    assert 0.15 < len(changed) / len(pairs) < 0.3  # short texts may keep all their words
    for before, after in changed:
        first, second = ([row["text"][start:end].lower() for start, end in row["words"]] for row in (before, after))
        assert [word[0] for word in first] == [word[0] for word in second] and first != second
        assert len(before["words"]) == len(after["words"]) and before["labels"] == after["labels"]
    assert (
        clean["test"]["text"] == found["test"]["text"] and clean["validation"]["text"] == found["validation"]["text"]
    )
    assert found["train"].features == clean["train"].features
    of_text: dict[str, set[str]] = {}
    for row in load_dataset_for("reviews", misspelt=0.3)["train"]:
        of_text.setdefault(row["id"].rpartition("/")[0], set()).add(row["text"])
    assert {len(texts) for texts in of_text.values()} == {1}
    with pytest.raises(ValueError, match=r"`misspelt` is a share of the training rows, 0 to 1; got 3"):
        load_dataset_for("reviews", misspelt=3)
    with pytest.raises(ValueError, match="`misspelt` needs rows with one text each"):
        load_dataset_for("quickstart_replies", misspelt=0.1)
    wrong = {misspell("[NAME] can't", 1, random.Random(seed)) for seed in range(99)}
    assert wrong > {"[NAME] cant", "[NAME] cann't"}
