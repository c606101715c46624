# SPDX-License-Identifier: Apache-2.0
"""Reads conversations in the forms that people have: subtitles, exports of WhatsApp, JSON of chat programs, tables."""

import html
import logging
import os
import re
import tempfile
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from ..io.files import write_csv
from ..io.names import listed
from ..io.paths import as_path, check_file, ending, name_of, open_file, shown
from ..runtime.plain import text_processing
from . import own_files
from .files import ENCODING, read_rows, reading
from .rows import BadRow, Row, parse_json


logger = logging.getLogger(__name__)

Spoken = tuple[str | None, str | None, str]  # start, speaker, utterance
ENDINGS = (".vtt", ".srt", ".txt", ".json")
COLUMNS = ("dialogue", "turn", "start", "speaker", "utterance")
MOST_WORDS = 50  # a turn of so many is not continued: subtitles without names and full stops would become one turn

CUE = re.compile(r"^[ \t]*((?:\d+:)?\d{1,2}:\d{2}[.,]\d{1,3})[ \t]*-->.*$", re.MULTILINE)
VOICE = re.compile(r"<v(?:\.[^ \t>]*)?[ \t]+([^>]*)>")
TAG = re.compile(r"</?[A-Za-z][^>\n]*>|<[\d:.]+>|\{\\[^}]*\}")
SOUND = re.compile(r"\[[^]]*\]|\([^)]*\)|[♪♫].*")  # for the hard of hearing: nobody says it
MARK = re.compile(r"(?:[-–—](?!\d)|>>+)\s*")  # before what another person says
NAMED = re.compile(r"((?=[^\W\d_])[^:\s]+(?: [^:\s]+){0,3}) *: +(?=\S)")
ENDED = re.compile(r"[.?!…。！？؟۔।]['\"’”»)\]]*$")

# WhatsApp writes date and time as the phone does; [23:59, 31/12/2026] is what its web page copies.
DATE = r"\d{1,4}[./-] ?\d{1,2}[./-] ?\d{1,4}\.?"
CLOCK = r"(?:[^\W\d]{1,4} )?\d{1,2}[:.]\d{2}(?:[:.]\d{2})?(?: [^\W\d][\w.]*(?: [^\W\d]\.?)?)?"
STAMP = re.compile(rf"\[?({DATE}[,،]?(?: [^\W\d]{{1,4}})? {CLOCK}|{CLOCK}, {DATE})(?:\]| [-–]) ")
DIRECTIONS = re.compile("[\u200e\u200f\u202a-\u202e\u2066-\u2069]")
SENDER = re.compile(r"(?:~ ?)?([^:“”\"]+?): ?(.*)")
LEFT_OUT = re.compile(
    r"<[^<>]*>|\S+\.\w{2,4} \([^()]*\)|null|(?:This message was deleted|You deleted this message)\.?"
)
EDITED = "<This message was edited>"

NO_PERSONS = {"system", "developer", "tool", "function"}  # roles of chat programs
ROLES = set("agent assistant bot caller client customer doctor interviewer operator patient support user".split())
# Names that are common words, too: they are masked only with a capital.
WORDS = set(
    "art bill chase dawn drew faith frank grace grant guy hope jack joy june mark may miles pat rich rob rose sue will".split()
)


