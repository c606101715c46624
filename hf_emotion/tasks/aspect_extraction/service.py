# SPDX-License-Identifier: Apache-2.0
"""The terms of texts over HTTP."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from pydantic import Field

from ...runtime.plain import text_processing
from ..results import Readable
from ..service import Request, Service, Texts
from .predictor import AspectPredictor
from .results import AspectTerm, TermsResult
from .showing import EXAMPLES, page


Found = tuple[list[AspectTerm], Readable]  # of a text


class TermsRequest(Request):
    """Texts."""

    inputs: Texts = Field(description="A text, or a list of texts.")


def service(predictor: AspectPredictor) -> Service:
    return Service(
        page=page(predictor),
        request=TermsRequest,
        result=TermsResult,
        example={"inputs": EXAMPLES[0]},
        about={"labels": text_processing.tag_labels(predictor.labels)},
        read=read,
        compute=partial(compute, predictor),
        present=present,
    )


def read(request: TermsRequest) -> tuple[list[str], dict[str, Any]]:
    return request.inputs, {}


def compute(predictor: AspectPredictor, texts: list[str]) -> list[Found]:
    """The terms of each text, and what the model could not read in it, as `Unread.each` has it."""
    results, unread = predictor.predict_quietly(texts)
    return list(zip(results, unread.each(), strict=True))


def present(found: Sequence[Found], request: TermsRequest) -> list[TermsResult]:
    return [{"terms": terms, **unread} for terms, unread in found]
