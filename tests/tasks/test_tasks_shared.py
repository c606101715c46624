# SPDX-License-Identifier: Apache-2.0
"""What every task does, from the command line: train, resume, evaluate, predict, explain, export, publish, refuse bad rows."""

import dataclasses
import functools
import json
import os
import re
import shutil
from pathlib import Path

import dummy_task
import huggingface_hub
import numpy as np
import pyarrow.parquet
import pytest
import torch
import transformers
import yaml
from families import working_in, write_bases_and_corpora
from huggingface_hub import ModelCard
from safetensors.numpy import load_file
from task_cases import REPLIES, TASK_CASES, TaskCase
from toolkit_helpers import CHECKPOINT, REPORTS, RESULTS, files_in, invoke, report_of, torch_threads, travelling
from typer.testing import CliRunner

from hf_emotion import load_dataset_for, load_recipe, metrics, train
from hf_emotion.cli import app
from hf_emotion.inference import load_predictor
from hf_emotion.publishing import hub
from hf_emotion.publishing.release import check, stage
from hf_emotion.recipes import make_recipe
from hf_emotion.run_report import RunReport
from hf_emotion.runs.evaluate import evaluate
from hf_emotion.runtime.loading import auto_class_of
from hf_emotion.tasks import TASKS, corpora, corpus_of, task_of, task_of_run
from hf_emotion.tasks.loading import load_split
from hf_emotion.tasks.predictor import AnyPredictor, LabelPredictor
from hf_emotion.training import seeds


ANSWERING = [case for case in TASK_CASES if case.lines]
of_case = lambda cases: pytest.mark.parametrize("case", cases, ids=lambda case: case.id)  # noqa: E731


@pytest.fixture(scope="module", autouse=True)
def workplace(tmp_path_factory):
    TASKS.append(dummy_task.TASK)
    try:
        with working_in(tmp_path_factory.mktemp("tasks")), torch_threads(1):
            write_bases_and_corpora()
            yield Path.cwd()
    finally:
        TASKS.remove(dummy_task.TASK)


@pytest.fixture(scope="module")
def run_of(workplace):

    @functools.cache
    def run(case: TaskCase) -> Path:
        case.write(Path(case.data))
        Path("recipes").mkdir(exist_ok=True)
        recipe, output = Path("recipes", f"{case.id}.yaml"), Path("runs", case.id).resolve()
        names = [case.recipe["dataset"], *case.recipe.get("dataset_options", {}).get("corpora", ())]
        own = any(corpora()[name].own_files for name in names)
        base = Path(case.recipe["base_model"])
        fields = {**case.recipe, **({"data_license": "CC-BY-4.0", "data_terms": "mine & yours"} if own else {})}
        fields["base_model"] = str(base.resolve() if base.is_dir() else base)
        recipe.write_text(yaml.safe_dump(fields, allow_unicode=True), encoding="utf-8")
        invoke("train", recipe, "-o", output, "--data-dir", Path(case.data).resolve())
        return output

    return run


def fails(*words) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code != 0, result.output
    return str(result.exception) if result.exit_code == 1 else result.output


def json_lines(text: str) -> list[dict]:
    return [json.loads(line) for line in text.splitlines()]


@of_case(TASK_CASES)
def test_a_training_leaves_a_checkpoint_that_transformers_loads(case, run_of):
    run = run_of(case)
    report = report_of(run)
    config = transformers.AutoConfig.from_pretrained(run)
    task = task_of(config)
    assert task.name == case.task and task_of_run(RunReport.read(run)) is task
    auto_class = getattr(transformers, auto_class_of(config, task.auto_class))
    model, loading = auto_class.from_pretrained(run, output_loading_info=True)
    assert not loading["missing_keys"] and not loading["unexpected_keys"]
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    classifies = task.selects_labels and task.labelled
    files = RESULTS if classifies else RESULTS - REPORTS - {"per_label_f1.png", "predictions.parquet"}
    expected = CHECKPOINT | files | (travelling(*case.code) if case.code else set())
    assert set(files_in(run)) - {"generation_config.json", "chat_template.jinja"} == expected
    metric = report["runs"][0]["selected_by"].removeprefix("eval_")
    (figures,) = [kinds for kinds in report["summary"]["test"].values() if metric in kinds][:1]
    assert np.isfinite(figures[metric]["mean"])


