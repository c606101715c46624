# SPDX-License-Identifier: Apache-2.0
"""Tables that people fill in: reads them, writes each answer at once, and merges those of several people with their agreement."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ..data.files import ENCODING, columns_of, find_separator, format_of, read_rows
from ..data.rows import Row
from ..io.files import read_object, replacing
from ..io.paths import ending
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
        places: the line of each row, in Excel its row in the sheet.
        separator: of a CSV.
        seen: time and size of the file when it was last read or written.
    """

    path: Path
    columns: list[str]
    rows: list[Row]
    places: Sequence[int]
    form: LabelColumns
    answers: list[Answer]
    separator: str | None = None
    seen: tuple[int, int] | None = None

    @classmethod
    def read(
        cls, path: Path, labels: Sequence[str] | None = None, encoding: str | None = None, needed: Sequence[str] = ()
    ) -> "Table":
        """A table of `sample`; ValueError for cells that hold no answer. `labels`: to choose from; default: those that the table names."""
        path = path.resolve()  # what a link leads to is written, not the link
        if format_of(path) not in ("csv", "xlsx") or ending(path).endswith(".gz"):
            raise ValueError(f"{path.name}: a table to fill in is CSV, TSV or Excel.")
        if path.read_bytes()[: len(BOM)] == BOM:
            encoding = ENCODING  # as `save` writes it, whatever it was before
        seen = _state(path)
        separator = find_separator(path, needed or [NUMBER], None, encoding)
        columns = columns_of(path, separator, encoding)
        for name in needed:
            check_column(columns, name)
        numbered = dict(read_rows(path, (), separator, encoding))
        if not numbered:
            raise ValueError(f"{path.name} has no rows.")
        return cls.of(path, columns, list(numbered.values()), list(numbered), labels, separator=separator, seen=seen)

    @classmethod
    def of(
        cls,
        path: Path,
        columns: list[str],
        rows: list[Row],
        places: Sequence[int],
        labels: Sequence[str] | None,
        **more: Any,
    ) -> "Table":
        """The table of these rows, with the answers that they hold."""
        choices = next((str(row[CHOICES]).split(CSV_SEPARATOR) for row in rows if row.get(CHOICES)), [])
        form = LabelColumns.of(columns, labels or choices)
        named = ((f"{path.name}, line {place}", row) for row, place in zip(rows, places, strict=True))
        return cls(path, columns, rows, places, form, form.read_all(named), **more)

    def save(self, number: int, answer: Answer) -> None:
        """Write the answer of a row into the file; OSError or ValueError where that fails: the table is then as it was."""
        if _state(self.path) != self.seen:
            raise ValueError(
                f"another program has changed {self.path.name}: start this command again, which reads it."
            )
        cells = self.form.cells(answer)
        rows = [*self.rows[:number], self.rows[number] | cells, *self.rows[number + 1 :]]
        if ending(self.path) == ".xlsx":
            self._save_cells(self.places[number], cells)
        else:
            write_table(self.path, self.columns, rows, self.separator)
        self.rows, self.answers[number], self.seen = rows, answer, _state(self.path)

    def _save_cells(self, place: int, cells: dict[str, str]) -> None:
        """Change cells of the workbook: its other sheets, and the look of the cells, stay."""
        import openpyxl

        book = openpyxl.load_workbook(self.path)
        sheet = next(sheet for sheet in book.worksheets if sheet.sheet_state == "visible")
        for name, value in cells.items():
            cell = sheet.cell(place, self.columns.index(name) + 1)
            cell.value = value or None
            cell.data_type = "s" if value else "n"  # a text, even if it begins with "="
        with replacing(self.path) as temporary:
            book.save(temporary)

    @property
    def done(self) -> int:
        """How many rows have an answer."""
        return sum(answer is not None for answer in self.answers)


