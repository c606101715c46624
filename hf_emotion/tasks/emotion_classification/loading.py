# SPDX-License-Identifier: Apache-2.0
"""Loads corpora of texts: GoEmotions, the six emotions, emojis of tweets, the packaged corpora, and your own files."""

from __future__ import annotations

import html
import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

from ...data.files import SPLIT_STEMS
from ...data.own_files import (
    check_different,
    check_distinct_columns,
    check_label_column,
    draw_units,
    known_names,
    name_of,
    names_of,
    own_files,
    read_own,
    with_validation,
)
from ...data.rows import BadRow, OnBadRows, Row, Rows, decode, download, local_files, packaged_rows
from ...data.splits import UNANNOTATED
from ...data.targets import COLUMN as TARGETS
from ...data.targets import load_target_files, to_dataset
from ...data.votes import read_votes, settle_votes, vote_features
from ...io.lazily import datasets
from ...taxonomies import GOEMOTIONS, group_index
from ..corpus import OWN_TERMS, Corpus, rows_of
from ..corpus_files import CorpusRows, csv_rows, lines_of
from .brighter import BRIGHTER_HUB_ID, load_brighter, load_plain_sentences


logger = logging.getLogger(__name__)

GOEMOTIONS_HUB_ID = "google-research-datasets/go_emotions"
EMOTION6_HUB_ID = "dair-ai/emotion"
TWEET_EMOJI_HUB_ID = "cardiffnlp/tweet_eval"
EVERYDAY = ("quickstart", "everyday")  # packaged sentences that a training on GoEmotions may add
Language = Literal["en", "de", "es", "fr", "pt", "ru"]  # of the corpus `languages`
LANGUAGES: tuple[str, ...] = get_args(Language)

EMOTION6 = ["sadness", "joy", "love", "anger", "fear", "surprise"]  # in the order of the ids on the Hub


@rows_of("emotion-classification")
def load_goemotions(
    data_dir: str | Path | None = None,
    taxonomy: str = "goemotions",
    everyday_copies: int = 0,
    votes: bool = False,
) -> datasets.DatasetDict:
    """
    GoEmotions, the filtered splits of 43,410 / 5,426 / 5,427 comments (CC BY 4.0).

    Args:
        data_dir: folder that holds `goemotions/{train,dev,test}.tsv` (text, comma-separated label ids, comment id; no
            header, no quoting). None: from the Hub, `google-research-datasets/go_emotions`, configuration "simplified".
        taxonomy: "goemotions" (28 labels), "ekman" (6 and neutral) or "sentiment" (3 and neutral).
        everyday_copies: how many copies of the training sentences of the packaged corpora quickstart and everyday to add to
            the training part. GoEmotions itself has only Reddit comments.
        votes: join the raw annotations, `goemotions/goemotions_{1,2,3}.csv` in `data_dir`, by comment id: the dataset gets the
            columns `votes`, the share of the raters who gave a label (with a taxonomy: any label of the group), and
            `annotators`. A rater who found a comment very unclear gave it no labels and does not count. The labels stay those
            of the splits, which at least two raters gave.
    """
    if everyday_copies < 0 or (votes and everyday_copies):
        raise ValueError(f"`everyday_copies` must be 0 or more, and 0 with `votes`; got {everyday_copies}.")
    if votes and data_dir is None:
        raise FileNotFoundError(f"`votes` needs `data_dir` with the raw annotations of GoEmotions: {RAW_REMEDY}")
    groups = group_index(taxonomy, GOEMOTIONS)
    group_of = {label: number for number, members in enumerate(groups.values()) for label in members}
    files = _texts(data_dir, GOEMOTIONS_HUB_ID, "simplified", "goemotions", ["train.tsv", "dev.tsv", "test.tsv"])
    raters = _read_raters(Path(data_dir, "goemotions"), len(groups), group_of) if votes and data_dir else {}
    splits = {}
    for split, (source, found) in files.items():
        with CorpusRows(source) as rows:
            for rows.line, row in enumerate(found, 1):
                if isinstance(row, str):
                    text, ids, row_id = row.split("\t")
                    rows.add(rows.line, text, [int(value) for value in ids.split(",")], row_id)
                else:
                    rows.add(rows.line, row["text"], row["labels"], row["id"])
            for copy in range(1, everyday_copies + 1 if split == "train" else 0):
                for corpus in EVERYDAY:
                    _read_packaged(corpus, split, rows, f"{corpus}-{copy}")
            for row in rows.rows:
                rows.line = row["line"]
                row["labels"] = sorted({group_of[label] for label in row["labels"]})
                if votes:
                    *counts, number = raters.get(row["id"], [0])
                    if not number:
                        raise BadRow(f"the raw annotations have no rater of the comment {row['id']!r}")
                    row["votes"], row["annotators"] = [count / number for count in counts], number
        splits[split] = rows.to_dataset(list(groups), multi_label=True, columns=vote_features() if votes else None)
    return datasets.DatasetDict(splits)


