# SPDX-License-Identifier: Apache-2.0
"""
Simple baselines: logistic regression over TF-IDF, and over the frozen vectors of an encoder (as SetFit's head, without its
fine-tuning).
"""

import time
from pathlib import Path
from typing import Any

import numpy as np
from tqdm.auto import tqdm
from transformers import AutoModel

from hf_emotion import metrics
from hf_emotion.data.splits import check_split, label_names, share_of
from hf_emotion.recipes import Recipe
from hf_emotion.reports.label_errors import logistic_regression, mean_vectors
from hf_emotion.runtime.base_models import load_base_tokenizer, resolve_base_model
from hf_emotion.runtime.loading import read_model
from hf_emotion.tasks.corpus_metrics import at_thresholds, single_label
from hf_emotion.tasks.loading import load_dataset_for
from hf_emotion.tasks.rows import label_matrix


KINDS = ("tfidf", "frozen")
STRENGTHS = (1.0, 10.0, 30.0, 100.0, 300.0)  # C, the inverse of the penalty


def baseline(kind: str, recipe: Recipe, data_dir: str | Path | None = None) -> dict[str, Any]:
    """
    Fit logistic regression on the corpus of a recipe. C is chosen on the validation part by macro-F1 (at the recipe's threshold, or of the most
    probable class); thresholds are tuned on the validation part. There is one model per label if rows have several labels, one per context (target
    and aspect) if rows have contexts. Utterances of dialogues are classified one by one.

    Args:
        kind: one of `KINDS`. "tfidf": words and pairs of words in at least two rows, sublinear tf, rows of length 1; "frozen": mean over the
            tokens of the last hidden states of the recipe's base model, rows of length 1.
        recipe: names the corpus, the share of its training rows, the threshold, and the base model.
        data_dir: see `load_dataset_for`.

    Returns:
        {"C", "rows", "validation", "test", "minutes"}: for each part the metrics of a run.

    Raises:
        ValueError: the corpus has no texts.
    """
    splits = load_dataset_for(recipe.dataset, data_dir, **recipe.dataset_options)
    check_split(splits, "train", recipe.dataset)
    if not {"utterances", "text"} & set(splits["train"].column_names):
        raise ValueError(f"the baselines read texts, and `dataset` {recipe.dataset!r} has other rows.")
    if recipe.train_fraction < 1:
        splits["train"] = share_of(splits["train"], recipe.train_fraction)
    start = time.perf_counter()
    texts = {split: _texts(rows) for split, rows in splits.items()}
    contexts = {
        split: np.asarray(rows["context_id"] if "context_id" in rows.column_names else [0] * len(texts[split]))
        for split, rows in splits.items()
    }
    features = _tfidf(texts) if kind == "tfidf" else _frozen(texts, recipe)
    gold = {split: label_matrix(rows) for split, rows in splits.items()}
    names, multi_label = label_names(splits["train"]), gold["train"].ndim == 2

    best = None
    for strength in tqdm(STRENGTHS, unit="fits", disable=None):
        models = _fit(strength, features["train"], gold["train"], contexts["train"])
        dev = _probabilities(models, features["validation"], contexts["validation"], len(names))
        if multi_label:
            score = metrics.goemotions(gold["validation"], dev, recipe.threshold, names)["macro_f1"]
        else:
            score = single_label(recipe.dataset, gold["validation"], dev, names)["macro_f1"]
        if best is None or score > best[0]:
            best = score, strength, models, dev
    assert best is not None
    _, strength, models, dev = best
    result: dict[str, Any] = {"C": strength, "rows": {split: len(rows) for split, rows in splits.items()}}
    test = _probabilities(models, features["test"], contexts["test"], len(names))
    tuned = metrics.tune_thresholds(gold["validation"], dev) if multi_label else None
    for split, scores in (("validation", dev), ("test", test)):
        decisions = None if tuned is None else scores > np.asarray(tuned)
        result[split] = at_thresholds(recipe.dataset, gold[split], scores, names, recipe.threshold, decisions)
    return {**result, "minutes": (time.perf_counter() - start) / 60}


def _texts(rows) -> list[str]:
    if "utterances" in rows.column_names:
        return [utterance for utterances in rows["utterances"] for utterance in utterances]
    return list(rows["text"])


def _fit(strength: float, features, gold: np.ndarray, contexts: np.ndarray) -> dict[int, Any]:
    """Context -> the model fitted to its rows; rows without a label (-1) are left out."""
    from sklearn.dummy import DummyClassifier

    models = {}
    for context in np.unique(contexts).tolist():
        rows = (contexts == context) & (gold >= 0 if gold.ndim == 1 else True)
        single = gold.ndim == 1 and len(np.unique(gold[rows])) == 1  # logistic regression refuses a single class
        model = DummyClassifier() if single else logistic_regression(strength, gold.ndim == 2)
        models[context] = model.fit(features[rows], gold[rows])
    return models


def _probabilities(models: dict[int, Any], features, contexts: np.ndarray, num_labels: int) -> np.ndarray:
    """(N, C), 0 for labels that a context does not have in training."""
    result = np.zeros((len(contexts), num_labels))
    for context, model in models.items():
        rows = np.flatnonzero(contexts == context)
        if len(rows):
            result[np.ix_(rows, model.classes_)] = model.predict_proba(features[rows])
    return result


def _tfidf(texts: dict[str, list[str]]) -> dict[str, Any]:
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True).fit(texts["train"])
    return {split: vectorizer.transform(rows) for split, rows in texts.items()}


def _frozen(texts: dict[str, list[str]], recipe: Recipe) -> dict[str, np.ndarray]:
    tokenizer = load_base_tokenizer(recipe.base_model)
    model = read_model(AutoModel, resolve_base_model(recipe.base_model)).eval()
    return {split: mean_vectors(rows, tokenizer, model, recipe.max_length) for split, rows in texts.items()}
