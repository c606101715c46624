# SPDX-License-Identifier: Apache-2.0
"""What a model answers about a text."""

from typing import NotRequired

from ..results import Label, Readable


class EmotionResult(Readable):
    """The emotions of a text, the most probable first, or all values in the model's order."""

    labels: list[Label]
    """One label "abstained" with the largest probability as score, if the model has an `abstention` and is not sure enough."""
    scores: NotRequired[dict[str, float]]
    """The probability of every label, for `all_scores`."""
