# SPDX-License-Identifier: Apache-2.0
"""What the published programs of a model do: these functions become part of a Space's app.py and of an endpoint's handler.py, and import nothing."""


def ask(run, text: str) -> list[dict]:
    """The emotion of each turn; the text has one turn per line, "speaker: utterance"."""
    turns = []
    for line in filter(str.strip, text.splitlines()):
        speaker, _, words = line.partition(": ")
        named = words.strip() and 0 < len(speaker.split()) <= 3  # the same rule as `predict`
        turns.append((speaker.strip(), words) if named else (None, line))
    return run(turns)


def respond(run, inputs, parameters: dict) -> list:
    """
    For a dialogue, a list of turns, a list with an entry for each turn; for a list of dialogues a list of such lists. A turn is an utterance
    or {"speaker": ..., "utterance": ...}; a text alone is a dialogue of one turn.
    """
    return run([inputs] if isinstance(inputs, str) else inputs, **parameters)
