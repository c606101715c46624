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

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from ...data.lazily import datasets
from ...data.rows import BadRow, OnBadRows, Rows, download, local_files, packaged_rows, read_json
from ...data.splits import split_by_text
from .rows import TARGET_TEXTS, to_aspect_dataset


SENTIHOOD_ASPECTS = ["general", "price", "safety", "transit-location"]


SENTIHOOD_OTHER_ASPECTS = "dining green-nature live multicultural nightlife quiet shopping touristy".split()


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


def load_sentihood(data_dir: str | Path | None = None, on_bad_rows: OnBadRows = "error") -> datasets.DatasetDict:
    """
    SentiHood: 2,977 / 747 / 1,491 sentences about neighbourhoods, 15,008 / 3,748 / 7,516 rows.

    Every target in a sentence (LOCATION1, LOCATION2) gets one row for each of the four most frequent aspects, in the order
    general, price, safety, transit-location, with the label none, positive or negative. Opinions on the other eight aspects
    are left out. In `text` the placeholders are replaced, see `replace_targets`. A sentence id occurs once in a split, but
    other splits may have it too.

    Args:
        data_dir: folder that holds `sentihood/sentihood-{train,dev,test}.json`. None: the files are downloaded from
            github.com/HSLCY/ABSA-BERT-pair at a fixed commit, checked and cached. (No licence is stated there for the data.)
        on_bad_rows: "error", or "skip" to drop, count and list malformed sentences.

    Raises:
        FileNotFoundError, OSError: no such folder or file; the download fails.
        ValueError: a malformed file or sentence, with file, number and id of the sentence, and reason.
    """
    train, validation, test = _paths("sentihood", data_dir)
    splits = {}
    for split, path in {"train": train, "validation": validation, "test": test}.items():
        rows = Rows(path, on_bad_rows, unit="sentence")
        sentence_ids: set[str] = set()
        for number, sentence in enumerate(_read_json_list(path), 1):
            sentence_id = sentence.get("id") if isinstance(sentence, dict) else None
            line = f"{number} (id {sentence_id!r})"
            try:
                opinions = _sentihood_opinions(sentence)
                _check_new(str(sentence_id), sentence_ids)
            except BadRow as reason:
                rows.reject(line, str(reason))
                continue
            for target in TARGET_TEXTS:
                if target in sentence["text"]:
                    for aspect in SENTIHOOD_ASPECTS:
                        label = opinions.get((target, aspect), "none")
                        rows.add(line, sentence["text"], label, str(sentence_id), target=target, aspect=aspect)
        splits[split] = to_aspect_dataset(rows, SENTIHOOD_LABELS, SENTIHOOD_ASPECTS, list(TARGET_TEXTS))
    return datasets.DatasetDict(splits)


def _sentihood_opinions(sentence: Any) -> dict[tuple[str, str], str]:
    """{(target, aspect): label} of a sentence; `BadRow` if anything in it is malformed."""
    if not isinstance(sentence, dict):
        raise BadRow(f"a sentence must be an object with id, text and opinions, got {type(sentence).__name__}")
    _check_keys(sentence, ("id", "text", "opinions"), "the sentence")
    text = sentence["text"]
    _check_text(text)
    if isinstance(sentence["id"], bool) or not isinstance(sentence["id"], int | str):
        raise BadRow(f"the id must be a number or a string, got {sentence['id']!r}")
    if not any(target in text for target in TARGET_TEXTS):
        raise BadRow(f"the text has no target; the targets are {list(TARGET_TEXTS)}")
    if not isinstance(sentence["opinions"], list):
        raise BadRow(f"opinions must be a list, got {type(sentence['opinions']).__name__}")
    opinions: dict[tuple[str, str], str] = {}
    for opinion in sentence["opinions"]:
        if not isinstance(opinion, dict):
            raise BadRow(f"an opinion must be an object, got {type(opinion).__name__}")
        _check_keys(opinion, ("target_entity", "aspect", "sentiment"), "an opinion")
        target, aspect, sentiment = opinion["target_entity"], opinion["aspect"], opinion["sentiment"]
        _check_known(target, list(TARGET_TEXTS), "target")
        _check_known(aspect, [*SENTIHOOD_ASPECTS, *SENTIHOOD_OTHER_ASPECTS], "aspect")
        _check_known(sentiment, list(SENTIHOOD_SENTIMENTS), "sentiment")
        if target not in text:
            raise BadRow(f"an opinion is about {target}, which the text lacks")
        _add_opinion(opinions, (target, aspect), SENTIHOOD_SENTIMENTS[sentiment], f"{target}, {aspect}")
    return opinions


def _read_json_list(path: Path) -> list:
    content = read_json(path.read_bytes(), path)
    if not isinstance(content, list):
        raise ValueError(f"{path} must hold a JSON list of sentences, got {type(content).__name__}.")
    return content


