# SPDX-License-Identifier: Apache-2.0
"""
Makes the tables of the study from its records: `python -m benchmarks.study tables` writes benchmarks/reproduction/TABLES.md.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from hf_emotion.runs.reproduce import column_names, figures, published_rows
from hf_emotion.tasks.cards import table as markdown_table
from hf_emotion.tasks.published import TABLES

from .records import rows_of


# What the papers and the field call the rows, by the last part of the recipe's name.
ROW_NAMES = {
    "tfidf": "Logistic regression, TF-IDF",
    "frozen": "Logistic regression, frozen vectors",
    "baseline": "Stock head",
    "laa_ce": "LAA + CE",
    "laa_cb": "LAA + CB",
    "laa_cb_strong": "LAA + CB, β = 0.999",
    "leam_ce": "LEAM + CE",
    "roberta": "RoBERTa",
    "esa": "RoBERTa + ESA",
    "roberta_tfidf": "RoBERTa + TF-IDF gating",
    "esa_tfidf": "RoBERTa + ESA + TF-IDF gating",
    "esa_tfidf_scale": "RoBERTa + ESA + TF-IDF scaling",
    "utterance": "Single utterances",
    "bilstm": "BiLSTM",
    "bilstm_attention": "BiLSTM + attention",
    "bilstm_attention_pe": "BiLSTM + attention + positions",
    "gpt2_vanilla": "GPT-2",
    "gpt2_emotion_token": "GPT-2 with emotion token",
    "gpt2_mod_ln": "Mod-LN GPT-2",
    "gpt2_mod_ln_residual": "Mod-LN GPT-2, residual",
    "bert_mod_ln": "Mod-LN BERT",
    "bert_single": "BERT-single",
    "bert_pair": "BERT-pair",
    "cg": "CG-BERT",
    "cg_aux": "CG-BERT (auxiliary sentences)",
    "cg_sigmoid": "CG-BERT, sigmoid gates",
    "qacg": "QACG-BERT",
    "qacg_aux": "QACG-BERT (auxiliary sentences)",
    "qacg_neg_l1": "QACG-BERT, negative L1 distance",
}

HEADINGS = {
    "goemotions": "GoEmotions",
    "esa": "Six emotions",
    "dialogue": "IEMOCAP",
    "meld": "MELD",
    "emorynlp": "EmoryNLP",
    "daily_dialog": "DailyDialog",
    "mod-ln": "MojiTalk",
    "sentihood": "SentiHood",
    "semeval2014": "SemEval-2014",
}

INTRODUCTION = """\
# Tables of the study

Written by `python -m benchmarks.study tables` from the records in `benchmarks/reproduction`, one JSON file per run.
[REPRODUCTION.md](../../REPRODUCTION.md) says what they show. All figures are of the test part.

- **A row** is a model, its encoder, and the settings in which it differs from other rows. Rows of the papers begin with *published*.
- **±** is the standard deviation over seeds. A row with one seed has none.
- **fixed**, **tuned**: one threshold of 0.3 for all labels, or thresholds tuned on the validation part. "-": not measured.
- **Encoders**: *minilm* is MiniLM-L6 (22 M parameters), *minilm-roberta* the same weights in RoBERTa's architecture, *e5* multilingual
  E5-small, *mpnet* all-mpnet-base-v2, *GPT-2 2.5M* a GPT-2 of 3 layers that we trained on dialogues. *-fp16*: on a GPU, from weights rounded to
  16 bits. *-frozen-first*: the layers above the frozen encoder are trained first, then all. *-new-pooler*: with a new pooling layer.
  *-emotions*: trained on other emotion corpora before. *-long-label-vectors*: an earlier version, whose label vectors were not of length 1.
- **Minutes** are of one thread beside other work, those of *-fp16* of a GPU that several trainings shared.
"""


# Table 4 of the label-aware attention paper: F1 of each label.
GOEMOTIONS_LABELS = {
    label: dict(zip(("Baseline (Demszky et al. 2020)", "LAA + CB", "LAA + CE", "LEAM + CE"), values, strict=True))
    for label, values in {
        "admiration": (0.65, 0.67, 0.68, 0.67),
        "amusement": (0.80, 0.81, 0.80, 0.79),
        "anger": (0.47, 0.49, 0.48, 0.46),
        "annoyance": (0.34, 0.37, 0.36, 0.33),
        "approval": (0.36, 0.41, 0.40, 0.39),
        "caring": (0.39, 0.43, 0.44, 0.43),
        "confusion": (0.37, 0.42, 0.42, 0.42),
        "curiosity": (0.54, 0.56, 0.55, 0.53),
        "desire": (0.49, 0.49, 0.48, 0.53),
        "disappointment": (0.28, 0.33, 0.33, 0.29),
        "disapproval": (0.39, 0.41, 0.41, 0.40),
        "disgust": (0.45, 0.48, 0.46, 0.46),
        "embarrassment": (0.43, 0.45, 0.45, 0.44),
        "excitement": (0.34, 0.41, 0.41, 0.43),
        "fear": (0.60, 0.67, 0.68, 0.68),
        "gratitude": (0.86, 0.90, 0.90, 0.91),
        "grief": (0.00, 0.42, 0.35, 0.21),
        "joy": (0.51, 0.60, 0.59, 0.59),
        "love": (0.78, 0.79, 0.80, 0.79),
        "nervousness": (0.34, 0.34, 0.34, 0.34),
        "neutral": (0.68, 0.67, 0.66, 0.65),
        "optimism": (0.51, 0.56, 0.55, 0.54),
        "pride": (0.36, 0.49, 0.50, 0.45),
        "realization": (0.21, 0.26, 0.25, 0.23),
        "relief": (0.15, 0.36, 0.35, 0.38),
        "remorse": (0.66, 0.68, 0.67, 0.65),
        "sadness": (0.49, 0.53, 0.53, 0.54),
        "surprise": (0.50, 0.54, 0.55, 0.52),
    }.items()
}


def read_records(table: str, records: str | Path) -> list[dict[str, Any]]:
    """The records of a table, in the order of its rows, see `rows_of`, and for each row by file name."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted((Path(records) / table).glob("*.json"))]
    return [record for name in rows_of(table) for record in found if record["recipe"] == name]


