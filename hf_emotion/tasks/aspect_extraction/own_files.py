# SPDX-License-Identifier: Apache-2.0
"""Loads one's own texts with terms from JSONL, CSV, TSV, Parquet or CoNLL files."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ...data.files import SPLIT_STEMS
from ...data.lazily import datasets
from ...data.own_files import (
    check_columns,
    known_names,
    name_of,
    names_of,
    own_files,
    read_name,
    read_own,
    with_validation,
)
from ...data.rows import BadRow, OnBadRows, Rows, decode
from ...data.splits import split_by_text
from ...runtime.plain import text_processing
from .rows import Term, add_text, to_dataset


CONLL = ".conll"


def load_term_files(
    data_dir: str | Path | None = None,
    text_column: str = "text",
    terms_column: str = "terms",
    term_column: str = "term",
    label_column: str = "label",
    start_column: str | None = None,
    labels: Sequence[str] | None = None,
    validation_fraction: float = 0.1,
    on_bad_rows: OnBadRows = "error",
    separator: str | None = None,
) -> datasets.DatasetDict:
    """
    One's own files. JSONL or Parquet with a text a row: `terms` is a list of {"start", "end", "label"}, in characters, and of "term", if it is
    there, `text[start:end]`. CSV, TSV, JSONL or Parquet with a term a row, the rows of a text one after the other: its text, the term, its label, and
    if there is such a column its start; else the first row of a term is its first place in the text, the second row the second one. A row with an
    empty term stands for a text without any. CoNLL (.conll): a token and its tag (B-LABEL, I-LABEL, O) a line, an empty line between texts.

    Args:
        data_dir: a folder with `train.*` and optionally `validation.*` (also valid, val, dev) and `test.*`; or one file, which is then the
            training part.
        text_column ... start_column: column names.
        labels: the labels in their order. None: those in the training part, sorted.
        validation_fraction, on_bad_rows, separator: as for `load_aspect_files`.
    """
    own = own_files(data_dir, labels=labels) if not (conll := _conll_files(data_dir)) else {}
    parsed = {split: _read_conll(path, on_bad_rows) for split, path in conll.items()}
    columns = [text_column, term_column, label_column, *([] if start_column is None else [start_column])]
    for split, path in own.items():
        found: list[tuple[int, str, list[Term]]] = []
        add = partial(_add, split, found, columns, terms_column)
        parsed[split] = read_own(path, on_bad_rows, columns, separator, add)
        for line, text, terms in found:
            add_text(parsed[split], line, text, terms, f"{split}-{line}")
    names = names_of(labels) or sorted({tag[2:] for row in parsed["train"].rows for tag in row["labels"]} - {""})
    if not names:
        raise ValueError(f"{parsed['train'].source} has no terms: a model needs some to learn from.")
    known_names(parsed, "labels", text_processing.term_tags(names))
    splits = {split: to_dataset(rows, names) for split, rows in parsed.items()}
    return with_validation(splits, validation_fraction, split_by_text)


def _add(
    split: str,
    found: list[tuple[int, str, list[Term]]],
    columns: list[str],
    listed: str,
    rows: Rows,
    line: int,
    row: dict[str, Any],
) -> None:
    """A row with all terms of a text, or with one term: then it waits in `found` for the others."""
    text = row.get(columns[0])
    if listed in row:
        terms = row[listed] or []
        if not isinstance(terms, list) or not all(
            isinstance(term, dict) and {"start", "end", "label"} <= term.keys() for term in terms
        ):
            raise BadRow(f"{listed!r} must be a list of objects with start, end and label, got {terms!r}")
        for term in terms:
            held = (
                text[term["start"] : term["end"]]
                if isinstance(text, str) and type(term["start"]) is type(term["end"]) is int
                else None
            )
            if held is not None and term.get("term") not in (None, held):
                raise BadRow(
                    f"from {term['start']} to {term['end']} the text has {held!r}, and not the term {term['term']!r}"
                )
        return add_text(
            rows,
            line,
            text,
            [(term["start"], term["end"], read_name(term["label"], "label")) for term in terms],
            f"{split}-{line}",
        )
    check_columns(
        rows.source,
        line,
        row,
        columns,
        "text_column, term_column, label_column, start_column, or terms_column for a list of terms",
    )
    if not text_processing.is_readable(text):
        return rows.reject(line, f"the text is empty or no string: {text!r}")
    if not found or found[-1][1] != text:
        found.append((line, text, []))
    terms = found[-1][2]
    term = row[columns[1]]
    if term is None or term == "":
        return None
    if not isinstance(term, str):
        raise BadRow(f"the term must be a string, or empty for a text without terms, got {term!r}")
    if len(columns) > 3:
        given = name_of(row[columns[3]])
        starts = [int(given)] if given.isdecimal() and text.startswith(term, int(given)) else []
    else:
        words = text_processing.term_words(text)
        borders = {start for start, _ in words}, {end for _, end in words}
        places = [i for i in range(len(text)) if text.startswith(term, i)]
        whole = [i for i in places if i in borders[0] and i + len(term) in borders[1]]
        taken = {start for start, _, _ in terms}
        starts = [i for i in whole or places if i not in taken]
    if not starts:
        raise BadRow(f"the text does not hold the term {term!r} (there, or so often): {text!r}")
    terms.append((starts[0], starts[0] + len(term), read_name(row[columns[2]], columns[2])))
    return None


def _conll_files(data_dir: str | Path | None) -> dict[str, Path]:
    """The CoNLL files by split; empty if there is none."""
    place = Path(data_dir or "")
    if data_dir is None or place.is_file():
        return {"train": place} if place.suffix == CONLL else {}
    found = {
        split: place / f"{stem}{CONLL}"
        for split, stems in SPLIT_STEMS.items()
        for stem in stems
        if (place / f"{stem}{CONLL}").is_file()
    }
    return found if "train" in found else {}


def _read_conll(path: Path, on_bad_rows: OnBadRows) -> Rows:
    """Texts from tokens, joined by blanks. The first column is the token, the last one the tag."""
    rows = Rows(path, on_bad_rows)
    lines = enumerate(decode(path.read_bytes(), path).split("\n"), 1)
    for filled, group in itertools.groupby(
        lines, key=lambda line: bool(line[1].strip()) and not line[1].startswith("-DOCSTART-")
    ):
        if not filled:
            continue
        text, before, first = "", "", 0
        terms: list[Term] = []
        for line, content in group:
            first = first or line
            token, *more = content.split()
            tag = more[-1] if more else ""
            if tag != text_processing.OUTSIDE and (tag[:2] not in ("B-", "I-") or len(tag) < 3):
                rows.reject(
                    line, f"a line must be a token and its tag, O, B-LABEL or I-LABEL, got {content.strip()!r}"
                )
                break
            start = len(text) + bool(text)
            text += f" {token}" if text else token
            if tag.startswith("I-") and before[2:] == tag[2:]:
                terms[-1] = (terms[-1][0], len(text), tag[2:])
            elif tag != text_processing.OUTSIDE:
                terms.append((start, len(text), tag[2:]))
            before = tag
        else:
            add_text(rows, first, text, terms, f"{path.stem}-{first}")
    return rows
