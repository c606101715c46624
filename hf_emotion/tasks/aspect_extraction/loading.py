# SPDX-License-Identifier: Apache-2.0
"""
Loads texts with terms: the restaurants of SemEval-2014, the packaged review terms, and your own files. A row is a text, see `to_dataset`.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ...data.own_files import (
    check_columns,
    known_names,
    name_of,
    names_of,
    own_files,
    read_name,
    read_own,
    split_by_text,
    with_validation,
)
from ...data.rows import BadRow, OnBadRows, Row, Rows, decode, packaged_rows
from ...io.lazily import datasets
from ...io.lazily import numpy as np
from ...io.paths import ending
from ...runtime.plain import text_processing
from ..corpus import OWN_TERMS, Corpus, mark, rows_of
from ..corpus_files import CorpusRows
from ..targeted_sentiment.loading import published_files, sentences, to_aspect_dataset


LABELS = ["positive", "negative", "neutral"]

Term = tuple[Any, Any, str]  # start and end in the text, label


def add_text(rows: Rows, line: int, text: Any, terms: Iterable[Term], row_id: str) -> None:
    """
    Add a text, with a tag by name for each of its words, and with the `label` of each term, which is checked alone. A term that cuts a word gets all
    of it; a text with terms that overlap or lie outside is rejected.
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


@rows_of("aspect-extraction")
def load_semeval2014_terms(
    data_dir: str | Path | None = None, validation_fraction: float = 0.1, as_pairs: bool = False
) -> datasets.DatasetDict:
    """
    SemEval-2014 task 4, restaurants, aspect terms: 3,044 training and 800 test sentences with 3,608 and 1,120 terms, positive, negative or
    neutral. Terms of the polarity conflict (91 and 14) are dropped, as published. The validation part is a share of the training
    sentences, drawn at a fixed seed.

    Args:
        data_dir: folder that holds `semeval2014/Restaurants_Train.xml` and `Restaurants_Test_Gold.xml`; None: see `load_semeval2014`.
        validation_fraction: share of the distinct training texts that becomes the validation part.
        as_pairs: a row for each term instead, with the term as the auxiliary sentence: what a model reads that decides the sentiment of
            terms that another one found (`sentiment_model`). The parts hold the same texts.
    """
    parts = {}
    paths = published_files(data_dir, "semeval2014")
    for split, path in zip(("train", "test"), paths, strict=True):
        with CorpusRows(path, "sentence") as rows:
            for sentence in sentences(rows, path):
                marked = [term.attrib for term in sentence.iterfind("aspectTerms/aspectTerm")]
                terms = [
                    (int(term["from"]), int(term["to"]), term["polarity"])
                    for term in marked
                    if term["polarity"] in LABELS
                ]
                add_text(rows, rows.line, sentence.findtext("text", ""), terms, sentence.attrib["id"])
        parts[split] = to_dataset(rows, LABELS)
    train, validation = split_by_text(parts["train"], validation_fraction)
    splits = {"train": train, "validation": validation, "test": parts["test"]}
    return datasets.DatasetDict({name: term_pairs(rows) if as_pairs else rows for name, rows in splits.items()})


def term_pairs(texts: datasets.Dataset) -> datasets.Dataset:
    """A row for each term of texts, as corpora of aspects have it: the one aspect "term", and the term as the auxiliary sentence."""
    tags = text_processing.term_tags(LABELS)
    rows, terms = Rows("terms", "error"), []
    for text in texts:
        scores = np.eye(len(tags))[text["labels"]].tolist()
        found = text_processing.find_terms(scores, tags)
        for term in text_processing.term_entries(text["text"], text["words"], found):
            rows.add(0, text["text"], term["label"], f"{text['id']}/{term['start']}", target=None, aspect="term")
            terms.append(term["term"])
    dataset = to_aspect_dataset(rows, LABELS, ["term"])
    return mark(dataset.remove_columns("auxiliary").add_column("auxiliary", terms), "targeted-sentiment")


@rows_of("aspect-extraction")
def load_review_terms(data_dir: str | Path | None = None) -> datasets.DatasetDict:
    """The packaged review terms: texts of the corpus reviews with terms, positive, negative or neutral. Needs no `data_dir`."""
    splits = {}
    for split in ("train", "validation", "test"):
        with CorpusRows(f"review terms {split}") as rows:
            for line, review in packaged_rows("review_terms", split):
                terms = [(term["start"], term["end"], term["label"]) for term in review["terms"]]
                add_text(rows, line, review["text"], terms, f"{split}-{line}")
        splits[split] = to_dataset(rows, LABELS)
    return datasets.DatasetDict(splits)


CONLL = ".conll"
TAG = re.compile(r"O|[BI]-.+")
Texts = list[tuple[int, Any, list[Term]]]  # line, text, terms


