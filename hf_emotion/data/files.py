# SPDX-License-Identifier: Apache-2.0
"""Reads rows of CSV, TSV, JSONL, Parquet and Excel files."""

import csv
import logging
import threading
import zlib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import IO, Any

from ..io.extras import require
from ..io.paths import as_path, check_file, check_unpacked, ending, open_file, shown
from ..runtime.plain import text_processing
from .rows import BadRow, Row, Rows, parse_json


logger = logging.getLogger(__name__)

SPLIT_STEMS = {"train": ["train"], "validation": ["validation", "valid", "val", "dev"], "test": ["test"]}


FORMATS = {".csv": "csv", ".tsv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl"}
FORMATS |= {f"{name}.gz": kind for name, kind in FORMATS.items()} | {".parquet": "parquet", ".xlsx": "xlsx"}
SEPARATORS = (",", ";", "\t", "|")
ENCODING = "utf-8-sig"  # UTF-8, with or without a byte order mark
MOST_CHARACTERS = 2**24  # of a cell of CSV: a quote that is not closed makes one cell of all that follows
MOST_ROWS = 2**20  # of a sheet of Excel
_FIELD_LIMIT = threading.Lock()


def format_of(path: str | Path) -> str:
    """The format that the ending of a path names; ValueError for another ending."""
    if ending(path) not in FORMATS:
        raise ValueError(f"{shown(path)}: the file name must end in one of {sorted(FORMATS)}.")
    return FORMATS[ending(path)]


def columns_of(path: str | Path, separator: str | None = None, encoding: str | None = None) -> list[str]:
    """The columns that a CSV, TSV, Parquet or Excel file declares; empty for JSONL, which declares none."""
    kind, name = FORMATS.get(ending(path)), shown(path)
    with reading(path, encoding):
        if kind == "csv":
            with open_file(path, "r", encoding=encoding or ENCODING, newline="") as file:
                _, header = next(_csv_lines(file, name, separator or default_separator(path)), (1, []))
                return _named_columns(header, name)
        if kind == "parquet":
            import pyarrow.parquet

            with open_file(path) as file:
                return _named_columns(pyarrow.parquet.read_schema(file).names, name)
        if kind == "xlsx":
            return _named_columns(_as_texts(next(_sheet(path), ())), name)
    return []


