# SPDX-License-Identifier: Apache-2.0
"""Runs side by side, with tests of significance."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet

from ..data import multi_hot
from ..metrics import macro_f1, mcnemar, paired_bootstrap
from ..metrics.significance import mean_std
from ..training.card import CORPUS_SHOWN


COMPARED = (*CORPUS_SHOWN, "macro_f1", "weighted_f1", "micro_f1", "micro_f1_without_neutral")


def compare(runs: Sequence[str | Path], split: str = "test") -> dict[str, Any]:
    """
    Compare run folders of one corpus; the first is the baseline of the tests.

    The tests use the predictions of the seed that was best on dev, row by row.

    Args:
        runs: run folders.
        split: "validation" or "test".

    Returns:
        {"metrics": column names, "table": rows of strings, "tests": one dict per run but the first and per decision}.

    Raises:
        FileNotFoundError: a folder without metrics.json or predictions.parquet.
        ValueError: runs over other rows or labels; no such split.
    """
    reports = [_read(Path(run)) for run in runs]
    for run, report in zip(runs, reports, strict=True):
        if split not in report["summary"]:
            raise ValueError(f"{run} has no figures for the split {split!r}: it has {list(report['summary'])}.")
    columns = list(
        dict.fromkeys(
            (kind, metric)
            for report in reports
            for kind in report["summary"][split]
            for metric in COMPARED
            if metric in report["summary"][split][kind]
        )
    )
    table = []
    for report in reports:
        cells = [mean_std(report["summary"][split].get(kind, {}).get(metric)) for kind, metric in columns]
        table.append([report["name"], report["base_model"], str(len(report["runs"])), *cells])
    tests = []
    first = _predictions(Path(runs[0]), reports[0], split)
    for run, report in zip(runs[1:], reports[1:], strict=True):
        second = _predictions(Path(run), report, split)
        if any(first[part] != second[part] for part in ("ids", "labels", "gold_names")):
            raise ValueError(
                f"{runs[0]} and {run} were not measured on the same rows and labels: no paired test is possible."
            )
        for decision in first["decisions"]:
            predictions = first["decisions"][decision], second["decisions"][decision]
            rows = mcnemar(first["gold"], *predictions)
            tests.append(
                {"first": reports[0]["name"], "second": report["name"], "decision": decision}
                | paired_bootstrap(macro_f1, first["gold"], *predictions)
                | {
                    "only_first": rows["only_first"],
                    "only_second": rows["only_second"],
                    "mcnemar_p_value": rows["p_value"],
                }
            )
    return {"metrics": [f"{metric} ({kind})" for kind, metric in columns], "table": table, "tests": tests}


def _read(run: Path) -> dict[str, Any]:
    path = run / "metrics.json"
    if not path.is_file():
        raise FileNotFoundError(f"{run} is no finished run folder: it has no metrics.json.")
    return json.loads(path.read_text(encoding="utf-8"))


def _predictions(run: Path, report: dict[str, Any], split: str) -> dict[str, Any]:
    path = run / "predictions.parquet"
    if not path.is_file():
        raise FileNotFoundError(f"{run} has no predictions.parquet.")
    table = pyarrow.parquet.read_table(path, filters=[("split", "=", split)])
    names = json.loads(table.schema.metadata[b"label_names"])
    probabilities = np.array(table["probabilities"].to_pylist(), dtype=np.float64)
    gold_names = table["labels"].to_pylist()
    best = max(report["runs"], key=lambda entry: entry["best_dev_metric"] or 0)
    if "thresholds" in best:
        gold = multi_hot([[names.index(name) for name in row] for row in gold_names], len(names))
        tuned = np.array([best["thresholds"][name] for name in names])
        decisions = {
            "fixed": (probabilities > report["threshold"]).astype(np.int8),
            "tuned": (probabilities > tuned).astype(np.int8),
        }
    else:
        gold = np.array([names.index(row[0]) for row in gold_names])
        decisions = {"argmax": probabilities.argmax(axis=1)}
    return {
        "ids": table["id"].to_pylist(),
        "labels": names,
        "gold_names": gold_names,
        "gold": gold,
        "decisions": decisions,
    }