@rows_of("aspect-extraction")
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
    Your own files. JSONL or Parquet with a text a row: `terms` is a list of {"start", "end", "label"}, in characters, and of "term", if it is
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
    columns = {"text_column": text_column, "term_column": term_column, "label_column": label_column}
    columns |= {} if start_column is None else {"start_column": start_column}
    parsed = {}
    for split, path in own_files(data_dir, (CONLL,), labels=labels).items():
        if ending(path) == CONLL:
            parsed[split] = _read_conll(path, on_bad_rows)
            continue
        found: Texts = []
        add = partial(_add, found, columns, terms_column)
        parsed[split] = read_own(path, on_bad_rows, list(columns.values()), separator, add)
        for line, text, terms in found:
            add_text(parsed[split], line, text, terms, f"{split}-{line}")
    names = known_names(parsed, "label", names_of(labels))
    if not names:
        raise ValueError(f"{parsed['train'].source} has no terms: a model needs some to learn from.")
    splits = {split: to_dataset(rows, names) for split, rows in parsed.items()}
    return with_validation(splits, validation_fraction, split_by_text)


def _add(found: Texts, columns: dict[str, str], terms_column: str, rows: Rows, line: int, row: Row) -> None:
    """Add a row with all terms of a text, or with one term, to the texts that were found."""
    if terms_column in row:
        text = row.get(columns["text_column"])
        found.append((line, text, _listed(text, terms_column, row[terms_column])))
        return
    check_columns(
        rows.source, line, row, columns.values(), f"{', '.join(columns)}, or terms_column for a list of terms"
    )
    text, term, label, *start = (row[column] for column in columns.values())
    if not found or found[-1][1] != text:
        found.append((line, text, []))
    terms = found[-1][2]
    if isinstance(text, str) and name_of(term):
        first = _start(text, str(term), {start for start, _, _ in terms}, *start)
        terms.append((first, first + len(str(term)), read_name(label, columns["label_column"])))


def _listed(text: Any, column: str, cell: Any) -> list[Term]:
    """The terms of a cell that lists them."""
    try:
        terms = [(term["start"], term["end"], term["label"], term.get("term")) for term in cell or []]
    except (TypeError, KeyError, AttributeError):
        raise BadRow(f"{column!r} must be a list of objects with start, end and label, got {cell!r}") from None
    for start, end, _, term in terms:
        if term is not None and type(start) is type(end) is int and term != (held := str(text)[start:end]):
            raise BadRow(f"from {start} to {end} the text has {held!r}, and not the term {term!r}")
    return [(start, end, read_name(label, "label")) for start, end, label, _ in terms]


def _start(text: str, term: str, taken: set[int], *given: Any) -> int:
    """Where a term starts: in the given place, else in the first one that is not taken; a part of a word only where no word fits."""
    places = [match.start() for match in re.finditer(f"(?={re.escape(term)})", text)]
    if given:
        starts = [place for place in places if str(place) == name_of(*given)]
    else:
        whole = [match.start() for match in re.finditer(rf"(?<!\w)(?={re.escape(term)}(?!\w))", text)]
        starts = [place for place in whole or places if place not in taken]
    if not starts:
        raise BadRow(f"the term {term!r} is not at that place, or occurs fewer times than listed: {text!r}")
    return starts[0]


def _read_conll(path: Path, on_bad_rows: OnBadRows) -> Rows:
    """Texts from tokens, joined by blanks. The first column is the token, the last one the tag."""
    rows = Rows(path, on_bad_rows)
    lines = enumerate(map(str.split, decode(path.read_bytes(), path).split("\n")), 1)
    for filled, group in itertools.groupby(lines, lambda line: bool(line[1]) and line[1][0] != "-DOCSTART-"):
        block = list(group) if filled else []
        wrong = [(line, cells) for line, cells in block if len(cells) < 2 or not TAG.fullmatch(cells[-1])]
        for line, cells in wrong[:1]:
            rows.reject(line, f"a line must be a token and its tag, O, B-LABEL or I-LABEL, got {' '.join(cells)!r}")
        if wrong or not block:
            continue
        text, before = "", ""
        terms: list[Term] = []
        for _, (token, *_, tag) in block:
            start = len(text) + bool(text)
            text = f"{text} {token}" if text else token
            if tag[0] == "I" and before[2:] == tag[2:]:
                terms[-1] = (terms[-1][0], len(text), tag[2:])
            elif tag != text_processing.OUTSIDE:
                terms.append((start, len(text), tag[2:]))
            before = tag
        add_text(rows, block[0][0], text, terms, f"{path.stem}-{block[0][0]}")
    return rows


CORPORA = (
    Corpus(
        name="semeval2014_terms",
        loader=load_semeval2014_terms,
        selection_metric="pair_f1",
        terms="terms of the organisers of SemEval-2014 task 4; Pontiki et al. 2014",
        example="The pizza was cold but our waiter was lovely.",
    ),
    Corpus(
        name="review_terms",
        loader=load_review_terms,
        selection_metric="pair_f1",
        terms="CC0 1.0; texts of the corpus reviews with terms marked for hf-emotion, the test part twice",
        example="The pizza was cold but our waiter was lovely.",
        packaged=True,
    ),
    Corpus(
        name="term_files",
        loader=load_term_files,
        languages=(),
        terms=OWN_TERMS,
        selection_metric="pair_f1",
        own_files=True,
    ),
)
