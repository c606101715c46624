# SPDX-License-Identifier: Apache-2.0
"""Sweeps: what a space may be, which trials are tried, pruned and kept, and how an interrupted sweep goes on."""

import csv
import dataclasses
import json
from types import SimpleNamespace

import pytest
from toolkit_helpers import (
    drawn_pictures,
    feelings_rows,
    files_in,
    invoke,
    run_report,
    seed_run,
    torch_threads,
    write_csv,
)
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


@pytest.fixture(scope="module")
def recipe():
    values = {"learning_rate": 3e-4, "per_device_train_batch_size": 8}
    return make_recipe(
        {"name": "tiny", "dataset": "quickstart", "model_type": "label-aware-bert", "training_arguments": values}
    )


class TestSpace:
    def test_forms(self, recipe):
        text = """
        learning_rate: {low: 1e-5, high: 1e-3, log: true}
        training_arguments.per_device_train_batch_size: [4, 8]
        warmup_steps: {low: 1, high: 9}
        weight_decay: {low: 0, high: 1.0}
        model_config.class_balanced_beta: [9e-1, null]
        max_length: {low: 8, high: 64, step: 8}
        lr_scheduler_type: [linear, cosine]
        """
        assert read_space(read_yaml(text), recipe) == {
            "learning_rate": FloatDistribution(1e-5, 1e-3, log=True),
            "per_device_train_batch_size": CategoricalDistribution([4, 8]),
            "warmup_steps": IntDistribution(1, 9),
            "weight_decay": FloatDistribution(0, 1),
            "model_config.class_balanced_beta": CategoricalDistribution([0.9, None]),
            "max_length": IntDistribution(8, 64, step=8),
            "lr_scheduler_type": CategoricalDistribution(["linear", "cosine"]),
        }

    @pytest.mark.parametrize(
        ("space", "message"),
        [
            ("learning_rate: {low: 1e-3, high: 1e-5}", "`low <= high` must hold.*; write {low: 1, high: 9}"),
            ("learning_rate: {low: 0, high: 1, log: true}", "`low >= 1` must hold"),
            ("learning_rate: {low: a, high: b}", "could not convert"),
            ("learning_rate: {low: 1, high: 2, lgo: true}", "neither a range nor a list"),
            ("learning_rate: {low: 1}", "neither a range nor a list"),
            ("learning_rate: 1e-4", "neither a range nor a list"),
            ("few_shot: [[label-vectors], [fine-tuning]]", "neither a range nor a list"),
            ("learning_rate: []", "one or more"),
            ("seeds: [1, 2]", "same in all trials"),
            ("dataset_options.dedupe: [true, false]", "same in all trials"),
            ("shots: [4, 8]", "the space of `shots`: it must be the same"),  # each draws another validation part
            (
                "threshold: [0.2, 0.4]",
                "the space of `threshold`: it must be the same",
            ),  # which moves the metric itself
            ("{}", "needs a line"),
            ("learning_rate", "needs a line"),
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
            ({"per_device_train_batch_size": {"low": 0, "high": 8}}, "must be at least 1"),
            ({"label_smoothing_factor": {"low": 0.0, "high": 1.0}}, "below 1"),
            ({"max_length": {"low": 8.5, "high": 64.0}}, "max_length"),
        ],
    )
    def test_values_that_the_recipe_refuses(self, recipe, trainings, tmp_path, space, message):
        with pytest.raises(ValueError, match=message):
            module.sweep(recipe, space, 2, tmp_path / "sweep")
        assert not (tmp_path / "sweep").exists()

    @pytest.mark.parametrize(
        "key", ["class_weights.joy", "model_config.class_balanced_beta", "label_smoothing_factor"]
    )
    def test_a_loss_does_not_compare_other_losses(self, recipe, key):
        by_loss = dataclasses.replace(
            recipe, training_arguments={**recipe.training_arguments, "metric_for_best_model": "loss"}
        )
        assert read_space({key: [0.1, 0.2]}, recipe)
        with pytest.raises(ValueError, match="same in all trials"):
            read_space({key: [0.1, 0.2]}, by_loss)

    def test_values_reach_the_recipe(self, recipe):
        changed = with_values(
            recipe, {"learning_rate": 1e-05, "model_config.class_balanced_beta": 0.9, "max_length": 9}
        )
        assert changed.training_arguments == {"learning_rate": 1e-5, "per_device_train_batch_size": 8}
        assert changed.model_config["class_balanced_beta"] == 0.9 and changed.max_length == 9
        own = {"learning_rate": 3e-4, "per_device_train_batch_size": 8}
        assert own_values(recipe, read_space(BOTH, recipe)) == own
        space = read_space({**RATE, "per_device_train_batch_size": [4], "weight_decay": [0.1, 0.2]}, recipe)
        assert own_values(recipe, space) == {"learning_rate": 3e-4}
        for weights in (None, "balanced", {"joy": 2}):
            weighted = dataclasses.replace(recipe, class_weights=weights)
            found = own_values(weighted, read_space({"class_weights.joy": {"low": 0.5, "high": 3}}, weighted))
            assert found == ({"class_weights.joy": 2} if isinstance(weights, dict) else {})


