# SPDX-License-Identifier: Apache-2.0
"""A Space that shows a generator of replies: these functions become part of its app.py, and import nothing."""


def ask(run, text: str, emotion: str) -> list[dict]:
    """A reply in the chosen emotion."""
    return run((text, emotion))


def choices(run) -> dict[str, list[str]]:
    """What a user chooses besides the text."""
    return {"Emotion": run.model.config.emotions}
