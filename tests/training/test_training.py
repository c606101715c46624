# SPDX-License-Identifier: Apache-2.0
"""Whole runs of a tiny model: what lies in the run folder, several seeds, interruptions, wrong inputs."""

import contextlib
import copy
import dataclasses
import itertools
import json
import math
import os
import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow.parquet
import pytest
import torch
from datasets import ClassLabel, DatasetDict, List, Value
from huggingface_hub import ModelCard
from model_cases import BY_ID, make_tokenizer
from safetensors.torch import load_file
from toolkit_helpers import (
    CHECKPOINT,
    REPORTS,
    RESULTS,
    UNTIED,
    drawn_pictures,
    feelings_rows,
    files_in,
    invoke,
    recipe_for,
    report_of,
    seed_run,
    torch_threads,
    travelling,
    write_csv,
)
from transformers import (
    AutoConfig,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DistilBertConfig,
    DistilBertModel,
    PrinterCallback,
    Trainer,
    TrainingArguments,
)
from transformers.integrations import TensorBoardCallback, WandbCallback

import hf_emotion.runs.train as run_module
import hf_emotion.runtime.base_models as models_module
from hf_emotion import (
    LabelAwareForSequenceClassification,
    Predictor,
    load_dataset_for,
    load_recipe,
    metrics,
    train,
)
from hf_emotion.data.splits import label_names
from hf_emotion.io import progress
from hf_emotion.io.files import creating, filling, is_taken, replacing, write_json
from hf_emotion.recipes import make_recipe
from hf_emotion.reports.analyze import analyze
from hf_emotion.reports.figures import write_plots
from hf_emotion.run_report import RunReport
from hf_emotion.runs.train import summarize
from hf_emotion.runtime.unread import said_once
from hf_emotion.tasks.sequence_classification import build_classifier, tokenize
from hf_emotion.taxonomies import GOEMOTIONS
from hf_emotion.training.progress import run_of_its_own, say_less
from hf_emotion.training.seeds import EmotionTrainer


pytest_plugins = ["toolkit_fixtures"]

CODE = travelling("configuration_label_aware", "modeling_label_aware", "pipeline_emotion_classification")
SCORES = {f"{average}_{name}" for average in ("macro", "micro", "weighted") for name in ("precision", "recall", "f1")}


@pytest.fixture(autouse=True)
def single_thread():
    with torch_threads(1):
        yield


@pytest.fixture
def no_plots(monkeypatch):
    """Drawing takes longer than training."""
    monkeypatch.setattr("hf_emotion.reports.figures.write_plots", lambda *arguments: None)


def feelings_recipe(base: Path, arguments: dict | None = None, **changes):
    values = {"name": "feelings", "dataset": "files", "dataset_options": {"label_separator": "|"}, "train_fraction": 1}
    return recipe_for(base, arguments, **{**values, **changes})


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def predictions(run: Path) -> dict[str, list]:
    return pyarrow.parquet.read_table(run / "predictions.parquet").to_pydict()


def loop_macro_f1(gold: list[set[str]], chosen: list[set[str]], names: list[str]) -> float:
    values = []
    for name in names:
        hits = sum(name in g and name in c for g, c in zip(gold, chosen, strict=True))
        total = sum(name in g for g in gold) + sum(name in c for c in chosen)
        values.append(2 * hits / total if total else 0.0)
    return sum(values) / len(values)