RAW_REMEDY = (
    "download goemotions_1.csv, goemotions_2.csv and goemotions_3.csv from "
    "https://storage.googleapis.com/gresearch/goemotions/data/full_dataset/ into the folder `goemotions` in `data_dir`, or leave "
    "`votes` out."
)


def _read_raters(folder: Path, groups: int, group_of: dict[int, int]) -> dict[str, list[int]]:
    """Comment id -> how many raters gave each group of labels, and how many raters there were."""
    found: dict[str, list[int]] = {}
    for number in (1, 2, 3):
        path = folder / f"goemotions_{number}.csv"
        if not path.is_file():
            raise FileNotFoundError(f"`votes` needs the raw annotations, and {path} does not exist: {RAW_REMEDY}")
        content = decode(path.read_bytes(), path)
        with CorpusRows(path) as rows:
            for row in csv_rows(rows, content):
                counts = found.setdefault(row["id"], [0] * (groups + 1))
                labels = [label for label, name in enumerate(GOEMOTIONS) if int(row[name])]
                if row["example_very_unclear"].strip().lower() not in ("true", "1"):
                    for group in {group_of[label] for label in labels}:
                        counts[group] += 1
                    counts[-1] += 1
    return found


def _texts(
    data_dir: str | Path | None, hub_id: str, configuration: str, folder: str, names: Sequence[str]
) -> dict[str, tuple[Path | str, Iterable]]:
    """For each split its name and the rows of the Hub, or the path and the lines of its file."""
    if data_dir is None:
        hub = _from_hub(hub_id, configuration, folder, names)
        return {split: (f"{hub_id} {split}", hub[split]) for split in SPLIT_STEMS}
    paths = local_files(data_dir, folder, names)
    return {split: (path, lines_of(path.read_bytes(), path)) for split, path in zip(SPLIT_STEMS, paths, strict=True)}


def _from_hub(hub_id: str, configuration: str, folder: str, names: Sequence[str]) -> datasets.DatasetDict:
    """A corpus of the Hub. OSError if it cannot be read; the message says which files serve instead."""
    try:
        return datasets.load_dataset(hub_id, configuration)
    except OSError as error:
        raise OSError(
            f"the corpus {hub_id!r} cannot be loaded from the Hub ({error}). Without the Hub give `data_dir` (--data-dir), which holds "
            f"the folder `{folder}` with {', '.join(names)}."
        ) from error


@rows_of("emotion-classification")
def load_emotion6(data_dir: str | Path | None = None) -> datasets.DatasetDict:
    """
    The six emotions of Saravia et al. 2018 (also known as dair-ai/emotion), 16,000 / 2,000 / 2,000 messages, one label each
    (for education and research only).

    Args:
        data_dir: folder that holds `emotion6/{train,val,test}.txt` (text;label). None: from the Hub, `dair-ai/emotion`,
            configuration "split".
    """
    splits = {}
    files = _texts(data_dir, EMOTION6_HUB_ID, "split", "emotion6", ["train.txt", "val.txt", "test.txt"])
    for split, (source, found) in files.items():
        with CorpusRows(source) as rows:
            for rows.line, row in enumerate(found, 1):
                if isinstance(row, str):
                    text, _, name = row.rpartition(";")
                    row = {"text": text, "label": EMOTION6.index(name)}
                rows.add(rows.line, row["text"], row["label"], f"{split}-{rows.line}")
        splits[split] = rows.to_dataset(EMOTION6)
    return datasets.DatasetDict(splits)


# In the order of the ids, which the Hub and mapping.txt share; a label's vector can start from these words.
TWEET_EMOJIS = (
    "red_heart heart_eyes tears_of_joy two_hearts fire smiling_face sunglasses sparkles blue_heart blowing_a_kiss camera "
    "united_states sun purple_heart winking hundred_points beaming christmas_tree camera_with_flash winking_with_tongue"
).split()


