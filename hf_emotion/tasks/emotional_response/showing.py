# SPDX-License-Identifier: Apache-2.0
"""What `evaluate` prints about replies, and the page of the service."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from ..base import Page, Table
from .predictor import ReplyGenerator


EXAMPLES = (
    "i lost my keys again",
    "we finally moved into our new flat",
    "my exam is tomorrow and i have not slept",
)


def figures(result: Mapping[str, Any], dataset: str, split: str, all_figures: bool) -> list[Table | str]:
    """
    Tables 1-3 of the paper (hits of each judge, shape of the replies, likeness to human replies), or one short table: hits of each
    judge in the emotion of the human reply, how often replies are identical, and the perplexity of human replies.
    """
    rows, published = result["rows"], result["published"]
    if not all_figures:
        judges = [(f"hits@1 by {judge}", "%") for judge in next(iter(rows.values()))["judges"]]
        columns = [*judges, ("ttr_2", ".2f"), ("identical_share", "%"), ("token_perplexity", ".1f")]
        found = [
            (
                row,
                {**own, **{f"hits@1 by {judge}": values["gold"]["hits@1"] for judge, values in own["judges"].items()}},
            )
            for row, own in rows.items()
        ]
        names = (f"{name}{', %' if form == '%' else ''}" for name, form in columns)
        return [Table([f"{dataset} {split} ({result['contexts']} contexts)", *names], _figure_rows(found, columns))]
    ks = (1, 3, 5)
    hits = [(f"{prefix}hits@{k}", "%") for prefix in ("", "macro_") for k in ks]
    shown: list[Table | str] = [
        f"{result['contexts']} contexts, {len(result['emotions'])} emotions, {result['settings']}"
    ]
    printed = [(f"published: {row}", values) for row, values in published.items()]
    for judge in next(iter(rows.values()))["judges"]:
        judged = [
            (f"{row}, {kind.replace('_', ' ')}", own)
            for row, values in rows.items()
            for kind, own in values["judges"][judge].items()
        ]
        titles = [f"Table 1, % by {judge}", *(f"Hits@{k}" for k in ks), *(f"macro @{k}" for k in ks)]
        shown.append(Table(titles, _figure_rows([*judged, *printed], hits)))
    shape = [("ttr_1", ".3f"), ("ttr_2", ".2f"), ("average_length", ".1f")]
    shape += [(name, "%") for name in ("stop_words", "repetition_rate", "identical_share")]
    likeness = [(f"bertscore_{name}", "%") for name in ("precision", "recall", "f1")]
    likeness = [("perplexity", ".1f"), *likeness, ("token_perplexity", ".1f"), ("token_perplexity_ngram", ".1f")]
    for title, columns in (("Table 2", shape), ("Table 3", likeness)):
        names = (f"{name}{', %' if form == '%' else ''}" for name, form in columns)
        shown.append(Table([title, *names], _figure_rows([*rows.items(), *printed], columns)))
    return [*shown, "perplexity: of a 5-gram model of the human replies"]


def _figure_rows(rows: Sequence[tuple[str, Mapping[str, Any]]], columns: list[tuple[str, str]]) -> list[list[str]]:
    """The rows that have at least one of the columns; a column is a name and a format, "%" for percent with one digit."""
    table = []
    for row, values in rows:
        found = [(values.get(name), form) for name, form in columns]
        if any(value is not None for value, _ in found):
            cells = (
                "" if value is None else f"{100 * value:.1f}" if form == "%" else format(value, form)
                for value, form in found
            )
            table.append([row, *cells])
    return table


def page(predictor: ReplyGenerator) -> Page:
    return Page(
        "Context",
        EXAMPLES,
        partial(table, predictor),
        ["likelihood"],
        None,
        button="Reply",
        emotions=predictor.emotions,
        arguments=lambda method, emotions: {"emotions": list(emotions) or predictor.emotions[:1]},
    )


def table(predictor: ReplyGenerator, text: str, emotions: Sequence[str], seed: int | None) -> Table:
    """A reply in each of the chosen emotions, or in every emotion of the model if none is chosen."""
    emotions = list(emotions) or predictor.emotions
    replies, unread = predictor.predict([text] * len(emotions), emotions, seed=seed)
    return Table(["emotion", "reply"], [list(row) for row in zip(emotions, replies, strict=True)], unread.each()[:1])
