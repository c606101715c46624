# SPDX-License-Identifier: Apache-2.0
"""
Shows what a classifier of texts looked at. Label-aware BERT: the attention of each label over the words. RoBERTa with ESA: the
weight of each word in the pooled sentence, and the dimensions that are scaled most. Other models: the attention of the first
token.
"""

from collections.abc import Sequence

import numpy as np
import torch
from datasets import Dataset
from transformers import PreTrainedModel

from ...runtime.attribution import (
    Explained,
    HeatMap,
    Merge,
    Reading,
    attribute_words,
    column_axis,
    merge_note,
    one_text,
    outputs_with_attention,
    to_numpy,
)
from ...runtime.classifying import label_names
from ...runtime.names import METHODS
from ..text_explaining import (
    Question,
    attention_note,
    chosen_labels,
    head_map,
    probabilities_of,
    read_texts,
    read_token_attention,
    read_token_map,
    refuse_labels,
    score_map,
    score_name,
)
from .predictor import Predictor


LABELS_SHOWN = 5
DIMENSIONS_SHOWN = 10


def explain(
    predictor: Predictor,
    text: str | Sequence[str],
    merge: Merge,
    labels: Sequence[str] | None = None,
    method: str = METHODS[0],
) -> Explained:
    """Rows are labels, or heads if all labels share one attention."""
    text, config = one_text(text), predictor.model.config
    questions = [Question(text)]
    whole = method == METHODS[0] and hasattr(config, "label_attention")  # only this attention spans windows
    readings = read_texts(predictor, questions, merge, predictor.windows if whole else None)
    if method != METHODS[0]:
        maps, notes = score_map(predictor, questions, readings, labels, LABELS_SHOWN, method, merge)
    elif whole:
        maps, notes = _label_map(predictor, questions, readings[0], labels, merge)
    else:
        refuse_labels(predictor.model, labels)
        if hasattr(config, "esa_pooling"):
            found = [_esa_attention(predictor.model, reading) for reading in readings]
            heat, note = head_map("emotion-specific attention, pooled", questions, readings, found, merge)
            maps, notes = [heat, _scaled_dimensions(predictor.model)], [merge_note(merge, METHODS[0]), note]
        else:
            maps, notes = read_token_map(predictor, questions, readings, merge)
    return Explained(text, method, maps, notes)


def _label_map(
    predictor: Predictor, questions: Sequence[Question], reading: Reading, labels: Sequence[str] | None, merge: Merge
) -> tuple[list[HeatMap], list[str]]:
    """Heat map of the attention of label-aware BERT."""
    config = predictor.model.config
    found = _label_attention(predictor.model, reading)
    each = len(found) > 1 or config.label_attention != "leam"
    if not each:
        refuse_labels(predictor.model, labels)
    probabilities = probabilities_of(predictor, reading)
    chosen = chosen_labels(predictor, probabilities, labels, LABELS_SHOWN)
    title, rows, scores = "attention, one for all labels", ["all labels"], None
    if each:
        names = label_names(config)
        title, rows, found = "attention of each label", [names[label] for label in chosen], found[chosen]
        scores = [float(probabilities[label]) for label in chosen]
    axes, shown = ("label", column_axis(merge)), score_name(predictor) if scores else None
    values = reading.merged(found, merge)
    heat = HeatMap(title, "share of the attention", axes, rows, reading.words, values, scores, shown)
    note = attention_note(questions, rows, list(reading.elsewhere(found)))
    return [heat], [merge_note(merge, METHODS[0]), note]


@torch.no_grad()
def _label_attention(model: PreTrainedModel, reading: Reading) -> np.ndarray:
    """(C, L), or (1, L) if all labels share one attention; for a text in W windows (C, W·L), normalised over all of it."""
    outputs = model(**reading.inputs)
    shares = outputs.label_attention_lse.softmax(dim=0)  # log-sum-exp of each window, (W, C)
    return to_numpy((outputs.label_attentions * shares[..., None]).transpose(0, 1).flatten(1))


def _esa_attention(model: PreTrainedModel, reading: Reading) -> np.ndarray:
    """(heads, L): the weight of each token in the pooled sentence."""
    attention = outputs_with_attention(model, reading).esa_attentions[0]  # (h, L, L)
    # Pooling is linear: a token's weight in the pooled sentence is its attention, averaged over the queries.
    pooled = {"cls": attention[:, 0], "mean": attention.mean(dim=1)}
    pooled["cls_mean"] = (pooled["cls"] + pooled["mean"]) / 2
    return to_numpy(pooled[model.config.esa_pooling])


def _scaled_dimensions(model: PreTrainedModel) -> HeatMap:
    """Heat map of the entries of the scaling vector S that lie farthest from their start, 1."""
    scale = to_numpy(model.base_model.emotion_attention.scale.detach()) - 1
    strongest = np.argsort(-np.abs(scale), kind="stable")[:DIMENSIONS_SHOWN]
    return HeatMap(
        f"the {len(strongest)} of {len(scale)} dimensions that are scaled most",
        "S − 1: above 0 amplified, below 0 dampened",
        ("vector", "dimension"),
        ["S − 1"],
        [str(dimension) for dimension in strongest],
        scale[strongest][None],
    )


# The functions of `Task` for `faithfulness`.


def row_questions(predictor: Predictor, rows: Dataset) -> list[Question]:
    """One question per row."""
    return [Question(text) for text in rows["text"]]


def word_scores(predictor: Predictor, reading: Reading, label: int, method: str) -> np.ndarray:
    """
    (words,) float64. "attention" means the label's attention for label-aware BERT, the pooled attention for ESA, and for other
    models the attention of the token that the classifier reads, in the last layer, mean over heads.
    """
    model = predictor.model
    if method != METHODS[0]:
        return attribute_words(model, predictor.tokenizer, reading, label, method)[0]
    if hasattr(model.config, "label_attention"):
        found = _label_attention(model, reading)
        return reading.merged(found[label if len(found) == model.config.num_labels else 0], "sum")
    if hasattr(model.config, "esa_pooling"):
        return reading.merged(_esa_attention(model, reading).mean(axis=0), "sum")
    return reading.merged(read_token_attention(model, reading, "attentions")[1].mean(axis=0), "sum")
