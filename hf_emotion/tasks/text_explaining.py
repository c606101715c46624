# SPDX-License-Identifier: Apache-2.0
"""
Explains models that classify texts, or the sentiment towards a target and an aspect in them. A predictor here is any object with
`model`, `tokenizer`, `max_length`, `gate`, `multi_label` and `warn_unread`.

Shapes: L tokens, C labels.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel

from ..modeling.text_processing import special_borders
from ..runtime.attribution import (
    GRADIENT_TITLE,
    GRADIENT_UNIT,
    STEPS,
    HeatMap,
    Merge,
    Reading,
    attribute_words,
    check_fast,
    check_names,
    column_axis,
    merge_note,
    neutral_token,
    outputs_with_attention,
    to_numpy,
    words_of,
)
from ..runtime.batching import encode_texts, pad_rows
from ..runtime.checkpoints import scores_of
from ..runtime.classifying import label_names
from ..runtime.names import METHODS
from ..runtime.torch_models import to_tensors
from ..runtime.unread import Counts, Unread
from ..runtime.windows import Windowing, split_windows


MATTERS = 0.2  # labels below this share of the best one's probability are left out


@dataclass(frozen=True)
class Question:
    """
    A question to a model about a text.

    Attributes:
        text: the text as the model reads it.
        name: the target and the aspect; None if the question is about the text as a whole.
        auxiliary: the second segment; None if there is none.
        context_id: the number of the context; None if there is none.
    """

    text: str
    name: str | None = None
    auxiliary: str | None = None
    context_id: int | None = None


def read_text(
    predictor: Any, question: Question, merge: Merge = "sum", windows: Windowing | None = None
) -> tuple[Reading, Unread]:
    """A text as the model reads it (a long one in `windows`, or else cut), and what the model cannot read of it."""
    tokenizer, config = predictor.tokenizer, predictor.model.config
    check_fast(tokenizer)
    segments = [[question.text]] if question.auxiliary is None else [[question.text], [question.auxiliary]]
    # `places`: the text as it is, whose words and tokens are counted below.
    encoded, unread = encode_texts(
        tokenizer, segments, predictor.max_length, predictor.gate, config, windows, places=True
    )
    encoded.pop("offset_mapping", None)
    if question.context_id is not None:
        encoded["context_ids"] = [question.context_id]
    text = question.text
    if predictor.gate is not None and config.tfidf_gating == "filter":
        text = predictor.gate.filter(text)
    if "documents" not in encoded:
        windows = None
    limit = {} if windows is not None else {"truncation": "only_first", "max_length": predictor.max_length}
    tokens = tokenizer(text, question.auxiliary, return_offsets_mapping=True, verbose=False, **limit)
    words, word_of = words_of(text, tokens, merge)
    if not words:
        raise ValueError(f"the tokenizer finds no word in {question.text!r}.")
    if windows is not None:
        rows = {"input_ids": [tokens["input_ids"]], "word_of": [word_of]}
        split, _, _ = split_windows(rows, windows, {0: special_borders(tokenizer, tokens, 0)})
        word_of = np.concatenate(split["word_of"])
        words = words[: word_of.max() + 1]
        encoded["document_ids"] = encoded.pop("documents")
    inputs = to_tensors(pad_rows(tokenizer, encoded), predictor.model)
    return Reading(inputs, words, word_of), unread


def read_texts(
    predictor: Any, questions: Sequence[Question], merge: Merge, windows: Windowing | None = None
) -> list[Reading]:
    """The text of each question as the model reads it, with warnings for what it cannot read."""
    readings, unread = zip(*(read_text(predictor, question, merge, windows) for question in questions), strict=True)
    predictor.warn_unread(Counts(*np.max([each.counts for each in unread], axis=0)))
    return list(readings)


@torch.no_grad()
def probabilities_of(predictor: Any, reading: Reading) -> np.ndarray:
    """(C,): probabilities of the model's own labels, even where a taxonomy rolls them up, or values of a regression."""
    return scores_of(predictor.model(**reading.inputs).logits[0].float().cpu().numpy(), predictor)


def score_name(predictor: Any) -> str:
    """What `probabilities_of` gives."""
    return "value" if predictor.model.config.problem_type == "regression" else "probability"


def chosen_labels(predictor: Any, probabilities: np.ndarray, labels: Sequence[str] | None, most: int) -> list[int]:
    """
    The numbers of the named labels. By default the most probable label and those with at least `MATTERS` times its probability, at
    most `most`.
    """
    if labels is not None:
        return check_names("labels", labels, label_names(predictor.model.config))
    best = np.argsort(-probabilities, kind="stable")[:most]
    return [int(label) for label in best if probabilities[label] >= MATTERS * probabilities[best[0]]]


def shared_words(readings: Sequence[Reading]) -> list[str]:
    """The words that all readings share: a longer auxiliary sentence leaves less room for the text."""
    return min((reading.words for reading in readings), key=len)


def left_out(questions: Sequence[Question]) -> str:
    return "left out: special tokens" + (" and the auxiliary sentence" if questions[0].auxiliary is not None else "")


def row_axis(questions: Sequence[Question], what: str) -> str:
    return what if questions[0].name is None else f"context: {what}"


# Attention


def refuse_labels(model: PreTrainedModel, labels: Sequence[str] | None) -> None:
    """ValueError if labels are given for an attention that all labels share."""
    if labels is not None:
        raise ValueError(
            f"`labels` do not go with attention, which is the same for all labels: use {', '.join(METHODS[1:])}."
        )