@rows_of("emotion-classification")
def load_tweet_emoji(data_dir: str | Path | None = None) -> datasets.DatasetDict:
    """
    TweetEval's emoji prediction (Barbieri et al. 2018 and 2020), 45,000 / 5,000 / 50,000 tweets, each labelled with the one
    emoji that was removed from it. HTML entities are resolved, and remains of a removed emoji (U+FE0F) are deleted.

    Args:
        data_dir: folder that holds `tweeteval/emoji/{train,val,test}_{text,labels}.txt`, a tweet and an id per line. None: from
            the Hub, `cardiffnlp/tweet_eval`, configuration "emoji".
    """
    folder, stems = "tweeteval/emoji", {"train": "train", "validation": "val", "test": "test"}
    names = {split: [f"{stem}_text.txt", f"{stem}_labels.txt"] for split, stem in stems.items()}
    hub = _from_hub(TWEET_EMOJI_HUB_ID, "emoji", folder, sum(names.values(), [])) if data_dir is None else {}
    splits = {}
    for split in SPLIT_STEMS:
        if data_dir is None:
            source: Path | str = f"{TWEET_EMOJI_HUB_ID} {split}"
            texts, ids = hub[split]["text"], hub[split]["label"]
        else:
            paths = local_files(data_dir, folder, names[split])
            source, texts, ids = paths[0], *(lines_of(path.read_bytes(), path) for path in paths)
        with CorpusRows(source) as rows:
            for rows.line, (text, label) in enumerate(zip(texts, ids, strict=True), 1):
                text = html.unescape(text).replace("\ufe0f", "").strip()
                label = range(len(TWEET_EMOJIS)).index(int(label))
                rows.add(rows.line, text, label, f"{split}-{rows.line}")
        splits[split] = rows.to_dataset(TWEET_EMOJIS)
    return datasets.DatasetDict(splits)


EMOBANK_ADDRESS = (
    "https://raw.githubusercontent.com/JULIELab/EmoBank/248ce2a43e165a66d31aeaed83cff9641d6654e0/corpus/emobank.csv"
)
EMOBANK_SHA256 = "1ade4a4a453e880c0f39d0536d2b355e8a716e0cf88236c64cdb4d438cf9605b"


@rows_of("emotion-classification")
def load_emobank(data_dir: str | Path | None = None) -> datasets.DatasetDict:
    """
    EmoBank (Buechel and Hahn 2017), 8,062 / 1,000 / 1,000 English sentences with valence, arousal and dominance, 1 to 5, the mean of
    readers' and writers' perspective (CC BY-SA 4.0).

    Args:
        data_dir: folder that holds `emobank/emobank.csv`. None: the file of a fixed commit on GitHub.
    """
    if data_dir is None:
        path = download(EMOBANK_ADDRESS, EMOBANK_SHA256)
    else:
        (path,) = local_files(data_dir, "emobank", ["emobank.csv"])
    parts = {part: CorpusRows(path) for part in ("train", "dev", "test")}
    with CorpusRows(path) as rows:
        for row in csv_rows(rows, decode(path.read_bytes(), path)):
            values = {name: float(row[name[0].upper()]) for name in ("valence", "arousal", "dominance")}
            parts[row["split"]].add(rows.line, row["text"], [], row["id"], **{TARGETS: values})
    return datasets.DatasetDict(
        {split: to_dataset(own) for split, own in zip(SPLIT_STEMS, parts.values(), strict=True)}
    )


@rows_of("emotion-classification")
def load_quickstart(data_dir: str | Path | None = None) -> datasets.DatasetDict:
    """The small packaged English corpus, written for hf-emotion: GoEmotions' 28 labels, CC0. Needs no `data_dir`."""
    return _load_packaged("quickstart")


@rows_of("emotion-classification")
def load_everyday(data_dir: str | Path | None = None, votes: bool = False) -> datasets.DatasetDict:
    """
    The packaged everyday sentences: GoEmotions' 28 labels, CC0. The test part was labelled twice: a label counts if both readers
    gave it. Needs no `data_dir`.

    Args:
        votes: add the columns `votes`, the share of the readers who gave a label, and `annotators`. Training and validation part
            have one reader.
    """
    return _load_packaged("everyday", votes=votes)


