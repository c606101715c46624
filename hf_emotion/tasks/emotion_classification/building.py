# SPDX-License-Identifier: Apache-2.0
"""Builds and trains the classifier of texts of a recipe."""

import dataclasses
import hashlib
import logging
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from datasets import DatasetDict

from ...data.splits import label_names
from ...data.votes import COLUMN as VOTES
from ...io.files import replacing, sha256_of
from ...modeling.common import BERT_TYPES
from ...recipes import Recipe
from ...runtime.base_models import finding, resolve_base_model
from ...runtime.loading import read_config
from ...runtime.plain import text_processing
from ...runtime.ready import cache_folder
from ...runtime.windows import windowing
from ..base import MainProcessFirst, Prepared
from ..rows import gold_of
from ..sequence_classification import prepare_classifier
from .few_shot import begin, check_few_shot, for_method
from .loading import EVERYDAY
from .predictor import Predictor
from .values import refuse_fields_of_labels


LABEL_AWARE = ("label-aware-bert", "label-aware")

logger = logging.getLogger(__name__)


def check_recipe(recipe: Recipe) -> None:
    """ValueError for fields that the model type does not read."""
    for name in ("label_texts", "max_windows"):
        if getattr(recipe, name) and recipe.model_type not in LABEL_AWARE:
            raise ValueError(f"`{name}` needs label attention; `model_type` {recipe.model_type!r} has none.")
    check_few_shot(recipe, LABEL_AWARE)


def over_base_model(recipe: Recipe) -> Recipe:
    """Label-aware attention over the recipe's encoder: "label-aware-bert" becomes "label-aware" if the encoder is not a BERT."""
    special, general = LABEL_AWARE
    if recipe.model_type != special:
        return recipe
    with finding(recipe.base_model):
        base = read_config(resolve_base_model(recipe.base_model))
    encoder = getattr(base, "encoder_config", None) or base
    if encoder.model_type in BERT_TYPES:
        return recipe
    fields = dict(recipe.model_config)
    if fields.get("sentence_representation") == "cls":
        fields["sentence_representation"] = "first"
    logger.warning(
        "the base model %s is not a BERT but a %r model: the model type becomes %r instead of %r",
        *(recipe.base_model, encoder.model_type, general, special),
    )
    return dataclasses.replace(recipe, model_type=general, model_config=fields)


def prepare(recipe: Recipe, splits: DatasetDict, first: MainProcessFirst, *_: Any) -> Prepared:
    gold = gold_of(splits["train"])
    if gold.regression:
        refuse_fields_of_labels(recipe)
    for method in {"linear", "contrastive"} & set(recipe.few_shot or ()):
        if not gold.complete:
            raise ValueError(f"`few_shot` {method!r} needs rows in which every label was annotated: take fine-tuning.")
    gate = None
    if recipe.model_config.get("tfidf_gating", "none") != "none":
        gate = fit_tfidf_gate(splits["train"]["text"])
    if recipe.teachers:
        dtype = "bfloat16" if recipe.training_arguments.get("bf16") else None
        splits = with_teachers(splits, recipe.teachers, dtype)
    windows = None if recipe.max_windows is None else windowing(recipe.max_length, max_windows=recipe.max_windows)
    prepared = prepare_classifier(for_method(recipe), splits, first, gate=gate, windows=windows)
    for method in recipe.few_shot or ():  # a training has one
        begin(method, prepared, recipe.training_arguments.get("use_cpu", False))
    return prepared


def with_teachers(splits: DatasetDict, teachers: Sequence[str], dtype: str | None = None) -> DatasetDict:
    """
    The training rows with `votes`, see `teachers` of a recipe. They are kept in the cache folder, because each seed asks for them.
    The packaged sentences that GoEmotions was given keep their own labels: a teacher that has not seen them would only blur them.

    Raises:
        ValueError: a teacher has other labels, or the rows have one label each.
    """
    train, names = splits["train"], label_names(splits["train"])
    gold = gold_of(train)
    if gold.single_label:
        raise ValueError("`teachers` need rows with several labels (own files: `label_separator`): leave them out.")
    added = tuple(f"{corpus}-" for corpus in EVERYDAY)
    taught = np.array([not id.startswith(added) for id in train["id"]])
    texts = train.select(np.flatnonzero(taught))["text"][:]
    scores = []
    for teacher in teachers:
        files = [sha256_of(Path(teacher) / name) for name in ("model.safetensors", "config.json")]
        key = hashlib.sha256(repr((files, names, dtype)).encode())
        for text in texts:
            key.update(text.encode() + b"\0")
        kept = cache_folder() / "teachers" / f"{key.hexdigest()[:32]}.npy"
        if not kept.is_file():
            predictor = Predictor(teacher, dtype=dtype)
            if sorted(predictor.labels) != sorted(names):
                raise ValueError(f"`teachers`: {teacher} has other labels than the corpus: {predictor.labels}.")
            found = predictor.probabilities(texts, progress=True)
            with replacing(kept) as temporary, temporary.open("wb") as file:
                np.save(file, found[:, [predictor.labels.index(name) for name in names]].astype(np.float16))
        scores.append(np.load(kept).astype(np.float32))
    soft = gold.values.astype(np.float32)
    soft[taught] = (soft[taught] + np.mean(scores, axis=0)) / 2
    own = {split: rows.remove_columns([VOTES] if VOTES in rows.column_names else []) for split, rows in splits.items()}
    return DatasetDict({**own, "train": own["train"].add_column(VOTES, soft.tolist())})


def fit_tfidf_gate(texts: Iterable[str]) -> text_processing.TfidfGate:
    """
    The gate for the distinct texts of a split, so that copies (oversampling) do not count. Give the training split only.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer

    texts = list(dict.fromkeys(texts))
    vectorizer = TfidfVectorizer(
        norm=None, analyzer=lambda text: [word for _, _, word in text_processing.find_words(text)]
    )
    vectorizer.fit(texts)
    idf = zip(vectorizer.get_feature_names_out(), vectorizer.idf_, strict=True)
    return text_processing.TfidfGate(
        {str(word): round(float(value), 6) for word, value in idf}, math.log(1 + len(texts)) + 1
    )
