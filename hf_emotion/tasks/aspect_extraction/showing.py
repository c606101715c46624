# SPDX-License-Identifier: Apache-2.0
"""What `predict` prints about the terms of texts, and the page of the service."""

from collections.abc import Sequence
from functools import partial

from ...runtime.names import METHODS
from ..base import Answer, Marked, Page, Table
from .predictor import AspectPredictor
from .results import AspectTerm


COLOURS = {"positive": "green", "negative": "red", "neutral": "yellow"}
OTHER = "cyan"  # of labels of your own files
HEADER = ["term", "sentiment", "probability", "place"]
EXAMPLES = (
    "The pizza was cold but our waiter was lovely.",
    "Great screen, but the battery is empty by noon and the support never answers.",
)


def answer(predictor: AspectPredictor, lines: list[str], group: bool = False, stream: bool = False) -> Answer:
    """A text with its terms in colour and a table of them; for several texts a line each; with `group` one table of the groups."""
    if stream:
        results, unread = predictor.predict_quietly(lines)
    else:
        results, unread = predictor.predict(lines, progress=len(lines) > 1000)
    rows = [{"text": text, "terms": terms} for text, terms in zip(lines, results, strict=True)]
    if group:
        from .grouping import group_terms

        groups = group_terms(results)
        return Answer(rows, unread, [groups], [groups.header, *groups.rows])
    shown: list[Table | str | Marked] = []
    found = [", ".join(map(" ".join, cells(terms))) or "-" for terms in results]
    for text, terms, line in zip(lines, results, found, strict=True):
        marks = [(term["start"], term["end"], COLOURS.get(term["label"], OTHER)) for term in terms]
        if len(lines) > 1 or stream:
            shown.append(Marked(f"{text}\t{line}", marks))
        else:
            shown += [Marked(text, marks), Table(HEADER, cells(terms)) if terms else "no term"]
    return Answer(rows, unread, shown, [*zip(lines, found, strict=True)])


def cells(terms: list[AspectTerm]) -> list[list[str]]:
    """A row for each term."""
    return [[term["term"], term["label"], f"{term['score']:.3f}", f"{term['start']}-{term['end']}"] for term in terms]


def page(predictor: AspectPredictor) -> Page:
    return Page("Text", EXAMPLES, partial(table, predictor), METHODS[1:], METHODS[1])


def table(predictor: AspectPredictor, text: str, emotions: Sequence[str], seed: int | None) -> Table:
    """A row for each term."""
    (terms,), unread = predictor.predict_quietly(text)
    return Table(HEADER, cells(terms), unread.each())
