# SPDX-License-Identifier: Apache-2.0
"""Builds and trains the model of terms of a recipe: the stock token classifier of transformers."""

from typing import Any

import numpy as np
import torch
from datasets import Dataset, DatasetDict
from transformers import AutoModelForTokenClassification, PreTrainedModel

from ...data.splits import label_names
from ...recipes import Recipe
from ...runtime.base_models import base_to_build_on, finding
from ...runtime.batching import pad_rows
from ...runtime.checkpoints import to_probabilities
from ...runtime.languages import set_languages
from ...runtime.loading import read_config, read_model
from ...runtime.plain import text_processing
from ..base import Prepared
from ..sequence_classification import base_tokenizer, check_length
from .evaluating import term_figures
from .predictor import AspectPredictor


IGNORED = -100  # the label of a token that does not begin a word


def build(recipe: Recipe, names: list[str]) -> PreTrainedModel:
    """The stock token classifier over a base model, or over the encoder of a trained classifier, in float32."""
    numbered = dict(enumerate(names))
    with finding(recipe.base_model), base_to_build_on(recipe.base_model, None, numbered) as path:
        known = read_config(path)
        for name in recipe.model_config:
            if not hasattr(known, name):
                raise ValueError(
                    f"`model_config.{name}`: a {known.model_type!r} model has no such field, leave it out."
                )
        labels = {"id2label": numbered, "label2id": {name: i for i, name in numbered.items()}}
        fields = {**recipe.model_config, **labels, "dtype": torch.float32}
        model = read_model(AutoModelForTokenClassification, path, **fields)
    model.accepts_loss_kwargs = False  # as for sequence classifiers: the loss is a mean over the batch
    return model


def prepare(recipe: Recipe, splits: DatasetDict, *_: Any) -> Prepared:
    names = label_names(splits["train"])
    tokenizer = base_tokenizer(recipe)
    model = build(recipe, names)
    set_languages(model.config, recipe.languages)
    check_length(recipe, text_processing.usable_positions(model.config))
    predictor = AspectPredictor(model, tokenizer, max_length=recipe.max_length)

    def collate(rows: list[dict]) -> dict[str, torch.Tensor]:
        batch = pad_rows(tokenizer, {"input_ids": [row["input_ids"] for row in rows]}, "right")
        labels = np.full(batch["input_ids"].shape, IGNORED)
        for number, row in enumerate(rows):
            labels[number, : len(row["labels"])] = row["labels"]
        return {"labels": torch.from_numpy(labels)} | {name: torch.from_numpy(array) for name, array in batch.items()}

    def measure(logits: np.ndarray, labels: np.ndarray) -> dict[str, float]:
        known = labels != IGNORED
        scores = [to_probabilities(row[own], False) for row, own in zip(logits, known, strict=True)]
        return term_figures([row[own] for row, own in zip(labels, known, strict=True)], scores, names)

    return Prepared(
        model=model,
        tokenizer=tokenizer,
        train=encode(predictor, splits["train"]),
        validation=encode(predictor, splits["validation"]),
        collate=collate,
        measure=measure,
    )


def encode(predictor: AspectPredictor, rows: Dataset) -> Dataset:
    """The columns `input_ids`, `labels` (the tag of each token that begins a word, `IGNORED` elsewhere) and `length`."""
    encoded = predictor.encode(list(rows["text"]), cut=True)
    predictor.warn_unread(encoded.unread.counts)
    labels = [[IGNORED] * len(ids) for ids in encoded.input_ids]
    for own, read, tags in zip(labels, encoded.read, rows["labels"], strict=True):
        for word, token in read:
            if own[token] == IGNORED:
                own[token] = tags[word]
    return Dataset.from_dict({"input_ids": encoded.input_ids, "labels": labels, "length": list(map(len, labels))})
