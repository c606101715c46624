# SPDX-License-Identifier: Apache-2.0
"""The page of the service for the terms of a text."""

from collections.abc import Sequence
from functools import partial

from ...runtime.names import METHODS
from ..base import Page, Table
from .predictor import AspectPredictor
from .showing import HEADER, cells


EXAMPLES = (
    "The pizza was cold but our waiter was lovely.",
    "Great screen, but the battery is empty by noon and the support never answers.",
)


def page(predictor: AspectPredictor) -> Page:
    return Page("Text", EXAMPLES, partial(table, predictor), METHODS[1:], METHODS[1])


def table(predictor: AspectPredictor, text: str, emotions: Sequence[str], seed: int | None) -> Table:
    """A row for each term."""
    (terms,), unread = predictor.predict_quietly(text)
    return Table(HEADER, cells(terms), unread.each())
