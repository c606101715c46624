# SPDX-License-Identifier: Apache-2.0
"""Reads rows of CSV, TSV, JSONL and Parquet files."""

import csv
import gzip
import logging
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..io.paths import as_path, check_file, ending, is_remote, open_file, shown
from .rows import BadRow, Rows, parse_json


logger = logging.getLogger(__name__)

SPLIT_STEMS = {"train": ["train"], "validation": ["validation", "valid", "val", "dev"], "test": ["test"]}


FORMATS = {".csv": "csv", ".tsv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl"}
FORMATS |= {f"{name}.gz": kind for name, kind in FORMATS.items()} | {".parquet": "parquet"}
SEPARATORS = (",", ";", "\t", "|")


def columns_of(path: str | Path, separator: str | None = None) -> list[str]:
    """
    The columns that a CSV, TSV or Parquet file declares; empty for JSONL, which declares none. `separator`: see
    `find_separator`.
    """
    kind = FORMATS.get(ending(path))
    with _reading(shown(path)):
        if kind == "csv":
            with open_file(path, "r", encoding="utf-8-sig", newline="") as file:
                header = next(csv.reader(file, delimiter=separator or default_separator(path)), [])
                return _named_columns(header, shown(path))
        if kind == "parquet":
            import pyarrow.parquet

            with open_file(path) as file:
                return _named_columns(pyarrow.parquet.read_schema(file).names, shown(path))
    return []


@contextmanager
def _reading(path: str) -> Iterator[None]:
    """Turn what the readers of the formats raise into an error that names the file."""
    import pyarrow

    try:
        yield
    except UnicodeDecodeError as error:
        other = _other_format(path)
        raise ValueError(other or f"{path} is not UTF-8 text ({error}): save it in UTF-8.") from error
    except csv.Error as error:
        raise ValueError(f"{path}: malformed CSV: {error}") from error
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise ValueError(f"{path} is not a whole gzip file ({error}): copy it anew.") from error
    except (pyarrow.ArrowException, OSError) as error:
        if not isinstance(error, pyarrow.ArrowException) and error.errno is not None:  # errors of the file system
            raise
        reason = " ".join(str(error).split())
        raise ValueError(f"{path} is not a whole Parquet file, or one that cannot be read: {reason}.") from error


# How files begin that are no text, and what to do with them.
BEGINNINGS = {
    b"PK\x03\x04": "an Excel workbook or a zip archive: save its table as CSV in UTF-8",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook: save its table as CSV in UTF-8",
    b"\x1f\x8b": "compressed with gzip: add .gz to its name",
    b"PAR1": "a Parquet file: name it .parquet",
}


def _other_format(path: str) -> str | None:
    """The message for a file that is no text but has a format that can be told by its beginning."""
    if is_remote(path):
        return None
    with open(path, "rb") as file:
        start = file.read(4)
    return next((f"{path} is {what}." for begin, what in BEGINNINGS.items() if start.startswith(begin)), None)


def default_separator(path: str | Path) -> str:
    """A tab for TSV, else a comma."""
    return "\t" if ending(path).startswith(".tsv") else ","


def find_separator(path: str | Path, needed: Sequence[str], given: str | None = None) -> str | None:
    """
    The separator of a CSV or TSV file: the given one, else the one of `SEPARATORS` with which the header names the needed columns.
    If none does, the one that splits the header into the most columns, which the error about the missing column lists later. None for
    other formats.

    Raises:
        ValueError: the separator is no single character, or for a file without columns; several fit and give different columns.
        FileNotFoundError: no such file.
    """
    path = as_path(path)
    if given is not None:
        given = {"\\t": "\t", "tab": "\t"}.get(given, given)
        if len(given) != 1 or given in '"\r\n':
            raise ValueError(
                f"`separator` must be one character, such as ; or tab, and no quote or line end; got {given!r}."
            )
    if FORMATS.get(ending(path)) != "csv":
        if given is not None:
            raise ValueError(
                f"`separator` {given!r} is for CSV and TSV files, and {shown(path)} is none: leave it out."
            )
        return None
    if given is not None:
        return given
    check_file(path)
    headers = {}
    for separator in SEPARATORS:
        with _reading(shown(path)), open_file(path, "r", encoding="utf-8-sig", newline="") as file:
            headers[separator] = next(csv.reader(file, delimiter=separator), [])
    default = default_separator(path)
    found = {separator: header for separator, header in headers.items() if set(needed) <= set(header)}
    if len(found) > 1 and default in found and all(header == found[default] for header in found.values()):
        return default  # a single column, which no separator splits
    if len(found) > 1:
        raise ValueError(
            f"{shown(path)}: the header names {list(needed)} with each of the separators {list(found)}: name yours with {SEPARATOR_OPTION}."
        )
    if found:
        return next(iter(found))
    return max(headers, key=lambda separator: (len(headers[separator]), separator == default))


