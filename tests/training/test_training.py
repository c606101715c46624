# SPDX-License-Identifier: Apache-2.0
"""Whole runs of a tiny model: what lies in the run folder, several seeds, interruptions, wrong inputs."""

import contextlib
import copy
import dataclasses
import itertools
import json
import math
import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow.parquet
import pytest
import toolkit_helpers as kit
import torch
from datasets import ClassLabel, DatasetDict, List, Value
from huggingface_hub import ModelCard
from model_cases import BY_ID
from safetensors.torch import load_file
from sklearn.metrics import f1_score
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
from hf_emotion import LabelAwareForSequenceClassification, Predictor, load_dataset_for, load_recipe, metrics, train
from hf_emotion.data.splits import label_names
from hf_emotion.io import progress
from hf_emotion.io.files import creating, filling, is_taken, replacing, write_json
from hf_emotion.recipes import Recipe, make_recipe
from hf_emotion.reports.analyze import analyze
from hf_emotion.reports.card import write_card
from hf_emotion.reports.figures import write_plots
from hf_emotion.run_report import RunReport
from hf_emotion.runs.train import summarize
from hf_emotion.runtime.unread import said_once
from hf_emotion.tasks.held_out import one_answer
from hf_emotion.tasks.sequence_classification import build_classifier, tokenize
from hf_emotion.taxonomies import GOEMOTIONS
from hf_emotion.training.progress import run_of_its_own, say_less
from hf_emotion.training.seeds import EmotionTrainer


pytest_plugins = ["toolkit_fixtures"]
pytestmark = pytest.mark.usefixtures("single_thread")

CODE = kit.travelling("configuration_label_aware", "modeling_label_aware", "pipeline_emotion_classification")


def feelings_recipe(base: Path, arguments: dict | None = None, **changes):
    values = {"name": "feelings", "dataset": "files", "dataset_options": {"label_separator": "|"}, "train_fraction": 1}
    return kit.recipe_for(base, arguments, **{**values, **changes})


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def predictions(run: Path) -> dict[str, list]:
    return pyarrow.parquet.read_table(run / "predictions.parquet").to_pydict()


