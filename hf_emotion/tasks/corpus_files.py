# SPDX-License-Identifier: Apache-2.0
"""The files of published corpora. They are fixed and known, so they are read plainly, and a malformed line is one error."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import NoReturn

from ..data.rows import BadRow, Rows, decode, download, local_files


MALFORMED = (AttributeError, LookupError, TypeError, ValueError, SyntaxError, RecursionError, MemoryError, csv.Error)


class CorpusRows(Rows):
    """
    The rows of one file, read in a `with` statement that sets `line`: what fails there becomes a ValueError with file and line.
    """

    def __init__(self, source: Path | str, unit: str = "line"):
        super().__init__(source, "error")
        self.line, self.unit = 0, unit

    def reject(self, line: int, reason: str) -> NoReturn:
        raise BadRow(reason)

    def __enter__(self) -> CorpusRows:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, MALFORMED):
            place = f", {self.unit} {self.line}" if self.line else ""
            reason = str(error) if isinstance(error, BadRow) else f"{type(error).__name__}: {error}"
            raise ValueError(f"{self.source}{place}: malformed ({reason}): use the corpus' own file.") from error


def lines_of(content: bytes, source: Path | str) -> list[str]:
    # Split only at "\n": texts may hold other Unicode line separators.
    lines = decode(content, source).split("\n")
    return [line.removesuffix("\r") for line in (lines[:-1] if lines[-1] == "" else lines)]


def csv_rows(rows: CorpusRows, content: str) -> Iterator[dict[str, str]]:
    """{column: value} of each row; sets the line of `rows`."""
    reader = csv.reader(io.StringIO(content, newline=""), strict=True)
    header = next(reader, [])
    for values in reader:
        rows.line = reader.line_num
        yield dict(zip(header, values, strict=True))
        rows.line += 1  # if the next line is not CSV


def corpus_files(data_dir: str | Path | None, corpus: str, address: str, sums: Mapping[str, str]) -> list[Path]:
    """Files, {name: SHA-256}, from the folder of the corpus in `data_dir`, or downloaded."""
    if data_dir is None:
        return [download(f"{address}/{name}", sha256) for name, sha256 in sums.items()]
    return local_files(data_dir, corpus, list(sums))
