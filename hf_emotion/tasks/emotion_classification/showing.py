# SPDX-License-Identifier: Apache-2.0
"""What `predict` prints about the emotions of texts."""

from typing import Any

from ...runtime.batching import as_texts
from ..base import Answer, Table
from .predictor import Predictor


def answer(predictor: Predictor, lines: list[str], top_k: int | None = None, stream: bool = False) -> Answer:
    if stream:
        results, unread = predictor.of_items(as_texts(lines), top_k)
    else:
        results, unread = predictor.predict(lines, top_k=top_k, progress=len(lines) > 1000)
    rows: list[dict[str, Any]] = [{"text": text, "labels": items} for text, items in zip(lines, results, strict=True)]
    found = [", ".join(f"{item['label']} {item['score']:.3f}" for item in items) or "-" for items in results]
    cells = [*zip(lines, found, strict=True)]
    if len(lines) > 1 or stream:
        return Answer(rows, unread, [*map("\t".join, cells)], cells)
    items = [[item["label"], f"{item['score']:.3f}"] for item in results[0]]
    table = Table(["label", "value" if predictor.regression else "probability"], items)
    nothing = "no label passes its threshold (--top-k 3 shows the most probable)"
    return Answer(rows, unread, [table if items else nothing], cells)
