# SPDX-License-Identifier: Apache-2.0
"""
Corpora of replies with an emotion: MojiTalk, DailyDialog, EmpatheticDialogues, the packaged pairs, and your own pairs.

A row is a context and the reply to it. Columns: `id` (string; no other row of the split has it), `context` and `reply`
(strings, NFC, stripped) and `labels` (`ClassLabel`: the emotion of the reply; in EmpatheticDialogues the emotion of the
situation that the speaker tells of).
"""

from __future__ import annotations

import hashlib
import itertools
import logging
import tarfile
import unicodedata
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

from ...data.files import SPLIT_STEMS
from ...data.own_files import known_names, names_of, own_files, read_name, read_own, split_by_text, with_validation
from ...data.rows import BadRow, OnBadRows, Row, Rows, download, packaged_rows, parse_json
from ...io.lazily import datasets
from ...runtime.plain import text_processing
from ..corpus import OWN_TERMS, Corpus, rows_of
from ..corpus_files import CorpusRows, lines_of
from ..dialogue_emotion.loading import load_daily_dialog
from .emojis import bare, strip_emojis


logger = logging.getLogger(__name__)

MOJITALK_REMEDY = (
    "`data_dir` must hold the folder `mojitalk` with dev.ori, dev.rep, test.ori and test.rep. Nothing is downloaded, because no "
    "licence is stated for the tweets: take them from https://github.com/zlinao/Variational-Transformer (data/mojitalk_data)."
)
# In the order of the ids, which follow emoji-test.txt of github.com/claude-zhou/MojiTalk.
MOJITALK_EMOJIS = list(
    "😁😂😄😅😉😊😋😎😍😘☺😐😑😏😣😪😫😴😌😜😒😓😔😕😖😞😤😢😭😩😬😳😡😠😷😈💀🙈🙊🙅💁💪✌✋👌👍👊👏🙌🙏👀❤💔💕💖💙💜💟✨♥🎶🎧🔫💯"
)
TrainPart = Literal["generator", "judge_a", "judge_b"]
# shares of MojiTalk's dev part, in percent
PERCENT_OF_PART = {"generator": 60, "judge_a": 15, "judge_b": 15, "validation": 10}

# shares of the training conversations of EmpatheticDialogues, in percent
PERCENT_OF_EMPATHETIC = {"generator": 60, "judge_a": 20, "judge_b": 20}
EMPATHETIC_EMOTIONS = (  # in the order of the ids
    "afraid angry annoyed anticipating anxious apprehensive ashamed caring confident content devastated disappointed "
    "disgusted embarrassed excited faithful furious grateful guilty hopeful impressed jealous joyful lonely nostalgic "
    "prepared proud sad sentimental surprised terrified trusting"
).split()
EMPATHETIC_STEMS = {"train": "train", "validation": "valid", "test": "test"}
EMPATHETIC_ARCHIVE = "https://dl.fbaipublicfiles.com/parlai/empatheticdialogues/empatheticdialogues.tar.gz"
EMPATHETIC_SHA256 = "56f234d77b7dd1f005fd365bb17769cfe346c3c84295b69bc069c8ccb83be03d"
EMPATHETIC_COLUMNS = ["conv_id", "utterance_idx", "context", "prompt", "speaker_idx", "utterance", "selfeval", "tags"]

QUICKSTART_EMOTIONS = (
    "admiration amusement anger caring confusion curiosity disappointment fear gratitude joy sadness surprise"
).split()


def add_reply(rows: Rows, line: int, context: Any, reply: Any, label: Any, row_id: str) -> None:
    for name, text in (("context", context), ("reply", reply)):
        if not text_processing.is_readable(text):
            rows.reject(line, f"the {name} is empty or no string: {text!r}")
            return
    context, reply = (text_processing.normalized(text) for text in (context, reply))
    rows.rows.append({"id": row_id, "context": context, "reply": reply, "labels": label, "line": line})


def to_dataset(rows: Rows, names: Sequence[str]) -> datasets.Dataset:
    return rows.with_features(reply_features(names))


def reply_features(names: Sequence[str]) -> datasets.Features:
    text = datasets.Value("string")
    return datasets.Features(
        {"id": text, "context": text, "reply": text, "labels": datasets.ClassLabel(names=list(names))}
    )