class TestRunFolder:
    def test_metrics(self, tiny_run):
        report, config = kit.report_of(tiny_run), AutoConfig.from_pretrained(tiny_run)
        assert report["rows"] == {"train": 58, "validation": 152, "test": 244}
        assert list(report["class_counts"].values()) == config.class_counts  # of the rows that were used
        assert 58 <= sum(config.class_counts) <= 2 * 58
        (run,) = report["runs"]
        assert run["seed"] == 42 and run["epochs"] == 2.0 and run["resumed"] is False
        assert {"python", "transformers", "device", "threads"} <= set(report["environment"])
        assert report["environment"]["torch"] == torch.__version__
        # Weights can be read by others: a service may run as another user.
        assert len({(tiny_run / name).stat().st_mode for name in ("model.safetensors", "config.json")}) == 1

    def test_figures_and_thresholds_follow_from_the_predictions(self, tiny_run):
        (run,), rows = kit.report_of(tiny_run)["runs"], predictions(tiny_run)
        splits, scores = np.array(rows["split"]), np.array(rows["probabilities"])
        gold = np.array([[name in row for name in GOEMOTIONS] for row in rows["labels"]]).astype(int)
        tuned = list(run["thresholds"].values())
        for kind, limits in (("fixed", metrics.scaled_threshold(0.3, run["temperature"])), ("tuned", np.array(tuned))):
            for split in ("validation", "test"):
                own = splits == split
                expected = f1_score(gold[own], scores[own] > limits, average="macro", zero_division=0)
                assert run[split][kind]["macro_f1"] == pytest.approx(expected), (split, kind)
        assert run["test"]["fixed"]["macro_f1"] != run["test"]["tuned"]["macro_f1"]
        dev = splits == "validation"
        assert tuned == pytest.approx(metrics.tune_thresholds(gold[dev], scores[dev])) and len(set(tuned)) > 10
        assert AutoConfig.from_pretrained(tiny_run).thresholds == tuned

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

    def test_each_training_has_a_tracker_run_of_its_own(self):
        """Also if it diverges: the next trial of a sweep would go on in its run."""
        wandb = SimpleNamespace(run=None, finish=lambda: setattr(wandb, "run", None))
        callback = object.__new__(WandbCallback)
        callback._wandb = wandb
        kept = [callback]
        trainer = SimpleNamespace(callback_handler=SimpleNamespace(callbacks=kept), remove_callback=kept.remove)
        with contextlib.suppress(FloatingPointError), run_of_its_own(trainer):
            wandb.run = "mine"
            raise FloatingPointError
        assert wandb.run is None and kept == []
        wandb.run, kept[:] = "the user's", [callback]
        with run_of_its_own(trainer):
            pass
        assert wandb.run == "the user's"

    def test_a_folder_holds_its_recipe_from_the_start(self, base_bert, feelings, tmp_path, monkeypatch):
        """What takes time comes before: an interruption in between would leave a folder that cannot be resumed."""

        def fingerprint(splits):
            assert not is_taken(tmp_path / "run")
            raise KeyboardInterrupt

        monkeypatch.setattr("hf_emotion.training.seeds.fingerprint", fingerprint)
        with pytest.raises(KeyboardInterrupt):
            train(feelings_recipe(base_bert, {"max_steps": 1}), tmp_path / "run", data_dir=feelings)

    @pytest.mark.parametrize("changes", [{}, {"load_best_model_at_end": False}, {"eval_strategy": "no"}])
    def test_the_metric_is_that_of_the_weights(self, changes, base_bert, feelings, tmp_path, no_plots, monkeypatch):
        """Neither an earlier epoch, when the last weights are kept, nor an evaluation without a checkpoint."""
        best = None if changes else 6
        measure, scores = EmotionTrainer.evaluate, {3: 1.1, 6: 1.2, 9: 1.9, 12: 1.3}

        def evaluate(self, *arguments, **options):
            return measure(self, *arguments, **options) | {"eval_macro_f1": scores[self.state.global_step]}

        monkeypatch.setattr(EmotionTrainer, "evaluate", evaluate)
        arguments = {"eval_strategy": "steps", "eval_steps": 3, "save_strategy": "steps", "save_steps": 6}
        recipe = feelings_recipe(base_bert, {**arguments, **changes}, seeds=[3, 8])
        for run in train(recipe, tmp_path / "run", data_dir=feelings).to_dict()["runs"]:
            assert run["best_step"] == best and run["selected_by"] == "macro_f1"
            assert run["best_dev_metric"] == pytest.approx(run["validation"]["fixed"]["macro_f1"], abs=1e-6)
        card = (tmp_path / "run" / "README.md").read_text(encoding="utf-8")
        last = "after the last step of its training, the best seed on the validation part" in card
        assert last is (best is None) is not ("epoch that was best" in card)

    def test_plots(self, tiny_run, tmp_path):
        report = RunReport.read(tiny_run)
        report.name = "top_$5_vs_$10"  # no formula
        with kit.drawn_pictures():
            write_plots(tmp_path, report, report.runs[0])
        for name in ("training_curve.png", "per_label_f1.png"):
            content = (tmp_path / name).read_bytes()
            assert content.startswith(b"\x89PNG") and len(content) > 5000


def written_card(folder: Path, run: Path, recipe: Recipe) -> ModelCard:
    report = dataclasses.replace(RunReport.read(run), published=recipe.published)
    write_card(folder, recipe, report, report.runs[0])
    return ModelCard.load(folder / "README.md")