def read_conversations(
    source: str | Path,
    mask_speakers: bool = False,
    encoding: str | None = None,
    separator: str | None = None,
    dialogue_column: str = "dialogue",
    speaker_column: str = "speaker",
    text_column: str = "utterance",
) -> dict[str, list[Row]]:
    """
    The turns of conversations: {name: [{"turn", "start", "speaker", "utterance"}]}, as `DialoguePredictor` takes the lists.

    Args:
        source: a file, or a folder with some. WebVTT and SRT subtitles (`.vtt`, `.srt`), an export of WhatsApp or lines "NAME: TEXT"
            (`.txt`), messages with "role" and "content" (`.json`), or tables with a row for each turn. A file with one conversation gives it its
            name.
        mask_speakers: write Speaker 1, Speaker 2 for the names of a conversation's speakers: also where they, or a word of them, stand in
            utterances and in the conversation's name. Other names stay; so do roles (customer, agent, user), misspelled names, and names that
            are common words ("will") in lower case.
        encoding, separator: of text files and of CSV; default: UTF-8, and what separates the header.
        dialogue_column, speaker_column, text_column: of tables.

    Returns:
        "turn" counts from 1; "start" is the time as the file has it, or None; "speaker" a name or None.

    Raises:
        FileNotFoundError: no such file, or none in the folder.
        ValueError: a file without a turn or in another form; the error names all such files of a folder.
    """
    found: dict[str, list[Row]] = {}
    place = as_path(source)
    paths = [place]
    if isinstance(place, Path) and place.is_dir():
        paths = sorted(one for one in place.iterdir() if ending(one) in ENDINGS and not one.name.startswith("."))
        if not paths:
            raise FileNotFoundError(f"{place} holds no conversation: no file ends in {listed(ENDINGS)}.")
    bad: list[str] = []
    for path in paths:
        check_file(path)
        where, kind = shown(path), ending(path)
        conversations: dict[str, list[Spoken]] = {}
        if kind in ENDINGS:
            try:
                with reading(path, encoding), open_file(path, "r", encoding=encoding or ENCODING) as file:
                    content, stem = file.read(), PurePosixPath(name_of(path)).stem
                if kind == ".json":
                    conversations = _chats(where, content, stem)
                else:
                    conversations = {stem: (_messages if kind == ".txt" else _cues)(where, content)}
            except ValueError as error:
                bad.append(str(error))
        else:
            for _, row in read_rows(path, [dialogue_column, text_column], separator, encoding):
                if not {dialogue_column, text_column} <= set(row):
                    needed = f"{dialogue_column!r} and {text_column!r}"
                    raise ValueError(
                        f"{where}: conversations need the columns {needed}; the columns are {listed(row)}."
                    )
                name, *about = (own_files.name_of(row.get(one)) for one in (dialogue_column, "start", speaker_column))
                conversations.setdefault(name, []).append((about[0] or None, about[1] or None, row[text_column]))
        for name, spoken in conversations.items():
            said = [one for one in spoken if text_processing.is_readable(one[2])]
            if not said:
                logger.warning("%s: the conversation %r is left out, because nobody says anything.", where, name)
                continue
            if mask_speakers:
                name, said = _masked(name, said)
            while name in found:
                name += "'"
            found[name] = [{"turn": n, **dict(zip(COLUMNS[2:], one, strict=True))} for n, one in enumerate(said, 1)]
    if bad and len(paths) > 1:
        bad.insert(0, f"{len(bad)} of {len(paths)} files cannot be read: correct them, or move them elsewhere.")
    if bad:
        raise ValueError("\n  ".join(bad))
    if not found:
        raise ValueError(f"nobody says anything in {source}.")
    return found


def are_conversations(source: str) -> bool:
    """Whether this is a file of conversations, or a folder, and no table."""
    return os.path.isdir(source) or ending(source) in ENDINGS


@contextmanager
def as_table(conversations: dict[str, list[Row]]) -> Iterator[str]:
    """Yield a CSV with a row for each turn, always of the same time, so that an interrupted job knows it again."""
    with tempfile.TemporaryDirectory() as place:
        table = Path(place) / "conversations.csv"
        write_csv(table, COLUMNS, ((name, *turn.values()) for name, turns in conversations.items() for turn in turns))
        os.utime(table, (0, 0))
        yield str(table)


def _cues(path: str, content: str) -> list[Spoken]:
    """What is said in the cues of subtitles."""
    _, *parts = CUE.split(content)
    if not parts:
        raise ValueError(f"{path} has no cues, such as `00:00:01.000 --> 00:00:04.000` and, below it, what is said.")
    lines = []
    for start, below in zip(parts[::2], parts[1::2], strict=True):
        for line in VOICE.sub(r"\n\1: ", re.split(r"\n[ \t]*\n", below)[0]).splitlines():
            text = " ".join(html.unescape(TAG.sub("", line)).split())
            if text and not SOUND.fullmatch(text):
                lines.append((start, text))
    voices = {" ".join(html.unescape(name).split()) for name in VOICE.findall(content)}
    return _named(lines, voices - {""}, joined=True)


def _named(lines: Sequence[tuple[str | None, str]], names: Collection[str] = (), joined: bool = False) -> list[Spoken]:
    """
    Lines with the names before them, "Ana: ". Without known `names` a word with a colon is one if it stands there again, or if half of the lines
    have one. A line without a name is of the last speaker, unless a dash says that somebody else speaks. `joined`: what one person goes on to
    say, until a sentence ends, is one turn.
    """
    named = re.compile(rf"({'|'.join(map(re.escape, names))}) *: +(?=\S)") if names else NAMED
    found = [named.match(MARK.sub("", text, count=1) if MARK.match(text) else text) for _, text in lines]
    if not names:
        counts = Counter(match[1] for match in found if match)
        names = {name for name, count in counts.items() if count > 1 or 2 * counts.total() >= len(lines)}
    turns: list[Spoken] = []
    speaker = None
    for (start, text), match in zip(lines, found, strict=True):
        mark, last = MARK.match(text), speaker
        if match and match[1] in names:
            speaker, text = match[1], match.string[match.end() :]
        elif mark:
            speaker, text = None, text[mark.end() :]
        if joined and SOUND.fullmatch(text):
            continue
        goes_on = joined and turns and speaker == last and not mark and not ENDED.search(turns[-1][2])
        if goes_on and len(turns[-1][2].split()) < MOST_WORDS:
            turns[-1] = (*turns[-1][:2], f"{turns[-1][2]} {text}")
        else:
            turns.append((start, speaker, text))
    return turns


