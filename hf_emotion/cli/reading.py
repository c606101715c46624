# SPDX-License-Identifier: Apache-2.0
"""What several commands read with: texts, emotions, key=value; and the files they refuse."""

import os
import sys
from pathlib import Path
from typing import Any

import typer


def given_or_stdin(given: list[str] | None, what: str) -> list[str]:
    if not given and sys.stdin.isatty():
        print(f"reading {what}s from the keyboard, one per line; finish with Ctrl+D", file=sys.stderr)
    lines = given or [line for line in sys.stdin.read().removeprefix("\ufeff").split("\n") if line.strip()]
    if not lines:
        raise ValueError(f"no {what}: give {what}s as arguments, lines on stdin, or --input with --output.")
    return lines


def refuse_files(given: list[str] | None) -> None:
    """Refuse texts that name an existing file or folder."""
    for text in given or ():
        if os.path.isfile(text):
            raise ValueError(
                f"{text} is a file, and texts are meant here: --input {text} --output FILE reads a table (where the command has it), "
                f"< {text} reads one text per line."
            )
        if "/" in text and os.path.isdir(text):
            raise ValueError(f"{text} is a folder, and texts are meant here: give one checkpoint, then the texts.")


def refuse_existing(output: Path | None) -> None:
    """Refuse an output that exists, before the work begins: it may be the input."""
    if output is not None and output.exists():
        raise FileExistsError(f"the output {output} exists: choose another name or remove it.")


def emotion_or_mixture(text: str) -> str | dict[str, float]:
    """A name, or a mixture "joy=0.7,surprise=0.3"."""
    if "=" not in text:
        return text
    mixture = {}
    for part in text.split(","):
        name, _, weight = part.rpartition("=")
        try:
            mixture[name.strip()] = float(weight)
        except ValueError:
            raise ValueError(f"a mixture of emotions has the form joy=0.7,surprise=0.3, got {text!r}.") from None
    if len(mixture) < len(text.split(",")):
        raise ValueError(f"a mixture names each emotion once, got {text!r}.")
    return mixture


def read_options(pairs: list[str] | None, name: str = "--option") -> dict[str, Any]:
    from ..recipes import read_value

    options = {}
    for pair in pairs or []:
        key, separator, value = pair.partition("=")
        if not separator:
            raise typer.BadParameter(f"{name} has the form key=value, got {pair!r}.")
        try:
            options[key] = read_value(value)
        except ValueError as error:
            raise typer.BadParameter(f"{name} {pair!r} has no valid YAML value: {error}") from error
    return options
