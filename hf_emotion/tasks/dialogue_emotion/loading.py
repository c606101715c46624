# SPDX-License-Identifier: Apache-2.0
"""
Dialogue emotion corpora: MELD, EmoryNLP, DailyDialog and IEMOCAP. One's own dialogues: own_files.py.

A row is a dialogue, so that no dialogue is ever in two splits. Columns: `id` (string; no other row of the split has it),
`utterances` (list of strings, NFC, stripped), `speakers` (list of strings) and `labels` (list of `ClassLabel`, -1 for an
utterance without a label), three lists of one length in the order of the turns.
"""

from __future__ import annotations

import ast
import csv
import hashlib
import io
import logging
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

from ...data.lazily import datasets
from ...data.rows import DOWNLOAD_REMEDY, BadRow, OnBadRows, Rows, decode, download, local_files
from .rows import set_aside, to_dataset


logger = logging.getLogger(__name__)


EMOTIONS = {  # in the order of the ids, which DailyDialog's files share
    "meld": ["neutral", "joy", "surprise", "anger", "sadness", "disgust", "fear"],
    "emorynlp": ["neutral", "joyful", "peaceful", "powerful", "scared", "mad", "sad"],
    "daily_dialog": ["neutral", "anger", "disgust", "fear", "happiness", "sadness", "surprise"],
}


FOUR_CLASSES = ["angry", "happy", "neutral", "sad"]


FOUR_OF = {  # the emotions that become the four classes
    "meld": ["anger", "joy", "neutral", "sadness"],
    "emorynlp": ["mad", "joyful", "neutral", "sad"],
    "daily_dialog": ["anger", "happiness", "neutral", "sadness"],
}


IEMOCAP_EMOTIONS = {"ang": 0, "hap": 1, "exc": 1, "neu": 2, "sad": 3} | dict.fromkeys(
    ("fru", "fea", "sur", "dis", "oth", "xxx"), -1
)


IEMOCAP_ADDRESS = "https://sail.usc.edu/iemocap/"


# One fixed commit, and its files: {split: {file: SHA-256}}.
MELD_REPOSITORY = "https://raw.githubusercontent.com/declare-lab/MELD/2d2011b409d3ca2d7e94460cd007d434b1d0a102/data"


DOWNLOAD_FROM = {
    "meld": f"{MELD_REPOSITORY}/MELD",
    "emorynlp": f"{MELD_REPOSITORY}/emorynlp",
    "daily_dialog": "https://raw.githubusercontent.com/TaWeiYeh/Emotional-Dialogue/"
    "e21dabcc3888782a3f2b7122b4556fe834e95f32/data",
}


FILES = {
    "meld": {
        "train": {"train_sent_emo.csv": "d2fa2d6529cf03cac2989efec05c9b27d8fd2f4c8fc5974c7ae88aa537fa02db"},
        "validation": {"dev_sent_emo.csv": "2e89c6f8aa182d6f62f8c6331aece905ac7273ca4999660bfb5213e1d0370c1c"},
        "test": {"test_sent_emo.csv": "8d37103938f7067600839fe29d5a114a6cd1bcdafb75bec101e06464c5006888"},
    },
    "emorynlp": {
        "train": {"emorynlp_train_final.csv": "462c66c333783adb801836d12d1424f48489bef4fb8ddfec7fbb2f08ce8211d5"},
        "validation": {"emorynlp_dev_final.csv": "20edc9d5917fe705b17b849f7f288e495d4132a60353a6247c3800445bdf8734"},
        "test": {"emorynlp_test_final.csv": "dbc4b5638acd12c92a5f48def829e04f1c765cddffb4eedbe34216312e0d2d78"},
    },
    "daily_dialog": {
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
    },
}


# The one dialogue of DailyDialog that lacks a label: split, line, number of utterances, number of labels.
DAILY_DIALOG_FAULT = ("train", 7852, 12, 11)


def load_meld(
    data_dir: str | Path | None = None, four_classes: bool = False, on_bad_rows: OnBadRows = "error"
) -> datasets.DatasetDict:
    """
    MELD: 1,038 / 114 / 280 dialogues of a television series, 9,989 / 1,109 / 2,610 utterances, 7 emotions.

    The ids are the numbers of the dialogues, which start anew in every split; utterances are sorted by their numbers.

    Args:
        data_dir: folder that holds `meld/{train,dev,test}_sent_emo.csv`. None: the files are downloaded from
            github.com/declare-lab/MELD at a fixed commit, checked and cached. (The repository is GPL-3.0.)
        four_classes: angry (anger), happy (joy), neutral and sad (sadness); all other utterances stay, without a label.
        on_bad_rows: "error", or "skip" to drop, count and list malformed utterances.

    Raises:
        FileNotFoundError, OSError: no such folder or file; the download fails.
        ValueError: a malformed file or utterance, with file, line and reason.
    """
    return _load_csv(
        "meld", data_dir, four_classes, on_bad_rows, ["Dialogue_ID"], speaker_of=lambda row: row["Speaker"].strip()
    )


