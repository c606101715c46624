# SPDX-License-Identifier: Apache-2.0
"""Measures whether explanations point at what a classifier uses: comprehensiveness and sufficiency against a random ranking."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import numpy as np

from ..inference import load_predictor
from ..io.progress import progress_bar
from ..runtime.attribution import Reading, check_names, refuse_exported
from ..runtime.classifying import Encoded, encoded_probabilities
from ..runtime.names import METHODS
from ..runtime.ready import with_weights
from ..runtime.unread import Unread
from ..tasks import task_of_rows
from ..tasks.loading import load_split, options_for
from ..tasks.rows import rows_for_task
from ..tasks.text_explaining import Question, read_text


BINS = (0.01, 0.05, 0.10, 0.20, 0.50)  # shares of the words, as in ERASER


class MethodFigures(TypedDict):
    """Means and standard errors over texts; `above_random`: share of the texts whose comprehensiveness is above the random rankings'."""

    comprehensiveness: float
    comprehensiveness_std_error: float
    sufficiency: float
    sufficiency_std_error: float
    above_random: NotRequired[float]


class Faithfulness(TypedDict):
    """`methods` has a method's figures by its name, and "random" with the means over all random rankings."""

    rows: int
    bins: list[float]
    random_rankings: int
    methods: dict[str, MethodFigures]


def faithfulness(
    checkpoint: str | Path | Any,
    dataset: str,
    data_dir: str | Path | None = None,
    split: str = "test",
    rows: int = 100,
    methods: Sequence[str] = METHODS,
    random_rankings: int = 5,
    seed: int = 0,
    options: dict[str, Any] | None = None,
    progress: bool = False,
) -> Faithfulness:
    """
    Comprehensiveness and sufficiency (DeYoung et al. 2020: ERASER) of the methods of `explain`, for the label that the model
    predicts.

    A method ranks the words of a text; the first 1, 5, 10, 20 and 50 % of them (at least one) are the rationale r. Comprehensiveness is
    p(x) − p(x without r); higher is better. Sufficiency is p(x) − p(only r); lower is better. Both are means over the five shares and the
    texts. Words are removed, not masked; special tokens and the auxiliary sentence stay.

    Args:
        checkpoint: a classifier of texts, or of targeted sentiment.
        dataset, data_dir, split, options: see `load_split`. Texts of one word, and rows without an opinion, are left out.
        rows: size of the random sample.
        methods: some of the methods of `explain`.
        random_rankings: number of random rankings to measure for each text, for comparison.
        seed: for the sample and the random rankings.

    Raises:
        ValueError: the model is of another kind, a method is unknown, no row fits.
    """
    predictor = load_predictor(with_weights(checkpoint)) if isinstance(checkpoint, str | Path) else checkpoint
    task = predictor.task
    if not task.ranks_words:
        raise ValueError(f"models for {task.name} do not rank words: faithfulness is not measured.")
    refuse_exported(predictor.model)
    check_names("methods", methods, METHODS)
    methods = list(dict.fromkeys(methods))
    generator = np.random.default_rng(seed)
    measured: dict[str, list[tuple[float, float]]] = {name: [] for name in (*methods, "random")}
    questions = _questions(predictor, dataset, data_dir, split, options or {})
    with progress_bar(progress, rows, "texts") as bar:
        for number in generator.permutation(len(questions)):
            if len(measured["random"]) == rows:
                break
            reading, _ = read_text(predictor, questions[number])
            if len(reading.words) < 2:
                continue
            count = len(reading.words)
            probabilities = _probabilities(predictor, reading, [np.ones(count, bool)])[0]
            label = int(probabilities.argmax())
            scores = [predictor.word_scores(reading, label, method) for method in methods]
            rankings = [np.argsort(-values, kind="stable") for values in scores]
            rankings += [generator.permutation(count) for _ in range(random_rankings)]
            figures = _figures(predictor, reading, label, float(probabilities[label]), rankings)
            for name, pair in zip(methods, figures, strict=False):
                measured[name].append(tuple(pair))
            measured["random"].append(tuple(figures[len(methods) :].mean(axis=0)))
            bar.update()
    if not measured["random"]:
        raise ValueError(f"{dataset} {split} has no text of at least two words to explain.")
    chance = np.array(measured["random"])
    result: dict[str, MethodFigures] = {}
    for name, pairs in measured.items():
        values = np.array(pairs)
        errors = values.std(axis=0, ddof=1) / len(values) ** 0.5 if len(values) > 1 else [float("nan")] * 2
        result[name] = {
            "comprehensiveness": float(values[:, 0].mean()),
            "comprehensiveness_std_error": float(errors[0]),
            "sufficiency": float(values[:, 1].mean()),
            "sufficiency_std_error": float(errors[1]),
        }
        if name != "random":
            result[name]["above_random"] = float((values[:, 0] > chance[:, 0]).mean())
    return {"rows": len(chance), "bins": list(BINS), "random_rankings": random_rankings, "methods": result}


def _questions(predictor, dataset: str, data_dir, split: str, options: dict[str, Any]) -> list[Question]:
    """The questions to the model about the rows of the split."""
    data = load_split(dataset, split, data_dir, **options_for(predictor, dataset, options))
    rows = rows_for_task(predictor.task, data)
    if rows is None:
        raise ValueError(f"{dataset!r} holds {task_of_rows(data).reads}, and the model reads {predictor.task.reads}.")
    return predictor.row_questions(rows)


def _figures(predictor, reading: Reading, label: int, whole: float, rankings: list[np.ndarray]) -> np.ndarray:
    """(rankings, 2): comprehensiveness and sufficiency of each ranking."""
    count = len(reading.words)
    kept: dict[bytes, np.ndarray] = {}  # in a short text several shares are the same words
    used = []
    for ranking in rankings:
        for share in BINS:
            rationale = np.zeros(count, bool)
            rationale[ranking[: max(1, int(share * count + 0.5))]] = True
            for words in (~rationale, rationale):
                kept[words.tobytes()] = words
                used.append(words.tobytes())
    probabilities = _probabilities(predictor, reading, list(kept.values()))[:, label]
    of = dict(zip(kept, probabilities, strict=True))
    values = np.array([of[key] for key in used]).reshape(len(rankings), len(BINS), 2)
    return (whole - values).mean(axis=1)


def _probabilities(predictor: Any, reading: Reading, kept: list[np.ndarray]) -> np.ndarray:
    """(variants, C), for the text with only the words of each variant, (words,) bool."""
    columns = {
        name: tensor[0].tolist()
        for name, tensor in reading.inputs.items()
        if tensor.dim() == 2 and name != "attention_mask"
    }
    places = [np.flatnonzero((reading.word_of < 0) | words[reading.word_of]) for words in kept]
    inputs = {name: [[values[i] for i in row] for row in places] for name, values in columns.items()}
    if "context_ids" in reading.inputs:
        inputs["context_ids"] = reading.inputs["context_ids"].tolist() * len(places)
    return encoded_probabilities(predictor, Encoded(inputs, Unread.nothing(len(places))))