@rows_of("emotional-response")
def load_mojitalk(data_dir: str | Path | None = None, train_part: TrainPart = "generator") -> datasets.DatasetDict:
    """
    MojiTalk (Zhou and Wang 2018): posts of Twitter and replies, each with one of 64 emojis as its emotion.

    The label names are the emojis. They are removed from the replies, not from the contexts; rows whose reply holds nothing
    else are dropped, and counted in one line of the log. The test part is the published one.

    If the published training part is missing, `mojitalk_part` divides the published dev part by a hash of the context, so that the
    replies to one post stay together: 60 % train the generator, 15 % and 15 % train two judges, 10 % are the validation part of
    all three. If it is there, generators train on it and use the whole dev part for validation; judges get the same shares of
    the dev part as before.

    Args:
        data_dir: folder that holds `mojitalk/{dev,test}.{ori,rep}`, perhaps `train.ori` and `train.rep`. A line of `.ori` is
            the emoji of the reply, a blank, the post; the same line of `.rep` is the reply. The emojis are those of
            `emojis64.txt` (emoji, tab, name; the line tells the id), or, without this file, `MOJITALK_EMOJIS`. Nothing
            is downloaded, because no licence is stated for the tweets.
        train_part: what the training part is for: "generator", "judge_a" or "judge_b".
    """
    if data_dir is None:
        raise FileNotFoundError(f"MojiTalk needs `data_dir` (or HF_EMOTION_DATA). {MOJITALK_REMEDY}")
    folder = Path(data_dir) / "mojitalk"
    has_train = any((folder / f"train.{ending}").exists() for ending in ("ori", "rep"))
    published = has_train and train_part == "generator"
    emojis = _mojitalk_emojis(folder / "emojis64.txt")
    parts, dropped = {}, {}
    for stem in ("train", "dev", "test") if published else ("dev", "test"):
        parts[stem], dropped[stem] = _read_mojitalk(folder, stem, emojis)
    if any(dropped.values()):
        logger.warning(
            "mojitalk: rows left out because their replies hold nothing but emojis: %s",
            ", ".join(f"{stem} {count}" for stem, count in dropped.items()),
        )
    if published:
        train, validation = parts["train"], parts["dev"]
    else:
        part_of = [mojitalk_part(context) for context in parts["dev"]["context"]]
        train, validation = (
            parts["dev"].select([row for row, found in enumerate(part_of) if found == part])
            for part in (train_part, "validation")
        )
        for part, dataset in ((train_part, train), ("validation", validation)):
            if not len(dataset):
                raise ValueError(
                    f"{folder / 'dev.ori'}: none of {len(part_of)} rows falls to {part!r}: use the whole file."
                )
    return datasets.DatasetDict({"train": train, "validation": validation, "test": parts["test"]})


def mojitalk_part(context: str) -> str:
    """
    The part of MojiTalk's dev file that a context belongs to: "generator" (60 %), "judge_a", "judge_b" (15 % each) or "validation"
    (10 %). The first 8 bytes of the SHA-256 of the context's UTF-8, as a big-endian number modulo 100, decide.
    """
    return _part_of(context, PERCENT_OF_PART)


def _part_of(key: str, shares: dict[str, int]) -> str:
    number = int.from_bytes(hashlib.sha256(key.encode("utf-8")).digest()[:8], "big") % 100
    bounds = zip(shares, itertools.accumulate(shares.values()), strict=True)
    return next(part for part, bound in bounds if number < bound)


def _mojitalk_emojis(path: Path) -> list[str]:
    if not path.is_file():
        return MOJITALK_EMOJIS
    emojis: list[str] = []
    with CorpusRows(path) as rows:
        for rows.line, line in enumerate(lines_of(path.read_bytes(), path), 1):
            emoji = bare(line.split("\t")[0].strip())
            if not emoji or emoji in emojis:
                raise BadRow(f"expected an emoji that no line before it has, a tab and its name, got {line!r}")
            emojis.append(emoji)
    return emojis