@of_case(TASK_CASES)
def test_the_report_and_the_predictions_are_of_the_corpus(case, run_of):
    run, task = run_of(case), task_of_run(RunReport.read(run_of(case)))
    assert load_recipe(run / "recipe.yaml") == load_recipe(f"recipes/{case.id}.yaml")
    report = report_of(run)
    splits = load_dataset_for(case.recipe["dataset"], case.data, **case.recipe.get("dataset_options", {}))
    assert report["rows"] == {split: len(rows) for split, rows in splits.items()}
    (entry,) = report["runs"]
    for split in ("validation", "test"):
        for kind, figures in entry[split].items():
            for name, summary in report["summary"][split][kind].items():
                assert summary == {"mean": figures[name], "std": None}
    gold = task.gold(splits["train"]).values if task.labelled else np.empty((0, 0))
    counts = gold.sum(axis=0)
    if gold.ndim == 1:
        counts = np.bincount(gold[gold >= 0], minlength=len(report["class_counts"]))
    assert list(report["class_counts"].values()) == list(counts)
    if not (run / "predictions.parquet").is_file():
        return
    table = pyarrow.parquet.read_table(run / "predictions.parquet")
    assert table.column_names == ["split", "id", "labels", "probabilities"]
    assert json.loads(table.schema.metadata[b"label_names"]) == list(report["class_counts"])
    for split in ("validation", "test"):
        gold, (ids, texts) = task.gold(splits[split]).values, task.units(splits[split])
        names = np.array(list(report["class_counts"]))
        labelled = np.full(len(gold), True) if gold.ndim == 2 else gold >= 0
        rows = [row for row in table.to_pylist() if row["split"] == split]
        assert [row["id"] for row in rows] == [own for own, has in zip(ids, labelled, strict=True) if has]
        expected = [names[np.flatnonzero(own)] if gold.ndim == 2 else names[[own]] for own in gold[labelled]]
        assert [row["labels"] for row in rows] == [own.tolist() for own in expected]
        content = json.dumps(rows) + (run / "metrics.json").read_text(encoding="utf-8")
        assert not any(text in content for text in texts)


@of_case(TASK_CASES)
def test_the_weights_are_those_of_the_best_epoch(case, run_of):
    """The figures during training are those of padded batches in the order of length; afterwards they are predicted anew."""
    (entry,) = report_of(run_of(case))["runs"]
    metric = entry["selected_by"].removeprefix("eval_")
    assert metric in ("loss", "perplexity", corpus_of(case.recipe["dataset"]).selection_metric)
    epochs = [part for part in entry["history"] if "eval_loss" in part]
    values = [part[f"eval_{metric}"] for part in epochs]
    best = values.index((min if metric in ("loss", "perplexity") else max)(values))
    assert len(set(values)) > 1 or case.id == "dummy"  # which learns nothing
    assert entry["best_dev_metric"] == values[best] and entry["best_step"] == epochs[best]["step"]
    (figures,) = [kind for name, kind in entry["validation"].items() if name != "tuned"]
    assert metric in figures
    for name in {metric, "accuracy", "macro_f1"} & figures.keys() & {name[5:] for name in epochs[best]}:
        assert figures[name] == pytest.approx(epochs[best][f"eval_{name}"], rel=1e-5), name


