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
    one_thread,
    run_report,
    seed_run,
    write_csv,
)
from transformers import TrainerControl

import hf_emotion
from hf_emotion import load_recipe
from hf_emotion.recipes import make_recipe
from hf_emotion.reports.figures import write_sweep
from hf_emotion.runs import sweep as module
from hf_emotion.runs.space import Dimension, own_values, read_space, with_values
from hf_emotion.training import fit


pytest_plugins = ["toolkit_fixtures"]
pytest.importorskip("optuna")
RATE = "learning_rate=1e-5..1e-3:log"
BATCH = "per_device_train_batch_size=4,8"


@pytest.fixture(scope="module")
def recipe():
    values = {"learning_rate": 3e-4, "per_device_train_batch_size": 8}
    return make_recipe(
        {"name": "tiny", "dataset": "quickstart", "model_type": "label-aware-bert", "training_arguments": values}
    )


class TestSpace:
    def test_forms(self, recipe):
        texts = [
            RATE,
            BATCH,
            "warmup_steps=1..9",
            "weight_decay=0..1",
            "model_config.class_balanced_beta=0.9,null",
            "max_length=8..64:log",
        ]
        found = read_space(texts, recipe)
        assert found[0] == Dimension("learning_rate", 1e-5, 1e-3, log=True)
        assert found[1].choices == (4, 8) and found[4].choices == (0.9, None)
        assert not found[3].whole and found[5] == Dimension("max_length", 8, 64, whole=True, log=True)
        assert read_space(["learning_rate=1e-4,3e-4"], recipe)[0].choices == (1e-4, 3e-4)
        assert read_space(["lr_scheduler_type=linear,cosine"], recipe)[0].choices == ("linear", "cosine")

    @pytest.mark.parametrize(
        ("texts", "message"),
        [
            (["learning_rat=1..2"], "did you mean `training_arguments.learning_rate`"),
            (["model_config.class_balanced_bet=0.1,0.2"], "did you mean `model_config.class_balanced_beta`"),
            (["learning_rate=1e-3..1e-5"], "first number must be less"),
            (["learning_rate=1..1"], "first number must be less"),
            (["learning_rate=0..1:log"], "must begin above 0"),
            (["learning_rate=a..b"], "must be numbers"),
            (["learning_rate=1e-4"], "at least two different values"),
            (["per_device_train_batch_size=8,8"], "at least two different values"),
            (["per_device_train_batch_size=0..8"], "must be at least 1"),
            (["label_smoothing_factor=0..1"], "below 1"),
            (["learning_rate"], "has the form"),
            ([RATE, f"training_arguments.{RATE}"], "names `learning_rate` twice"),
            (["seeds=[1],[2]"], "same in all trials"),
            (["dataset_options.dedupe=true,false"], "same in all trials"),
            (["shots=4,8"], "`shots` must be the same in all trials"),  # each draws another validation part
            (["threshold=0.2,0.4"], "`threshold` must be the same in all trials"),  # which moves the metric itself
            ([], "needs a space"),
        ],
    )
    def test_bad_spaces(self, recipe, texts, message):
        with pytest.raises(ValueError, match=message):
            read_space(texts, recipe)

    @pytest.mark.parametrize(
        "text", ["class_weights.joy=1,2", "model_config.class_balanced_beta=0.1..0.9", "label_smoothing_factor=0..0.5"]
    )
    def test_a_loss_does_not_compare_other_losses(self, recipe, text):
        by_loss = dataclasses.replace(
            recipe, training_arguments={**recipe.training_arguments, "metric_for_best_model": "loss"}
        )
        assert read_space([text], recipe)
        with pytest.raises(ValueError, match="changes the loss"):
            read_space([text], by_loss)

    def test_values_reach_the_recipe(self, recipe):
        changed = with_values(
            recipe, {"learning_rate": 1e-05, "model_config.class_balanced_beta": 0.9, "max_length": 9}
        )
        assert changed.training_arguments == {"learning_rate": 1e-5, "per_device_train_batch_size": 8}
        assert changed.model_config["class_balanced_beta"] == 0.9 and changed.max_length == 9
        space = read_space([RATE, BATCH], recipe)
        assert own_values(recipe, space) == {"learning_rate": 3e-4, "per_device_train_batch_size": 8}
        assert own_values(recipe, read_space([RATE, "weight_decay=0.1,0.2"], recipe)) is None
        for weights in (None, "balanced", {"joy": 2}):
            weighted = dataclasses.replace(recipe, class_weights=weights)
            own = own_values(weighted, read_space(["class_weights.joy=0.5..3"], weighted))
            assert own == ({"class_weights.joy": 2} if isinstance(weights, dict) else None)

    def test_whole_numbers_of_fields_that_recipes_do_not_check(self, recipe):
        adapted = dataclasses.replace(recipe, adapter={"lora_alpha": 16, "lora_dropout": 0.1})
        for key, whole in (("r", True), ("lora_alpha", True), ("lora_dropout", False)):
            (found,) = read_space(
                [f"adapter.{key}=0..1" if key == "lora_dropout" else f"adapter.{key}=4..16"], adapted
            )
            assert found.whole is whole, key


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
        result = module.sweep(recipe, [RATE, BATCH], 14, tmp_path / "sweep")
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
        result = module.sweep(recipe, [RATE], 5, tmp_path / "sweep")
        assert [trial["number"] for trial in result["trials"] if trial["error"] == "too long for the encoder"] == [2]
        assert len(result["trials"]) == 5
        trainings.refused = (5,)  # the first trial of a sweep: the values may not be the reason
        with pytest.raises(ValueError, match="too long"):
            module.sweep(recipe, [RATE], 5, tmp_path / "other")

    def test_a_loss_is_minimised(self, recipe, trainings, tmp_path):
        trainings.lower = True
        result = module.sweep(recipe, [RATE], 6, tmp_path / "sweep")
        ended = [trial for trial in result["trials"] if trial["state"] == "complete"]
        assert result["best"] == min(ended, key=lambda trial: trial["dev"])["number"] and result["metric"] == "loss"

    @pytest.mark.parametrize("die_at", [0, 7])
    def test_an_interrupted_sweep_goes_on(self, recipe, trainings, tmp_path, die_at):
        whole = module.sweep(recipe, [RATE, BATCH], 10, tmp_path / "whole")
        trainings.recipes.clear()
        trainings.die_at = die_at
        with pytest.raises(Stop):
            module.sweep(recipe, [RATE, BATCH], 10, tmp_path / "sweep")
        journal = tmp_path / "sweep" / "trials.journal"
        journal.write_bytes(journal.read_bytes() + b'{"half a li')
        with pytest.raises(FileExistsError, match="--resume"):
            module.sweep(recipe, [RATE, BATCH], 10, tmp_path / "sweep")
        resumed = module.sweep(recipe, [RATE, BATCH], 10, tmp_path / "sweep", resume=True)
        assert table(resumed) == table(whole)
        assert len(list((tmp_path / "sweep").glob("trial-*"))) == 1
        more = module.sweep(recipe, [RATE, BATCH], 11, tmp_path / "sweep", resume=True)
        assert more["trials"][:10] == resumed["trials"]

    def test_what_resume_refuses(self, recipe, trainings, tmp_path):
        module.sweep(recipe, [RATE], 1, tmp_path / "sweep")
        for changed, space in ((recipe, [RATE, BATCH]), (dataclasses.replace(recipe, max_length=9), [RATE])):
            with pytest.raises(ValueError, match="another recipe or space"):
                module.sweep(changed, space, 2, tmp_path / "sweep", resume=True)
        (tmp_path / "other" / "file").parent.mkdir()
        (tmp_path / "other" / "file").touch()
        with pytest.raises(FileExistsError, match="is no sweep"):
            module.sweep(recipe, [RATE], 2, tmp_path / "other", resume=True)

    def test_resume_refuses_other_rows(self, trainings, tmp_path):
        """Trials over other rows cannot be compared. The test part is not read, so that it may change."""
        values = {"learning_rate": 3e-4}
        recipe = make_recipe({"name": "own", "dataset": "files", "training_arguments": values})
        for part in ("train", "dev", "test"):
            write_csv(tmp_path / "data" / f"{part}.csv", ["text", "label"], feelings_rows(12, multi_label=False))
        arguments = {"output": tmp_path / "sweep", "data_dir": tmp_path / "data"}
        module.sweep(recipe, [RATE], 1, **arguments)
        write_csv(tmp_path / "data" / "test.csv", ["text", "label"], feelings_rows(9, multi_label=False))
        module.sweep(recipe, [RATE], 2, **arguments, resume=True)
        before = files_in(tmp_path / "sweep")
        write_csv(tmp_path / "data" / "dev.csv", ["text", "label"], feelings_rows(9, multi_label=False))
        with pytest.raises(ValueError, match="--resume: .*sweep was trained on other rows"):
            module.sweep(recipe, [RATE], 3, **arguments, resume=True)
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
        result = module.sweep(recipe, [RATE], 6, tmp_path / "sweep")
        states = [trial["state"] for trial in result["trials"]]
        assert states == ["complete", "failed", *["complete"] * 4] and result["metric"] == "macro_f1"
        ended = [trial for trial in result["trials"] if trial["state"] == "complete"]
        assert result["best"] == max(ended, key=lambda trial: trial["dev"])["number"]
        assert (tmp_path / "sweep" / f"trial-{result['best']}").is_dir()

    def test_no_pruning_over_several_methods(self, recipe, trainings, tmp_path):
        """Each method for few rows starts its evaluations anew: the tenth of one trial is not that of another."""
        few = dataclasses.replace(recipe, model_type="label-aware", few_shot=["label-vectors", "fine-tuning"])
        result = module.sweep(few, [RATE, BATCH], 14, tmp_path / "sweep")
        assert {trial["state"] for trial in result["trials"]} <= {"complete", "failed"}

    def test_no_trial_ended(self, recipe, trainings, tmp_path):
        with pytest.raises(ValueError, match="no trial of the sweep ended: the training diverged"):
            module.sweep(recipe, ["learning_rate=9e-4..1e-3"], 2, tmp_path / "sweep")

    def test_missing_extra(self, recipe, monkeypatch, tmp_path):
        monkeypatch.setattr(module.importlib.util, "find_spec", lambda name: None)
        with pytest.raises(ModuleNotFoundError, match=r"hf-emotion\[sweep\]"):
            hf_emotion.sweep(recipe, [RATE], 2, tmp_path / "sweep")
        assert not (tmp_path / "sweep").exists()


def test_command(tiny_recipe, tmp_path, own_verbosity):
    (tmp_path / "tiny.yaml").write_text(tiny_recipe.to_yaml(), encoding="utf-8")
    arguments = (
        "sweep",
        tmp_path / "tiny.yaml",
        "--space",
        RATE,
        "--trials",
        "2",
        "-o",
        tmp_path / "sweep",
        "--set",
        "num_train_epochs=1",
    )
    with one_thread():
        printed = invoke(*arguments)
    result = json.loads((tmp_path / "sweep" / "trials.json").read_text("utf-8"))
    assert f"{result['best']} (best)" in printed and (tmp_path / "sweep" / "sweep.png").is_file()
    with drawn_pictures():
        write_sweep(tmp_path / "drawn.png", result, [("learning_rate", True)])
    assert (tmp_path / "drawn.png").stat().st_size > 5000
    run = json.loads((tmp_path / "sweep" / f"trial-{result['best']}" / "metrics.json").read_text("utf-8"))
    assert list(run["summary"]) == ["validation"]  # the test part was not read
    assert load_recipe(tmp_path / "sweep" / "best.yaml").name == tiny_recipe.name