def load_emorynlp(
    data_dir: str | Path | None = None, four_classes: bool = False, on_bad_rows: OnBadRows = "error"
) -> datasets.DatasetDict:
    """
    EmoryNLP, multimodal edition: 659 / 89 / 79 scenes of a television series, 7,551 / 954 / 984 utterances, 7 emotions.

    A dialogue is a scene, with the id "season-episode-scene". If several people speak an utterance, the speaker is their
    names joined by " & ".

    Args:
        data_dir: folder that holds `emorynlp/emorynlp_{train,dev,test}_final.csv`. None: the files are downloaded from
            github.com/declare-lab/MELD at a fixed commit, checked and cached. (The repository is GPL-3.0.)
        four_classes: angry (mad), happy (joyful), neutral and sad; all other utterances stay, without a label.
        on_bad_rows: "error", or "skip" to drop, count and list malformed utterances.

    Raises:
        FileNotFoundError, OSError: no such folder or file; the download fails.
        ValueError: a malformed file or utterance, with file, line and reason.
    """
    columns = ["Season", "Episode", "Scene_ID"]
    return _load_csv("emorynlp", data_dir, four_classes, on_bad_rows, columns, speaker_of=_listed_speakers)


def _listed_speakers(row: Mapping[str, str]) -> str:
    """The speakers in a column that holds a Python list of names as text."""
    try:
        names = ast.literal_eval(row["Speaker"])
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        names = None
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise BadRow(f"the column 'Speaker' must hold a list of names such as ['A', 'B'], got {row['Speaker']!r}")
    return " & ".join(name.strip() for name in names)


def _load_csv(
    corpus: str,
    data_dir: str | Path | None,
    four_classes: bool,
    on_bad_rows: OnBadRows,
    dialogue_columns: Sequence[str],
    speaker_of: Callable[[Mapping[str, str]], str],
) -> datasets.DatasetDict:
    names, ids = _names_and_ids(corpus, four_classes)
    splits = {}
    for split, (path,) in _paths(corpus, data_dir).items():
        rows = Rows(path, on_bad_rows)
        seen: set[tuple[str, int]] = set()
        for line, row in _read_csv(rows, [*dialogue_columns, "Utterance_ID", "Utterance", "Speaker", "Emotion"]):
            try:
                *dialogue, order = (_whole_number(row, name) for name in [*dialogue_columns, "Utterance_ID"])
                dialogue_id = "-".join(map(str, dialogue))
                if (dialogue_id, order) in seen:
                    raise BadRow(f"the dialogue {dialogue_id} has an utterance {order} already")
                emotion = row["Emotion"].strip().lower()
                if emotion not in ids:
                    raise BadRow(f"unknown emotion {row['Emotion']!r}; known are {list(ids)}")
                speaker = speaker_of(row)
            except BadRow as reason:
                rows.reject(line, str(reason))
                continue
            seen.add((dialogue_id, order))
            rows.add(line, row["Utterance"], ids[emotion], dialogue_id, speaker=speaker, order=order)
        splits[split] = to_dataset(rows, names)
    return datasets.DatasetDict(splits)


def _read_csv(rows: Rows, columns: Sequence[str]) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield (line, {column: value}) for the CSV file of the rows; its name may lack an ending, as a download's does."""
    reader = csv.DictReader(io.StringIO(decode(Path(rows.source).read_bytes(), rows.source), newline=""), strict=True)
    try:
        header = reader.fieldnames or []
        missing = [name for name in columns if name not in header]
        if missing:
            raise ValueError(
                f"{rows.source} has no column {missing[0]!r}; the columns are {header}: use the corpus' own file."
            )
        for row in reader:
            if None in row or None in row.values():
                rows.reject(
                    reader.line_num,
                    f"the header has {len(header)} columns and the row has {'more' if None in row else 'fewer'}",
                )
            else:
                yield reader.line_num, row
    except csv.Error as error:
        raise ValueError(f"{rows.source}, line {reader.reader.line_num}: malformed CSV: {error}") from error


def _whole_number(row: Mapping[str, str], column: str) -> int:
    if not re.fullmatch(r"\s*[0-9]{1,18}\s*", row[column]):
        raise BadRow(f"the column {column!r} must hold a whole number, got {row[column]!r}")
    return int(row[column])


