# SPDX-License-Identifier: Apache-2.0
"""Records of finished runs, the tables made of them, the plan, and the run that becomes a ready model."""

import dataclasses
import json
from pathlib import Path

import pytest
from toolkit_helpers import ROOT, run_report, seed_run

from benchmarks.study import plan, records, tables
from benchmarks.study.tables import GOEMOTIONS_LABELS
from hf_emotion.runs.train import summarize
from hf_emotion.tasks.published import TABLES
from hf_emotion.training.recipe_checks import load_recipe


pytest_plugins = ["toolkit_fixtures"]


def write_run(folder: Path, name: str, figures: dict[int, float], **changes) -> Path:
    """A finished run folder of a GoEmotions recipe, with the macro-F1 of each seed."""
    recipe = dataclasses.replace(load_recipe(name), seeds=list(figures), **changes)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "recipe.yaml").write_text(recipe.to_yaml())
    runs = []
    for seed, value in figures.items():
        per_label = dict.fromkeys(GOEMOTIONS_LABELS, {"precision": 0.0, "recall": 0.0, "f1": value, "support": 3})
        fixed = {"macro_f1": value, "micro_f1": 0.5, "per_label": per_label, "confusions": [{"gold": "joy"}] * 20}
        splits = {split: {"fixed": fixed, "tuned": {"macro_f1": value + 0.01}} for split in ("validation", "test")}
        runs.append(seed_run(seed=seed, train_minutes=10.0 * seed, epochs=2.0, thresholds={}, **splits))
    fields = {"rows": {"train": 43410, "test": 5427}, "duplicates": {"train & test": 32}, "environment": {}}
    fields |= {"name": recipe.name, "base_model": recipe.base_model, "summary": summarize(runs), "runs": runs}
    run_report(**fields).write(folder)
    return folder


def collect(folder: Path, name: str = "goemotions/laa_ce", figures: dict | None = None, **changes) -> list[Path]:
    """The records, in `records` beside the folder of the run."""
    run = write_run(folder, name, figures or {1: 0.5}, **changes)
    return records.collect("goemotions", run, folder.parent / "records")


def rows_of(folder: Path, table: str = "goemotions") -> dict[str, list[str]]:
    return {row[0]: row[1:] for row in tables.table_rows(table, folder)[1]}


def test_mean_and_spread_over_the_seeds(tmp_path):
    files = collect(tmp_path / "run", figures={1: 0.50, 2: 0.53}, base_model="minilm")
    assert len(files) == 2 and all(path.parent == tmp_path / "records" / "goemotions" for path in files)
    rows = rows_of(tmp_path / "records")
    assert rows["LAA + CE, minilm"] == [
        *("`goemotions/laa_ce`", "43,410", "2", "15.0"),
        *("0.515 ± 0.021", "0.525 ± 0.021", "0.500 ± 0.000", "-", "-"),  # (0.53 - 0.50) / √2
    ]
    assert rows["LEAM + CE"][4:] == ["not run"] * 5
    assert rows["*published: LAA + CE*, BERT-base cased, 10 seeds"][4:] == ["0.510 ± 0.010", "", "", "", ""]


def test_a_record_is_small_and_whole(tmp_path):
    base = tmp_path / "somewhere" / "encoder"
    base.mkdir(parents=True)
    (path,) = collect(tmp_path / "run", base_model=str(base))
    record = json.loads(path.read_text())
    assert (record["recipe"], record["seed"], record["encoder"]) == ("goemotions/laa_ce", 1, "encoder")
    assert record["texts of test also in train"] == 32 and record["minutes"] == 10 and record["epochs"] == 2
    assert record["metrics"]["validation"]["tuned"] == {"macro_f1": 0.51}
    assert len(record["confusions"]) == 8 and len(record["per_label_f1"]) == 28
    assert str(tmp_path) not in path.read_text() and path.stat().st_size < 4000