class TestRunFolder:
    def test_metrics(self, tiny_run):
        report, config = report_of(tiny_run), AutoModelForSequenceClassification.from_pretrained(tiny_run).config
        assert report["rows"] == {"train": 58, "validation": 152, "test": 244}
        assert list(report["class_counts"].values()) == config.class_counts  # of the rows that were used
        assert 58 <= sum(config.class_counts) <= 2 * 58
        assert set(report["duplicates"].values()) == {0}
        (run,) = report["runs"]
        assert run["seed"] == 42 and run["epochs"] == 2.0 and run["resumed"] is False
        for split, kind in itertools.product(("validation", "test"), ("fixed", "tuned")):
            assert set(run[split][kind]) >= SCORES | {"per_label", "top1_accuracy", "top3_accuracy", "confusions"}
            assert list(run[split][kind]["per_label"]) == GOEMOTIONS
        assert {"python", "torch", "transformers", "device", "threads"} <= set(report["environment"])
        assert report["environment"]["torch"] == torch.__version__

    def test_figures_follow_from_the_predictions(self, tiny_run):
        report = report_of(tiny_run)
        (run,) = report["runs"]
        rows = predictions(tiny_run)
        for split in ("validation", "test"):
            chosen = [i for i, name in enumerate(rows["split"]) if name == split]
            gold = [set(rows["labels"][i]) for i in chosen]
            scores = [dict(zip(GOEMOTIONS, rows["probabilities"][i], strict=True)) for i in chosen]
            fixed = metrics.scaled_threshold(0.3, run["temperature"])
            for kind, limits in (("fixed", dict.fromkeys(GOEMOTIONS, fixed)), ("tuned", run["thresholds"])):
                decided = [{name for name in row if row[name] > limits[name]} for row in scores]
                expected = loop_macro_f1(gold, decided, GOEMOTIONS)
                assert run[split][kind]["macro_f1"] == pytest.approx(expected), (split, kind)
        assert run["test"]["fixed"]["macro_f1"] != run["test"]["tuned"]["macro_f1"]

    def test_thresholds_are_tuned_on_validation(self, tiny_run):
        (run,) = report_of(tiny_run)["runs"]
        rows = predictions(tiny_run)
        splits = np.array(rows["split"])
        gold = np.array([[name in row for name in GOEMOTIONS] for row in rows["labels"]]).astype(int)
        scores = np.array(rows["probabilities"])
        dev = splits == "validation"
        thresholds = metrics.tune_thresholds(gold[dev], scores[dev])
        assert list(run["thresholds"].values()) == pytest.approx(thresholds) and len(set(thresholds)) > 10
        assert AutoModelForSequenceClassification.from_pretrained(tiny_run).config.thresholds == list(
            run["thresholds"].values()
        )

    def test_without_evaluations_the_last_weights_are_measured(self, base_bert, feelings, tmp_path, no_plots):
        recipe = feelings_recipe(base_bert, {"eval_strategy": "no"}, seeds=[3, 8])
        report = train(recipe, tmp_path / "run", data_dir=feelings).to_dict()
        for run in report["runs"]:
            assert run["best_dev_metric"] == pytest.approx(run["validation"]["fixed"]["macro_f1"], abs=1e-6)
            assert run["best_step"] is None and run["selected_by"] == "macro_f1"
        card = (tmp_path / "run" / "README.md").read_text(encoding="utf-8")
        assert "after the last step of its training, the best seed on the validation part" in card
        assert "epoch that was best" not in card

    @pytest.mark.parametrize("strategy", ["epoch", "no"])
    def test_whole_batches_are_for_the_training_alone(self, base_bert, feelings, tmp_path, no_plots, strategy):
        """Without an evaluation during the training the Trainer's `predict` measures, whose loader is another one."""
        found = []
        for drop_last in (False, True):
            arguments = {"dataloader_drop_last": drop_last, "per_device_eval_batch_size": 3, "max_steps": 1}
            recipe = feelings_recipe(base_bert, {**arguments, "eval_strategy": strategy}, seeds=[3])
            run = train(recipe, tmp_path / str(drop_last), data_dir=feelings)
            assert run.rows["validation"] % 3
            found.append(run.best.best_dev_metric)
        assert found[0] == found[1] > 0

    @pytest.mark.parametrize("fails", [False, True])
    def test_each_training_has_a_tracker_run_of_its_own(self, fails):
        """Also if it diverges: the next trial of a sweep would go on in its run."""
        wandb = SimpleNamespace(run=None, finish=lambda: setattr(wandb, "run", None))
        callback = object.__new__(WandbCallback)
        callback._wandb = wandb
        kept = [callback]
        trainer = SimpleNamespace(callback_handler=SimpleNamespace(callbacks=kept), remove_callback=kept.remove)
        with contextlib.suppress(FloatingPointError), run_of_its_own(trainer):
            wandb.run = "mine"
            if fails:
                raise FloatingPointError
        assert wandb.run is None and kept == []
        wandb.run, kept[:] = "the user's", [callback]
        with run_of_its_own(trainer):
            pass
        assert wandb.run == "the user's"

    def test_label_smoothing_is_for_one_label(self, base_bert, feelings, tmp_path):
        """transformers would leave it out of the loss of several labels with a warning."""
        with pytest.raises(ValueError, match="`label_smoothing_factor`"):
            train(feelings_recipe(base_bert, {"label_smoothing_factor": 0.1}), tmp_path / "run", data_dir=feelings)
        assert not (tmp_path / "run").exists()

    def test_weights_can_be_read_by_others(self, tiny_run):
        """A service may run as another user."""
        modes = {path.name: path.stat().st_mode & 0o777 for path in tiny_run.iterdir() if path.is_file()}
        assert modes["model.safetensors"] == modes["config.json"]

    def test_a_folder_holds_its_recipe_as_soon_as_it_is_there(
        self, base_bert, feelings, tmp_path, no_plots, monkeypatch
    ):
        """What takes time comes before: an interruption in between would leave a folder that cannot be resumed."""

        def fingerprint(splits):
            assert not is_taken(tmp_path / "run")
            raise KeyboardInterrupt

        monkeypatch.setattr("hf_emotion.training.seeds.fingerprint", fingerprint)
        with pytest.raises(KeyboardInterrupt):
            train(feelings_recipe(base_bert, {"max_steps": 1}), tmp_path / "run", data_dir=feelings)

    @pytest.mark.parametrize("last", [True, False])
    def test_the_metric_is_that_of_the_weights(self, last, base_bert, feelings, tmp_path, no_plots, monkeypatch):
        """Neither an earlier epoch, when the last weights are kept, nor an evaluation without a checkpoint."""
        measure, scores = EmotionTrainer.evaluate, {3: 1.1, 6: 1.2, 9: 1.9, 12: 1.3}

        def evaluate(self, *arguments, **options):
            return measure(self, *arguments, **options) | {"eval_macro_f1": scores[self.state.global_step]}

        monkeypatch.setattr(EmotionTrainer, "evaluate", evaluate)
        arguments = {"eval_strategy": "steps", "eval_steps": 3, "save_strategy": "steps", "save_steps": 6}
        recipe = feelings_recipe(base_bert, {**arguments, "load_best_model_at_end": not last})
        (run,) = train(recipe, tmp_path / "run", data_dir=feelings).to_dict()["runs"]
        assert run["best_step"] == (None if last else 6)
        assert run["best_dev_metric"] == pytest.approx(run["validation"]["fixed"]["macro_f1"], abs=1e-6)
        card = (tmp_path / "run" / "README.md").read_text(encoding="utf-8")
        assert ("the epoch that was best on the validation part" in card) is not last

    def test_plots(self, tiny_run, tmp_path):
        report = RunReport.read(tiny_run)
        report.name = "top_$5_vs_$10"  # no formula
        with drawn_pictures():
            write_plots(tmp_path, report, report.runs[0])
        for name in ("training_curve.png", "per_label_f1.png"):
            content = (tmp_path / name).read_bytes()
            assert content.startswith(b"\x89PNG") and len(content) > 5000


