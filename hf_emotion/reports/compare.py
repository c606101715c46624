# SPDX-License-Identifier: Apache-2.0
"""Runs side by side, with tests of significance."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..metrics import macro_f1, mcnemar, paired_bootstrap
from ..metrics.significance import mean_std
from .card import CORPUS_SHOWN, best_run
from .finished_runs import (
    Predictions,
    is_multi_label_run,
    read_predictions,
    read_report,
)


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
    reports = [read_report(Path(run)) for run in runs]
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
    names = run_names(runs, reports)
    for name, report in zip(names, reports, strict=True):
        cells = [mean_std(report["summary"][split].get(kind, {}).get(metric)) for kind, metric in columns]
        table.append([name, report["base_model"], str(len(report["runs"])), *cells])
    tests = []
    first, decisions = _predictions(Path(runs[0]), reports[0], split)
    for run, name, report in zip(runs[1:], names[1:], reports[1:], strict=True):
        second, others = _predictions(Path(run), report, split)
        check_same_rows(runs[0], first, run, second)
        for decision in decisions:
            predictions = decisions[decision], others[decision]
            rows = mcnemar(first.gold, *predictions)
            tests.append(
                {"first": names[0], "second": name, "decision": decision}
                | paired_bootstrap(macro_f1, first.gold, *predictions)
                | {
                    "only_first": rows["only_first"],
                    "only_second": rows["only_second"],
                    "mcnemar_p_value": rows["p_value"],
                }
            )
    return {"metrics": [f"{metric} ({kind})" for kind, metric in columns], "table": table, "tests": tests}


def run_names(runs: Sequence[str | Path], reports: Sequence[dict[str, Any]]) -> list[str]:
    """The recipes' names; of runs of one recipe the names of their folders, or where these are equal too the whole paths."""
    recipes = [report["name"] for report in reports]
    folders = [Path(run).resolve().name for run in runs]
    names = []
    for run, recipe, folder in zip(runs, recipes, folders, strict=True):
        alike = [other for name, other in zip(recipes, folders, strict=True) if name == recipe]
        names.append(recipe if len(alike) == 1 else folder if alike.count(folder) == 1 else str(run))
    return names


def check_same_rows(first_run: str | Path, first: Predictions, second_run: str | Path, second: Predictions) -> None:
    """ValueError unless two runs were measured on the same rows with the same gold labels."""
    if any(getattr(first, part) != getattr(second, part) for part in ("ids", "names", "gold_names")):
        raise ValueError(
            f"{first_run} and {second_run} were not measured on the same rows and labels: no paired test is possible."
        )


def _predictions(run: Path, report: dict[str, Any], split: str) -> tuple[Predictions, dict[str, np.ndarray]]:
    """The predictions, and the decisions that they give: (N, C) of 0 and 1 for multi-label data, (N,) class ids for other."""
    found = read_predictions(run, split, is_multi_label_run(report))
    if not found.multi_label:
        return found, {"argmax": found.probabilities.argmax(axis=1)}
    thresholds = best_run(report["runs"])["thresholds"]
    tuned = np.array([thresholds[name] for name in found.names])
    return found, {
        "fixed": (found.probabilities > report["threshold"]).astype(np.int8),
        "tuned": (found.probabilities > tuned).astype(np.int8),
    }
