# SPDX-License-Identifier: Apache-2.0
"""Tables that people fill in: reads them, writes each answer at once, and merges those of several people with their agreement."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..data.files import ENCODING, MalformedRow, all_rows, columns_of, find_separator, format_of
from ..io.files import read_object, replacing
from ..io.paths import ending
from ..metrics.votes import agreement
from ..runtime.plain import text_processing
from ..runtime.ready import ReadyModel, find_ready
from ..tasks.labelled_columns import CANNOT_TELL, CHOICES, LABEL, NONE, NUMBER, WEIGHT, Answer, LabelColumns
from ..tasks.predicted_columns import CSV_SEPARATOR, check_column
from .sampling import write_table


OF_ONE = "answer:"  # before a name, in a merged table: the column with this person's answers
BOM = "\ufeff".encode()


@dataclass
class Table:
    """
    A table to fill in, with N rows.

    Attributes:
        answers: N answers.
        places: N numbers of lines, in Excel rows of the sheet.
        seen: time and size of the file when it was last read or written.
    """

    path: Path
    columns: list[str]
    rows: list[dict[str, Any]]
    form: LabelColumns
    answers: list[Answer]
    places: list[int] = field(default_factory=list)
    separator: str | None = None
    seen: tuple[int, int] = (0, 0)
    book: Any = None

    @classmethod
    def read(
        cls,
        path: Path,
        labels: Sequence[str] | None = None,
        encoding: str | None = None,
        separator: str | None = None,
        needed: Sequence[str] = (),
    ) -> "Table":
        """A table of `sample`; ValueError for cells that hold no answer. `labels`: to choose from; default: those that the table names."""
        path = path.resolve()  # what a link leads to is written, not the link
        if format_of(path) not in ("csv", "xlsx") or ending(path).endswith(".gz"):
            raise ValueError(f"{path.name}: a table to fill in is CSV, TSV or Excel.")
        if path.is_file() and path.read_bytes()[: len(BOM)] == BOM:
            encoding = ENCODING  # as `save` writes it, whatever it was before
        separator = find_separator(path, needed or [NUMBER], separator, encoding)
        columns = columns_of(path, separator, encoding)
        for name in needed:
            check_column(columns, name)
        seen = _state(path)
        places, rows = [], []
        for line, row in all_rows(path, separator=separator, encoding=encoding):
            if isinstance(row, MalformedRow):
                raise ValueError(f"{path.name}, line {line}: {row.reason}")
            places.append(line)
            rows.append(row)
        choices = next((str(row[CHOICES]).split(CSV_SEPARATOR) for row in rows if row.get(CHOICES)), [])
        form = LabelColumns.of(columns, labels or choices)
        answers = [*_answers(form, rows, [f"{path.name}, line {line}" for line in places])]
        return cls(path, columns, rows, form, answers, places, separator, seen)

    def save(self, number: int, answer: Answer) -> None:
        """Write the answer of a row into the file; OSError or ValueError where that fails: the table is then as it was."""
        if _state(self.path) != self.seen:
            raise ValueError(
                f"another program has changed {self.path.name}: start this command again, which reads it."
            )
        cells = self.form.cells(answer)
        rows = [*self.rows]
        rows[number] = rows[number] | cells
        if ending(self.path) == ".xlsx":  # other sheets and the look of the cells stay
            self._save_cells(number, cells)
        else:
            write_table(self.path, self.columns, rows, self.separator)
        self.rows, self.answers[number], self.seen = rows, answer, _state(self.path)

    def _save_cells(self, number: int, cells: dict[str, str]) -> None:
        import openpyxl

        self.book = self.book or openpyxl.load_workbook(self.path)
        sheet = next(sheet for sheet in self.book.worksheets if sheet.sheet_state == "visible")
        for name, value in cells.items():
            cell = sheet.cell(self.places[number], self.columns.index(name) + 1)
            cell.value = value or None
            if value:
                cell.data_type = "s"  # a text, even if it begins with "="
        with replacing(self.path) as temporary:
            self.book.save(temporary)

    @property
    def done(self) -> int:
        """How many rows have an answer."""
        return sum(answer is not None for answer in self.answers)


def _state(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_mtime_ns, status.st_size


def _answers(form: LabelColumns, rows: Sequence[dict[str, Any]], where: Sequence[str]) -> Iterator[Answer]:
    for row, place in zip(rows, where, strict=True):
        try:
            yield form.read(row)
        except ValueError as error:
            raise ValueError(f"{place}: {error}") from error


def labels_of_model(model: str) -> tuple[list[str], bool]:
    """The labels of a model, those of an aspect with each of its sentiments, and whether a text may have several; ValueError if it has none."""
    found = find_ready(model)
    folder = found.folder if isinstance(found, ReadyModel) else found or Path(model)
    if (folder / "config.json").is_file():
        config: Any = SimpleNamespace(**read_object(folder / "config.json", "name another model"))
    else:
        from ..runtime.loading import read_config

        config = read_config(model)
    by_number = getattr(config, "id2label", None) or {}
    names = [by_number[number] for number in sorted(by_number, key=int)]
    if not names or text_processing.OUTSIDE in names or getattr(config, "problem_type", None) == "regression":
        raise ValueError(f"{model} gives no labels to whole texts: name them, --labels joy,anger.")
    if aspects := getattr(config, "aspects", None):
        return [f"{aspect}/{name}" for aspect in aspects for name in names if name != NONE], True
    return names, getattr(config, "problem_type", None) == "multi_label_classification"


@dataclass
class Merged:
    """What several people's tables say: rows with an answer, rows that differ (they have none), and `metrics.votes.agreement` where two answered."""

    rows: int
    answered: int
    differing: int
    compared: int
    agreement: dict[str, Any]


