# SPDX-License-Identifier: Apache-2.0
"""Labels left out and added by name."""

import inspect
import json

import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score, roc_auc_score

from benchmarks.study import zero_shot as module
from benchmarks.study.zero_shot import thresholds_of, zero_shot
from hf_emotion import Predictor, load_dataset_for
from hf_emotion.taxonomies import GOEMOTIONS


pytest_plugins = ["toolkit_fixtures"]


@pytest.fixture(scope="module")
def result(tied_run, base_bert):
    """The study over the quickstart corpus, and what each head was trained on: (label vectors, gold, kept rows, encoder)."""
    heads = []
    train_head = module.train_head

    def watch(model, states, gold, keep, epochs, seed):
        encoder = [parameter.clone() for parameter in model.bert.encoder.parameters()]
        train_head(model, states, gold, keep, epochs, seed)
        unchanged = all(torch.equal(a, b) for a, b in zip(encoder, model.bert.encoder.parameters(), strict=True))
        heads.append((len(model.bert.score.label_embeddings), gold.shape[1], keep, unchanged))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "train_head", watch)
        found = zero_shot(
            tied_run, dataset="quickstart", base_encoder=str(base_bert), epochs=1, train_fraction=0.5, max_length=32
        )
    return found, heads


def test_every_label_is_left_out_with_all_its_rows_under_a_frozen_encoder(result):
    found, heads = result
    assert found["train_rows"] == 290 and len(heads) == 28
    train = load_dataset_for("quickstart")["train"].shuffle(seed=0).select(range(290))
    for label, (vectors, columns, keep, unchanged) in enumerate(heads):
        assert vectors == columns == 27
        assert keep.tolist() == [label not in ids for ids in train["labels"]]
        assert unchanged


def test_scores_and_controls(result, tied_run):
    found, _ = result
    assert list(found["labels"]) == GOEMOTIONS
    test = load_dataset_for("quickstart")["test"]
    scores = Predictor(tied_run, max_length=32, device="cpu").probabilities(test["text"])
    for number, row in enumerate(found["labels"].values()):
        gold = np.array([number in ids for ids in test["labels"]])
        assert row["rows"] == gold.sum()
        assert row["trained"] == pytest.approx(roc_auc_score(gold, scores[:, number]))
        assert all(0 <= row[kind] <= 1 for kind in ("added_by_name", "shuffled_name", "cosine"))
    # Each name is given to one other label, none to its own.
    wrong = {name: row["wrong_name"] for name, row in found["labels"].items()}
    assert sorted(wrong.values()) == sorted(GOEMOTIONS)
    assert all(name != other for name, other in wrong.items())
    limits = Predictor(tied_run, max_length=32, device="cpu").thresholds
    for number, row in enumerate(found["labels"].values()):
        gold = np.array([number in ids for ids in test["labels"]])
        f1 = f1_score(gold, scores[:, number] > limits[number], zero_division=0)
        assert row["f1"]["trained"] == {"tuned": pytest.approx(f1)}
    assert set(found["over_labels"]["f1"]["added_by_name"]) == {"rate", "packaged", "mean", "half"}
    by_name = [row["f1"]["added_by_name"]["rate"] for row in found["labels"].values()]
    assert found["over_labels"]["f1"]["added_by_name"]["rate"] == pytest.approx(np.mean(by_name))
    mean = sum(row["cosine"] for row in found["labels"].values()) / 28
    assert found["over_labels"]["cosine"]["mean"] == pytest.approx(mean)


def test_thresholds_come_from_the_texts_of_each_part():
    """On any scale: 100 texts, of which the known labels are given to 10, 20 and 60."""
    known = {part: np.linspace(0, 1, 101)[1:, None] - [0.4, 0.3, -0.1] for part in ("validation", "packaged")}
    scores = {"validation": np.linspace(-2, -1, 100), "packaged": np.linspace(5, 6, 100)}
    found = thresholds_of(scores, known, [0.5 + 1e-6, 0.5 + 1e-6, 0.5 + 1e-6])
    assert {
        part: int((scores[part] > found[rule]).sum())
        for part, rule in (("validation", "rate"), ("packaged", "packaged"))
    } == {"validation": 20, "packaged": 20}
    assert found["half"] == 0.5 and found["mean"] == pytest.approx(0.5, abs=1e-5)


def test_the_command_prints_and_writes_the_table(result, tied_run, tmp_path, monkeypatch, study):
    found, _ = result
    given = []

    def measure(*arguments, **options):
        given.append(inspect.signature(zero_shot).bind(*arguments, **options).arguments)
        return found

    monkeypatch.setattr(module, "zero_shot", measure)
    options = ["--dataset", "quickstart", "--epochs", 1, "--output", tmp_path / "labels.json"]
    first, second = study("zero-shot", tied_run, *options).out.split("\n\n")
    header, *rows = first.splitlines()
    at = {row.split()[0]: row.split()[1:] for row in second.splitlines()[1:]}
    assert list(at) == ["rate", "packaged", "mean", "half", "tuned"]
    means = found["over_labels"]["f1"]
    assert at["rate"] == [f"{means[kind]['rate']:.3f}" for kind in ("added_by_name", "shuffled_name", "cosine")]
    assert (given[0]["run"], given[0]["dataset"], given[0]["epochs"]) == (str(tied_run), "quickstart", 1)
    assert [row.split()[0] for row in rows] == [*GOEMOTIONS, "mean"] and "by name" in header
    assert json.loads((tmp_path / "labels.json").read_text()) == json.loads(json.dumps(found))
