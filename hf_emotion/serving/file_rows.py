# SPDX-License-Identifier: Apache-2.0
"""Rows of files to predict: finds their texts, tells the bad rows, and writes rows with their predictions."""

import csv
import itertools
import json
import math
import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, time, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, TypedDict

import pyarrow
import pyarrow.parquet
from pyarrow import compute

from ..data import own_files
from ..data.files import FORMATS, MOST_ROWS, MalformedRow, all_rows, columns_of, default_separator
from ..io.extras import require
from ..io.files import as_text, finite_or_none, replacing
from ..io.names import listed
from ..io.paths import ending, filesystem, is_remote, name_of, open_file, shown
from ..runtime.plain import text_processing
from ..runtime.unread import LARGE_SHARE, Counts
from ..tasks.predicted_columns import CSV_SEPARATOR, LABELS, PLACES, ROW, SCORES, UNLIKE, UNREAD, Added, csv_cell


ROWS_PER_CHUNK = 20_000  # rows read or written at once
MOST_COLUMNS, MOST_CHARACTERS = 2**14, 32_767  # of a sheet of Excel, of a cell
MOST_DIGITS, FIRST_YEAR = 15, 1900  # of its numbers, of its dates
NOT_IN_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
PREDICTED = (LABELS, SCORES, *UNREAD)
TURNS = "turns"
any_rows = partial(all_rows, half_characters=True)  # a row that cannot be predicted keeps its place


@dataclass
class Columns:
    """The columns with the texts; `nested`: each row holds a dialogue in `turns`; `separator` is for CSV, `encoding` for text files."""

    text: str
    dialogue: str | None = None
    speaker: str | None = None
    nested: bool = False
    separator: str | None = None
    encoding: str | None = None

    def rows(self, source: str | Path) -> Iterator[tuple[int, dict]]:
        """The rows of a file; one that cannot be predicted keeps its place."""
        return any_rows(source, separator=self.separator, encoding=self.encoding)

    @property
    def needed(self) -> list[str]:
        return [TURNS] if self.nested else [name for name in (self.text, self.dialogue) if name is not None]

    def dialogue_of(self, row: dict) -> Any:
        """The same for two rows only if they belong to one dialogue; None for a row that names none."""
        return object() if self.dialogue is None or self.nested else own_files.name_of(row.get(self.dialogue)) or None

    def problem(self, row: dict) -> str | None:
        """Why there is nothing to predict in a row; None if there is."""
        if isinstance(row, MalformedRow):
            return row.reason
        if not self.nested:
            if not text_processing.is_readable(row.get(self.text)):
                return f"the text is empty or no string: {row.get(self.text)!r}"
            if self.dialogue_of(row) is None:
                return f"the column {self.dialogue!r} must name the row's dialogue: {row.get(self.dialogue or '')!r}"
            return None
        turns = row.get(TURNS)
        turns = turns if isinstance(turns, list) else []
        if turns and all(isinstance(one, dict) and text_processing.is_readable(one.get("utterance")) for one in turns):
            return None
        return "`turns` must be a list of {'speaker', 'utterance'}, at least one, without empty utterances"

    def usable(self, row: dict) -> bool:
        return self.problem(row) is None


def split_rows(rows: Iterator[dict], columns: Columns, rows_per_part: int) -> Iterator[list[dict]]:
    """Split rows into parts of at least `rows_per_part` rows; a dialogue stays in one part."""
    part: list[dict] = []
    last = None
    for row in rows:
        dialogue = columns.dialogue_of(row)
        if dialogue is not None and dialogue != last:
            last = dialogue
            if len(part) >= rows_per_part:
                yield part
                part = []
        part.append(row)
    if part:
        yield part


@dataclass
class Layout:
    """The layout of the output: the columns of the input, their types if it is Parquet, and the columns that are added."""

    columns: list[str] = field(default_factory=list)
    schema: pyarrow.Schema | None = None
    added: Added = Added()
    separator: str | None = None  # for CSV; None: the usual one for the ending
    escaped: bool = False  # in CSV, what a spreadsheet would take for a formula
    as_texts: bool = False  # columns of Parquet whose types are not known


def check_labels(predictor: Any, output: str | Path, wide: bool = False) -> None:
    """ValueError if labels hold what stands between labels in CSV."""
    config = getattr(getattr(predictor, "model", None), "config", None)
    names = (*predictor.labels, *(getattr(config, "aspects", None) or ()), *(getattr(config, "targets", None) or ()))
    if not wide and FORMATS[ending(output)] in ("csv", "xlsx") and any(CSV_SEPARATOR in name for name in names):
        raise ValueError(
            f"a label holds {CSV_SEPARATOR!r}, which separates labels in CSV: write .jsonl or .parquet, or wide columns."
        )


