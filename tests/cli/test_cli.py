# SPDX-License-Identifier: Apache-2.0
"""The command line, and what importing the package costs."""

import io
import json
import re
import shutil
import subprocess
import sys
from email.message import Message
from types import SimpleNamespace
from typing import get_args

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
import toolkit_helpers as helpers
import typer
from toolkit_helpers import cells, files_in, invoke, report_of, write_csv, write_jsonl
from typer.testing import CliRunner

import hf_emotion
from hf_emotion import Predictor, load_dataset_for, load_recipe
from hf_emotion.cli import app, help, main, predict
from hf_emotion.recipes import packaged_recipes, recipe_name
from hf_emotion.runtime.unread import warn_unknown
from hf_emotion.taxonomies import GOEMOTIONS, SENTIMENT, TAXONOMIES, Taxonomy


pytest_plugins = ["toolkit_fixtures"]
pytestmark = pytest.mark.usefixtures("single_thread")

FILES = ("--dataset", "files", "--data-dir", "{data}")
PREDICT_FILE = ("predict", "{single}", "--input", "{csv}", "--output", "b.csv")


def test_every_taxonomy_can_be_asked_for():
    assert get_args(Taxonomy) == tuple(TAXONOMIES)


class TestExitCodes:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["train", "goemotions/laa_c"], "no recipe 'goemotions/laa_c'.*Did you mean 'goemotions/laa_c[be]'"),
            (["predict", "nobody/no-such-model", "sun"], "the checkpoint 'nobody/no-such-model' cannot be loaded"),
            (["predict", "goemotion", "sun"], "the checkpoint 'goemotion' cannot.* Did you mean 'goemotions'"),
            (["evaluate", "{single}", *FILES, "--threshold", "0.9"], "`threshold` 0.9.*one label"),
            (["compare", "{run}", "{folder}"], "is not a finished run folder: it has no metrics.json"),
            (["predict", "{run}", "{folder}", "sun"], ".*folder"),  # a second model
            (["predict", "{run}", "--input", "{empty}", "--output", "{folder}/out.csv"], ".*empty.jsonl has no rows"),
            (["predict", "{run}", "--input", "{folder}/none"], "no such file: .*none"),
            (["predict", "{run}", "--input", "{run}/recipe.yaml"], ".*recipe.yaml: the file name must end in one of"),
            # No file is written over; refused before a model is loaded, let alone run.
            (["generate", "{folder}", "--input", "{empty}", "--output", "{empty}"], ".*empty.jsonl exists"),
            (["evaluate", "{folder}", "--dataset", "reply_files", "--replies", "{empty}"], ".*empty.jsonl exists"),
            # A link to nothing is not replaced.
            (["export", "{run}", "--output", "{lost}"], ".*lost.csv exists"),
            (["predict", "{run}", "--input", "{empty}", "--output", "{lost}"], ".*lost.csv exists"),
        ],
        ids=lambda value: value[0] if isinstance(value, list) else "",
    )
    def test_work_that_fails_is_one_line(self, argv, tmp_path, tiny_run, single_run, single_label, arguments, message):
        empty, lost = tmp_path / "empty.jsonl", tmp_path / "lost.csv"
        empty.touch()
        lost.symlink_to(tmp_path / "nowhere")
        places = {"folder": tmp_path, "run": tiny_run, "single": single_run, "data": single_label}
        result = argv(*(argument.format(**places, empty=empty, lost=lost) for argument in arguments))
        assert result.code == 1
        (line,) = result.err.splitlines()
        assert re.match(f"error: .*{message}", line)
        assert result.out == "" and files_in(tmp_path) == {"empty.jsonl": b""} and lost.is_symlink()

    def test_wrong_usage(self, argv, single_run, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        places = {"single": single_run, "csv": write_csv(tmp_path / "in.csv", ["text"], [["so happy"]])}
        for arguments, option in (
            (["train", "quickstart", "--no-such-option"], "--no-such-option"),
            (["predict", "run", "sun", "--top-k", "0"], "--top-k"),
            (["predict", "run", "--output", "a.csv"], "--input"),
            (["predict", "run", "sun", "--input", "a.csv", "--output", "b.csv"], "--input"),
            # Of files, without a file
            *((["predict", "run", "sun", f"--{name}", "skip"], name) for name in ("text-column", "on-bad-rows")),
            (["predict", "run", "sun", "--separator", ";"], "--separator"),
            ([*PREDICT_FILE, "--json"], "--json"),
            (["predict", "run", "sun", "--mask-speakers"], "--mask-speakers"),
            (["predict", "run", "--input", "call.srt", "--text-column", "a"], "--text-column"),
            (["summarize", "calls.vtt", "--text-column", "a"], "--text-column"),
            ([*PREDICT_FILE, "--strip"], "--strip"),
            (["predict", "{single}", "sun", "--strip"], "--strip"),
            ([*PREDICT_FILE, "--engine", "ray", "--dialogue-column", "a"], "--dialogue-column"),
            ([*PREDICT_FILE, "--speaker-column", "a"], "--speaker-column"),
            (["evaluate", "run", "--dataset", "quickstart", "--threshold", "1.5"], "--threshold"),
            (["evaluate", "{single}", "--dataset", "quickstart", "--option", "dedupe"], "--option"),
            (["evaluate", "{single}", "--dataset", "quickstart", "--contexts", "5"], "--contexts"),
            (["generate", "run", "sun", "-e", "joy", "--num-beams", "4", "--top-k", "5"], "--num-beams"),
            (["convert", "model.bin"], "output"),
            (["convert", "model.bin", "output", "--set", "aspects"], "--set"),
            (["convert", "model.bin", "output", "--set", "aspects=[a, !!bool x]"], "a YAML value"),
        ):
            result = argv(*(argument.format(**places) for argument in arguments))
            assert result.code == 2 and option in result.err, arguments
            assert "Traceback" not in result.err and "Usage" in result.err and not result.out
            assert [path.name for path in tmp_path.iterdir()] == ["in.csv"]

    def test_done(self, argv):
        result = argv("recipes")
        assert result.code == 0 and result.err == ""
        alone, asked = argv(), argv("-h")
        assert (
            alone.code == asked.code == 0
            and alone.out == asked.out == argv("--help").out == argv("--help", "predict").out
            and alone.err == ""
        )
        for example in help.EXAMPLES:
            assert f"  {example}\n" in alone.out
        assert argv("--version").out == f"hf-emotion {hf_emotion.__version__}\n"
        with pytest.raises(FileNotFoundError, match="no recipe"):
            argv("--debug", "train", "no-such-recipe")

    def test_an_error_of_our_own_names_its_kind(self, argv, monkeypatch):
        monkeypatch.setattr("hf_emotion.recipes.packaged_recipes", lambda: {}["no such key"])
        result = argv("recipes")
        assert result.code == 1 and "KeyError" in result.err and len(result.err.splitlines()) == 1

    def test_no_terminal_obeys_what_a_text_or_a_label_holds(self, argv, tmp_path, capsys):
        from hf_emotion.cli.printing import print_json_lines, print_table, show
        from hf_emotion.runtime.unread import Unread

        hostile = "joy\x1b]0;owned\x07\x9b2J"
        print_table([hostile], [[hostile]])
        show([hostile])
        print_json_lines([{"label": hostile}], Unread.nothing(1))
        out, done = capsys.readouterr().out, argv("predict", tmp_path / hostile, "joy")
        assert done.code == 1 and out.count("owned") == 4
        for text in (out, done.err):
            assert not [character for character in text if ord(character) < 32 and character != "\n"]
            assert "\x9b" not in text
        assert json.loads(out.splitlines()[-1])["label"] == hostile

    def test_nothing_to_predict(self, argv, tiny_run, monkeypatch):
        monkeypatch.setattr(sys, "stdin", io.StringIO("\n  \n"))
        result = argv("predict", tiny_run)
        assert result.code == 1 and "error: no text: give texts" in result.err


class TestHelp:
    def test_every_command_stands_in_a_group(self):
        text = invoke("--help")
        for name, command in typer.main.get_command(app).commands.items():
            assert re.search(rf"^  {name} +{re.escape(command.short_help)}$", text, re.MULTILINE), name
        assert text.index("Use a model:") < text.index("Train and measure:") < text.index("Research:")

    def test_options_are_named_alike(self):
        """Types are those of one value, and every output has its short name."""
        for name in typer.main.get_command(app).commands:
            text = invoke(name, "-h")
            assert not re.search(r"<list|range>|<Path>", text), name
            assert "  --output" not in text and "-h, --help" in text, name

    def test_a_shell_completes(self, monkeypatch, tmp_path):
        monkeypatch.setenv("HF_EMOTION_CACHE", str(tmp_path))
        for words, found in (
            ("pred", "predict"),
            ("predict go", "goemotions"),
            ("serve goemotions rev", "reviews"),
            ("train goemotions/laa_ce", "goemotions/laa_ce"),
            ("predict goemotions --taxonomy e", "ekman"),
        ):
            variables = {"COMP_WORDS": f"hf-emotion {words}", "COMP_CWORD": str(len(words.split()))}
            variables["_HF_EMOTION_COMPLETE"] = "complete_bash"
            assert CliRunner().invoke(app, prog_name="hf-emotion", env=variables).stdout.split() == [found]


class TestRecipes:
    def test_each_has_a_line_below_its_task(self):
        lines = invoke("recipes").splitlines()
        recipes = {recipe_name(path): path.read_text(encoding="utf-8") for path in packaged_recipes()}
        names = [line.split()[0] for line in lines if line.startswith("  ")]
        assert sorted(names) == sorted(recipes) and len(lines) < len(names) + 8
        first = lines[lines.index("dialogue-emotion") + 1].split(maxsplit=1)
        about = re.search("^description: (.*)", recipes["daily_dialog/bilstm"], re.MULTILINE)[1]
        assert first == ["daily_dialog/bilstm", about]

    def test_those_with_a_word_and_one_by_its_name(self, argv):
        names = [line.split()[0] for line in invoke("recipes", "Sentihood").splitlines() if line.startswith("  ")]
        expected = (recipe_name(path) for path in packaged_recipes() if "sentihood" in path.read_text().lower())
        assert sorted(names) == sorted(expected) and len(names) > 8
        assert load_recipe("goemotions/laa_cb").published == {"macro_f1": 0.52}
        assert "published: {macro_f1: 0.52}" in invoke("recipes", "goemotions/laa_cb")
        wrong = argv("recipes", "goemotion/laa_cb")
        assert wrong.code == 1 and "Did you mean 'goemotions/laa_cb" in wrong.err


class TestTrain:
    def test_a_run(self, argv, base_bert, feelings, tmp_path, no_plots):
        output, recipe_file = tmp_path / "run", tmp_path / "mine.yaml"
        fields = {"name": "mine", "dataset": "files", "dataset_options": {"label_separator": "|"}, "seeds": [5]}
        recipe_file.write_text(helpers.recipe_for("minilm", **fields).to_yaml(), encoding="utf-8")
        options = ["--base-model", base_bert, "--data-dir", feelings, "--output", output, "--seeds", 2]
        overrides = ["--set", "num_train_epochs=1", "--set", "threshold=0.25", "--train-fraction", 0.5]
        result = argv("train", recipe_file, *options, *overrides)
        assert result.code == 0, result.err
        recipe = load_recipe(output / "recipe.yaml")
        assert recipe.seeds == [5, 6] and recipe.base_model == str(base_bert)
        assert recipe.train_fraction == 0.5 and recipe.threshold == 0.25
        assert recipe.training_arguments["num_train_epochs"] == 1
        report = report_of(output)
        assert report["rows"]["train"] == 24 and [run["seed"] for run in report["runs"]] == [5, 6]
        rows = cells(result.out)
        assert rows[0] == ["mine, test", "threshold 0.25", "tuned thresholds"]  # nothing was published
        printed = {row[0]: row[1:] for row in rows[1:]}
        assert list(printed) == ["macro_f1", "micro_f1", "weighted_f1", "macro_average_precision"]
        for name in printed:
            expected = [report["summary"]["test"][kind][name] for kind in ("fixed", "tuned")]
            assert printed[name] == [f"{value['mean']:.4f} ± {value['std']:.4f}" for value in expected]
        assert result.out.splitlines()[-1] == f"run folder: {output}"
        lines = [line for line in result.err.splitlines() if line.startswith("epoch 1 of 1: ")]
        for line, run in zip(lines, report["runs"], strict=True):  # one evaluation for each seed
            assert f"validation macro_f1 {run['best_dev_metric']:.4f} (the best so far)" in line
        assert "{'" not in result.out + result.err
        log = (output / "seed-6" / "train.log").read_text(encoding="utf-8").splitlines()
        assert sum("eval_micro_precision" in json.loads(line) for line in log) == 1
        resumed = argv("train", recipe_file, *options, *overrides, "--resume")
        assert resumed.code == 0 and cells(resumed.out) == rows

    def test_published_figures_stand_beside(self, capsys):
        from hf_emotion.cli.printing import print_report

        figures = {"macro_f1": {"mean": 0.5, "std": None}, "micro_f1": {"mean": 0.6, "std": None}}
        fields = {"summary": {"test": {"fixed": figures, "tuned": figures}}, "published": {"macro_f1": 0.52}}
        print_report(helpers.run_report(model_type="label-aware-bert", runs=[helpers.seed_run()], **fields))
        rows = cells(capsys.readouterr().out)
        assert rows[1:] == [["macro_f1", "0.5000", "0.5000", "0.52"], ["micro_f1", "0.6000", "0.6000", "-"]]


class TestEvaluate:
    def test_the_table(self, tiny_run):
        rows = cells(invoke("evaluate", tiny_run, "--dataset", "quickstart", "--max-length", 32))
        assert rows[0] == ["quickstart test (244 rows)", "threshold 0.3", "tuned thresholds"]
        test = report_of(tiny_run)["runs"][0]["test"]
        expected = [f"{test[kind]['macro_f1']:.4f}" for kind in ("fixed", "tuned")]
        assert expected in [row[1:] for row in rows if row[0] == "macro_f1"]

    def test_another_split_and_threshold(self, tiny_run):
        arguments = ["evaluate", tiny_run, "--dataset", "quickstart", "--split", "validation", "--json"]
        first, second = (json.loads(invoke(*arguments, "--threshold", limit))["metrics"] for limit in (0.3, 0.9))
        trained = report_of(tiny_run)["runs"][0]["validation"]["fixed"]
        assert first["fixed"]["macro_f1"] == pytest.approx(trained["macro_f1"])
        assert second["fixed"]["macro_recall"] < first["fixed"]["macro_recall"]
        assert second["tuned"] == first["tuned"]

    @pytest.fixture
    def corpus(self, tmp_path):
        folder = tmp_path / "corpora" / "goemotions"
        folder.mkdir(parents=True)
        sentences = load_dataset_for("quickstart")["test"]["text"][:40]
        rows = [f"{text}\t{i % 28}{',27' if i > 30 else ''}\t{i}\n" for i, text in enumerate(sentences)]
        for name in ("train", "dev", "test"):
            (folder / f"{name}.tsv").write_text("".join(rows))
        return folder.parent

    def test_groups_of_labels(self, tiny_run, corpus):
        options = ["--dataset", "goemotions", "--data-dir", corpus, "--taxonomy", "sentiment", "--json"]
        result = json.loads(invoke("evaluate", tiny_run, *options))
        assert result["labels"] == list(SENTIMENT)
        test, predictor = load_dataset_for("goemotions", corpus)["test"], Predictor(tiny_run, device="cpu")
        passes, values = predictor.probabilities(test["text"]) > np.array(predictor.thresholds), []
        for members in SENTIMENT.values():
            places = [GOEMOTIONS.index(label) for label in members]
            gold = np.array([not set(places).isdisjoint(labels) for labels in test["labels"]])
            chosen = passes[:, places].any(axis=1)
            values.append(2 * (gold & chosen).sum() / max(1, gold.sum() + chosen.sum()))
        assert result["metrics"]["tuned"]["macro_f1"] == pytest.approx(sum(values) / 4)

    def test_the_corpus_may_order_its_labels_otherwise(self, single_run, single_label):
        options = ["--dataset", "files", "--data-dir", single_label, "--json"]
        first = json.loads(invoke("evaluate", single_run, *options))
        second = json.loads(invoke("evaluate", single_run, *options, "--option", "labels=[neutral, joy, anger]"))
        assert second["labels"] == ["neutral", "joy", "anger"] != first["labels"]
        trained = report_of(single_run)["runs"][0]["test"]["argmax"]
        for found in (first["metrics"]["argmax"], second["metrics"]["argmax"]):
            assert found["accuracy"] == pytest.approx(trained["accuracy"])
            assert found["per_label"]["joy"] == pytest.approx(trained["per_label"]["joy"])

    def test_one_file_is_measured_whole(self, single_run, single_label, tmp_path):
        options = ["--dataset", "files", "--json", "--data-dir"]
        (run,) = report_of(single_run)["runs"]
        for path, rows in ((single_label / "test.csv", 16), (single_label / "train.csv", 48)):
            result = json.loads(invoke("evaluate", single_run, *options, path))
            assert result["rows"] == rows
            same = result["metrics"]["argmax"]["macro_f1"] == pytest.approx(run["test"]["argmax"]["macro_f1"])
            assert same or path.stem == "train"
        one = write_csv(tmp_path / "test.csv", ["text", "label"], [["so happy", "joy"]])
        for path in (one, tmp_path):  # without every label of the model, alone and as a part
            result = json.loads(invoke("evaluate", single_run, *options, path))
            assert result["labels"] == ["anger", "joy", "neutral"] and result["rows"] == 1
            write_csv(tmp_path / "train.csv", ["text", "label"], [["so happy", "joy"], ["the day", "neutral"]])

    def test_what_does_not_fit(self, argv, tiny_run, single_run, feelings, single_label, corpus):
        several = "only one of the corpus files and the model has several labels per row"
        for run, data, options, message in (
            (tiny_run, corpus, "taxonomy=ekman", "the labels of goemotions and of the checkpoint differ"),
            (single_run, feelings, "label_separator='|'", several),
            (single_run, single_label, "label_separatr=x", "Did you mean 'label_separator'"),
            (single_run, single_label, "validation_fraction=0", "files has no split 'validation'"),
        ):
            dataset = "goemotions" if data is corpus else "files"
            more = ["--split", "validation", "--option", options]
            result = argv("evaluate", run, "--dataset", dataset, "--data-dir", data, *more)
            assert result.code == 1 and message in result.err


class TestEvaluateAsTrained:
    @pytest.fixture(scope="class")
    def filled(self, aspect_bert, places, tmp_path_factory):
        options = {"target_column": "target", "fill_none": True}
        recipe = helpers.targeted_recipe(aspect_bert, dataset="aspect_files", dataset_options=options)
        return helpers.fit(recipe, tmp_path_factory.mktemp("filled") / "run", places)

    @pytest.fixture(scope="class")
    def separated(self, base_bert, feelings, tmp_path_factory):
        options = {"label_separator": "|"}
        recipe = helpers.recipe_for(base_bert, dataset="files", dataset_options=options, train_fraction=1.0)
        return helpers.fit(recipe, tmp_path_factory.mktemp("separated") / "run", feelings)

    @pytest.mark.parametrize("kind", ["filled", "separated"])
    def test_the_options_of_the_run(self, kind, argv, places, feelings, request, caplog):
        run, data = request.getfixturevalue(kind), places if kind == "filled" else feelings
        corpus = "aspect_files" if kind == "filled" else "files"
        for command in (("--dataset", corpus, "--data-dir", data), ("--data-dir", data / "test.csv")):
            caplog.clear()
            done = argv("evaluate", run, *command, "--json")
            assert done.code == 0, done.err
            figures, of_run = json.loads(done.out)["metrics"], report_of(run)["runs"][0]["test"]
            for name in figures:
                assert figures[name]["macro_f1"] == pytest.approx(of_run[name]["macro_f1"], abs=1e-6)
            said = [line for line in caplog.messages if "options of the model's run" in line]
            assert len(said) == 1 and ("fill_none=True" if kind == "filled" else "label_separator='|'") in said[0]

    def test_given_options_come_first(self, filled, places, argv, caplog):
        command = ("evaluate", filled, "--data-dir", places, "--json")
        asked = argv(*command, "--option", "fill_none=false")
        assert "fill_none" not in caplog.text
        assert json.loads(asked.out)["rows"] < json.loads(argv(*command).out)["rows"]
        done = argv("faithfulness", *command[1:-1], "--dataset", "aspect_files", "--rows", 2, "--method", "gradient")
        assert done.code == 0 and "target_column='target'" in caplog.text

    def test_repeated_rows_are_measured_once(self, single_run, single_label, tmp_path, argv):
        shutil.copytree(single_run, run := tmp_path / "run")
        (run / "metrics.json").write_text(json.dumps({**report_of(run), "dataset_options": {"oversample": True}}))
        done = argv("evaluate", run, "--data-dir", single_label / "train.csv", "--json")
        assert json.loads(done.out)["rows"] == 48
        (run / "metrics.json").unlink()  # then there is no corpus to take
        assert argv("evaluate", run, "--data-dir", single_label / "test.csv").code == 0
        done = argv("evaluate", run)
        assert done.code == 1 and "--dataset" in done.err


class TestPredict:
    TEXTS = ("so happy today", "not a very calm day")

    @pytest.fixture
    def expected(self, tiny_run):
        return Predictor(tiny_run, device="cpu")(list(self.TEXTS))

    def test_one_text_is_a_table(self, tiny_run, expected):
        rows = cells(invoke("predict", tiny_run, self.TEXTS[0], terminal=True))
        assert rows == [["label", "probability"], *([i["label"], f"{i['score']:.3f}"] for i in expected[0])]
        assert len(rows) > 1

    def test_no_label(self, tmp_path, tiny_run):
        folder = shutil.copytree(tiny_run, tmp_path / "model")
        config = json.loads((folder / "config.json").read_text())
        config["thresholds"] = [1.0] * 28
        (folder / "config.json").write_text(json.dumps(config))
        assert "no label passes its threshold (--top-k 3" in invoke("predict", folder, self.TEXTS[0], terminal=True)
        assert invoke("predict", folder, *self.TEXTS).splitlines() == [f"{text}\t-" for text in self.TEXTS]

    def test_several_texts_are_lines(self, tiny_run, expected):
        printed = invoke("predict", tiny_run, *self.TEXTS)
        assert invoke("predict", tiny_run, *self.TEXTS, terminal=True) == printed
        assert invoke("predict", tiny_run, self.TEXTS[0]) == f"{printed.splitlines()[0]}\n"  # one form for all
        found = [", ".join(f"{item['label']} {item['score']:.3f}" for item in row) or "-" for row in expected]
        assert printed.splitlines() == [f"{text}\t{labels}" for text, labels in zip(self.TEXTS, found, strict=True)]
        assert invoke("predict", tiny_run, stdin=f"\ufeff{self.TEXTS[0]}\n\n{self.TEXTS[1]}\n") == printed

    @pytest.mark.parametrize("form", [(), ("--json",)])
    def test_lines_of_stdin_are_answered_as_they_come(self, tiny_run, monkeypatch, capsys, form):
        """Each answer is printed before more is read, alone as together, and what stood in two reads is one line."""
        reads, printed = iter([b"so happy\n", b"\nsad d", b"ay\r\nso happy\nvery ", b"very sad", b""]), []

        class Pipe:
            def read1(self, size):
                printed.append(capsys.readouterr().out)
                return next(reads)

        stdin = SimpleNamespace(buffer=Pipe(), isatty=bool, encoding="utf-8", errors="strict")
        monkeypatch.setattr(sys, "stdin", stdin)
        predict.predict(str(tiny_run), as_json="--json" in form, top_k=2)
        printed = [*printed[1:], capsys.readouterr().out]
        assert [len(part.splitlines()) for part in printed] == [1, 0, 2, 0, 1]
        texts = ["so happy", "sad day", "so happy", "very very sad"]
        scores = re.compile(r"\d\.\d+(e-\d+)?")  # whose last digits differ in another batch
        alone = invoke("predict", tiny_run, *texts, *form, "--top-k", 2)
        assert scores.sub("", "".join(printed)) == scores.sub("", alone)

    def test_labels_by_name(self, tied_run, tmp_path):
        names, options = ["sun", "the rain"], ["--label", "sun", "--label", "the rain", "--top-k", 30]
        expected = Predictor(tied_run, device="cpu", add_labels=names)(list(self.TEXTS), top_k=30)
        labels = [[item["label"] for item in row] for row in expected]
        assert all(set(row) == {*GOEMOTIONS, *names} for row in labels)
        for texts, stdin in ((self.TEXTS, None), ((), "\n".join(self.TEXTS))):
            output = invoke("predict", tied_run, *texts, *options, "--json", stdin=stdin)
            assert [[i["label"] for i in json.loads(line)["labels"]] for line in output.splitlines()] == labels
        source = write_jsonl(tmp_path / "in.jsonl", [{"comment": text} for text in (*self.TEXTS, "")])
        options += ["--input", source, "--output", tmp_path / "out.parquet"]
        said = invoke("predict", tied_run, *options, "--text-column", "comment", "--on-bad-rows", "skip")
        assert said == f"3 rows written to {tmp_path / 'out.parquet'}, 1 without a prediction\n"
        rows = pyarrow.parquet.read_table(tmp_path / "out.parquet").to_pylist()
        assert [row["predicted_labels"] for row in rows] == [*labels, None]
        assert set(files_in(tmp_path)) == {"in.jsonl", "out.parquet"}


class TestCompare:
    def test_two_runs(self, tiny_run, stock_run):
        def table(*options) -> list[list[str]]:
            """With a header of one line, and without what long paths go on with."""
            rows = cells(invoke("compare", tiny_run, stock_run, *options))
            above = next(number for number, row in enumerate(rows) if row[0] == "tiny")
            header = [" ".join(filter(None, column)) for column in zip(*rows[:above], strict=True)]
            return [header, *(row for row in rows[above:] if row[0])]

        titles = ("fixed threshold", "tuned thresholds")  # as `train` prints them
        assert table()[0][3:] == [f"{name}_f1 ({title})" for title in titles for name in ("macro", "micro")]
        header, *rows = table("--all")
        columns = [f"{name}_f1 ({title})" for title in titles for name in ("macro", "weighted", "micro")]
        assert header == ["run", "encoder", "seeds", *columns]
        for row, run in zip(rows, (tiny_run, stock_run), strict=True):
            report = report_of(run)
            found = report["summary"]["test"]
            means = found["fixed"]["macro_f1"]["mean"], found["tuned"]["micro_f1"]["mean"]
            assert row[0] == report["name"] and [row[2], row[3], row[8]] == ["1", *(f"{mean:.4f}" for mean in means)]
        printed = invoke("compare", tiny_run, stock_run).splitlines()
        lines = [line for line in printed if line.startswith("stock vs tiny")]
        assert [re.search(r"\((.*?)\)", line)[1] for line in lines] == [*titles]
        assert all("95 % interval" in line and "McNemar p = " in line for line in lines)

    def test_other_gold_labels(self, argv, single_run, tmp_path):
        """Rows of one's own files are numbered: two corpora of one length have the same ids."""
        other = shutil.copytree(single_run, tmp_path / "run")
        table = pyarrow.parquet.read_table(other / "predictions.parquet")
        turned = pyarrow.array(table["labels"].to_pylist()[::-1])
        table = table.set_column(table.column_names.index("labels"), "labels", turned)
        pyarrow.parquet.write_table(table, other / "predictions.parquet")
        result = argv("compare", single_run, other)
        assert result.code == 1 and "were not measured on the same rows" in result.err


class TestPackage:
    def test_importing_and_help_cost_neither_torch_nor_transformers(self, tmp_path):
        code = (
            "import json, sys\n"
            "heavy = lambda: [name for name in ('torch', 'transformers', 'datasets', 'sklearn') if name in sys.modules]\n"
            "import hf_emotion\n"
            "found = {'import': heavy(), 'dir': dir(hf_emotion)}\n"
            "from typer.testing import CliRunner\n"
            "from hf_emotion.cli import app\n"
            "for command in ([], ['train'], ['evaluate'], ['predict'], ['compare'], ['convert'], ['reproduce']):\n"
            "    assert CliRunner().invoke(app, [*command, '--help']).exit_code == 0\n"
            "found['help'] = heavy()\n"
            "assert CliRunner().invoke(app, ['recipes']).exit_code == 0\n"
            "found['recipes'] = heavy()\n"
            "print(json.dumps(found))\n"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        assert found["import"] == found["help"] == found["recipes"] == []
        assert set(hf_emotion.__all__) <= set(found["dir"])

    @pytest.mark.parametrize(("account", "shown"), [("OWNER", False), ("ana", True)])
    def test_help_names_the_book_where_it_has_an_address(self, monkeypatch, account, shown):
        urls = Message()
        urls["Project-URL"] = address = f"Documentation, https://{account}.github.io/hf-emotion/"
        monkeypatch.setattr("importlib.metadata.metadata", lambda name: urls)
        assert (address.split()[1] in CliRunner().invoke(app, ["--help"]).output) is shown

    def test_public_names(self):
        assert [name for name in hf_emotion.__all__ if not getattr(hf_emotion, name).__doc__] == []
        with pytest.raises(AttributeError, match="module 'hf_emotion' has no attribute 'Predictr'"):
            hf_emotion.Predictr  # noqa: B018


def test_a_kind_of_warning_comes_once_per_command(caplog):
    """`export` reads the same texts with two models, and again for the figures."""
    command = typer.Typer()

    @command.command(cls=help.Command)
    def twice() -> None:
        for _ in range(2):
            warn_unknown(2, 5)

    for calls in (1, 2):
        CliRunner().invoke(command, [])
        assert len(caplog.messages) == calls


HAPPY = "I am so happy today!"


@pytest.mark.parametrize("command", [("predict",), ("explain",), ("generate", "-e", "joy")], ids=" ".join)
def test_a_file_is_no_text(argv, single_run, tmp_path, command):
    path = write_csv(tmp_path / "comments.csv", ["text"], [[HAPPY]])
    # For `generate` a folder that is no model: what is typed is looked at first.
    done = argv(command[0], tmp_path if "-e" in command else single_run, path, *command[1:])
    assert done.code == 1 and str(path) in done.err and "--input" in done.err
    assert argv("predict", single_run, "comments.csv").code == 0  # no file here


def test_a_password_in_the_name_of_the_output_is_not_printed(argv, single_run, tmp_path):
    source = write_csv(tmp_path / "in.csv", ["text"], [[HAPPY]])
    done = argv("predict", single_run, "--input", source, "--output", "memory://me:secret@host/o.csv")
    assert done.code == 0 and "o.csv" in done.out and "secret" not in done.out + done.err


def test_a_separator_of_a_file_without_columns(argv, single_run, tmp_path):
    (tmp_path / "in.jsonl").write_text(json.dumps({"text": HAPPY}) + "\n")
    files = ("--input", tmp_path / "in.jsonl", "--output", tmp_path / "out.jsonl")
    done = argv("predict", single_run, "--separator", ";", *files)
    assert done.code == 1 and "separator" in done.err and "in.jsonl" in done.err and not files[-1].exists()


@pytest.mark.parametrize("command", ["predict", "predict --json", "explain"])
def test_a_character_that_the_console_lacks(single_run, monkeypatch, command):
    name, *options = command.split()
    more = ["home"] if command == "predict" else []  # of several texts it prints each
    monkeypatch.setattr("sys.argv", ["hf-emotion", name, str(single_run), f"{HAPPY} \U0001f600", *more, *options])
    console = io.TextIOWrapper(io.BytesIO(), encoding="cp1252")
    monkeypatch.setattr("sys.stdout", console)
    with pytest.raises(SystemExit) as end:
        main()
    console.flush()
    shown = console.buffer.getvalue().decode("cp1252")
    assert not end.value.code and (options or "\\U0001f600" in shown)
    assert not options or json.loads(shown)["text"] == f"{HAPPY} \U0001f600"


def test_a_line_that_is_no_text(argv, single_run, monkeypatch, caplog):
    content = b"so happy\n\xe2\x80\x8b\nthat\xff sun\nhome\n"  # the second one holds nothing that is seen

    def read(*options):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content), encoding="utf-8"))
        done = argv("predict", single_run, "--json", *options)
        return done, [json.loads(line)["text"] for line in done.out.splitlines()]

    done, texts = read()
    assert done.code == 1 and texts == ["so happy"]
    assert "stdin, line 3 is not utf-8 text" in done.err and "--on-bad-rows skip" in done.err
    assert read("--on-bad-rows", "skip")[1] == ["so happy", "home"]
    assert "1 lines are not utf-8 text and are left out, first line 3" in caplog.text