def test_runs_of_other_settings_stand_apart(tmp_path):
    faster = {**load_recipe("goemotions/laa_ce").training_arguments, "learning_rate": 1e-4}
    settings = {0.5: {}, 0.4: {"train_fraction": 0.25}, 0.3: {"base_model": "minilm"}}
    settings[0.6] = {"training_arguments": faster}
    names = {collect(tmp_path / f"{f1}", figures={1: f1}, **changes)[0].name for f1, changes in settings.items()}
    assert len(names) == 4
    rows = [row for row in tables.table_rows("goemotions", tmp_path / "records")[1] if "laa_ce`" in row[1]]
    assert {(row[0], row[5]) for row in rows} == {
        ("LAA + CE, google-bert/bert-base-cased", "0.500"),
        ("LAA + CE, google-bert/bert-base-cased (learning_rate 0.0001)", "0.600"),
        ("LAA + CE, minilm", "0.300"),
        ("LAA + CE, 25%, google-bert/bert-base-cased", "0.400"),
    }
    told = tables.markdown("goemotions", tmp_path / "records")
    assert "- goemotions/laa_ce over google-bert/bert-base-cased: learning_rate 0.0001\n" in told


def test_a_generator_with_its_evaluation(tmp_path):
    run = write_run(tmp_path / "run", "mojitalk/gpt2_mod_ln", {1: 0.5})
    report = json.loads((run / "metrics.json").read_text())
    report["runs"][0] |= dict.fromkeys(("validation", "test"), {"teacher_forcing": {"perplexity": 104.2}})
    (run / "metrics.json").write_text(json.dumps(report))
    judged = [{"all_emotions": {"hits@1": hits, "hits@3": 0.1, "per_emotion": {}}} for hits in (0.027, 0.022)]
    judges = {f"/home/me/judge_{number}": values for number, values in enumerate(judged)}
    evaluation = {"contexts": 40, "settings": {"seed": 0}, "rows": {"model": {"ttr_1": 0.3, "judges": judges}}}
    (run / "evaluation.json").write_text(json.dumps(evaluation))
    (path,) = records.collect("mod-ln", run, tmp_path / "records", encoder="GPT-2 2.5M")
    assert "/home/me" not in path.read_text()
    header, rows = tables.table_rows("mod-ln", tmp_path / "records")
    row = dict(zip(header, next(row for row in rows if row[0] == "Mod-LN GPT-2, GPT-2 2.5M"), strict=True))
    assert row["ttr_1 (replies)"] == "0.300"
    assert (row["hits@1 (replies)"], row["hits@1 of judge 2 (replies)"]) == ("0.027", "0.022")
    assert row["perplexity (teacher forcing)"] == "104.2" and row["bertscore_f1 (replies)"] == "-"


def test_from_the_command_line(tmp_path, study):
    run = write_run(tmp_path / "run", "goemotions/laa_ce", {1: 0.512, 2: 0.5}, base_model="minilm")
    done = study("collect", "goemotions", run, "--encoder", "my-bert", "--records", tmp_path / "records")
    assert [Path(line).is_file() for line in done.out.splitlines()] == [True, True] and "my-bert" in done.out
    assert rows_of(tmp_path / "records")["LAA + CE, my-bert"][2] == "2"
    done = study("collect", "esa", run, "--records", tmp_path / "records")
    assert done.code == 1 and len(done.err.splitlines()) == 1 and "the table 'esa' has" in done.err


def test_no_table_has_more_than_five_columns(tmp_path):
    collect(tmp_path / "run", figures={1: 0.512}, base_model="minilm")
    lines = tables.markdown("goemotions", tmp_path / "records").splitlines()
    assert {line.count("|") - 1 for line in lines if line.startswith("|")} <= {2, 3, 4, 5}
    assert set(lines) > {
        "| LAA + CE, minilm | 0.512 | 0.522 | 0.500 |",
        "| LAA + CE, minilm | `goemotions/laa_ce` | 43,410 | 1 | 10.0 |",
        "| LAA + CB | not run | not run | not run |",
        "| grief | 0.35 | 0.51 |",  # Table 4 of the paper, and ours
    }
    header, _, *rows = tables.short_table("goemotions", tmp_path / "records").splitlines()
    assert header.count("|") == 6 and len(rows) == 5  # the published rows: ours has one seed