def same_ending(source: str | Path, output: str | Path) -> bool:
    """Whether both files have the same format, compressed or not."""
    return ending(source).removesuffix(".gz") == ending(output).removesuffix(".gz")


class Checked(TypedDict):
    """Numbers of rows and of skipped rows, and the line of the first skipped row."""

    rows: int
    skipped: int
    first_skipped: int | None


def check_rows(source: str | Path, output: str | Path, columns: Columns, on_bad_rows: str, layout: Layout) -> Checked:
    """Check all rows before the first prediction, so that a bad row in the middle does not end a long job, and fill in the layout."""
    to, of = FORMATS[ending(output)], FORMATS.get(ending(source))
    name = shown(source)
    rows = columns.rows(source)
    first = next(rows, None)  # raises an error if the file cannot be read
    if first is None:
        raise ValueError(f"{name} has no rows: nothing is predicted and no file is written.")
    rows = itertools.chain([first], rows)
    layout.columns = columns_of(source, columns.separator, columns.encoding)
    if same_ending(source, output):
        layout.separator = columns.separator
    if to == of == "parquet":
        with open_file(source) as file:
            layout.schema = pyarrow.parquet.read_schema(file)
    infer = to == "parquet" and layout.schema is None
    layout.as_texts &= infer
    known = set(layout.columns)
    total = skipped = 0
    first_skipped: int | None = None
    large: set[str] = set()  # columns with whole numbers that a float cannot hold
    last, finished = None, set()  # dialogues seen so far
    while chunk := list(itertools.islice(rows, ROWS_PER_CHUNK)):
        for line, row in chunk:
            where = f"{name}, line {line}"
            # In JSON each row has its own keys. That the first one has them shows that the columns are named rightly.
            may_lack = of == "jsonl" and total > 0 and on_bad_rows == "skip"
            check_columns(row, columns, where, source, may_lack, layout.added)
            if not columns.usable(row):
                if on_bad_rows == "error":
                    raise bad_row(row, columns, where)
                skipped += 1
                first_skipped = first_skipped or line
            dialogue = None if columns.dialogue is None or columns.nested else columns.dialogue_of(row)
            if dialogue is not None and dialogue != last:
                if hash(dialogue) in finished:
                    raise ValueError(
                        f"{where}: the dialogue {dialogue!r} is interrupted by another one: sort the rows by the column {columns.dialogue!r}."
                    )
                finished.add(hash(dialogue))
                last = dialogue
            new = [column for column in row if column not in known]
            differs = not isinstance(row, MalformedRow) and (new or len(row) != len(layout.columns))
            if to in ("csv", "xlsx") and layout.columns and differs:
                different = listed(set(row) ^ set(layout.columns))
                raise ValueError(f"{where}: the rows have different columns ({different}): write .jsonl.")
            layout.columns += new
            known.update(new)
            total += 1
            if to == "xlsx":
                check_sheet(row, total, len(known) + len(layout.added.written), where)
        if to == "parquet":
            try:
                if layout.as_texts:
                    layout.schema = pyarrow.schema([(column, pyarrow.string()) for column in layout.columns])
                elif infer:
                    _widen(layout, large, [row for _, row in chunk])
                elif total == len(chunk):  # the first chunk, on trial
                    table = _as_table([row for _, row in chunk], layout.schema)
                    pyarrow.parquet.write_table(table, pyarrow.BufferOutputStream())
            except (pyarrow.ArrowException, NotImplementedError, OverflowError, UnicodeEncodeError) as error:
                raise ValueError(f"{name}: Parquet cannot hold it ({error}): write .jsonl.") from error
    return {"rows": total, "skipped": skipped, "first_skipped": first_skipped}


def check_sheet(row: dict, number: int, columns: int, where: str) -> None:
    """ValueError for a row, with its number from 1, that no sheet of Excel holds."""
    most = None
    if number >= MOST_ROWS:
        most = f"{MOST_ROWS - 1:,} rows below the header"
    elif columns > MOST_COLUMNS:
        most = f"{MOST_COLUMNS:,} columns"
    elif any(len(str(as_json(value))) > MOST_CHARACTERS for value in row.values()):
        most = f"{MOST_CHARACTERS:,} characters in a cell"
    if most is not None:
        raise ValueError(f"{where}: a sheet of Excel holds at most {most}: write .csv or .parquet.")


