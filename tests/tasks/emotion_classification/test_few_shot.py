# SPDX-License-Identifier: Apache-2.0
"""Few examples: the draw, the methods, the choice among them, and what is refused."""

import contextlib
import dataclasses
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from datasets import ClassLabel, Dataset, Features, List, Value
from safetensors.torch import load_file
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression
from toolkit_helpers import FEELINGS, invoke, recipe_for, report_of, seed_run, torch_threads, write_csv, write_meld
from transformers import AutoModelForSequenceClassification, AutoTokenizer, set_seed

from hf_emotion import Predictor, load_dataset_for, load_recipe, train
from hf_emotion.recipes import make_recipe
from hf_emotion.reports.analyze import analyze, analyze_pair
from hf_emotion.reports.compare import compare
from hf_emotion.tasks.corpus import mark
from hf_emotion.tasks.emotion_classification import TASK, few_shot
from hf_emotion.tasks.emotion_classification.building import prepare
from hf_emotion.tasks.rows import class_counts, few_of, gold_of
from hf_emotion.training import seeds as training_seeds
from hf_emotion.training.recipe_checks import check_parts


pytest_plugins = ["toolkit_fixtures"]
pytestmark = pytest.mark.usefixtures("single_thread", "no_plots")
METHODS = list(few_shot.METHODS)


def few_recipe(base, methods=METHODS, arguments=None, **changes):
    values = {"dataset": "files", "model_type": "label-aware", "model_config": {}, "train_fraction": 1.0, "shots": 4}
    return recipe_for(base, arguments, few_shot=methods, **values | changes)


def rows_of(labels, several):
    feature = ClassLabel(names=list("abc"))
    features = Features({"text": Value("string"), "labels": List(feature) if several else feature})
    texts = [f"t{i}" for i in range(len(labels))]
    return mark(Dataset.from_dict({"text": texts, "labels": labels}, features=features), "emotion-classification")


def test_the_draw():
    single = rows_of([0] * 20 + [1] * 9 + [2] * 3, several=False)
    drawn = few_of(TASK, single, 4, seed=1)
    assert class_counts(TASK, drawn) == {"a": 4, "b": 4, "c": 3}
    assert drawn["text"][:] == few_of(TASK, single, 4, seed=1)["text"][:] != few_of(TASK, single, 4, seed=2)["text"][:]
    # "c" always comes with "a": its rows are enough for both; rows without a label count as a label of their own.
    several = rows_of([[0]] * 30 + [[1]] * 8 + [[0, 2]] * 5 + [[]] * 10, several=True)
    gold = gold_of(few_of(TASK, several, 4, seed=0)).values
    assert gold.sum(axis=0).tolist() == [4, 4, 4] and (gold.sum(axis=1) == 0).sum() == 4
    assert len(few_of(TASK, several, 1000, seed=0)) == len(several)


@pytest.fixture(scope="module")
def few_run(tmp_path_factory, base_bert, single_label):
    output = tmp_path_factory.mktemp("few") / "run"
    with torch_threads(1):
        train(few_recipe(base_bert, seeds=[3, 4]), output, data_dir=single_label)
    return output


def test_dev_chooses_and_the_run_is_an_ordinary_one(few_run, single_label):
    report = report_of(few_run)
    assert report["class_counts"] == dict.fromkeys(FEELINGS, 4) and report["shots"] == 4
    first, second = report["runs"]
    assert first["data"] != second["data"]
    for run in report["runs"]:
        tried = {name: entry["best_dev_metric"] for name, entry in run["few_shot"]["tried"].items()}
        assert list(tried) == METHODS and run["best_dev_metric"] == tried[run["few_shot"]["chosen"]]
        folder = few_run / f"seed-{run['seed']}"
        lines = (folder / "train.log").read_text(encoding="utf-8").splitlines()
        log = [json.loads(line) for line in lines if "eval_macro_f1" in line]
        best = {name: max(entry["eval_macro_f1"] for entry in log if entry["method"] == name) for name in METHODS}
        assert best == tried and not (folder / "checkpoints").exists()
    rows = load_dataset_for("files", single_label)["test"]
    predictor = Predictor(few_run)
    accuracy = np.mean(predictor.of_rows(rows).argmax(axis=1) == gold_of(rows).values)
    best = max(report["runs"], key=lambda run: run["best_dev_metric"])
    assert accuracy == pytest.approx(best["test"]["argmax"]["accuracy"])
    card = (few_run / "README.md").read_text(encoding="utf-8")
    assert "at least 4 of each label" in card and f"({best['few_shot']['chosen']} of {', '.join(METHODS)})" in card