@contextmanager
def reading(path: str | Path, encoding: str | None = None) -> Iterator[None]:
    """Turn what the readers of the formats raise into an error that names the file, and the line that is not in its encoding."""
    import pyarrow

    try:
        yield
    except (UnicodeDecodeError, zlib.error, EOFError, pyarrow.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # of the file system
            raise
        if isinstance(error, UnicodeDecodeError) and FORMATS.get(ending(path)) not in ("parquet", "xlsx"):
            raise ValueError(_undecoded(path, encoding or ENCODING)) from error
        reason = " ".join(str(error).split())
        raise ValueError(
            f"{shown(path)} cannot be read ({reason}): is it whole, and in the format of its ending?"
        ) from error


def _undecoded(path: str | Path, encoding: str) -> str:
    """What to say of a text file that is not in its encoding."""
    place, likely = shown(path), "cp1252"
    with suppress(UnicodeDecodeError), open_file(path, "r", encoding=encoding, errors="surrogateescape") as file:
        for number, line in enumerate(file, 1):
            if not text_processing.is_unicode(line):
                place += f", line {number}"
                likely = "utf-16" if line.startswith(("\udcff\udcfe", "\udcfe\udcff")) else likely  # byte order marks
                break
    name = "UTF-8" if encoding == ENCODING else encoding
    return (
        f"{place} is not {name} text: save the file in UTF-8, or name its `encoding` (--encoding {likely}) where the command takes one. A "
        "file that is no text needs the ending of its format."
    )


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
        with reading(path, encoding), open_file(path, "r", encoding=encoding or ENCODING, newline="") as file:
            _, headers[separator] = next(_csv_lines(file, shown(path), separator, strict=False), (1, []))
    fitting = [separator for separator, header in headers.items() if needed and set(needed) <= set(header)]
    if any(headers[separator] != headers[fitting[0]] for separator in fitting):
        raise ValueError(f"{shown(path)} fits several separators, {sorted(fitting)}: name yours (--separator).")
    return fitting[0] if fitting else max(headers, key=lambda separator: len(headers[separator]))


def _named_columns(header: Sequence[str], path: str) -> list[str]:
    """The columns of a header, without nameless ones at its end, which spreadsheets leave; ValueError for a repeated name."""
    names = list(header)
    while names and not names[-1].strip():
        names.pop()
    for name, count in Counter(names).items():
        if count > 1:
            raise ValueError(
                f"{path}: the header names the column {name!r} {count} times: rename one."
                if name
                else f"{path}: the header has {count} columns without a name: name them."
            )
    return names


class MalformedRow(dict):
    """A row with more or fewer values than the header, or a line that is not a JSON object: what could be read, and what is wrong."""

    def __init__(self, values: Mapping[str, Any], reason: str):
        super().__init__(values)
        self.reason = reason

    def lacks(self, columns: Sequence[str]) -> bool:
        """Whether the header lacks some of these columns; False for a line without values."""
        return bool(self) and not set(columns) <= set(self)


def read_rows(
    path: str | Path, needed: Sequence[str] = (), separator: str | None = None, encoding: str | None = None
) -> Iterator[tuple[int, Row]]:
    """
    Stream the rows of a CSV, TSV, JSONL or Parquet file, or of a URL that fsspec opens, as (line or row number from 1,
    {column: value}).

    CSV and TSV have a header, which tells the separator if columns are `needed`, see `find_separator`; their values are
    strings, never turned into missing values (the label "None" stays).
    """
    if needed:
        separator = find_separator(path, needed, separator, encoding)
    for number, row in all_rows(path, separator=separator, encoding=encoding):
        if isinstance(row, MalformedRow):
            raise ValueError(f"{shown(as_path(path))}, line {number}: {row.reason}")
        yield number, row


def all_rows(
    path: str | Path, half_characters: bool = False, separator: str | None = None, encoding: str | None = None
) -> Iterator[tuple[int, Row]]:
    """
    As `read_rows`, but a malformed row is a `MalformedRow`, not an error, unless the end of the row cannot be found (quotes,
    encoding). `half_characters` lets lone surrogates through. `separator`: for CSV; None: the usual one for the ending.
    `encoding`: for text files; None: UTF-8.
    """
    path = as_path(path)
    check_file(path)
    with reading(path, encoding):
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
            lines = _csv_lines(file, path, separator)
            _, header = next(lines, (1, []))
            columns = _named_columns(header, path)
            for number, values in lines:
                yield number, _csv_row(columns, len(header), values)
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
        columns = _named_columns(_as_texts(next(rows, ())), path)
        for number, cells in enumerate(rows, 2):
            row = dict(zip(columns, [*cells, *[None] * len(columns)], strict=False))
            nameless = [place for place, cell in enumerate(_as_texts(cells)) if place >= len(columns) and cell.strip()]
            if nameless:
                from openpyxl.utils import get_column_letter

                cell = f"{get_column_letter(nameless[0] + 1)}{number}"
                row = MalformedRow(row, f"row 1 names no column for the cell {cell}: name it, or empty the cell.")
            if any(cell is not None for cell in cells):
                yield number, row
    else:
        import pyarrow.parquet

        number = 0
        with open_file(source) as opened, pyarrow.parquet.ParquetFile(opened) as file:
            _named_columns(file.schema_arrow.names, path)
            for batch in file.iter_batches(batch_size=4096):
                for row in batch.to_pylist():
                    number += 1
                    yield number, row


def _csv_lines(file: IO, path: str, separator: str, strict: bool = True) -> Iterator[tuple[int, list[str]]]:
    """The rows of a CSV as (number of the last line, values); ValueError for one whose end cannot be found."""
    reader = csv.reader(file, delimiter=separator, strict=strict)
    while True:
        with _FIELD_LIMIT:  # of the whole process; other programs count on theirs
            usual = csv.field_size_limit(MOST_CHARACTERS)
            try:
                values = next(reader, None)
            except csv.Error as error:
                message = f"{path}, line {reader.line_num}: malformed CSV (a quote that is not closed?): {error}"
                raise ValueError(message) from error
            finally:
                csv.field_size_limit(usual)
        if values is None:
            return
        if values:  # no empty line, also before the header
            yield reader.line_num, values


def _as_texts(cells: Sequence[Any]) -> list[str]:
    return ["" if cell is None else str(cell) for cell in cells]


def _sheet(source: str | Path) -> Iterator[tuple[Any, ...]]:
    """The rows of the first visible sheet of a workbook, as Excel shows their values, each as long as its last cell."""
    for package in ("openpyxl", "defusedxml"):  # openpyxl takes the second, if it is there, against XML that attacks
        require(package, "an Excel file", "excel")
    import zipfile

    import openpyxl

    number = 0
    with open_file(source) as file:
        try:
            with zipfile.ZipFile(file) as archive:
                check_unpacked(sum(part.file_size for part in archive.infolist()), file.seek(0, 2))
            book = openpyxl.load_workbook(file, read_only=True, data_only=True)
            sheets = [sheet for sheet in book.worksheets if sheet.sheet_state == "visible"]
            if not sheets:
                raise ValueError("it has no visible sheet")
            # what a workbook says of the size of a sheet may be wrong
            if others := [sheet.title for sheet in sheets[1:] if (sheet.max_row or 2) > 1]:
                _warn_once(f"{shown(source)}: only the sheet {sheets[0].title!r} is read, not {others}.")
            sheets[0].reset_dimensions()
            for number, cells in enumerate(sheets[0].iter_rows(values_only=True), 1):
                if number > MOST_ROWS:
                    raise ValueError(f"a sheet has at most {MOST_ROWS:,} rows")
                yield cells
        except Exception as error:  # openpyxl and its parsers raise errors of many kinds
            if isinstance(error, OSError) and error.errno is not None:  # of the file system
                raise
            kind = "" if type(error) is ValueError else f"{type(error).__name__}: "
            reason = " ".join(f"{kind}{error.__cause__ or error}".split())
            raise ValueError(
                f"{shown(source)}, row {number + 1} cannot be read ({reason}): save it again in Excel, as .xlsx without a password."
            ) from error


@cache  # a file is read several times
def _warn_once(message: str) -> None:
    logger.warning(message)


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
    if len(row) > 1 and columns == [values[0].removeprefix("\ufeff"), *values[1 : len(columns)]]:
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
