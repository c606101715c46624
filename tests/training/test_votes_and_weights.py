# SPDX-License-Identifier: Apache-2.0
"""Trainings on votes of annotators and with weights of labels: the loss, the figures, and what does not fit together."""

import csv
import json
import math
import re
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest
import torch
from datasets import ClassLabel, Dataset, Features, Value
from safetensors.torch import load_file
from sklearn.utils.class_weight import compute_class_weight
from toolkit_helpers import FEELINGS, feelings_rows, fit, invoke, recipe_for, report_of, targeted_recipe, write_csv
from torch.nn import functional as F

from hf_emotion import Predictor, load_dataset_for, metrics, train
from hf_emotion.data.splits import label_names
from hf_emotion.recipes import make_recipe
from hf_emotion.tasks import task_of_rows
from hf_emotion.tasks.corpus import mark
from hf_emotion.tasks.emotion_classification.building import with_teachers
from hf_emotion.tasks.rows import gold_of
from hf_emotion.training.losses import balanced, training_loss, weights_of


pytest_plugins = ["toolkit_fixtures"]
pytestmark = pytest.mark.usefixtures("no_plots", "single_thread")

ONCE = {"num_train_epochs": 1, "per_device_eval_batch_size": 5}


@pytest.fixture(scope="module")
def voted(tmp_path_factory) -> Path:
    """The corpus `single_label`; three annotators, of whom one takes anger for joy, and joy for neutral."""
    folder = tmp_path_factory.mktemp("voted")
    for split, count, offset in (("train", 48, 0), ("dev", 17, 48), ("test", 16, 65)):
        rows = []
        for text, label in feelings_rows(count, offset, multi_label=False):
            given = [label, label, {"anger": "joy", "joy": "neutral"}.get(label, label)]
            rows.append([text, *(str(given.count(name)) for name in FEELINGS)])
        write_csv(folder / f"{split}.csv", ["text", *FEELINGS], rows)
    return folder


@pytest.fixture(scope="module")
def terms(tmp_path_factory) -> Path:
    """Texts of different lengths, each with a term: the loss is a mean over words, and not over rows."""
    folder = tmp_path_factory.mktemp("terms")
    for split, count in (("train", 48), ("dev", 16)):
        rows = [[f"sun {text}{' day' * (i % 7)}", "sun", label] for i, (text, label) in enumerate(one_label(count))]
        write_csv(folder / f"{split}.csv", ["text", "term", "label"], rows)
    return folder


def one_label(count: int) -> list[list[str]]:
    return feelings_rows(count, multi_label=False)


def recipe(base: Path, arguments: dict | None = None, **changes):
    values = {"name": "voted", "dataset": "files", "train_fraction": 1, "model_type": None, "model_config": {}}
    return recipe_for(base, {**ONCE, **(arguments or {})}, **{**values, **changes})


HEADERS = {"files": ["id", "text", "label"], "reply_files": ["context", "reply", "emotion"]}
HEADERS["dialogue_files"] = ["dialogue", "utterance", "label"]
VOTED = {"dataset_options": {"votes": list(FEELINGS)}, "soft_labels": True}
SEVERAL = {"dataset_options": {"label_separator": "|"}}


def dev_loss(report: dict) -> float:
    (entry,) = [entry for entry in report["runs"][0]["history"] if "eval_loss" in entry]
    return entry["eval_loss"]


def dev_rows(run: Path) -> tuple[np.ndarray, list[list[str]]]:
    """(N, C) probabilities, and the labels, of the validation part."""
    rows = pyarrow.parquet.read_table(run / "predictions.parquet").to_pylist()
    rows = [row for row in rows if row["split"] == "validation"]
    return np.array([row["probabilities"] for row in rows]), [row["labels"] for row in rows]