class TestCard:
    @pytest.fixture(scope="class")
    def card(self, tiny_run):
        return ModelCard.load(tiny_run / "README.md")

    def test_tables_have_the_figures_of_the_run(self, card, tiny_run):
        report = report_of(tiny_run)
        rows = [
            [cell.strip() for cell in line.strip("|").split("|")] for line in card.text.splitlines() if "|" in line
        ]
        header = next(row for row in rows if row[:2] == ["split", "decision"])
        for split in ("validation", "test"):
            for kind, decision in (("fixed", "threshold 0.3"), ("tuned", "tuned thresholds")):
                (row,) = [row for row in rows if row[:2] == [split, decision]]
                figures = report["summary"][split][kind]
                assert row[2:] == [f"{figures[name]['mean']:.4f}" for name in header[2:]]
        (run,) = report["runs"]
        for label in GOEMOTIONS:
            (row,) = [row for row in rows if row[0] == label]
            values = run["test"]["tuned"]["per_label"][label]
            numbers = [run["thresholds"][label], values["precision"], values["recall"], values["f1"]]
            assert row[1:] == [*(f"{number:.3f}" for number in numbers), str(values["support"])]

    def test_it_says_what_was_done(self, card):
        for text in (
            "A tiny run.",
            "Seeds: 42",
            "cut to 32 tokens",
            "a share of 0.1 of the training part",
            "`num_train_epochs=2.0`",
            "`tie_head=False`",
            "Weight decay left out the parameters whose names hold `score.label_embeddings`",
            "trust_remote_code=True",
        ):
            assert text in card.text, text

    def test_published_figures_base_model_and_paper(self, tmp_path, tiny_run):
        from hf_emotion.reports.card import write_card

        recipe = load_recipe("goemotions/laa_cb")
        report = dataclasses.replace(RunReport.read(tiny_run), published=recipe.published)
        write_card(tmp_path, recipe, report, report.runs[0])
        card = ModelCard.load(tmp_path / "README.md")
        assert card.data.base_model == "google-bert/bert-base-cased"
        assert card.data.datasets == ["google-research-datasets/go_emotions"]
        assert "LAA + CB" in card.text and "macro_f1 0.52" in card.text
        assert "Wu, Wang and Liu" in card.text and "CC BY 4.0" in card.text

    @pytest.mark.parametrize(
        ("fields", "licence", "text"),
        [
            ({}, None, "name their terms here"),
            ({"data_license": "CC-BY-SA-4.0"}, "cc-by-sa-4.0", "licence CC-BY-SA-4.0"),
            ({"data_license": "LicenseRef-Ours", "data_terms": "a <b> | c"}, "other", "LicenseRef-Ours; a &lt;b&gt;"),
            ({"data_terms": "ask the clinic"}, "other", "ask the clinic"),
        ],
    )
    def test_the_licence_of_own_files_is_the_one_that_was_chosen(self, fields, licence, text, tmp_path, tiny_run):
        from hf_emotion.reports.card import write_card

        report = RunReport.read(tiny_run)
        write_card(tmp_path, make_recipe({"name": "mine", "dataset": "files", **fields}), report, report.runs[0])
        card = ModelCard.load(tmp_path / "README.md")
        assert card.data.license == licence and text in card.text
        assert ("name their terms here" in card.text) is (not fields)