@rows_of("emotion-classification")
def load_messages(data_dir: str | Path | None = None, votes: bool = False) -> datasets.DatasetDict:
    """
    The packaged messages, only a test part: GoEmotions' 28 labels, CC0; short, negated, sarcastic and other texts that `everyday` has few
    of. Labels and `votes` as in `load_everyday`.
    """
    return _load_packaged("messages", ["test"], votes=votes)


@rows_of("emotion-classification")
def load_languages(data_dir: str | Path | None = None, language: Language | None = None) -> datasets.DatasetDict:
    """
    The small packaged test part in six languages: three sentences for each of GoEmotions' 28 labels in every language, CC0.
    Needs no `data_dir`.

    Args:
        language: its ISO 639-1 code, "en", "de", "es", "fr", "pt" or "ru"; None: all six.
    """
    return _load_packaged("languages", ["test"], language)


def _load_packaged(
    corpus: str, parts: Iterable[str] = SPLIT_STEMS, language: str | None = None, votes: bool = False
) -> datasets.DatasetDict:
    splits = {}
    for split in parts:
        rows = CorpusRows(f"{corpus} {split}")
        _read_packaged(corpus, split, rows, split, language)
        splits[split] = rows.to_dataset(GOEMOTIONS, multi_label=True, columns=vote_features() if votes else None)
    return datasets.DatasetDict(splits)


def _read_packaged(corpus: str, split: str, rows: Rows, prefix: str, language: str | None = None) -> None:
    """Add a part of a packaged corpus to `rows`, or only its rows in one language; a row's id is `prefix` and the line."""
    for line, row in packaged_rows(corpus, split):
        if language is not None and row["language"] != language:
            continue
        readers = [set(row[reader]) for reader in ("labels", "first", "second") if reader in row]
        names = set.intersection(*readers)
        votes = [sum(name in own for own in readers) / len(readers) for name in GOEMOTIONS]
        labels = sorted(GOEMOTIONS.index(name) for name in names)
        rows.add(line, row["text"], labels, f"{prefix}-{line}", votes=votes, annotators=len(readers))


# cells of label columns; a CSV that pandas wrote has 1.0 in a column that once had gaps
FLAGS = {"0": False, "0.0": False, "false": False, "1": True, "1.0": True, "true": True}