@pytest.mark.parametrize("model_type", [None, "label-aware-bert"])
def test_the_dev_loss_is_the_cross_entropy_with_the_votes(model_type, voted, base_bert, tmp_path):
    report = train(recipe(base_bert, model_type=model_type, **VOTED), tmp_path / "run", data_dir=voted).to_dict()
    figures = report["runs"][0]["validation"]["argmax"]
    scores, labels = dev_rows(tmp_path / "run")
    votes = np.asarray(load_dataset_for("files", voted, votes=list(FEELINGS))["validation"]["votes"][:])
    # The loss has no temperature: it is fitted after the training.
    raw = metrics.temperature_scaled(scores, 1 / report["runs"][0]["temperature"], multi_label=False)
    for found, own, tolerance in ((figures["cross_entropy"], scores, 1e-5), (dev_loss(report), raw, 1e-4)):
        by_hand = [-sum(v * math.log(p) for v, p in zip(*row, strict=True)) for row in zip(votes, own, strict=True)]
        assert found == pytest.approx(np.mean(by_hand), rel=tolerance)
    assert {len(own) for own in labels} == {1} and figures["vote_entropy"] < figures["cross_entropy"]


def test_votes_are_learnt_as_they_are(voted, base_bert, tmp_path):
    """A training on votes comes nearer to them than one on labels; one on unanimous votes is one on labels."""
    arguments = {"num_train_epochs": 25, "learning_rate": 5e-3, "load_best_model_at_end": False}
    arguments |= {"eval_strategy": "no", "save_strategy": "no", "lr_scheduler_type": "constant"}
    nearer = {}
    for name, changes in (("soft", VOTED), ("hard", {**VOTED, "soft_labels": False})):
        report = train(recipe(base_bert, arguments, **changes), tmp_path / name, data_dir=voted).to_dict()
        nearer[name] = report["runs"][0]["test"]["argmax"]
    assert nearer["soft"]["cross_entropy"] < nearer["hard"]["cross_entropy"] - 0.1
    assert nearer["soft"]["soft_micro_f1"] > nearer["hard"]["soft_micro_f1"]
    assert nearer["soft"]["vote_entropy"] == nearer["hard"]["vote_entropy"]
    header, *rows = csv.reader((voted / "train.csv").read_text().splitlines())
    unanimous = [[text, *("3" if int(vote) > 1 else "0" for vote in votes)] for text, *votes in rows]
    write_csv(tmp_path / "data" / "train.csv", header, unanimous)
    found = []
    for soft in (True, False):
        run = tmp_path / f"unanimous-{soft}"
        train(recipe(base_bert, **{**VOTED, "soft_labels": soft}), run, data_dir=tmp_path / "data")
        found.append(load_file(run / "model.safetensors"))
    torch.testing.assert_close(*found, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(
    ("changes", "data"),
    [(SEVERAL, "feelings"), ({"class_weights": {"joy": 5}, **VOTED}, "voted"), ({"dataset": "term_files"}, "terms")],
)
def test_accumulated_batches_are_one_large_batch(changes, data, request, base_bert, tmp_path):
    """With the loss of a stock model and with ours; of our models: test_models_shared.py."""
    found = []
    for batch, accumulation in ((48, 1), (12, 4)):
        arguments = {  # clipping would hide a gradient that is too large
            **{"per_device_train_batch_size": batch, "gradient_accumulation_steps": accumulation, "optim": "sgd"},
            **{"num_train_epochs": 2, "learning_rate": 0.5, "max_grad_norm": 0.0, "load_best_model_at_end": False},
            **{"logging_steps": 1, "lr_scheduler_type": "constant"},
        }
        own, folder = recipe(base_bert, arguments, **changes), request.getfixturevalue(data)
        report = train(own, tmp_path / str(batch), data_dir=folder).to_dict()
        losses = [entry["loss"] for entry in report["runs"][0]["history"] if "loss" in entry]
        found.append((load_file(tmp_path / str(batch) / "model.safetensors"), losses))
    assert len(found[0][1]) == 2 and found[0][1] == pytest.approx(found[1][1], rel=1e-3)
    start = load_file(base_bert / "model.safetensors")
    moved = (found[0][0][f"bert.{name}"] - start[name] for name in start if "pooler" not in name)
    assert max(change.abs().max() for change in moved) > 1e-3  # a gradient four times too large would show
    torch.testing.assert_close(found[0][0], found[1][0], rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("several", [False, True])
def test_weights_of_a_run(several, single_label, feelings, base_bert, tmp_path):
    data = feelings if several else single_label
    asked = {"class_weights": {"joy": 4}} | ({"positive_weights": "balanced"} if several else {})
    own = recipe(base_bert, **asked, **(SEVERAL if several else {}))
    report = train(own, tmp_path / "run", data_dir=data).to_dict()
    (run,) = report["runs"]
    assert run["class_weights"] == {"anger": 1, "joy": 4, "neutral": 1}
    scores, labels = dev_rows(tmp_path / "run")
    scores = metrics.temperature_scaled(scores, 1 / run["temperature"], several)  # the loss has no temperature
    if several:
        gold = gold_of(load_dataset_for("files", data, label_separator="|")["train"]).values
        positive = (1 - gold).sum(axis=0) / gold.sum(axis=0)
        assert list(run["positive_weights"].values()) == pytest.approx(positive.tolist())
        has = np.array([[name in own for name in FEELINGS] for own in labels])
        terms = np.array([1, 4, 1]) * np.where(has, -positive * np.log(scores), -np.log(1 - scores))
    else:
        own = [FEELINGS.index(name) for (name,) in labels]
        terms = np.array([1, 4, 1])[own] * -np.log(scores[np.arange(len(own)), own])
    assert dev_loss(report) == pytest.approx(np.mean(terms), rel=1e-4)
    assert "class_weights:\n  joy: 4" in (tmp_path / "run" / "recipe.yaml").read_text()


@pytest.mark.parametrize("kind", ["aspects", "pairs", "dialogues", "parts"])
def test_other_classifiers_take_weights(kind, aspect_bert, places, tmp_path, monkeypatch):
    if kind == "dialogues":
        monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
        rows = [[f"d{i // 4}", f"so {i % 9} {i % 7}", ("joy", "joy", "neutral")[i % 3]] for i in range(72)]
        data = write_csv(tmp_path / "train.csv", HEADERS["dialogue_files"], rows)
        own = recipe(aspect_bert, dataset="dialogue_files", model_type="dialogue-bilstm", class_weights="balanced")
    else:
        data, changes = places, {"dataset": "aspect_files", "dataset_options": {"target_column": "target"}}
        if kind != "aspects":
            config = {} if kind == "parts" else {"auxiliary_sentence": True}
            changes |= {"model_type": None, "model_config": config, "one_model_per_context": kind == "parts"}
        own = targeted_recipe(aspect_bert, ONCE, class_weights="balanced", **changes)
    (run,) = train(own, tmp_path / "run", data_dir=data).to_dict()["runs"]
    for entry in run.get("contexts", [run]):
        used = entry["class_weights"]
        rare, common = ("bad", "good") if kind != "dialogues" else ("neutral", "joy")
        assert used[rare] > 1.2 * used[common] > 0
        if kind == "dialogues":
            config = json.loads((tmp_path / "run" / "config.json").read_text())
            assert config["class_weights"] == list(used.values())


def test_balanced_is_that_of_scikit_learn():
    labels = np.repeat([0, 1, 3], [7, 2, 1])
    found = balanced(np.bincount(labels, minlength=5))
    expected = compute_class_weight("balanced", classes=np.array([0, 1, 3]), y=labels)
    assert [found[i] for i in (0, 1, 3)] == pytest.approx(expected.tolist()) and found[2] == found[4] == 1


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("several", [False, True])
def test_the_loss_by_hand(several, soft):
    generator = torch.Generator().manual_seed(3)
    logits, votes = torch.randn(6, 4, generator=generator), torch.rand(6, 4, generator=generator)
    votes = votes if several else votes / votes.sum(dim=1, keepdim=True)
    hard = (votes > 0.5).float() if several else votes.argmax(dim=1)
    weights, positive = [0.5, 2.0, 1.0, 3.0], [4.0, 1.0, 0.25, 1.0]
    options = {"class_weights": weights} | ({"positive_weights": positive} if several else {})
    found = training_loss({"logits": logits}, hard, votes=votes if soft else None, **options)
    target = votes if soft else hard if several else F.one_hot(hard, 4).float()
    total = 0.0
    for row, own in zip(logits.tolist(), target.tolist(), strict=True):
        norm = math.log(sum(map(math.exp, row)))
        for score, share, weight, more in zip(row, own, weights, positive, strict=True):
            p = 1 / (1 + math.exp(-score))
            term = more * share * math.log(p) + (1 - share) * math.log(1 - p) if several else share * (score - norm)
            total -= weight * term
    assert found.item() == pytest.approx(total / (24 if several else 6), rel=1e-5)
    halved = training_loss({"logits": logits}, hard, 48 if several else 12, votes if soft else None, **options)
    assert halved.item() == pytest.approx(found.item() / 2, rel=1e-6)


def test_names_of_weights_are_composed_as_labels_are():
    """macOS writes the accent behind its letter."""
    features = Features(id=Value("string"), text=Value("string"), labels=ClassLabel(names=["joie", "col\u00e8re"]))
    columns = {"id": ["a", "b"], "text": ["x", "y"], "labels": [0, 1]}
    rows = mark(Dataset.from_dict(columns, features=features), "emotion-classification")
    own = make_recipe({"name": "x", "class_weights": {"cole\u0300re": 3.0}})
    assert weights_of(task_of_rows(rows), own, rows) == {"class_weights": [1.0, 3.0]}


def test_turns_without_a_label_do_not_count():
    logits = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(3))
    labels = torch.tensor([[0, -100, 2], [3, -100, -100]])
    found = training_loss({"logits": logits}, labels, class_weights=[1.0, 1.0, 2.0, 5.0])
    losses = -logits.log_softmax(-1)
    assert found.item() == pytest.approx(((losses[0, 0, 0] + 2 * losses[0, 2, 2] + 5 * losses[1, 0, 3]) / 3).item())


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"class_weights": "balance"}, "`class_weights` must be 'balanced'.*'balance'"),
        *(
            ({"positive_weights": {"joy": value}}, "`positive_weights` must be .* above 0 and finite")
            for value in (0, -1.5, math.inf, math.nan)
        ),
        ({"class_weights": {"joy": 2}, "training_arguments": {"label_smoothing_factor": 0.1}}, "`label_smoothing_factor`.*`class_weights`"),
        ({"soft_labels": True, "training_arguments": {"label_smoothing_factor": 0.1}}, "`label_smoothing_factor`.*`soft_labels`"),
        ({"class_weights": "balanced", "model_config": {"class_balanced_beta": 0.9}}, "`class_weights`.*`model_config.class_balanced_beta`"),
        ({"soft_labels": True, "model_config": {"class_balanced_beta": 0.9}}, "`soft_labels`.*`model_config.class_balanced_beta`"),
        ({"soft_labels": True, "teachers": ["x"]}, "`soft_labels` and `teachers` each set"),
        ({"class_weights": "balanced", "model_config": {"class_weights": [1, 2]}}, "`class_weights`.*`model_config.class_weights`"),
    ],
)  # fmt: skip
def test_recipes_that_contradict_themselves(values, message):
    with pytest.raises(ValueError, match=message):
        make_recipe({"name": "x", **values})