class TestSeeds:
    @pytest.fixture(scope="class")
    def recipe(self, base_bert):
        return feelings_recipe(base_bert, seeds=[3, 8], model_config={**UNTIED, "hidden_dropout_prob": 0.1})

    @pytest.fixture(scope="class")
    def two_seeds(self, tmp_path_factory, recipe, feelings):
        output = tmp_path_factory.mktemp("seeds") / "run"
        with torch_threads(1):
            train(recipe, output, data_dir=feelings)
        return output

    def test_files(self, two_seeds):
        seed_files = CHECKPOINT | CODE | REPORTS | {"metrics.json", "predictions.parquet", "train.log"}
        expected = {*CHECKPOINT, *CODE, *RESULTS}
        for seed in (3, 8):
            expected |= {f"seed-{seed}/{name}" for name in seed_files}
        assert set(files_in(two_seeds)) == expected
        assert {path.name for path in two_seeds.rglob("*") if path.is_dir()} == {"seed-3", "seed-8"}

    def test_three_values(self):
        runs = [
            seed_run(test={"fixed": {"macro_f1": value, "per_label": {}, "confusions": []}})
            for value in (0.1, 0.2, 0.6)
        ]
        expected = {"mean": pytest.approx(0.3), "std": pytest.approx(math.sqrt((0.04 + 0.01 + 0.09) / 2))}
        assert summarize(runs) == {"test": {"fixed": {"macro_f1": expected}}}

    def test_figures_that_are_undefined(self):
        # top3_accuracy of a corpus without a row of several labels
        runs = [seed_run(test={"fixed": {"top3_accuracy": float("nan")}}) for _ in range(2)]
        found = summarize(runs)["test"]["fixed"]["top3_accuracy"]
        assert math.isnan(found["mean"]) and math.isnan(found["std"])

    def test_the_best_seed_on_validation_stands_for_the_run(self, two_seeds):
        report = report_of(two_seeds)
        first, second = report["runs"]
        assert first["best_dev_metric"] != second["best_dev_metric"]
        best = max(report["runs"], key=lambda run: run["best_dev_metric"])
        chosen, other = weights(two_seeds / f"seed-{best['seed']}"), weights(two_seeds / f"seed-{11 - best['seed']}")
        found = weights(two_seeds)
        assert all(torch.equal(found[name], chosen[name]) for name in chosen)
        assert any(not torch.equal(found[name], other[name]) for name in other)
        config = AutoModelForSequenceClassification.from_pretrained(two_seeds).config
        assert config.thresholds == list(best["thresholds"].values())
        assert predictions(two_seeds) == predictions(two_seeds / f"seed-{best['seed']}")
        assert f"the weights are those of seed {best['seed']}" in (two_seeds / "README.md").read_text()

    def test_card(self, two_seeds):
        text = (two_seeds / "README.md").read_text()
        found = report_of(two_seeds)["summary"]["test"]["tuned"]["macro_f1"]
        assert f"{found['mean']:.4f} ± {found['std']:.4f}" in text
        assert "Mean ± standard deviation over 2 seeds." in text

    def test_a_metric_that_is_never_a_number(self, recipe, feelings, tmp_path, no_plots, monkeypatch, caplog):
        """A validation part without any turn but neutral ones has no F1 of the others."""
        measure = EmotionTrainer.evaluation_loop

        def evaluation_loop(self, *arguments, **options):
            found = measure(self, *arguments, **options)
            return found._replace(metrics=found.metrics | {"eval_macro_f1": float("nan")})

        monkeypatch.setattr(EmotionTrainer, "evaluation_loop", evaluation_loop)
        report = train(dataclasses.replace(recipe, seeds=[3]), tmp_path / "run", data_dir=feelings).to_dict()
        assert report["runs"][0]["best_dev_metric"] is None and "was never a number" in caplog.text
        assert report_of(tmp_path / "run")["runs"][0]["best_dev_metric"] is None

    def test_resume_keeps_finished_seeds(self, two_seeds, recipe, feelings, tmp_path, steps, no_plots):
        output = tmp_path / "run"
        shutil.copytree(two_seeds, output)
        before = report_of(output)
        for name in ("metrics.json", "README.md", "model.safetensors"):
            (output / name).unlink()
        shutil.rmtree(output / "seed-8")
        train(recipe, output, data_dir=feelings, resume=True)
        assert len(steps) == 2 * 6  # one seed, two epochs of 48 rows in batches of 8
        after = report_of(output)
        assert after["runs"][0] == before["runs"][0]
        assert after["runs"][1]["test"] == before["runs"][1]["test"]  # a seed's run depends on nothing but the seed
        assert after["summary"] == before["summary"]
        assert set(files_in(output)) == set(files_in(two_seeds))
        # Then it is finished: the files of the best seed do not replace those of the run, which may have been changed.
        (output / "config.json").write_text("{}", encoding="utf-8")
        assert train(recipe, output, data_dir=feelings, resume=True).to_dict() == after
        assert (output / "config.json").read_text(encoding="utf-8") == "{}" and len(steps) == 2 * 6


class Interruption(Exception):
    pass


class TestResume:
    @pytest.fixture(scope="class")
    def recipe(self, base_bert):
        # The last weights, not those of the best epoch, which might be the first. Dropout: random states count.
        arguments = {"num_train_epochs": 3, "load_best_model_at_end": False, "learning_rate": 1e-2}
        dropout = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}
        return feelings_recipe(base_bert, arguments, model_config={**UNTIED, **dropout})

    @pytest.fixture(scope="class")
    def uninterrupted(self, tmp_path_factory, recipe, feelings):
        output = tmp_path_factory.mktemp("uninterrupted") / "run"
        with torch_threads(1), pytest.MonkeyPatch.context() as patch:
            patch.setattr("hf_emotion.reports.figures.write_plots", lambda *arguments: None)
            train(recipe, output, data_dir=feelings)
        return output

    def test_another_recipe(self, uninterrupted, recipe, feelings, base_bert, tmp_path):
        """And none: what is there is left alone."""
        interrupted = shutil.copytree(uninterrupted, tmp_path / "run")
        (interrupted / "metrics.json").unlink()
        before = files_in(interrupted)
        other = feelings_recipe(base_bert, {**recipe.training_arguments, "learning_rate": 0.5})
        with pytest.raises(ValueError, match=r"--resume: .*recipe.yaml is not the recipe of this command"):
            train(other, interrupted, data_dir=feelings, resume=True)
        with pytest.raises(FileExistsError, match="exists and is not empty.*--resume"):
            train(recipe, interrupted, data_dir=feelings)
        assert files_in(interrupted) == before

    def test_a_finished_run_is_left_alone(self, uninterrupted, recipe, feelings, tmp_path, steps, caplog):
        """What was added to it later stays: an abstention, the page of the analysis, an edited card."""
        output = tmp_path / "run"
        shutil.copytree(uninterrupted, output)
        analyze(output, data_dir=feelings, abstain={"coverage": 0.5})
        with (output / "README.md").open("a", encoding="utf-8") as card:
            card.write("Mine.")
        before = {name: (output / name).read_bytes() for name in files_in(output)}
        report = train(recipe, output, data_dir=feelings, resume=True).to_dict()
        assert steps == [] and "finished already" in caplog.text
        assert report == report_of(uninterrupted)
        shutil.copytree(feelings, tmp_path / "other")
        write_csv(tmp_path / "other" / "train.csv", ["text", "label"], feelings_rows(47))
        with pytest.raises(ValueError, match="--resume: .* was trained on other rows"):
            train(recipe, output, data_dir=tmp_path / "other", resume=True)
        assert {name: (output / name).read_bytes() for name in files_in(output)} == before

    def test_nothing_to_resume_in_the_default_folder_is_a_run_from_the_start(
        self, tmp_path, base_bert, feelings, steps, no_plots, monkeypatch
    ):
        monkeypatch.chdir(tmp_path)
        recipe = feelings_recipe(base_bert, {"num_train_epochs": 1}, name="mine")
        report = train(recipe, data_dir=feelings, resume=True).to_dict()
        assert len(steps) == 6 and report["runs"][0]["resumed"] is False
        assert (tmp_path / "runs" / "mine" / "metrics.json").is_file()


