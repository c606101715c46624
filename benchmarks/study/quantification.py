# SPDX-License-Identifier: Apache-2.0
"""How well the shares of `hf-emotion summarize` fit, on rows drawn so that a label is rarer or more frequent than it was."""

from pathlib import Path
from typing import Any

import numpy as np

from hf_emotion.inference import load_predictor
from hf_emotion.metrics.quantification import METHODS, Observed, ValidationCounts, estimates, interval
from hf_emotion.reports.summary.counting import validation_counts
from hf_emotion.tasks.classifier_evaluating import rows_for
from hf_emotion.tasks.loading import CorpusSplit


PREVALENCES = np.linspace(0.02, 0.9, 20)
MOST_ROWS, FEWEST_WITH_LABEL = 1000, 2
CORPORA = ("goemotions", "everyday")


def measure(model: str, data_dir: Path | None = None) -> dict[str, Any]:
    """
    The artificial prevalence protocol (Forman, 2008) on the test parts: for each label and each prevalence p as many rows as there are, at most
    `MOST_ROWS`, drawn without replacement so that a share p has the label. The model's errors come from the validation part of its own corpus.
    Corpus -> "samples", "rows", and of each method the mean absolute "error", the "coverage" and "width" of the 95 % interval, drawn and "as_it_is".
    """
    counts, predictor = validation_counts(model), load_predictor(model)
    if counts is None or not counts.multi_label:
        raise ValueError(f"{model} keeps no errors on validation rows, or gives one label.")
    results = {}
    for name in CORPORA:
        rows, names, gold = rows_for(predictor, CorpusSplit(name, "test", data_dir))
        order = [predictor.labels.index(label) for label in counts.labels]
        scores = predictor.of_rows(rows, progress=True)[:, order].astype(np.float64)
        has = gold.has(len(names))[:, [names.index(label) for label in counts.labels]]
        results[name] = _of_corpus(counts, has, scores) | {"rows": len(gold)}
    return results


def _of_corpus(counts: ValidationCounts, gold: np.ndarray, scores: np.ndarray) -> dict[str, Any]:
    generator = np.random.default_rng(0)
    found: dict[str, list] = {method: [] for method in METHODS}
    for label in range(len(counts.labels)):
        having, without = np.flatnonzero(gold[:, label]), np.flatnonzero(~gold[:, label])
        if len(having) < FEWEST_WITH_LABEL:
            continue
        for number, share in enumerate(PREVALENCES):
            size = int(min(MOST_ROWS, len(having) / share, len(without) / (1 - share)))
            with_label = round(share * size)
            sides = ((having, with_label), (without, size - with_label))
            drawn = [generator.choice(rows, number_of, replace=False) for rows, number_of in sides]
            observed = observe(counts, scores[np.concatenate(drawn)])
            for method in METHODS:
                samples = estimates(observed, counts, method, 100 * label + number)[:, [label]]
                found[method].append(_one(samples, np.array([with_label / size])))
    everything = observe(counts, scores)
    as_it_is = {m: _mean([_one(estimates(everything, counts, m), gold.mean(axis=0))]) for m in METHODS}
    return {"samples": len(found["plain"]), "drawn": {m: _mean(found[m]) for m in METHODS}, "as_it_is": as_it_is}


def observe(counts: ValidationCounts, scores: np.ndarray) -> Observed:
    chosen = (scores > np.asarray(counts.thresholds)).sum(axis=0)
    return Observed(len(scores), chosen, scores.sum(axis=0), (scores**2).sum(axis=0))


def _one(samples: np.ndarray, truth: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    low, high = interval(samples)
    return np.abs(samples[0] - truth), (low <= truth) & (truth <= high), high - low


def _mean(found: list) -> dict[str, float]:
    parts = (np.concatenate(values) for values in zip(*found, strict=True))
    return dict(zip(("error", "coverage", "width"), (float(np.nanmean(values)) for values in parts), strict=True))