@of_case(TASK_CASES)
def test_the_card(case, run_of):
    card, report = ModelCard.load(run_of(case) / "README.md"), report_of(run_of(case))
    data = card.data
    assert (data.library_name, data.model_name, data.base_model) == ("transformers", case.recipe["name"], None)
    assert {"emotion", "hf-emotion"} & set(data.tags) and data.pipeline_tag
    assert data.license == ("apache-2.0" if case.id == "dummy" else "cc-by-4.0")
    kinds = report["summary"]["test"].values()
    for result in data.eval_results:
        name = result.metric_name.split()[0]
        given = [kind[name]["mean"] for kind in kinds if name in kind]
        assert result.dataset_split == "test"
        assert any(result.metric_value == pytest.approx(value, abs=6e-5) for value in given)
    for split in ("validation", "test"):
        for kind in report["summary"][split].values():
            assert any(f"{figure['mean']:.4f}" in card.text for figure in kind.values())
    sizes = ", ".join(f"{split} {count}" for split, count in report["rows"].items())
    assert sizes in card.text and "One seed: no spread is known." in card.text
    assert all(label in card.text for label in report["class_counts"])
    (code, *_) = re.findall(r"```python\n(.*?)```", card.text, flags=re.DOTALL)
    assert code.count("PATH_OR_REPO") == 1
    printed: list = []
    exec(code.replace("PATH_OR_REPO", str(run_of(case))), {"print": printed.append})
    assert printed and (printed[0] or case.key == "terms")  # the small model finds no term in it


@of_case(TASK_CASES)
def test_models_and_corpora_of_other_tasks_are_refused(case, run_of, tmp_path):
    """By a training before it writes anything, and by `evaluate`."""
    predictor = load_predictor(run_of(case)) if case.lines else None
    reads = task_of_run(RunReport.read(run_of(case))).reads
    for other in TASK_CASES:
        # Classifiers of texts read the replies of a corpus of replies, and label-aware attention learns aspects, too.
        if other.task == case.task or (case.task, other.task) in (
            ("emotion-classification", REPLIES.task),
            ("emotion-classification", "targeted-sentiment"),
        ):
            continue
        fields = {name: other.recipe.get(name) for name in ("dataset", "dataset_options")}
        holds, data = task_of_run(RunReport.read(run_of(other))).reads, Path(other.data)
        recipe = make_recipe({**case.recipe, **fields, "dataset_options": fields["dataset_options"] or {}})
        if recipe.model_type is not None:
            with pytest.raises(ValueError, match=f"reads {reads}, and `dataset` '.*' holds {holds}. Take one of"):
                train(recipe, tmp_path / "run", data_dir=data)
        if predictor is not None:
            message = f"holds {holds}, and the model reads {reads}|has no contexts and replies|unknown label"
            with pytest.raises(ValueError, match=message):
                evaluate(predictor, other.recipe["dataset"], data_dir=data, options=recipe.dataset_options)
    assert not (tmp_path / "run").exists()


@of_case([case for case in TASK_CASES if case.id != "dummy"])
def test_what_does_not_fit_is_said_before_anything_is_written(case, run_of, tmp_path):
    run_of(case)
    recipe = load_recipe(f"recipes/{case.id}.yaml")
    said = [({"max_length": 4000}, ValueError, "`max_length` .*4000")]
    said += [({"base_model": "nobody/no-model"}, OSError, "the base model 'nobody/no-model' cannot be loaded")]
    if case.id != "targeted-sentiment":  # the others have several labels in a row, or none
        message = "`inverse_frequency_sampling` is for rows with one label.*: leave it out"
        said.append(({"inverse_frequency_sampling": True}, ValueError, message))
    if Path(recipe.base_model).is_dir():
        bare = shutil.copytree(recipe.base_model, tmp_path / "base", ignore=lambda *_: ["model.safetensors"])
        said.append(({"base_model": str(bare)}, OSError, "base.* cannot be loaded.*model.safetensors"))
    for changes, error, message in said:
        with pytest.raises(error, match=message) as caught:
            train(dataclasses.replace(recipe, **changes), tmp_path / "run", data_dir=case.data)
        assert "\n" not in str(caught.value) and not (tmp_path / "run").exists()


@of_case(TASK_CASES)
def test_tasks_that_answer_have_a_predictor_with_what_all_rooms_use(case, run_of):
    if not case.lines:
        assert case.task in fails("predict", run_of(case), "a day")
        return
    predictor = load_predictor(run_of(case))
    assert isinstance(predictor, LabelPredictor if predictor.task.selects_labels else AnyPredictor)


