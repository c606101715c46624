# SPDX-License-Identifier: Apache-2.0
"""
Dialogue emotion corpora: MELD, EmoryNLP, DailyDialog, IEMOCAP, the packaged dialogues, and your own.

A row is a dialogue, so that no dialogue is ever in two splits. Columns: `id` (string; no other row of the split has it),
`utterances` (list of strings, NFC, stripped), `speakers` (list of strings) and `labels` (list of `ClassLabel`, -1 for an
utterance without a label), three lists of one length in the order of the turns. The packaged dialogues also have `needs_context` (list of
bool): turns whose words alone would be read as another emotion.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import logging
import re
import unicodedata
import zlib
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from ...data.files import SPLIT_STEMS
from ...data.own_files import (
    check_columns,
    name_of,
    names_of,
    own_files,
    read_name,
    read_own,
    split_units,
    training_names,
    unknown_name,
    with_validation,
)
from ...data.rows import DOWNLOAD_REMEDY, BadRow, OnBadRows, Row, Rows, decode, download, local_files, packaged_rows
from ...data.splits import NEEDS_CONTEXT
from ...io.lazily import datasets
from ...runtime.plain import text_processing
from ..corpus import OWN_TERMS, Corpus, rows_of
from ..corpus_files import CorpusRows, corpus_files, csv_rows, lines_of


logger = logging.getLogger(__name__)

EMOTIONS = {  # in the order of the ids, which DailyDialog's files share
    "meld": ["neutral", "joy", "surprise", "anger", "sadness", "disgust", "fear"],
    "emorynlp": ["neutral", "joyful", "peaceful", "powerful", "scared", "mad", "sad"],
    "daily_dialog": ["neutral", "anger", "disgust", "fear", "happiness", "sadness", "surprise"],
}
DIALOGUE_LABELS = ["neutral", "joy", "surprise", "sadness", "fear", "frustration", "anger", "disgust"]
FOUR_CLASSES = ["angry", "happy", "neutral", "sad"]
FOUR_OF = {  # the emotions that become the four classes
    "meld": ["anger", "joy", "neutral", "sadness"],
    "emorynlp": ["mad", "joyful", "neutral", "sad"],
    "daily_dialog": ["anger", "happiness", "neutral", "sadness"],
}

IEMOCAP_EMOTIONS = {"ang": 0, "hap": 1, "exc": 1, "neu": 2, "sad": 3} | dict.fromkeys(
    ("fru", "fea", "sur", "dis", "oth", "xxx"), -1
)
IEMOCAP_REMEDY = (
    "`data_dir` must hold the folder `iemocap` with Session1 to Session5 (or be it). Their licence is requested from USC SAIL, "
    "https://sail.usc.edu/iemocap/."
)

# One fixed commit, and its files: {file: SHA-256}.
MELD_REPOSITORY = "https://raw.githubusercontent.com/declare-lab/MELD/2d2011b409d3ca2d7e94460cd007d434b1d0a102/data"
DOWNLOAD_FROM = {
    "meld": f"{MELD_REPOSITORY}/MELD",
    "emorynlp": f"{MELD_REPOSITORY}/emorynlp",
    "daily_dialog": "https://raw.githubusercontent.com/TaWeiYeh/Emotional-Dialogue/"
    "e21dabcc3888782a3f2b7122b4556fe834e95f32/data",
}
FILES = {
    "meld": {
        "train_sent_emo.csv": "d2fa2d6529cf03cac2989efec05c9b27d8fd2f4c8fc5974c7ae88aa537fa02db",
        "dev_sent_emo.csv": "2e89c6f8aa182d6f62f8c6331aece905ac7273ca4999660bfb5213e1d0370c1c",
        "test_sent_emo.csv": "8d37103938f7067600839fe29d5a114a6cd1bcdafb75bec101e06464c5006888",
    },
    "emorynlp": {
        "emorynlp_train_final.csv": "462c66c333783adb801836d12d1424f48489bef4fb8ddfec7fbb2f08ce8211d5",
        "emorynlp_dev_final.csv": "20edc9d5917fe705b17b849f7f288e495d4132a60353a6247c3800445bdf8734",
        "emorynlp_test_final.csv": "dbc4b5638acd12c92a5f48def829e04f1c765cddffb4eedbe34216312e0d2d78",
    },
}
# The members of the archive of each split.
DAILY_DIALOG_FILES = {
    "train": {
        "dialogues_train.txt": "71633bd5fdb0b09dd82215b131b56432cf7329a0fe50bc8adec168713d350d1a",
        "dialogues_emotion_train.txt": "5c94e57c6e6c6641f4b1386513085f9d9b934229e732a556424ca7dfae4b6c77",
    },
    "validation": {
        "dialogues_validation.txt": "2ad64701fe3a4449e7a6ee7cdc6c2a71c80f77b8a34f708ac0532395f499081c",
        "dialogues_emotion_validation.txt": "3d4094299a995e998bbc3492ce1755c9abc1e7f56500c840e83b12dd16580596",
    },
    "test": {
        "dialogues_test.txt": "3c323651cdfb09f7b529f850eddf96a638fc6cc9b43330b77956ab248484a1a8",
        "dialogues_emotion_test.txt": "482b7235f91a1441055a09241b2d2709bb1702f4a08d7316c27fa807cba7d3c9",
    },
}
# The one dialogue of DailyDialog that lacks a label: split, line, number of utterances, number of labels.
DAILY_DIALOG_FAULT = ("train", 7852, 12, 11)


def to_dataset(rows: Rows, names: Sequence[str]) -> datasets.Dataset:
    """Rows of utterances, with the id of the dialogue, `speaker`, `order` in the dialogue and `labels` -> one row per dialogue."""
    rows.finish()
    dialogues: dict[str, list[Row]] = {}
    for row in rows.rows:
        dialogues.setdefault(row["id"], []).append(row)
    turns = [sorted(own, key=lambda row: row["order"]) for own in dialogues.values()]
    values = {
        "id": list(dialogues),
        "utterances": [[row["text"].strip() for row in own] for own in turns],
        "speakers": [[unicodedata.normalize("NFC", row["speaker"]) for row in own] for own in turns],
        "labels": [[row["labels"] for row in own] for own in turns],
    }
    text = datasets.List(datasets.Value("string"))
    features = {
        "id": datasets.Value("string"),
        "utterances": text,
        "speakers": text,
        "labels": datasets.List(datasets.ClassLabel(names=list(names))),
    }
    if NEEDS_CONTEXT in rows.rows[0]:
        values[NEEDS_CONTEXT] = [[row[NEEDS_CONTEXT] for row in own] for own in turns]
        features[NEEDS_CONTEXT] = datasets.List(datasets.Value("bool"))
    return datasets.Dataset.from_dict(values, features=datasets.Features(features))


def set_aside(dialogues: datasets.Dataset, fraction: float) -> tuple[datasets.Dataset, datasets.Dataset]:
    """(the rest, the share of the dialogues to set aside, at least one, drawn at a fixed seed); both keep the order."""
    return split_units(dialogues, fraction, rounded=lambda number: max(round(number), 1))


@rows_of("dialogue-emotion")
def load_meld(data_dir: str | Path | None = None, four_classes: bool = False) -> datasets.DatasetDict:
    """
    MELD: 1,038 / 114 / 280 dialogues of a television series, 9,989 / 1,109 / 2,610 utterances, 7 emotions.

    The ids are the numbers of the dialogues, which start again in every split; utterances are sorted by their numbers.

    Args:
        data_dir: folder that holds `meld/{train,dev,test}_sent_emo.csv`. None: the files are downloaded from
            github.com/declare-lab/MELD at a fixed commit, checked and cached. (The repository is GPL-3.0.)
        four_classes: angry (anger), happy (joy), neutral and sad (sadness); all other utterances stay, without a label.
    """
    return _load_csv("meld", data_dir, four_classes, ["Dialogue_ID"])


@rows_of("dialogue-emotion")
def load_emorynlp(data_dir: str | Path | None = None, four_classes: bool = False) -> datasets.DatasetDict:
    """
    EmoryNLP, multimodal edition: 659 / 89 / 79 scenes of a television series, 7,551 / 954 / 984 utterances, 7 emotions.

    A dialogue is a scene, with the id "season-episode-scene". If several people speak an utterance, the speaker is their
    names joined by " & ".

    Args:
        data_dir: folder that holds `emorynlp/emorynlp_{train,dev,test}_final.csv`. None: the files are downloaded from
            github.com/declare-lab/MELD at a fixed commit, checked and cached. (The repository is GPL-3.0.)
        four_classes: angry (mad), happy (joyful), neutral and sad; all other utterances stay, without a label.
    """
    return _load_csv("emorynlp", data_dir, four_classes, ["Season", "Episode", "Scene_ID"])


def _load_csv(
    corpus: str, data_dir: str | Path | None, four_classes: bool, dialogue_columns: Sequence[str]
) -> datasets.DatasetDict:
    names, ids = _names_and_ids(corpus, four_classes)
    paths = corpus_files(data_dir, corpus, DOWNLOAD_FROM[corpus], FILES[corpus])
    splits = {}
    for split, path in zip(SPLIT_STEMS, paths, strict=True):
        content = decode(path.read_bytes(), path)
        with CorpusRows(path) as rows:
            for row in csv_rows(rows, content):
                dialogue = "-".join(str(int(row[name])) for name in dialogue_columns)
                # EmoryNLP has Python's list of the speakers.
                speakers = ast.literal_eval(row["Speaker"]) if corpus == "emorynlp" else [row["Speaker"]]
                rows.add(
                    *(rows.line, row["Utterance"], ids[row["Emotion"].strip().lower()], dialogue),
                    speaker=" & ".join(name.strip() for name in speakers),
                    order=int(row["Utterance_ID"]),
                )
        splits[split] = to_dataset(rows, names)
    return datasets.DatasetDict(splits)


@rows_of("dialogue-emotion")
def load_daily_dialog(data_dir: str | Path | None = None, four_classes: bool = False) -> datasets.DatasetDict:
    """
    DailyDialog: 11,117 / 1,000 / 1,000 written dialogues of two people, 7,740 test utterances, 7 emotions (CC BY-NC-SA 4.0).

    The ids are the lines of the files, from 1. The speakers "A" and "B" take turns. `utterances` is detokenized. One training
    dialogue of the corpus has fewer labels than utterances: it is left out, with a warning.

    Args:
        data_dir: folder that holds `daily_dialog/dialogues_{train,validation,test}.txt` and `dialogues_emotion_*.txt`. None:
            the files are downloaded from github.com/TaWeiYeh/Emotional-Dialogue at a fixed commit, checked and cached.
        four_classes: angry (anger), happy (happiness), neutral (no emotion) and sad (sadness); all other utterances stay,
            without a label.
    """
    names, ids = _names_and_ids("daily_dialog", four_classes)
    of_number = {str(number): ids[emotion] for number, emotion in enumerate(EMOTIONS["daily_dialog"])}
    splits = {}
    for split, files in _daily_dialog_files(data_dir).items():
        source, lines = files[0][0], [lines_of(content, name) for name, content in files]
        with CorpusRows(source) as rows:
            for rows.line, (line, label_line) in enumerate(zip(*lines, strict=True), 1):
                utterances, labels = line.split("__eou__")[:-1], label_line.split()
                if (split, rows.line, len(utterances), len(labels)) == DAILY_DIALOG_FAULT:
                    logger.warning(
                        "%s, line %d: %d utterances and %d labels, a known fault of the corpus: this dialogue is left out",
                        *(source, rows.line, len(utterances), len(labels)),
                    )
                    continue
                for order, (utterance, label) in enumerate(zip(utterances, labels, strict=True)):
                    text, number = detokenize(utterance), str(rows.line)
                    rows.add(rows.line, text, of_number[label], number, speaker="AB"[order % 2], order=order)
        splits[split] = to_dataset(rows, names)
    return datasets.DatasetDict(splits)


def _daily_dialog_files(data_dir: str | Path | None) -> dict[str, list[tuple[Path | str, bytes]]]:
    """For each split the names and the contents of its two files."""
    if data_dir is None:
        return {
            split: _members(f"{DOWNLOAD_FROM['daily_dialog']}/{split}.zip", sums)
            for split, sums in DAILY_DIALOG_FILES.items()
        }
    return {
        split: [(path, path.read_bytes()) for path in local_files(data_dir, "daily_dialog", list(sums))]
        for split, sums in DAILY_DIALOG_FILES.items()
    }


def _members(address: str, sums: Mapping[str, str]) -> list[tuple[Path | str, bytes]]:
    """The files with these names and SHA-256 sums, from any folder of a ZIP archive."""
    archive, found = download(address), {}
    import zipfile  # brings bz2 and lzma, which help does not wait for

    with contextlib.suppress(zipfile.BadZipFile, zlib.error, EOFError), zipfile.ZipFile(archive) as file:
        for member in file.namelist():
            name = PurePosixPath(member).name
            if name in sums and hashlib.sha256(content := file.read(member)).hexdigest() == sums[name]:
                found[name] = content
    for name, sha256 in sums.items():
        if name not in found:
            raise OSError(
                f"{address} was not downloaded whole or is another file, it holds no {name} with the SHA-256 {sha256}: "
                f"delete {archive}, or {DOWNLOAD_REMEDY}"
            )
    return [(f"{address}/{name}", found[name]) for name in sums]


# Each pattern requires the blanks that the corpus sets, so that other text stays as it is.
DETOKENIZED = [
    (re.compile(r"[’′]"), "'"),
    (re.compile(r"(?<=\w) ' (s|t|re|ll|ve|m|d)\b"), r"'\1"),
    (re.compile(r"(?<=\w) ' Ve\b"), "'ve"),  # the corpus writes it with a capital
    (re.compile("‘"), "'"),  # after the contractions, because it opens a quotation
    (re.compile(r"\b([Oo]) ' (?=clock\b|[A-Z][a-z])"), r"\1'"),
    (re.compile(r"\b([Mm]a) ' (?=am\b)"), r"\1'"),
    (re.compile(r"\b(\d{1,2}) : ([0-5]\d)\b"), r"\1:\2"),
    # Closing marks before a blank or the end (not ".5", ".NET"), except in faces such as ":)".
    (re.compile(r" +(?![:;]-?[)\]])(?=[,.?!;:)\]%]+(?:\s|$))"), ""),
    (re.compile(r"(?<![:;=-])([(\[]) +"), r"\1"),
]


def detokenize(text: str) -> str:
    """
    Remove the blanks before punctuation and around apostrophes: "I don ’ t know , Jim ." -> "I don't know, Jim." Quotation marks
    stay where they are, because one cannot tell which side they belong to.
    """
    text = text.strip()
    for pattern, replacement in DETOKENIZED:
        text = pattern.sub(replacement, text)
    return text


@rows_of("dialogue-emotion")
def load_iemocap(data_dir: str | Path | None = None) -> datasets.DatasetDict:
    """
    IEMOCAP: transcribed dialogues of pairs of actors, four classes: angry, happy (and excited), neutral, sad.

    You need your own licensed copy. Utterances with another emotion, or none, stay, without a label. The fifth session is the
    test part; a tenth of the other dialogues, drawn at a fixed seed, is the validation part. Utterances are sorted by their
    start. A speaker is named by session and sex, such as "Ses01F".

    Args:
        data_dir: folder that holds `iemocap/Session1` to `Session5`, or these themselves, with `dialog/transcriptions/*.txt`
            and `dialog/EmoEvaluation/*.txt`. Nothing is downloaded.
    """
    if data_dir is None:
        raise FileNotFoundError(f"IEMOCAP needs `data_dir` (or HF_EMOTION_DATA). {IEMOCAP_REMEDY}")
    folder = Path(data_dir) if Path(data_dir, "Session1").is_dir() else Path(data_dir, "iemocap")
    parts = {}
    for part, sessions in {"train": (1, 2, 3, 4), "test": (5,)}.items():
        with CorpusRows(folder) as rows:
            for session in sessions:
                dialogues = folder / f"Session{session}" / "dialog" / "transcriptions"
                paths = sorted(dialogues.glob("[!.]*.txt"))  # macOS left other ones in the archive, ._*
                if not paths:
                    raise FileNotFoundError(f"There is no file {dialogues / '*.txt'}. {IEMOCAP_REMEDY}")
                for path in paths:
                    _read_iemocap(path, rows)
        parts[part] = to_dataset(rows, FOUR_CLASSES)
    train, validation = set_aside(parts["train"], 0.1)
    return datasets.DatasetDict({"train": train, "validation": validation, "test": parts["test"]})


# Ses01F_impro01_F000 [006.2901-008.2357]: ...; lines of other speech have no such id: "M: ..."
IEMOCAP_TURN = re.compile(r"(Ses\d\d)[FM]_\w+_([FM])[^\W_]* \[(-?[\d.]+) ?- ?(-?[\d.]+)\]: ?(.*)")

# [6.2901 - 8.2357]	Ses01F_impro01_F000	neu	[2.5000, 2.5000, 2.5000]; below it what each annotator chose
IEMOCAP_EVALUATION = re.compile(r"\[[^]]*\]\t(\S+)\t(\w+)\t")


def _read_iemocap(path: Path, rows: CorpusRows) -> None:
    rows.source = evaluation = path.parent.parent / "EmoEvaluation" / path.name
    labels = {}
    for rows.line, line in enumerate(_latin_lines(evaluation), 1):
        if found := IEMOCAP_EVALUATION.match(line):
            labels[found[1]] = IEMOCAP_EMOTIONS[found[2]]
    rows.source = path
    for rows.line, line in enumerate(_latin_lines(path), 1):
        if line.startswith("Ses"):
            turn = IEMOCAP_TURN.fullmatch(line)
            if turn is None:
                raise BadRow(f"expected `Ses01F_impro01_F000 [start-end]: text`, got {line!r}")
            label, start = labels.get(line.split(" ", 1)[0], -1), float(turn[3])
            rows.add(rows.line, turn[5], label, path.stem, speaker=turn[1] + turn[2], order=start)


def _latin_lines(path: Path) -> list[str]:
    content = path.read_bytes()
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:  # the release does not name its encoding
        text = content.decode("latin-1")
    return [line.strip() for line in text.split("\n")]


def _names_and_ids(corpus: str, four_classes: bool) -> tuple[list[str], dict[str, int]]:
    """The label names, and the label id of each emotion of the corpus; with four classes the other emotions get -1."""
    emotions = EMOTIONS[corpus]
    if not four_classes:
        return emotions, {emotion: number for number, emotion in enumerate(emotions)}
    four = FOUR_OF[corpus]
    return FOUR_CLASSES, {emotion: four.index(emotion) if emotion in four else -1 for emotion in emotions}


@rows_of("dialogue-emotion")
def load_dialogues(data_dir: str | Path | None = None) -> datasets.DatasetDict:
    """
    The packaged dialogues of 4 to 14 turns, CC0. Needs no `data_dir`. Eight emotions, and `needs_context`. Two readers
    labelled the test part; a turn that they read differently has no label.
    """
    splits = {}
    for split in SPLIT_STEMS:
        rows = CorpusRows(f"dialogues {split}")
        for line, dialogue in packaged_rows("dialogues", split):
            for order, turn in enumerate(dialogue["turns"]):
                labels = {turn[reader] for reader in ("label", "first", "second") if reader in turn}
                label = DIALOGUE_LABELS.index(*labels) if len(labels) == 1 else -1
                found = {"speaker": turn["speaker"], "order": order, NEEDS_CONTEXT: turn.get(NEEDS_CONTEXT, False)}
                rows.add(line, turn["utterance"], label, dialogue["id"], **found)
        splits[split] = to_dataset(rows, DIALOGUE_LABELS)
    return datasets.DatasetDict(splits)


_SERIES = "GPL-3.0 repository, dialogue of a television series"

COLUMNS_REMEDY = "dialogue_column, utterance_column, speaker_column or label_column; a file with one dialogue per row has the column 'turns'"


@rows_of("dialogue-emotion")
def load_dialogue_files(
    data_dir: str | Path | None = None,
    dialogue_column: str = "dialogue",
    utterance_column: str = "utterance",
    speaker_column: str = "speaker",
    label_column: str = "label",
    labels: Sequence[str] | None = None,
    validation_fraction: float | int = 0.1,
    on_bad_rows: OnBadRows = "error",
    separator: str | None = None,
) -> datasets.DatasetDict:
    """
    Your own dialogues in CSV, TSV, JSONL or Parquet files, in one of two layouts.

    First layout: a row is an utterance. Its columns name its dialogue, the utterance, its label and, if there is such a column,
    the speaker; the rows of a dialogue are in the order of its turns. Second layout, JSONL or Parquet: a row is a dialogue. The
    column `turns` holds a list of objects with utterance, speaker and label; the column `id`, if there is one, names the
    dialogue. An utterance whose label is empty or null has no label and serves only as context.

    Args:
        data_dir, separator: see `load_files`.
        dialogue_column, utterance_column, speaker_column, label_column: names of the columns, or of the keys in `turns`.
        labels: the label names in their order. None: the names in the training part, sorted.
        validation_fraction: share of the training dialogues set aside, at a fixed seed, if there is no validation file; 0: none.
        on_bad_rows: "error", or "skip" to drop, count and list malformed utterances (in the second layout: dialogues).
    """
    columns = {"utterance": utterance_column, "speaker": speaker_column, "label": label_column}
    wanted = [dialogue_column, utterance_column, label_column]
    if speaker_column != "speaker":  # a name that was given must be there
        wanted.append(speaker_column)
    files = own_files(data_dir, labels=labels)
    labels = names_of(labels)
    names = list(labels or [])
    layouts: dict[str, bool] = {}  # whether a row of the file is a dialogue

    def add(split: str, seen: set[str], rows: Rows, line: int, row: Row) -> None:
        whole_dialogues = layouts.setdefault(split, "turns" in row)
        if whole_dialogues:
            dialogue_id = f"{split}-{line}" if row.get("id") is None else read_name(row["id"], "id")
            if dialogue_id in seen:
                raise BadRow(f"a dialogue before it has the id {dialogue_id!r} too")
            turns = _turns(row, columns, names, bool(labels))
            seen.add(dialogue_id)
        else:
            check_columns(rows.source, line, row, wanted, COLUMNS_REMEDY)
            dialogue_id = read_name(row[dialogue_column], dialogue_column)
            turns = [_turn(row, columns, names, bool(labels))]
        for text, speaker, label in turns:
            rows.add(line, text, label, dialogue_id, speaker=speaker, order=len(rows.rows))

    parsed: dict[str, Rows] = {}
    for split, path in files.items():
        parsed[split] = rows = read_own(path, on_bad_rows, wanted, separator, partial(add, split, set()))
        occurring = {row["labels"] for row in rows.rows} - {None}
        if rows.rows and not occurring:
            raise ValueError(
                f"{path}: no utterance has a label; name their column with label_column, now {label_column!r}."
            )
        if split == "train":
            names[:] = training_names("label", occurring, labels)

    ids = {None: -1} | {name: number for number, name in enumerate(names)}
    splits = {}
    for split, rows in parsed.items():
        for row in rows.rows:
            row["labels"] = ids[row["labels"]]
        splits[split] = to_dataset(rows, names)
    return with_validation(splits, validation_fraction, set_aside, "dialogues")


def _turns(
    row: Mapping[str, Any], columns: Mapping[str, str], names: Sequence[str], given: bool
) -> list[tuple[str, str, str | None]]:
    turns = row.get("turns")
    if not isinstance(turns, list) or not turns:
        raise BadRow(f"the column 'turns' must hold a list of turns, at least one, got {turns!r}")
    result = []
    for number, turn in enumerate(turns, 1):
        if not isinstance(turn, dict):
            raise BadRow(f"turn {number} must be an object, got {type(turn).__name__}")
        try:
            result.append(_turn(turn, columns, names, given))
        except BadRow as reason:
            raise BadRow(f"turn {number}: {reason}") from None
    return result


def _turn(
    turn: Mapping[str, Any], columns: Mapping[str, str], names: Sequence[str], given: bool
) -> tuple[str, str, str | None]:
    """Utterance, speaker ("" if there is none) and label (None if there is none; one of `names` if these are given)."""
    text, speaker, label = (turn.get(columns[name]) for name in ("utterance", "speaker", "label"))
    if not isinstance(text, str) or not text_processing.is_readable(text):
        raise BadRow(f"the utterance in {columns['utterance']!r} is empty or no string: {text!r}")
    speaker = read_name(speaker, columns["speaker"]) if name_of(speaker) else ""
    label = read_name(label, columns["label"]) if name_of(label) else None
    if names and label is not None and label not in names:
        raise BadRow(unknown_name("label", label, names, given))
    return text, speaker, label


CORPORA = (
    Corpus(
        name="meld",
        loader=load_meld,
        terms=f"{_SERIES}; Poria et al. 2019",
        metrics=("dialogue",),
        selection_metric="weighted_f1",
    ),
    Corpus(
        name="emorynlp",
        loader=load_emorynlp,
        terms=f"{_SERIES}; Zahiri and Choi 2018",
        metrics=("dialogue",),
        selection_metric="weighted_f1",
    ),
    Corpus(
        name="daily_dialog",
        loader=load_daily_dialog,
        terms="CC BY-NC-SA 4.0; Li et al. 2017",
        metrics=("dialogue",),
        selection_metric="micro_f1_without_neutral",
    ),
    Corpus(
        name="iemocap",
        loader=load_iemocap,
        terms="licence of USC SAIL, not redistributable; Busso et al. 2008",
        metrics=("dialogue",),
    ),
    Corpus(
        name="dialogues",
        loader=load_dialogues,
        terms="CC0 1.0; large language models wrote them for hf-emotion",
        metrics=("dialogue",),
        packaged=True,
    ),
    Corpus(
        name="dialogue_files",
        loader=load_dialogue_files,
        languages=(),
        terms=OWN_TERMS,
        metrics=("dialogue",),
        own_files=True,
    ),
)
