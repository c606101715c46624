# SPDX-License-Identifier: Apache-2.0
"""What a task says about itself to the service: what a request and an answer look like, and what the model does between them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from ..runtime.plain import text_processing
from .base import Page
from .predictor import LabelPredictor
from .results import Label, Readable


def check_readable(text: str) -> str:
    """The text, if it is readable; a validator for fields."""
    try:
        text_processing.check_text(text)
    except ValueError as error:
        raise PydanticCustomError("unreadable", "{message}", {"message": str(error)}) from None
    return text


def check_texts(texts: Any) -> Any:
    """What was given, if it is a text or a list; a validator for fields."""
    if not isinstance(texts, str | list):
        raise PydanticCustomError("texts", "write a text or a list of texts")
    return texts


def _several(texts: Any) -> Any:
    return [texts] if isinstance(check_texts(texts), str) else texts


Text = Annotated[str, AfterValidator(check_readable)]
# A list in Python; in JSON a single text will do.
Texts = Annotated[
    list[Text],
    Field(min_length=1, fail_fast=True),  # one error is told; a body may hold a hundred thousand
    BeforeValidator(_several, json_schema_input_type=str | Annotated[list[str], Field(min_length=1)]),
]
Name = Annotated[str, Field(max_length=200)]


class Request(BaseModel):
    """What all requests have."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    model: Name | None = Field(
        None, description="Name of a model in `/v1/models`. Default: the first one that this route can ask."
    )


class NoSession(ValueError):
    """A request names a session that the service does not have."""


def compute(predictor: LabelPredictor, texts: list[str], **options: Any) -> list[tuple[Any, Readable]]:
    """The result of each text, and what the model could not read in it, as `Unread.each` has it."""
    results, unread = predictor.predict_quietly(texts, **options)
    return list(zip(results, unread.each(), strict=True))


def cut(results: Sequence[Readable]) -> int:
    """How many results tell of a text that was cut."""
    return sum(result["truncated"] for result in results)


def without_scores(items: Sequence[Any]) -> list[Any]:
    """Items without the probability of every label."""
    return [{name: value for name, value in item.items() if name != "scores"} for item in items]


@dataclass(frozen=True)
class Scoring:
    """
    How texts get a score for every label.

    Attributes:
        read: (texts, truncate) -> (inputs of `Service.compute`, its options).
        scores: (what was found for one input, function) -> the score of every label, the largest first. The function is "sigmoid", "softmax",
            "none" (the logits) or None, that of the model.
    """

    read: Callable[[list[str], bool], tuple[list[Any], dict[str, Any]]]
    scores: Callable[[Any, Any], list[Label]]


@dataclass(frozen=True)
class Service:
    """
    How the service answers with a model.

    Attributes:
        request: the body of a request.
        result: one of the `results` of an answer, a type of `results.py`.
        page: what the page of the service shows.
        example: a body for the documentation.
        about: what `/v1/models` says of the model.
        read: request -> (inputs of `compute`, its options). ValueError for what no field's type can say.
        compute: (inputs, **options) -> what was found for each input. One thread calls it, with the inputs of all requests that wait and
            have the same options.
        present: (what was found for the request's inputs, request) -> its results, as `result` has them.
        cut: results -> how many of their texts were cut.
        from_page: (text, emotions, seed) of the page -> the body of a request that asks the same.
        scoring: for the routes of text-embeddings-inference and of the Inference API; None: the model gives a text no labels.
        streaming: of the route `ROUTE/turn`, where the inputs of a session come one by one; its `read` gives functions, and the option `call`.
    """

    request: type[Request]
    result: Any
    page: Page
    example: Mapping[str, Any]
    about: Mapping[str, Any]
    read: Callable[[Any], tuple[Iterable[Any], dict[str, Any]]]
    compute: Callable[..., Sequence[Any]]
    present: Callable[[Sequence[Any], Any], Sequence[Any]]
    from_page: Callable[[str, Sequence[str], int | None], Mapping[str, Any]] = lambda text, emotions, seed: {
        "inputs": text
    }
    cut: Callable[[Sequence[Any]], int] = cut
    scoring: Scoring | None = None
    streaming: "Service | None" = None
