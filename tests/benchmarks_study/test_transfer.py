# SPDX-License-Identifier: Apache-2.0
"""A classifier on other corpora, in other languages, and on sentences that differ in a term of identity alone."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from toolkit_helpers import cells, write_csv

from benchmarks.study.transfer import (
    FIGURES,
    TEMPLATES,
    TERMS,
    ekman_groups,
    identity_terms,
    measure_languages,
    table,
    transfer,
)
from hf_emotion.data.rows import packaged_rows
from hf_emotion.runtime.unread import Unread
from hf_emotion.tasks import dialogue_emotion, emotion_classification
from hf_emotion.taxonomies import GOEMOTIONS


pytest_plugins = ["toolkit_fixtures"]


class Stub:
    """A classifier that says what `table` holds for a text."""

    def __init__(self, labels, table, multi_label=True):
        self.labels, self.table, self.multi_label, self.read = labels, table, multi_label, []

    def label_probabilities(self, texts, progress=False):
        self.read += texts
        return np.array([self.table(text) for text in texts], dtype=np.float64)

    def decide(self, probabilities):
        return probabilities > 0.5


def write_texts(folder, rows):
    folder.mkdir()
    for part in ("train", "validation", "test"):
        write_csv(folder / f"{part}.csv", ["text", "label"], rows)
    return folder


ROWS = [["a", "love"], ["b", "sadness"], ["c", "joy|sadness"], ["d", "joy|love"], ["e", "envy"], ["f", "sadness"]]
OPTIONS = {"label_separator": "|", "labels": ["joy", "love", "sadness", "envy"]}


def test_groups_of_both_sides(tmp_path):
    # Of c there are two groups, of e none: left out. The most probable label of a group speaks for it.
    scores = {
        "a": [0.4, 0.3, 0.5, 0.9],  # grief 0.5 against amusement 0.4: wrong; anger is not in the corpus
        "b": [0.4, 0.4, 0.5, 0.0],  # right
        "d": [0.6, 0.1, 0.5, 0.0],  # right
        "f": [0.7, 0.7, 0.1, 0.0],  # wrong
    }
    model = Stub(["amusement", "caring", "grief", "anger"], scores.__getitem__)
    found = transfer(model, "files", write_texts(tmp_path / "data", ROWS), options=OPTIONS)
    assert model.read == ["a", "b", "d", "f"]
    assert found["groups"] == ["joy", "sadness"] and (found["rows"], found["left_out"]) == (4, 2)
    assert found["accuracy"] == 0.5 and found["majority"] == 0.5
    assert found["macro_f1"] == pytest.approx(0.5)


def test_errors(tmp_path, corpora):
    model = Stub(["joy", "sadness"], lambda text: [0.5, 0.5])
    with pytest.raises(ValueError, match="'sentihood' has no texts with emotions"):
        transfer(model, "sentihood", corpora)
    folder = write_texts(tmp_path / "data", [["a", "joy"], ["b", "envy"]])
    with pytest.raises(ValueError, match=r"share the groups \['joy'\]"):
        transfer(model, "files", folder)


def test_labels_of_the_corpora_have_groups():
    known = "sadness joy love anger fear surprise neutral disgust Joyful Mad Neutral Peaceful Powerful Sad Scared happiness no_emotion"
    assert None not in ekman_groups(known.split())
    assert ekman_groups(["envy"]) == [None]


def test_a_model_that_reacts_to_one_term_in_one_sentence():
    text = TEMPLATES[1].format("Muslim")
    model = Stub(["joy", "anger"], lambda given: [0.2, 0.9 if given == text else 0.1])
    found = identity_terms(model)
    largest = found["religion"]["largest"]
    assert (largest["label"], largest["template"], largest["terms"][0]) == ("anger", TEMPLATES[1], "Muslim")
    assert largest["range"] == pytest.approx(0.8)
    assert found["religion"]["mean_range"] == pytest.approx(0.8 / (len(TEMPLATES) * 2))
    assert found["religion"]["changed"] == pytest.approx(1 / len(TEMPLATES))
    assert all(found[kind]["mean_range"] == 0 for kind in TERMS if kind != "religion")


class Polyglot(Stub):
    """It knows English, is half sure in Spanish, and reads nothing else. Its labels are in an order of their own."""

    regression = False
    task, model = emotion_classification.TASK, SimpleNamespace(config=SimpleNamespace())

    def __init__(self):
        sure, rows = {"en": 0.9, "es": 0.4}, {row["text"]: row for _, row in packaged_rows("languages", "test")}
        labels = GOEMOTIONS[::-1]
        scores = {
            text: [sure.get(row["language"], 0) * (x in row["labels"]) for x in labels] for text, row in rows.items()
        }
        super().__init__(labels, scores.__getitem__)

    def encode(self, texts):
        unknown = np.array([float(not any(self.table(text))) for text in texts])
        return SimpleNamespace(texts=texts, unread=Unread.nothing(len(texts))._replace(unknown=unknown))

    def label_probabilities(self, encoded):
        return super().label_probabilities(encoded.texts)


def test_each_language_by_itself():
    found = measure_languages(Polyglot())
    assert list(found) == ["en", "de", "es", "fr", "pt", "ru"]
    assert {figures["rows"] for figures in found.values()} == {84}
    read = {language: [figures[name] for name in FIGURES] for language, figures in found.items()}
    assert read["en"] == [1, 1, 1] and read["es"] == [0, 1, 1]
    assert read["de"][:2] == [0, 0] and read["de"][2] < 0.1
    assert [found[language]["unknown"] for language in ("en", "es", "de")] == [0, 0, 84]
    rows = table({"a": found, "b": found}).rows
    assert [row[:2] for row in rows[5:7]] == [["a", "ru"], ["b", "en"]]
    assert rows[2][2:] == ["0.000 (-1.000)", "1.000 (+0.000)", "1.000 (+0.000)", "0 of 84"]


def test_languages_from_the_command_line(tiny_run, single_run, argv, study, tmp_path):
    shown = cells(study("languages", tiny_run, tiny_run, "--output", tmp_path / "languages.json").out)
    found = json.loads((tmp_path / "languages.json").read_text())[str(tiny_run)]
    assert len(shown) == 1 + 6 and found["ru"]["unknown"] == 84
    options = ("--dataset", "languages", "--option", "language=en", "--json")
    evaluated = json.loads(argv("evaluate", tiny_run, *options).out)["metrics"]
    assert evaluated["tuned"]["macro_f1"] == found["en"]["macro_f1_stored"]
    assert evaluated["fixed"]["macro_f1"] == found["en"]["macro_f1_fixed"]
    done = study("languages", single_run)
    assert done.code == 1 and "the labels of languages and of the checkpoint differ" in done.err


def test_from_the_command_line(tiny_run, study, tmp_path, monkeypatch):
    folder = write_texts(tmp_path / "data", [["a", "joy"], ["b", "sadness"]])
    (line,) = study("transfer", tiny_run, "--dataset", "files", "--data-dir", folder).out.splitlines()
    assert json.loads(line)["rows"] == 2
    assert len(study("transfer", tiny_run).out.splitlines()) == len(TERMS)
    of_dialogues = SimpleNamespace(task=dialogue_emotion.TASK)
    monkeypatch.setattr("hf_emotion.inference.load_predictor", lambda checkpoint: of_dialogues)
    done = study("transfer", "x")
    assert done.code == 2 and "classifiers of texts" in done.err