def _read_mojitalk(folder: Path, stem: str, emojis: Sequence[str]) -> tuple[datasets.Dataset, int]:
    """The rows of two files, and how many rows were dropped because their reply holds only emojis."""
    paths = [folder / f"{stem}.ori", folder / f"{stem}.rep"]
    for path in paths:
        if not path.is_file():
            raise FileNotFoundError(f"{path} does not exist. {MOJITALK_REMEDY}")
    posts, replies = (lines_of(path.read_bytes(), path) for path in paths)
    ids = {emoji: number for number, emoji in enumerate(emojis)}
    dropped = 0
    with CorpusRows(paths[0]) as rows:
        for rows.line, (post, reply) in enumerate(zip(posts, replies, strict=True), 1):
            emoji, _, context = post.partition(" ")
            stripped = strip_emojis(reply, emojis)
            if reply.strip() and not stripped:
                dropped += 1
            else:
                add_reply(rows, rows.line, context, stripped, ids[bare(emoji)], f"{stem}-{rows.line}")
    return to_dataset(rows, emojis), dropped


@rows_of("emotional-response")
def load_daily_dialog_replies(data_dir: str | Path | None = None, context_turns: int = 3) -> datasets.DatasetDict:
    """
    DailyDialog as replies: every turn of a dialogue from the second on, with its emotion, 7 of them (CC BY-NC-SA 4.0).

    See `dialogue_replies` for the context and the ids. Most replies are neutral.

    Args:
        data_dir: see `load_daily_dialog`.
        context_turns: maximum number of turns before the reply that are its context.
    """
    dialogues = load_daily_dialog(data_dir)
    return datasets.DatasetDict({split: dialogue_replies(dialogues[split], context_turns) for split in dialogues})


def dialogue_replies(dialogues: datasets.Dataset, context_turns: int = 3) -> datasets.Dataset:
    """
    The replies in a split of dialogues (see dialogue_emotion/loading.py): every turn from the second on that has a label.

    The context is up to `context_turns` turns before it, unlabelled ones too, joined by blanks to one text, as the encoder of a
    generator reads it, without marks of who spoke. The id is the dialogue's id, "-" and the number of the turn, from 1.
    """
    values: dict[str, list] = {"id": [], "context": [], "reply": [], "labels": []}
    for dialogue in dialogues:
        utterances = dialogue["utterances"]
        for turn, label in enumerate(dialogue["labels"]):
            if turn and label != -1:
                values["id"].append(f"{dialogue['id']}-{turn + 1}")
                values["context"].append(_context(utterances, turn, context_turns))
                values["reply"].append(utterances[turn])
                values["labels"].append(label)
    return datasets.Dataset.from_dict(values, features=reply_features(dialogues.features["labels"].feature.names))


def _context(turns: Sequence[str], turn: int, context_turns: int) -> str:
    if context_turns < 1:
        raise ValueError(f"`context_turns` must be at least 1, got {context_turns}.")
    return " ".join(turns[max(turn - context_turns, 0) : turn])


@rows_of("emotional-response")
def load_empathetic_replies(
    data_dir: str | Path | None = None, context_turns: int = 3, train_part: TrainPart | None = None
) -> datasets.DatasetDict:
    """
    EmpatheticDialogues (Rashkin et al. 2019) as replies: the turns of the listener, who hears of a situation (CC BY-NC 4.0).

    The label is the emotion of the situation (32 in alphabetical order), not of the reply. The context is up to `context_turns`
    turns before the reply, joined by blanks. The id is the conversation's id, "-" and the number of the turn, from 1.

    Args:
        data_dir: folder that holds `empathetic_dialogues/{train,valid,test}`, either `.csv`, the files of the release, or
            `.jsonl`, one conversation per line: `conv_id`, `emotion` and `turns`, a list of [actor, text] with the actor
            "speaker" or "listener". None: the release is downloaded from dl.fbaipublicfiles.com, checked and cached.
        context_turns: maximum number of turns before the reply that are its context.
        train_part: the training conversations to use: "generator" (60 %), "judge_a" or "judge_b" (20 % each), so that a judge
            learns from replies that no generator sees. The first 8 bytes of the SHA-256 of the conversation's id decide. None:
            all.
    """
    splits = {}
    for split, rows, conversations in _read_empathetic(data_dir):
        with rows:
            for conversation, label, turns in conversations:
                if split == "train" and train_part not in (None, _part_of(conversation, PERCENT_OF_EMPATHETIC)):
                    continue
                texts = [text for *_, text in turns]
                for turn, (number, actor, text) in enumerate(turns):
                    if turn and actor == "listener":
                        context = _context(texts, turn, context_turns)
                        add_reply(rows, rows.line, context, text, label, f"{conversation}-{number}")
        splits[split] = to_dataset(rows, EMPATHETIC_EMOTIONS)
    return datasets.DatasetDict(splits)