@pytest.mark.parametrize(
    ("kept", "run", "rows", "metric", "is_chosen"),
    [
        (0.80, 0.85, 50, "macro_f1", False),  # a standard error is .0505
        (0.80, 0.86, 50, "macro_f1", True),  # .0491
        (0.80, 0.85, 500, "macro_f1", True),
        (0.80, 0.80, 10**9, "macro_f1", False),
        (0.60, 0.59, 2, "loss", True),  # lower is better
        (0.60, 0.90, 500, "loss", False),
        (None, 0.10, 2, "macro_f1", True),
    ],
)
def test_a_later_method_must_be_better_by_a_standard_error(kept, run, rows, metric, is_chosen):
    first, second = (seed_run(selected_by=metric, best_dev_metric=value) for value in (kept, run))
    assert training_seeds._is_clearly_better(second, first, rows) is is_chosen


def test_more_rows_are_fine_tuned_in_fewer_epochs():
    epochs = {n: few_shot.arguments_of("fine-tuning", n)["num_train_epochs"] for n in (8, 1600, 4000, 100_000)}
    assert epochs == {8: 10, 1600: 10, 4000: 4, 100_000: 3}


def test_the_validation_rows_of_each_seed_are_analysed_and_compared(base_bert, single_label, tmp_path):
    """Without a test part these are the rows that a run was measured on."""
    data = tmp_path / "data"
    data.mkdir()
    shutil.copy(single_label / "train.csv", data / "train.csv")
    shutil.copy(single_label / "test.csv", data / "dev.csv")
    runs = [tmp_path / name for name in ("both", "second", "other")]
    for run, seeds in zip(runs, ([3, 4], [4], [5]), strict=True):
        train(few_recipe(base_bert, ["linear"], name=run.name, shots=2, seeds=seeds), run, data_dir=data)
    rows = {seed: few_of(TASK, load_dataset_for("files", data)["validation"], 2, seed) for seed in (3, 4, 5)}
    assert rows[3]["id"][:] != rows[4]["id"][:]
    for run in runs:
        assert "texts of the errors" not in analyze(run, data_dir=data)["left_out"]
    result = compare(runs[:2])
    (test,), note = result["tests"], result["notes"][-1]
    assert (test["first_seeds"], test["second_seeds"], test["rows"]) == ([4], [4], len(rows[4])) and "seed 4" in note
    assert test["difference"] == 0 and test["mcnemar_p_value"] == 1
    pair = analyze_pair(*runs[:2], data_dir=data)
    assert pair["seeds"] == [4, 4] and pair["rows"] == len(rows[4]) and pair["left_out"] == {}
    for run in runs[:2]:
        with pytest.raises(ValueError, match="`shots`.*`seeds`"):
            compare([run, runs[2]])


def test_resume_trains_what_is_missing(few_run, base_bert, single_label, tmp_path, monkeypatch):
    recipe = few_recipe(base_bert, seeds=[3])
    begin, count = few_shot.begin, []

    def stop(*arguments):
        count.append(arguments[0])
        if len(count) > 2:
            raise KeyboardInterrupt
        begin(*arguments)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("hf_emotion.tasks.emotion_classification.building.begin", stop)
        train(recipe, tmp_path / "run", data_dir=single_label)
    train(recipe, tmp_path / "run", data_dir=single_label, resume=True)
    whole, resumed = (load_file(run / "model.safetensors") for run in (few_run / "seed-3", tmp_path / "run"))
    assert all(torch.equal(value, resumed[name]) for name, value in whole.items())


