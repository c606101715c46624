# SPDX-License-Identifier: Apache-2.0
"""Rows of texts with terms."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ...data.rows import Rows
from ...io.lazily import datasets
from ...runtime.plain import text_processing


Term = tuple[Any, Any, str]  # start and end in the text, label


def add_text(rows: Rows, line: int, text: Any, terms: Iterable[Term], row_id: str) -> None:
    """
    Add a text, with a tag by name for each of its words, and with the `label` of each term, which is checked alone. A term that cuts a word gets all of it; a text with terms that overlap or lie
    outside is rejected.
    """
    if not text_processing.is_readable(text):
        return rows.reject(line, f"the text is empty or no string: {text!r}")
    words = text_processing.term_words(text)
    tags, labels = [text_processing.OUTSIDE] * len(words), []
    for start, end, label in terms:
        if not (type(start) is type(end) is int and 0 <= start < end <= len(text)):
            return rows.reject(
                line, f"a term must lie in the text (0 to {len(text)}), got start {start!r}, end {end!r}"
            )
        inside = [number for number, (first, behind) in enumerate(words) if first < end and behind > start]
        if not inside:
            return rows.reject(line, f"the term from {start} to {end} is blank: it must hold a word")
        if any(tags[number] != text_processing.OUTSIDE for number in inside):
            return rows.reject(
                line, f"the term {text[start:end]!r} ({start} to {end}) overlaps another one: keep one of them"
            )
        labels.append(label)
        for number in inside:
            tags[number] = f"{'B' if number == inside[0] else 'I'}-{label}"
    rows.rows.append({"id": row_id, "text": text, "words": words, "labels": tags, "label": labels, "line": line})
    return None


def to_dataset(rows: Rows, labels: Sequence[str]) -> datasets.Dataset:
    """The columns `id`, `text`, `words` ([start, end] of each word in the text) and `labels` (the tag of each word). ValueError: no rows."""
    return rows.to_dataset(
        text_processing.term_tags(labels),
        multi_label=True,
        columns={"words": datasets.List(datasets.List(datasets.Value("int64")))},
    )


def units(rows: datasets.Dataset) -> tuple[list[str], list[str]]:
    """Ids, ROW/NUMBER, of the words, and the texts with the word in brackets."""
    found = [
        (f"{row}/{number}", f"{text[:start]}[{text[start:end]}]{text[end:]}")
        for row, text, words in zip(rows["id"], rows["text"], rows["words"], strict=True)
        for number, (start, end) in enumerate(words, 1)
    ]
    return [name for name, _ in found], [text for _, text in found]
