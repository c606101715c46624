# SPDX-License-Identifier: Apache-2.0
"""A Space that shows a model of dialogues: these functions become part of its app.py, and import nothing."""


def ask(run, text: str) -> list[dict]:
    """A line per turn, "speaker: utterance"."""
    turns = [line.partition(": ") for line in text.splitlines() if line.strip()]
    return run([(speaker, words) if words.strip() else (None, speaker) for speaker, _, words in turns])