def test_the_study_is_up_to_date(tmp_path, monkeypatch, study):
    """TABLES.md holds all tables, as the committed records have them."""
    monkeypatch.chdir(ROOT)
    study("tables", "--output", tmp_path / "TABLES.md")
    text = (tmp_path / "TABLES.md").read_text(encoding="utf-8")
    assert text == (ROOT / "benchmarks" / "reproduction" / "TABLES.md").read_text(encoding="utf-8")
    assert all(content.title in text for content in TABLES.values())


def write_plan(path: Path, **changes) -> Path:
    entry = {"question": "ahead?", "table": "goemotions", "recipes": ["goemotions/laa_ce"], "encoder": "small"}
    entry |= {"set": ["num_train_epochs=6", "train_fraction=0.5"], "seeds": 2, **changes}
    path.write_text(json.dumps({"encoders": {"small": "someone/small"}, "runs": [entry]}))
    return path


def test_runs_what_is_not_on_record_and_goes_on(tmp_path, monkeypatch):
    path = write_plan(tmp_path / "plan.yaml")
    trained = []

    def train(recipe, folder, data_dir, resume):
        trained.append((recipe.seeds, recipe.base_model, resume))
        own = {name: getattr(recipe, name) for name in ("base_model", "train_fraction", "training_arguments")}
        write_run(folder, "goemotions/laa_ce", {recipe.seeds[0]: 0.5}, **own)

    monkeypatch.setattr(plan, "train", train)
    here = {"output": tmp_path / "runs", "records": tmp_path / "records"}
    runs = plan.read_plan(path, {"small": str(tmp_path / "elsewhere")}, **here)
    first = runs[0].recipe.seeds[0]
    assert [run.recipe.seeds for run in runs] == [[first], [first + 1]]
    assert [run.state for run in runs] == ["to run"] * 2 and runs[0].minutes is None
    runs[1].folder.mkdir(parents=True)
    assert [run.state for run in runs] == ["to run", "begun"]
    assert plan.run_plan(runs[:1]) == [runs[0].record]
    # The record has the encoder's name in the plan, wherever its files are.
    assert json.loads(runs[0].record.read_text())["encoder"] == "small"
    assert [run.state for run in runs] == ["on record", "begun"]
    # The estimate: 10 minutes for each seed number, 2 epochs, half of the rows -> 6 epochs, half of the rows.
    again = plan.read_plan(path, **here)
    assert again[1].minutes == pytest.approx(10 * first / 2 / 0.5 * 6 * 0.5)
    assert again[0].state == "on record" and "left: 1 runs of about" in plan.left(again)
    plan.run_plan(runs)
    elsewhere = str(tmp_path / "elsewhere")
    assert trained == [([first], elsewhere, False), ([first + 1], elsewhere, True)]


def test_what_is_wrong_is_named(tmp_path):
    for changes, message in (
        ({"encoder": "large"}, "`encoder` must be one of .*small.*'large'"),
        ({"table": "goemotion"}, "unknown `table` 'goemotion': .*Did you mean 'goemotions'"),
        ({"recipe": "goemotions/laa_ce"}, "`recipe`.*Did you mean 'recipes'"),
        ({"seeds": 0}, "`seeds` must be .* at least 1, got 0"),
        ({"recipes": ["goemotions/laa_ce"] * 2}, "goemotions/laa_ce over small, seed .* twice .*'ahead\\?'"),
    ):
        with pytest.raises(ValueError, match=message):
            plan.read_plan(write_plan(tmp_path / "plan.yaml", **changes))
    with pytest.raises(ValueError, match="`encoders` names .*'big'"):
        plan.read_plan(write_plan(tmp_path / "plan.yaml"), {"big": "here"})


@pytest.mark.parametrize("name", ["study.yaml", "study_gpu.yaml"])
def test_the_project_s_own_plans_can_be_read(name):
    runs = plan.read_plan(ROOT / "benchmarks" / name)
    assert len({run.record for run in runs}) == len(runs)


def test_notes_of_a_ready_model_that_lack_something(study, single_run, tmp_path):
    for said in ("description: Emotions.", "- a list"):
        (tmp_path / "notes.yaml").write_text(said)
        done = study("ready", single_run, "--output", tmp_path / "new", "--notes", tmp_path / "notes.yaml")
        assert done.code == 1 and "notes.yaml" in done.err and "'terms'" in done.err
    assert not (tmp_path / "new").exists()
