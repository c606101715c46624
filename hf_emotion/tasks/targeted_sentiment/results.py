# SPDX-License-Identifier: Apache-2.0
"""What a model answers about a text with aspects."""

from typing import Annotated, NotRequired

from ..results import Doc, Label, Readable


class Sentiment(Label):
    """The most probable label for an aspect, and for a target if the model knows targets."""

    target: NotRequired[Annotated[str, Doc("The target, if the model knows targets.")]]
    aspect: Annotated[str, Doc("The aspect.")]
    scores: NotRequired[
        Annotated[dict[str, float], Doc("The probability of every label; from the service for `all_scores`.")]
    ]


class SentimentResult(Readable):
    """The sentiment of a text towards every aspect."""

    sentiments: Annotated[list[Sentiment], Doc("One for each aspect, of each target.")]