@of_case([case for case in ANSWERING if case.command == "predict" and case.id != "dummy"])
def test_answers_are_calibrated_wherever_they_are_given(case, run_of):
    """By the temperature that fits the validation part: stored predictions, predictors and pipelines."""
    run, predictor = run_of(case), load_predictor(run_of(case))
    stored, config = pyarrow.parquet.read_table(run / "predictions.parquet").to_pylist(), predictor.model.config
    for split in ("test", "validation"):
        rows = load_split(case.recipe["dataset"], split, case.data, **case.recipe.get("dataset_options", {}))
        gold = predictor.task.gold(rows).values
        labelled = slice(None) if gold.ndim == 2 else gold >= 0
        kept = [row["probabilities"] for row in stored if row["split"] == split]
        np.testing.assert_allclose(predictor.of_rows(rows)[labelled], kept, atol=1e-5)
    temperature, config.calibration_temperature = config.calibration_temperature, None
    fitted = metrics.fit_temperature(gold[labelled], predictor.of_rows(rows)[labelled])
    assert report_of(run)["runs"][0]["temperature"] == temperature == pytest.approx(fitted, rel=1e-3)
    if case.key == "terms":  # whose probabilities are those of words, see aspect_extraction/test_terms.py
        return
    config.calibration_temperature = 3.0  # far from 1, so that none of the ways can leave it out
    items = [list(case.lines)] if case.task == "dialogue-emotion" else list(case.lines)
    raw, calibrated = predictor.probabilities(items, raw=True), predictor.probabilities(items)
    powers, others = np.float64(raw) ** (1 / 3), (1 - np.float64(raw)) ** (1 / 3)
    expected = powers / (powers + others if predictor.multi_label else powers.sum(axis=1, keepdims=True))
    np.testing.assert_allclose(calibrated, expected, atol=1e-5)
    assert np.abs(calibrated - raw).max() > 0.01
    pipe = transformers.pipeline(predictor.task.name, model=predictor.model, tokenizer=predictor.tokenizer)
    if case.task == "emotion-classification":
        ours = {item["label"]: item["score"] for item in pipe(items[0], top_k=None)}
        rows = [[ours[label] for label in predictor.labels]]
    else:
        rows = [list(entry["scores"].values()) for entry in pipe(items[0])]
    np.testing.assert_allclose(rows, calibrated[: len(rows)], atol=1e-5)


@of_case([case for case in TASK_CASES if case.id != "dummy"])
def test_an_interrupted_training_ends_as_if_nothing_had_been(case, run_of, monkeypatch):
    run, again = run_of(case), Path(f"runs/{case.id}-resumed")
    save = seeds.EmotionTrainer._save_checkpoint

    def save_and_stop(*arguments, **options):
        save(*arguments, **options)
        raise KeyboardInterrupt

    command = ("train", f"recipes/{case.id}.yaml", "-o", again, "--data-dir", case.data)
    with monkeypatch.context() as patch:
        patch.setattr(seeds.EmotionTrainer, "_save_checkpoint", save_and_stop)
        CliRunner().invoke(app, [str(word) for word in command])
    assert not (again / "metrics.json").exists() and list(again.glob("checkpoints/*"))
    invoke(*command, "--resume")
    assert report_of(again)["runs"][0]["resumed"] is True
    expected, found = load_file(run / "model.safetensors"), load_file(again / "model.safetensors")
    assert expected.keys() == found.keys()
    assert all((expected[name] == found[name]).all() for name in expected)
    assert files_in(run).keys() == files_in(again).keys()
    for name in ("test", "validation"):
        assert report_of(run)["runs"][0][name] == report_of(again)["runs"][0][name]
    if (run / "predictions.parquet").is_file():
        one, other = (pyarrow.parquet.read_table(folder / "predictions.parquet") for folder in (run, again))
        assert one.equals(other)
    shutil.rmtree(again)


