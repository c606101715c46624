# SPDX-License-Identifier: Apache-2.0
"""
Analyses what a finished run gets wrong and how sure it is, from its stored predictions, without a training. For two runs it finds
the rows that only one gets right.
"""

import os
import re
from collections import Counter
from pathlib import Path
from typing import Any, Literal, NotRequired, TypedDict

import numpy as np

from .. import metrics
from ..io.files import filling, write_json, write_text
from ..metrics.numbers import mean
from ..metrics.significance import Spread, over_seeds
from ..run_report import RunReport
from ..tasks import corpus_of, task_of_run
from ..tasks.held_out import labelled_units
from ..tasks.loading import load_dataset_for
from ..tasks.rows import at_most, few_of, rows_for_task
from . import figures as draw
from .certainty import (
    Calibration,
    Correlation,
    Curves,
    calibrated,
    label_correlation,
    threshold_curves,
    validation_predictions,
)
from .classification import count_pairs
from .compare import Test, check_same_rows, compare, run_names, seeds_to_test
from .finished_runs import Predictions, ShownRow, choose_split, examples, read_predictions, seed_folders
from .selective import Selective, Wanted, keep_rule, selective, wanted_rules


FOLDER = "analysis"  # in the run folder; never published
CONFUSIONS = 20  # only the most frequent are kept
ERRORS = 5000  # rows in errors.html, the surest ones
SENTENCES = 100  # rows of the page for two runs, in each direction
BACKGROUND = ("neutral", "none")  # labels whose errors are reported separately


class Confusion(TypedDict):
    """How many rows with one gold label got another one; in an analysis also the spread over the seeds."""

    gold: str
    predicted: str
    rows: int
    mean: NotRequired[float | None]
    std: NotRequired[float | None]


class Background(TypedDict):
    """Errors from or to a label such as "neutral": how many rows of how many, and which other labels are involved."""

    rows: int
    of: int
    share: Spread
    labels: dict[str, int]


class Analysis(TypedDict, total=False):
    """The content of `analysis.json`."""

    name: str
    dataset: str
    split: str
    best_seed: int
    rows: dict[str, int]
    errors: dict[str, int]
    top1_accuracy: Spread
    top3_accuracy: Spread
    confusions: list[Confusion]
    background: dict[str, dict[str, Background]]
    aspects: dict[str, Any] | None
    calibration: Calibration | None
    selective: Selective
    threshold_curves: Curves | None
    label_correlation: Correlation | None
    context_guidance: dict[str, Any] | None
    left_out: dict[str, str]
    kept: dict[str, dict[str, float]]


class Only(TypedDict):
    """The rows that only one of two runs gets right; `pairs` counts gold label and what the other run predicted."""

    rows: int
    several_labels: int
    pairs: list[Confusion]
    sentences: list[ShownRow]


class Pair(TypedDict):
    """Two runs over the same rows."""

    first: str
    second: str
    dataset: str
    split: str
    seeds: list[int]
    rows: int
    only_second: Only
    only_first: Only
    mcnemar: dict[str, float]
    tests: list[Test]
    background: list[dict[str, dict[str, Background]]]
    left_out: dict[str, str]
    page: str


