# SPDX-License-Identifier: Apache-2.0
"""Draws rows of a table for people to label, and writes them as a table to fill in, or as tasks for Label Studio."""

import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple
from xml.etree import ElementTree

from ..data.files import FORMATS, columns_of, default_separator, find_separator, read_rows
from ..data.own_files import name_of
from ..data.rows import Row
from ..io.files import as_text, replacing, write_csv, write_text
from ..io.paths import as_path, ending, shown
from ..tasks import predicted_columns as predicted
from ..tasks.labelled_columns import CANNOT_TELL, CHOICES, EACH, LABEL, NUMBER, WEIGHT, LabelColumns, check_labels
from .file_rows import as_json, check_sheet, write_sheet


GROUPLESS = "(none)"  # the group of rows without one
TEXTS = ("text", "utterance")
Drawn = list[tuple[float, int, Row]]  # random number, number of the row, row


class Sample(NamedTuple):
    """How many rows were drawn from each group, how many it has, the labels that are known, and rows left out: without a prediction."""

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
    escaped: bool = False,
) -> Sample:
    """
    Draw `count` rows at random, equally from each group, and write them in random order with the columns of `labelled_columns`. The table is
    read once, and few of its rows are in memory. The labels are those of the predictions; given ones get a column each, but not in JSON.

    Raises:
        ValueError: no such column, a column with the name of a new one, malformed rows, more groups than rows to draw.
    """
    where = shown(as_path(source))
    check_labels(labels or ())
    needed = [*by, *([] if text_column is None else [text_column])]
    separator = find_separator(source, needed or [prefix + predicted.TRUNCATED], separator, encoding)
    rows = (row for _, row in read_rows(source, (), separator, encoding))
    first = next(rows, None)
    if first is None:
        raise ValueError(f"{where} has no rows: nothing is drawn.")
    columns = columns_of(source, separator, encoding) or list(first)
    for name in needed:
        predicted.check_column(columns, name)
    if prefix + predicted.TERMS in columns:
        raise ValueError(f"{where} has a row for each term that was found: draw from the table of texts.")
    hidden = predicted.of_predictions(columns, prefix)
    own = [name for name in columns if show_predictions or name not in hidden]
    each = [EACH + name for name in labels or ()] if ending(output) != ".json" else []
    new = [NUMBER, WEIGHT, *(each or [LABEL, CHOICES])]
    if taken := [name for name in new if name in own]:
        raise ValueError(f"{where} has a column {taken[0]!r} already: rename it.")
    left_out = 0

    def usable() -> Iterator[tuple[int, Row]]:
        nonlocal left_out
        for number, row in enumerate(itertools.chain([first], rows)):
            if hidden and row.get(prefix + predicted.TRUNCATED, False) in ("", None):
                left_out += 1
            else:
                yield number, row

    groups, sizes = draw(
        usable(), count, lambda row: " / ".join(name_of(row.get(name)) or GROUPLESS for name in by), seed
    )
    weights = {number: sizes[group] / len(drawn) for group, drawn in groups.items() for _, number, _ in drawn}
    shuffled = sorted(itertools.chain.from_iterable(groups.values()))
    known = list(labels or _predicted_labels([row for _, _, row in shuffled], columns, prefix))
    added = {CHOICES: predicted.CSV_SEPARATOR.join(known)}
    written = [row | added | {NUMBER: number, WEIGHT: weights[number]} for _, number, row in shuffled]
    header = [*own, *(name for name in new if name != CHOICES or known)]
    if ending(output) == ".json":
        usual = next((name for name in TEXTS if name in columns), None)
        _write_tasks(output, header, written, text_column or usual, known)
    else:
        same = FORMATS.get(ending(source)) == "csv" and ending(output) == ".csv"
        write_table(output, header, written, separator if same else None, escaped)
    return Sample({group: len(drawn) for group, drawn in groups.items()}, sizes, known, left_out)


def _predicted_labels(rows: list[Row], columns: Sequence[str], prefix: str) -> list[str]:
    """The labels that predictions may have, where only the chosen ones are known those of these rows; none in a table without predictions."""
    if predicted.form_of(columns, prefix) in ("", predicted.VALUE):
        return []
    import pandas

    return list(predicted.read(pandas.DataFrame(rows, columns=list(columns), dtype=object), prefix)[0])


def draw(
    rows: Iterable[tuple[int, Row]], count: int, group_of: Callable[[Row], str], seed: int
) -> tuple[dict[str, Drawn], dict[str, int]]:
    """
    The rows drawn from each group, and its size: each row gets a random number, and those of a group with the smallest ones stay. ValueError for
    more groups than rows to draw.
    """
    random = Random(seed)
    kept: dict[str, Drawn] = {}
    sizes: dict[str, int] = {}
    held = 0

    def cut(more: int) -> None:
        for group, share in _shares(sizes, count).items():
            kept[group] = sorted(kept[group])[: share + more]

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
            cut(1)  # a share may grow by one row if another group outgrows its own
            held = sum(map(len, kept.values()))
    cut(0)
    return kept, sizes


def _shares(sizes: dict[str, int], count: int) -> dict[str, int]:
    """How many rows to draw from each group: equally many, all of one that has fewer."""
    left, shares = count, {}
    for place, (group, size) in enumerate(sorted(sizes.items(), key=lambda item: item[1])):
        shares[group] = min(size, left // (len(sizes) - place))
        left -= shares[group]
    return shares


def write_table(
    path: Path, columns: Sequence[str], rows: Sequence[Row], separator: str | None, escaped: bool = False
) -> None:
    """Write rows as CSV, TSV or Excel, never half of them."""

    def cell(value: Any) -> Any:
        value = as_json(value)
        return as_text(value) if escaped and isinstance(value, str) else value

    for number, row in enumerate(rows if ending(path) == ".xlsx" else (), 1):
        check_sheet(row, number, len(columns), path.name)
    with replacing(path) as temporary:
        if ending(path) == ".xlsx":
            write_sheet(rows, temporary, columns)
        else:
            cells = ([cell(row.get(name, "")) for name in columns] for row in rows)
            write_csv(temporary, [cell(name) for name in columns], cells, separator or default_separator(path))


def _write_tasks(
    path: Path, columns: Sequence[str], rows: list[Row], text_column: str | None, labels: Sequence[str]
) -> None:
    """Write rows as tasks to import into Label Studio, and beside them its labelling configuration, NAME.xml."""
    if text_column is None or not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", text_column) or not labels:
        raise ValueError(
            "Label Studio needs the labels (--labels joy,anger, or predictions) and a column of texts (--text-column) with only letters, "
            f"digits and _ in its name; got {text_column!r} and {list(labels)}."
        )
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
