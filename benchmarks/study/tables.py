# SPDX-License-Identifier: Apache-2.0
"""Makes the tables of the study from the records, between the lines `<!-- table NAME -->` and `<!-- end -->` of a document."""

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from hf_emotion.io.files import write_text
from hf_emotion.runs.reproduce import column_names, figures, published_rows
from hf_emotion.tasks.cards import table as markdown_table
from hf_emotion.tasks.published import TABLES

from .records import rows_of


# Table 4 of the label-aware attention paper: label -> row -> F1.
GOEMOTIONS_LABELS = json.loads(Path(__file__).with_name("goemotions_labels.json").read_text(encoding="utf-8"))


def read_records(table: str, records: str | Path) -> list[dict[str, Any]]:
    """The records of a table, in the order of its rows, see `rows_of`, and for each row by file name."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted((Path(records) / table).glob("*.json"))]
    return [record for name in rows_of(table) for record in found if record["recipe"] == name]


def table_rows(table: str, records: str | Path) -> tuple[list[str], list[list[str]]]:
    """
    A table as text: its header and its rows. First the published rows, then a row for each baseline or recipe, encoder and settings
    on record: mean ± standard deviation over the seeds. One without a record is "not run".
    """
    content = TABLES[table]
    header = ["row", "encoder", "train rows", "seeds", "minutes", *column_names(content)]
    rows = [[title, encoder, "", "", "", *cells] for title, encoder, cells in published_rows(content)]
    all_records = read_records(table, records)
    for name in rows_of(table):
        groups = _groups(record for record in all_records if record["recipe"] == name)
        if not groups:
            rows.append([name, "", "", "", "", *["not run"] * len(content.columns)])
        for title, group in zip(_titles(groups), groups, strict=True):
            cells = figures(content, [record["metrics"].get("test", {}) for record in group])
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


def markdown(table: str, records: str | Path) -> str:
    """The table for a document, with what differs from the packaged recipes below it."""
    header, rows = table_rows(table, records)
    lines = [f"{TABLES[table].title}.", "", _markdown_table(header, rows)]
    notes: dict[str, dict[str, dict[str, None]]] = {}  # settings -> encoder -> recipes, each once
    found = read_records(table, records)
    for record in found:
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
        lines += _label_table(found)
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
    for label, printed in GOEMOTIONS_LABELS.items():
        means = [sum(run["per_label_f1"][label] for run in runs) / len(runs) for runs in ours]
        rows.append([label, *(f"{value:.2f}" for value in [*printed.values(), *means])])
    return ["", "F1 of each label at threshold 0.3 (Table 4):", "", _markdown_table(header, rows)]


def _markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    escaped = ([cell.replace("|", "\\|") for cell in row] for row in (header, *rows))
    return markdown_table(next(escaped), escaped, names=len(header))


def write_document(document: str | Path, records: str | Path) -> int:
    """Write the tables of a document anew and return their number. Raises ValueError: a mark is unknown or not closed."""
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