class Stop(BaseException):
    """As a signal: the sweep does not end by itself."""


@pytest.fixture
def trainings(monkeypatch):
    """Trainings of three evaluations that take no time; each entry is (recipe, folder). `die_at` interrupts one of them."""
    made = SimpleNamespace(recipes=[], die_at=None, lower=False, refused=())

    def train(recipe, output, data_dir=None, test=True):
        assert test is False
        number, rate = len(made.recipes), recipe.training_arguments["learning_rate"]
        made.recipes.append(recipe)
        output.mkdir(parents=True)
        (output / "model").touch()
        if recipe.training_arguments["learning_rate"] > 8e-4:
            raise FloatingPointError("the training diverged")
        if number in made.refused:
            raise ValueError("too long for the encoder")
        args = SimpleNamespace(metric_for_best_model="loss" if made.lower else "macro_f1")
        for step in (1, 2, 3):
            if number == made.die_at:
                raise Stop
            value = step / 3 - abs(rate - 4e-4) * 1000
            for callback in fit._watchers.get():
                metrics = {"eval_macro_f1": value, "eval_loss": -value}
                callback.on_evaluate(args, SimpleNamespace(global_step=step, max_steps=3), TrainerControl(), metrics)
        dev = -value if made.lower else value
        return run_report(runs=[seed_run(best_dev_metric=dev, selected_by=args.metric_for_best_model)])

    monkeypatch.setattr(module, "train", train)
    monkeypatch.setattr(module, "write_sweep", lambda *arguments: None)
    return made


def table(result):
    return [{**trial, "seconds": 0, "number": 0} for trial in result["trials"]]


