# SPDX-License-Identifier: Apache-2.0
"""Makes the tables of the study from its records: `python -m benchmarks.study tables` writes benchmarks/reproduction/TABLES.md."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import yaml

from hf_emotion.runs.reproduce import column_names, figures, published_rows
from hf_emotion.tasks.cards import table as markdown_table
from hf_emotion.tasks.published import TABLES

from .records import rows_of


WORDS = yaml.safe_load(Path(__file__).with_name("tables.yaml").read_text(encoding="utf-8"))
# Table 4 of the label-aware attention paper: label -> row -> F1.
GOEMOTIONS_LABELS = json.loads(Path(__file__).with_name("goemotions_labels.json").read_text(encoding="utf-8"))


def read_records(table: str, records: Path) -> list[dict[str, Any]]:
    """The records of a table, in the order of its rows, see `rows_of`, and for each row by file name."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted((records / table).glob("*.json"))]
    return [record for name in rows_of(table) for record in found if record["recipe"] == name]


def table_rows(table: str, records: Path, seeds: int = 1) -> tuple[list[str], list[list[str]]]:
    """Header and rows: the published ones, then one for each baseline or recipe, encoder and settings with enough seeds on record."""
    content = TABLES[table]
    header = ["row", "recipe", "train rows", "seeds", "minutes", *column_names(content)]
    published = published_rows(content)
    rows = [[title + _after(", ", encoder), "", "", "", "", *cells] for title, encoder, cells in published]
    all_records = read_records(table, records)
    for name in rows_of(table):
        groups = _groups(record for record in all_records if record["recipe"] == name)
        if not groups and seeds == 1:
            rows.append([_name(name), f"`{name}`", "", "", "", *["not run"] * len(content.columns)])
        for title, group in zip(_titles(groups), groups, strict=True):
            runs = "-" if group[0]["seed"] is None else str(len(group))
            if runs != "-" and len(group) < seeds:
                continue
            cells = figures(content, [record["metrics"].get("test", {}) for record in group])
            timed = [record["minutes"] for record in group if record["minutes"] is not None]
            minutes = f"{sum(timed) / len(timed):.1f}" if timed else "-"
            rows.append([title, f"`{name}`", f"{group[0]['rows']['train']:,}", runs, minutes, *cells])
    return header, rows


def _after(words: str, encoder: str) -> str:
    return "" if encoder == "-" else words + encoder


def _name(recipe: str) -> str:
    return WORDS["rows"][recipe.rpartition("/")[2]]