@pytest.mark.parametrize(
    ("dataset", "model_type", "changes", "message"),
    [
        ("files", None, {"class_weights": {"jo": 2}}, "`class_weights`.*'jo'.*'joy'"),
        ("files", None, {"positive_weights": "balanced"}, "`positive_weights`.*one label each.*`class_weights`"),
        ("files", None, {"soft_labels": True}, "`soft_labels`.*files has none.*`dataset_options.votes`"),
        ("reply_files", "bert-mod-ln", {"class_weights": "balanced"}, "`class_weights` does not fit a training of"),
        ("dialogue_files", "dialogue-bilstm", {"positive_weights": "balanced"}, "`positive_weights` does not fit a"),
        ("dialogue_files", "dialogue-bilstm", {"soft_labels": True}, "`soft_labels` does not fit a training of"),
    ],
)
def test_what_does_not_fit_the_corpus(dataset, model_type, changes, message, base_bert, tmp_path):
    rows = [[f"a {i}", f"b {i}", ("joy", "anger")[i % 2]] for i in range(12)]
    write_csv(tmp_path / "train.csv", HEADERS[dataset], rows)
    own = recipe(base_bert, dataset=dataset, model_type=model_type, **changes)
    with pytest.raises(ValueError, match=message):
        train(own, tmp_path / "run", data_dir=tmp_path)
    assert not (tmp_path / "run").exists()


