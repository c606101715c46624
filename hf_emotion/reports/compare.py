# SPDX-License-Identifier: Apache-2.0
"""Compares runs side by side, with tests of significance."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

import numpy as np

from ..gold import one_hot
from ..metrics import bootstrap_over_seeds, mcnemar, scaled_threshold
from ..metrics.significance import mean_std
from ..run_report import RunReport, decision_title
from ..tasks import task_of_run
from ..tasks.classifier_cards import CORPUS_SHOWN
from .finished_runs import Predictions, choose_split, read_predictions, seed_folders


COMPARED = (*CORPUS_SHOWN, "macro_f1", "weighted_f1", "micro_f1", "micro_f1_without_neutral")
SAMPLES = 10_000  # samples of the bootstrap


class Test(TypedDict):
    """
    A run against the baseline under one decision, whose `title` stands in tables; McNemar's figures are None for more seeds than one.
    """

    decision: str
    title: str
    first: str
    second: str
    first_seeds: list[int]
    second_seeds: list[int]
    paired_seeds: bool
    metric: str
    split: str
    rows: int
    samples: int
    tested: str
    difference: float
    low: float
    high: float
    p_value: float
    only_first: int | None
    only_second: int | None
    mcnemar_p_value: float | None


class Comparison(TypedDict):
    """`metrics`: names of the columns of `table`; `notes`: what a reader must know."""

    split: str
    metrics: list[str]
    table: list[list[str]]
    tests: list[Test]
    notes: list[str]


def compare(runs: Sequence[str | Path], split: str | None = None, all_figures: bool = True) -> Comparison:
    """
    Compare run folders of one corpus; the first is the baseline of the tests.

    A test is about the means over the seeds that the table shows: `bootstrap_over_seeds` of macro-F1 over all labels, with
    paired seeds if both runs have the same ones. For two runs with one seed each it is the paired bootstrap over rows, and
    McNemar's test is added; it needs one decision of each run for a row.

    Args:
        runs: run folders.
        split: "validation" or "test"; default: the test part, or the validation part if a run has no test part.
        all_figures: whether the table has all figures, or only those that matter most.

    Raises:
        FileNotFoundError: a folder without metrics.json or predictions.parquet.
        ValueError: the runs have different rows or labels, or generate text; no such split.
    """
    reports = [RunReport.read(Path(run)) for run in runs]
    for run, report in zip(runs, reports, strict=True):
        if not task_of_run(report).selects_labels:
            raise ValueError(f"{run} generates text: `hf-emotion evaluate {run}` measures it.")
    notes = []
    lacking = [str(run) for run, report in zip(runs, reports, strict=True) if "test" not in report.summary]
    if split is None and lacking:
        notes.append(f"no test part in {', '.join(lacking)}: all figures are from the validation part")
    split = choose_split(runs, reports, split)
    columns = list(
        dict.fromkeys(
            (kind, metric)
            for report in reports
            for kind in report.summary[split]
            for metric in (COMPARED if all_figures else _headline(report, split, kind))
            if metric in report.summary[split][kind]
        )
    )
    table = []
    names = run_names(runs, reports)
    for name, report in zip(names, reports, strict=True):
        cells = [mean_std(report.summary[split].get(kind, {}).get(metric)) for kind, metric in columns]
        table.append([name, report.base_model or "-", str(len(report.runs)), *cells])
    folders, more = seeds_to_test(runs, reports, split)
    notes += more
    tests = []
    seeds = zip(names, reports, folders, strict=True)
    first, *others = (_decisions(name, report, split, own) for name, report, own in seeds)
    for run, second in zip(runs[1:], others, strict=True):
        check_same_rows(runs[0], first.found, run, second.found)
        tests += _tests(first, second, split)
    limits = [report.threshold for report in reports]
    metrics = [f"{metric} ({decision_title(kind, *limits)})" for kind, metric in columns]
    return {"split": split, "metrics": metrics, "table": table, "tests": tests, "notes": notes}


def seeds_to_test(
    runs: Sequence[str | Path], reports: Sequence[RunReport], split: str
) -> tuple[list[dict[int, Path]], list[str]]:
    """For each run the seeds to test, with the folders of their predictions; and notes. ValueError: no seed in common, with `shots`."""
    folders, notes = [], []
    for run, report in zip(runs, reports, strict=True):
        own, missing = seed_folders(Path(run), report)
        folders.append(dict(zip((entry.seed for entry in report.runs), own, strict=True)))
        if missing:
            notes.append(f"{run} lacks predictions.parquet of {', '.join(missing)}: only the best seeds are tested")
    if notes:
        best = [report.best.seed for report in reports]
        return [{seed: Path(run)} for run, seed in zip(runs, best, strict=True)], notes
    drawn = split == "validation" and any(report.shots for report in reports)
    if drawn:
        common = [seed for seed in folders[0] if all(seed in own for own in folders)]
        if not common:
            raise ValueError(
                f"{', '.join(map(str, runs))}: with `shots` each seed has validation rows of its own, so runs are compared seed by seed: train "
                "with the same `seeds`, or measure a test part."
            )
        more_seeds = any(len(own) > 1 for own in folders)
        folders = [{common[0]: own[common[0]]} for own in folders]
        if more_seeds and len(runs) > 1:
            notes.append(f"with `shots` each seed has validation rows of its own: only seed {common[0]} is tested")
    return folders, notes


def _headline(report: RunReport, split: str, kind: str) -> list[str]:
    """The names of the figures that matter most for one kind of decision; four over all kinds."""
    kinds = report.summary[split]
    return task_of_run(report).main_figures(kinds[kind], report.runs[0].selected_by)[: 4 // len(kinds)]


def run_names(runs: Sequence[str | Path], reports: Sequence[RunReport]) -> list[str]:
    """The recipes' names; for runs of one recipe the names of their folders, or their whole paths if these are equal too."""
    recipes = [report.name for report in reports]
    folders = [Path(run).resolve().name for run in runs]
    names = []
    for run, recipe, folder in zip(runs, recipes, folders, strict=True):
        alike = [other for name, other in zip(recipes, folders, strict=True) if name == recipe]
        names.append(recipe if len(alike) == 1 else folder if alike.count(folder) == 1 else str(run))
    return names


