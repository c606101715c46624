# SPDX-License-Identifier: Apache-2.0
"""Sweeps: what a space may be, which trials are tried, pruned and kept, and how an interrupted sweep goes on."""

import csv
import dataclasses
import json
from types import SimpleNamespace

import pytest
from toolkit_helpers import drawn_pictures, feelings_rows, files_in, invoke, run_report, seed_run, write_csv
from transformers import TrainerControl


pytest.importorskip("optuna")
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

import hf_emotion
from hf_emotion import load_recipe
from hf_emotion.recipes import make_recipe, read_yaml
from hf_emotion.reports.figures import write_sweep
from hf_emotion.runs import sweep as module
from hf_emotion.runs.space import read_space
from hf_emotion.runs.sweep import own_values, with_values
from hf_emotion.training import fit


pytest_plugins = ["toolkit_fixtures"]
RATE = {"learning_rate": {"low": 1e-5, "high": 1e-3, "log": True}}
BOTH = RATE | {"per_device_train_batch_size": [4, 8]}
OWN = {"learning_rate": 3e-4, "per_device_train_batch_size": 8}


@pytest.fixture(scope="module")
def recipe():
    values = {"name": "tiny", "dataset": "quickstart", "model_type": "label-aware-bert"}
    return make_recipe({**values, "training_arguments": OWN})


class TestSpace:
    def test_forms(self, recipe):
        forms = {
            "learning_rate: {low: 1e-5, high: 1e-3, log: true}": FloatDistribution(1e-5, 1e-3, log=True),
            "per_device_train_batch_size: [4, 8]": CategoricalDistribution([4, 8]),
            "warmup_steps: {low: 1, high: 9}": IntDistribution(1, 9),
            "weight_decay: {low: 0, high: 1.0}": FloatDistribution(0, 1),
            "model_config.class_balanced_beta: [9e-1, null]": CategoricalDistribution([0.9, None]),
            "max_length: {low: 8, high: 64, step: 8}": IntDistribution(8, 64, step=8),
            "lr_scheduler_type: [linear, cosine]": CategoricalDistribution(["linear", "cosine"]),
        }
        expected = {line.partition(":")[0]: form for line, form in forms.items()}
        text = "\n".join(forms).replace("per_device", "training_arguments.per_device")  # whose prefix may stand there
        assert read_space(read_yaml(text), recipe) == expected

    @pytest.mark.parametrize(
        ("space", "message"),
        [
            ("learning_rate: {low: 1e-3, high: 1e-5}", "`low <= high` must hold.*; write {low: 1, high: 9}"),
            ("learning_rate: {low: 0, high: 1, log: true}", "`low >= 1` must hold"),
            ("learning_rate: {low: a, high: b}", "could not convert"),
            *(
                (space, "neither a range nor a list")
                for space in ("max_length: {low: 1, high: 2, lgo: true}", "max_length: {low: 1}", "max_length: 9")
            ),
            ("few_shot: [[label-vectors], [fine-tuning]]", "neither a range nor a list"),
            ("learning_rate: []", "one or more"),
            *(  # Each draws other rows or another validation part, or moves the metric itself.
                (f"{name}: [0.2, 4]", f"the space of `{name}`: it must be the same in all trials")
                for name in ("seeds", "dataset_options.dedupe", "shots", "threshold")
            ),
            *((space, "needs a line") for space in ("{}", "learning_rate")),
        ],
    )
    def test_bad_spaces(self, recipe, space, message):
        with pytest.raises(ValueError, match=message):
            read_space(read_yaml(space), recipe)

    @pytest.mark.parametrize(
        ("space", "message"),
        [
            ({"learning_rat": [1, 2]}, "Did you mean 'training_arguments.learning_rate'"),
            ({"model_config.class_balanced_bet": [0.1, 0.2]}, "Did you mean 'model_config.class_balanced_beta'"),
            ({"per_device_train_batch_size": {"low": 0, "high": 8}}, "must be at least 1"),  # the lowest
            ({"label_smoothing_factor": {"low": 0.0, "high": 1.0}}, "below 1"),  # the highest
        ],
    )
    def test_values_that_the_recipe_refuses(self, recipe, trainings, tmp_path, space, message):
        with pytest.raises(ValueError, match=message):
            module.sweep(recipe, space, 2, tmp_path / "sweep")
        assert not (tmp_path / "sweep").exists()

    LOSSES = ("class_weights.joy", "model_config.class_balanced_beta", "label_smoothing_factor")

    @pytest.mark.parametrize("key", LOSSES)
    def test_a_loss_does_not_compare_other_losses(self, recipe, key):
        by_loss = dataclasses.replace(recipe, training_arguments={**OWN, "metric_for_best_model": "loss"})
        assert read_space({key: [0.1, 0.2]}, recipe)
        with pytest.raises(ValueError, match="same in all trials"):
            read_space({key: [0.1, 0.2]}, by_loss)

    def test_values_reach_the_recipe(self, recipe):
        values = {"learning_rate": 1e-5, "model_config.class_balanced_beta": 0.9, "max_length": 9}
        changed = with_values(recipe, values)
        assert changed.training_arguments == {**OWN, "learning_rate": 1e-5}
        assert changed.model_config["class_balanced_beta"] == 0.9 and changed.max_length == 9
        assert own_values(recipe, read_space(BOTH, recipe)) == OWN
        space = read_space({**RATE, "per_device_train_batch_size": [4], "weight_decay": [0.1, 0.2]}, recipe)
        assert own_values(recipe, space) == {"learning_rate": 3e-4}
        for weights in (None, "balanced", {"joy": 2}):
            weighted = dataclasses.replace(recipe, class_weights=weights)
            found = own_values(weighted, read_space({"class_weights.joy": {"low": 0.5, "high": 3}}, weighted))
            assert found == ({"class_weights.joy": 2} if isinstance(weights, dict) else {})


