# SPDX-License-Identifier: Apache-2.0
"""Small corpora of replies in the forms of the published ones, and one's own files."""

import hashlib
from pathlib import Path

from toolkit_helpers import write_jsonl


JOY, SOB, HEART, FIST, NO = "😂", "😭", "❤", "✋", "🙅"


def part_of(context: str) -> str:
    """Independent of the package: the hexadecimal digits of the first 8 bytes."""
    number = int(hashlib.sha256(context.encode()).hexdigest()[:16], 16) % 100
    return next(part for part, end in PARTS.items() if number < end)


PARTS = {"generator": 60, "judge_a": 75, "judge_b": 90, "validation": 100}

MOJIS = [JOY, SOB, HEART, FIST]

POSTS = [(f"post {i % 150} , caf\xe9", f"reply {i}", MOJIS[i * i % 4]) for i in range(200)]  # the last 50 posts repeat


def write_pairs(folder: Path, stem: str, rows: list[tuple[str, str, str]]) -> None:
    (folder / "mojitalk").mkdir(parents=True, exist_ok=True)
    for ending, lines in {
        "ori": [f"{emoji} {post}" for post, _, emoji in rows],
        "rep": [reply for _, reply, _ in rows],
    }.items():
        (folder / "mojitalk" / f"{stem}.{ending}").write_bytes("".join(f"{line}\n" for line in lines).encode())


def mojitalk_folder(folder: Path, **parts: list[tuple[str, str, str]]) -> Path:
    """`folder/mojitalk` with dev, test and emojis64.txt of four emojis; returns `folder`."""
    for stem, rows in {"dev": POSTS, "test": [("a test post", "a test reply", HEART)], **parts}.items():
        write_pairs(folder, stem, rows)
    names = "".join(f"{emoji}\tname {i}\n" for i, emoji in enumerate(MOJIS))
    (folder / "mojitalk" / "emojis64.txt").write_text(names, encoding="utf-8")
    return folder


RELEASE_HEADER = "conv_id,utterance_idx,context,prompt,speaker_idx,utterance,selfeval,tags"


def release_row(
    number: int | str, text: str, emotion: str = "proud", conversation: str = "hit:0_conv:1", more: str = ""
):
    return f"{conversation},{number},{emotion},a situation_comma_ told,7,{text},5|5|5_2|2|5,{more}"


def conversation(
    conversation_id: str = "hit:0_conv:1", emotion: str = "proud", texts: list[str] | None = None, **changes
):
    turns = [[("speaker", "listener")[i % 2], text] for i, text in enumerate(["a", "b"] if texts is None else texts)]
    return {"conv_id": conversation_id, "emotion": emotion, "situation": "s", "turns": turns, **changes}


def empathetic_folder(folder: Path, **parts: list[dict] | list[str]) -> Path:
    """`folder/empathetic_dialogues/{train,valid,test}`, JSONL of dicts or CSV of lines; returns `folder`."""
    csv = any(isinstance(rows[0], str) for rows in parts.values())
    for stem in ("train", "valid", "test"):
        rows = parts.get(stem) or (
            [release_row(1, f"said in {stem}"), release_row(2, "b")]
            if csv
            else [conversation(texts=[f"said in {stem}", "b"])]
        )
        path = folder / "empathetic_dialogues" / f"{stem}.{'csv' if csv else 'jsonl'}"
        if csv:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes("".join(f"{line}\n" for line in [RELEASE_HEADER, *rows]).encode())
        else:
            write_jsonl(path, rows)
    return folder


OWN = [
    {"context": "how are you", "reply": "fine", "emotion": "joy"},
    {"context": "the end", "reply": "None", "emotion": "sadness"},
    {"context": "two, with comma", "reply": "cafe\u0301 ", "emotion": "joy"},
]

OWN_PAIRS = [("how are you", "fine", "joy"), ("the end", "None", "sadness"), ("two, with comma", "caf\xe9", "joy")]
