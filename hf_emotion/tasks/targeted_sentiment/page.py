# SPDX-License-Identifier: Apache-2.0
"""The page of the service for sentiment towards aspects."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from ...runtime.names import METHODS
from ...runtime.plain import text_processing
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
    return Page("Text", examples, partial(table, predictor), question, METHODS, METHODS[0])


def table(predictor: TargetedPredictor, text: str, emotions: Sequence[str], seed: int | None) -> Table:
    """A row for each target and aspect."""
    config = predictor.model.config
    if config.targets is not None and not text_processing.targets_in(config, text):
        raise ValueError(
            f"The text names none of the model's targets, {', '.join(config.targets)}: write one of them where the text "
            "speaks of it."
        )
    items = predictor(text)[0]
    names = [name for name in ("target", "aspect", "label") if name in items[0]]
    return Table(
        [*names, "probability"], [[*(item[name] for name in names), f"{item['score']:.3f}"] for item in items]
    )


def question(text: str, method: str, emotions: Sequence[str]) -> tuple[str, dict[str, Any]]:
    return text, {"method": method}