def _groups(records: Iterable[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Group records that differ only in the seed."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for record in records:
        same = [record[name] for name in ("recipe", "encoder", "train_fraction", "changed")]
        groups.setdefault(json.dumps(same, sort_keys=True), []).append(record)
    return list(groups.values())


def _titles(groups: list[list[dict[str, Any]]]) -> list[str]:
    """Name, share of the training rows and encoder; if these are equal, also the settings that differ."""
    first = [group[0] for group in groups]
    names = []
    for record in first:
        share = f", {100 * record['train_fraction']:.4g}%" if record["train_fraction"] < 1 else ""
        names.append(f"{_name(record['recipe'])}{share}{_after(', ', record['encoder'])}")
    titles = []
    for name, record in zip(names, first, strict=True):
        others = [other["changed"] for same, other in zip(names, first, strict=True) if same == name]
        own = {k: v for k, v in record["changed"].items() if any(k not in one or one[k] != v for one in others)}
        own.pop("training_arguments.use_cpu", None)  # where a run took place, not how it trained
        titles.append(f"{name} ({_short(own)})" if own else name)
    return titles


def _short(settings: dict[str, Any]) -> str:
    shown = {key: f"{value:g}" if isinstance(value, float) else value for key, value in settings.items()}
    return ", ".join(f"{key.rpartition('.')[2]} {value}" for key, value in shown.items())


def short_table(table: str, records: Path) -> str:
    """The first metrics of a table, of baselines and of models with at least two seeds."""
    header, rows = table_rows(table, records, seeds=2)
    metrics = min(4, len(header) - 5)
    return _markdown_table([header[0], *header[5 : 5 + metrics]], [[row[0], *row[5 : 5 + metrics]] for row in rows])


def markdown(table: str, records: Path) -> str:
    """All of a table, in tables of at most five columns: its metrics, its runs, and how they differ from the packaged recipes."""
    header, rows = table_rows(table, records)
    lines = [f"{TABLES[table].title}."]
    count = -(-(len(header) - 5) // 4)
    width = -(-(len(header) - 5) // count)
    for first in range(5, len(header), width):
        part = slice(first, first + width)
        cells = [[row[0], *row[part]] for row in rows if any(row[part])]
        lines += ["", _markdown_table([header[0], *header[part]], cells)]
    lines += ["", "The runs:", "", _markdown_table(header[:5], [row[:5] for row in rows if row[2]], names=2)]
    notes: dict[str, dict[str, dict[str, None]]] = {}  # settings -> encoder -> recipes, each once
    found = read_records(table, records)
    for record in found:
        if changes := _short(record["changed"]):
            notes.setdefault(changes, {}).setdefault(record["encoder"], {})[record["recipe"]] = None
    if notes:
        lines += ["", "Settings that differ from the recipes, which have the published ones:", ""]
        for changes, encoders in notes.items():
            runs = [", ".join(recipes) + _after(" over ", encoder) for encoder, recipes in encoders.items()]
            lines.append(f"- {'; '.join(runs)}: {changes}")
    if table == "goemotions":
        lines += _label_table(found)
    return "\n".join(lines)


def _label_table(records: list[dict[str, Any]]) -> list[str]:
    """Table 4: F1 of each label, published, and ours over MiniLM with W as the identity (mean over seeds)."""
    columns: dict[str, dict[str, float]] = {}
    for recipe, row in (("goemotions/baseline", "Baseline (Demszky et al. 2020)"), ("goemotions/laa_ce", "LAA + CE")):
        found = [record for record in records if record["recipe"] == recipe and record["encoder"] == "minilm"]
        groups = _groups(one for one in found if "model_config.label_attention_init" not in one["changed"])
        if groups:
            runs = [run["per_label_f1"] for run in max(groups, key=len)]
            columns[f"*published: {row}*"] = {label: values[row] for label, values in GOEMOTIONS_LABELS.items()}
            columns[_name(recipe)] = {label: sum(run[label] for run in runs) / len(runs) for label in runs[0]}
    if not columns:
        return []
    rows = [[label, *(f"{column[label]:.2f}" for column in columns.values())] for label in GOEMOTIONS_LABELS]
    title = "F1 of each label at threshold 0.3 (Table 4), ours over minilm:"
    return ["", title, "", _markdown_table(["label", *columns], rows)]


def _markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]], names: int = 1) -> str:
    escaped = ([cell.replace("|", "\\|") for cell in row] for row in (header, *rows))
    return markdown_table(next(escaped), escaped, names)


def document(records: Path) -> str:
    """TABLES.md: all tables of the study."""
    parts = [WORDS["introduction"]]
    parts += [f"## {heading}\n\n{markdown(table, records)}\n" for table, heading in WORDS["headings"].items()]
    for name, rows in _rows_of_others(records.parent).items():
        said = WORDS["others"][name]
        parts.append(f"{said['text']}\n{_markdown_table(said['header'], rows)}\n")
    return "\n".join(parts)


def _rows_of_others(folder: Path) -> dict[str, list[list[str]]]:
    """The rows of the tables of a ready model elsewhere, and of a language model."""
    files = (folder / "transfer.json", folder / "against_language_model.json")
    transfer, asked = (json.loads(file.read_text(encoding="utf-8")) for file in files)
    found: dict[str, list[list[str]]] = {"corpora": [], "terms": [], "asked": []}
    for name, one in transfer["corpora"].items():
        cells = [f"{one[key]:.3f}" for key in ("accuracy", "macro_f1", "majority")]
        found["corpora"].append([name, f"{one['rows']:,}", *cells])
    for kind, one in transfer["terms"].items():
        far = one["largest"]
        where = f"{far['label']}: {' / '.join(far['terms'])}"
        cells = [f"{one['mean_range']:.3f}", f"{far['range']:.2f}", where, f"{one['changed']:.0%}"]
        found["terms"].append([kind, *cells])
    for corpus, system, one in ((corpus, *own) for corpus, systems in asked.items() for own in systems.items()):
        name = f"{corpus}: {'SmolLM2-135M, ' if 'shot' in system else ''}{system.removesuffix('-0')}"
        right = one.get("strict_accuracy", one.get("accuracy"))
        cells = [f"{one['macro_f1']:.3f}", "-" if right is None else f"{right:.3f}"]
        found["asked"].append([name, *cells, f"{one['seconds_per_1000']:.1f}", f"{one['memory_mib']:.0f}"])
    return found
