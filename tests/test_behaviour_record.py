# SPDX-License-Identifier: Apache-2.0
"""The record of behaviour, in its smallest form: it holds what commands print and write."""

import json
import tempfile

import pytest
from behaviour_record import main


pytest_plugins = ["toolkit_fixtures"]


def test_it_holds_what_the_commands_do(own_verbosity, monkeypatch, tmp_path):
    monkeypatch.delenv("HF_EMOTION_DATA", raising=False)
    main(["record", str(tmp_path / "record.json"), "--only", "help", "--only", "stock-pair"])
    values = json.loads((tmp_path / "record.json").read_text(encoding="utf-8"))

    def of(*words: str) -> dict:
        [found] = [value for command, value in values.items() if all(word in command for word in words)]
        return found

    assert {"--help", "predict --help", "reproduce --help"} < set(values)
    assert "--top-k" in str(of("predict --help"))
    # What a command prints as JSON, as text, as an error, and writes.
    [first, *_] = of("predict", "the home is so happy", "--json")["stdout"]
    assert sum(first["sentiments"][0]["scores"].values()) == pytest.approx(1)
    assert of("evaluate runs", "--json")["stdout"]["rows"] == 16
    assert of("--top-k 0")["exit"] == 2 and "--top-k" in of("--top-k 0")["stderr"][-1]
    [(path, rows)] = of("predict runs", "--output")["files"].items()
    assert path == "out/stock-pair.jsonl" and len(rows) == 16
    trained = values["train recipes/stock-pair.yaml -o runs/stock-pair --data-dir data/places"]
    files = {path.removeprefix("runs/stock-pair/"): content for path, content in trained["files"].items()}
    assert files["pipeline_targeted_sentiment.py"] is None and "classifier.weight" in files["model.safetensors"]
    assert len(files["predictions.parquet"]["rows"]) == 28
    # Nothing of the machine and of the hour.
    assert files["metrics.json"]["runs"][0]["train_minutes"] == "TIME"
    assert tempfile.gettempdir() not in json.dumps(values)
