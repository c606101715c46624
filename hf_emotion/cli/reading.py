# SPDX-License-Identifier: Apache-2.0
"""How commands read texts, emotions and key=value, and which files they refuse."""

import io
import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from ..runtime.plain import text_processing
from .options import named


logger = logging.getLogger(__name__)

READ_AT_ONCE = 2**20  # bytes; a pipe holds 64 KiB


def given_or_stdin(given: list[str] | None, what: str, on_bad_rows: str | None = None) -> list[str]:
    """The given texts, else all lines of stdin that are not blank; ValueError if there is none."""
    return given or [line for lines in stdin_lines(what, on_bad_rows) for line in lines]


def stdin_lines(what: str, on_bad_rows: str | None = None) -> Iterator[list[str]]:
    """
    Yield the lines of stdin that are not blank, in lists of what is ready. A line without a visible character is blank, too.

    Args:
        what: what a line is, for messages.
        on_bad_rows: "skip" leaves out lines with bytes that are not text, and counts them.

    Raises:
        ValueError: there is none, or one with bytes that are no text.
    """
    if sys.stdin.isatty():
        print(f"reading {what}s from the keyboard, one per line; finish with Ctrl+D", file=sys.stderr)
    # Where a test replaces stdin by a text stream, there is no `buffer`.
    source = getattr(sys.stdin, "buffer", None) or io.BytesIO(sys.stdin.read().encode())
    encoding = sys.stdin.encoding or "utf-8"
    rest, number, empty = b"", 0, True
    bad: list[int] = []
    content = b"\n"
    while content:
        content = source.read1(READ_AT_ONCE)  # waits for some bytes, not for all
        *lines, rest = (rest + content).split(b"\n") if content else [rest, b""]
        good: list[str] = []
        for line in lines:
            number += 1
            try:
                text = line.decode(encoding).strip("\r\ufeff")
            except UnicodeDecodeError:
                bad.append(number)
                if on_bad_rows != "skip":
                    break
            else:
                good += [text] * text_processing.is_readable(text)
        if good:
            empty = False
            yield good
        if bad and on_bad_rows != "skip":
            raise ValueError(
                f"stdin, line {number} is not {encoding} text: save it in UTF-8, or leave such lines out "
                "(`predict --on-bad-rows skip`)."
            )
    if bad:
        logger.warning("stdin: %d lines are not %s text and are left out, first line %d", len(bad), encoding, bad[0])
    if empty:
        raise ValueError(f"no {what}: give {what}s as arguments, lines on stdin, or --input with --output.")


def refuse_files(given: list[str] | None) -> None:
    """Refuse texts that name an existing file or folder."""
    for text in given or ():
        if os.path.isfile(text) or ("/" in text and os.path.isdir(text)):
            raise ValueError(f"{text} is a file or folder, but this argument takes texts: use --input, or < FILE.")


def refuse_columns(source: str, **given: Any) -> None:
    """Refuse options of tables for a file or folder of conversations that has no columns."""
    if asked := [name for name, value in given.items() if value is not None]:
        raise typer.BadParameter(f"{named(asked)}: for tables, and {source} has no columns. Leave it out.")


def emotion_or_mixture(text: str) -> str | dict[str, float]:
    """A name, or a mixture "joy=0.7,surprise=0.3"."""
    if "=" not in text:
        return text
    parts = [part.rpartition("=") for part in text.split(",")]
    try:
        mixture = {name.strip(): float(weight) for name, _, weight in parts}
    except ValueError:
        mixture = {}
    if len(mixture) < len(parts) or "" in mixture:
        raise ValueError(f"a mixture of emotions has the form joy=0.7,surprise=0.3, each once, got {text!r}.")
    return mixture


def read_options(pairs: list[str] | None, name: str = "--option") -> dict[str, Any]:
    from ..recipes import read_value

    options = {}
    for pair in pairs or []:
        try:
            key, value = pair.split("=", 1)
            options[key] = read_value(value)
        except ValueError as error:
            raise typer.BadParameter(f"{name} needs key=value, and a YAML value, got {pair!r}: {error}") from error
    return options


def thresholds_of(path: Path) -> list[str]:
    """Those of a JSON file, {label: number}, as "label=number"."""
    from ..io.files import read_object

    found = read_object(path, 'write thresholds of labels, {"joy": 0.4}')
    return [f"{label}={number}" for label, number in found.items()]


def read_thresholds(given: list[str], predictor: Any) -> list[float]:
    """The thresholds of the model's own labels, changed by "0.4" (of all) or "joy=0.6" (of one)."""
    from ..runtime.classifying import label_names

    names = label_names(predictor.model.config)  # `predictor.labels` may be the groups of a taxonomy
    thresholds = dict(zip(names, map(float, predictor.thresholds), strict=True))
    for one in sorted(given, key=lambda one: "=" in one):  # of all first
        label, _, value = one.rpartition("=")
        if label and label not in thresholds:
            raise typer.BadParameter(f"--threshold {one}: the model has no label {label!r}, only {[*thresholds]}.")
        try:
            number = float(value)
        except ValueError:
            number = -1.0
        if not 0 <= number <= 1:
            raise typer.BadParameter(f"--threshold takes a number from 0 to 1, or LABEL=NUMBER, got {one!r}.")
        thresholds.update(dict.fromkeys([label] if label else thresholds, number))
    return list(thresholds.values())


def read_groups(path: Path) -> dict[str, list[str]]:
    """Groups of labels from a YAML file; whether they fit the labels is checked where these are known."""
    from ..recipes import read_yaml_file

    return {str(name): members for name, members in read_yaml_file(path).items()}