def load_daily_dialog(
    data_dir: str | Path | None = None, four_classes: bool = False, on_bad_rows: OnBadRows = "error"
) -> datasets.DatasetDict:
    """
    DailyDialog: 11,117 / 1,000 / 1,000 written dialogues of two people, 7,740 test utterances, 7 emotions (CC BY-NC-SA 4.0).

    The ids are the lines of the files, from 1. The speakers "A" and "B" take turns. `utterances` is detokenized. One training
    dialogue of the corpus has fewer labels than utterances: it is left out, with a warning.

    Args:
        data_dir: folder that holds `daily_dialog/dialogues_{train,validation,test}.txt` and `dialogues_emotion_*.txt`. None:
            the files are downloaded from github.com/TaWeiYeh/Emotional-Dialogue at a fixed commit, checked and cached.
        four_classes: angry (anger), happy (happiness), neutral (no emotion) and sad (sadness); all other utterances stay,
            without a label.
        on_bad_rows: "error", or "skip" to drop, count and list malformed utterances, and dialogues whose numbers of
            utterances and labels differ.

    Raises:
        FileNotFoundError, OSError: no such folder or file; the download fails.
        ValueError: a malformed file, dialogue or utterance, with file, line and reason.
    """
    names, ids = _names_and_ids("daily_dialog", four_classes)
    of_number = {str(number): ids[emotion] for number, emotion in enumerate(EMOTIONS["daily_dialog"])}
    splits = {}
    for split, ((source, content), (label_source, label_content)) in _daily_dialog_files(data_dir).items():
        rows = Rows(source, on_bad_rows)
        lines, label_lines = lines_of(content, source), lines_of(label_content, label_source)
        if len(lines) != len(label_lines):
            raise ValueError(
                f"{source} and {label_source} must have one line per dialogue each, got {len(lines)} and "
                f"{len(label_lines)}: use the two files of one release."
            )
        for number, (line, label_line) in enumerate(zip(lines, label_lines, strict=True), 1):
            *utterances, rest = line.split("__eou__")
            labels = label_line.split()
            if rest.strip():
                rows.reject(number, f"the last utterance does not end in __eou__: {rest.strip()!r}")
            elif (split, number, len(utterances), len(labels)) == DAILY_DIALOG_FAULT:
                logger.warning(
                    "%s, line %d: %d utterances and %d labels, a known fault of the corpus: this dialogue is left out",
                    *(source, number, len(utterances), len(labels)),
                )
            elif len(utterances) != len(labels):
                rows.reject(number, f"{len(utterances)} utterances, and {len(labels)} labels in {label_source}")
            else:
                for order, (utterance, label) in enumerate(zip(utterances, labels, strict=True)):
                    if label not in of_number:
                        rows.reject(
                            number, f"unknown emotion {label!r} in {label_source}; known are {list(of_number)}"
                        )
                        continue
                    text = detokenize(utterance)
                    rows.add(number, text, of_number[label], str(number), speaker="AB"[order % 2], order=order)
        splits[split] = to_dataset(rows, names)
    return datasets.DatasetDict(splits)


def lines_of(content: bytes, source: Path | str) -> list[str]:
    # Split at "\n" alone: dialogues may hold other Unicode line separators.
    lines = decode(content, source).split("\n")
    return [line.removesuffix("\r") for line in (lines[:-1] if lines[-1] == "" else lines)]


def _daily_dialog_files(data_dir: str | Path | None) -> dict[str, Sequence[tuple[Path | str, bytes]]]:
    """For each split the names and the contents of its two files."""
    if data_dir is not None:
        paths = _paths("daily_dialog", data_dir)
        return {split: [(path, path.read_bytes()) for path in pair] for split, pair in paths.items()}
    files: dict[str, Sequence[tuple[Path | str, bytes]]] = {}
    for split, sums in FILES["daily_dialog"].items():
        address = f"{DOWNLOAD_FROM['daily_dialog']}/{split}.zip"
        files[split] = _members(download(address), address, sums)
    return files


def _members(archive: Path, address: str, sums: Mapping[str, str]) -> list[tuple[str, bytes]]:
    """The files with these names and SHA-256 sums, from any folder of a downloaded ZIP archive."""
    try:
        with zipfile.ZipFile(archive) as file:
            wanted = [name for name in file.namelist() if PurePosixPath(name).name in sums]
            contents = [(PurePosixPath(name).name, file.read(name)) for name in wanted]
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise OSError(
            f"{address} is not a whole ZIP file ({error}): delete {archive}, or {DOWNLOAD_REMEDY}"
        ) from error
    found = {name: text for name, text in contents if hashlib.sha256(text).hexdigest() == sums[name]}
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


