# SPDX-License-Identifier: Apache-2.0
"""
Measures several runs together: the mean of their probabilities, evaluated like one run.

    python -m benchmarks.study ensemble runs/seed_42 runs/seed_43 runs/seed_44

reads the stored predictions of finished run folders of one corpus (seeds of a recipe, or different models) and trains nothing.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hf_emotion import metrics
from hf_emotion.reports.finished_runs import read_predictions
from hf_emotion.run_report import RunReport
from hf_emotion.tasks import task_of_run
from hf_emotion.tasks.corpus_metrics import at_thresholds


def ensemble(runs: Sequence[str | Path]) -> dict[str, dict[str, Any]]:
    """
    Average the probabilities of runs and measure the mean; thresholds are tuned on the mean probabilities of dev.

    Args:
        runs: at least two finished run folders of classifiers of texts.

    Returns:
        {"validation", "test"}: the metrics, as `metrics.json` has them for a seed.

    Raises:
        FileNotFoundError: no finished run folder, or one without predictions.
        ValueError: fewer than two runs; runs of different corpora, labels or rows.
    """
    folders = [Path(run) for run in runs]
    if len(folders) < 2:
        raise ValueError(f"`runs` must name two run folders or more, got {len(folders)}.")
    reports = [RunReport.read(folder) for folder in folders]
    if not task_of_run(reports[0]).selects_labels or reports[0].contexts is not None:
        raise ValueError(
            f"{folders[0]} is not a run of a classifier of texts or dialogues: only those can be averaged here."
        )
    multi_label, tuned, result = reports[0].multi_label, None, {}
    for split in ("validation", "test"):
        found = [read_predictions(folder, split, multi_label) for folder in folders]
        for folder, other in zip(folders[1:], found[1:], strict=True):
            if (other.ids, other.names, other.gold_names) != (found[0].ids, found[0].names, found[0].gold_names):
                raise ValueError(
                    f"{folder} and {folders[0]} have other rows or labels in {split}: give runs of one corpus with the same options."
                )
        gold, names = found[0].gold, found[0].names
        mean = np.mean([one.probabilities for one in found], axis=0)
        if multi_label and split == "validation":
            tuned = metrics.tune_thresholds(gold, mean)
        decisions = None if tuned is None else mean > np.asarray(tuned)
        dataset, threshold = reports[0].dataset, reports[0].threshold
        result[split] = at_thresholds(dataset, gold, mean, names, threshold, decisions)
        if (
            decisions is not None
        ):  # as single runs, which are measured at the fixed threshold without their temperature
            temperatures = [report.best.temperature or 1.0 for report in reports]
            raw = [
                metrics.temperature_scaled(one.probabilities, 1 / temperature, multi_label)
                for one, temperature in zip(found, temperatures, strict=True)
            ]
            raw_mean = np.mean(raw, axis=0)
            result[split]["fixed"] = at_thresholds(dataset, gold, raw_mean, names, threshold, decisions)["fixed"]
    return result