def _state(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_mtime_ns, status.st_size


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
    kind = getattr(config, "problem_type", None)
    if not names or text_processing.OUTSIDE in names or kind == "regression":
        raise ValueError(f"{model} gives no labels to whole texts: name them, --labels joy,anger.")
    if aspects := getattr(config, "aspects", None):
        return [f"{aspect}/{name}" for aspect in aspects for name in names if name != NONE], True
    return names, kind == "multi_label_classification"


def merge(
    paths: Sequence[Path], output: Path, labels: Sequence[str] | None, encoding: str | None = None
) -> dict[str, Any]:
    """
    Write one table of several people's tables, or exports of Label Studio: where all who could tell agree, their answer, else none. Each
    person's answers are in a column.

    Returns:
        `rows`, `labelled` (rows with an answer), `differing` (without one, for people differ), `compared` (two or more could tell), and what
        `metrics.votes.agreement` says of those.

    Raises:
        ValueError: tables of other texts, or with other labels.
    """
    tables: dict[str, Table] = {}
    for path in paths:
        read = (
            _of_label_studio(path, labels)
            if ending(path) == ".json"
            else {path.stem: Table.read(path, labels, encoding)}
        )
        for name, table in read.items():
            while name in tables:
                name += "'"
            tables[name] = table
    first = next(iter(tables.values()))
    form, rows = first.form, dict[int, Row]()
    answers: dict[int, dict[str, Answer]] = {}
    for person, table in tables.items():
        if table.form != form:
            raise ValueError(f"{first.path.name} and {table.path.name} differ in their labels or columns of labels.")
        for row, answer in zip(table.rows, table.answers, strict=True):
            number = _number(row)
            other = rows.setdefault(number, row)
            new = (NUMBER, WEIGHT, CHOICES, *form.names)
            text = max(
                (name for name in row if name not in new and not name.startswith(OF_ONE)),
                key=lambda name: len(str(row[name])),
                default=NUMBER,
            )
            if str(row[text]).split() != str(other.get(text)).split():
                raise ValueError(
                    f"row {number} is another text in {table.path.name} than in {first.path.name}: they are not of one sample."
                )
            answers.setdefault(number, {})[person] = answer
    written, pairs, labelled, differing = [], [], 0, 0
    for number, given in answers.items():
        told = [answer for answer in given.values() if isinstance(answer, list)]
        differs = any(set(answer) != set(told[0]) for answer in told)
        unsure = CANNOT_TELL if CANNOT_TELL in given.values() else None
        agreed = None if differs else told[0] if told else unsure
        labelled, differing = labelled + (agreed is not None), differing + differs
        pairs += [told] * (len(told) > 1)
        each = {OF_ONE + person: LabelColumns([]).cells(answer)[LABEL] for person, answer in given.items()}
        written.append(rows[number] | form.cells(agreed) | each)
    columns = [*(name for name in first.columns if not name.startswith(OF_ONE)), *(OF_ONE + name for name in tables)]
    write_table(output, columns, written, first.separator if ending(output) == ending(first.path) else None)
    counts = {"rows": len(rows), "labelled": labelled, "differing": differing, "compared": len(pairs)}
    return counts | _agreement(pairs)


def _number(row: Row) -> int:
    try:
        return int(float(row[NUMBER]))
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"the column {NUMBER!r} holds {row.get(NUMBER)!r}, not the number of a row: merge tables of `sample`."
        ) from error


def _agreement(pairs: list[list[list[str]]]) -> dict[str, Any]:
    """Of answers that hold one label each one alpha, else one for each label."""
    import numpy as np

    from ..metrics.votes import agreement  # scikit-learn comes with it, for which the page need not wait

    names = sorted({name for told in pairs for answer in told for name in answer})
    several = any(len(answer) != 1 for told in pairs for answer in told)
    votes = [[sum(name in answer for answer in told) / len(told) for name in names] for told in pairs]
    shape = len(pairs), len(names)
    return agreement(np.reshape(votes, shape), np.array([len(told) for told in pairs]), names, several)


def _of_label_studio(path: Path, labels: Sequence[str] | None) -> dict[str, Table]:
    """The tables of the annotators in an export; ValueError for another file."""
    by_person: dict[str, list[Row]] = {}
    try:
        tasks = json.loads(path.read_text(encoding="utf-8"))
        for number, task in enumerate(tasks):
            for one in [one for one in task["annotations"] if not one.get("was_cancelled")]:
                by = one.get("completed_by", "")
                person = str(by.get("email", by.get("id")) if isinstance(by, dict) else by)
                names = [
                    name for part in one["result"] if part["type"] == "choices" for name in part["value"]["choices"]
                ]
                rows = by_person.setdefault(person, [dict(other["data"]) for other in tasks])
                rows[number][LABEL] = CSV_SEPARATOR.join(names) or NONE
        columns = list(tasks[0]["data"])
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise ValueError(
            f"{path.name} is not an export of Label Studio with tasks (JSON, not JSON-MIN): {error!r}."
        ) from error
    if not by_person:
        raise ValueError(f"{path.name} holds no annotation.")
    places = range(1, len(tasks) + 1)
    return {
        f"{path.stem}-{person}": Table.of(path, columns, rows, places, labels) for person, rows in by_person.items()
    }