@pytest.fixture
def trainings(monkeypatch):
    """Trainings of three evaluations that take no time. `die_at` interrupts one of them; `silent`: nobody hears of the evaluations."""
    made = SimpleNamespace(recipes=[], die_at=None, lower=False, refused=(), silent=False)

    def train(recipe, output, data_dir=None, test=True):
        assert test is False
        number, rate = len(made.recipes), recipe.training_arguments["learning_rate"]
        made.recipes.append(recipe)
        output.mkdir(parents=True)
        (output / "model").touch()
        if rate > 8e-4:
            raise FloatingPointError("the training diverged")
        if number in made.refused:
            raise ValueError("too long for the encoder")
        args = SimpleNamespace(metric_for_best_model="loss" if made.lower else "macro_f1")
        for step in (1, 2, 3):
            if number == made.die_at:
                raise KeyboardInterrupt
            value = step / 3 - abs(rate - 4e-4) * 1000
            for callback in () if made.silent else fit._watchers.get():
                metrics = {"eval_macro_f1": value, "eval_loss": -value}
                callback.on_evaluate(args, SimpleNamespace(global_step=step, max_steps=3), TrainerControl(), metrics)
        dev = None if made.silent and number == 1 else -value if made.lower else value
        return run_report(runs=[seed_run(best_dev_metric=dev, selected_by=args.metric_for_best_model)])

    monkeypatch.setattr(module, "train", train)
    monkeypatch.setattr(module, "write_sweep", lambda *arguments: None)
    return made


def complete(result) -> list[dict]:
    return [trial for trial in result["trials"] if trial["state"] == "complete"]