def load_iemocap(data_dir: str | Path | None = None, on_bad_rows: OnBadRows = "error") -> datasets.DatasetDict:
    """
    IEMOCAP: transcribed dialogues of pairs of actors, four classes: angry, happy (and excited), neutral, sad.

    You need your own licensed copy. Utterances with another emotion, or none, stay, without a label. The fifth session is the
    test part; a tenth of the other dialogues, drawn at a fixed seed, is the validation part. Utterances are sorted by their
    start. A speaker is named by session and sex, such as "Ses01F".

    Args:
        data_dir: folder that holds `iemocap/Session1` to `Session5`, or these themselves, with `dialog/transcriptions/*.txt`
            and `dialog/EmoEvaluation/*.txt`. Nothing is downloaded.
        on_bad_rows: "error", or "skip" to drop, count and list malformed utterances (if only the evaluation is malformed, its label).

    Raises:
        FileNotFoundError: no `data_dir`, no such folder or file.
        ValueError: a malformed utterance, with file, line and reason.
    """
    if data_dir is None:
        raise FileNotFoundError(
            f"IEMOCAP needs a licence: request it from USC SAIL, {IEMOCAP_ADDRESS}, and pass `data_dir` (or HF_EMOTION_DATA), "
            "the folder that holds `iemocap` with Session1 to Session5."
        )
    folder = Path(data_dir)
    if not (folder / "Session1").is_dir():
        folder = folder / "iemocap"
    parts = {}
    for part, sessions in {"train": (1, 2, 3, 4), "test": (5,)}.items():
        rows = Rows(folder, on_bad_rows)
        for session in sessions:
            for path in _iemocap_transcriptions(folder / f"Session{session}" / "dialog"):
                _read_iemocap(path, rows)
        rows.source = folder
        parts[part] = to_dataset(rows, FOUR_CLASSES)
    train, validation = set_aside(parts["train"], 0.1)
    return datasets.DatasetDict({"train": train, "validation": validation, "test": parts["test"]})


def _iemocap_transcriptions(folder: Path) -> list[Path]:
    files = sorted(folder.glob("transcriptions/*.txt"))
    files = [path for path in files if not path.name.startswith("._")]  # files that macOS left in the archive
    if not files:
        raise FileNotFoundError(
            "`data_dir` must hold the folder `iemocap` with Session1 to Session5 (or be it): there is no file "
            f"{folder / 'transcriptions' / '*.txt'}. The licence is requested from USC SAIL, {IEMOCAP_ADDRESS}."
        )
    for path in files:
        if not (folder / "EmoEvaluation" / path.name).is_file():
            raise FileNotFoundError(
                f"{path} has no evaluation: {folder / 'EmoEvaluation' / path.name} does not exist."
            )
    return files


# Ses01F_impro01_F000 [006.2901-008.2357]: ...; lines of other speech have no such id: "M: ..."
IEMOCAP_TURN = re.compile(r"(Ses\d\d)[FM]_\w+_([FM])[^\W_]* \[(-?[\d.]+) ?- ?(-?[\d.]+)\]: ?(.*)")


# [6.2901 - 8.2357]	Ses01F_impro01_F000	neu	[2.5000, 2.5000, 2.5000]; below it what each annotator chose
IEMOCAP_EVALUATION = re.compile(r"\[[^]]*\]\t(\S+)\t(\w+)\t")


def _read_iemocap(path: Path, rows: Rows) -> None:
    evaluation = path.parent.parent / "EmoEvaluation" / path.name
    labels = {}
    rows.source = evaluation
    for number, line in enumerate(_latin_lines(evaluation), 1):
        if found := IEMOCAP_EVALUATION.match(line):
            if found[2] in IEMOCAP_EMOTIONS:
                labels[found[1]] = IEMOCAP_EMOTIONS[found[2]]
            else:
                rows.reject(number, f"unknown emotion {found[2]!r}; known are {list(IEMOCAP_EMOTIONS)}")
    rows.source = path
    for number, line in enumerate(_latin_lines(path), 1):
        if not line.startswith("Ses"):
            continue
        turn = IEMOCAP_TURN.fullmatch(line)
        try:
            start = float(turn[3]) if turn else None
        except ValueError:
            start = None
        if turn is None or start is None:
            rows.reject(number, f"expected `Ses01F_impro01_F000 [start-end]: text`, got {line!r}")
            continue
        label = labels.get(line.split(" ", 1)[0], -1)
        rows.add(number, turn[5], label, path.stem, speaker=turn[1] + turn[2], order=start)


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


def _paths(corpus: str, data_dir: str | Path | None) -> dict[str, list[Path]]:
    if data_dir is None:
        return {
            split: [download(f"{DOWNLOAD_FROM[corpus]}/{name}", sha256) for name, sha256 in sums.items()]
            for split, sums in FILES[corpus].items()
        }
    paths = local_files(data_dir, corpus, [name for sums in FILES[corpus].values() for name in sums])
    return {split: [path for path in paths if path.name in sums] for split, sums in FILES[corpus].items()}
