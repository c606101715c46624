# SPDX-License-Identifier: Apache-2.0
"""Prints tables, figures and JSON for the commands."""

import json
import logging
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..io.names import visible


if TYPE_CHECKING:
    from ..run_report import RunReport
    from ..runtime.unread import Unread
    from ..tasks.base import Marked, Table


def say(text: Any) -> None:
    """As `print`, for text that holds names, paths or answers."""
    print(visible(str(text)))


class VisibleFormatter(logging.Formatter):
    """Writes out control characters in lines of the log."""

    def format(self, record: logging.LogRecord) -> str:
        return visible(super().format(record))


def print_table(header: list[str], rows: list[list[str]]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table()
    for number, name in enumerate(header):
        table.add_column(Text(visible(name)), overflow="fold", no_wrap=number == 0)
    for row in rows:
        table.add_row(*(Text(visible(str(cell))) for cell in row))  # Text: brackets in names are no markup
    console().print(table)


def in_terminal() -> bool:
    """Whether somebody reads what is printed; otherwise a program may."""
    return sys.stdout.isatty()


def tab_separated(cells: Sequence[str]) -> str:
    """A line of cells; tabs and line ends in them become blanks."""
    return "\t".join(re.sub(r"[\t\r\n]+", " ", cell) for cell in cells)


def show(parts: "Iterable[Table | str | Marked]") -> None:
    """Tables, lines and coloured texts, one after the other."""
    from ..tasks.base import Marked

    for part in parts:
        if isinstance(part, str):
            say(part)
        elif isinstance(part, Marked):
            _print_marked(part)
        else:
            print_table(part.header, part.rows)


def _print_marked(part: "Marked") -> None:
    if not in_terminal():  # rich would write blanks for tabs
        say(part.text)
        return
    from rich.text import Text

    line, last = Text(), 0
    for start, end, colour in part.marks:
        line.append(visible(part.text[last:start]))
        line.append(visible(part.text[start:end]), style=f"bold {colour}")
        last = end
    console().print(line.append(visible(part.text[last:])), soft_wrap=True)


def console():
    from rich.console import Console

    # A pipe or a file has no width of its own: do not fold there.
    return Console(width=None if in_terminal() else 200, highlight=False)


def print_json(value: Any) -> None:
    from ..io.files import finite_or_none

    print(_json(finite_or_none(value), indent=2))


def print_json_lines(rows: Sequence[Mapping[str, Any]], unread: "Unread") -> None:
    for row in with_unread(rows, unread):
        print(_json(row))


def _json(value: Any, indent: int | None = None) -> str:
    """JSON with the characters as they are where stdout has them all, but for control characters."""
    text = json.dumps(value, indent=indent, ensure_ascii="utf" not in (sys.stdout.encoding or "utf-8").lower())
    return re.sub(r"[\x7f-\x9f]", lambda match: f"\\u{ord(match[0]):04x}", text)


def with_unread(rows: Sequence[Mapping[str, Any]], unread: "Unread") -> Iterator[dict[str, Any]]:
    """Rows with the fields of `Unread`, what the model cannot read of each text."""
    for row, own in zip(rows, unread.each(), strict=True):
        yield {**row, **own}


def write_jsonl(path: Path, rows: list[dict[str, Any]]) -> None:
    from ..io.files import write_text

    write_text(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def print_report(report: "RunReport", all_figures: bool = False) -> None:
    """The figures of a run on its test part (or else validation part)."""
    from ..metrics.significance import mean_std
    from ..tasks import task_of_run

    split = report.measured_split
    kinds = report.decisions(split)
    published = report.published
    names = list(next(iter(kinds.values())))
    if not all_figures:
        names = task_of_run(report).main_figures(names, report.runs[0].selected_by, published)
    rows = []
    for name in names:
        row = [name, *(mean_std(values.get(name)) for values in kinds.values())]
        rows.append([*row, str(published.get(name, "-"))] if published else row)
    header = [f"{report.name}, {split}", *kinds]
    print_table([*header, "published"] if published else header, rows)


def figure_or_dash(value: float, form: str) -> str:
    return "-" if value != value else format(value, form)


def quiet(needs_transformers: bool = True) -> None:
    """Silence the libraries: our commands print what matters. Downloads keep their bar in a terminal."""
    if needs_transformers:
        from huggingface_hub.utils import disable_progress_bars
        from transformers.utils import logging as transformers_logging

        transformers_logging.set_verbosity_error()
        transformers_logging.disable_progress_bar()  # the bars of loading and saving weights
        if not sys.stderr.isatty():
            disable_progress_bars()
    if sys.modules.get("datasets"):
        import datasets

        datasets.disable_progress_bars()
    else:  # read when it is imported: not every command needs it
        os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")