@of_case(ANSWERING)
def test_evaluate_gives_the_figures_of_the_run(case, run_of):
    run = run_of(case)
    words = ("evaluate", run, "--dataset", case.recipe["dataset"], "--data-dir", case.data, "--json", *case.evaluate)
    options = [f"--option={key}={value}" for key, value in case.recipe.get("dataset_options", {}).items()]
    for split in ("validation", "test"):
        found = json.loads(invoke(*words, *options, "--split", split))
        if "metrics" not in found:  # models of replies have figures of their own
            assert np.isfinite(found["rows"]["model"]["token_perplexity"])
            return
        trained = report_of(run)["runs"][0][split]
        numbers = lambda figures: {name: value for name, value in figures.items() if isinstance(value, float)}  # noqa: E731
        for kind, figures in found["metrics"].items():
            if kind != "fixed":  # whose threshold is another one by default
                assert figures.keys() == trained[kind].keys()
                assert numbers(figures) == pytest.approx(numbers(trained[kind]), abs=1e-6, nan_ok=True)


@of_case(ANSWERING)
def test_texts_and_lines_of_stdin_get_the_same_answers(case, run_of):
    run, words = run_of(case), (*case.options, *case.beside, "--json")
    texts = json_lines(invoke(case.command, run, *case.lines, *words))
    stdin = json_lines(invoke(case.command, run, *words, stdin="\n".join(case.lines) + "\n"))
    assert texts == stdin and len(texts) == len(case.lines)
    assert all({case.key, "truncated", "unknown", "language"} <= row.keys() for row in texts)
    shown = invoke(case.command, run, *case.lines, *words[:-1])
    words = [row["reply"] for row in texts] if case.key == "reply" else [case.lines[0].split()[0].rstrip(":")]
    assert all(word in shown for word in words)


@of_case(ANSWERING)
def test_a_file_gets_the_answers_of_its_texts_and_a_bad_row_is_named(case, run_of, tmp_path):
    run, file, output = run_of(case), case.write_file(tmp_path / "in.csv", bad=True), tmp_path / "out.jsonl"
    message = fails(case.command, run, "--input", file, "--output", output, *case.options)
    assert "in.csv" in message and f"line {len(case.lines) + 2}" in message and os.listdir(tmp_path) == ["in.csv"]
    said = invoke(case.command, run, "--input", case.write_file(file), "--output", output, *case.options)
    rows = json_lines(output.read_text(encoding="utf-8"))
    assert case.command != "predict" or said.startswith(f"{len(rows)} rows written to ")
    texts = json_lines(invoke(case.command, run, *case.lines, *case.options, *case.beside, "--json"))
    if case.key == "terms":  # a row for each
        texts = [text | term | {"row": number} for number, text in enumerate(texts, 1) for term in text["terms"]]
    assert len(rows) == len(texts)
    for row, text in zip(rows, texts, strict=True):
        assert all(row[name] == text[name] for name in ("truncated", "unknown"))
        assert row["language" if case.key == "reply" else "predicted_language"] == text["language"]
        if case.key == "reply":
            assert row["reply"] == text["reply"]
        elif case.key == "terms":
            places = [row[f"predicted_{name}"] for name in ("labels", "terms", "starts", "ends")]
            assert places == [[text[name]] for name in ("label", "term", "start", "end")]
            assert row["source_row"] == text["row"]
        elif case.key == "label":
            assert row["predicted_labels"] == [text["label"]]
        elif case.key == "sentiments":
            named = [item for item in text["sentiments"] if item["label"] != "none"]
            assert [item["score"] for item in named] == pytest.approx(row["predicted_scores"], abs=1e-6)
        else:
            assert row["predicted_labels"] == [item["label"] for item in text["labels"]]


@of_case([case for case in ANSWERING if case.command == "predict"])
def test_options_of_other_tasks(case, run_of, tmp_path):
    option = ("--top-k", "2") if case.task == "targeted-sentiment" else ("--target", "home")
    file, message = case.write_file(tmp_path / "in.csv"), f"does not go with a model for {case.task}"
    files = ("--input", file, "--output", tmp_path / "out.jsonl")
    data = ("--dataset", case.recipe["dataset"], "--data-dir", case.data, "--judge", "x")
    for words, named in ((("predict", *case.lines, *option), option[0]), (("evaluate", *data), "--judge")):
        said = fails(words[0], run_of(case), *words[1:])
        assert f"{named} {message}" in " ".join(said.replace("│", " ").split())
    assert option[0] in fails("predict", run_of(case), *files, *option)
    assert os.listdir(tmp_path) == ["in.csv"]


