# SPDX-License-Identifier: Apache-2.0
"""Sentiment towards the aspects of targets over HTTP."""

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any

from pydantic import Field

from ..results import Readable
from ..service import Name, Request, Service, Texts, compute, without_scores
from .predictor import TargetedPredictor
from .results import Sentiment, SentimentResult
from .showing import EXAMPLES, EXAMPLES_OF_TARGETS, page


class SentimentRequest(Request):
    """Texts, and the targets to ask about."""

    inputs: Texts = Field(description="A text, or a list of texts.")
    targets: Annotated[list[Name], Field(min_length=1, fail_fast=True)] | None = Field(
        None, description="Targets to ask about in every text. Default: those that each text names."
    )
    all_scores: bool = Field(False, description="Give the probability of every label, too.")


def service(predictor: TargetedPredictor) -> Service:
    config = predictor.model.config
    text = EXAMPLES[0]
    if config.targets is not None:
        text = EXAMPLES_OF_TARGETS[0].format(first=config.targets[0], last=config.targets[-1])
    return Service(
        page=page(predictor),
        request=SentimentRequest,
        result=SentimentResult,
        example={"inputs": text},
        about={
            "labels": predictor.labels,
            "targets": config.targets,
            "target_texts": config.target_texts,
            "aspects": config.aspects,
        },
        read=read,
        compute=partial(compute, predictor),
        present=present,
    )


def read(request: SentimentRequest) -> tuple[list[str], dict[str, Any]]:
    return request.inputs, {} if request.targets is None else {"targets": request.targets}


def present(found: Sequence[tuple[list[Sentiment], Readable]], request: SentimentRequest) -> list[SentimentResult]:
    return [
        {"sentiments": items if request.all_scores else without_scores(items), **unread} for items, unread in found
    ]