SEPARATOR_OPTION = "`separator` (of predict --separator, of train --set dataset_options.separator=...)"


def separator_hint(path: str | Path) -> str:
    """A hint for the error about a missing column of a CSV file; empty for other formats."""
    if FORMATS.get(ending(path)) != "csv":
        return ""
    return f" If none of {list(SEPARATORS)} separates the values, name the separator with {SEPARATOR_OPTION}."


def _named_columns(header: Sequence[str], path: str) -> list[str]:
    """The columns of a header, without nameless ones at its end, which spreadsheets leave; ValueError for a repeated name."""
    names = list(header)
    while names and not names[-1].strip():
        names.pop()
    if len(names) == 1 and names[0].lower().startswith("sep="):
        raise ValueError(f"{path}: the first line, {names[0]!r}, is a note to Excel and no header: remove the line.")
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{path}: the header names the column {name!r} {names.count(name)} times: rename one.")
    return names


class MalformedRow(dict):
    """A row with more or fewer values than the header, or a line that is no JSON object: what could be read, and what is wrong."""

    def __init__(self, values: Mapping[str, Any], reason: str):
        super().__init__(values)
        self.reason = reason

    def lacks(self, columns: Sequence[str]) -> bool:
        """Whether the header lacks some of these columns, which then explains the bad row; False for a line without values."""
        return bool(self) and not set(columns) <= set(self)


def read_rows(path: str | Path, needed: Sequence[str] = ()) -> Iterator[tuple[int, dict[str, Any]]]:
    """
    Stream the rows of a CSV, TSV, JSONL or Parquet file, or of a URL that fsspec opens, as (line or row number from 1,
    {column: value}).

    CSV and TSV have a header, which tells the separator if columns are `needed`, see `find_separator`; their values are
    strings, never turned into missing values (the label "None" stays). Halves of characters, which JSON can escape and no
    text holds, are an error.

    Raises:
        FileNotFoundError, ValueError: no file, or a malformed row.
    """
    for number, row in all_rows(path, separator=find_separator(path, needed) if needed else None):
        if isinstance(row, MalformedRow):
            raise ValueError(f"{shown(as_path(path))}, line {number}: {row.reason}")
        yield number, row


def all_rows(
    path: str | Path, half_characters: bool = False, separator: str | None = None
) -> Iterator[tuple[int, dict[str, Any]]]:
    """
    As `read_rows`, but a malformed row is a `MalformedRow` and no error, unless the end of the row cannot be found (quotes,
    encoding). `half_characters` lets halves of characters through. `separator`: for CSV; None: the usual one for the ending.
    """
    path = as_path(path)
    check_file(path)
    with _reading(shown(path)):
        yield from _read_rows(path, shown(path), half_characters, separator or default_separator(path))


def valid_rows(
    path: str | Path, rows: Rows, needed: Sequence[str] = (), separator: str | None = None
) -> Iterator[tuple[int, dict[str, Any]]]:
    """
    As `read_rows`; `rows` rejects the malformed ones, unless their header lacks the needed columns. For `separator` see
    `find_separator`.
    """
    for number, row in all_rows(path, separator=find_separator(path, needed, separator) if needed else None):
        if isinstance(row, MalformedRow) and not row.lacks(needed):
            rows.reject(number, row.reason)
        else:
            yield number, row


