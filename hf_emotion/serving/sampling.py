# SPDX-License-Identifier: Apache-2.0
"""Draws rows of a table for people to label, and writes them as a table to fill in, or as tasks for Label Studio."""

import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any
from xml.etree import ElementTree

from ..data.files import FORMATS, MalformedRow, all_rows, columns_of, default_separator, find_separator
from ..data.own_files import name_of
from ..io.files import as_text, replacing, write_csv, write_text
from ..io.paths import as_path, ending, shown
from ..tasks import predicted_columns as predicted
from ..tasks.labelled_columns import CANNOT_TELL, CHOICES, EACH, LABEL, NUMBER, WEIGHT, LabelColumns, check_labels
from .file_rows import as_json, write_sheet


GROUPLESS = "(none)"  # the group of rows without one
OUTPUTS = (".csv", ".tsv", ".xlsx", ".json")
TEXTS = ("text", "utterance")


@dataclass
class Sample:
    """What was drawn: the rows drawn and all rows of each group, the labels that are known, and rows left out: they have no prediction."""

    drawn: dict[str, int]
    rows: dict[str, int]
    labels: Sequence[str]
    left_out: int


def sample(
    source: str,
    output: Path,
    count: int,
    by: Sequence[str] = (),
    labels: Sequence[str] | None = None,
    seed: int = 0,
    text_column: str | None = None,
    show_predictions: bool = False,
    prefix: str = "",
    encoding: str | None = None,
    separator: str | None = None,
    escape_formulas: bool = False,
) -> Sample:
    """
    Draw `count` rows at random, equally from each group, and write them in random order with the columns of `labelled_columns`. The table is
    read once, and few rows are in memory. The labels are those of the predictions; given ones get a column each.

    Raises:
        ValueError: no such column, a column with the name of a new one, malformed rows, more groups than rows to draw.
    """
    if ending(output) not in OUTPUTS:
        raise ValueError(
            f"the output must end in one of {', '.join(OUTPUTS)} (tasks for Label Studio), got {output.name!r}."
        )
    check_labels(labels or ())
    needed = [*by, *([] if text_column is None else [text_column])]
    between = find_separator(source, needed or [prefix + predicted.TRUNCATED], separator, encoding)
    rows = _valid(source, between, encoding)
    first = next(rows, None)
    if first is None:
        raise ValueError(f"{shown(as_path(source))} has no rows: nothing is drawn.")
    columns = columns_of(source, between, encoding) or list(first)
    for name in needed:
        predicted.check_column(columns, name)
    if prefix + predicted.TERMS in columns:
        raise ValueError("the table has a row for each term that was found: draw from the table of texts.")
    own = [name for name in columns if show_predictions or name not in predicted.of_predictions(columns, prefix)]
    new = [NUMBER, WEIGHT, *([EACH + name for name in labels] if labels else [LABEL, CHOICES])]
    if taken := [name for name in new if name in own]:
        raise ValueError(f"{shown(as_path(source))} has a column {taken[0]!r} already: rename it.")
    found = PredictedLabels(columns, prefix)
    left_out = 0

    def usable() -> Iterator[tuple[int, dict[str, Any]]]:
        nonlocal left_out
        for number, row in enumerate(itertools.chain([first], rows)):
            if found.in_row(row):
                yield number, row
            else:
                left_out += 1

    def group_of(row: dict[str, Any]) -> str:
        return " / ".join(name_of(row.get(name)) or GROUPLESS for name in by)

    sizes, groups = draw(usable(), count, group_of, seed)
    known = list(labels or found.labels)
    new = [name for name in new if name != CHOICES or known]
    weights = {group: sizes[group] / len(drawn) for group, drawn in groups.items()}
    shuffled = sorted((*one, group) for group, drawn in groups.items() for one in drawn)
    added = {CHOICES: predicted.CSV_SEPARATOR.join(known)}
    written = [row | added | {NUMBER: number, WEIGHT: weights[group]} for _, number, row, group in shuffled]
    if ending(output) == ".json":
        usual = next((name for name in TEXTS if name in columns), None)
        write_tasks(output, [*own, *new], written, text_column or usual, known)
    else:
        same = FORMATS.get(ending(source)) == FORMATS[ending(output)] == "csv" and ending(output) != ".tsv"
        write_table(output, [*own, *new], written, between if same else None, escape_formulas)
    return Sample({group: len(drawn) for group, drawn in groups.items()}, sizes, known, left_out)


def _valid(source: str, separator: str | None, encoding: str | None) -> Iterator[dict[str, Any]]:
    for line, row in all_rows(source, separator=separator, encoding=encoding):
        if isinstance(row, MalformedRow):
            raise ValueError(f"{shown(as_path(source))}, line {line}: {row.reason}")
        yield row


