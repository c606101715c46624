# SPDX-License-Identifier: Apache-2.0
"""A Space that shows a model of dialogues: these functions become part of its app.py, and import nothing."""


def ask(run, text: str) -> list[dict]:
    """A line per turn, "speaker: utterance"."""
    turns = []
    for line in filter(str.strip, text.splitlines()):
        speaker, _, words = line.partition(": ")
        named = words.strip() and 0 < len(speaker.split()) <= 3  # as `predict` has it
        turns.append((speaker.strip(), words) if named else (None, line))
    return run(turns)