class TestCard:
    @pytest.fixture(scope="class")
    def card(self, tiny_run):
        return ModelCard.load(tiny_run / "README.md")

    def test_tables_have_the_figures_of_the_run(self, card, tiny_run):
        report, lines = kit.report_of(tiny_run), card.text.splitlines()
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if "|" in line]
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
        settings = ("Seeds: 42", "cut to 32 tokens", "`num_train_epochs=2.0`", "`tie_head=False`", "A tiny run.")
        decay = "Weight decay left out the parameters whose names hold `score.label_embeddings`"
        for text in (*settings, "a share of 0.1 of the training part", decay, "trust_remote_code=True"):
            assert text in card.text, text

    def test_published_figures_base_model_and_paper(self, tmp_path, tiny_run):
        card = written_card(tmp_path, tiny_run, load_recipe("goemotions/laa_cb"))
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
        card = written_card(tmp_path, tiny_run, make_recipe({"name": "mine", "dataset": "files", **fields}))
        assert card.data.license == licence and text in card.text
        assert ("name their terms here" in card.text) is (not fields)


class TestSeeds:
    @pytest.fixture(scope="class")
    def recipe(self, base_bert):
        return feelings_recipe(base_bert, seeds=[3, 8], model_config={**kit.UNTIED, "hidden_dropout_prob": 0.1})

    @pytest.fixture(scope="class")
    def two_seeds(self, tmp_path_factory, recipe, feelings):
        output = tmp_path_factory.mktemp("seeds") / "run"
        with kit.torch_threads(1):
            train(recipe, output, data_dir=feelings)
        return output

    def test_files(self, two_seeds):
        of_a_seed = kit.CHECKPOINT | CODE | kit.REPORTS | {"metrics.json", "predictions.parquet", "train.log"}
        seeds = {f"seed-{seed}/{name}" for seed in (3, 8) for name in of_a_seed}
        assert set(kit.files_in(two_seeds)) == {*kit.CHECKPOINT, *CODE, *kit.RESULTS, *seeds}
        assert {path.name for path in two_seeds.rglob("*") if path.is_dir()} == {"seed-3", "seed-8"}

    def test_three_values(self):
        shared = {"per_label": {}, "confusions": [], "top3_accuracy": math.nan}  # which no row with several labels has
        runs = [kit.seed_run(test={"fixed": {"macro_f1": value, **shared}}) for value in (0.1, 0.2, 0.6)]
        macro_f1 = {"mean": 0.3, "std": math.sqrt((0.04 + 0.01 + 0.09) / 2)}
        found = summarize(runs)["test"]["fixed"]
        assert found.keys() == {"macro_f1", "top3_accuracy"} and found["macro_f1"] == pytest.approx(macro_f1)
        assert found["top3_accuracy"] == pytest.approx(dict.fromkeys(macro_f1, math.nan), nan_ok=True)

    def test_the_best_seed_on_validation_stands_for_the_run(self, two_seeds):
        report = kit.report_of(two_seeds)
        second, best = sorted(report["runs"], key=lambda run: run["best_dev_metric"])
        assert second["best_dev_metric"] != best["best_dev_metric"]
        places = (two_seeds, *(two_seeds / f"seed-{run['seed']}" for run in (best, second)))
        found, chosen, other = ((place / "model.safetensors").read_bytes() for place in places)
        assert found == chosen != other
        config = AutoModelForSequenceClassification.from_pretrained(two_seeds).config
        assert config.thresholds == list(best["thresholds"].values())
        assert predictions(two_seeds) == predictions(two_seeds / f"seed-{best['seed']}")
        text, mean = (two_seeds / "README.md").read_text(), report["summary"]["test"]["tuned"]["macro_f1"]
        assert f"the weights are those of seed {best['seed']}" in text
        assert f"{mean['mean']:.4f} ± {mean['std']:.4f}" in text and "standard deviation over 2 seeds." in text

    def test_a_metric_that_is_never_a_number(self, recipe, feelings, tmp_path, no_plots, monkeypatch, caplog):
        """A validation part without any turn but neutral ones has no F1 of the others."""
        measure = EmotionTrainer.evaluation_loop

        def evaluation_loop(self, *arguments, **options):
            found = measure(self, *arguments, **options)
            return found._replace(metrics=found.metrics | {"eval_macro_f1": math.nan})

        monkeypatch.setattr(EmotionTrainer, "evaluation_loop", evaluation_loop)
        report = train(dataclasses.replace(recipe, seeds=[3]), tmp_path / "run", data_dir=feelings)
        assert report.best.best_dev_metric is None and "was never a number" in caplog.text

    def test_resume_keeps_finished_seeds(self, two_seeds, recipe, feelings, tmp_path, steps):
        output = shutil.copytree(two_seeds, tmp_path / "run")
        before = kit.report_of(output)
        for name in ("metrics.json", "README.md", "model.safetensors"):
            (output / name).unlink()
        shutil.rmtree(output / "seed-8")
        train(recipe, output, data_dir=feelings, resume=True)
        assert len(steps) == 2 * 6  # one seed, two epochs of 48 rows in batches of 8
        after = kit.report_of(output)
        assert after["runs"][0] == before["runs"][0]
        assert after["runs"][1]["test"] == before["runs"][1]["test"]  # a seed's run depends on nothing but the seed
        assert after["summary"] == before["summary"]
        assert set(kit.files_in(output)) == set(kit.files_in(two_seeds))