def _widen(layout: Layout, large: set[str], rows: list[dict]) -> None:
    """Widen the schema to hold these rows, too; ArrowInvalid if a column would lose digits."""
    values = {column: [row.get(column) for row in rows] for column in layout.columns}
    inferred = pyarrow.table(values).schema
    layout.schema = pyarrow.unify_schemas([layout.schema or inferred, inferred], promote_options="permissive")
    pyarrow.parquet.write_table(layout.schema.empty_table(), pyarrow.BufferOutputStream())
    large |= {name for name, cells in values.items() if any(isinstance(v, int) and abs(v) > 2**53 for v in cells)}
    for column in large:  # a later chunk may have made it a column of floats
        if pyarrow.types.is_floating(layout.schema.field(column).type):
            raise pyarrow.ArrowInvalid(f"{column!r} holds large whole numbers and fractions")


def check_columns(
    row: dict, columns: Columns, where: str, source: str | Path, may_lack: bool = False, added: Added | None = None
) -> None:
    """ValueError if a row lacks the text (unless it `may_lack` it), or has a column with the name of a prediction."""
    if isinstance(row, MalformedRow) and not row.lacks(columns.needed):
        if columns.dialogue is not None and not columns.nested:
            raise ValueError(f"{where}: {row.reason} (nothing tells which dialogue the row belongs to)")
        return
    for name in columns.needed:
        if name not in row and not may_lack:
            option = "dialogue" if name == columns.dialogue else "text"
            remedy = f" Name yours with --{option}-column, and the separator of a CSV with --separator."
            raise ValueError(
                f"{where}: no column {name!r}; the columns are {listed(row)}.{'' if columns.nested else remedy}"
            )
    if taken := [name for name in (added or Added()).written if name in row]:
        raise ValueError(
            f"{where}: the file has a column {taken[0]!r} already: rename it, or put a `prefix` (--prefix) before new ones."
        )


def bad_row(row: dict, columns: Columns, where: str) -> ValueError:
    """The error for a row that has nothing to predict."""
    remedy = "(on_bad_rows='skip', --on-bad-rows skip, leaves such rows without a prediction)"
    return ValueError(f"{where}: {columns.problem(row)} {remedy}")


def _each_find(row: dict[str, Any], prefix: str) -> Iterator[dict[str, Any]]:
    """A row for each find of a row with `PLACES`; the row itself if there is none."""
    lists = [prefix + name for name in (LABELS, SCORES, *PLACES)]
    finds = list(zip(*(row[name] or () for name in lists), strict=True))
    for values in finds:
        yield row | {name: [value] for name, value in zip(lists, values, strict=True)}
    if not finds:
        yield row


def finds(row: dict[str, Any]) -> int:
    """How many rows `_each_find` writes for the predictions of a row."""
    return len(row[PLACES[0]] or (None,))


def unread_counts(table: pyarrow.Table, unlike: bool) -> Counts:
    """The counts of a table's rows (turns), with `unlike` from that column, too; those without a prediction count as read."""
    truncated, unknown, language = (
        compute.list_flatten(table[name]) if pyarrow.types.is_list(table[name].type) else table[name]
        for name in ("truncated", "unknown", "predicted_language")
    )
    return Counts(
        compute.sum(truncated).as_py() or 0,
        compute.sum(compute.greater(unknown, LARGE_SHARE)).as_py() or 0,
        compute.count(language).as_py(),
        (compute.sum(table[UNLIKE]).as_py() or 0) if unlike else 0,
        len(language),
    )