class PredictedLabels:
    """Collects the labels that the predictions of a table may have."""

    def __init__(self, columns: Sequence[str], prefix: str):
        self.prefix, self.form = prefix, predicted.form_of(columns, prefix)
        decisions = [name for name in columns if name.startswith(prefix + predicted.DECISION)]
        self.words: dict[str, set[Any]] = {name: set() for name in decisions}
        self.cells: set[Any] = set()
        self.scored: dict[str, Any] = {}

    def in_row(self, row: dict[str, Any]) -> bool:
        """Take in a row; whether it has a prediction, or need not have one."""
        if self.form and row.get(self.prefix + predicted.TRUNCATED, False) in ("", None):
            return False
        if self.form == predicted.LABELS:
            cell = row.get(self.prefix + predicted.LABELS)
            self.cells.update(cell if isinstance(cell, list) else (cell or "").split(predicted.CSV_SEPARATOR))
            if not self.scored and (scores := row.get(self.prefix + predicted.ALL_SCORES)):
                self.scored = json.loads(scores) if isinstance(scores, str) else scores
        for name, words in self.words.items():
            words.add(row.get(name))
        return True

    @property
    def labels(self) -> list[str]:
        """In the order of the columns; of an aspect with each of its sentiments, `price/negative`."""
        if self.form == predicted.LABELS:
            return list(self.scored) or sorted(self.cells - {"", predicted.text_processing.ABSTAINED})
        labels = []
        for column, cells in self.words.items():
            name = column.removeprefix(self.prefix + predicted.DECISION)
            words = {str(cell).lower(): cell for cell in cells if cell not in ("", None)}
            pairs = [f"{name}/{words[word]}" for word in sorted(words) if word != "none"]
            labels += [name] if words.keys() <= {*predicted.YES, *predicted.NO} else pairs
        return labels


def draw(
    rows: Iterable[tuple[int, dict[str, Any]]], count: int, group_of: Callable[[dict[str, Any]], str], seed: int
) -> tuple[dict[str, int], dict[str, list[tuple[float, int, dict[str, Any]]]]]:
    """
    The size of each group, and the rows drawn from it as (random number, number, row): each row gets a random number, and those with the
    smallest ones of a group stay.
    """
    random = Random(seed)
    sizes: dict[str, int] = {}
    kept: dict[str, list[tuple[float, int, dict[str, Any]]]] = {}
    held = 0

    def cut(more: int) -> int:
        for group, share in _shares(sizes, count).items():
            kept[group] = sorted(kept[group])[: share + more]
        return sum(map(len, kept.values()))

    for number, row in rows:
        group = group_of(row)
        sizes[group] = sizes.get(group, 0) + 1
        if len(sizes) > count:
            raise ValueError(
                f"there are more groups (--by) than the {count} rows to draw: draw more, or take larger groups."
            )
        kept.setdefault(group, []).append((random.random(), number, row))
        held += 1
        if held > 4 * count:
            held = cut(1)  # a share may grow by one row if another group outgrows its own
    cut(0)
    return sizes, kept


def _shares(sizes: dict[str, int], count: int) -> dict[str, int]:
    """How many rows to draw from each group: equally many, all of one that has fewer."""
    left, shares = count, {}
    for place, (group, size) in enumerate(sorted(sizes.items(), key=lambda item: item[1])):
        shares[group] = min(size, left // (len(sizes) - place))
        left -= shares[group]
    return shares


def write_table(
    path: Path, columns: Sequence[str], rows: Iterable[dict[str, Any]], separator: str | None, escaped: bool = False
) -> None:
    """Write rows as CSV, TSV or Excel, never half of them."""

    def cell(value: Any) -> Any:
        value = as_json(value)
        return as_text(value) if escaped and isinstance(value, str) else value

    with replacing(path) as temporary:
        if ending(path) == ".xlsx":
            write_sheet(rows, temporary, columns)
        else:
            cells = ([cell(row.get(name, "")) for name in columns] for row in rows)
            write_csv(temporary, [cell(name) for name in columns], cells, separator or default_separator(path))


def write_tasks(
    path: Path, columns: Sequence[str], rows: list[dict[str, Any]], text_column: str | None, labels: Sequence[str]
) -> None:
    """Write rows as tasks to import into Label Studio, and beside them its labelling configuration, NAME.xml."""
    if text_column is None or not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", text_column):
        raise ValueError(
            f"Label Studio needs the column of the texts (--text-column), and letters, digits and _ in its name; got {text_column!r}."
        )
    if not labels:
        raise ValueError("no labels are known: name them, --labels joy,anger.")
    view = ElementTree.Element("View")
    ElementTree.SubElement(view, "Text", name="text", value=f"${text_column}")
    given = {"name": LABEL, "toName": "text", "choice": "multiple", "required": "true", "showInline": "true"}
    choices = ElementTree.SubElement(view, "Choices", given)
    for name in dict.fromkeys([*labels, LabelColumns(labels).nothing, CANNOT_TELL]):
        ElementTree.SubElement(choices, "Choice", value=name)
    ElementTree.indent(view)
    tasks = [{"data": {name: row.get(name, "") for name in columns}} for row in rows]
    write_text(path.with_suffix(".xml"), ElementTree.tostring(view, encoding="unicode") + "\n")
    write_text(path, json.dumps(tasks, indent=1, ensure_ascii=False, default=str) + "\n")
