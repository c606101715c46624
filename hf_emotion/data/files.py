# SPDX-License-Identifier: Apache-2.0
"""Reads rows of CSV, TSV, JSONL, Parquet and Excel files."""

import csv
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..io.extras import require
from ..io.paths import as_path, check_file, ending, open_file, shown
from .rows import BadRow, Row, Rows, parse_json


SPLIT_STEMS = {"train": ["train"], "validation": ["validation", "valid", "val", "dev"], "test": ["test"]}


FORMATS = {".csv": "csv", ".tsv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl"}
FORMATS |= {f"{name}.gz": kind for name, kind in FORMATS.items()} | {".parquet": "parquet", ".xlsx": "xlsx"}
SEPARATORS = (",", ";", "\t", "|")
ENCODING = "utf-8-sig"  # UTF-8, with or without a byte order mark


def format_of(path: str | Path) -> str:
    """The format that the ending of a path names; ValueError for another ending."""
    if ending(path) not in FORMATS:
        raise ValueError(f"{shown(path)}: the file name must end in one of {sorted(FORMATS)}.")
    return FORMATS[ending(path)]


def columns_of(path: str | Path, separator: str | None = None, encoding: str | None = None) -> list[str]:
    """The columns that a CSV, TSV, Parquet or Excel file declares; empty for JSONL, which declares none."""
    kind = FORMATS.get(ending(path))
    with _reading(shown(path)):
        if kind == "csv":
            with open_file(path, "r", encoding=encoding or ENCODING, newline="") as file:
                header = next(csv.reader(file, delimiter=separator or default_separator(path)), [])
                return _named_columns(header, shown(path))
        if kind == "parquet":
            import pyarrow.parquet

            with open_file(path) as file:
                return _named_columns(pyarrow.parquet.read_schema(file).names, shown(path))
        if kind == "xlsx":
            return _named_columns([str(cell or "") for cell in next(_sheet(path), ())], shown(path))
    return []