def write_rows(rows: Iterator[dict], target: Path, layout: Layout) -> None:
    """Write rows with their predictions in the format that the ending of `target` names; with `places` a row for each find."""
    if layout.added.places:
        prefix = layout.added.prefix
        numbered = (row | {prefix + ROW: number} for number, row in enumerate(rows, 1))
        rows = itertools.chain.from_iterable(_each_find(row, prefix) for row in numbered)
    kind = FORMATS[ending(target)]
    if kind == "jsonl":
        with open_file(target, "w", encoding="utf-8", newline="\n") as file:
            for row in rows:
                line = json.dumps(finite_or_none(row), ensure_ascii=False, default=str, allow_nan=False)
                file.write((line if text_processing.is_unicode(line) else json.dumps(json.loads(line))) + "\n")
    elif kind == "csv":
        # "\r\n" as in RFC 4180: with "\n" the csv module would leave a lone carriage return unquoted.
        with open_file(target, "w", encoding="utf-8", errors="backslashreplace", newline="") as file:
            delimiter = layout.separator or default_separator(target)
            names = [*layout.columns, *layout.added.written]

            def cell(value: Any) -> Any:
                return as_text(value) if layout.escaped and isinstance(value, str) else value

            writer = csv.writer(file, delimiter=delimiter)
            writer.writerow(map(cell, names))
            for row in rows:
                cells = row | {name: csv_cell(row[name]) for name in layout.added.names}
                writer.writerow([cell(as_json(cells.get(name, ""))) for name in names])
    elif kind == "xlsx":
        in_cells = (
            row | {name: csv_cell(row[name]) for name in layout.added.names if isinstance(row[name], list)}
            for row in rows
        )
        write_sheet(in_cells, target, [*layout.columns, *layout.added.written])
    else:
        schema = layout.schema
        assert schema is not None  # from `check_rows`
        if layout.as_texts:
            rows = (row | {name: _text(row.get(name)) for name in layout.columns} for row in rows)
        if layout.added.places:
            schema = schema.append(pyarrow.field(layout.added.prefix + ROW, pyarrow.int64()))
        for name, prediction in zip(layout.added.names, layout.added.schema, strict=True):
            schema = schema.append(prediction.with_name(name))
        with pyarrow.parquet.ParquetWriter(target, schema) as writer:
            while chunk := list(itertools.islice(rows, ROWS_PER_CHUNK)):
                writer.write_table(_as_table(chunk, schema))


def _as_table(rows: list[dict], schema: pyarrow.Schema) -> pyarrow.Table:
    return pyarrow.table({name: [row.get(name) for row in rows] for name in schema.names}, schema=schema)


def as_json(value: Any) -> Any:
    """A list or an object as JSON, which other programs than Python read, too; anything else as it is."""
    if not isinstance(value, list | dict):
        return value
    return json.dumps(finite_or_none(value), ensure_ascii=False, default=str)


def _text(value: Any) -> str | None:
    """A value as UTF-8 text; None if it is missing."""
    if value is None or value != value:  # NaN
        return None
    return str(as_json(value)).encode("utf-8", "backslashreplace").decode()


def _for_sheet(value: Any) -> Any:
    """What a cell of Excel holds without loss, or the value as text."""
    value = as_json(value)
    if isinstance(value, int):
        holds = abs(value) < 10**MOST_DIGITS
    elif isinstance(value, Decimal):
        holds = Decimal(f"{value:.{MOST_DIGITS}g}") == value
    elif isinstance(value, date | time):
        holds = getattr(value, "tzinfo", None) is None and getattr(value, "year", FIRST_YEAR) >= FIRST_YEAR
    elif isinstance(value, float):
        holds = not math.isinf(value)
    else:
        holds = value is None or isinstance(value, str | timedelta)
    if holds:
        return value
    return value.isoformat() if isinstance(value, date | time) else str(value)


def write_sheet(rows: Iterable[dict], target: Path, names: Sequence[str]) -> None:
    """Write these columns of rows into a workbook with one sheet. Texts that begin with "=" stay texts."""
    require("openpyxl", "an Excel file", "excel")
    from openpyxl import Workbook
    from openpyxl.cell import WriteOnlyCell

    book = Workbook(write_only=True)
    sheet = book.create_sheet()

    def cell(value: Any) -> Any:
        value = _for_sheet(value)
        if isinstance(value, str):
            value = WriteOnlyCell(sheet, NOT_IN_XML.sub("\ufffd", value))
            value.data_type = "s"
        return value

    sheet.append([cell(name) for name in names])
    for number, row in enumerate(rows, 1):
        check_sheet(row, number, len(names), shown(target))
        sheet.append([cell(row.get(name)) for name in names])
    book.save(target)


@contextmanager
def writing(path: str | Path) -> Iterator[Path]:
    """Yield a local path, which takes the place of `path`, or is uploaded, when the block ends without an error."""
    if not is_remote(path):
        with replacing(Path(path)) as temporary:
            yield temporary
        return
    fs, inner = filesystem(path)
    with tempfile.TemporaryDirectory(prefix="hf-emotion-") as folder:
        temporary = Path(folder) / name_of(path)
        yield temporary
        fs.makedirs(inner.rpartition("/")[0], exist_ok=True)
        fs.put_file(str(temporary), inner)
