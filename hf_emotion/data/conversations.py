# SPDX-License-Identifier: Apache-2.0
"""Reads conversations in the forms that people have: subtitles, exports of WhatsApp, JSON of chat programs, tables."""

import html
import logging
import os
import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from ..io.files import write_csv
from ..io.names import listed
from ..io.paths import as_path, check_file, ending, name_of, open_file, shown
from ..runtime.plain import text_processing
from . import own_files
from .files import ENCODING, FORMATS, read_rows, reading
from .rows import BadRow, Row, parse_json


logger = logging.getLogger(__name__)

Spoken = tuple[str | None, str | None, str]  # start, speaker, utterance
ENDINGS = (".vtt", ".srt", ".txt", ".json")
COLUMNS = ("dialogue", "turn", "start", "speaker", "utterance")
MOST_WORDS = 50  # a turn of so many is not continued: subtitles without names and full stops would become one turn

TIME = r"((?:\d+:)?\d{1,2}:\d{2}[.,]\d{1,3})"
CUE = re.compile(rf"^[ \t]*{TIME}[ \t]*-->[ \t]*(?:\d+:)?\d{{1,2}}:\d{{2}}[.,]\d{{1,3}}.*$", re.MULTILINE)
VOICE = re.compile(r"<v(?:\.[^ \t>]*)?[ \t]+([^>]*)>")
TAG = re.compile(r"</?[A-Za-z][^>\n]*>|<[\d:.]+>|\{\\[^}]*\}")
SOUND = re.compile(r"\[[^]]*\]|\([^)]*\)|[♪♫].*")  # for the hard of hearing: nobody says it
MARK = re.compile(r"^(?:[-–—](?!\d)|>>+)\s*")  # before what another person says
NAMED = re.compile(r"((?=[^\W\d_])[^:\n]{1,40}?)\s*:\s+(?=\S)")
ENDED = re.compile(r"[.?!…。！？؟۔।]['\"’”»)\]]*$")

# WhatsApp writes date and time as the phone does; [23:59, 31/12/2026] is what its web page copies.
DATE = r"\d{1,4}[./-] ?\d{1,2}[./-] ?\d{1,4}\.?"
CLOCK = r"(?:[^\W\d]{1,4} )?\d{1,2}[:.]\d{2}(?:[:.]\d{2})?(?: [^\W\d][\w.]*(?: [^\W\d]\.?)?)?"
STAMP = re.compile(rf"\[?({DATE}[,،]?(?: [^\W\d]{{1,4}})? {CLOCK}|{CLOCK}, {DATE})(?:\]| [-–]) ")
DIRECTIONS = re.compile("[\u200e\u200f\u202a-\u202e\u2066-\u2069]")
SENDER = re.compile(r"(?:~ ?)?([^:“”\"]+?): ?(.*)")
LEFT_OUT = re.compile(
    r"<[^<>]*>|\S+\.\w{2,4} \([^()]*\)|(?:image|video|audio|sticker|GIF|document|Contact card) omitted|null|"
    r"(?:This message was deleted|You deleted this message|Diese Nachricht wurde gelöscht|Se eliminó este mensaje|Ce message a été supprimé|"
    r"Mensagem apagada)\.?|Missed (?:voice|video) call\b.*|Messages and calls are end-to-end encrypted\b.*"
)
EDITED = re.compile(r"\s*<This message was edited>$")

NO_PERSONS = {"system", "developer", "tool", "function"}  # roles of chat programs
ROLES = set("agent assistant bot caller client customer doctor interviewer interviewee operator patient user".split())
# Names and words of names that are common words, too: they are masked only with a capital.
WORDS = ROLES | set(
    "speaker participant guest host april art august bill chase dawn drew faith frank grace grant guy hope jack joy june "
    "mark may miles pat rich rob rose sue summer will dad mom mum support".split()
)


