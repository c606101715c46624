# SPDX-License-Identifier: Apache-2.0
"""What a model answers about a text."""

from typing import Annotated, NotRequired

from ..results import Doc, Label, Readable


class EmotionResult(Readable):
    """The emotions of a text, the most probable first, or all values in the model's order."""

    labels: Annotated[
        list[Label],
        Doc(
            'Of the text. A single "abstained" has the largest probability as score: the model has an `abstention` and is not sure enough.'
        ),
    ]
    scores: NotRequired[Annotated[dict[str, float], Doc("The probability of every label, for `all_scores`.")]]
