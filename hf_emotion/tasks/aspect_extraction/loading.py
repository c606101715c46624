# SPDX-License-Identifier: Apache-2.0
"""
Loads corpora of texts with terms: the restaurants of SemEval-2014 and the packaged review terms. A row is a text, see `to_dataset`.
"""

from __future__ import annotations

from pathlib import Path

from ...data.rows import Rows, packaged_rows
from ...data.splits import split_by_text
from ...io.lazily import datasets
from ...io.lazily import numpy as np
from ...runtime.plain import text_processing
from ..corpus import OWN_TERMS, Corpus, mark, rows_of
from ..corpus_files import CorpusRows
from ..targeted_sentiment.loading import published_files, sentences
from ..targeted_sentiment.rows import to_aspect_dataset
from .own_files import load_term_files
from .rows import add_text, to_dataset


LABELS = ["positive", "negative", "neutral"]


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