class TestOutput:
    @pytest.mark.parametrize("kind", ["file in it", "folder in it", "file"])
    def test_something_is_there(self, kind, tmp_path, base_bert, feelings, monkeypatch):
        output = tmp_path / "run"
        if kind == "file":
            output.write_text("mine")
        else:
            output.mkdir()
            (output / "sub").mkdir() if kind == "folder in it" else (output / "mine.txt").write_text("mine")
        before = files_in(tmp_path)
        monkeypatch.setattr(run_module, "load_dataset_for", None)  # refused before any work
        with pytest.raises(FileExistsError, match="the folder .*run exists and is not empty"):
            train(feelings_recipe(base_bert), output, data_dir=feelings)
        assert files_in(tmp_path) == before

    def test_resume_in_a_folder_that_is_no_run(self, tmp_path, base_bert, feelings, no_plots):
        (tmp_path / "README.md").write_text("mine")
        before = files_in(tmp_path)
        with pytest.raises((FileExistsError, ValueError)):
            train(feelings_recipe(base_bert, {"num_train_epochs": 1}), tmp_path, data_dir=feelings, resume=True)
        assert files_in(tmp_path) == before


class TestKinds:
    def test_gradient_accumulation_is_one_large_batch(self, tmp_path, base_bert, feelings, no_plots):
        """Of a stock model; of ours: test_models_shared.py."""
        found = []
        for batch, accumulation in ((48, 1), (12, 4)):
            arguments = {
                "num_train_epochs": 2,
                "per_device_train_batch_size": batch,
                "gradient_accumulation_steps": accumulation,
                "optim": "sgd",
                "learning_rate": 0.5,
                "lr_scheduler_type": "constant",
                "max_grad_norm": 0.0,  # clipping would hide a gradient that is too large
                "load_best_model_at_end": False,
                "logging_steps": 1,
            }
            recipe = feelings_recipe(base_bert, arguments, model_type=None, model_config={})
            report = train(recipe, tmp_path / f"run-{batch}", data_dir=feelings).to_dict()
            losses = [entry["loss"] for entry in report["runs"][0]["history"] if "loss" in entry]
            found.append((weights(tmp_path / f"run-{batch}"), losses))
        (large, large_losses), (small, small_losses) = found
        assert len(large_losses) == len(small_losses) == 2
        assert small_losses == pytest.approx(large_losses, rel=1e-3)
        start = load_file(base_bert / "model.safetensors")
        moved = max((large[f"bert.{name}"] - start[name]).abs().max().item() for name in start if "pooler" not in name)
        assert moved > 1e-3  # a gradient four times too large would show
        for name in large:
            torch.testing.assert_close(small[name], large[name], rtol=1e-3, atol=1e-5, msg=name)

    def test_it_learns(self, tmp_path, base_bert, feelings, no_plots):
        recipe = feelings_recipe(base_bert, {"num_train_epochs": 8, "learning_rate": 8e-3}, model_config={})
        report = train(recipe, tmp_path / "run", data_dir=feelings).to_dict()
        assert report["summary"]["test"]["tuned"]["macro_f1"]["mean"] > 0.85

    def test_fewer_rows_to_measure_on(self, tmp_path, base_bert, feelings, no_plots):
        """A part that is smaller stays whole; the analysis finds the texts of the rows that were drawn."""
        recipe = feelings_recipe(base_bert, {"num_train_epochs": 1}, max_eval_rows=5)
        report = train(recipe, tmp_path / "run", data_dir=feelings).to_dict()
        assert report["rows"] == {"train": 48, "validation": 5, "test": 5} and report["max_eval_rows"] == 5
        ids = pyarrow.parquet.read_table(tmp_path / "run" / "predictions.parquet")["id"].to_pylist()
        lines = [int(row_id.split("-")[1]) for row_id in ids if row_id.startswith("test")]
        assert len(ids) == 10 and lines == sorted(lines) and lines != [2, 3, 4, 5, 6]
        analyze(tmp_path / "run", data_dir=feelings)

    def test_a_line_now_and_then(self, tmp_path, base_bert, feelings, no_plots, monkeypatch, capsys):
        """Without a terminal: of the training, its evaluations, and the predictions after it."""
        clock = itertools.count(step=20)
        monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: float(next(clock))))
        recipe = feelings_recipe(base_bert, {"num_train_epochs": 2, "per_device_eval_batch_size": 2})
        train(recipe, tmp_path / "run", data_dir=feelings)
        said = capsys.readouterr().err.splitlines()
        found = [
            re.match(r"(\d+) of (\d+) (steps|batches|texts)\b.* \((\d+) %\) in \d+ (s|min)(, about|$)", line)
            for line in said
        ]
        found = [match.groups() for match in found if match]
        steps = [int(done) for done, total, unit, *_ in found if unit == "steps"]
        assert steps[:2] == [2, 4] and all(int(total) == steps[-1] for _, total, unit, *_ in found if unit == "steps")
        assert [done for done, total, unit, *_ in found if unit == "batches"] == ["2", "4", "6", "8"] * 2
        with progress.progress_bar(True, 4, "texts") as bar:
            for _ in range(4):
                bar.update()
        lines = ["2 of 4 texts (50 %) in 40 s, about 40 s left", "4 of 4 texts (100 %) in 80 s"]
        assert capsys.readouterr().err.splitlines() == lines
        with progress.progress_bar(True, 4, "texts") as bar:
            bar.update(4)
        assert capsys.readouterr().err == ""  # short work needs no line


