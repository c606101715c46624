# SPDX-License-Identifier: Apache-2.0
"""
Loads aspect sentiment corpora: SentiHood (targets and aspects), the restaurants of SemEval-2014 and the packaged reviews
(aspects).

A row asks about one aspect (of one target) of a sentence. Columns: `id` (string: sentence id, target if any, and aspect,
joined by "/"; no other row of the split has it), `text` (string, NFC, stripped, what the model reads), `target` (`ClassLabel`;
no such column without targets), `aspect` (`ClassLabel`), `auxiliary` (string: the auxiliary sentence, which names target and
aspect), `context_id` (int64: target · number of aspects + aspect) and `labels` (`ClassLabel`).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

from ...data.files import SPLIT_STEMS
from ...data.rows import decode, packaged_rows, parse_json
from ...data.splits import split_by_text
from ...io.lazily import datasets
from ..corpus import Corpus, rows_of
from ..corpus_files import CorpusRows, corpus_files
from .rows import TARGET_TEXTS, to_aspect_dataset


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
    The packaged reviews: 3,463 / 471 / 510 texts about twelve kinds of business, CC0. Needs no `data_dir`. Every review gets one row for each of the six aspects, with the label none, positive, neutral or negative.
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
)