class TestRuns:
    @pytest.fixture(scope="class")
    def recipe(self, base_bert):
        return feelings_recipe(base_bert, {"num_train_epochs": 1}, name="mine")

    @pytest.fixture(scope="class")
    def finished(self, tmp_path_factory, recipe, feelings):
        return kit.fit(recipe, tmp_path_factory.mktemp("finished") / "run", feelings)

    def test_another_recipe(self, finished, recipe, feelings, base_bert, tmp_path):
        interrupted = shutil.copytree(finished, tmp_path / "run")
        (interrupted / "metrics.json").unlink()
        before = kit.files_in(interrupted)
        other = dataclasses.replace(recipe, max_length=20)
        with pytest.raises(ValueError, match=r"--resume: .*recipe.yaml is not the recipe of this command"):
            train(other, interrupted, data_dir=feelings, resume=True)
        assert kit.files_in(interrupted) == before

    def test_a_finished_run_is_left_alone(self, finished, recipe, feelings, tmp_path, steps, caplog):
        """What was added to it later stays: an abstention, the page of the analysis, an edited card."""
        output = shutil.copytree(finished, tmp_path / "run")
        analyze(output, data_dir=feelings, abstain={"coverage": 0.5})
        with (output / "README.md").open("a", encoding="utf-8") as card:
            card.write("Mine.")
        before = kit.files_in(output)
        report = train(recipe, output, data_dir=feelings, resume=True).to_dict()
        assert steps == [] and "finished already" in caplog.text
        assert report == kit.report_of(finished)
        shutil.copytree(feelings, tmp_path / "other")
        kit.write_csv(tmp_path / "other" / "train.csv", ["text", "label"], kit.feelings_rows(47))
        with pytest.raises(ValueError, match="--resume: .* was trained on other rows"):
            train(recipe, output, data_dir=tmp_path / "other", resume=True)
        assert kit.files_in(output) == before

    def test_nothing_to_resume_is_a_run_from_the_start(self, tmp_path, recipe, feelings, steps, no_plots, monkeypatch):
        monkeypatch.chdir(tmp_path)
        report = train(recipe, data_dir=feelings, resume=True).to_dict()
        assert len(steps) == 6 and report["runs"][0]["resumed"] is False
        assert (tmp_path / "runs" / "mine" / "metrics.json").is_file()

    @pytest.mark.parametrize("kind", ["file in it", "folder in it", "file"])
    def test_something_is_there(self, kind, tmp_path, base_bert, feelings, monkeypatch):
        output = tmp_path / "run"
        if kind == "folder in it":
            (output / "sub").mkdir(parents=True)
        else:
            kit.write_csv(output if kind == "file" else output / "mine.txt", ["mine"], [])
        before = kit.files_in(tmp_path)
        monkeypatch.setattr(run_module, "rows_of", None)  # refused before any work
        empty = "the folder .*run exists and is not empty.*--resume"
        for resume, message in ((False, empty), (True, "nothing was started in")):
            with pytest.raises(FileExistsError, match=message):
                train(feelings_recipe(base_bert), output, data_dir=feelings, resume=resume)
        assert kit.files_in(tmp_path) == before

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
        line = re.compile(r"(\d+) of (\d+) (steps|batches|texts)\b.* \((\d+) %\) in \d+ (s|min)(, about|$)")
        found = [match.groups() for match in map(line.match, said) if match]
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


