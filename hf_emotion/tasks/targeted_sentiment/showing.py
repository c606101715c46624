# SPDX-License-Identifier: Apache-2.0
"""What `predict` prints about the sentiment towards aspects."""

from collections.abc import Sequence

from ..base import Answer, Table
from .predictor import TargetedPredictor


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