def test_linear_is_the_regression_over_mean_states(base_bert, single_label, tmp_path):
    train(few_recipe(base_bert, ["linear"]), tmp_path / "run", data_dir=single_label)
    model = AutoModelForSequenceClassification.from_pretrained(tmp_path / "run").eval()
    base = load_file(base_bert / "model.safetensors")
    own = model.model.encoder.state_dict()
    kept = [name for name in base if "pooler" not in name]
    assert all(torch.equal(own[name.removeprefix("bert.")], base[name]) for name in kept)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "run")

    def mean_states(texts):
        rows = tokenizer(list(texts), return_tensors="pt", padding=True, truncation=True)
        states, mask = model.model.encoder(**rows).last_hidden_state, rows["attention_mask"][..., None]
        return ((states * mask).sum(1) / mask.sum(1)).detach().double().numpy()

    splits = load_dataset_for("files", single_label)
    few, rows = few_of(TASK, splits["train"], 4, seed=42), splits["test"]
    vectors, states = mean_states(few["text"]), mean_states(rows["text"])
    scale = np.linalg.norm(vectors, axis=1).mean()
    regression = LogisticRegression(C=few_shot.INVERSE_PENALTY, max_iter=1000).fit(vectors / scale, few["labels"])
    predictor, logits = Predictor(tmp_path / "run"), regression.decision_function(states / scale)
    for temperature in (predictor.model.config.calibration_temperature, 1.0):
        predictor.model.config.calibration_temperature = temperature
        np.testing.assert_allclose(predictor.of_rows(rows), softmax(logits / temperature, axis=1), atol=1e-3)
    np.testing.assert_allclose(predictor.of_rows(rows), regression.predict_proba(states / scale), atol=1e-3)


def test_contrastive_training_parts_the_labels(base_bert, single_label, monkeypatch):
    monkeypatch.setattr(few_shot, "CONTRASTIVE_RATE", 1e-3)  # a tiny encoder learns slowly
    recipe = few_recipe(base_bert, [])
    splits = load_dataset_for("files", single_label)
    splits["train"] = few_of(TASK, splits["train"], 4, seed=0)
    gaps, labels = [], np.asarray(splits["train"]["labels"])
    same = labels[:, None] == labels
    for steps in (0, 20):
        set_seed(0)
        prepared = prepare(recipe, splits, lambda desc: contextlib.nullcontext())
        if steps:
            few_shot._contrast(prepared)
        prepared.model.eval()
        with torch.no_grad():
            vectors = few_shot._sentences(prepared, prepared.train, list(range(len(labels))))
        vectors = torch.nn.functional.normalize(vectors, dim=-1)
        cosines = (vectors @ vectors.T).numpy()
        gaps.append(cosines[same & ~np.eye(len(labels), dtype=bool)].mean() - cosines[~same].mean())
    assert gaps[1] > gaps[0] + 0.1


def test_several_labels_and_a_share_of_the_rows(base_bert, feelings, tmp_path):
    fields = {"train_fraction": 0.8, "shots": 3, "dataset_options": {"label_separator": "|"}}
    report = train(few_recipe(base_bert, ["contrastive"], **fields), tmp_path / "run", data_dir=feelings).to_dict()
    assert report["rows"]["train"] < 20 and min(report["class_counts"].values()) >= 3
    assert set(report["runs"][0]["thresholds"]) == set(FEELINGS)
    assert "probability" in invoke("predict", tmp_path / "run", "so happy", terminal=True)


def write(folder, rows, **more) -> Path:
    for part in ("train", "dev", "test"):
        write_csv(folder / f"{part}.csv", ["text", "label"], rows + more.get(part, []))
    return folder


def test_two_labels(base_bert, tmp_path):
    cues = (("happy sun", "joy"), ("sad rain", "anger"))
    data = write(tmp_path / "data", [[f"{text} {word}", label] for text, label in cues for word in "abcdefghij"])
    report = train(few_recipe(base_bert, ["linear"]), tmp_path / "run", data_dir=data).to_dict()
    assert report["summary"]["test"]["argmax"]["accuracy"]["mean"] == 1


