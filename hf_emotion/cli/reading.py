# SPDX-License-Identifier: Apache-2.0
"""How commands read texts, emotions and key=value, and which files they refuse."""

import codecs
import io
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer


READ_AT_ONCE = 2**20  # bytes; a pipe holds 64 KiB


def given_or_stdin(given: list[str] | None, what: str) -> list[str]:
    """The given texts, else all lines of stdin that are not blank; ValueError if there is none."""
    return given or [line for lines in stdin_lines(what) for line in lines]


def stdin_lines(what: str) -> Iterator[list[str]]:
    """Yield the lines of stdin that are not blank, in lists of what is ready. ValueError if there is none."""
    if sys.stdin is None:  # closed, as `<&-` does
        raise ValueError(f"no {what}: stdin is closed; give {what}s as arguments, or --input with --output.")
    if sys.stdin.isatty():
        print(f"reading {what}s from the keyboard, one per line; finish with Ctrl+D", file=sys.stderr)
    # Where a test replaces stdin by a text stream, there is no `buffer`.
    source = getattr(sys.stdin, "buffer", None) or io.BytesIO(sys.stdin.read().encode())
    characters = codecs.getincrementaldecoder(sys.stdin.encoding or "utf-8")(sys.stdin.errors or "strict")
    decoder = io.IncrementalNewlineDecoder(characters, translate=True)
    rest, start, found = "", "\ufeff", False
    while True:
        content = source.read1(READ_AT_ONCE)  # waits for some bytes, not for all
        rest += decoder.decode(content, final=not content)
        if rest:
            rest, start = rest.removeprefix(start), ""
        *lines, rest = rest.split("\n") if content else [*rest.split("\n"), ""]
        if lines := [line for line in lines if line.strip()]:
            found = True
            yield lines
        if not content:
            break
    if not found:
        raise ValueError(f"no {what}: give {what}s as arguments, lines on stdin, or --input with --output.")


def refuse_files(given: list[str] | None) -> None:
    """Refuse texts that name an existing file or folder."""
    for text in given or ():
        if os.path.isfile(text):
            raise ValueError(
                f"{text} is a file, but this argument takes texts: --input {text} --output FILE reads a table (where the command "
                f"has it), < {text} reads one text per line."
            )
        if "/" in text and os.path.isdir(text):
            raise ValueError(
                f"{text} is a folder, but this argument takes texts: give one checkpoint, then the texts."
            )


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