def test_epochs_chosen_by_votes_and_what_commands_show(voted, base_bert, tmp_path):
    own = recipe(base_bert, {"num_train_epochs": 2, "metric_for_best_model": "cross_entropy"}, **VOTED)
    train(own, tmp_path / "run", data_dir=voted)
    report = report_of(tmp_path / "run")
    (run,) = report["runs"]
    values = [entry["eval_cross_entropy"] for entry in run["history"] if "eval_cross_entropy" in entry]
    assert run["best_dev_metric"] == pytest.approx(min(values)) and len(values) == 2
    votes = np.asarray(load_dataset_for("files", voted, votes=list(FEELINGS))["test"]["votes"][:])
    agreement = report["agreement"]["test"]
    assert agreement["alpha"] == pytest.approx(metrics.krippendorff_alpha(np.round(3 * votes).astype(int)), abs=1e-6)
    assert agreement["annotators"] == 3 and agreement["unanimous"] == pytest.approx((votes.max(axis=1) > 0.99).mean())
    page = (tmp_path / "run" / "report.html").read_text()
    assert f"{agreement['alpha']:.4f}" in page and "soft_macro_f1" in page
    assert "soft_macro_f1" in (tmp_path / "run" / "README.md").read_text()
    options = ["--dataset", "files", "--data-dir", voted, "--option", "votes=[neutral, joy, anger]"]
    shown = invoke("evaluate", tmp_path / "run", *options)
    row = re.search(r"cross_entropy\W+([\d.]+)", shown)
    assert row and float(row[1]) == pytest.approx(run["test"]["argmax"]["cross_entropy"], abs=1e-3)