def test_labels_with_few_rows_or_none(base_bert, single_label, tmp_path, caplog):
    report = train(few_recipe(base_bert, ["linear"], shots=1000), tmp_path / "all", data_dir=single_label).to_dict()
    assert report["rows"]["train"] + report["rows"]["validation"] == 48 and "`shots` 1000" in caplog.text
    data = write(tmp_path / "data", [["so happy", "joy"], ["so sad", "anger"]] * 5, dev=[["rain", "fear"]])
    recipe = few_recipe(base_bert, ["linear"], dataset_options={"labels": ["joy", "anger", "fear"]})
    with pytest.raises(ValueError, match=r"\['fear'\]"):
        train(recipe, tmp_path / "run", data_dir=data)
    assert not (tmp_path / "run").exists()


def test_what_does_not_fit_is_refused():
    for changes, words in (
        ({"shots": 0}, "`shots` must be at least 1"),
        ({"few_shot": ["setfit"]}, "few_shot"),
        ({"few_shot": ["linear", "linear"]}, "few_shot"),
        ({"model_type": None}, "few_shot"),
        ({"inverse_frequency_sampling": True}, "inverse_frequency_sampling"),
        ({"model_config": {"class_balanced_beta": 0.9}}, "class_balanced_beta"),
        ({"training_arguments": {"label_smoothing_factor": 0.1}}, "label_smoothing_factor"),
        ({"adapter": {"r": 2}}, "adapter"),
        ({"max_windows": 2}, "max_windows"),
        ({"model_config": {"head_hidden_size": 8}}, "head_hidden_size"),
        ({"model_config": {"label_attention": "leam"}}, "label_attention"),
    ):
        values = {"name": "few", "dataset": "files", "model_type": "label-aware", "few_shot": ["linear"], **changes}
        with pytest.raises(ValueError, match=words):
            check_parts(make_recipe(values))


def test_own_files_choose_unless_the_recipe_says_otherwise(base_bert, single_label, several_columns, tmp_path, caplog):
    """A recipe file of three lines tries both methods; each field that does not fit, partly annotated rows, or `[]` leave it to one training."""
    path = tmp_path / "mine.yaml"
    path.write_text(f"name: mine\nbase_model: {base_bert}\ndataset: files\n", encoding="utf-8")
    recipe = load_recipe(path, ["max_steps=2", "max_length=24"])
    assert (recipe.model_type, recipe.few_shot) == ("label-aware", None)
    train(recipe, tmp_path / "run", data_dir=single_label)
    (run,) = report_of(tmp_path / "run")["runs"]
    assert list(run["few_shot"]["tried"]) == ["linear", "fine-tuning"]
    assert f"{run['few_shot']['chosen']} is kept" in caplog.text
    again = train(load_recipe(tmp_path / "run" / "recipe.yaml"), tmp_path / "run", data_dir=single_label, resume=True)
    assert again.to_dict()["runs"] == [run]
    rows = load_dataset_for("files", single_label)["train"]
    methods = lambda *changes, of=rows: TASK.methods(load_recipe(path, changes), of)  # noqa: E731
    assert methods() == ["linear", "fine-tuning"]
    for change in ("few_shot=[]", "model_type=null", "adapter={r: 2}", "class_weights=balanced", "teachers=[runs/a]"):
        assert methods(change) == [], change
    options = {"label_columns": ["joy", "anger"]}
    assert methods(of=load_dataset_for("files", several_columns, **options)["train"]) == []
    assert methods("dataset=emotion6") == []


@pytest.fixture
def several_columns(tmp_path) -> Path:
    return write_csv(
        tmp_path / "columns" / "train.csv", ["text", "joy", "anger"], [["so happy", "1", ""], ["sad", "0", "1"]] * 20
    ).parent


def test_only_for_texts(base_bert, tmp_path):
    write_meld(tmp_path)
    fields = {"name": "d", "dataset": "meld", "model_type": "dialogue-bilstm", "base_model": str(base_bert)}
    recipe = make_recipe(fields)
    for field, value in (("shots", 4), ("few_shot", ["linear"])):
        with pytest.raises(ValueError, match=f"`{field}` does not fit"):
            train(dataclasses.replace(recipe, **{field: value}), tmp_path / "run", data_dir=tmp_path)