def merge(
    paths: Sequence[Path], output: Path, labels: Sequence[str] | None, encoding: str | None, separator: str | None
) -> Merged:
    """
    Write one table of several people's tables, or exports of Label Studio: where all who could tell agree, their answer, else none. Each
    person's answers are in a column. ValueError for tables of different texts.
    """
    tables: dict[str, Table] = {}
    for path in paths:
        if ending(path) == ".json":
            read = _of_label_studio(path, labels)
        else:
            read = {path.stem: Table.read(path, labels, encoding, separator, [NUMBER])}
        for name, table in read.items():
            while name in tables:
                name += "'"
            tables[name] = table
    first, *others = tables.values()
    form = first.form
    for table in others:
        if table.form != form:
            raise ValueError(f"{first.path.name} and {table.path.name} differ in their labels or columns of labels.")
    by_row = {
        name: dict(zip((_number(row) for row in table.rows), table.answers, strict=True))
        for name, table in tables.items()
    }
    rows: dict[int, dict[str, Any]] = {}
    for table in tables.values():
        for row in table.rows:
            other = rows.setdefault(number := _number(row), row)
            given = [
                name for name in first.columns if name in {*row} - {NUMBER, WEIGHT, CHOICES, *form.names} and row[name]
            ]
            if not any(str(row[name]) == str(other.get(name)) for name in given):
                raise ValueError(
                    f"row {number} is another text in {table.path.name} than in {first.path.name}: they are no tables of one sample."
                )
    result = Merged(len(rows), 0, 0, 0, {})
    pairs: list[list[list[str]]] = []
    written = []
    for number, row in rows.items():
        answers = {name: own.get(number) for name, own in by_row.items()}
        told = [answer for answer in answers.values() if isinstance(answer, list)]
        agreed: Answer = told[0] if told else CANNOT_TELL if CANNOT_TELL in answers.values() else None
        if any(sorted(answer) != sorted(told[0]) for answer in told):
            agreed, result.differing = None, result.differing + 1
        if len(told) > 1:
            pairs.append(told)
        result.answered += agreed is not None
        shown = {OF_ONE + name: LabelColumns([]).cells(answer)[LABEL] for name, answer in answers.items()}
        written.append(row | form.cells(agreed) | shown)
    result.compared, result.agreement = len(pairs), _agreement(pairs, form.labels)
    own = [name for name in first.columns if not name.startswith(OF_ONE)]
    same = first.separator if ending(output) == ending(first.path) else None
    write_table(output, [*own, *(OF_ONE + name for name in tables)], written, same)
    return result


def _number(row: dict[str, Any]) -> int:
    try:
        return int(float(row[NUMBER]))
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"the column {NUMBER!r} holds {row.get(NUMBER)!r}, no number of a row: merge tables of `sample`."
        ) from error


def _agreement(pairs: list[list[list[str]]], labels: Sequence[str]) -> dict[str, Any]:
    """Of answers that hold one label each one alpha, else one for each label."""
    named = sorted({name for told in pairs for answer in told for name in answer})
    names = [*(name for name in labels if name in named), *(name for name in named if name not in labels)]
    several = any(len(answer) != 1 for told in pairs for answer in told)
    votes = np.array([[sum(name in answer for answer in told) / len(told) for name in names] for told in pairs])
    return agreement(votes.reshape(len(pairs), len(names)), np.array([len(told) for told in pairs]), names, several)


def _of_label_studio(path: Path, labels: Sequence[str] | None) -> dict[str, Table]:
    """The tables of the annotators in an export (JSON, not JSON-MIN); ValueError for another file."""
    try:
        tasks = json.loads(path.read_text(encoding="utf-8"))
        data = [{**task["data"]} for task in tasks]
        given = [
            {str(_person(one)): _chosen(one) for one in task["annotations"] if not one.get("was_cancelled")}
            for task in tasks
        ]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path.name} is no export of Label Studio (take JSON, not JSON-MIN): {error!r}.") from error
    if not data:
        raise ValueError(f"{path.name} holds no tasks.")
    choices = next((str(row[CHOICES]).split(CSV_SEPARATOR) for row in data if row.get(CHOICES)), [])
    columns = [name for name in data[0] if not name.startswith(OF_ONE)]
    form = LabelColumns.of(columns, labels or choices)
    people = dict.fromkeys(person for one in given for person in one)
    tables = {}
    for person in people or [""]:
        own = [one.get(person) for one in given]
        cells = [{LABEL: "" if words is None else CSV_SEPARATOR.join(words) or NONE} for words in own]
        where = [f"{path.name}, row {_number(row)}" for row in data]
        answers = [*_answers(LabelColumns(form.labels), cells, where)]
        tables[f"{path.stem}-{person}" if person else path.stem] = Table(path, columns, data, form, answers)
    return tables


def _person(annotation: dict[str, Any]) -> Any:
    by = annotation.get("completed_by", "")
    return by.get("email", by.get("id", "")) if isinstance(by, dict) else by


def _chosen(annotation: dict[str, Any]) -> list[str]:
    found = [part["value"]["choices"] for part in annotation["result"] if part["type"] == "choices"]
    return [name for choices in found for name in choices]
