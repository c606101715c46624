# SPDX-License-Identifier: Apache-2.0
"""What a model answers about a text with aspects."""

from typing import NotRequired

from ..results import Label, Readable


class Sentiment(Label):
    """The most probable label for an aspect, and for a target if the model knows targets."""

    target: NotRequired[str]
    aspect: str
    scores: NotRequired[dict[str, float]]
    """The probability of every label; from the service for `all_scores`."""


class SentimentResult(Readable):
    """The sentiment of a text towards every aspect."""

    sentiments: list[Sentiment]