class TestInputs:
    def test_a_base_model_that_cannot_be_found(self, tmp_path, feelings, monkeypatch):
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")
        for name in ("nobody/no-such-model", str(tmp_path / "nowhere")):
            with pytest.raises(OSError) as caught:
                train(feelings_recipe(Path(name)), tmp_path / "run", data_dir=feelings)
            message = str(caught.value)
            assert f"the base model {name!r} cannot be loaded" in message
            assert "to work offline, name a folder" in message or Path(name).is_absolute()
            assert "\n" not in message

    def test_a_tokenizer_without_weights(self, tmp_path, base_bert, feelings):
        shutil.copytree(base_bert, tmp_path / "base", ignore=shutil.ignore_patterns("model.safetensors"))
        with pytest.raises(OSError, match="model.safetensors"):
            train(feelings_recipe(tmp_path / "base"), tmp_path / "run", data_dir=feelings)

    def test_another_architecture(self, tmp_path, base_bert, feelings):
        """Label-aware attention takes any encoder, and the run says which model type it became."""
        base = tmp_path / "distil"
        AutoTokenizer.from_pretrained(base_bert).save_pretrained(base)
        words = AutoConfig.from_pretrained(base_bert).vocab_size
        encoder = DistilBertModel(DistilBertConfig(vocab_size=words, dim=16, n_heads=2, n_layers=1, hidden_dim=24))
        encoder.save_pretrained(base)
        recipe = feelings_recipe(base, model_config={"sentence_representation": "cls", "head_bias_init": "prior"})
        report = train(recipe, tmp_path / "run", data_dir=feelings).to_dict()
        assert report["model_type"] == "label-aware"
        model = AutoModelForSequenceClassification.from_pretrained(tmp_path / "run")
        assert type(model) is LabelAwareForSequenceClassification
        assert (
            model.config.sentence_representation == "first" and model.config.encoder_config.model_type == "distilbert"
        )
        assert Predictor(tmp_path / "run")(["i am so happy today"])
        # A trained one is a base for other labels, and its encoder for other models.
        again = dataclasses.replace(recipe, base_model=str(tmp_path / "run"), name="again", model_config={})
        train(again, tmp_path / "again", data_dir=feelings)
        stock = dataclasses.replace(again, model_type=None, model_config={})
        train(stock, tmp_path / "stock", data_dir=feelings)
        assert AutoConfig.from_pretrained(tmp_path / "stock").model_type == "distilbert"
        with pytest.raises(ValueError, match="sentence_representation.* got pooler"):
            fields = {"sentence_representation": "pooler"}
            train(dataclasses.replace(recipe, model_config=fields), tmp_path / "other", data_dir=feelings)

    def test_a_part_that_is_missing(self, tmp_path, base_bert, feelings, single_label):
        recipe = feelings_recipe(base_bert)
        splits = load_dataset_for("files", feelings, label_separator="|")
        with pytest.raises(ValueError, match="needs rows in the part 'train'; the corpus has"):
            train(recipe, tmp_path / "run", splits=DatasetDict(validation=splits["validation"]))
        recipe = dataclasses.replace(recipe, dataset_options={"validation_fraction": 0.0})
        with pytest.raises(ValueError, match="needs rows in the part 'validation'"):
            train(recipe, tmp_path / "run", data_dir=single_label)
        assert not (tmp_path / "run").exists()

    def test_given_parts_with_other_labels(self, tmp_path, base_bert, feelings):
        """Labels are numbers: in another order the figures would be of other labels."""
        splits = load_dataset_for("files", feelings, label_separator="|")
        names = label_names(splits["train"])
        renamed = splits["validation"].cast_column("labels", List(ClassLabel(names=names[::-1])))
        plain = splits["validation"].cast_column("labels", List(Value("int64")))
        for part, message in (
            (renamed, "same names in the same order"),
            (plain, "must be `ClassLabel`"),
        ):
            with pytest.raises(ValueError, match=message):
                train(feelings_recipe(base_bert), tmp_path / "run", splits=DatasetDict({**splits, "validation": part}))
        assert not (tmp_path / "run").exists()

    def test_a_part_without_rows(self, tmp_path, base_bert, feelings):
        """Such as a training part whose texts are all in the test part too, after `dedupe`."""
        splits = load_dataset_for("files", feelings, label_separator="|")
        for part in ("train", "validation"):
            given = DatasetDict({**splits, part: splits[part].select([])})
            with pytest.raises(ValueError, match=f"needs rows in the part '{part}'.*`dedupe`"):
                train(feelings_recipe(base_bert), tmp_path / "run", splits=given)
        (tmp_path / "data").mkdir()
        for name in ("train", "dev", "test"):
            shutil.copyfile(feelings / "test.csv", tmp_path / "data" / f"{name}.csv")
        options = {"label_separator": "|", "dedupe": True}
        recipe = dataclasses.replace(feelings_recipe(base_bert), dataset_options=options)
        with pytest.raises(ValueError, match="`dedupe` leaves no training row"):
            train(recipe, tmp_path / "run", data_dir=tmp_path / "data")
        assert not (tmp_path / "run").exists()

    def test_long_texts_are_cut_with_one_counted_warning(self, tmp_path, base_bert, caplog):
        rows = [["sun " * (30 if i % 5 == 0 else 3), "joy"] for i in range(20)]
        for part in ("train", "dev"):
            write_csv(tmp_path / f"{part}.csv", ["text", "label"], rows)
        train_part, tokenizer = load_dataset_for("files", tmp_path)["train"], AutoTokenizer.from_pretrained(base_bert)
        with said_once():
            for _ in range(2):
                encoded = tokenize(train_part, tokenizer, 8, SimpleNamespace())
        warnings = [record.getMessage() for record in caplog.records if "longer than" in record.getMessage()]
        assert warnings == ["4 of 20 texts are longer than 8 tokens (`max_length`) and were cut"]
        assert set(encoded.column_names) == {"input_ids", "length", "labels"}
        assert encoded["length"][:] == [8 if i % 5 == 0 else 5 for i in range(20)]
        assert [len(ids) for ids in encoded["input_ids"]] == encoded["length"][:]
        assert all(ids[-1] == tokenizer.sep_token_id for ids in encoded["input_ids"])

    @pytest.mark.parametrize("aspects", [None, ["a", "b"]])
    def test_minilm_gets_a_new_pooler(self, base_bert, monkeypatch, aspects):
        """The packaged one is untrained, and its weights are so small that nothing gets through; models of aspects keep it."""
        contexts = None if aspects is None else {"aspects": aspects, "targets": None, "target_texts": None}
        monkeypatch.setattr(models_module, "resolve_base_model", lambda name: str(base_bert))

        def weights(base_model: str) -> tuple[dict, torch.Tensor]:
            torch.manual_seed(0)
            tokenizer = AutoTokenizer.from_pretrained(base_bert)
            arguments = (base_model, None, {}, tokenizer, ["no", "yes"], False, [1, 1])
            model = build_classifier(*arguments, contexts=contexts)
            return model.bert.pooler.dense.state_dict(), model.classifier.weight

        (kept, head), (new, same_head) = (weights(name) for name in (str(base_bert), "minilm"))
        stored = load_file(base_bert / "model.safetensors")["pooler.dense.weight"]
        assert torch.equal(kept["weight"], stored) and torch.equal(head, same_head)
        if aspects is not None:
            assert torch.equal(new["weight"], stored)
            return
        assert new["weight"].std() == pytest.approx(len(stored) ** -0.5, rel=0.1) and new["weight"].mean().abs() < 0.02
        assert not new["bias"].any()

    @pytest.mark.parametrize("model_type", ["label-aware-bert", None])
    @pytest.mark.parametrize("names", [["joy", "anger", "fear"], list(GOEMOTIONS[::-1])], ids=["fewer", "others"])
    def test_a_trained_classifier_of_other_labels_is_a_base(
        self, tiny_run, stock_run, names, model_type, caplog, tmp_path
    ):
        """Its encoder goes on, its head does not, not even where the shapes fit."""
        run = tiny_run if model_type else stock_run
        tokenizer, trained = AutoTokenizer.from_pretrained(run), load_file(run / "model.safetensors")
        arguments = (str(run), model_type, {}, tokenizer, names, False, [1] * len(names))
        torch.manual_seed(0)
        model = build_classifier(*arguments)
        assert "its encoder is kept" in caplog.text
        assert model.config.num_labels == len(names) and model.config.id2label[0] == names[0]
        assert getattr(model.config, "thresholds", None) is None
        assert getattr(model.config, "calibration_temperature", None) is None
        model.save_pretrained(tmp_path)
        new = load_file(tmp_path / "model.safetensors")
        encoder = {key for key in trained if ".encoder." in key or ".embeddings." in key}
        assert len(encoder) > 10 and all(torch.equal(new[key], trained[key]) for key in encoder)
        heads = {key for key in new if "label" in key or key == "classifier.weight"}
        assert heads and not any(torch.equal(new[key], trained[key]) for key in heads if key in trained)
        if model_type:  # the label vectors start from the new names
            again = copy.deepcopy(model).init_label_embeddings(tokenizer, names)
            assert all(torch.equal(a, b) for a, b in zip(again.parameters(), model.parameters(), strict=True))

    def test_a_trained_classifier_of_the_same_labels_goes_on_whole(self, tiny_run, caplog):
        tokenizer = AutoTokenizer.from_pretrained(tiny_run)
        trained = AutoModelForSequenceClassification.from_pretrained(tiny_run).state_dict()
        names = list(GOEMOTIONS)
        arguments = (str(tiny_run), "label-aware-bert", {}, tokenizer, names, True, [1] * 28)
        state = build_classifier(*arguments).state_dict()
        assert "its encoder is kept" not in caplog.text
        assert all(torch.equal(state[key], value) for key, value in trained.items())

    def test_a_trained_head_of_another_shape_stays_behind(self, tied_run, caplog):
        """The methods for few rows have a head for each label."""
        tokenizer, names = AutoTokenizer.from_pretrained(tied_run), list(GOEMOTIONS)
        trained = AutoModelForSequenceClassification.from_pretrained(tied_run).state_dict()
        fields = {"tie_head": False}
        model = build_classifier(str(tied_run), "label-aware-bert", fields, tokenizer, names, True, [1] * 28)
        assert "its encoder is kept" in caplog.text and model.config.tie_head is False
        own = model.state_dict()
        assert all(torch.equal(own[name], value) for name, value in trained.items() if ".encoder." in name)

    @pytest.mark.parametrize(("model_type", "case"), [("label-aware-bert", "label-aware"), ("roberta-esa", "esa")])
    def test_loss_and_gate_of_a_trained_classifier_stay_behind(self, tmp_path, model_type, case):
        """A gate was fitted on other texts, and its file does not come along."""
        counts = [3] * BY_ID[case].build().config.num_labels
        loss = {"class_balanced_beta": 0.9, "class_balanced_normalize": True, "class_counts": counts}
        kept, gate = ({"tfidf_gating": kind} if case == "esa" else {} for kind in ("filter", "scale"))
        base = BY_ID[case].build(**loss, **kept)
        base.save_pretrained(tmp_path)
        names, several = list(base.config.id2label.values()), base.config.problem_type != "single_label_classification"
        tokenizer = make_tokenizer(tmp_path / "tokenizer")
        plain, own = (
            build_classifier(str(tmp_path), model_type, fields, tokenizer, names, several, [1] * len(names)).config
            for fields in ({}, {"class_balanced_beta": 0.5, **gate})
        )
        assert plain.class_balanced_beta is None and plain.class_balanced_normalize is False
        assert own.class_balanced_beta == 0.5
        assert not gate or (plain.tfidf_gating, own.tfidf_gating) == ("none", "scale")

    def test_aspects_of_a_trained_classifier_stay_behind(self, stock_run, tmp_path):
        """Plain texts with the same labels: the model would ask each of them for its aspect."""
        shutil.copytree(stock_run, tmp_path / "base")
        tokenizer, config = AutoTokenizer.from_pretrained(stock_run), AutoConfig.from_pretrained(stock_run)
        config.aspects = ["price"]
        config.save_pretrained(tmp_path / "base")
        names = [config.id2label[i] for i in range(config.num_labels)]
        multi_label = config.problem_type == "multi_label_classification"
        model = build_classifier(str(tmp_path / "base"), None, {}, tokenizer, names, multi_label, [1] * len(names))
        assert getattr(model.config, "aspects", None) is None

    def test_own_labels_from_the_command_line(self, tiny_run, feelings, tmp_path):
        invoke(
            *("train", "goemotions/laa_cb", "--base-model", tiny_run, "--data-dir", feelings, "-o", tmp_path / "run"),
            *("--set", "dataset=files", "--set", "dataset_options={label_separator: '|'}", "--set", "max_length=20"),
            *("--set", "max_steps=2", "--set", "report_to=none"),
        )
        names = AutoConfig.from_pretrained(tmp_path / "run").id2label
        assert list(names.values()) == ["anger", "joy", "neutral"]
        assert load_recipe(tmp_path / "run" / "recipe.yaml").published == {}  # those of GoEmotions

    def test_minilm_without_the_extra(self, tmp_path, feelings, monkeypatch):
        import importlib.util

        monkeypatch.setattr(importlib.util, "find_spec", lambda *arguments: None)
        with pytest.raises(ModuleNotFoundError, match=r"'minilm' needs .*pip install 'hf-emotion\[offline\]'"):
            train(feelings_recipe(Path("minilm")), tmp_path / "run", data_dir=feelings)