def table_rows(table: str, records: str | Path, seeds: int = 1) -> tuple[list[str], list[list[str]]]:
    """
    A table as text: its header and its rows. First the published rows, then a row for each baseline or recipe, encoder and settings
    on record with enough seeds: mean ± standard deviation over them. One without a record is "not run".
    """
    content = TABLES[table]
    header = ["row", "recipe", "train rows", "seeds", "minutes", *column_names(content)]
    rows = [
        [title if encoder == "-" else f"{title}, {encoder}", "", "", "", "", *cells]
        for title, encoder, cells in published_rows(content)
    ]
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


def _name(recipe: str) -> str:
    return ROW_NAMES[recipe.rpartition("/")[2]]


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
        encoder = "" if record["encoder"] == "-" else f", {record['encoder']}"
        names.append(f"{_name(record['recipe'])}{share}{encoder}")
    titles = []
    for name, record in zip(names, first, strict=True):
        others = [other["changed"] for other_name, other in zip(names, first, strict=True) if other_name == name]
        own = {
            key: value
            for key, value in record["changed"].items()
            if any(key not in other or other[key] != value for other in others)
            and key != "training_arguments.use_cpu"  # where a run took place, not how it trained
        }
        titles.append(f"{name} ({_short(own)})" if own else name)
    return titles


def _short(settings: dict[str, Any]) -> str:
    return ", ".join(
        f"{key.rpartition('.')[2]} {f'{value:g}' if isinstance(value, float) else value}"
        for key, value in settings.items()
    )


def short_table(table: str, records: str | Path) -> str:
    """The first metrics of a table, of baselines and of models with at least two seeds."""
    header, rows = table_rows(table, records, seeds=2)
    metrics = min(4, len(header) - 5)
    return _markdown_table([header[0], *header[5 : 5 + metrics]], [[row[0], *row[5 : 5 + metrics]] for row in rows])


def markdown(table: str, records: str | Path) -> str:
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
    return [
        "",
        "F1 of each label at threshold 0.3 (Table 4), ours over minilm:",
        "",
        _markdown_table(["label", *columns], rows),
    ]


def _markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]], names: int = 1) -> str:
    escaped = ([cell.replace("|", "\\|") for cell in row] for row in (header, *rows))
    return markdown_table(next(escaped), escaped, names)


def document(records: str | Path) -> str:
    """TABLES.md: all tables of the study."""
    parts = [INTRODUCTION]
    parts += [f"## {heading}\n\n{markdown(table, records)}\n" for table, heading in HEADINGS.items()]
    transfer, asked = (
        json.loads((Path(records).parent / f"{name}.json").read_text(encoding="utf-8"))
        for name in ("transfer", "against_language_model")
    )
    return "\n".join([*parts, *_transfer(transfer), _asked(asked)])


def _transfer(record: dict[str, Any]) -> Iterator[str]:
    corpora = [
        [name, f"{one['rows']:,}", *(f"{one[key]:.3f}" for key in ("accuracy", "macro_f1", "majority"))]
        for name, one in record["corpora"].items()
    ]
    header = ["tested on", "rows", "accuracy", "macro-F1", "most frequent group"]
    yield (
        "## Across corpora\n\nThe ready model `goemotions` on test parts of other corpora, labels mapped to Ekman's emotions and neutral.\n\n"
        f"{_markdown_table(header, corpora)}\n"
    )
    terms = []
    for kind, one in record["terms"].items():
        largest = one["largest"]
        where = f"{largest['label']}: {' / '.join(largest['terms'])}"
        terms.append([kind, f"{one['mean_range']:.3f}", f"{largest['range']:.2f}", where, f"{one['changed']:.0%}"])
    header = ["kind", "mean range of a probability", "largest range", "where", "sentences whose labels change"]
    yield (
        '## Terms of identity\n\nThe ready model `goemotions` on six sentences without emotion, such as "My neighbour is {}.", and 31 terms.\n\n'
        f"{_markdown_table(header, terms)}\n"
    )


def _asked(record: dict[str, dict[str, dict[str, Any]]]) -> str:
    rows = []
    for corpus, systems in record.items():
        for system, one in systems.items():
            language = "SmolLM2-135M, " if "shot" in system else ""
            accuracy = one.get("strict_accuracy", one.get("accuracy"))
            rows.append(
                [
                    f"{corpus}: {language}{system.removesuffix('-0')}",
                    f"{one['macro_f1']:.3f}",
                    "-" if accuracy is None else f"{accuracy:.3f}",
                    f"{one['seconds_per_1000']:.1f}",
                    f"{one['memory_mib']:.0f}",
                ]
            )
    header = ["corpus: system", "macro-F1", "accuracy (SentiHood: strict)", "seconds per 1,000 texts", "MiB"]
    return (
        "## Beside a language model\n\n400 test rows, one seed, one thread; SmolLM2-135M-Instruct asked in words, with eight examples (few-shot), or "
        f"trained with LoRA.\n\n{_markdown_table(header, rows)}\n"
    )
