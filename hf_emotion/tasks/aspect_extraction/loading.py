# SPDX-License-Identifier: Apache-2.0
"""
Loads corpora of texts with terms: the restaurants of SemEval-2014 and the packaged review terms. A row is a text, see `to_dataset`.
"""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from ...data.lazily import datasets
from ...data.rows import packaged_rows
from ...data.splits import split_by_text
from ..corpus import OWN_TERMS, Corpus
from ..corpus_files import CorpusRows, corpus_files
from ..targeted_sentiment.loading import DOWNLOAD_FROM, FILES, NoDoctype
from ..targeted_sentiment.rows import to_aspect_dataset
from .own_files import load_term_files
from .rows import add_text, to_dataset


LABELS = ["positive", "negative", "neutral"]


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
    parts, pairs = {}, {}
    names = corpus_files(data_dir, "semeval2014", f"{DOWNLOAD_FROM}/semeval2014", FILES["semeval2014"])
    for split, path in zip(("train", "test"), names, strict=True):
        of_pairs = CorpusRows(path)
        with CorpusRows(path, "sentence") as rows:
            root = ElementTree.parse(path, ElementTree.XMLParser(target=NoDoctype())).getroot()
            for rows.line, sentence in enumerate(root.iterfind("sentence"), 1):
                text, row_id = sentence.findtext("text", ""), sentence.attrib["id"]
                marked = [term.attrib for term in sentence.iterfind("aspectTerms/aspectTerm")]
                terms = [(int(term["from"]), int(term["to"]), term["polarity"]) for term in marked]
                terms = [term for term in terms if term[2] in LABELS]
                add_text(rows, rows.line, text, terms, row_id)
                for start, end, label in terms:
                    of_pairs.add(rows.line, text, label, f"{row_id}/{start}", target=None, aspect=text[start:end])
        parts[split], pairs[split] = to_dataset(rows, LABELS), of_pairs
    train, validation = split_by_text(parts["train"], validation_fraction)
    splits = datasets.DatasetDict({"train": train, "validation": validation, "test": parts["test"]})
    if not as_pairs:
        return splits
    return datasets.DatasetDict(
        {name: _pairs(pairs["test" if name == "test" else "train"], rows) for name, rows in splits.items()}
    )


def _pairs(pairs: CorpusRows, rows: datasets.Dataset) -> datasets.Dataset:
    """The pairs of these texts; all have the one aspect "term"."""
    texts, own = set(rows["text"]), CorpusRows(pairs.source)
    own.rows = [{**row, "term": row["aspect"], "aspect": "term"} for row in pairs.rows if row["text"] in texts]
    terms = [row["term"] for row in own.rows]
    dataset = to_aspect_dataset(own, LABELS, ["term"])
    return dataset.remove_columns("auxiliary").add_column("auxiliary", terms)


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
