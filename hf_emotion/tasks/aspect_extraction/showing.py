# SPDX-License-Identifier: Apache-2.0
"""What `predict` prints about the terms of texts."""

from ..base import Answer, Marked, Table
from .predictor import AspectPredictor
from .results import AspectTerm


COLOURS = {"positive": "green", "negative": "red", "neutral": "yellow"}
OTHER = "cyan"  # of labels of one's own files
HEADER = ["term", "sentiment", "probability", "place"]


def answer(predictor: AspectPredictor, lines: list[str], group: bool = False, stream: bool = False) -> Answer:
    """Each text with its terms in colour and a table of them; with `group` one table of the groups."""
    if stream:
        results, unread = predictor.predict_quietly(lines)
    else:
        results, unread = predictor.predict(lines, progress=len(lines) > 1000)
    shown: list[Table | str | Marked] = []
    for text, terms in zip(lines, results, strict=True):
        shown.append(Marked(text, [(term["start"], term["end"], COLOURS.get(term["label"], OTHER)) for term in terms]))
        shown.append(Table(HEADER, cells(terms)) if terms else "no term")
    if group:
        from .grouping import group_terms

        shown = [group_terms(results)]
    return Answer([{"text": text, "terms": terms} for text, terms in zip(lines, results, strict=True)], unread, shown)


def cells(terms: list[AspectTerm]) -> list[list[str]]:
    """A row for each term."""
    return [[term["term"], term["label"], f"{term['score']:.3f}", f"{term['start']}-{term['end']}"] for term in terms]