def built(base: Path, model_type: str | None, names: Iterable[str], several: bool = True, **fields):
    tokenizer, names = AutoTokenizer.from_pretrained(base), list(names)
    return build_classifier(str(base), model_type, fields, tokenizer, names, several, [1] * len(names))


class TestInputs:
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
        assert model.config.sentence_representation == "first"
        assert model.config.encoder_config.model_type == "distilbert"
        # A trained one is a base for other labels, and its encoder for other models.
        again = dataclasses.replace(recipe, base_model=str(tmp_path / "run"), name="again", model_config={})
        train(again, tmp_path / "again", data_dir=feelings)
        stock = dataclasses.replace(again, model_type=None, model_config={})
        train(stock, tmp_path / "stock", data_dir=feelings)
        assert AutoConfig.from_pretrained(tmp_path / "stock").model_type == "distilbert"
        with pytest.raises(ValueError, match="sentence_representation.* got pooler"):
            fields = {"sentence_representation": "pooler"}
            train(dataclasses.replace(recipe, model_config=fields), tmp_path / "other", data_dir=feelings)

    def test_what_does_not_fit(self, tmp_path, base_bert, feelings):
        """Labels are numbers: in another order the figures would be of other labels."""
        splits, recipe = load_dataset_for("files", feelings, label_separator="|"), feelings_recipe(base_bert)
        names, validation = label_names(splits["train"]), splits["validation"]
        renamed = validation.cast_column("labels", List(ClassLabel(names=names[::-1])))
        for changes, message in (
            ({"train": None}, "needs rows in the part 'train'; the corpus has"),
            ({"validation": renamed}, "same names in the same order"),
            ({"validation": validation.cast_column("labels", List(Value("int64")))}, "must be `ClassLabel`"),
            ({"train": validation.select([])}, "needs rows in the part 'train'.*`dedupe`"),
            ({"validation": validation.select([])}, "needs rows in the part 'validation'.*`dedupe`"),
        ):
            given = {name: part for name, part in {**splits, **changes}.items() if part is not None}
            with pytest.raises(ValueError, match=message):
                train(recipe, tmp_path / "run", splits=DatasetDict(given))
        for name in ("train", "dev", "test"):  # all texts of the training part are in the test part, too
            kit.write_csv(tmp_path / "data" / f"{name}.csv", ["text", "label"], kit.feelings_rows(9))
        dedupe = {"label_separator": "|", "dedupe": True}
        for data, changes, message in (
            (tmp_path / "data", {"dataset_options": dedupe}, "`dedupe` leaves no training row"),
            # transformers would leave it out of the loss of several labels with a warning.
            (feelings, {"training_arguments": {"label_smoothing_factor": 0.1}}, "`label_smoothing_factor`"),
        ):
            with pytest.raises(ValueError, match=message):
                train(dataclasses.replace(recipe, **changes), tmp_path / "run", data_dir=data)
        assert not (tmp_path / "run").exists()

    def test_what_is_cut_or_unknown_is_counted_in_one_warning(self, tmp_path, base_bert, caplog):
        rows = [["sun " * (30 if i % 5 == 0 else 3), "joy"] for i in range(20)]
        rows[1] = ["zzz 日本", "joy"]
        for part in ("train", "dev"):
            kit.write_csv(tmp_path / f"{part}.csv", ["text", "label"], rows)
        train_part, tokenizer = load_dataset_for("files", tmp_path)["train"], AutoTokenizer.from_pretrained(base_bert)
        with said_once():
            for _ in range(2):
                encoded = tokenize(train_part, tokenizer, 8, SimpleNamespace())
        cut, unknown = (message for message in caplog.messages if "of 20 texts" in message)
        assert cut == "4 of 20 texts are longer than 8 tokens (`max_length`) and were cut"
        assert unknown.startswith("1 of 20 texts ") and "does not know" in unknown
        assert set(encoded.column_names) == {"input_ids", "length", "labels"}
        assert encoded["length"][:] == [8 if i % 5 == 0 else 5 for i in range(20)]
        assert [len(ids) for ids in encoded["input_ids"]] == encoded["length"][:]
        assert all(ids[-1] == tokenizer.sep_token_id for ids in encoded["input_ids"])

    @pytest.mark.parametrize("aspects", [None, ["a", "b"]])
    def test_minilm_gets_a_new_pooler(self, base_bert, monkeypatch, aspects):
        """The packaged one is untrained, and its weights are so small that nothing gets through; models of aspects keep it."""
        contexts = aspects and {"aspects": aspects, "targets": None, "target_texts": None}
        monkeypatch.setattr(models_module, "resolve_base_model", lambda name: str(base_bert))
        models, tokenizer = [], AutoTokenizer.from_pretrained(base_bert)
        for base in (str(base_bert), "minilm"):
            torch.manual_seed(0)
            arguments = (base, None, {}, tokenizer, ["no", "yes"], False, [1, 1])
            models.append(build_classifier(*arguments, contexts=contexts))
        assert torch.equal(*(model.classifier.weight for model in models))
        (kept, new), stored = (model.bert.pooler.dense for model in models), weights(base_bert)["pooler.dense.weight"]
        assert torch.equal(kept.weight, stored) and torch.equal(new.weight, stored) is bool(aspects)
        if not aspects:
            assert new.weight.std().item() == pytest.approx(len(stored) ** -0.5, rel=0.1) and not new.bias.any()
            assert new.weight.mean().abs() < 0.02

    @pytest.mark.parametrize("model_type", ["label-aware-bert", None])
    @pytest.mark.parametrize("names", [["joy", "anger", "fear"], list(GOEMOTIONS[::-1])], ids=["fewer", "others"])
    def test_a_trained_classifier_of_other_labels_is_a_base(self, names, model_type, caplog, tmp_path, request):
        """Its encoder goes on, its head does not, not even where the shapes fit."""
        run = request.getfixturevalue("tiny_run" if model_type else "stock_run")
        trained = weights(run)
        torch.manual_seed(0)
        model = built(run, model_type, names, several=False)
        assert "its encoder is kept" in caplog.text
        assert model.config.num_labels == len(names) and model.config.id2label[0] == names[0]
        assert getattr(model.config, "thresholds", None) is None
        assert getattr(model.config, "calibration_temperature", None) is None
        model.save_pretrained(tmp_path)
        new = weights(tmp_path)
        encoder = {key for key in trained if ".encoder." in key or ".embeddings." in key}
        assert len(encoder) > 10 and all(torch.equal(new[key], trained[key]) for key in encoder)
        heads = {key for key in new if "label" in key or key == "classifier.weight"}
        assert heads and not any(torch.equal(new[key], trained[key]) for key in heads if key in trained)
        if model_type:  # the label vectors start from the new names
            again = copy.deepcopy(model).init_label_embeddings(AutoTokenizer.from_pretrained(run), names)
            assert all(torch.equal(a, b) for a, b in zip(again.parameters(), model.parameters(), strict=True))

    def test_a_trained_classifier_of_the_same_labels_goes_on(self, tiny_run, tied_run, caplog):
        """Whole, or without a head of another shape: the methods for few rows have one for each label."""
        for run, fields, whole in ((tiny_run, {}, True), (tied_run, {"tie_head": False}, False)):
            trained = AutoModelForSequenceClassification.from_pretrained(run).state_dict()
            model = built(run, "label-aware-bert", GOEMOTIONS, **fields)
            assert ("its encoder is kept" in caplog.text) is not whole and model.config.tie_head is False
            kept = {name: value for name, value in trained.items() if whole or ".encoder." in name}
            assert all(torch.equal(model.state_dict()[name], value) for name, value in kept.items())

    @pytest.mark.parametrize(("model_type", "case"), [("label-aware-bert", "label-aware"), ("roberta-esa", "esa")])
    def test_loss_and_gate_of_a_trained_classifier_stay_behind(self, tmp_path, tokenizer, model_type, case):
        """A gate was fitted on other texts, and its file does not come along."""
        counts = [3] * BY_ID[case].build().config.num_labels
        loss = {"class_balanced_beta": 0.9, "class_balanced_normalize": True, "class_counts": counts}
        kept, gate = ({"tfidf_gating": kind} if case == "esa" else {} for kind in ("filter", "scale"))
        base = BY_ID[case].build(**loss, **kept)
        base.save_pretrained(tmp_path)
        tokenizer.save_pretrained(tmp_path)
        names, several = base.config.id2label.values(), base.config.problem_type != "single_label_classification"
        fields = ({}, {"class_balanced_beta": 0.5, **gate})
        plain, own = (built(tmp_path, model_type, names, several, **each).config for each in fields)
        assert plain.class_balanced_beta is None and plain.class_balanced_normalize is False
        assert own.class_balanced_beta == 0.5
        assert not gate or (plain.tfidf_gating, own.tfidf_gating) == ("none", "scale")

    def test_aspects_of_a_trained_classifier_stay_behind(self, stock_run, tmp_path):
        """Plain texts with the same labels: the model would ask each of them for its aspect."""
        base, config = shutil.copytree(stock_run, tmp_path / "base"), AutoConfig.from_pretrained(stock_run)
        config.aspects = ["price"]
        config.save_pretrained(base)
        model = built(base, None, config.id2label.values())
        assert getattr(model.config, "aspects", None) is None

    def test_minilm_without_the_extra(self, tmp_path, feelings, monkeypatch):
        monkeypatch.setattr("importlib.util.find_spec", lambda *arguments: None)
        with pytest.raises(ModuleNotFoundError, match=r"'minilm' needs .*pip install 'hf-emotion\[offline\]'"):
            train(feelings_recipe(Path("minilm")), tmp_path / "run", data_dir=feelings)


