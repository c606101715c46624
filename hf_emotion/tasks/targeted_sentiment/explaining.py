# SPDX-License-Identifier: Apache-2.0
"""
Shows what a model of targeted sentiment looked at. CG-BERT and QACG-BERT: attention and gates of a layer and a head. Label-aware attention:
that of the label of each aspect. Other models: the attention of the token that the classifier reads.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from datasets import Dataset

from ...data.splits import label_names
from ...modeling.text_processing import all_aspects_at_once, model_inputs
from ...runtime.attribution import (
    Explained,
    HeatMap,
    Merge,
    Reading,
    attribute_words,
    check_names,
    column_axis,
    merge_note,
    one_text,
    outputs_with_attention,
    to_numpy,
)
from ...runtime.names import METHODS
from ..text_explaining import (
    Question,
    attention_note,
    chosen_labels,
    left_out,
    probabilities_of,
    read_texts,
    read_token_attention,
    read_token_map,
    refuse_labels,
    row_axis,
    score_map,
    shared_words,
)
from .loading import context_names, is_none
from .predictor import TargetedPredictor


def explain(
    predictor: TargetedPredictor,
    text: str | Sequence[str],
    merge: Merge,
    labels: Sequence[str] | None = None,
    targets: Sequence[str] | None = None,
    aspects: Sequence[str] | None = None,
    method: str = METHODS[0],
    layer: int | None = None,
    head: int | None = None,
) -> Explained:
    """Rows are pairs of a target and an aspect, with their labels."""
    guided = hasattr(predictor.model.config, "num_contexts")
    if (layer is not None or head is not None) and (method != METHODS[0] or not guided):
        raise ValueError("`layer` and `head` go with the attention of a CG-BERT or QACG-BERT: leave them out.")
    text = one_text(text)
    questions = _asked(predictor, text, targets, aspects)
    readings = read_texts(predictor, questions, merge)
    if method != METHODS[0]:
        maps, notes = score_map(predictor, questions, readings, labels, 1, method, merge)
    elif all_aspects_at_once(predictor.model.config):
        maps, notes = _label_map(predictor, questions, readings, labels, merge)
    else:
        refuse_labels(predictor.model, labels)
        if guided:
            maps = _guided_maps(predictor, questions, readings, merge, layer or 0, head or 0)
            notes = [merge_note(merge, method), left_out(questions)]
            if predictor.model.config.model_type == "qacg-bert":
                notes.append(
                    "A_self is the attention of BERT, A_quasi that of the target and aspect, λ_A the gate between them (below 0: "
                    "A_quasi takes attention away). In A_self, λ_A·A_quasi and their sum 1 is the largest value of a row, so that "
                    "they can be compared; colours are relative to the largest value of each map"
                )
        else:
            maps, notes = read_token_map(predictor, questions, readings, merge)
    return Explained(text, method, maps, notes)


def _asked(
    predictor: TargetedPredictor, text: str, targets: Sequence[str] | None, aspects: Sequence[str] | None
) -> list[Question]:
    """The questions about the given aspects (default: all) of the given targets (default: those in the text)."""
    config = predictor.model.config
    if aspects is not None:
        check_names("aspects", aspects, config.aspects)
    asked = dict.fromkeys(target for _, target, _ in predictor.pairs([text], targets))
    return [_question(config, text, target, aspect) for target in asked for aspect in aspects or config.aspects]


def _question(config: Any, text: str, target: str | None, aspect: str) -> Question:
    text, auxiliary, context_id = model_inputs(config, text, target, aspect)
    name = aspect if target is None else f"{target} {aspect}"
    takes = hasattr(config, "num_contexts") or all_aspects_at_once(config)
    return Question(text, name, auxiliary, context_id if takes else None)


def _label_map(
    predictor: TargetedPredictor,
    questions: Sequence[Question],
    readings: Sequence[Reading],
    labels: Sequence[str] | None,
    merge: Merge,
) -> tuple[list[HeatMap], list[str]]:
    """Heat map of label-aware attention, with a row for the most probable label of each context, or for the named labels."""
    words, rows, values, scores, elsewhere = shared_words(readings), [], [], [], []
    for question, reading in zip(questions, readings, strict=True):
        probabilities = probabilities_of(predictor, reading)
        for label in chosen_labels(predictor, probabilities, labels, 1):
            found = _label_attention(predictor, reading, label)
            rows.append(f"{question.name}: {predictor.labels[label]}")
            values.append(reading.merged(found, merge)[0, : len(words)])
            scores.append(float(probabilities[label]))
            elsewhere += list(reading.elsewhere(found))
    axes = (row_axis(questions, "label"), column_axis(merge))
    unit = "share of the attention"
    heat = HeatMap("attention of each label", unit, axes, rows, words, np.array(values), scores, "probability")
    none = "none has no attention of its own: its row is the mean of those of the aspect's labels"
    return [heat], [merge_note(merge, METHODS[0]), attention_note(questions, rows, elsewhere), none]


@torch.no_grad()
def _label_attention(predictor: TargetedPredictor, reading: Reading, label: int) -> np.ndarray:
    """(1, L): the attention of a label for the aspect of the reading; for "none" the mean over the aspect's labels."""
    attentions = predictor.model(**reading.inputs).label_attentions
    found = to_numpy(attentions[0])  # (V, L), or (1, L) if all labels share one
    if len(found) > 1:
        config = predictor.model.config
        aspects = len(config.aspects)
        found = found.reshape(aspects, -1, found.shape[1])[int(reading.inputs["context_ids"]) % aspects]
        opinions = [number for number in range(config.num_labels) if number != config.none_id]
        found = found[[opinions.index(label)]] if label in opinions else found.mean(axis=0, keepdims=True)
    return found