def analyze(
    run: str | Path,
    split: str | None = None,
    data_dir: str | Path | None = None,
    abstain: Wanted = None,
    prediction_sets: float | Literal["off"] | None = None,
) -> Analysis:
    """
    Analyse the predictions of a run, write its `report.html` and, in the folder `analysis`, `analysis.json`, `errors.html` and the
    figures as SVG, and keep the temperature in the checkpoint's `config.json`.

    A row with one gold label is right if that is the most probable label, a row with several if all are among the three most
    probable. Confusions, and errors from and to "neutral" and "none", are counted over rows with one label.

    Args:
        run: the run folder.
        split: default: the test part, or the validation part if there is none.
        data_dir: the corpora, see `load_dataset_for`; default: HF_EMOTION_DATA. Without the corpus its texts, gates and attentions are
            left out.
        abstain, prediction_sets: as in a recipe: also keep this rule in the checkpoint's `config.json`, and tell of it in its card; "off"
            removes it. Only for emotions of texts.

    Returns:
        The content of `analysis.json`; `left_out` says what is missing, and why.

    Raises:
        FileNotFoundError: no finished run folder, or one without predictions.
        ValueError: no such split; the corpus is not the one of the run; a rule that is out of range or for another task.
    """
    from .html_report import write_errors, write_report

    run = Path(run)
    report = RunReport.read(run)
    task = task_of_run(report)
    left_out: dict[str, str] = {}
    wanted_rules(abstain, prediction_sets)
    if (abstain or prediction_sets) and "abstain" not in task.recipe_fields:
        raise ValueError(f"a rule to abstain is for emotions of texts, not for {task.name}: leave it out.")
    if not task.selects_labels:
        left_out["analysis"] = f"{run} has no predictions of labels: `hf-emotion evaluate {run}` measures a generator."
        write_report(run, report)
        return {"name": report.name, "left_out": left_out}
    split = choose_split([run], [report], split)
    multi_label = report.multi_label
    found = read_predictions(run, split, multi_label)
    folders = _seed_folders(run, report, left_out)
    per_seed = [found] if folders == [run] else [read_predictions(folder, split, multi_label) for folder in folders]
    dev = [
        validation_predictions(folder, split, rows, "abstention and prediction sets", left_out)
        for folder, rows in zip(folders, per_seed, strict=True)
    ]
    keeps = abstain is not None or prediction_sets is not None
    rules = keep_rule(run, report, split, found, abstain, prediction_sets) if keeps else {}
    right, predicted = metrics.paper_errors(found.gold.values, found.probabilities)
    texts, why = _texts(run, report, split, found, data_dir, report.best.seed)
    if texts is None:
        left_out["texts of the errors"] = why
    result: Analysis = {
        "name": report.name,
        "dataset": report.dataset,
        "split": split,
        "best_seed": report.best.seed,
        **_counted(per_seed, found, right),
        "confusions": _frequent_confusions(per_seed, found),
        "background": _background(per_seed, found),
        "aspects": task.aspect_errors(report, found.ids, found.names, found.gold.values, predicted),
        "calibration": calibrated(report, split, per_seed),
        "selective": selective(report, per_seed, dev),
        "threshold_curves": threshold_curves(run, report, split, found, left_out),
        "label_correlation": label_correlation(found, left_out),
        "context_guidance": _context_guidance(run, report, split, data_dir, left_out),
        "left_out": left_out,
    }
    if keeps:
        result["kept"] = rules
    groups = _error_groups(found, right, predicted, texts)
    figures = _figures(result, report, found)
    with filling(run / FOLDER) as temporary:
        for name, svg in figures.items():
            write_text(temporary / f"{name}.svg", svg)
        write_errors(temporary / "errors.html", result, groups, ERRORS)
        write_json(temporary / "analysis.json", result)
    for path in (run / FOLDER).glob("*.svg"):  # written by an earlier analysis, and not by this one
        if path.stem not in figures:
            path.unlink()
    shown = None if texts is None else examples(found, texts, report.best.thresholds)
    write_report(run, report, result, figures, groups, shown)
    return result


def analyze_pair(
    first: str | Path, second: str | Path, split: str | None = None, data_dir: str | Path | None = None
) -> Pair:
    """
    Find the rows that only one of two runs over the same rows gets right, and write them to `analysis/against_FIRST.html` in the
    folder of the second; FIRST is the recipe's name, and the folder's name if that differs.

    Args:
        first: the run folder of the baseline.
        second, split, data_dir: as in `analyze`.

    Raises:
        FileNotFoundError: no finished run folder, or one without predictions.
        ValueError: no such split; runs over other rows or labels.
    """
    from .html_report import render

    runs = [Path(first), Path(second)]
    reports = [RunReport.read(run) for run in runs]
    split = choose_split(runs, reports, split)
    tests = compare(runs, split)["tests"]  # it refuses generators
    chosen = [  # the only seed, or of several the best one, whose predictions lie in the run folder
        next(iter(own.items())) if len(own) == 1 else (report.best.seed, run)
        for run, report, own in zip(runs, reports, seeds_to_test(runs, reports, split)[0], strict=True)
    ]
    parts = zip(chosen, reports, strict=True)
    found = [read_predictions(folder, split, report.multi_label) for (_, folder), report in parts]
    check_same_rows(runs[0], found[0], runs[1], found[1])
    outcomes = [metrics.paper_errors(each.gold.values, each.probabilities) for each in found]
    texts, why = _texts(runs[1], reports[1], split, found[1], data_dir, chosen[1][0])
    labelled = _label_counts(found[0]) > 0
    one, other = (right[labelled] for right, _ in outcomes)
    names = run_names(runs, reports)
    folder = runs[0].resolve().name  # the same second run may be compared with several runs of one recipe
    name = names[0] if names[0] == folder else f"{names[0]}-{folder}"
    page = runs[1] / FOLDER / ("against_" + re.sub(r"[^\w.-]", "_", name) + ".html")
    result: Pair = {
        "first": names[0],
        "second": names[1],
        "dataset": reports[1].dataset,
        "split": split,
        "seeds": [seed for seed, _ in chosen],
        "rows": int(labelled.sum()),
        "only_second": _only(found[0], texts, *outcomes[0], outcomes[1][0]),
        "only_first": _only(found[1], texts, *outcomes[1], outcomes[0][0]),
        "mcnemar": metrics.mcnemar(np.ones(len(one), dtype=bool), one, other),
        "tests": tests,
        "background": [_background([each], each) for each in found],
        "left_out": {} if texts else {"texts": why},
        "page": str(page),
    }
    write_text(page, render("pair.html", title=f"{result['second']} against {result['first']}", result=result))
    return result