class TestFiles:
    def test_replacing_writes_all_or_nothing(self, tmp_path):
        path = tmp_path / "a.json"
        path.write_text("old")
        with pytest.raises(InterruptedError), replacing(path) as temporary:
            temporary.write_text("half")
            raise InterruptedError
        assert kit.files_in(tmp_path) == {"a.json": b"old"}
        with replacing(path) as temporary:
            assert temporary.suffix == ".json" and temporary.parent == tmp_path
            temporary.write_text("new")
            assert path.read_text() == "old"
        assert kit.files_in(tmp_path) == {"a.json": b"new"}
        (tmp_path / "b").touch()
        assert path.stat().st_mode == (tmp_path / "b").stat().st_mode  # others may read what the umask lets them

    def test_filling_writes_all_or_nothing(self, tmp_path):
        folder = tmp_path / "run"
        with pytest.raises(InterruptedError), filling(folder) as temporary:
            (temporary / "half").write_text("x")
            raise InterruptedError
        assert kit.files_in(folder) == {} and list(folder.iterdir()) == []
        with filling(folder) as temporary:
            (temporary / "a").write_text("x")
        assert kit.files_in(folder) == {"a": b"x"} and len(list(folder.iterdir())) == 1

    @pytest.mark.parametrize("kind", ["new", "empty", "link", "."])
    def test_creating_writes_all_or_nothing(self, tmp_path, monkeypatch, kind):
        (tmp_path / "real").mkdir()
        (tmp_path / "link").symlink_to("real")
        monkeypatch.chdir(tmp_path / "real")
        folder = {"new": tmp_path / "a" / "b", "empty": tmp_path / "real", "link": tmp_path / "link"}.get(kind, Path())
        with pytest.raises(InterruptedError), creating(folder) as temporary:
            (temporary / "half").write_text("x")
            raise InterruptedError
        assert kit.files_in(tmp_path) == {}
        with creating(folder) as temporary:
            (temporary / "a").write_text("x")
        assert (tmp_path / ("a/b/a" if kind == "new" else "real/a")).read_text() == "x"
        assert (tmp_path / "link").is_symlink() and len(kit.files_in(tmp_path)) == 1

    def test_nan_and_infinities_become_null(self, tmp_path):
        path = tmp_path / "a.json"
        write_json(path, {"a": [math.nan, 1.5], "b": (math.nan,), "c": "é", "d": [-math.inf]})
        text = path.read_text(encoding="utf-8")
        assert json.loads(text) == {"a": [None, 1.5], "b": [None], "c": "é", "d": [None]} and "é" in text

    def test_events_of_tensorboard_lie_in_the_run_folder(self, tmp_path, base_bert):
        """The stock place is below `checkpoints`, which the end of a run removes."""
        arguments = TrainingArguments(str(tmp_path / "checkpoints"), report_to="none", disable_tqdm=True)
        trainer = Trainer(AutoModelForSequenceClassification.from_pretrained(base_bert), arguments)
        board = object.__new__(TensorBoardCallback)  # made without tensorboard
        board.logging_dir = None
        trainer.add_callback(board)
        say_less(trainer, tmp_path)
        assert board.logging_dir == str(tmp_path / "tensorboard")
        assert not any(isinstance(callback, PrinterCallback) for callback in trainer.callback_handler.callbacks)


