# SPDX-License-Identifier: Apache-2.0
"""A classifier on other corpora, and on sentences that differ in a term of identity alone."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from toolkit_helpers import write_csv

from benchmarks.study.transfer import TEMPLATES, TERMS, ekman_groups, identity_terms, transfer
from hf_emotion.tasks import dialogue_emotion


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


def test_from_the_command_line(tiny_run, study, tmp_path, monkeypatch):
    folder = write_texts(tmp_path / "data", [["a", "joy"], ["b", "sadness"]])
    (line,) = study("transfer", tiny_run, "--dataset", "files", "--data-dir", folder).out.splitlines()
    assert json.loads(line)["rows"] == 2
    assert len(study("transfer", tiny_run).out.splitlines()) == len(TERMS)
    of_dialogues = SimpleNamespace(task=dialogue_emotion.TASK)
    monkeypatch.setattr("hf_emotion.inference.load_predictor", lambda checkpoint: of_dialogues)
    done = study("transfer", "x")
    assert done.code == 2 and "classifiers of texts" in done.err