def _seed_folders(run: Path, report: RunReport, left_out: dict[str, str]) -> list[Path]:
    """The folder with the predictions of each seed, or only the run folder, which has those of the best seed."""
    folders, missing = seed_folders(run, report)
    if missing:
        left_out["spread over the seeds"] = (
            f"{run} lacks predictions.parquet of {', '.join(missing)}: figures from predictions are from the best seed only."
        )
        return [run]
    return folders


def _label_counts(found: Predictions) -> np.ndarray:
    return found.gold.has(len(found.names)).sum(axis=1)


def _one_label(found: Predictions) -> tuple[np.ndarray, np.ndarray]:
    """The gold label and the most probable label of the rows with one gold label."""
    _, predicted = metrics.paper_errors(found.gold.values, found.probabilities)
    one = _label_counts(found) == 1
    return found.gold.has(len(found.names))[one].argmax(axis=1), predicted[one]


def _counted(per_seed: list[Predictions], found: Predictions, right: np.ndarray) -> Analysis:
    counts = _label_counts(found)
    rights = [  # each seed may have rows of its own
        (_label_counts(each), metrics.paper_errors(each.gold.values, each.probabilities)[0]) for each in per_seed
    ]
    return {
        "rows": {
            "with one gold label": int((counts == 1).sum()),
            "with several gold labels": int((counts > 1).sum()),
            "without a gold label": int((counts == 0).sum()),
        },
        "errors": {
            "with one gold label": int((~right & (counts == 1)).sum()),
            "with several gold labels": int((~right & (counts > 1)).sum()),
        },
        "top1_accuracy": over_seeds([mean(hits[labels == 1]) for labels, hits in rights]),
        "top3_accuracy": over_seeds([mean(hits[labels > 1]) for labels, hits in rights]),
    }


def _frequent_confusions(per_seed: list[Predictions], found: Predictions) -> list[Confusion]:
    own = metrics.confusions(*_one_label(found))
    each = [metrics.confusions(*_one_label(seed)) for seed in per_seed]
    total: Counter[tuple[int, int]] = sum(each, Counter())
    result: list[Confusion] = []
    for pair, _ in sorted(total.items(), key=lambda item: (-item[1], item[0]))[:CONFUSIONS]:
        gold, predicted = (found.names[label] for label in pair)
        spread = over_seeds([seed[pair] for seed in each])
        result.append(
            {"gold": gold, "predicted": predicted, "rows": own[pair], "mean": spread["mean"], "std": spread["std"]}
        )
    return result


def _background(per_seed: list[Predictions], found: Predictions) -> dict[str, dict[str, Background]]:
    """Errors from and to the labels "neutral" and "none": their shares, and which other labels are involved."""
    result: dict[str, dict[str, Background]] = {}
    for label, name in enumerate(found.names):
        if name.casefold() not in BACKGROUND:
            continue
        gold, predicted = _one_label(found)
        pairs = metrics.confusions(gold, predicted)
        shares: dict[str, list[float]] = {"to_other": [], "from_other": []}
        for each in per_seed:
            own_gold, own = _one_label(each)
            shares["to_other"].append(mean(own[own_gold == label] != label))
            shares["from_other"].append(mean(own[own_gold != label] == label))
        result[name] = {
            kind: {
                "rows": sum(rows for pair, rows in pairs.items() if pair[side] == label),
                "of": int(((gold == label) == (kind == "to_other")).sum()),
                "share": over_seeds(shares[kind]),
                "labels": {
                    found.names[pair[1 - side]]: rows for pair, rows in pairs.most_common() if pair[side] == label
                },
            }
            for side, kind in enumerate(shares)
        }
    return result


def _context_guidance(
    run: Path, report: RunReport, split: str, data_dir: str | Path | None, left_out: dict[str, str]
) -> dict[str, Any] | None:
    measure = task_of_run(report).guidance(report)
    if measure is None:
        return None  # the model has no gates
    if (why := _no_corpus(report, data_dir)) is not None:
        left_out["gates and attentions"] = why
        return None
    return measure(run, split, data_dir)


def _no_corpus(report: RunReport, data_dir: str | Path | None) -> str | None:
    """Why the corpus of a run is not read; None if it is at hand. An analysis downloads nothing."""
    if corpus_of(report.dataset).packaged or data_dir is not None:
        return None
    if not corpus_of(report.dataset).own_files and os.environ.get("HF_EMOTION_DATA"):
        return None
    return f"they need the corpus, {report.dataset}: name its folder with --data-dir."