SENTIHOOD, SEMEVAL, QUICKSTART = ("sentihood", {}), ("semeval2014", {"validation_fraction": 0.5}), ("quickstart", {})


@pytest.mark.parametrize(
    ("metric", "near", "corpus"),
    [
        *((metric, "macro_f1", None) for metric in ("kappa", "macro_fi", "eval_perplexity")),
        # Defined for whole groups alone: of 4 rows in SentiHood, of 5 in SemEval-2014
        *(("strict_acuracy", "strict_accuracy", SENTIHOOD), ("acuracy_4way", "accuracy_4way", SEMEVAL)),
    ],
)
def test_a_metric_that_is_not_measured(tmp_path, aspect_bert, corpora, metric, near, corpus, monkeypatch):
    monkeypatch.setattr(Trainer, "train", lambda *arguments, **options: pytest.fail("trained"))
    make, (dataset, options), data = (
        (kit.targeted_recipe, corpus, corpora) if corpus else (kit.recipe_for, QUICKSTART, None)
    )
    wrong = f"`metric_for_best_model` '{metric}'.*'{near}'"
    for name, kind, said in ((metric, ValueError, wrong), (near, pytest.fail.Exception, "trained")):
        recipe = make(aspect_bert, {"metric_for_best_model": name}, dataset=dataset, dataset_options=options)
        with pytest.raises(kind, match=said):
            train(recipe, tmp_path / name, data_dir=data)
    assert not (tmp_path / metric).exists()