def load_empathetic_conversations(data_dir: str | Path | None = None) -> datasets.DatasetDict:
    """The whole conversations of EmpatheticDialogues (`load_empathetic_replies`), in the columns `id` and `turns`."""
    splits = {}
    for split, rows, conversations in _read_empathetic(data_dir):
        values: dict[str, list] = {"id": [], "turns": []}
        with rows:
            for conversation, _, turns in conversations:
                values["id"].append(conversation)
                values["turns"].append([unicodedata.normalize("NFC", text) for *_, text in turns])
        splits[split] = datasets.Dataset.from_dict(values)
    return datasets.DatasetDict(splits)


# A conversation: its id, the id of its emotion, and for each turn in order (number from 1, actor, text).
Conversation = tuple[str, int, list[tuple[int, str, str]]]


def _read_empathetic(data_dir: str | Path | None) -> Iterator[tuple[str, CorpusRows, Iterator[Conversation]]]:
    """For each split its name, its rows, to be filled, and its conversations."""
    if data_dir is None:
        with tarfile.open(download(EMPATHETIC_ARCHIVE, EMPATHETIC_SHA256)) as archive:
            for split, stem in EMPATHETIC_STEMS.items():
                member = archive.extractfile(f"empatheticdialogues/{stem}.csv")
                rows = CorpusRows(f"{EMPATHETIC_ARCHIVE}/{stem}.csv")
                yield split, rows, _read_empathetic_csv(rows, member.read() if member else b"")
        return
    folder = Path(data_dir) / "empathetic_dialogues"
    for ending, read in (("jsonl", _read_empathetic_jsonl), ("csv", _read_empathetic_csv)):
        paths = {split: folder / f"{stem}.{ending}" for split, stem in EMPATHETIC_STEMS.items()}
        if all(path.is_file() for path in paths.values()):
            for split, path in paths.items():
                rows = CorpusRows(path)
                yield split, rows, read(rows, path.read_bytes())
            return
    raise FileNotFoundError(
        "`data_dir` must hold the folder `empathetic_dialogues` with train.csv, valid.csv and test.csv of the release, or with "
        f"train.jsonl, valid.jsonl and test.jsonl: {folder} lacks one or more of them. Without `data_dir` (and without "
        "HF_EMOTION_DATA) the release is downloaded."
    )


def _read_empathetic_jsonl(rows: CorpusRows, content: bytes) -> Iterator[Conversation]:
    lines = lines_of(content, rows.source)
    for rows.line, line in enumerate(lines, 1):
        row = parse_json(line)
        turns = [(number, actor, _empathetic_text(text)) for number, (actor, text) in enumerate(row["turns"], 1)]
        yield str(row["conv_id"]), EMPATHETIC_EMOTIONS.index(row["emotion"]), turns


def _read_empathetic_csv(rows: CorpusRows, content: bytes) -> Iterator[Conversation]:
    """Read the release's CSV: every comma splits columns, quotes have no meaning, and a comma in a text is written `_comma_`."""
    header, *lines = lines_of(content, rows.source)
    if header.split(",") != EMPATHETIC_COLUMNS:
        raise BadRow(f"it must start with {','.join(EMPATHETIC_COLUMNS)}, got {header!r}")
    conversations: dict[str, tuple[int, dict[int, str]]] = {}
    for rows.line, line in enumerate(lines, 2):
        conversation, number, emotion, _, _, text, _, _, *_ = line.split(",")  # a ninth column is for other tasks
        _, turns = conversations.setdefault(conversation, (EMPATHETIC_EMOTIONS.index(emotion), {}))
        turns[int(number)] = _empathetic_text(text)
    # The speaker, who tells of the situation, starts, and the two take turns.
    for conversation, (label, texts) in conversations.items():
        yield conversation, label, [(n, ("listener", "speaker")[n % 2], texts[n]) for n in sorted(texts)]