def _messages(path: str, content: str) -> list[Spoken]:
    """The messages of an export of WhatsApp, or of lines "NAME: TEXT", without what no person wrote."""
    lines = [line for line in re.sub("[\u00a0\u202f]", " ", content).split("\n") if line.strip()]
    if not lines:
        raise ValueError(f"{path} is empty.")
    if not STAMP.match(DIRECTIONS.sub("", lines[0])):
        named = _named([(None, line.strip()) for line in lines])
        if named[0][1] is None:
            expected = "a date as WhatsApp writes it, such as `31/12/2026, 23:59 - Ana: Hi`, nor with `NAME: TEXT`"
            lone = f"Texts, one per line, come by stdin: hf-emotion predict MODEL < {path}"
            raise ValueError(f"{path} begins neither with {expected}: {content[:60]!r}. {lone}")
        return named
    turns: list[Spoken] = []
    going_on = False
    for line in lines:
        bare = DIRECTIONS.sub("", line).removesuffix(EDITED)
        if stamp := STAMP.match(bare):
            message = SENDER.fullmatch(bare[stamp.end() :])
            # The iPhone marks what it wrote itself.
            going_on = message is not None and not LEFT_OUT.fullmatch(message[2].strip()) and ": \u200e" not in line
            if message and going_on:
                turns.append((stamp[1], message[1].strip(), message[2]))
        elif going_on:
            turns[-1] = (*turns[-1][:2], f"{turns[-1][2]} {bare}")
    return [(start, speaker, " ".join(text.split())) for start, speaker, text in turns]


def _chats(path: str, content: str, stem: str) -> dict[str, list[Spoken]]:
    """The conversation of a chat program, or a list of them: each a list of messages, or an object that has it."""
    try:
        value = parse_json(content)
    except BadRow as error:
        raise ValueError(f"{path}: {error}") from None
    one = not isinstance(value, list) or any(isinstance(part, dict) and "messages" not in part for part in value)
    found = {}
    for number, chat in enumerate([value] if one else value, 1):
        given = chat.get("messages") if isinstance(chat, dict) else chat
        messages: list[Any] = given if isinstance(given, list) else [None]
        known = all(isinstance(message, dict) for message in messages)
        if not known or (messages and not any("content" in message for message in messages)):
            expected = '[{"role": "user", "content": "Hi"}, ...], or an object with such a list as "messages"'
            raise ValueError(
                f"{path}: conversation {number} has no messages: expected {expected}. Write a table of texts as .jsonl."
            )
        turns = [_of_message(path, message) for message in messages if str(message.get("role")) not in NO_PERSONS]
        found[stem if one else f"{stem}-{number}"] = turns
    return found


def _of_message(path: str, message: Row) -> Spoken:
    content = message.get("content") or ""
    parts = content if isinstance(content, list) else [content]
    texts = [part.get("text") or "" if isinstance(part, dict) else part for part in parts]
    if not all(isinstance(text, str) for text in texts):
        raise ValueError(f"{path}: the content of a message must be text, or parts with text, got {content!r}.")
    start = own_files.name_of(message.get("timestamp", message.get("created_at")))
    speaker = own_files.name_of(message.get("name") or message.get("role"))
    return start or None, speaker or None, " ".join(" ".join(texts).split())


def _masked(name: str, turns: list[Spoken]) -> tuple[str, list[Spoken]]:
    """The name and the turns of a conversation with numbers for its speakers."""
    speakers = [who for who in dict.fromkeys(who for _, who, _ in turns) if who and who.casefold() not in ROLES]
    numbers = {who: f"Speaker {number}" for number, who in enumerate(speakers, 1)}
    masks: dict[str, str] = {}
    for who, mask in numbers.items():
        for word in [who, *re.findall(r"[^\W\d_][\w'’-]+", who)]:
            if word == who or not (word[0].islower() or word.casefold() in ROLES):
                key = text_processing.composed(word).casefold()
                masks[key] = mask if masks.get(key, mask) == mask else "Speaker"  # two have this word
    words = "|".join(map(re.escape, sorted(masks, key=len, reverse=True))) or "(?!)"  # nobody has a name: nothing fits
    pattern = re.compile(rf"(?<![^\W_])(?:{words})(?![^\W_])", re.IGNORECASE)

    def mask_of(match: re.Match[str]) -> str:
        return match[0] if match[0] in WORDS else masks.get(match[0].casefold(), "Speaker")

    def without(text: str) -> str:
        return pattern.sub(mask_of, text_processing.composed(text))

    return without(name), [(start, numbers.get(who or "", who), without(text)) for start, who, text in turns]
