# SPDX-License-Identifier: Apache-2.0
"""What `predict` prints about the emotions of texts, and the page of the service."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from ...runtime.batching import as_texts
from ...runtime.names import METHODS
from ...runtime.plain import text_processing
from ..base import Answer, Page, Table
from .predictor import Predictor


ABSTAINED = text_processing.ABSTAINED
LABELS_SHOWN = 10  # rows of the table; more if more labels pass their thresholds
EXAMPLES = (
    "Thank you so much for waiting with me, that was really kind!",
    "The bus left while I was still buying the ticket.",
    "Wait, they moved the wedding to a Tuesday? Why?",
    "I still miss my grandmother every day.",
)


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


def page(predictor: Predictor) -> Page:
    return Page("Text", EXAMPLES, partial(table, predictor), METHODS, METHODS[0])


def table(predictor: Predictor, text: str, emotions: Sequence[str], seed: int | None) -> Table:
    """Labels with their probabilities, the most probable first, or values."""
    encoded = predictor.encode(text)
    probabilities, unread = predictor.label_probabilities(encoded), encoded.unread.each()
    if predictor.regression:
        rows = [[item["label"], f"{item['score']:.2f}"] for item in predictor.present(probabilities)[0]]
        return Table(["label", "value"], rows, unread)
    thresholds = predictor.thresholds_of([text])
    (answer,), (scores,) = predictor.present(probabilities, thresholds=thresholds), probabilities
    given = {item["label"] for item in answer}
    rows = []
    if ABSTAINED in given:
        rows.append([ABSTAINED, f"{answer[0]['score']:.3f}", *([""] if predictor.multi_label else []), "✓"])
    for rank, label in enumerate(np.argsort(-scores, kind="stable")):
        chosen = predictor.labels[label] in given
        if rank < LABELS_SHOWN or chosen:
            threshold = [f"{thresholds[0, label]:.3f}"] if predictor.multi_label else []
            rows.append([predictor.labels[label], f"{scores[label]:.3f}", *threshold, "✓" if chosen else ""])
    threshold = ["threshold"] if predictor.multi_label else []
    return Table(["label", "probability", *threshold, "predicted"], rows, unread)
