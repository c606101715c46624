# SPDX-License-Identifier: Apache-2.0
"""
What readers ask for first: logistic regression over TF-IDF, and over the frozen vectors of an encoder (as SetFit's head, without
its fine-tuning).
"""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch.nn.functional import normalize
from tqdm.auto import tqdm
from transformers import AutoModel

from .. import metrics
from ..data import is_multi_label, label_matrix, label_names, load_dataset_for
from ..inference.predictor import TOKENS_PER_BATCH, pad_batch, token_budget_batches
from ..loading import read_model
from ..recipes import Recipe
from ..training.models import load_base_tokenizer, resolve_base_model
from ..training.run import share_of


STRENGTHS = (1.0, 10.0, 30.0, 100.0, 300.0)  # C, the inverse of the penalty


def baseline(kind: str, recipe: Recipe, data_dir: str | None = None) -> dict[str, Any]:
    """
    Logistic regression on the corpus of a recipe, one per label where rows have several, C chosen on dev by macro-F1 (at the
    recipe's threshold, or of the most probable class), thresholds tuned on dev.

    Args:
        kind: "tfidf": words and pairs of words in at least two rows, sublinear tf, rows of length 1; "frozen": mean over the tokens
            of the last hidden states of the recipe's base model, rows of length 1.
        recipe: names the corpus, the share of its training rows, the threshold, and the base model.
        data_dir: see `load_dataset_for`.

    Returns:
        {"C", "rows", "validation", "test", "minutes"}: for each part the metrics as a run has them.

    Raises:
        ValueError: another kind; a corpus without texts.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.multiclass import OneVsRestClassifier

    if kind not in ("tfidf", "frozen"):
        raise ValueError(f"`kind` must be 'tfidf' or 'frozen', got {kind!r}.")
    splits = load_dataset_for(recipe.dataset, data_dir, **recipe.dataset_options)
    if "text" not in splits["train"].column_names or "aspect" in splits["train"].column_names:
        raise ValueError(f"the baselines read texts, and `dataset` {recipe.dataset!r} has other rows.")
    if recipe.train_fraction < 1:
        splits["train"] = share_of(splits["train"], recipe.train_fraction)
    start = time.perf_counter()
    features = _tfidf(splits) if kind == "tfidf" else _frozen(splits, recipe)
    names, multi_label = label_names(splits["train"]), is_multi_label(splits["train"])
    gold = {split: label_matrix(rows) for split, rows in splits.items()}

    best = None
    for strength in tqdm(STRENGTHS, unit="fits", disable=None):
        model = LogisticRegression(C=strength, max_iter=1000)
        model = OneVsRestClassifier(model) if multi_label else model
        model.fit(features["train"], gold["train"])
        dev = model.predict_proba(features["validation"])
        if multi_label:
            score = metrics.goemotions(gold["validation"], dev, recipe.threshold, names)["macro_f1"]
        else:
            score = metrics.single_label(recipe.dataset, gold["validation"], dev, names)["macro_f1"]
        if best is None or score > best[0]:
            best = score, strength, model, dev
    _, strength, model, dev = best
    result: dict[str, Any] = {"C": strength, "rows": {split: len(rows) for split, rows in splits.items()}}
    probabilities = {"validation": dev, "test": model.predict_proba(features["test"])}
    tuned = metrics.tune_thresholds(gold["validation"], dev) if multi_label else None
    for split, scores in probabilities.items():
        result[split] = metrics.at_thresholds(recipe.dataset, gold[split], scores, names, recipe.threshold, tuned)
    return {**result, "minutes": (time.perf_counter() - start) / 60}


def _tfidf(splits) -> dict[str, Any]:
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True).fit(splits["train"]["text"])
    return {split: vectorizer.transform(rows["text"]) for split, rows in splits.items()}


def _frozen(splits, recipe: Recipe) -> dict[str, np.ndarray]:
    tokenizer = load_base_tokenizer(recipe.base_model)
    model = read_model(AutoModel, resolve_base_model(recipe.base_model)).eval()
    return {split: mean_vectors(rows["text"], tokenizer, model, recipe.max_length) for split, rows in splits.items()}


@torch.inference_mode()
def mean_vectors(texts: Sequence[str], tokenizer, model, max_length: int) -> np.ndarray:
    """(N, d) float32: means over the tokens of an encoder's last hidden states, of length 1."""
    options = {"truncation": True, "max_length": max_length, "return_attention_mask": False}
    ids = tokenizer(list(texts), return_token_type_ids=False, **options)["input_ids"]
    output = np.empty((len(ids), model.config.hidden_size), np.float32)
    with tqdm(total=len(ids), unit="texts", disable=None) as bar:
        for rows in token_budget_batches([len(row) for row in ids], TOKENS_PER_BATCH):
            inputs = pad_batch(tokenizer, {"input_ids": [ids[row] for row in rows]})
            states = model(**inputs).last_hidden_state
            mask = inputs["attention_mask"][..., None].to(states.dtype)
            output[rows] = normalize((states * mask).sum(1) / mask.sum(1), dim=-1).numpy()
            bar.update(len(rows))
    return output
