# SPDX-License-Identifier: Apache-2.0
"""The record of behaviour, in its smallest form: it holds what commands print and write, and its comparison finds what changed."""

import copy
import json
import tempfile

import pytest
from behaviour_record import diff, record


pytest_plugins = ["toolkit_fixtures"]


@pytest.fixture
def values(own_verbosity, monkeypatch) -> dict:
    monkeypatch.delenv("HF_EMOTION_DATA", raising=False)
    return record(["help", "stock-pair"])


def test_it_holds_what_the_commands_do_and_finds_what_changed(values, capsys):
    assert {"help", "help/predict", "help/reproduce"} < set(values)
    assert any("--top-k" in line for line in values["help/predict"]["stdout"])
    assert values["stock-pair/train"]["exit"] == 0
    # What a command prints as JSON, as text, as an error, and writes.
    [first, *_] = values["stock-pair/./ask 0"]["stdout"]
    assert sum(first["sentiments"][0]["scores"].values()) == pytest.approx(1)
    assert values["stock-pair/evaluate json"]["stdout"]["rows"] == 16
    wrong = values["stock-pair/predict top 0"]
    assert wrong["exit"] == 2 and "--top-k" in wrong["stderr"][-1]
    assert len(values["stock-pair/predict file"]["written"]) == 16
    assert "pipeline_targeted_sentiment.py" in values["stock-pair/run/files"]
    assert "classifier.weight" in values["stock-pair/run/model.safetensors"]
    assert len(values["stock-pair/run/predictions.parquet"]["rows"]) == 28
    # Nothing of the machine and of the hour.
    assert values["stock-pair/run/metrics.json"]["runs"][0]["train_minutes"] == "TIME"
    assert tempfile.gettempdir() not in json.dumps(values)

    assert diff(values, copy.deepcopy(values), {}) == 0
    assert f"{len(values)} equal, 0 different" in capsys.readouterr().out
    changed = copy.deepcopy(values)
    changed["stock-pair/./ask 0"]["stdout"][0]["sentiments"][0]["score"] += 1e-7
    changed["stock-pair/run/files"].remove("recipe.yaml")
    del changed["stock-pair/run/recipe.yaml"]
    changed["help/predict"]["stdout"][0] = "Usage: other"
    assert diff(values, changed, {}) == 4
    printed = capsys.readouterr().out
    place = "stock-pair/./ask 0/stdout/0/sentiments/0/score: 0."
    assert all(part in printed for part in (place, "-recipe.yaml", "+Usage: other", "recipe.yaml: gone"))
    reasons = {"help/*": "shorter help", "*/recipe.yaml": "renamed", "stock-pair/run/files": "renamed"}
    assert diff(values, changed, reasons) == 1
    printed = capsys.readouterr().out
    assert "expected, renamed: 2 places" in printed and "Usage: other" not in printed