def _guided_maps(
    predictor: TargetedPredictor,
    questions: Sequence[Question],
    readings: Sequence[Reading],
    merge: Merge,
    layer: int,
    head: int,
) -> list[HeatMap]:
    """
    Heat maps of CG-BERT and QACG-BERT, with one row per context. Attention is summed over the queries, so that a column
    tells how much attention a word gets in all; gates belong to queries and are averaged over the pieces of a word.
    """
    model, config = predictor.model, predictor.model.config
    for name, value, count in (("layer", layer, config.num_hidden_layers), ("head", head, config.num_attention_heads)):
        if not 0 <= value < count:
            raise ValueError(f"`{name}` must lie in [0, {count}), got {value}.")
    quasi = config.model_type == "qacg-bert"
    names = ("A_self", "A_quasi", "λ_A·A_quasi", "A_self + λ_A·A_quasi") if quasi else ("attention",)
    gates = ("λ_A",) if quasi else ("λ_Q", "λ_K")
    words = shared_words(readings)
    values: dict[str, list[np.ndarray]] = {name: [] for name in (*names, *gates)}
    rows, scores = [], []
    for question, reading in zip(questions, readings, strict=True):
        outputs = outputs_with_attention(model, reading)
        probabilities = probabilities_of(predictor, reading)
        best = int(probabilities.argmax())
        rows.append(f"{question.name}: {predictor.labels[best]}")
        scores.append(float(probabilities[best]))
        attention = to_numpy(outputs.attentions[layer][0, head].sum(dim=0))  # (L,)
        sums = [attention]
        if quasi:
            combined = to_numpy(outputs.combined_attentions[layer][0, head].sum(dim=0))
            alone = config.quasi_alpha * to_numpy(outputs.quasi_attentions[layer][0, head].sum(dim=0))
            sums += [alone, combined - attention, combined]
        merged = reading.merged(np.stack(sums), merge)
        if quasi:  # all are divided by one number, so that the last is still the sum of the first and the third
            merged /= np.abs(merged[[0, 2, 3]]).max() or 1.0
        found = to_numpy(outputs.context_gates[layer][0, head])  # (L, 1), or (L, 2) for CG-BERT
        for name, row in zip((*names, *gates), (*merged, *reading.merged(found.T, "mean")), strict=True):
            values[name].append(row[: len(words)])
    where = f"layer {layer}, head {head}"
    maps = []
    for name, scored in values.items():
        unit = "attention, summed over the queries"
        if name in gates:
            unit = f"gate of the word as {'key' if name == 'λ_K' else 'query'}, mean over its pieces"
        elif quasi:
            unit += ", as a multiple of the context's largest value in the maps A_self, λ_A·A_quasi and their sum"
            if name == "A_quasi":
                unit += "; before the gate λ_A takes its share: values here may be far above 1"
        axes = (row_axis(questions, "label"), column_axis(merge))
        maps.append(HeatMap(f"{name}, {where}", unit, axes, rows, words, np.array(scored), scores, "probability"))
    return maps


# The functions of `Task` for `faithfulness`.


def row_questions(predictor: TargetedPredictor, rows: Dataset) -> list[Question]:
    """One question per row with an opinion."""
    names, (targets, aspects) = label_names(rows), context_names(rows)
    asked = rows.select([row for row, label in enumerate(rows["labels"]) if not is_none(names[label])])
    config = predictor.model.config
    of = [None] * len(asked) if targets is None else [targets[target] for target in asked["target"]]
    return [
        _question(config, text, target, aspects[aspect])
        for text, target, aspect in zip(asked["text"], of, asked["aspect"], strict=True)
    ]


def word_scores(predictor: TargetedPredictor, reading: Reading, label: int, method: str) -> np.ndarray:
    """
    (words,) float64. "attention" means the attention of the token that the classifier reads, in the last layer, mean over heads;
    for QACG-BERT the combined one, for label-aware attention that of the label.
    """
    model = predictor.model
    if method != METHODS[0]:
        return attribute_words(model, predictor.tokenizer, reading, label, method)[0]
    if all_aspects_at_once(model.config):
        return reading.merged(_label_attention(predictor, reading, label), "sum")[0]
    _, found = read_token_attention(model, reading, "combined_attentions", "attentions")
    return reading.merged(found.mean(axis=0), "sum")
