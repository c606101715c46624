# SPDX-License-Identifier: Apache-2.0
"""
Makes the tables of the study from the records of its runs.

    hf-emotion study tables REPRODUCTION.md --records benchmarks/reproduction

writes the tables of a document anew, between its lines `<!-- table NAME -->` and `<!-- end -->`.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..io.files import write_text
from ..metrics.significance import mean_std, over_seeds
from ..tasks.cards import table as markdown_table
from .published import GOEMOTIONS_LABELS, TABLES, Figure, Table


def read_records(table: str, records: str | Path) -> list[dict[str, Any]]:
    """The records of a table, in the order of its recipes, and for each recipe by file name."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted((Path(records) / table).glob("*.json"))]
    return [record for name in TABLES[table].recipes for record in found if record["recipe"] == name]


def table_rows(table: str, records: str | Path) -> tuple[list[str], list[list[str]]]:
    """
    A table as text: its header and its rows. First the published rows, then a row for each recipe, encoder and settings on record:
    mean ± standard deviation over the seeds. A recipe without a record is "not run".
    """
    content = TABLES[table]
    columns = [_column_name(content, *column) for column in content.columns]
    header = ["row", "encoder", "train rows", "seeds", "minutes", *columns]
    rows = []
    for row, figures in content.published.items():
        cells = [_published(content, column, figures) for column in content.columns]
        rows.append([f"*published: {row}*", content.encoders.get(row, "-"), "", "", "", *cells])
    all_records = read_records(table, records)
    for name in content.recipes:
        groups = _groups(record for record in all_records if record["recipe"] == name)
        if not groups:
            rows.append([name, "", "", "", "", *["not run"] * len(content.columns)])
        for title, group in zip(_titles(groups), groups, strict=True):
            cells = [_figure(group, *column) for column in content.columns]
            seeds = "-" if group[0]["seed"] is None else str(len(group))
            timed = [record["minutes"] for record in group if record["minutes"] is not None]
            minutes = f"{sum(timed) / len(timed):.1f}" if timed else "-"
            train_rows = f"{group[0]['rows']['train']:,}"
            rows.append([title, group[0]["encoder"], train_rows, seeds, minutes, *cells])
    return header, rows


def _groups(records: Iterable[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Group records that differ only in the seed."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for record in records:
        same = [record[name] for name in ("recipe", "encoder", "train_fraction", "changed")]
        groups.setdefault(json.dumps(same, sort_keys=True), []).append(record)
    return list(groups.values())


def _titles(groups: list[list[dict[str, Any]]]) -> list[str]:
    """Recipe and share of the training rows; if these and the encoder are equal, also the settings that differ."""
    first = [group[0] for group in groups]
    shares = [f", {100 * record['train_fraction']:.4g}%" if record["train_fraction"] < 1 else "" for record in first]
    names = [(record["recipe"] + share, record["encoder"]) for record, share in zip(first, shares, strict=True)]
    titles = []
    for name, record in zip(names, first, strict=True):
        others = [other["changed"] for other_name, other in zip(names, first, strict=True) if other_name == name]
        own = {
            key: value
            for key, value in record["changed"].items()
            if any(key not in other or other[key] != value for other in others)
            and key != "training_arguments.use_cpu"  # where a run took place, not how it trained
        }
        titles.append(f"{name[0]} ({_short(own)})" if own else name[0])
    return titles


def _short(settings: dict[str, Any]) -> str:
    return ", ".join(
        f"{key.rpartition('.')[2]} {f'{value:g}' if isinstance(value, float) else value}"
        for key, value in settings.items()
    )


def _column_name(table: Table, kind: str, metric: str) -> str:
    several = len({column[0] for column in table.columns}) > 1
    return f"{metric} ({kind.replace('_', ' ')})" if several else metric


def _published(table: Table, column: tuple[str, str], figures: Mapping[str, Figure]) -> str:
    first = next(kind for kind, metric in table.columns if metric == column[1])
    value = figures.get(column[1]) if column[0] == first else None
    if value is None:
        return ""
    digits = 1 if isinstance(value, float) and value > 10 else 3
    return f"{value[0]:.3f} ± {value[1]:.3f}" if isinstance(value, tuple) else f"{value:.{digits}f}"


def _figure(group: list[dict[str, Any]], kind: str, metric: str) -> str:
    values = [record["metrics"].get("test", {}).get(kind, {}).get(metric) for record in group]
    if any(value is None for value in values):
        return "-"
    return mean_std(over_seeds(values), 1 if values[0] > 10 else 3)


def markdown(table: str, records: str | Path) -> str:
    """The table for a document, with what differs from the packaged recipes below it."""
    header, rows = table_rows(table, records)
    lines = [f"{TABLES[table].title}.", "", _markdown_table(header, rows)]
    notes: dict[str, dict[str, dict[str, None]]] = {}  # settings -> encoder -> recipes, each once
    for record in read_records(table, records):
        changes = _short(record["changed"])
        if changes:
            notes.setdefault(changes, {}).setdefault(record["encoder"], {})[record["recipe"]] = None
    if notes:
        lines += ["", "Settings that differ from the recipes, which have the published ones:", ""]
        for changes, encoders in notes.items():
            runs = [
                ", ".join(recipes) + ("" if encoder == "-" else f" over {encoder}")
                for encoder, recipes in encoders.items()
            ]
            lines.append(f"- {'; '.join(runs)}: {changes}")
    if table == "goemotions":
        lines += _label_table(read_records(table, records))
    return "\n".join(lines)


def _label_table(records: list[dict[str, Any]]) -> list[str]:
    """Table 4: F1 of each label, published / ours (mean over seeds)."""
    ours = _groups(record for record in records if "per_label_f1" in record)
    if not ours:
        return []
    titles = [f"{title}, {group[0]['encoder']}" for title, group in zip(_titles(ours), ours, strict=True)]
    published = list(next(iter(GOEMOTIONS_LABELS.values())))
    header = ["label", *(f"*published: {row}*" for row in published), *titles]
    rows = []
    for label, figures in GOEMOTIONS_LABELS.items():
        means = [sum(run["per_label_f1"][label] for run in runs) / len(runs) for runs in ours]
        rows.append([label, *(f"{value:.2f}" for value in [*figures.values(), *means])])
    return ["", "F1 of each label at threshold 0.3 (Table 4):", "", _markdown_table(header, rows)]


def _markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    escaped = ([cell.replace("|", "\\|") for cell in row] for row in (header, *rows))
    return markdown_table(next(escaped), escaped, names=len(header))


def write_document(document: str | Path, records: str | Path) -> int:
    """
    Write the tables of a document anew and return their number.

    Raises:
        ValueError: a mark names an unknown table or is not closed.
    """
    document = Path(document)
    text = document.read_text(encoding="utf-8")
    count = 0

    def fresh(match: re.Match) -> str:
        nonlocal count
        count += 1
        name = match[1]
        if name not in TABLES:
            raise ValueError(f"{document} asks for the table {name!r}: the tables are {list(TABLES)}.")
        if "<!-- table" in match[2]:
            raise ValueError(f"{document}: the table {name!r} is not closed: `<!-- end -->` must follow it.")
        return f"<!-- table {name} -->\n\n{markdown(name, records)}\n\n<!-- end -->"

    write_text(document, re.sub(r"<!-- table ([\w-]+) -->(.*?)<!-- end -->", fresh, text, flags=re.DOTALL))
    return count