@rows_of("emotion-classification")
def load_files(
    data_dir: str | Path | None = None,
    text_column: str = "text",
    label_column: str = "label",
    label_columns: Sequence[str] | None = None,
    label_separator: str | None = None,
    votes: Sequence[str] | None = None,
    annotators: str | None = None,
    multi_label: bool = False,
    labels: Sequence[str] | None = None,
    id_column: str | None = None,
    validation_fraction: float | int = 0.1,
    on_bad_rows: OnBadRows = "error",
    separator: str | None = None,
    targets: Sequence[str] | None = None,
) -> datasets.DatasetDict:
    """
    Your own CSV, TSV, JSONL or Parquet files.

    Args:
        data_dir: a folder with `train.*` and optionally `validation.*` (also valid, val, dev) and `test.*`; or one file, which
            is then the training part.
        text_column, label_column, id_column: column names.
        label_columns: instead of `label_column`, one column of 0 and 1 per label (multi-label). An empty cell means that the label was not
            annotated in this row: it counts neither in the loss nor in any figure.
        label_separator: splits the label column, e.g. "," or "|" (multi-label). A list in JSONL or Parquet is multi-label
            without it.
        votes: instead of `label_column`, one column per label with the votes of annotators: counts, or shares that sum to 1 (in
            every row of a file that has values between whole numbers). The label of a row is the one with the most votes, the
            first in label order where several have. The shares become the column `votes`.
        annotators: with `votes`: the column with the number of annotators of a row, each of whom may have given several labels
            (multi-label). A row has the labels that at least half of them gave.
        multi_label: with `votes` and without `annotators`: each value is the share of annotators who gave the label, in [0, 1].
        labels: the label names in their order. None: the names in the training part, sorted.
        validation_fraction: share of the training rows set aside, at a fixed seed, if there is no validation file; 0: none. The only
            row with a label stays in training.
        on_bad_rows: "error", or "skip" to drop, count and list rows without text or with an unknown label.
        targets: instead of labels, columns of numbers, such as valence and arousal; an empty cell was not annotated.
        separator: the separator of a CSV. None: the one of "," ";" tab and "|" with which the header names the columns.
    """
    if targets is not None:
        others = {"label_columns": label_columns, "label_separator": label_separator, "votes": votes, "labels": labels}
        if given := [name for name, value in others.items() if value is not None]:
            raise ValueError(f"`targets` are numbers, and `{given[0]}` is for labels: leave one of them out.")
        options = (id_column, validation_fraction, on_bad_rows, separator)
        return load_target_files(data_dir, targets, text_column, *options)
    files = own_files(data_dir, labels=labels, label_columns=label_columns, votes=votes)
    single = label_columns is None and votes is None
    if single:  # else the labels are names of columns
        labels = names_of(labels)
    if label_separator is not None and (label_columns is not None or not label_separator):
        raise ValueError(
            "`label_separator` splits `label_column`: name it, or leave it out, with `label_columns` too."
        )
    if label_columns is not None:
        check_different("label_columns", label_columns)
    given_labels = {"label_columns": label_columns, "label_separator": label_separator}
    _check_vote_options(votes, annotators, multi_label, labels, given_labels)
    check_distinct_columns({"text_column": text_column, "label_column": label_column if single else None})
    shares = multi_label and annotators is None
    multi_label = multi_label or any(name is not None for name in (label_columns, label_separator, annotators))
    named = [text_column, *(votes or label_columns or [label_column]), annotators, id_column]
    wanted = [name for name in named if name is not None]
    remedy = f"text_column, {'label_column or label_columns' if votes is None else 'votes or annotators'}"

    def add(split: str, rows: Rows, line: int, row: Row) -> None:
        nonlocal multi_label
        row_id = (name_of(row[id_column]) if id_column else "") or f"{split}-{line}"
        row_labels: list[str] = []
        columns: Row = {}
        if votes is not None:
            columns = read_votes(row, votes, annotators, shares)
        elif label_columns is not None:
            row_labels, columns[UNANNOTATED] = _flagged(row, label_columns)
        else:
            row_labels = _listed(row[label_column], label_column, label_separator)
            if isinstance(row[label_column], list) and not multi_label:
                if split != "train":
                    raise BadRow(f"each row has one label, as in the training part, got {row[label_column]}")
                multi_label = True
        rows.add(line, row[text_column], row_labels, row_id, **columns)

    parsed = {
        split: read_own(path, on_bad_rows, wanted, separator, partial(add, split), remedy)
        for split, path in files.items()
    }
    if votes is not None:
        for rows in parsed.values():
            settle_votes(rows, votes, labels or votes, multi_label)
    names = known_names(parsed, "labels", labels or label_columns or votes)
    if single and not labels:
        check_label_column(parsed["train"], names, label_column)
    for path, rows in zip(files.values(), parsed.values(), strict=True):
        if rows.rows and not names:
            raise ValueError(f"{path}: no row has a label; name their column with label_column or label_columns.")
        if rows.rows and not any(row["labels"] for row in rows.rows):
            logger.warning("%s: none of its %d rows has a label", path, len(rows.rows))
    known = {name: number for number, name in enumerate(names)}
    masked = any(row.get(UNANNOTATED) for rows in parsed.values() for row in rows.rows)
    splits = {}
    for split, rows in parsed.items():
        for row in rows.rows:
            ids = sorted({known[name] for name in row["labels"]})
            row["labels"] = ids if multi_label else ids[0]
            if masked:
                row[UNANNOTATED] = sorted(known[name] for name in row[UNANNOTATED] if name in known)
        features = {UNANNOTATED: datasets.List(datasets.Value("int64"))} if masked else None
        splits[split] = rows.to_dataset(names, multi_label, features if votes is None else vote_features())
    return with_validation(splits, validation_fraction, _split_rows)


def _flagged(row: Mapping[str, Any], columns: Sequence[str]) -> tuple[list[str], list[str]]:
    """The columns with 1 in them, and the empty ones; BadRow unless the others have 0, or if all are empty."""
    flags = {name: name_of(row[name]) for name in columns}
    no_flags = {name: flag for name, flag in flags.items() if flag and flag.casefold() not in FLAGS}
    if no_flags:
        raise BadRow(f"label columns must hold 0 or 1, got {no_flags}")
    if not any(flags.values()):
        raise BadRow("all label columns are empty, which stands for labels that were not annotated: fill one")
    chosen = [name for name, flag in flags.items() if flag and FLAGS[flag.casefold()]]
    return chosen, [name for name, flag in flags.items() if not flag]


