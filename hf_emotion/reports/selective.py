# SPDX-License-Identifier: Apache-2.0
"""Measures what a run gains if it may say that it does not know or give sets of labels, and keeps such a rule in its configuration."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypedDict

import numpy as np

from .. import metrics
from ..io.files import write_json
from ..metrics.significance import Spread, over_seeds
from ..recipes import check_answers
from ..run_report import RunReport, SeedRun
from ..runtime.plain import text_processing
from ..tasks.classifier_cards import UNSURE, answers
from ..tasks.selective import LOSSES, choose_rules, losses, measure_rules
from .card import renew_section
from .finished_runs import Predictions, read_predictions


OFF = "off"
COVERAGES = (1.0, 0.95, 0.9, 0.8, 0.5)  # of the table of abstentions
SET_COVERAGES = (0.8, 0.9, 0.95)
POINTS = 100  # of the curve

Wanted = Mapping[str, float] | Literal["off"] | None


class Selective(TypedDict):
    """Risk over coverage: `curve` of the best seed; areas and risks over the seeds; and what thresholds from the validation part give."""

    loss: str
    curve: dict[str, list[float]]
    aurc: Spread
    e_aurc: Spread
    risk_at: dict[str, Spread]
    abstention: list[dict] | None
    prediction_sets: list[dict] | None


def wanted_rules(
    abstain: Wanted, prediction_sets: float | Literal["off"] | None
) -> tuple[dict[str, float], float | None]:
    """What `analyze` is to keep, {} and None where it is "off"; ValueError for anything else, out of range, or if both are given."""
    wanted = dict(abstain) if isinstance(abstain, Mapping) else {}
    sets = prediction_sets if isinstance(prediction_sets, int | float) else None
    for name, given, read in (("abstain", abstain, wanted), ("prediction_sets", prediction_sets, sets)):
        if given not in (None, OFF, read):
            raise ValueError(f"`{name}` takes a number ({{name: number}} to abstain) or {OFF!r}, got {given!r}.")
    check_answers(wanted, sets)
    return wanted, sets


def selective(report: RunReport, per_seed: list[Predictions], dev: list[Predictions | None]) -> Selective:
    """
    Risk over coverage, and what thresholds from the validation part give on the measured part.

    Args:
        report: metrics.json.
        per_seed: the predictions of each seed, or only those of the best seed.
        dev: the same for the validation part; None where there are none.
    """
    best = report.best
    runs = report.runs if len(per_seed) == len(report.runs) else [best]
    limits = [_limits(run) for run in runs]
    chosen = runs.index(best)
    curves = [
        metrics.risk_coverage(found.probabilities.max(axis=1), losses(found.gold, found.probabilities, limit))
        for found, limit in zip(per_seed, limits, strict=True)
    ]
    at = np.unique(np.linspace(0, len(per_seed[chosen].ids), POINTS + 1).round().astype(int))[1:] - 1
    result: Selective = {
        "loss": LOSSES[per_seed[0].gold.multi_label],
        "curve": {name: curves[chosen][name][at].tolist() for name in ("coverage", "risk", "best")},
        "aurc": over_seeds([curve["aurc"] for curve in curves]),
        "e_aurc": over_seeds([curve["e_aurc"] for curve in curves]),
        "risk_at": {f"{share:g}": over_seeds([_at(curve["risk"], share) for curve in curves]) for share in COVERAGES},
        "abstention": None,
        "prediction_sets": None,
    }
    if None in dev:
        return result
    measured: dict[str, list[dict]] = {"abstention": [], "prediction_sets": []}
    for rule, coverages in (("abstention", COVERAGES[1:]), ("prediction_sets", SET_COVERAGES)):
        for coverage in coverages:
            each = []
            for found, rows, limit in zip(per_seed, dev, limits, strict=True):
                assert rows is not None
                wanted: tuple[Any, Any] = ({"coverage": coverage}, None) if rule == "abstention" else ({}, coverage)
                rules = choose_rules(*wanted, rows.gold, rows.probabilities, limit)
                each.append(measure_rules(rules, found.gold, found.probabilities, limit, found.names)[rule])
            entry: dict = {"wanted": coverage, "threshold": each[chosen]["wanted"]["threshold"]}
            for name in (key for key in each[0] if key not in ("wanted", "labels")):
                entry[name] = over_seeds([one[name] for one in each])
            if rule == "prediction_sets":
                entry["labels"] = {name: over_seeds([one["labels"][name] for one in each]) for name in found.names}
            measured[rule].append(entry)
    result["abstention"], result["prediction_sets"] = measured["abstention"], measured["prediction_sets"]
    return result


def _limits(run: SeedRun) -> list[float] | None:
    """The thresholds of the labels, in their order."""
    return list(run.thresholds.values()) if run.thresholds else None


def _at(risk: np.ndarray, coverage: float) -> float:
    """The risk of the surest rows, as many as make up this coverage."""
    return float(risk[max(int(np.ceil(coverage * len(risk) - 1e-9)), 1) - 1]) if len(risk) else float("nan")


def keep_rule(
    run: Path,
    report: RunReport,
    split: str,
    found: Predictions,
    abstain: Wanted,
    prediction_sets: float | Literal["off"] | None,
) -> dict[str, dict[str, float]]:
    """
    Write the wanted rule into the checkpoint's config.json, from the predictions for the validation part, and into the model
    card. It replaces the other rule; "off" removes one.

    Returns:
        the rules that config.json has then.

    Raises:
        FileNotFoundError: the run folder has no config.json.
        ValueError: no predictions for the validation part; an accuracy that is not reached; a label has the name of an abstention.
    """
    path = run / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    thresholds = _limits(report.best)
    rules: dict[str, dict[str, float]] = {}
    wanted, sets = wanted_rules(abstain, prediction_sets)
    if wanted or sets is not None:
        if wanted and text_processing.ABSTAINED in found.names:
            raise ValueError(f"{run} has a label {text_processing.ABSTAINED!r}, which means no answer: rename it.")
        dev = read_predictions(run, "validation", found.gold.multi_label)
        rules = choose_rules(wanted, sets, dev.gold, dev.probabilities, thresholds)
        removed: tuple[str, ...] = text_processing.RULES
    else:
        removed = tuple(
            rule for rule, value in zip(text_processing.RULES, (abstain, prediction_sets), strict=True) if value == OFF
        )
    kept = {name: value for name, value in config.items() if name not in removed} | rules
    if kept != config:
        write_json(path, dict(sorted(kept.items())))
    present = {rule: kept[rule] for rule in text_processing.RULES if kept.get(rule) is not None}
    figures = measure_rules(present, found.gold, found.probabilities, thresholds, found.names)
    section = answers(figures, split, report.multi_label, report.model_type is None)
    renew_section(run, UNSURE, section.get(UNSURE, []), before="Training")
    return present