def test_a_model_that_gives_one_answer(base_bert, single_label, tmp_path, caplog, no_plots, monkeypatch):
    shutil.copytree(single_label, data := tmp_path / "data")
    shutil.copy(data / "train.csv", data / "validation.csv")
    always = lambda self, rows, progress=False: np.tile(np.float32([0.2, 0.5, 0.3]), (len(rows), 1))  # noqa: E731
    monkeypatch.setattr(Predictor, "of_rows", always)
    recipe = kit.recipe_for(base_bert, {"num_train_epochs": 1}, dataset="files", train_fraction=1.0)
    (run,) = train(recipe, tmp_path / "run", data_dir=data).runs
    found = run.one_answer
    assert found["labels"] == ["joy"] and found["share"] == 1 and found["gold_share"] < 0.6
    for text in ((tmp_path / "run" / "README.md").read_text(encoding="utf-8"), caplog.text):
        assert "The model gives joy to 100%" in text and "learned hardly anything" in text


def test_a_model_that_gives_several_answers():
    pick = np.eye(2, dtype=bool)
    names, gold, always, mixed = ["anger", "joy"], pick[[0] * 19 + [1]], pick[[0] * 20], pick[[0, 1] * 10]
    assert one_answer(gold, gold, names) is None  # nearly all rows are like that
    assert one_answer(mixed, always, names) == {"labels": ["anger"], "share": 1.0, "gold_share": 0.5}
    assert one_answer(mixed[:10], always[:10], names) is None  # too few to tell
    assert one_answer(gold, np.zeros((20, 2), bool), names)["labels"] == []
