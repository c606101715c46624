# SPDX-License-Identifier: Apache-2.0
"""Rows whose labels are probably wrong."""

import csv
import json
from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
from toolkit_helpers import FEELINGS, cells, feelings_rows, invoke, write_csv, write_dialogues

import hf_emotion
from hf_emotion.gold import Gold
from hf_emotion.reports import label_errors
from hf_emotion.reports.label_errors import check_labels, fold_numbers, honest_encoder, out_of_fold
from hf_emotion.run_report import RunReport
from hf_emotion.runtime.ready import find_ready


pytest_plugins = ["toolkit_fixtures"]
pytestmark = pytest.mark.usefixtures("single_thread")
pytest.importorskip("cleanlab")


@pytest.mark.parametrize("multi_label", [False, True])
def test_planted_errors_come_first(tmp_path, base_bert, multi_label):
    rows, planted = feelings_rows(96, multi_label=multi_label), {}  # {id: right label}
    for number in (10, 31, 53):
        planted[f"train-{number + 2}"] = rows[number][1]
        rows[number] = [rows[number][0], FEELINGS[(FEELINGS.index(rows[number][1]) + 1) % 3]]
    write_csv(tmp_path / "train.csv", ["text", "label"], rows)
    options = {"label_separator": "|"} if multi_label else {}
    found = hf_emotion.check_labels(base_bert, "files", tmp_path, output=tmp_path / "out", options=options)
    assert found["rows"] == 96 and found["encoder"] == str(base_bert)
    assert 0 < found["flagged"] < 12 and found["found"][0]["id"] in planted
    assert all(planted[row["id"]] in row["suggested"] for row in found["found"] if row["id"] in planted)
    with (tmp_path / "out" / "label_errors.csv").open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 96 and {row["id"] for row in rows[:3]} == set(planted), rows[:6]
    assert [row["flagged"] for row in rows] == ["1"] * found["flagged"] + ["0"] * (96 - found["flagged"])


def test_equal_texts_share_a_fold_and_every_fold_has_every_label():
    texts = ["A  day", "a day", *(f"text {number}" for number in range(38))]
    gold = np.array([number % 2 for number in range(40)])
    parts = fold_numbers(texts, Gold(np.asarray(gold)), ["x", "y"], 4)
    assert parts[0] == parts[1]
    assert all(set(gold[parts == part]) == {0, 1} for part in range(4))
    several = np.stack([gold, 1 - gold, np.arange(40) >= 36], axis=1)  # the rarest label decides
    parts = fold_numbers(texts, Gold(np.asarray(several)), ["x", "y", "z"], 4)
    assert sorted(parts[36:]) == [0, 1, 2, 3]


def test_a_row_is_judged_without_its_own_label():
    generator = np.random.default_rng(0)
    features, gold = generator.normal(size=(40, 5)), np.arange(40) % 2
    parts = np.arange(40) % 4
    before = out_of_fold([features], Gold(gold), parts)
    gold[0] = 1
    after = out_of_fold([features], Gold(gold), parts)
    assert np.array_equal(before[0], after[0]) and not np.array_equal(before[1], after[1])


def test_a_model_does_not_judge_what_it_was_trained_on(tiny_run, base_bert, tmp_path):
    """Nor what its base model was trained on."""
    report = RunReport.read(find_ready("goemotions").folder)
    replace(report, dataset="emotion6", dataset_options={}, base_model="goemotions").write(tmp_path)
    for model, corpora, judge in (
        (tiny_run, ["quickstart"], base_bert),
        (tiny_run, ["files"], tiny_run),
        ("goemotions", ["goemotions", "everyday", "quickstart"], "minilm"),  # its recipe adds the two packaged corpora
        ("goemotions", ["emotion6"], "goemotions"),
        (tmp_path, ["goemotions"], "minilm"),
        (tmp_path, ["emotion6"], "goemotions"),
        (tmp_path, ["meld"], tmp_path),
    ):
        assert {honest_encoder(str(model), corpus) for corpus in corpora} == {str(judge)}


def test_turns_of_dialogues(tmp_path, base_bert):
    write_dialogues(tmp_path)
    found = check_labels(base_bert, "dialogue_files", tmp_path, folds=2)
    dialogues = hf_emotion.load_dataset_for("dialogue_files", tmp_path)["train"]["labels"]
    assert found["rows"] == sum(label >= 0 for labels in dialogues for label in labels) > 0


def test_command(tmp_path, base_bert, monkeypatch):
    write_csv(tmp_path / "data.csv", ["text", "label"], [["=cmd() <b>", "joy"], *feelings_rows(48, multi_label=False)])
    arguments = ("check-labels", base_bert, "--dataset", "files", "--data-dir", tmp_path / "data.csv", "--folds", "3")
    result = json.loads(invoke(*arguments, "-o", tmp_path / "first", "--json"))
    printed = invoke(*arguments, "-o", tmp_path / "second")
    assert f"{result['flagged']} of 49 rows" in printed
    if result["pairs"]:
        pair = result["pairs"][0]
        assert cells(printed)[1] == [pair["given"], pair["suggested"], str(pair["rows"])]
    table, page = ((tmp_path / "first" / f"label_errors.{ending}").read_text("utf-8") for ending in ("csv", "html"))
    assert "\n'=cmd" not in table and "'=cmd() <b>" in table and "<b>" not in page


def test_nothing_half_written(tmp_path, base_bert, single_label, monkeypatch):
    monkeypatch.setattr(label_errors, "render", mock.Mock(side_effect=OSError("no space")))
    with pytest.raises(OSError, match="no space"):
        check_labels(base_bert, "files", single_label, output=tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_bad_input(tmp_path, base_bert, corpora, single_label, monkeypatch):
    rows = [*feelings_rows(30, multi_label=False), ["a", "rare"], ["A", "rare"], ["b", "rare"]]
    rare = write_csv(tmp_path / "rare.csv", ["text", "label"], rows)
    one = write_csv(tmp_path / "one.csv", ["text", "label"], [[f"text {n}", "joy"] for n in range(9)])
    (tmp_path / "exported").mkdir()
    (tmp_path / "exported" / "model.onnx").touch()
    (tmp_path / "exported" / "config.json").write_text("{}", encoding="utf-8")
    for message, model, corpus, folder in (
        ("'rare' has too few different texts, 2, for 5 folds", base_bert, "files", rare),
        ("no labels of whole texts to check, at least two", base_bert, "files", one),
        ("no labels of whole texts", base_bert, "sentihood", corpora),
        ("exported", tmp_path / "exported", "files", single_label),
    ):
        with pytest.raises(ValueError, match=message):
            check_labels(model, corpus, folder)
    with pytest.raises(FileExistsError, match="exists"):
        check_labels(base_bert, "files", single_label, output=tmp_path)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match=r"hf-emotion\[cleanlab\]"):
        check_labels(base_bert, "files", single_label)
