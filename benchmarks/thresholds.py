# SPDX-License-Identifier: Apache-2.0
"""
Compares rules that choose the thresholds of a multi-label model, using only the validation predictions of finished runs.
Each rule sees three quarters of the rows, and macro-F1 is measured on the fourth; three times four folds for each run.

    python benchmarks/thresholds.py runs/goemotions_laa_ce runs/goemotions_baseline
"""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from sklearn.model_selection import RepeatedKFold

from hf_emotion import metrics
from hf_emotion.metrics.multi_label import _best_threshold, _calibrated
from hf_emotion.reports.finished_runs import read_predictions


def by_label(
    target: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> Callable[[np.ndarray, np.ndarray], list[float]]:
    """A rule: for each label the threshold with the best F1, where `target` says how rows count."""

    def choose(gold: np.ndarray, scores: np.ndarray) -> list[float]:
        columns = zip(gold.T, scores.T, strict=True)
        return [_best_threshold(target(own, column), column) if own.any() else 0.3 for own, column in columns]

    return choose


RULES: dict[str, Callable[[np.ndarray, np.ndarray], Sequence[float]]] = {
    "0.3 for all": lambda gold, scores: [0.3] * gold.shape[1],
    "labels": by_label(lambda gold, scores: gold),
    "the model's probabilities": by_label(lambda gold, scores: scores),
    "half labels, half calibrated probabilities": by_label(
        lambda gold, scores: (gold + _calibrated(gold, scores)) / 2
    ),
    "calibrated probabilities": metrics.tune_thresholds,
}


def compare(gold: np.ndarray, scores: np.ndarray) -> dict[str, list[float]]:
    """For each rule the macro-F1 of each fold."""
    found: dict[str, list[float]] = {rule: [] for rule in RULES}
    for chosen_on, left in RepeatedKFold(n_splits=4, n_repeats=3, random_state=0).split(gold):
        for rule, choose in RULES.items():
            thresholds = np.array(choose(gold[chosen_on], scores[chosen_on]))
            found[rule].append(metrics.macro_f1(gold[left], scores[left] > thresholds))
    return found


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", help="run folders of multi-label classifiers")
    arguments = parser.parse_args(argv)
    print("| run | " + " | ".join(RULES) + " |\n|" + "---|" * (len(RULES) + 1))
    for run in arguments.runs:
        predictions = read_predictions(Path(run), "validation", multi_label=True)
        found = compare(predictions.gold, predictions.probabilities)
        print(
            f"| {Path(run).name} | " + " | ".join(f"{np.mean(folds):.4f}" for folds in found.values()) + " |",
            flush=True,
        )


if __name__ == "__main__":
    main()
