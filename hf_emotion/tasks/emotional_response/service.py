# SPDX-License-Identifier: Apache-2.0
"""Replies in chosen emotions over HTTP."""

import itertools
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Annotated, Any

from pydantic import Field

from ..results import Readable
from ..service import Name, Request, Service, Texts
from .predictor import ReplyGenerator, decoding
from .results import Reply, ReplyResult
from .showing import EXAMPLES, page


Mixture = Annotated[dict[Name, Annotated[float, Field(ge=0)]], Field(min_length=1)]
Small = Annotated[int, Field(ge=1, le=1024)]

_alone = itertools.count()  # a request with a seed shares no batch: what is drawn depends on the batch


class ReplyRequest(Request):
    """Contexts, emotions to reply in, and how to generate."""

    inputs: Texts = Field(description="A context, or a list of contexts.")
    emotions: Annotated[list[Name | Mixture], Field(min_length=1, fail_fast=True)] | None = Field(
        None, description="Emotions, or mixtures {name: weight}; a reply in each of them. Default: all of the model."
    )
    do_sample: bool | None = Field(None, description="Draw each token, or take the most probable one.")
    top_k: Annotated[int, Field(ge=0, le=100_000)] | None = Field(
        None, description="Draw from the k most probable tokens."
    )
    top_p: Annotated[float, Field(gt=0, le=1)] | None = Field(
        None, description="Draw from the most probable tokens that together have this probability."
    )
    temperature: Annotated[float, Field(ge=0.01, le=100)] | None = Field(
        None, description="Draw more freely above 1, less below 1."
    )
    num_beams: Annotated[int, Field(ge=1, le=16)] | None = Field(
        None, description="Beams of beam search, which draws only with `do_sample`."
    )
    max_new_tokens: Small | None = Field(None, description="Tokens of a reply at most.")
    seed: Annotated[int, Field(ge=0, lt=2**32)] | None = Field(
        None, description="Seed for sampling; such a request is computed by itself."
    )


def service(predictor: ReplyGenerator) -> Service:
    return Service(
        page=page(predictor),
        request=ReplyRequest,
        result=ReplyResult,
        example={"inputs": EXAMPLES[0], "emotions": predictor.emotions[:2], "do_sample": False},
        about={"emotions": predictor.emotions},
        read=partial(read, predictor),
        compute=partial(compute, predictor),
        present=partial(present, predictor),
        from_page=from_page,
    )


def read(predictor: ReplyGenerator, request: ReplyRequest) -> tuple[Iterable[tuple[str, Any]], dict[str, Any]]:
    options = {
        name: value
        for name in ("do_sample", "top_k", "top_p", "temperature", "num_beams", "max_new_tokens", "seed")
        if (value := getattr(request, name)) is not None
    }
    options = decoding(options)
    if "seed" in options:
        options["alone"] = next(_alone)
    emotions = request.emotions or predictor.emotions
    return itertools.product(request.inputs, emotions), options


def compute(
    predictor: ReplyGenerator, pairs: list[tuple[str, Any]], alone: int | None = None, **options: Any
) -> list[tuple[str, Readable]]:
    """The reply to each context in its emotion, and what the model could not read, as `Unread.each` has it."""
    contexts, emotions = (list(values) for values in zip(*pairs, strict=True))
    replies, unread = predictor.predict(contexts, emotions, **options)
    return list(zip(replies, unread.each(), strict=True))


def present(
    predictor: ReplyGenerator, found: Sequence[tuple[str, Readable]], request: ReplyRequest
) -> list[ReplyResult]:
    emotions = request.emotions or predictor.emotions
    results: list[ReplyResult] = []
    for start in range(0, len(found), len(emotions)):
        own = found[start : start + len(emotions)]
        replies: list[Reply] = [
            {"emotion": emotion, "reply": one[0]} for emotion, one in zip(emotions, own, strict=True)
        ]
        results.append({"replies": replies, **own[0][1]})
    return results


def from_page(text: str, emotions: Sequence[str], seed: int | None) -> dict[str, Any]:
    body: dict[str, Any] = {"inputs": text}
    if emotions:
        body["emotions"] = list(emotions)
    if seed is not None:
        body["seed"] = seed
    return body
