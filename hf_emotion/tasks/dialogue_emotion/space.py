# SPDX-License-Identifier: Apache-2.0
"""A Space that shows a model of dialogues: these functions become part of its app.py, and import nothing."""


def ask(run, text: str) -> list[dict]:
    """The emotion of each turn; the text has one turn per line, "speaker: utterance"."""
    turns = []
    for line in filter(str.strip, text.splitlines()):
        speaker, _, words = line.partition(": ")
        named = words.strip() and 0 < len(speaker.split()) <= 3  # the same rule as `predict`
        turns.append((speaker.strip(), words) if named else (None, line))
    return run(turns)