@of_case(ANSWERING)
def test_explain_gives_finite_maps(case, run_of):
    line = case.lines[:3] if case.task == "dialogue-emotion" else case.lines[:1]
    found = json.loads(invoke("explain", run_of(case), *line, *case.beside, "--format", "json"))
    config = json.loads((run_of(case) / "config.json").read_text())
    assert found["maps"] and found["model_type"] == config["model_type"]
    for heat in found["maps"]:
        values = np.array(heat["values"], dtype=float)
        assert values.shape == (len(heat["rows"]), len(heat["columns"])) and np.isfinite(values).all()


@pytest.mark.release
@of_case([case for case in ANSWERING if case.id in ("aspect-extraction", "dummy")])
def test_an_exported_model_answers_as_its_checkpoint(case, run_of, tmp_path):
    run, folder, lines = shutil.copytree(run_of(case), tmp_path / "run"), tmp_path / "onnx", tmp_path / "lines.txt"
    fields = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps(fields | {"calibration_temperature": 3.0}))
    lines.write_text("\n".join(case.lines), encoding="utf-8")
    report = json.loads(invoke("export", run, "-o", folder, "--texts", lines, "--json"))
    assert report["float32"]["texts"] == len(case.lines) and report["float32"]["other_decisions"] == 0
    found, expected = (json_lines(invoke("predict", place, *case.lines, "--json")) for place in (folder, run))
    for row, other in zip(found, expected, strict=True):
        labels = [item["label"] for item in row[case.key]]
        assert labels == [item["label"] for item in other[case.key]]
        scores = [[item["score"] for item in one[case.key]] for one in (row, other)]
        assert scores[0] == pytest.approx(scores[1], abs=1e-5)


@pytest.mark.release
def test_publishing_is_checked_without_sending_anything(run_of, tmp_path, monkeypatch):
    """What is checked of each run is checked together: a process without the library takes seconds to start."""
    staged: list[tuple[Path, str]] = []

    def put_aside(folders, trust_remote_code):
        assert not trust_remote_code
        staged.extend((shutil.copytree(folder, tmp_path / "staged" / case.id), name) for folder, name in folders)

    monkeypatch.setattr(hub, "check", put_aside)
    cases = [case for case in TASK_CASES if case.whole]
    for case in cases:
        run = tmp_path / case.id
        shutil.copytree(run_of(case), run)
        before = files_in(run)
        shown = invoke("push", run, "--repo-id", "somebody/model", "--dry-run")
        assert "model.safetensors" in shown and "README.md" in shown and "dry run" in shown
        assert files_in(run) == before
    assert [folder.name for folder, _ in staged] == [case.id for case in cases]

    # A run that needs its base model: what is new alone, over the base on the Hub; and all weights.
    (run,) = (run_of(case) for case in TASK_CASES if not case.whole)
    base = tmp_path / "hub" / "models--me--tiny" / "snapshots" / ("0" * 40)
    shutil.copytree("base/llama", base)
    (base.parents[1] / "refs").mkdir()
    (base.parents[1] / "refs" / "main").write_text("0" * 40)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    for name, options in {"small": {"base_model": "me/tiny"}, "all": {"merge": True}}.items():
        stage(run, tmp_path / name, f"me/{name}", **options)
        staged.append((tmp_path / name, f"me/{name}"))
    small, every = (json.loads((tmp_path / name / "config.json").read_text()) for name in ("small", "all"))
    assert (small["base_model_name_or_path"], small["base_model_revision"]) == ("me/tiny", "0" * 40)
    assert every["base_model_name_or_path"] is None
    assert ModelCard.load(tmp_path / "small" / "README.md").data.base_model == "me/tiny"
    code = [{path.name for path in (tmp_path / name).glob("*.py")} for name in ("small", "all")]
    assert code[0] == code[1]
    predictors = (load_predictor(folder) for folder in (run, tmp_path / "all"))
    losses = [predictor.token_losses(["the rain"], ["so sad"], ["joy"]) for predictor in predictors]
    np.testing.assert_allclose(*losses, atol=1e-6)
    check(staged)