def load_semeval2014(
    data_dir: str | Path | None = None, validation_fraction: float = 0.1, on_bad_rows: OnBadRows = "error"
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
        on_bad_rows: "error", or "skip" to drop, count and list malformed sentences.

    Raises:
        FileNotFoundError, OSError: no such folder or file; the download fails.
        ValueError: a malformed file or sentence, with file, number and id of the sentence, and reason.
    """
    train, test = _paths("semeval2014", data_dir)
    parts = {}
    for split, path in {"train": train, "test": test}.items():
        rows = Rows(path, on_bad_rows, unit="sentence")
        sentence_ids: set[str] = set()
        for number, sentence in enumerate(_read_sentences(path), 1):
            sentence_id = sentence.get("id", "")
            line = f"{number} (id {sentence_id!r})"
            try:
                opinions = _semeval2014_opinions(sentence)
                _check_new(sentence_id, sentence_ids)
            except BadRow as reason:
                rows.reject(line, str(reason))
                continue
            for aspect in SEMEVAL2014_ASPECTS:
                rows.add(line, sentence.findtext("text"), opinions.get(aspect, "none"), sentence_id, aspect=aspect)
        parts[split] = to_aspect_dataset(rows, SEMEVAL2014_LABELS, SEMEVAL2014_ASPECTS)
    train, validation = split_by_text(parts["train"], validation_fraction)
    return datasets.DatasetDict({"train": train, "validation": validation, "test": parts["test"]})


def _semeval2014_opinions(sentence: ElementTree.Element) -> dict[str, str]:
    """{aspect: label} of a sentence; `BadRow` if anything in it is malformed."""
    _check_keys(sentence, ("id",), "the sentence")
    text = sentence.find("text")
    if text is None or len(text):
        raise BadRow("the sentence must have a <text> without elements in it")
    _check_text(text.text)
    categories = sentence.find("aspectCategories")
    if categories is None:
        raise BadRow("the sentence has no <aspectCategories> (a file without gold labels?)")
    opinions: dict[str, str] = {}
    for category in categories:
        if category.tag != "aspectCategory":
            raise BadRow(f"<aspectCategories> must hold only <aspectCategory>, got <{category.tag}>")
        _check_keys(category, ("category", "polarity"), "an aspectCategory")
        name, polarity = category.attrib["category"], category.attrib["polarity"]
        _check_known(name, list(SEMEVAL2014_CATEGORIES), "category")
        _check_known(polarity, SEMEVAL2014_LABELS[:-1], "polarity")
        _add_opinion(opinions, SEMEVAL2014_CATEGORIES[name], polarity, name)
    return opinions


def load_reviews(data_dir: str | Path | None = None) -> datasets.DatasetDict:
    """
    The packaged reviews: 3,463 / 471 / 510 texts about twelve kinds of business, CC0. Needs no `data_dir`. Every review gets one row for each of the six aspects, with the label none, positive, neutral or negative.
    """
    splits = {}
    for split in ("train", "validation", "test"):
        rows = Rows(f"reviews {split}", "error")
        for line, review in packaged_rows("reviews", split):
            for aspect in REVIEW_ASPECTS:
                label = review["aspects"].get(aspect, "none")
                rows.add(line, review["text"], label, f"{split}-{line}", aspect=aspect)
        splits[split] = to_aspect_dataset(rows, REVIEW_LABELS, REVIEW_ASPECTS)
    return datasets.DatasetDict(splits)


class _NoDoctype(ElementTree.TreeBuilder):
    def doctype(self, name: str, pubid: str | None, system: str | None) -> None:
        raise ValueError("a DOCTYPE, and with it any entity declaration, is not allowed: remove it.")


def _read_sentences(path: Path) -> Iterator[ElementTree.Element]:
    try:
        root = ElementTree.parse(path, ElementTree.XMLParser(target=_NoDoctype())).getroot()
    except (ElementTree.ParseError, LookupError) as error:  # LookupError: an unknown encoding
        raise ValueError(f"{path}: no valid XML: {error}") from error
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    if root.tag != "sentences":
        raise ValueError(f"{path} must hold <sentences>, got <{root.tag}>.")
    for sentence in root:
        if sentence.tag != "sentence":
            raise ValueError(f"{path}: <sentences> must hold only <sentence>, got <{sentence.tag}>.")
        yield sentence


def _check_keys(item: Any, keys: Sequence[str], what: str) -> None:
    missing = [key for key in keys if item.get(key) is None]
    if missing:
        raise BadRow(f"{what} has no {missing[0]!r}")


def _check_text(text: Any) -> None:
    if not isinstance(text, str) or not text.strip():
        raise BadRow(f"the text is empty or no string: {text!r}")


def _check_known(value: Any, known: Sequence[str], what: str) -> None:
    if value not in known:
        raise BadRow(f"unknown {what} {value!r}; known are {list(known)}")


def _check_new(sentence_id: str, seen: set[str]) -> None:
    if sentence_id in seen:
        raise BadRow(f"a sentence before it has the id {sentence_id!r} too")
    seen.add(sentence_id)


def _add_opinion(opinions: dict, key: Any, label: str, name: str) -> None:
    """Add an opinion. The same opinion twice counts once; two labels for one key are an error."""
    if opinions.setdefault(key, label) != label:
        raise BadRow(f"two opinions on {name}: {opinions[key]} and {label}")


def _paths(corpus: str, data_dir: str | Path | None) -> list[Path]:
    if data_dir is None:
        return [download(f"{DOWNLOAD_FROM}/{corpus}/{name}", sha256) for name, sha256 in FILES[corpus].items()]
    return local_files(data_dir, corpus, list(FILES[corpus]))