def _empathetic_text(text: str) -> str:
    if not text.strip():
        raise BadRow("the text of a turn is empty")
    return text.replace("_comma_", ",").strip()


@rows_of("emotional-response")
def load_quickstart_replies(data_dir: str | Path | None = None) -> datasets.DatasetDict:
    """
    The small packaged English pairs, written for hf-emotion: 160 contexts with a reply in three of 12 emotions each, CC0. Needs no
    `data_dir`.
    """
    splits = {}
    for split in SPLIT_STEMS:
        rows = CorpusRows(f"quickstart_replies {split}")
        for line, row in packaged_rows("replies", split):
            label = QUICKSTART_EMOTIONS.index(row["emotion"])
            add_reply(rows, line, row["context"], row["reply"], label, f"{split}-{line}")
        splits[split] = to_dataset(rows, QUICKSTART_EMOTIONS)
    return datasets.DatasetDict(splits)


@rows_of("emotional-response")
def load_reply_files(
    data_dir: str | Path | None = None,
    context_column: str = "context",
    reply_column: str = "reply",
    label_column: str = "emotion",
    labels: Sequence[str] | None = None,
    id_column: str | None = None,
    validation_fraction: float | int = 0.1,
    on_bad_rows: OnBadRows = "error",
    separator: str | None = None,
) -> datasets.DatasetDict:
    """
    Your own pairs of context and reply in CSV, TSV, JSONL or Parquet files. The texts stay as they are: see `strip_emojis`.

    Args:
        data_dir, separator: see `load_files`.
        context_column, reply_column, label_column, id_column: column names.
        labels: the label names in their order. None: the names in the training part, sorted.
        validation_fraction: share of the distinct training contexts, with all their replies, set aside at a fixed seed if
            there is no validation file; 0: none.
        on_bad_rows: "error", or "skip" to drop, count and list rows without context or reply, or without a known label.
    """
    columns = [context_column, reply_column, label_column, *([] if id_column is None else [id_column])]
    remedy = "context_column, reply_column, label_column or id_column"
    files = own_files(data_dir, labels=labels)

    def add(split: str, seen: set[str], rows: Rows, line: int, row: Row) -> None:
        label = read_name(row[label_column], label_column)
        row_id = f"{split}-{line}" if id_column is None else read_name(row[id_column], id_column)
        if row_id in seen:
            raise BadRow(f"a row before it has the id {row_id!r} too")
        seen.add(row_id)
        add_reply(rows, line, row[context_column], row[reply_column], label, row_id)

    parsed = {
        split: read_own(path, on_bad_rows, columns, separator, partial(add, split, set()), remedy)
        for split, path in files.items()
    }
    names = known_names(parsed, "labels", names_of(labels))
    splits = {split: to_dataset(rows, names) for split, rows in parsed.items()}
    return with_validation(splits, validation_fraction, partial(split_by_text, column="context"))


CORPORA = (
    Corpus(
        name="mojitalk",
        loader=load_mojitalk,
        terms="no licence stated for the tweets, terms of Twitter: research use; Zhou and Wang 2018",
        clean_reply=strip_emojis,
        published_table="mod-ln",
    ),
    Corpus(
        name="daily_dialog_replies",
        loader=load_daily_dialog_replies,
        terms="CC BY-NC-SA 4.0; Li et al. 2017",
    ),
    Corpus(
        name="empathetic_dialogues",
        loader=load_empathetic_replies,
        hub_id="facebook/empathetic_dialogues",
        terms="CC BY-NC 4.0; Rashkin et al. 2019",
    ),
    Corpus(
        name="quickstart_replies",
        loader=load_quickstart_replies,
        terms="CC0 1.0; replies in twelve emotions written for hf-emotion by a language model",
        packaged=True,
    ),
    Corpus(
        name="reply_files",
        loader=load_reply_files,
        languages=(),
        terms=OWN_TERMS,
        own_files=True,
    ),
)
