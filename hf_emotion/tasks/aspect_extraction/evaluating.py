# SPDX-License-Identifier: Apache-2.0
"""Measures models of terms on a corpus."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from datasets import Dataset

from ...data.splits import label_names
from ...runtime.plain import text_processing
from ..classifier_evaluating import Evaluation, result_of, rows_for
from ..loading import CorpusSplit
from .predictor import AspectPredictor, by_text


def term_figures(
    gold: Iterable[np.ndarray], probabilities: Iterable[np.ndarray], names: list[str]
) -> dict[str, float]:
    """
    Figures of the terms of texts, as the subtasks of SemEval-2014 task 4 and end-to-end work since (Li et al. 2019) count them. A term is
    found if both of its borders are right.

    Args:
        gold: for each text (W,) the numbers of the tags of its words.
        probabilities: for each text (W, C).
        names: C tags.

    Returns:
        "term_precision", "term_recall" and "term_f1" of the terms; "pair_f1" and the like of terms together with their sentiment;
        "polarity_accuracy": of the gold terms, the share whose sentiment is right where their place is given.
    """
    one_hot = np.eye(len(names))
    labels = text_processing.tag_labels(names)
    columns = np.array([[names.index(f"{begin}-{label}") for begin in "BI"] for label in labels])
    true = named = terms = pairs = right = 0
    for tags, scores in zip(gold, probabilities, strict=True):
        expected = {term[:3] for term in text_processing.find_terms(one_hot[tags].tolist(), names)}
        found = {term[:3] for term in text_processing.find_terms(scores.tolist(), names)}
        true, named = true + len(expected), named + len(found)
        terms += len({term[:2] for term in expected} & {term[:2] for term in found})
        pairs += len(expected & found)
        for first, last, label in expected:
            right += labels[int(scores[first:last].sum(axis=0)[columns].sum(axis=1).argmax())] == label
    figures = {}
    for name, hits in (("pair", pairs), ("term", terms)):
        figures[f"{name}_f1"] = 2 * hits / (true + named) if true + named else float("nan")
        figures[f"{name}_precision"] = hits / named if named else float("nan")
        figures[f"{name}_recall"] = hits / true if true else float("nan")
    return {**figures, "polarity_accuracy": right / true if true else float("nan")}


def with_terms(figures: Mapping[str, Mapping[str, Any]], rows: Dataset, probabilities: np.ndarray) -> dict[str, Any]:
    """The figures of the tags of the rows of a corpus, from (N, C) for all of their words, and before them those of the terms."""
    gold = [np.array(tags, dtype=int) for tags in rows["labels"]]
    of_terms = term_figures(gold, by_text(probabilities, rows["words"]), label_names(rows))
    return {"argmax": {**of_terms, **figures["argmax"]}}


def evaluate_terms(predictor: AspectPredictor, of: CorpusSplit) -> Evaluation:
    """The figures of the terms, and those of the tags."""
    if predictor.sentiments is not None:
        raise ValueError("an evaluation measures the tags, and a `sentiment_model` gives none: leave it out.")
    rows, names, gold = rows_for(predictor, of)
    probabilities = predictor.of_rows(rows, progress=True)[:, [predictor.labels.index(name) for name in names]]
    result = result_of(of.dataset, gold, probabilities, names)
    return {**result, "rows": len(rows), "metrics": with_terms(result["metrics"], rows, probabilities)}