def read_token_attention(model: PreTrainedModel, reading: Reading, *names: str) -> tuple[str, np.ndarray]:
    """
    The attention of the token that a classifier reads, in the last layer, from the first of the outputs `names` that the model has:
    ("first", or "last" for decoder-only models, whose first token sees nothing but itself; (heads, L)).
    """
    outputs = outputs_with_attention(model, reading)
    layers = next((outputs[name] for name in names if outputs.get(name)), None)
    if not layers:
        raise ValueError(f"a {model.config.model_type!r} model returns no attention: use {', '.join(METHODS[1:])}.")
    attention = to_numpy(layers[-1][0])
    which, row = ("first", 0) if attention[:, 0, 1:].any() else ("last", -1)
    return which, attention[:, row]


def head_map(
    title: str, questions: Sequence[Question], readings: Sequence[Reading], found: Sequence[np.ndarray], merge: Merge
) -> tuple[HeatMap, str]:
    """
    Heat map of the attention (heads, L) for each question, and a note on what is left out. Rows are the mean of the heads
    and, for a single question, each head.
    """
    words = shared_words(readings)
    rows, values, elsewhere = [], [], []
    for question, reading, heads in zip(questions, readings, found, strict=True):
        mean = heads.mean(axis=0, keepdims=True)
        shown, names = mean, ["mean of heads"]
        if len(questions) == 1:
            shown = np.concatenate([mean, heads])
            names += [f"head {number}" for number in range(len(heads))]
        rows += [": ".join(part for part in (question.name, name) if part) for name in names]
        values.append(reading.merged(shown, merge)[:, : len(words)])
        elsewhere += list(reading.elsewhere(shown))
    axes = (row_axis(questions, "head"), column_axis(merge))
    heat = HeatMap(title, "share of the attention", axes, rows, words, np.concatenate(values))
    return heat, attention_note(questions, rows, elsewhere)


def attention_note(questions: Sequence[Question], rows: Sequence[str], elsewhere: Sequence[float]) -> str:
    """What is left out, and the share of each row's attention that falls on it."""
    held = ", ".join(f"{name} {share:.2f}" for name, share in zip(rows, elsewhere, strict=True))
    return f"{left_out(questions)}, which hold this share of the attention: {held}"


def read_token_map(
    predictor: Any, questions: Sequence[Question], readings: Sequence[Reading], merge: Merge
) -> tuple[list[HeatMap], list[str]]:
    """Heat map and notes for the classifiers of transformers."""
    which, found = zip(
        *(read_token_attention(predictor.model, reading, "attentions") for reading in readings), strict=True
    )
    heat, note = head_map(f"attention of the {which[0]} token in the last layer", questions, readings, found, merge)
    return [heat], [merge_note(merge, METHODS[0]), note]


# Gradients, integrated gradients and occlusion

TITLES = {  # of these methods, and the units of their scores
    "gradient": (GRADIENT_TITLE, GRADIENT_UNIT),
    "integrated-gradients": ("integrated gradients", "logit"),
    "occlusion": ("occlusion: what the logit loses without the word", "logit"),
}


@dataclass(frozen=True)
class Row:
    """A row of a heat map: its name, the text, the logit that its words are scored for (see `attribute_words`), and the score that it shows."""

    name: str
    reading: Reading
    logit: int | tuple[int, int]
    score: float


def score_map(
    predictor: Any,
    questions: Sequence[Question],
    readings: Sequence[Reading],
    labels: Sequence[str] | None,
    most: int,
    method: str,
    merge: Merge,
) -> tuple[list[HeatMap], list[str]]:
    """Heat map and notes. Rows are labels: for each question the named labels, or else the result of `chosen_labels`."""
    names, rows = label_names(predictor.model.config), []
    for question, reading in zip(questions, readings, strict=True):
        probabilities = probabilities_of(predictor, reading)
        for label in chosen_labels(predictor, probabilities, labels, most):
            name = ": ".join(part for part in (question.name, names[label]) if part)
            rows.append(Row(name, reading, label, float(probabilities[label])))
    return rows_map(predictor, questions, rows, row_axis(questions, "label"), method, merge)


def rows_map(
    predictor: Any, questions: Sequence[Question], rows: Sequence[Row], axis: str, method: str, merge: Merge
) -> tuple[list[HeatMap], list[str]]:
    """Heat map and notes of these rows; `axis`: what they are."""
    model, tokenizer = predictor.model, predictor.tokenizer
    words = shared_words([row.reading for row in rows])
    values, gaps = [], []
    for row in rows:
        attribution, gap = attribute_words(model, tokenizer, row.reading, row.logit, method, merge)
        values.append(attribution[: len(words)])
        gaps.append(gap)
    notes = [merge_note(merge, method), left_out(questions)]
    if method != "gradient":
        notes.append(f"tokens are replaced by {tokenizer.convert_ids_to_tokens(neutral_token(tokenizer))}")
    if method == "integrated-gradients":
        notes.append(f"{STEPS} steps; sums differ from the difference of the logits by at most {max(gaps):.2g}")
    axes, names, scores = (axis, column_axis(merge)), [row.name for row in rows], [row.score for row in rows]
    return [HeatMap(*TITLES[method], axes, names, words, np.array(values), scores, score_name(predictor))], notes