def check_same_rows(first_run: str | Path, first: Predictions, second_run: str | Path, second: Predictions) -> None:
    """ValueError unless two runs were measured on the same rows with the same gold labels."""
    parts = [(own.ids, own.names, own.gold_names, own.gold.single_label) for own in (first, second)]
    if parts[0] != parts[1]:
        raise ValueError(
            f"{first_run} and {second_run} were not measured on the same rows and labels: no paired test is possible."
        )


@dataclass(frozen=True)
class _Decisions:
    """The decisions of a run with S seeds."""

    run: str
    threshold: float  # the fixed one
    seeds: list[int]
    found: Predictions  # of one seed
    gold: np.ndarray  # (N, C) bool. Class ids would leave out labels that do not occur, which the table counts.
    kinds: dict[str, np.ndarray]  # "fixed" and "tuned" for multi-label data, "argmax" for other data -> (S, N, C) bool


def _decisions(name: str, report: RunReport, split: str, folders: dict[int, Path]) -> _Decisions:
    multi_label = report.multi_label
    entries = [entry for entry in report.runs if entry.seed in folders]
    each = [read_predictions(folders[entry.seed], split, multi_label) for entry in entries]
    for folder, found in zip(folders.values(), each, strict=True):
        check_same_rows(next(iter(folders.values())), each[0], folder, found)
    probabilities = np.stack([found.probabilities for found in each])
    if multi_label:
        tuned = np.array([[(entry.thresholds or {})[label] for label in each[0].names] for entry in entries])
        # The fixed threshold is one of uncalibrated probabilities.
        temperatures = [entry.temperature or 1.0 for entry in entries]
        fixed = np.array([scaled_threshold(report.threshold, temperature) for temperature in temperatures])
        kinds = {"fixed": probabilities > fixed[:, None, None], "tuned": probabilities > tuned[:, None]}
    else:
        kinds = {"argmax": one_hot(probabilities.argmax(axis=2), probabilities.shape[2])}
    gold = each[0].gold.has(len(each[0].names))
    return _Decisions(name, report.threshold, [entry.seed for entry in entries], each[0], gold, kinds)


def _tests(first: _Decisions, second: _Decisions, split: str) -> list[Test]:
    gold = first.gold
    paired = sorted(first.seeds) == sorted(second.seeds)
    order = [second.seeds.index(seed) for seed in first.seeds] if paired else range(len(second.seeds))
    seeds = first.seeds, [second.seeds[i] for i in order]
    single = len(seeds[0]) == len(seeds[1]) == 1
    tested = _in_words((first.run, second.run), seeds, paired, f"{len(gold)} rows of the {split} part")
    tests = []
    for kind in first.kinds:
        one, other = first.kinds[kind], second.kinds[kind][list(order)]
        rows = mcnemar(gold, one[0], other[0]) if single else dict.fromkeys(("only_first", "only_second", "p_value"))
        test = Test(
            decision=kind,
            title=decision_title(kind, first.threshold, second.threshold),
            first=first.run,
            second=second.run,
            first_seeds=seeds[0],
            second_seeds=seeds[1],
            paired_seeds=paired,
            metric="macro_f1",
            split=split,
            rows=len(gold),
            samples=SAMPLES,
            tested=tested,
            **bootstrap_over_seeds(gold, one, other, paired, SAMPLES),  # type: ignore[typeddict-item]  # the four between
            only_first=rows["only_first"],
            only_second=rows["only_second"],
            mcnemar_p_value=rows["p_value"],
        )
        tests.append(test)
    return tests


def _in_words(names: tuple[str, str], seeds: tuple[list[int], list[int]], paired: bool, rows: str) -> str:
    if len(seeds[0]) == len(seeds[1]) == 1:
        return (
            f"macro-F1 of one seed each ({seeds[0][0]} and {seeds[1][0]}) on {rows}; paired bootstrap of the rows, {SAMPLES} samples; "
            "the spread over seeds is not known"
        )
    counts = [f"{len(own)} seed{'s' if len(own) > 1 else ''} ({', '.join(map(str, own))})" for own in seeds]
    what = f"{counts[0]} of each run, paired" if paired else f"{counts[0]} and {counts[1]}, not paired"
    text = (
        f"mean macro-F1 over {what}, on {rows}; bootstrap of seeds and rows, {SAMPLES} samples; no McNemar test, which is for one "
        "seed each"
    )
    if any(len(own) == 2 for own in seeds):
        text += "; two seeds hardly show a spread"
    unknown = [name for name, own in zip(names, seeds, strict=True) if len(own) == 1]
    return text + "".join(f"; the spread over seeds of {name} is not known" for name in unknown)