class TestFiles:
    def test_replacing_writes_all_or_nothing(self, tmp_path):
        path = tmp_path / "a.json"
        path.write_text("old")
        with pytest.raises(Interruption), replacing(path) as temporary:
            temporary.write_text("half")
            raise Interruption
        assert files_in(tmp_path) == {"a.json": b"old"}
        with replacing(path) as temporary:
            assert temporary.suffix == ".json" and temporary.parent == tmp_path
            temporary.write_text("new")
            assert path.read_text() == "old"
        assert files_in(tmp_path) == {"a.json": b"new"}

    def test_filling_writes_all_or_nothing(self, tmp_path):
        folder = tmp_path / "run"
        with pytest.raises(Interruption), filling(folder) as temporary:
            (temporary / "half").write_text("x")
            raise Interruption
        assert files_in(folder) == {} and list(folder.iterdir()) == []
        with filling(folder) as temporary:
            (temporary / "a").write_text("x")
        assert files_in(folder) == {"a": b"x"} and len(list(folder.iterdir())) == 1

    @pytest.mark.parametrize("kind", ["new", "empty", "link", "."])
    def test_creating_writes_all_or_nothing(self, tmp_path, monkeypatch, kind):
        (tmp_path / "real").mkdir()
        (tmp_path / "link").symlink_to("real")
        monkeypatch.chdir(tmp_path / "real")
        folder = {"new": tmp_path / "a" / "b", "empty": tmp_path / "real", "link": tmp_path / "link"}.get(kind, Path())
        with pytest.raises(Interruption), creating(folder) as temporary:
            (temporary / "half").write_text("x")
            raise Interruption
        assert files_in(tmp_path) == {}
        with creating(folder) as temporary:
            (temporary / "a").write_text("x")
        assert (tmp_path / ("a/b/a" if kind == "new" else "real/a")).read_text() == "x"
        assert (tmp_path / "link").is_symlink() and len(files_in(tmp_path)) == 1

    @pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
    def test_others_may_read_what_the_umask_lets_them(self, tmp_path):
        with replacing(tmp_path / "a") as temporary:
            temporary.write_text("x")
        (tmp_path / "b").write_text("x")
        assert (tmp_path / "a").stat().st_mode == (tmp_path / "b").stat().st_mode

    def test_nan_and_infinities_become_null(self, tmp_path):
        nan, path = float("nan"), tmp_path / "a.json"
        write_json(path, {"a": [nan, 1.5], "b": (nan,), "c": "é", "d": [float("-inf")]})
        text = path.read_text(encoding="utf-8")
        assert json.loads(text) == {"a": [None, 1.5], "b": [None], "c": "é", "d": [None]} and "é" in text


class TestTensorBoard:
    def test_events_lie_in_the_run_folder(self, tmp_path, base_bert):
        """The stock place is below `checkpoints`, which the end of a run removes."""
        trainer = Trainer(
            AutoModelForSequenceClassification.from_pretrained(base_bert),
            TrainingArguments(str(tmp_path / "checkpoints"), report_to="none", disable_tqdm=True),
        )
        board = object.__new__(TensorBoardCallback)  # made without tensorboard
        board.logging_dir = None
        trainer.add_callback(board)
        say_less(trainer, tmp_path)
        assert board.logging_dir == str(tmp_path / "tensorboard")
        assert not any(isinstance(callback, PrinterCallback) for callback in trainer.callback_handler.callbacks)