def _listed(cell: Any, column: str, separator: str | None) -> list[str]:
    """The labels in a cell: a list, a text with separators, or one label, which must be there then."""
    value = cell.split(separator) if separator is not None and isinstance(cell, str) else cell
    labels = [name for item in (value if isinstance(value, list) else [value]) if (name := name_of(item))]
    if not labels and isinstance(cell, list) and cell:
        raise BadRow(f"the column {column!r} has no label in {cell}; [] stands for a text without one")
    if not labels and not isinstance(value, list):
        raise BadRow(f"the column {column!r} has no label")
    return labels


def _split_rows(rows: datasets.Dataset, fraction: float) -> tuple[datasets.Dataset, datasets.Dataset]:
    rest, drawn = draw_units(rows, range(len(rows)), fraction, math.ceil)
    return rows.select(rest), rows.select(drawn)


def _check_vote_options(
    votes: Sequence[str] | None,
    annotators: str | None,
    multi_label: bool,
    labels: Sequence[str] | None,
    others: Mapping[str, Any],
) -> None:
    if votes is None:
        if annotators is not None or multi_label:
            raise ValueError("`annotators` and `multi_label` need `votes`, a column for each label.")
        return
    check_different("votes", votes)
    for option, value in others.items():
        if value is not None:
            raise ValueError(f"the labels come from `votes`, one label for each of its columns: leave out `{option}`.")
    if annotators in votes:
        raise ValueError(f"`annotators` and `votes` name the same column, {annotators!r}: give each its own.")
    if unknown := sorted(set(votes) - set(labels or votes)):
        raise ValueError(f"the columns {unknown} of `votes` are not among `labels`: list them, or leave `labels` out.")


CORPORA = (
    Corpus(
        name="goemotions",
        loader=load_goemotions,
        hub_id=GOEMOTIONS_HUB_ID,
        terms="CC BY 4.0; Reddit comments, Demszky et al. 2020",
        added={"everyday_copies": EVERYDAY},
    ),
    Corpus(
        name="emotion6",
        loader=load_emotion6,
        hub_id=EMOTION6_HUB_ID,
        terms="for education and research only; Saravia et al. 2018",
        selection_metric="accuracy",
    ),
    Corpus(
        name="tweet_emoji",
        loader=load_tweet_emoji,
        hub_id=TWEET_EMOJI_HUB_ID,
        terms="the original terms and those of Twitter: research use; Barbieri et al. 2018",
        example="What a view from up here!",
    ),
    Corpus(
        name="brighter",
        loader=load_brighter,
        hub_id=BRIGHTER_HUB_ID,
        languages=(),  # those of the option `languages`
        terms="CC BY 4.0; Muhammad et al. 2025, and for Amharic, Oromo, Somali and Tigrinya Belay et al. 2025",
        added={"plain_copies": ("plain_sentences",)},
    ),
    Corpus(
        name="emobank",
        loader=load_emobank,
        terms="CC BY-SA 4.0; Buechel and Hahn 2017",
        selection_metric="pearson",
    ),
    Corpus(
        name="quickstart",
        loader=load_quickstart,
        terms="CC0 1.0; sentences written for hf-emotion",
        packaged=True,
    ),
    Corpus(
        name="everyday",
        loader=load_everyday,
        terms="CC0 1.0; everyday sentences written for hf-emotion, the test part labelled twice",
        packaged=True,
    ),
    Corpus(
        name="messages",
        loader=load_messages,
        terms="CC0 1.0; messages written for hf-emotion, labelled twice, only a test part",
        packaged=True,
    ),
    Corpus(
        name="languages",
        loader=load_languages,
        languages=LANGUAGES,
        terms="CC0 1.0; sentences in six languages written for hf-emotion by a language model, only a test part",
        packaged=True,
    ),
    Corpus(
        name="plain_sentences",
        loader=load_plain_sentences,
        languages=("zh", "de", "en", "es", "fr", "it", "ja", "pl", "pt", "ru"),
        terms="CC0 1.0; plain sentences written for hf-emotion in ten languages",
        packaged=True,
    ),
    Corpus(
        name="files",
        loader=load_files,
        languages=(),
        terms=OWN_TERMS,
        own_files=True,
    ),
)
