# SPDX-License-Identifier: Apache-2.0
"""The page of the service for sentiment towards aspects."""

from collections.abc import Sequence
from functools import partial

from ...runtime.names import METHODS
from ..base import Page, Table
from .predictor import TargetedPredictor


EXAMPLES = ("Lovely food, but we waited an hour for it.", "The staff were kind, the music was too loud.")
EXAMPLES_OF_TARGETS = (  # for the first and the last target
    "{first} is cheap, but I would not walk there at night.",
    "{first} is lively and close to the station, {last} is quiet and far from everything.",
)


def page(predictor: TargetedPredictor) -> Page:
    targets = predictor.model.config.targets
    examples: Sequence[str] = EXAMPLES
    if targets is not None:
        examples = [text.format(first=targets[0], last=targets[-1]) for text in EXAMPLES_OF_TARGETS]
    return Page("Text", examples, partial(table, predictor), METHODS, METHODS[0])


def table(predictor: TargetedPredictor, text: str, emotions: Sequence[str], seed: int | None) -> Table:
    """A row for each target and aspect."""
    (items,), unread = predictor.predict_quietly(text)
    names = [name for name in ("target", "aspect", "label") if name in items[0]]
    rows = [[*(item[name] for name in names), f"{item['score']:.3f}"] for item in items]
    return Table([*names, "probability"], rows, unread.each())