class TestTeachers:
    """Half of the target is the label, half what trained models think (Hinton et al. 2015)."""

    @pytest.fixture(scope="class")
    def students(self, feelings, base_bert, tmp_path_factory):
        place = tmp_path_factory.mktemp("teachers")
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("HF_EMOTION_CACHE", str(place / "cache"))
            own = {"dataset": "files", **SEVERAL}
            for name, more in (("teacher", {}), ("student", {"teachers": [str(place / "teacher")]})):
                fit(recipe_for(base_bert, ONCE, name=name, **own, **more), place / name, feelings)
            yield place, feelings, own

    def test_the_soft_labels(self, students, monkeypatch):
        place, feelings, own = students
        monkeypatch.setenv("HF_EMOTION_CACHE", str(place / "cache"))
        splits = load_dataset_for("files", feelings, **own["dataset_options"])
        found = np.array(with_teachers(splits, [str(place / "teacher")])["train"]["votes"])
        kept = list((place / "cache").rglob("*.npy"))
        predictor = Predictor(place / "teacher")
        assert predictor.labels == label_names(splits["train"])
        scores = predictor.probabilities(splits["train"]["text"])
        np.testing.assert_allclose(found, (gold_of(splits["train"]).values + scores) / 2, atol=1e-3)  # kept in float16
        again = list(with_teachers(splits, [str(place / "teacher")])["train"]["votes"])
        assert (np.array(again) == found).all() and list((place / "cache").rglob("*.npy")) == kept
        turned = load_dataset_for("files", feelings, **own["dataset_options"], labels=predictor.labels[::-1])
        other = np.array(with_teachers(turned, [str(place / "teacher")])["train"]["votes"])
        assert (other == found[:, ::-1]).all()  # what is kept has the labels of its corpus
        # Packaged sentences keep their labels.
        ids = ["everyday-1-1", *splits["train"]["id"][1:]]
        splits["train"] = splits["train"].remove_columns("id").add_column("id", ids)
        packaged = with_teachers(splits, [str(place / "teacher")])["train"]["votes"]
        assert packaged[0] == gold_of(splits["train"]).values[0].tolist() and packaged[1:] == again[1:]
        # The student trains on them.
        losses = [report_of(place / name)["runs"][0]["history"][0]["eval_loss"] for name in ("teacher", "student")]
        assert losses[0] != losses[1]

    def test_what_does_not_fit(self, students, single_label, base_bert, tmp_path):
        place, feelings, own = students
        with pytest.raises(FileNotFoundError, match="nowhere/model.safetensors"):
            train(recipe_for(base_bert, ONCE, **own, teachers=["nowhere"]), tmp_path / "run", data_dir=feelings)
        single = recipe_for(base_bert, ONCE, dataset="files", teachers=[str(place / "teacher")])
        with pytest.raises(ValueError, match="`teachers` need rows with several labels"):
            train(single, tmp_path / "other", data_dir=single_label)