def read_conversations(
    sources: str | Path | Sequence[str | Path],
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
        sources: a file, several, or a folder with some. WebVTT and SRT subtitles (`.vtt`, `.srt`), an export of WhatsApp or lines "NAME: TEXT"
            (`.txt`), messages with "role" and "content" (`.json`; a conversation in each line: `.jsonl`), or tables with a row for each turn.
            A file with one conversation gives it its name.
        mask_speakers: write Speaker 1, Speaker 2, in the order in which they appear in a conversation, for the names of its speakers: also where
            they, or a word of them, stand as whole words in utterances and in the conversation's name. Other names stay; so do roles
            (customer, agent, user), names that are misspelled, and names that are common words ("will") in lower case.
        encoding, separator: of text files and of CSV; default: UTF-8, and what separates the header.
        dialogue_column, speaker_column, text_column: of tables.

    Returns:
        "turn" counts from 1; "start" is the time as the file has it, or None; "speaker" a name or None.

    Raises:
        FileNotFoundError: no such file, or none in the folder.
        ValueError: a file without a turn or in another form; two conversations with one name.
    """
    found: dict[str, list[Row]] = {}
    silent: list[str] = []
    for path in _files(sources):
        check_file(path)
        if is_conversation(path, "messages|turns"):
            with reading(shown(path)), open_file(path, "r", encoding=encoding or ENCODING) as file:
                content = file.read()
            conversations = _conversations(path, content)
        else:
            conversations = _of_table(path, encoding, separator, dialogue_column, speaker_column, text_column)
        for name, spoken in conversations:
            said = [one for one in spoken if text_processing.is_readable(one[2])]
            if not said:
                silent.append(f"{name!r} in {shown(path)}")
                continue
            if mask_speakers:
                name, said = _masked(name, said)
                while name in found:  # other files may differ in the names alone
                    name += "'"
            if name in found:
                raise ValueError(f"{shown(path)}: another conversation has the name {name!r}, too: rename one.")
            turns = (dict(zip(COLUMNS[2:], one, strict=True)) for one in said)
            found[name] = [{"turn": number, **turn} for number, turn in enumerate(turns, 1)]
    if not found:
        raise ValueError(f"nobody says anything in the conversation {silent[0]}.")
    if silent:
        logger.warning(
            "%d conversations are left out, because nobody says anything; the first: %s", len(silent), silent[0]
        )
    return found


def is_conversation(path: str | Path, keys: str = "messages") -> bool:
    """Whether a file holds conversations and no table: by its ending, and by a list or one of the `keys` in the first line of a `.jsonl`."""
    kind = ending(path)
    if FORMATS.get(kind) != "jsonl":
        return kind in ENDINGS
    check_file(path)
    with reading(shown(path)), open_file(path, "r", encoding=ENCODING, errors="replace") as file:
        first = next(filter(str.strip, file), "")
    return first.lstrip().startswith("[") or re.search(rf'"({keys})" *: *\[', first) is not None


def are_conversations(sources: Sequence[str]) -> bool:
    """Whether these are files of conversations, or a folder, and no table."""
    return len(sources) > 1 or os.path.isdir(sources[0]) or is_conversation(sources[0])


@contextmanager
def as_table(conversations: dict[str, list[Row]]) -> Iterator[str]:
    """Yield a CSV with a row for each turn, always of the same time, so that an interrupted job knows it again."""
    with tempfile.TemporaryDirectory() as place:
        table = Path(place) / "conversations.csv"
        rows = ({"dialogue": name, **turn} for name, turns in conversations.items() for turn in turns)
        write_csv(table, COLUMNS, ([row[column] for column in COLUMNS] for row in rows))
        os.utime(table, (0, 0))
        yield str(table)


def _files(sources: str | Path | Sequence[str | Path]) -> Iterator[str | Path]:
    for path in map(as_path, [sources] if isinstance(sources, str | Path) else sources):
        if not isinstance(path, Path) or not path.is_dir():
            yield path
            continue
        own = [one for one in sorted(path.iterdir()) if ending(one) in ENDINGS and not one.name.startswith(".")]
        if not own:
            raise FileNotFoundError(f"{path} holds no conversation: no file ends in {listed(ENDINGS)}.")
        yield from own


def _conversations(path: str | Path, content: str) -> Iterator[tuple[str, list[Spoken]]]:
    """The name and what is said in each conversation of a file."""
    stem = PurePosixPath(name_of(path)).stem
    if not content.strip():
        raise ValueError(f"{shown(path)} is empty.")
    if ending(path) in (".vtt", ".srt"):
        yield stem, _joined(_cues(shown(path), content, ending(path) == ".vtt"))
    elif ending(path) == ".txt":
        yield stem, _messages(shown(path), content)
    else:
        yield from _chats(shown(path), content, stem, ending(path) == ".json")


def _cues(path: str, content: str, vtt: bool) -> list[Spoken]:
    """What is said in the cues of subtitles, in pieces, each of one person."""
    _, *parts = CUE.split(content)
    if not parts:
        raise ValueError(f"{path} has no cues, such as `00:00:01.000 --> 00:00:04.000` and, below it, what is said.")
    tagged, rolling = VOICE.search(content) is not None, re.search(r"<\d\d:\d\d", content) is not None
    pieces: list[Spoken] = []
    last = ""
    for number, (start, below) in enumerate(zip(parts[::2], parts[1::2], strict=True), 1):
        # An empty line ends a cue of WebVTT; in SRT the number of the next one stands before its times.
        payload = re.split(r"\n[ \t]*\n", below)[0] if vtt else below
        if not vtt and 2 * number < len(parts):
            payload = re.sub(r"\n\s*\d+\s*\Z", "", payload)
        before, *voices = VOICE.split(payload) if tagged else [payload]
        spoken: list[tuple[str | None, str]] = [(None, before), *zip(voices[::2], voices[1::2], strict=True)]
        for speaker, text in spoken:
            new = True
            for line in map(_plain, text.splitlines()):
                if not line or SOUND.fullmatch(line) or (rolling and line == last):  # rolling: each line comes twice
                    continue
                last = line
                if new or MARK.match(line) or (not tagged and NAMED.match(line)):
                    pieces.append((start, speaker and _plain(speaker), line))
                    new = False
                else:
                    pieces[-1] = (start, pieces[-1][1], f"{pieces[-1][2]} {line}")
    return pieces if tagged else _named(pieces)


def _plain(text: str) -> str:
    return " ".join(html.unescape(TAG.sub("", text)).split())


def _named(pieces: list[Spoken]) -> list[Spoken]:
    """
    Pieces with the names before them, "Ana: ". A word with a colon is a name if it stands there again, or if half of the pieces have one. A piece
    without a name goes on with the one before, unless a dash says that somebody else speaks.
    """
    found = [NAMED.match(MARK.sub("", text)) for *_, text in pieces]
    usable = [match if match and len(match[1].split()) <= 4 and not match[1][0].islower() else None for match in found]
    counts = Counter(match[1] for match in usable if match)
    several = 2 * counts.total() >= len(pieces)
    named, speaker = [], None
    for (start, _, text), match in zip(pieces, usable, strict=True):
        if match and (several or counts[match[1]] > 1):
            speaker, text = match[1], match.string[match.end() :]
        elif MARK.match(text):
            speaker = None
        named.append((start, speaker, text))
    return named


def _joined(pieces: list[Spoken]) -> list[Spoken]:
    """Turns: what one person goes on to say, until a sentence ends, is one."""
    turns: list[Spoken] = []
    for start, speaker, text in pieces:
        begin, last, said = turns[-1] if turns else (None, None, ".")
        goes_on = (
            last == speaker and not MARK.match(text) and not ENDED.search(said) and len(said.split()) < MOST_WORDS
        )
        if goes_on:
            turns[-1] = (begin, speaker, f"{said} {text}")
        else:
            turns.append((start, speaker, MARK.sub("", text)))
    return turns


def _messages(path: str, content: str) -> list[Spoken]:
    """The messages of an export of WhatsApp, or of lines "NAME: TEXT", without what no person wrote."""
    lines = [*enumerate(re.sub("[\u00a0\u202f]", " ", content).split("\n"), 1)]
    number, first = next((number, DIRECTIONS.sub("", line)) for number, line in lines if line.strip())
    if not STAMP.match(first):
        named = _named([(None, None, line.strip()) for _, line in lines if line.strip()])
        if named[0][1] is None:
            raise ValueError(
                f"{path}, line {number}: neither a date as WhatsApp writes it, such as `31/12/2026, 23:59 - Ana: Hi` or `[31.12.26, 23:59:59] "
                f"Ana: Hi`, nor `NAME: TEXT`: {first[:60]!r}"
            )
        return named
    turns: list[Spoken] = []
    going_on = False
    for _, line in lines:
        bare = DIRECTIONS.sub("", line)
        if stamp := STAMP.match(bare):
            message = SENDER.fullmatch(bare[stamp.end() :])
            text = EDITED.sub("", message[2]) if message else ""
            # The iPhone marks what it wrote itself.
            going_on = bool(message) and not LEFT_OUT.fullmatch(text.strip()) and ": \u200e" not in line
            if message and going_on:
                turns.append((stamp[1], message[1].strip(), text))
        elif going_on:
            turns[-1] = (*turns[-1][:2], EDITED.sub("", f"{turns[-1][2]} {bare}"))
    return [(start, speaker, " ".join(text.split())) for start, speaker, text in turns]


def _chats(path: str, content: str, stem: str, whole: bool) -> Iterator[tuple[str, list[Spoken]]]:
    """The conversations of chat programs: one in each line, or one or a list of them in the `whole` file."""
    texts = [(1, content)] if whole else [*enumerate(content.split("\n"), 1)]
    for number, text in texts:
        if not text.strip():
            continue
        try:
            value = parse_json(text)
        except BadRow as error:
            raise ValueError(f"{path}, line {number}: {error}") from None
        several = whole and isinstance(value, list) and bool(value) and all(_list_of(one) for one in value)
        for count, chat in enumerate(value if several else [value], 1):
            own = chat.get("id", chat.get("conversation_id")) if isinstance(chat, dict) else None
            name = own_files.name_of(own) or (
                f"{stem}-{count if several else number}" if several or not whole else stem
            )
            messages = _list_of(chat)
            if not messages:
                raise ValueError(
                    f'{path}, line {number}: there are no messages: expected [{{"role": "user", "content": "Hi"}}, ...], or an object with such '
                    'a list as "messages".'
                )
            yield name, [turn for message in messages if (turn := _of_message(path, message))]


def _list_of(chat: Any) -> list[Any] | None:
    """The messages of a conversation; None if it has none."""
    messages = chat.get("messages", chat.get("turns")) if isinstance(chat, dict) else chat
    fits = isinstance(messages, list) and all(isinstance(one, dict) and "messages" not in one for one in messages)
    return messages or None if fits else None


def _of_message(path: str, message: dict[str, Any]) -> Spoken | None:
    """None for a message that no person wrote, or that has no text."""
    role = message.get("role")
    content = next((message[key] for key in ("content", "utterance", "text") if key in message), "")
    parts = content if isinstance(content, list) else [content]
    texts = [part.get("text", "") if isinstance(part, dict) else "" if part is None else part for part in parts]
    if not all(isinstance(text, str) for text in texts):
        raise ValueError(f"{path}: the content of a message must be text, or parts with text, got {content!r}.")
    start = next((message[key] for key in ("start", "timestamp", "created_at") if message.get(key) is not None), None)
    speaker = next((message[key] for key in ("name", "speaker", "role") if message.get(key)), None)
    text = " ".join(" ".join(texts).split())
    if role in NO_PERSONS or not text:
        return None
    return None if start is None else str(start), own_files.name_of(speaker) or None, text


def _of_table(
    path: str | Path, encoding: str | None, separator: str | None, dialogue: str, speaker: str, text: str
) -> Iterator[tuple[str, list[Spoken]]]:
    """The conversations of a table with a row for each turn."""
    found: dict[str, list[Spoken]] = {}
    for line, row in read_rows(path, [dialogue, text], separator, encoding):
        if not {dialogue, text} <= set(row):
            raise ValueError(f"{shown(path)}: no column {dialogue!r} or {text!r}; the columns are {listed(row)}.")
        name, who, start = (own_files.name_of(row.get(column)) or None for column in (dialogue, speaker, "start"))
        if name is None or not text_processing.is_readable(row[text]):
            raise ValueError(f"{shown(path)}, line {line}: a turn needs the name of its dialogue, and words.")
        found.setdefault(name, []).append((start, who, row[text]))
    yield from found.items()


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
    if not masks:
        return name, turns
    words = "|".join(_whole(word) for word in sorted(masks, key=len, reverse=True))
    pattern = re.compile(words, re.IGNORECASE)

    def mask_of(match: re.Match[str]) -> str:
        key = match[0].casefold()
        return match[0] if key in WORDS and match[0].islower() else masks.get(key, "Speaker")

    def without(text: str) -> str:
        return pattern.sub(mask_of, text_processing.composed(text))

    return without(name), [(start, numbers.get(who or "", who), without(text)) for start, who, text in turns]


def _whole(word: str) -> str:
    """A pattern of a whole word; Chinese, Japanese and Thai have no blanks between words."""
    if re.search("[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff]", word):
        return re.escape(word)
    return rf"(?<![^\W_]){re.escape(word)}(?![^\W_])"