class TestTrials:
    def test_the_best_is_kept(self, recipe, trainings, tmp_path):
        result = module.sweep(recipe, BOTH, 14, tmp_path / "sweep")
        states = [trial["state"] for trial in result["trials"]]
        assert len(states) == 14 and {"complete", "pruned"} <= set(states)
        assert result["trials"][0]["values"] == OWN
        best = max(complete(result), key=lambda trial: trial["dev"])
        assert result["best"] == best["number"] and result["metric"] == "macro_f1"
        assert [path.name for path in (tmp_path / "sweep").glob("trial-*")] == [f"trial-{best['number']}"]
        written = load_recipe(tmp_path / "sweep" / "best.yaml")
        assert written == with_values(recipe, best["values"])
        with (tmp_path / "sweep" / "trials.csv").open(encoding="utf-8-sig") as file:
            assert len(list(csv.DictReader(file))) == 14
        assert json.loads((tmp_path / "sweep" / "trials.json").read_text("utf-8")) == result

    def test_values_that_a_training_refuses(self, recipe, trainings, tmp_path):
        trainings.refused = (2,)
        result = module.sweep(recipe, RATE, 5, tmp_path / "sweep")
        assert [trial["number"] for trial in result["trials"] if trial["error"] == "too long for the encoder"] == [2]
        assert len(result["trials"]) == 5
        trainings.refused = (5,)  # the first trial of a sweep: the values may not be the reason
        with pytest.raises(ValueError, match="too long"):
            module.sweep(recipe, RATE, 5, tmp_path / "other")
        with pytest.raises(ValueError, match="no trial of the sweep ended: the training diverged"):
            module.sweep(recipe, {"learning_rate": [9e-4, 1e-3]}, 2, tmp_path / "diverged")

    def test_a_loss_is_minimised(self, recipe, trainings, tmp_path):
        trainings.lower = True
        result = module.sweep(recipe, RATE, 6, tmp_path / "sweep")
        best = min(complete(result), key=lambda trial: trial["dev"])
        assert result["best"] == best["number"] and result["metric"] == "loss"

    @pytest.mark.parametrize("die_at", [0, 7])
    def test_an_interrupted_sweep_goes_on(self, recipe, trainings, tmp_path, die_at):
        whole = module.sweep(recipe, BOTH, 10, tmp_path / "whole")
        trainings.recipes.clear()
        trainings.die_at = die_at
        with pytest.raises(KeyboardInterrupt):
            module.sweep(recipe, BOTH, 10, tmp_path / "sweep")
        with pytest.raises(FileExistsError, match="--resume"):
            module.sweep(recipe, BOTH, 10, tmp_path / "sweep")
        resumed = module.sweep(recipe, BOTH, 10, tmp_path / "sweep", resume=True)
        tables = [[{**trial, "seconds": 0, "number": 0} for trial in result["trials"]] for result in (resumed, whole)]
        assert tables[0] == tables[1]
        assert len(list((tmp_path / "sweep").glob("trial-*"))) == 1
        more = module.sweep(recipe, BOTH, 11, tmp_path / "sweep", resume=True)
        assert more["trials"][:10] == resumed["trials"]

    def test_what_resume_refuses(self, recipe, trainings, tmp_path):
        module.sweep(recipe, RATE, 1, tmp_path / "sweep")
        for changed, space in ((recipe, BOTH), (dataclasses.replace(recipe, max_length=9), RATE)):
            with pytest.raises(ValueError, match="is not the recipe of this command"):
                module.sweep(changed, space, 2, tmp_path / "sweep", resume=True)
        (tmp_path / "other" / "file").parent.mkdir()
        (tmp_path / "other" / "file").touch()
        with pytest.raises(FileExistsError, match="nothing was started in"):
            module.sweep(recipe, RATE, 2, tmp_path / "other", resume=True)

    def test_resume_refuses_other_rows(self, trainings, tmp_path):
        """Trials over other rows cannot be compared. The test part is not read, so that it may change."""
        recipe = make_recipe({"name": "own", "dataset": "files", "training_arguments": OWN})
        for part in ("train", "dev", "test"):
            write_csv(tmp_path / "data" / f"{part}.csv", ["text", "label"], feelings_rows(12, multi_label=False))
        arguments = {"output": tmp_path / "sweep", "data_dir": tmp_path / "data"}
        module.sweep(recipe, RATE, 1, **arguments)
        write_csv(tmp_path / "data" / "test.csv", ["text", "label"], feelings_rows(9, multi_label=False))
        module.sweep(recipe, RATE, 2, **arguments, resume=True)
        before = files_in(tmp_path / "sweep")
        write_csv(tmp_path / "data" / "dev.csv", ["text", "label"], feelings_rows(9, multi_label=False))
        with pytest.raises(ValueError, match="--resume: .*sweep was trained on other rows"):
            module.sweep(recipe, RATE, 3, **arguments, resume=True)
        assert len(trainings.recipes) == 2 and files_in(tmp_path / "sweep") == before

    def test_the_best_of_trainings_without_evaluations(self, recipe, trainings, tmp_path):
        """A linear head for few rows is solved for and measured once; one trial's metric is no number."""
        trainings.silent = True
        space = {"learning_rate": {"low": 1e-5, "high": 7e-4, "log": True}}  # none diverges
        result = module.sweep(recipe, space, 6, tmp_path / "sweep")
        states = [trial["state"] for trial in result["trials"]]
        assert states == ["complete", "failed", *["complete"] * 4] and result["metric"] == "macro_f1"
        assert result["best"] == max(complete(result), key=lambda trial: trial["dev"])["number"]
        assert (tmp_path / "sweep" / f"trial-{result['best']}").is_dir()

    @pytest.mark.parametrize(
        "fields", [{"few_shot": ["label-vectors", "fine-tuning"]}, {"dataset": "files", "few_shot": None}]
    )
    def test_no_pruning_over_several_methods(self, fields, recipe, trainings, single_label, tmp_path):
        """Each method for few rows starts its evaluations anew: the tenth of one trial is not that of another."""
        few = dataclasses.replace(recipe, model_type="label-aware", **fields)
        result = module.sweep(few, BOTH, 14, tmp_path / "sweep", single_label)
        assert {trial["state"] for trial in result["trials"]} <= {"complete", "failed"}

    def test_missing_extra(self, recipe, monkeypatch, tmp_path):
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
        with pytest.raises(ModuleNotFoundError, match=r"hf-emotion\[sweep\]"):
            hf_emotion.sweep(recipe, RATE, 2, tmp_path / "sweep")
        assert not (tmp_path / "sweep").exists()


def test_command(tiny_recipe, tmp_path, single_thread):
    (tmp_path / "tiny.yaml").write_text(tiny_recipe.to_yaml(), encoding="utf-8")
    (tmp_path / "space.yaml").write_text("learning_rate: {low: 1e-5, high: 1e-3, log: true}")
    arguments = ("sweep", tmp_path / "tiny.yaml", "--space", tmp_path / "space.yaml", "-o", tmp_path / "sweep")
    arguments += ("--trials", "2", "--set", "num_train_epochs=1", "--set", "max_eval_rows=40")
    printed = invoke(*arguments)
    result = json.loads((tmp_path / "sweep" / "trials.json").read_text("utf-8"))
    assert f"{result['best']} (best)" in printed and (tmp_path / "sweep" / "sweep.png").is_file()
    with drawn_pictures():
        write_sweep(tmp_path / "drawn.png", result, [("learning_rate", True)])
    assert (tmp_path / "drawn.png").stat().st_size > 5000
    run = json.loads((tmp_path / "sweep" / f"trial-{result['best']}" / "metrics.json").read_text("utf-8"))
    assert list(run["summary"]) == ["validation"]  # the test part was not read
    assert load_recipe(tmp_path / "sweep" / "best.yaml").name == tiny_recipe.name