def _read_rows(
    source: str | Path, path: str, half_characters: bool, separator: str
) -> Iterator[tuple[int, dict[str, Any]]]:
    """`path`: the source's name in messages."""
    kind = FORMATS.get(ending(source))
    if kind == "csv":
        with open_file(source, "r", encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, delimiter=separator, strict=True)
            columns: list[str] = []
            unnamed = None
            while True:
                try:
                    if unnamed is None:
                        header = reader.fieldnames or []
                        reader.fieldnames = columns = _named_columns(header, path)
                        unnamed = len(header) - len(columns)
                    row = next(reader)
                except StopIteration:
                    return
                except csv.Error as error:
                    line = reader.reader.line_num  # reader.line_num still counts up to the row before
                    hint = ""
                    if "field limit" in str(error):
                        hint = " (a quote that is never closed? Texts that are longer need JSONL or Parquet)"
                    raise ValueError(f"{path}, line {line}: malformed CSV: {error}{hint}") from error
                if len(row.get(None, [])) <= unnamed and not any(map(str.strip, row.get(None, []))):
                    row.pop(None, None)
                if None in row or None in row.values():
                    row = MalformedRow(
                        {column: value or "" for column, value in row.items() if column is not None},
                        f"the header has {len(columns)} columns and the row has "
                        f"{'more' if None in row else 'fewer'}; quote values that contain the separator.",
                    )
                elif len(row) > 1 and list(row) == [value.removeprefix("\ufeff") for value in row.values()]:
                    row = MalformedRow(row, "the line is the header once more: leave it out when files are joined.")
                yield reader.line_num, row
    elif kind == "jsonl":
        with open_file(source, "r", encoding="utf-8-sig", newline="\n") as file:
            for number, line in enumerate(file, 1):
                if not line.strip():
                    continue
                try:
                    row = parse_json(line, half_characters)
                except BadRow as error:
                    whole = line.strip() == "{" or line.lstrip().startswith("[") or "\r" in line.strip()
                    hint = " (each line must hold one object, and end in a newline)" if whole else ""
                    row = MalformedRow({}, f"{error}{hint}")
                if not isinstance(row, dict):
                    row = MalformedRow({}, f"each line must be a JSON object, got {type(row).__name__}.")
                yield number, row
    elif kind == "parquet":
        import pyarrow.parquet

        number = 0
        with open_file(source) as opened, pyarrow.parquet.ParquetFile(opened) as file:
            _named_columns(file.schema_arrow.names, path)
            for batch in file.iter_batches(batch_size=4096):
                for row in batch.to_pylist():
                    number += 1
                    yield number, row
    else:
        raise ValueError(f"{path}: the file name must end in one of {sorted(FORMATS)}.")


def split_files(source: Path) -> dict[str, Path]:
    if source.is_file():
        return {"train": source}
    if not source.is_dir():
        raise FileNotFoundError(f"`data_dir` does not exist: {source}")
    files = {}
    for split, stems in SPLIT_STEMS.items():
        found = [path for stem in stems for path in sorted(source.glob(f"{stem}.*")) if ending(path) in FORMATS]
        if len(found) > 1:
            raise ValueError(f"more than one file for the split {split!r} in {source}: {[p.name for p in found]}")
        if found:
            files[split] = found[0]
    if "train" not in files:
        raise FileNotFoundError(
            f"no training file in {source}: expected train with one of the endings {sorted(FORMATS)}."
        )
    like = re.compile(r"(train|val|dev|test|eval).*\.(csv|tsv|jsonl?|ndjson|parquet|xlsx?|txt)(\.gz)?", re.IGNORECASE)
    unread = [
        path.name for path in sorted(source.iterdir()) if like.fullmatch(path.name) and path not in files.values()
    ]
    if unread:
        logger.warning(
            "%s: not read: %s; the parts are train, validation (valid, val, dev) and test, in small letters, with an ending of %s",
            *(source, unread, sorted(FORMATS)),
        )
    return files