class TestTrials:
    def test_the_best_is_kept(self, recipe, trainings, tmp_path):
        result = module.sweep(recipe, BOTH, 14, tmp_path / "sweep")
        states = [trial["state"] for trial in result["trials"]]
        assert len(states) == 14 and {"complete", "pruned"} <= set(states)
        assert result["trials"][0]["values"] == {"learning_rate": 3e-4, "per_device_train_batch_size": 8}
        complete = [trial for trial in result["trials"] if trial["state"] == "complete"]
        best = max(complete, key=lambda trial: trial["dev"])
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

    def test_a_loss_is_minimised(self, recipe, trainings, tmp_path):
        trainings.lower = True
        result = module.sweep(recipe, RATE, 6, tmp_path / "sweep")
        ended = [trial for trial in result["trials"] if trial["state"] == "complete"]
        assert result["best"] == min(ended, key=lambda trial: trial["dev"])["number"] and result["metric"] == "loss"

    @pytest.mark.parametrize("die_at", [0, 7])
    def test_an_interrupted_sweep_goes_on(self, recipe, trainings, tmp_path, die_at):
        whole = module.sweep(recipe, BOTH, 10, tmp_path / "whole")
        trainings.recipes.clear()
        trainings.die_at = die_at
        with pytest.raises(Stop):
            module.sweep(recipe, BOTH, 10, tmp_path / "sweep")
        journal = tmp_path / "sweep" / "trials.journal"
        journal.write_bytes(journal.read_bytes() + b'{"half a li')
        with pytest.raises(FileExistsError, match="--resume"):
            module.sweep(recipe, BOTH, 10, tmp_path / "sweep")
        resumed = module.sweep(recipe, BOTH, 10, tmp_path / "sweep", resume=True)
        assert table(resumed) == table(whole)
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
        with pytest.raises(FileExistsError, match="nothing was begun in"):
            module.sweep(recipe, RATE, 2, tmp_path / "other", resume=True)

    def test_resume_refuses_other_rows(self, trainings, tmp_path):
        """Trials over other rows cannot be compared. The test part is not read, so that it may change."""
        values = {"learning_rate": 3e-4}
        recipe = make_recipe({"name": "own", "dataset": "files", "training_arguments": values})
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

    def test_the_best_of_trainings_without_evaluations(self, recipe, trainings, tmp_path, monkeypatch):
        """A linear head for few rows is solved for and measured once; one trial's metric is no number."""
        rates = []

        def train(recipe, output, data_dir=None, test=True):
            output.mkdir(parents=True)
            rates.append(recipe.training_arguments["learning_rate"])
            dev = None if len(rates) == 2 else rates[-1] * 1000
            return run_report(runs=[seed_run(best_dev_metric=dev, selected_by="macro_f1")])

        monkeypatch.setattr(module, "train", train)
        result = module.sweep(recipe, RATE, 6, tmp_path / "sweep")
        states = [trial["state"] for trial in result["trials"]]
        assert states == ["complete", "failed", *["complete"] * 4] and result["metric"] == "macro_f1"
        ended = [trial for trial in result["trials"] if trial["state"] == "complete"]
        assert result["best"] == max(ended, key=lambda trial: trial["dev"])["number"]
        assert (tmp_path / "sweep" / f"trial-{result['best']}").is_dir()

    def test_no_pruning_over_several_methods(self, recipe, trainings, tmp_path):
        """Each method for few rows starts its evaluations anew: the tenth of one trial is not that of another."""
        few = dataclasses.replace(recipe, model_type="label-aware", few_shot=["label-vectors", "fine-tuning"])
        result = module.sweep(few, BOTH, 14, tmp_path / "sweep")
        assert {trial["state"] for trial in result["trials"]} <= {"complete", "failed"}

    def test_no_trial_ended(self, recipe, trainings, tmp_path):
        with pytest.raises(ValueError, match="no trial of the sweep ended: the training diverged"):
            module.sweep(recipe, {"learning_rate": [9e-4, 1e-3]}, 2, tmp_path / "sweep")

    def test_missing_extra(self, recipe, monkeypatch, tmp_path):
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
        with pytest.raises(ModuleNotFoundError, match=r"hf-emotion\[sweep\]"):
            hf_emotion.sweep(recipe, RATE, 2, tmp_path / "sweep")
        assert not (tmp_path / "sweep").exists()


def test_command(tiny_recipe, tmp_path, own_verbosity):
    (tmp_path / "tiny.yaml").write_text(tiny_recipe.to_yaml(), encoding="utf-8")
    (tmp_path / "space.yaml").write_text("learning_rate: {low: 1e-5, high: 1e-3, log: true}")
    arguments = ("sweep", tmp_path / "tiny.yaml", "--space", tmp_path / "space.yaml", "-o", tmp_path / "sweep")
    arguments += ("--trials", "2", "--set", "num_train_epochs=1", "--set", "max_eval_rows=40")
    with torch_threads(1):
        printed = invoke(*arguments)
    result = json.loads((tmp_path / "sweep" / "trials.json").read_text("utf-8"))
    assert f"{result['best']} (best)" in printed and (tmp_path / "sweep" / "sweep.png").is_file()
    with drawn_pictures():
        write_sweep(tmp_path / "drawn.png", result, [("learning_rate", True)])
    assert (tmp_path / "drawn.png").stat().st_size > 5000
    run = json.loads((tmp_path / "sweep" / f"trial-{result['best']}" / "metrics.json").read_text("utf-8"))
    assert list(run["summary"]) == ["validation"]  # the test part was not read
    assert load_recipe(tmp_path / "sweep" / "best.yaml").name == tiny_recipe.name
