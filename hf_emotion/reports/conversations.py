# SPDX-License-Identifier: Apache-2.0
"""The page of conversations: a strip for each speaker over the turns, and the turns."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..io.files import write_text
from ..tasks.dialogue_emotion.showing import NO_NAME, signs
from .html_report import render


def write_page(
    path: Path, conversations: Mapping[str, Sequence[Mapping[str, Any]]], labels: Sequence[str], model: str
) -> None:
    """
    Write a page without scripts and links, escaped, of {name: turns}, from `read_conversations` and with the model's "label" and "score".
    `labels` are all those of the model.
    """
    seen = {turn["label"] for turns in conversations.values() for turn in turns}
    about: dict[str, Any] = {"signs": signs(labels), "legend": [label for label in labels if label in seen]}
    title = "Emotions over conversations"
    about |= {"title": title, "no_name": NO_NAME, "model": model, "conversations": conversations}
    write_text(path, render("conversations.html", **about))
