# SPDX-License-Identifier: Apache-2.0
"""What `predict` prints about the sentiment towards aspects, and the page of the service."""

from collections.abc import Sequence
from functools import partial

from ...runtime.names import METHODS
from ..base import Answer, Page, Table
from .predictor import TargetedPredictor


EXAMPLES = ("Lovely food, but we waited an hour for it.", "The staff were kind, the music was too loud.")
EXAMPLES_OF_TARGETS = (  # for the first and the last target
    "{first} is cheap, but I would not walk there at night.",
    "{first} is lively and close to the station, {last} is quiet and far from everything.",
)


def answer(
    predictor: TargetedPredictor, lines: list[str], targets: Sequence[str] | None = None, stream: bool = False
) -> Answer:
    """A target × aspect table for each text."""
    if stream:
        results, unread = predictor.predict_quietly(lines, targets)
    else:
        results, unread = predictor.predict(lines, targets=targets, progress=len(lines) > 1000)
    shown: list[Table | str] = []
    flat = []
    for text, items in zip(lines, results, strict=True):
        if len(lines) > 1 or stream:
            shown.append(text)
        aspects = list(dict.fromkeys(item["aspect"] for item in items))
        cells: dict[str, list[str]] = {}
        for item in items:
            cells.setdefault(item.get("target", ""), []).append(f"{item['label']} {item['score']:.2f}")
        for target, own in cells.items():
            found = ", ".join(map(" ".join, zip(aspects, own, strict=True)))
            flat.append([text, *[target] * ("target" in items[0]), found])
        if "target" in items[0]:
            shown.append(Table(["target", *aspects], [[target, *own] for target, own in cells.items()]))
        else:
            shown.append(Table(aspects, list(cells.values())))
    rows = [{"text": text, "sentiments": items} for text, items in zip(lines, results, strict=True)]
    return Answer(rows, unread, shown, flat)


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
