# SPDX-License-Identifier: Apache-2.0
"""Emotions of texts over HTTP."""

import copy
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import Field

from ...runtime.checkpoints import scores_of, to_probabilities
from ...runtime.classifying import TextRows, encode_rows, encoded_logits
from ...runtime.plain import text_processing
from ...taxonomies import TAXONOMIES, Taxonomy
from ..results import Label, Readable
from ..service import Name, Request, Scoring, Service, Texts
from .predictor import Predictor
from .results import EmotionResult
from .showing import EXAMPLES, page


Probability = Annotated[float, Field(ge=0, le=1)]


class EmotionRequest(Request):
    """Texts, and which of their emotions the answer has."""

    inputs: Texts = Field(description="A text, or a list of texts.")
    top_k: Annotated[int, Field(ge=1)] | None = Field(
        None,
        description="The k most probable labels (or highest values). Default: the labels above their thresholds, the model's abstention or "
        "prediction set, or all values.",
    )
    taxonomy: Taxonomy | None = Field(None, description="Roll the 28 GoEmotions labels up into these groups.")
    thresholds: Probability | dict[Name, Probability] | None = Field(
        None,
        description="One threshold for all labels, or one for each label named. Default: those of the model, or its prediction sets.",
    )
    all_scores: bool = Field(False, description="Give the probability (or value) of every label, too.")


class Found(NamedTuple):
    """The model's logits (C,) for a text, and what it could not read, as `Unread.each` has it."""

    logits: np.ndarray
    unread: Readable


def service(predictor: Predictor) -> Service:
    taxonomies = list(TAXONOMIES) if set(predictor.labels) == set(TAXONOMIES["goemotions"]) else []
    return Service(
        page=page(predictor),
        request=EmotionRequest,
        result=EmotionResult,
        example={"inputs": ["I got the job!", EXAMPLES[1]], "top_k": 3},
        about={
            "labels": predictor.labels,
            "multi_label": predictor.multi_label,
            "thresholds": dict(zip(predictor.labels, predictor.thresholds.tolist(), strict=True))
            if predictor.multi_label
            else None,
            "taxonomies": taxonomies,
            "windows": asdict(predictor.windows),
            "abstention": getattr(predictor.model.config, "abstention", None),
            "prediction_sets": getattr(predictor.model.config, "prediction_sets", None),
            "tells_unlike": predictor.tells_unlike,
            "value_range": predictor.model.config.value_range if predictor.regression else None,
        },
        read=partial(read, predictor),
        compute=partial(compute, predictor),
        present=partial(present, predictor),
        scoring=Scoring(
            read=lambda texts, truncate: (texts, {"truncate": True} if truncate else {}),
            scores=partial(scores, predictor),
        ),
    )


def read(predictor: Predictor, request: EmotionRequest) -> tuple[list[str], dict[str, Any]]:
    _as_asked(predictor, request)  # before the request waits
    return request.inputs, {}


def compute(predictor: Predictor, texts: list[str], truncate: bool = False) -> list[Found]:
    """Long texts are read whole, in windows; with `truncate` only their first window."""
    windows = replace(predictor.windows, most=1) if truncate else predictor.windows
    encoded = encode_rows(predictor, TextRows(texts), windows)
    logits = encoded_logits(predictor, encoded)
    return [Found(*row) for row in zip(logits, encoded.unread.each(), strict=True)]


def present(predictor: Predictor, found: Sequence[Found], request: EmotionRequest) -> list[EmotionResult]:
    view = _as_asked(predictor, request)
    probabilities = scores_of(np.stack([one.logits for one in found]), predictor)
    answers = view.present(probabilities, request.top_k, view.thresholds_of(request.inputs))
    results: list[EmotionResult] = [
        {"labels": labels, **one.unread} for labels, one in zip(answers, found, strict=True)
    ]
    if request.all_scores:
        for result, row in zip(results, view.roll_up(probabilities).tolist(), strict=True):
            result["scores"] = dict(zip(view.labels, row, strict=True))
    return results


def _as_asked(predictor: Predictor, request: EmotionRequest) -> Predictor:
    """The predictor with the taxonomy and the thresholds of a request."""
    if request.taxonomy is None and request.thresholds is None:
        return predictor
    if request.thresholds is not None and not predictor.multi_label:
        gives = "values" if predictor.regression else "the most probable"
        raise ValueError(f"`thresholds` are for models that give several labels: this one gives {gives}.")
    if request.thresholds is not None and request.top_k is not None:
        raise ValueError("`thresholds` and `top_k` exclude each other: leave one out.")
    view = copy.copy(predictor)  # the model is shared
    if isinstance(request.thresholds, dict):
        view.use_thresholds(request.thresholds)
    elif request.thresholds is not None:
        view.use_thresholds([request.thresholds] * len(predictor.labels))
    if request.taxonomy is not None:
        view.use_taxonomy(request.taxonomy)
    return view


def scores(predictor: Predictor, found: Found, function: Literal["sigmoid", "softmax", "none"] | None) -> list[Label]:
    values = found.logits
    if predictor.regression and function is None:
        values = scores_of(values, predictor)
    elif function != "none":
        multi_label = predictor.multi_label if function is None else function == "sigmoid"
        values = to_probabilities(values, multi_label, text_processing.temperature_of(predictor.model.config))
    order = np.argsort(-values, kind="stable")
    return [{"label": predictor.labels[i], "score": float(values[i])} for i in order]