def _texts(
    run: Path, report: RunReport, split: str, found: Predictions, data_dir: str | Path | None, seed: int
) -> tuple[list[str] | None, str]:
    """The text of each row that a seed was measured on; None and the reason, if the texts are not there."""
    if (why := _no_corpus(report, data_dir)) is not None:
        return None, why
    splits = load_dataset_for(report.dataset, data_dir, **report.dataset_options)
    ids: list[str] = []
    texts: list[str] = []
    if split in splits:
        task = task_of_run(report)
        rows = rows_for_task(task, splits[split])
        if rows is not None:
            rows = at_most(task, rows, report.max_eval_rows)
            if split == "validation" and report.shots:
                rows = few_of(task, rows, report.shots, seed)
            ids, _, texts, _ = labelled_units(rows)
    if ids != found.ids:
        raise ValueError(
            f"the {split} rows of {report.dataset} are not those of {run}: name its corpus with --data-dir."
        )
    return texts, ""


def _error_groups(
    found: Predictions, right: np.ndarray, predicted: np.ndarray, texts: list[str] | None
) -> list[dict[str, Any]]:
    """The errors grouped by (gold, predicted), the surest first in each group. Rows with several labels are the last group."""
    groups: dict[tuple[str, str], list[ShownRow]] = {}
    for row in np.flatnonzero(~right & (_label_counts(found) > 0)).tolist():
        gold, scores = found.gold_names[row], found.probabilities[row]
        multi_label = len(gold) > 1
        shown = np.argsort(-scores, kind="stable")[:3] if multi_label else [predicted[row]]
        key = ("several labels", "") if multi_label else (gold[0], found.names[predicted[row]])
        groups.setdefault(key, []).append(
            {
                "id": found.ids[row],
                "text": None if texts is None else texts[row],
                "gold": [(name, float(scores[found.names.index(name)])) for name in gold],
                "predicted": [(found.names[i], float(scores[i])) for i in shown],
            }
        )
    for rows in groups.values():
        rows.sort(key=lambda entry: -entry["predicted"][0][1])
    order = sorted(groups, key=lambda key: (key[1] == "", -len(groups[key]), key))
    return [{"gold": gold, "predicted": label, "rows": groups[gold, label]} for gold, label in order]


def _only(
    wrong: Predictions, texts: list[str] | None, right: np.ndarray, predicted: np.ndarray, other_right: np.ndarray
) -> Only:
    """The rows that the run `wrong` gets wrong and the other gets right."""
    rows = ~right & other_right & (_label_counts(wrong) > 0)
    groups = _error_groups(wrong, ~rows, predicted, texts)
    sentences = [entry for group in groups for entry in group["rows"]]
    sentences.sort(key=lambda entry: -entry["predicted"][0][1])
    return {
        "rows": int(rows.sum()),
        "several_labels": int((rows & (_label_counts(wrong) > 1)).sum()),
        "pairs": [
            {"gold": group["gold"], "predicted": group["predicted"], "rows": len(group["rows"])}
            for group in groups
            if group["predicted"]
        ],
        "sentences": sentences[:SENTENCES],
    }


def _figures(result: Analysis, report: RunReport, found: Predictions) -> dict[str, str]:
    """File name -> SVG; empty without matplotlib."""
    if not draw.can_draw():
        return {}
    split, seed = result["split"], result["best_seed"]
    title = f"{report.name}, {split}, seed {seed}"
    matrix = count_pairs(*_one_label(found), len(found.names))
    made = {
        "confusion_matrix": draw.matrix_figure(f"{title}: rows with one gold label", matrix, found.names),
        "per_label_f1": draw.per_label_figure(report, split),
    }
    if calibration := result["calibration"]:
        states = {
            "without a temperature": calibration["before"],
            f"temperature {calibration['temperature']:.2f}": calibration["after"],
        }
        made["reliability"] = draw.reliability_figure(f"{title}: reliability", states, calibration["unit"])
    made["risk_coverage"] = draw.risk_figure(f"{title}: risk over coverage", result["selective"])
    if curves := result["threshold_curves"]:
        dev = f"{report.name}, validation part, seed {seed}"
        made["thresholds"] = draw.threshold_figure(f"{dev}: macro averages over thresholds", curves)
        made["label_thresholds"] = draw.label_threshold_figure(f"{dev}: labels (rows in brackets)", curves)
    if correlation := result["label_correlation"]:
        made["label_correlation"] = draw.correlation_figure(
            f"{title}: correlation of the labels' probabilities",
            np.array(correlation["matrix"]),
            np.array(correlation["linkage"]),
            found.names,
        )
    if guidance := result["context_guidance"]:
        made["context_guidance"] = draw.guidance_figure(
            f"{report.name}, {split}: {guidance['rows']} rows with an opinion, all layers and heads",
            guidance["histograms"],
        )
    return {name: draw.to_svg(figure) for name, figure in made.items()}
