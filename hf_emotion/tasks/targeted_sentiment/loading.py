# SPDX-License-Identifier: Apache-2.0
"""
Loads aspect sentiment corpora: SentiHood (targets and aspects), the restaurants of SemEval-2014, the packaged reviews
(aspects), and your own files.

A row asks about one aspect (of one target) of a sentence. Columns: `id` (string: sentence id, target if any, and aspect,
joined by "/"; no other row of the split has it), `text` (string, NFC, stripped, what the model reads), `target` (`ClassLabel`;
no such column without targets), `aspect` (`ClassLabel`), `auxiliary` (string: the auxiliary sentence, which names target and
aspect), `context_id` (int64: target · number of aspects + aspect) and `labels` (`ClassLabel`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence, Set
from functools import partial
from pathlib import Path
from xml.etree import ElementTree

from ...data.files import SPLIT_STEMS
from ...data.own_files import (
    check_distinct_columns,
    check_label_column,
    known_names,
    name_of,
    names_of,
    own_files,
    read_name,
    read_own,
    split_by_text,
    with_validation,
)
from ...data.rows import OnBadRows, Row, Rows, decode, packaged_rows, parse_json
from ...io.lazily import datasets
from ...runtime.plain import text_processing
from ..corpus import OWN_TERMS, Corpus, rows_of
from ..corpus_files import CorpusRows, corpus_files


logger = logging.getLogger(__name__)

SENTIHOOD_ASPECTS = ["general", "price", "safety", "transit-location"]
SENTIHOOD_LABELS = ["none", "positive", "negative"]
SENTIHOOD_SENTIMENTS = {"Positive": "positive", "Negative": "negative"}

SEMEVAL2014_ASPECTS = ["price", "anecdotes", "food", "ambience", "service"]
SEMEVAL2014_CATEGORIES = {
    "price": "price",
    "anecdotes/miscellaneous": "anecdotes",
    "food": "food",
    "ambience": "ambience",
    "service": "service",
}
SEMEVAL2014_LABELS = ["positive", "neutral", "negative", "conflict", "none"]

REVIEW_ASPECTS = ["price", "quality", "service", "location", "comfort", "speed"]
REVIEW_LABELS = ["none", "positive", "neutral", "negative"]

# Neither corpus is on the Hub under its authors' name. The files of one fixed commit: {file: SHA-256}.
DOWNLOAD_FROM = "https://raw.githubusercontent.com/HSLCY/ABSA-BERT-pair/7d238eb8c772946b9e572373c144b11151e4187f/data"
FILES = {
    "sentihood": {
        "sentihood-train.json": "46bb48d007dc35e07e93bd44e007579396336a17ba7d5d2cf1343e4d6a27d376",
        "sentihood-dev.json": "f0262cbe2ef6db66b0573945c3b9d68c17103331a64e9809604c0dabf2495c97",
        "sentihood-test.json": "61cc5188e6ab0147214af68554877622f15b6e459f5e187bc6607108674d5cc8",
    },
    "semeval2014": {
        "Restaurants_Train.xml": "5195b73af689345b47dee950bada32f5c5268ba8a61b96e1ab2301040b4207e2",
        "Restaurants_Test_Gold.xml": "f21509cfa37e16534cd5b2da043be487355b64ef48fe8d6aaacaeca6b49cc0fb",
    },
}

# placeholder -> the text that a model reads instead
TARGET_TEXTS = {"LOCATION1": "location - 1", "LOCATION2": "location - 2"}


def replace_targets(text: str) -> str:
    """
    Replace placeholders by the text that a model reads: LOCATION1 by "location - 1", LOCATION2 by "location - 2", everywhere.

    If one touches a letter, digit or other placeholder, a blank is added between them ("xLOCATION1" -> "x location - 1").
    """
    return text_processing.mark_targets(text, TARGET_TEXTS)


def auxiliary_sentence(target: str | None, aspect: str) -> str:
    """The second segment that tells a model what is asked: "location - 1 - price", or only the aspect without a target."""
    return text_processing.auxiliary_sentence(target and TARGET_TEXTS.get(target, target), aspect)


def to_aspect_dataset(
    rows: Rows, names: Sequence[str], aspects: Sequence[str], targets: Sequence[str] | None = None
) -> datasets.Dataset:
    """
    Rows with sentence id, `aspect`, `target` (if there are `targets`) and `labels` by name -> the columns that this file lists.
    """
    for row in rows.rows:
        target, aspect = row["target"] if targets else None, row["aspect"]
        row["id"] = "/".join([row["id"], *(() if target is None else (target,)), aspect])
        row["text"] = row["text"].strip()
        if targets:
            row["text"] = replace_targets(row["text"])
        row["auxiliary"] = auxiliary_sentence(target, aspect)
        row["context_id"] = (targets.index(target) if targets else 0) * len(aspects) + aspects.index(aspect)
    columns = {"target": datasets.ClassLabel(names=list(targets))} if targets else {}
    columns |= {
        "aspect": datasets.ClassLabel(names=list(aspects)),
        "auxiliary": datasets.Value("string"),
        "context_id": datasets.Value("int64"),
    }
    return rows.to_dataset(names, columns=columns)


def is_none(label: str) -> bool:
    """Whether this is the label for an aspect that a text does not name; corpora spell it "none" or "None"."""
    return label.casefold() == "none"


def none_label(labels: Iterable[str]) -> str | None:
    """The label for an aspect that a text does not name, in the spelling of the corpus; None if there is no such label."""
    return next(filter(is_none, labels), None)


def question(text: str, target: str | None, aspect: str) -> tuple[str, str | None, str]:
    """What a row asks, the same for all forms of a text."""
    return text_processing.normalized(text), target, aspect


def add_none_rows(rows: Rows, aspects: Sequence[str], label: str, asked: Set[tuple]) -> None:
    """
    Give each text (and target) a row with the label for every aspect that none of its rows names. `asked` has the `question` of
    every row, also of those that were rejected: their label is not known. The rows of a text and target are then together, in the
    order of the aspects.
    """
    groups: dict[tuple, list[Row]] = {}
    for row in rows.rows:
        groups.setdefault(question(row["text"], row.get("target"), "")[:2], []).append(row)
    before = len(rows.rows)
    rows.rows = []
    for (text, target), own in groups.items():
        for aspect in aspects:
            rows.rows += [row for row in own if row["aspect"] == aspect]
            if (text, target, aspect) not in asked:
                rows.rows.append({**own[0], "aspect": aspect, "labels": label})
    logger.warning(
        "%s: %d rows with the label %r for aspects that no row names", rows.source, len(rows.rows) - before, label
    )


def context_names(dataset: datasets.Dataset) -> tuple[list[str] | None, list[str]]:
    """The names of the targets (None if there are none) and of the aspects, in the order of their ids."""
    target = dataset.features.get("target")
    return (None if target is None else list(target.names)), list(dataset.features["aspect"].names)


@rows_of("targeted-sentiment")
def load_sentihood(data_dir: str | Path | None = None) -> datasets.DatasetDict:
    """
    SentiHood: 2,977 / 747 / 1,491 sentences about neighbourhoods, 15,008 / 3,748 / 7,516 rows.

    Every target in a sentence (LOCATION1, LOCATION2) gets one row for each of the four most frequent aspects, in the order
    general, price, safety, transit-location, with the label none, positive or negative. Opinions on the other eight aspects
    are left out. In `text` the placeholders are replaced, see `replace_targets`. A sentence id occurs once in a split, but
    other splits may have it too.

    Args:
        data_dir: folder that holds `sentihood/sentihood-{train,dev,test}.json`. None: the files are downloaded from
            github.com/HSLCY/ABSA-BERT-pair at a fixed commit, checked and cached. (No licence is stated there for the data.)
    """
    paths = published_files(data_dir, "sentihood")
    splits = {}
    for split, path in zip(SPLIT_STEMS, paths, strict=True):
        content = decode(path.read_bytes(), path)
        with CorpusRows(path, "sentence") as rows:
            for rows.line, sentence in enumerate(parse_json(content), 1):
                text, opinions = sentence["text"], {}
                for opinion in sentence["opinions"]:
                    label = SENTIHOOD_SENTIMENTS[opinion["sentiment"]]
                    opinions[opinion["target_entity"], opinion["aspect"]] = label
                for target in TARGET_TEXTS:
                    if target in text:
                        for aspect in SENTIHOOD_ASPECTS:
                            label = opinions.get((target, aspect), "none")
                            rows.add(rows.line, text, label, str(sentence["id"]), target=target, aspect=aspect)
        splits[split] = to_aspect_dataset(rows, SENTIHOOD_LABELS, SENTIHOOD_ASPECTS, list(TARGET_TEXTS))
    return datasets.DatasetDict(splits)


@rows_of("targeted-sentiment")
def load_semeval2014(
    data_dir: str | Path | None = None, validation_fraction: float | int = 0.1
) -> datasets.DatasetDict:
    """
    SemEval-2014 task 4, restaurants, aspect categories: 3,044 training and 800 test sentences, 15,220 and 4,000 rows.

    Every sentence gets one row for each aspect, in the order price, anecdotes (in the files: anecdotes/miscellaneous), food,
    ambience, service, with the label positive, neutral, negative, conflict or none. The corpus has no validation part: a share
    of the training sentences is set aside, drawn at a fixed seed from the distinct texts, so that the rows of a sentence
    and equal sentences stay together.

    Args:
        data_dir: folder that holds `semeval2014/Restaurants_Train.xml` and `Restaurants_Test_Gold.xml`. None: the files are
            downloaded from github.com/HSLCY/ABSA-BERT-pair at a fixed commit, checked and cached. (No licence is stated there
            for the data.)
        validation_fraction: share of the distinct training texts that becomes the validation part.
    """
    paths = published_files(data_dir, "semeval2014")
    parts = {}
    for split, path in zip(("train", "test"), paths, strict=True):
        with CorpusRows(path, "sentence") as rows:
            for sentence in sentences(rows, path):
                (categories,) = sentence.findall("aspectCategories")  # which a file without gold labels lacks
                opinions = {
                    SEMEVAL2014_CATEGORIES[category.attrib["category"]]: category.attrib["polarity"]
                    for category in categories
                }
                for aspect in SEMEVAL2014_ASPECTS:
                    label = SEMEVAL2014_LABELS.index(opinions.get(aspect, "none"))
                    rows.add(rows.line, sentence.findtext("text"), label, sentence.attrib["id"], aspect=aspect)
        parts[split] = to_aspect_dataset(rows, SEMEVAL2014_LABELS, SEMEVAL2014_ASPECTS)
    train, validation = split_by_text(parts["train"], validation_fraction)
    return datasets.DatasetDict({"train": train, "validation": validation, "test": parts["test"]})


def published_files(data_dir: str | Path | None, corpus: str) -> list[Path]:
    """The `FILES` of a corpus, from its folder in `data_dir`, or downloaded."""
    return corpus_files(data_dir, corpus, f"{DOWNLOAD_FROM}/{corpus}", FILES[corpus])


def sentences(rows: CorpusRows, path: Path) -> Iterator[ElementTree.Element]:
    """The sentences of a file of SemEval-2014; sets the line of `rows` to the number of each."""
    root = ElementTree.parse(path, ElementTree.XMLParser(target=NoDoctype())).getroot()
    for rows.line, sentence in enumerate(root.iterfind("sentence"), 1):
        yield sentence


class NoDoctype(ElementTree.TreeBuilder):
    def doctype(self, name: str, pubid: str | None, system: str | None) -> None:
        raise ValueError("a DOCTYPE, and with it any entity declaration, is not allowed: remove it.")


@rows_of("targeted-sentiment")
def load_reviews(data_dir: str | Path | None = None) -> datasets.DatasetDict:
    """
    The packaged reviews: 9,189 / 908 / 510 texts about many kinds of business, CC0. Needs no `data_dir`. Every review gets one row for each of the
    six aspects, with the label none, positive, neutral or negative.
    """
    splits = {}
    for split in ("train", "validation", "test"):
        rows = CorpusRows(f"reviews {split}")
        for line, review in packaged_rows("reviews", split):
            for aspect in REVIEW_ASPECTS:
                label = review["aspects"].get(aspect, "none")
                rows.add(line, review["text"], label, f"{split}-{line}", aspect=aspect)
        splits[split] = to_aspect_dataset(rows, REVIEW_LABELS, REVIEW_ASPECTS)
    return datasets.DatasetDict(splits)


@rows_of("targeted-sentiment")
def load_aspect_files(
    data_dir: str | Path | None = None,
    text_column: str = "text",
    label_column: str = "label",
    aspect_column: str = "aspect",
    target_column: str | None = None,
    labels: Sequence[str] | None = None,
    aspects: Sequence[str] | None = None,
    targets: Sequence[str] | None = None,
    fill_none: bool = False,
    id_column: str | None = None,
    validation_fraction: float | int = 0.1,
    on_bad_rows: OnBadRows = "error",
    separator: str | None = None,
) -> datasets.DatasetDict:
    """
    Your own CSV, TSV, JSONL or Parquet files. A row asks about one aspect (of one target) of its text and has one label; the result has
    the columns that this file lists. A pair of target and aspect without a row is not asked about, unless `fill_none` adds one.

    Args:
        data_dir, separator: see `load_files`.
        text_column, label_column, aspect_column, target_column, id_column: column names. With targets, the placeholders LOCATION1 and
            LOCATION2 in a text are replaced, see `replace_targets`.
        labels, aspects, targets: their names in their order. None: the names in the training part, sorted.
        fill_none: in every part, each text (and target) gets a row with the label "none" (in the spelling of the corpus) for every aspect
            that none of its rows names; a row that is skipped counts as one of them. For files that list only the aspects that a text
            names: trained only on these, a model would find an opinion on every aspect of every text.
        validation_fraction: share of the distinct training texts, with all their rows, set aside, at a fixed seed, if there is no
            validation file; 0: none. The only row with a label, or with a target and aspect, stays in training.
        on_bad_rows: "error", or "skip" to drop, count and list rows without text or with an unknown label.
    """
    files = own_files(data_dir, labels=labels, aspects=aspects, targets=targets)
    labels, aspects, targets = names_of(labels), names_of(aspects), names_of(targets)
    if target_column is None and targets is not None:
        raise ValueError("`targets` needs `target_column`, the column with the target of each row.")
    columns = {
        "text_column": text_column,
        "label_column": label_column,
        "aspect_column": aspect_column,
        "target_column": target_column,
    }
    check_distinct_columns(columns)
    contexts = {"aspect": aspect_column} | ({} if target_column is None else {"target": target_column})
    wanted = [name for name in (*columns.values(), id_column) if name is not None]
    asked: dict[str, set[tuple]] = {split: set() for split in files}

    def add(split: str, rows: Rows, line: int, row: Row) -> None:
        context = {name: read_name(row[column], column) for name, column in contexts.items()}
        if fill_none and isinstance(row[text_column], str):
            asked[split].add(question(row[text_column], context.get("target"), context["aspect"]))
        row_id = (name_of(row[id_column]) if id_column else "") or f"{split}-{line}"
        rows.add(line, row[text_column], read_name(row[label_column], label_column), row_id, **context)

    parsed = {
        split: read_own(path, on_bad_rows, wanted, separator, partial(add, split), ", ".join(columns))
        for split, path in files.items()
    }
    names = {"aspect": known_names(parsed, "aspect", aspects)}
    if target_column is not None:
        names["target"] = known_names(parsed, "target", targets)
    none: str | None = None
    if fill_none:
        none = none_label(labels or {row["labels"] for row in parsed["train"].rows})
        if labels and none is None:
            raise ValueError(f"`fill_none` needs the label 'none' among `labels`, got {list(labels)}: add it.")
        none = none or "none"
    names["labels"] = known_names(parsed, "labels", labels, [] if none is None else [none])
    if none is not None:
        for split, rows in parsed.items():  # of the rows that are left
            add_none_rows(rows, names["aspect"], none, asked[split])
        if not labels and not any(row["labels"] == none for rows in parsed.values() for row in rows.rows):
            names["labels"].remove(none)  # nothing was to fill
    if not labels:
        check_label_column(parsed["train"], names["labels"], label_column)
    splits = {
        split: to_aspect_dataset(rows, names["labels"], names["aspect"], names.get("target"))
        for split, rows in parsed.items()
    }
    return with_validation(splits, validation_fraction, split_by_text)


# The metric that selects covers aspect and sentiment.
CORPORA = (
    Corpus(
        name="sentihood",
        loader=load_sentihood,
        terms="no licence stated for the data: research use; Saeidi et al. 2016",
        metrics=("classification", "sentihood"),
        selection_metric="strict_accuracy",
        example="LOCATION1 is safe, but far too expensive.",
    ),
    Corpus(
        name="semeval2014",
        loader=load_semeval2014,
        terms="terms of the organisers of SemEval-2014 task 4; Pontiki et al. 2014",
        metrics=("classification", "semeval2014"),
        selection_metric="accuracy",
        example="The food was great, but we waited an hour for it.",
    ),
    Corpus(
        name="reviews",
        loader=load_reviews,
        terms="CC0 1.0; reviews of twelve kinds of business written for hf-emotion, the test part labelled twice",
        selection_metric="macro_f1",
        example="The room was spotless, but we queued for an hour at the desk.",
        packaged=True,
    ),
    Corpus(name="aspect_files", loader=load_aspect_files, languages=(), terms=OWN_TERMS, own_files=True),
)
