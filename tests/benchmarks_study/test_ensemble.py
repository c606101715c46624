# SPDX-License-Identifier: Apache-2.0
"""`python -m benchmarks.study ensemble`: the mean of several runs' probabilities."""

import json

import numpy as np
import pyarrow.parquet
import pytest
from sklearn.metrics import f1_score

from benchmarks.study import ensemble
from hf_emotion import metrics


pytest_plugins = ["toolkit_fixtures"]


def stored(run, split):
    table = pyarrow.parquet.read_table(run / "predictions.parquet")
    names = json.loads(table.schema.metadata[b"label_names"])
    rows = [row for row in table.to_pylist() if row["split"] == split]
    gold = np.array([[name in row["labels"] for name in names] for row in rows])
    return gold, np.array([row["probabilities"] for row in rows])


def raw(run, probabilities):
    """Without the temperature of the run."""
    (entry,) = json.loads((run / "metrics.json").read_text())["runs"]
    odds = (probabilities / (1 - probabilities)) ** entry["temperature"]
    return odds / (1 + odds)


def test_mean_probabilities_are_measured(tiny_run, stock_run):
    result = ensemble.ensemble([tiny_run, stock_run])
    threshold = json.loads((tiny_run / "metrics.json").read_text())["threshold"]
    for split in ("validation", "test"):
        gold, first = stored(tiny_run, split)
        _, second = stored(stock_run, split)
        mean = (raw(tiny_run, first) + raw(stock_run, second)) / 2
        expected = f1_score(gold, mean > threshold, average="micro", zero_division=0)
        assert result[split]["fixed"]["micro_f1"] == pytest.approx(expected)
    means = {split: (stored(tiny_run, split)[1] + stored(stock_run, split)[1]) / 2 for split in ("validation", "test")}
    thresholds = metrics.tune_thresholds(stored(tiny_run, "validation")[0], means["validation"])
    for split, mean in means.items():
        expected = f1_score(stored(tiny_run, split)[0], mean > thresholds, average="micro", zero_division=0)
        assert result[split]["tuned"]["micro_f1"] == pytest.approx(expected)


def test_command(tiny_run, stock_run, study):
    lines = [json.loads(line) for line in study("ensemble", tiny_run, stock_run).out.splitlines()]
    assert [(line["split"], line["thresholds"]) for line in lines] == [
        (split, kind) for split in ("validation", "test") for kind in ("fixed", "tuned")
    ]
    assert lines[2]["macro_f1"] == ensemble.ensemble([tiny_run, stock_run])["test"]["fixed"]["macro_f1"]


def test_errors(tiny_run, single_run, tmp_path):
    with pytest.raises(ValueError, match="two run folders or more, got 1"):
        ensemble.ensemble([tiny_run])
    with pytest.raises(ValueError, match="other rows or labels in validation"):
        ensemble.ensemble([tiny_run, single_run])
    with pytest.raises(FileNotFoundError, match="is not a finished run folder"):
        ensemble.ensemble([tiny_run, tmp_path])