@contextmanager
def _reading(path: str) -> Iterator[None]:
    """Turn what the readers of the formats raise into an error that names the file."""
    import pyarrow

    try:
        yield
    except (UnicodeDecodeError, csv.Error, zlib.error, EOFError, pyarrow.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # of the file system
            raise
        reason = " ".join(str(error).split())
        raise ValueError(
            f"{path} cannot be read ({reason}): is it whole, in the format of its ending, and its text in UTF-8 (else name its `encoding`, --encoding cp1252)?"
        ) from error


def default_separator(path: str | Path) -> str:
    """A tab for TSV, else a comma."""
    return "\t" if ending(path).startswith(".tsv") else ","


def find_separator(
    path: str | Path, needed: Sequence[str], given: str | None = None, encoding: str | None = None
) -> str | None:
    """
    The separator of a CSV or TSV file: the given one; else the one with which the header names the needed columns; else, so that an error can
    list its columns, the one that finds most. None for other formats.
    """
    path = as_path(path)
    table = FORMATS.get(ending(path)) == "csv"
    if given is not None:
        given = {"\\t": "\t", "tab": "\t"}.get(given, given)
        if len(given) != 1 or not table:
            raise ValueError(
                f"`separator` must be one character of a CSV or TSV file; got {given!r} for {shown(path)}."
            )
        return given
    if not table:
        return None
    check_file(path)
    headers = {}
    for separator in dict.fromkeys((default_separator(path), *SEPARATORS)):
        with _reading(shown(path)), open_file(path, "r", encoding=encoding or ENCODING, newline="") as file:
            headers[separator] = next(csv.reader(file, delimiter=separator), [])
    fitting = [separator for separator, header in headers.items() if needed and set(needed) <= set(header)]
    if any(headers[separator] != headers[fitting[0]] for separator in fitting):
        raise ValueError(f"{shown(path)} fits several separators, {sorted(fitting)}: name yours (--separator).")
    return fitting[0] if fitting else max(headers, key=lambda separator: len(headers[separator]))


def _named_columns(header: Sequence[str], path: str) -> list[str]:
    """The columns of a header, without nameless ones at its end, which spreadsheets leave; ValueError for a repeated name."""
    names = list(header)
    while names and not names[-1].strip():
        names.pop()
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
        """Whether the header lacks some of these columns; False for a line without values."""
        return bool(self) and not set(columns) <= set(self)


def read_rows(path: str | Path, needed: Sequence[str] = ()) -> Iterator[tuple[int, Row]]:
    """
    Stream the rows of a CSV, TSV, JSONL or Parquet file, or of a URL that fsspec opens, as (line or row number from 1,
    {column: value}).

    CSV and TSV have a header, which tells the separator if columns are `needed`, see `find_separator`; their values are
    strings, never turned into missing values (the label "None" stays).
    """
    for number, row in all_rows(path, separator=find_separator(path, needed) if needed else None):
        if isinstance(row, MalformedRow):
            raise ValueError(f"{shown(as_path(path))}, line {number}: {row.reason}")
        yield number, row


def all_rows(
    path: str | Path, half_characters: bool = False, separator: str | None = None, encoding: str | None = None
) -> Iterator[tuple[int, Row]]:
    """
    As `read_rows`, but a malformed row is a `MalformedRow` and no error, unless the end of the row cannot be found (quotes,
    encoding). `half_characters` lets lone surrogates through. `separator`: for CSV; None: the usual one for the ending.
    `encoding`: of a text file; None: UTF-8.
    """
    path = as_path(path)
    check_file(path)
    with _reading(shown(path)):
        yield from _read_rows(
            path, shown(path), half_characters, separator or default_separator(path), encoding or ENCODING
        )


def valid_rows(
    path: str | Path, rows: Rows, needed: Sequence[str] = (), separator: str | None = None
) -> Iterator[tuple[int, Row]]:
    """As `read_rows`; `rows` rejects the malformed ones, unless their header lacks the needed columns."""
    for number, row in all_rows(path, separator=find_separator(path, needed, separator) if needed else None):
        if isinstance(row, MalformedRow) and not row.lacks(needed):
            rows.reject(number, row.reason)
        else:
            yield number, row


def _read_rows(
    source: str | Path, path: str, half_characters: bool, separator: str, encoding: str
) -> Iterator[tuple[int, Row]]:
    """`path`: the source's name in messages."""
    kind = format_of(source)
    if kind == "csv":
        with open_file(source, "r", encoding=encoding, newline="") as file:
            reader = csv.reader(file, delimiter=separator, strict=True)
            try:
                header = next(reader, [])
                columns = _named_columns(header, path)
                for values in filter(None, reader):
                    yield reader.line_num, _csv_row(columns, len(header), values)
            except csv.Error as error:
                message = f"{path}, line {reader.line_num}: malformed CSV (a quote that is not closed?): {error}"
                raise ValueError(message) from error
    elif kind == "jsonl":
        with open_file(source, "r", encoding=encoding, newline="\n") as file:
            for number, line in enumerate(file, 1):
                if not line.strip():
                    continue
                try:
                    row = parse_json(line, half_characters)
                except BadRow as error:
                    row = MalformedRow({}, f"{error} (each line must hold one object, and end in a newline)")
                if not isinstance(row, dict):
                    row = MalformedRow({}, f"each line must be a JSON object, got {type(row).__name__}.")
                yield number, row
    elif kind == "xlsx":
        rows = _sheet(source)
        columns = _named_columns([str(cell or "") for cell in next(rows, [])], path)
        for number, cells in enumerate(rows, 2):
            if any(cell is not None for cell in cells):
                yield number, dict(zip(columns, [*cells, *[None] * len(columns)], strict=False))
    else:
        import pyarrow.parquet

        number = 0
        with open_file(source) as opened, pyarrow.parquet.ParquetFile(opened) as file:
            _named_columns(file.schema_arrow.names, path)
            for batch in file.iter_batches(batch_size=4096):
                for row in batch.to_pylist():
                    number += 1
                    yield number, row


def _sheet(source: str | Path) -> Iterator[tuple[Any, ...]]:
    """The rows of the first sheet of a workbook, as Excel shows their values."""
    require("openpyxl", "an Excel file", "excel")
    import zipfile

    import openpyxl

    with open_file(source) as file:
        try:
            book = openpyxl.load_workbook(file, read_only=True, data_only=True)
        except (zipfile.BadZipFile, KeyError) as error:
            raise OSError(f"it is no Excel workbook: {error}") from error
        yield from book.worksheets[0].iter_rows(values_only=True)


def _csv_row(columns: list[str], width: int, values: list[str]) -> Row:
    """A row below a header of `width` columns; the last ones may be nameless."""
    row, more = dict(zip(columns, values, strict=False)), values[len(columns) :]
    if len(more) <= width - len(columns) and not any(map(str.strip, more)):
        more = []
    if more or len(values) < len(columns):
        count = "more" if more else "fewer"
        reason = (
            f"the header has {len(columns)} columns and the row has {count}; quote values that contain the separator."
        )
        return MalformedRow(dict.fromkeys(columns, "") | row, reason)
    if len(row) > 1 and columns == [value.removeprefix("\ufeff") for value in row.values()]:
        return MalformedRow(row, "the line is the header once more: leave it out when files are joined.")
    return row


def split_files(source: Path, others: Collection[str] = ()) -> dict[str, Path]:
    """The files of the splits in a folder, or one file as the training part; `others`: endings besides those of `FORMATS`."""
    endings = {*FORMATS, *others}
    if source.is_file():
        return {"train": source}
    files: dict[str, Path] = {}
    for split, stems in SPLIT_STEMS.items():
        paths = [path for stem in stems for path in sorted(source.glob(f"{stem}.*")) if ending(path) in endings]
        if len(paths) > 1:
            raise ValueError(f"more than one file for the split {split!r}: {[str(path) for path in paths]}")
        if paths:
            files[split] = paths[0]
    if "train" not in files:
        raise FileNotFoundError(
            f"no training file in {source}: it must hold train with one of the endings {sorted(endings)}."
        )
    return files
