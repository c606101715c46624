# SPDX-License-Identifier: Apache-2.0
"""The terms of texts over HTTP."""

from collections.abc import Sequence
from functools import partial

from pydantic import Field

from ...runtime.plain import text_processing
from ..results import Readable
from ..service import Request, Service, Texts, compute
from .predictor import AspectPredictor
from .results import AspectTerm, TermsResult
from .showing import EXAMPLES, page


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
        read=lambda request: (request.inputs, {}),
        compute=partial(compute, predictor),
        present=present,
    )


def present(found: Sequence[tuple[list[AspectTerm], Readable]], request: TermsRequest) -> list[TermsResult]:
    return [{"terms": terms, **unread} for terms, unread in found]
