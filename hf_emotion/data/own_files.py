# SPDX-License-Identifier: Apache-2.0
"""What the loaders of one's own files share: files, columns, the names that a column may hold, and the validation part."""

from __future__ import annotations

import itertools
import logging
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..io.names import did_you_mean
from ..runtime.plain import text_processing
from .files import SPLIT_STEMS, separator_hint, split_files, valid_rows
from .lazily import datasets
from .lazily import numpy as np
from .rows import BadRow, OnBadRows, Rows


if TYPE_CHECKING:
    SetAside = Callable[[datasets.Dataset, float], tuple[datasets.Dataset, datasets.Dataset]]

logger = logging.getLogger(__name__)


def own_files(data_dir: str | Path | None, **lists: Sequence[str] | None) -> dict[str, Path]:
    """
    The files in `data_dir` by split. ValueError without `data_dir`, or if one of the `lists` (options that are lists of
    names) is a string.
    """
    for option, value in lists.items():
        if isinstance(value, str):
            raise ValueError(f"`{option}` must be a list of names, got the string {value!r}: write [{value}].")
    if data_dir is None:
        raise ValueError("`data_dir` must name a folder with train.csv (or .tsv, .jsonl, .parquet), or one such file.")
    return split_files(Path(data_dir))


def check_columns(path: Path, line: int, row: Mapping[str, Any], columns: Iterable[str | None], remedy: str) -> None:
    """ValueError for a column that the row lacks; the remedy names the options that name columns."""
    missing = [name for name in columns if name is not None and name not in row]
    if missing:
        raise ValueError(
            f"{path}, line {line}: no column {missing[0]!r}; the columns are {sorted(row)}. Name yours with {remedy}."
            f"{separator_hint(path)}"
        )


def read_own(
    path: Path,
    on_bad_rows: OnBadRows,
    columns: Sequence[str],
    separator: str | None,
    add: Callable[[Rows, int, dict[str, Any]], None],
) -> Rows:
    """The rows of a file that `add` adds to them, given the line and the row; it raises BadRow for one that is rejected."""
    rows = Rows(path, on_bad_rows)
    for line, row in valid_rows(path, rows, columns, separator):
        try:
            add(rows, line, row)
        except BadRow as reason:
            rows.reject(line, str(reason))
    return rows


def with_validation(
    splits: dict[str, datasets.Dataset], fraction: float, set_aside: SetAside, unit: str = "rows"
) -> datasets.DatasetDict:
    """
    The splits in their usual order. If there is no validation part, `fraction` of the training part becomes it, unless that is 0.

    Args:
        set_aside: (training part, fraction) -> (the rest, what is set aside).
        unit: what a row is called, in the plural, for the warning.
    """
    if "validation" not in splits and fraction != 0:
        splits["train"], splits["validation"] = set_aside(splits["train"], fraction)
        logger.warning("no validation file: %d training %s set aside for validation", len(splits["validation"]), unit)
    return datasets.DatasetDict({split: splits[split] for split in SPLIT_STEMS if split in splits})


def known_names(
    parsed: Mapping[str, Rows], column: str, given: Sequence[str] | None, more: Sequence[str] = ()
) -> list[str]:
    """
    The names that a column ("labels", "aspect", "target") may hold: the given ones, or else the names in the training part and
    `more`, sorted. Rows with another name are rejected, in all parts: a model would not know it, or would have a class that it never
    learnt.
    """
    of_row = lambda row: row[column] if isinstance(row[column], list) else [row[column]]  # noqa: E731
    kind = column.removesuffix("s")
    names = training_names(kind, [*more, *(name for row in parsed["train"].rows for name in of_row(row))], given)
    known = set(names)
    for rows in parsed.values() if names else ():
        valid = []
        for row in rows.rows:
            unknown = [name for name in of_row(row) if name not in known]
            if unknown:
                rows.reject(row["line"], unknown_name(kind, unknown[0], names, bool(given)))
            else:
                valid.append(row)
        rows.rows = valid
    return names


def training_names(kind: str, occurring: Iterable[str], given: Sequence[str] | None) -> list[str]:
    """
    The given names, or else those that occur in the training part, sorted, with a warning of names that look alike, or like a
    missing value.
    """
    if given:
        check_different(f"{kind}s", given)
        return list(given)
    names = sorted(set(occurring))
    missing = [name for name in names if name.casefold() in ("nan", "null", "<na>", "nat")]
    if missing:
        logger.warning(
            "the %s %r is what programs write for a missing value, and is learnt as one of its own: leave the cell empty, or drop the row",
            *(kind, missing[0]),
        )
    alike: dict[str, list[str]] = {}
    for name in names:
        alike.setdefault(folded(name), []).append(name)
    pairs = [" and ".join(map(_shown, group)) for group in alike.values() if len(group) > 1]
    if pairs:
        logger.warning(
            "the training part has %ss that differ only in case, white space or the form of a character, and are learnt as "
            "different ones: %s. Write them in one way if they mean the same.",
            kind,
            "; ".join(pairs),
        )
    return names


def check_different(option: str, names: Sequence[str]) -> None:
    """ValueError for an option that lists a name twice."""
    twice = [name for i, name in enumerate(names) if name in names[:i]]
    if twice:
        raise ValueError(f"`{option}` names {twice[0]!r} twice, got {list(names)}: leave one out.")


def check_label_column(rows: Rows, names: Sequence[str], text_column: str, label_column: str) -> None:
    """
    ValueError if the columns seem to be the wrong ones, judging by the training part: cells with several labels that nothing
    separates, labels that are texts or numbers, texts that are numbers.
    """
    known = set(names)
    for name in names:
        if re.search(r"^[\[{]|['\"\d][\]}]$", name):
            raise ValueError(
                f"{rows.source}: the label {name!r} is a list that became a text: write the labels with a separator between them, joy|anger, and "
                "dataset_options.label_separator='|', or lists in JSONL or Parquet. To keep such labels, list all in dataset_options.labels."
            )
    for separator in ("|", ";", ",", "/"):
        for name in names:
            parts = [part.strip() for part in name.split(separator)]
            if len(parts) > 1 and known.issuperset(parts):
                raise ValueError(
                    f"{rows.source}: the label {name!r} holds several labels of other rows: separate them, dataset_options.label_separator="
                    f"{separator!r}, or, to keep it as a label of its own, list all of them in dataset_options.labels."
                )
    total = len(rows.rows)
    if len(names) > max(20, total / 2):
        raise ValueError(
            f"{rows.source}: the column {label_column!r} holds {len(names)} different labels in {total} rows, such as {names[0]!r}: is it the "
            "column of the texts, or of numbers? Name the column of the labels with label_column; to keep them all, list them in labels."
        )
    if total and all(is_number(row["text"]) for row in rows.rows):
        raise ValueError(
            f"{rows.source}: the column {text_column!r} holds only numbers, such as {rows.rows[0]['text']!r}: name the column of the "
            "texts with text_column."
        )


def is_number(text: str) -> bool:
    """Whether a text is a number, a date or the like, without any word."""
    return re.fullmatch(r"[-+\d\s.,:/%]+", text) is not None


def unknown_name(kind: str, name: str, known: Sequence[str], given: bool) -> str:
    """The message for a row with an unknown name: it lists the known names and suggests the nearest."""
    return (
        f"unknown {kind} {name!r}{'' if given else ': no training row has it'}; the {kind}s are {list(known)}"
        + ("." if given else f"; to allow it, list all {kind}s in `{kind}s`.")
        + did_you_mean(folded(name), {folded(other): other for other in known})
    )


def folded(name: str) -> str:
    """A name for comparisons: without case, white space and invisible characters, in one Unicode form."""
    characters = unicodedata.normalize("NFKC", name).casefold()
    return "".join(
        c for c in characters if not c.isspace() and c not in "\ufe0e\ufe0f" and unicodedata.category(c) != "Cf"
    )


def _shown(name: str) -> str:
    return repr(name) if name.isascii() else f"{name!r} ({ascii(name)})"


def draw_units(dataset: datasets.Dataset, units: Sequence[Hashable], count: int, seed: int = 0) -> tuple[list, list]:
    """
    Draw what is set aside for validation, in units of rows (texts, contexts) that stay together. If only one unit has a label, or
    a target and aspect, it stays in training and the next one of the draw is taken instead; so does a dialogue without labels. If
    all units are like that, the draw is taken as it is.

    Args:
        units: the unit of each row.
        count: how many of the distinct units to draw.

    Returns:
        (the rest, what is drawn): distinct units, in the order of the draw.
    """
    names_of: dict[Hashable, set] = {}
    empty: set[Hashable] = set()  # dialogues without a labelled turn, by which nothing can be chosen
    contexts = dataset["context_id"] if "context_id" in dataset.column_names else [None] * len(dataset)
    for unit, labels, context in zip(units, dataset["labels"], contexts, strict=True):
        names = {("label", label) for label in (labels if isinstance(labels, list) else [labels]) if label != -1}
        names_of.setdefault(unit, set()).update(names | {("context", context)})
        if isinstance(labels, list) and labels and set(labels) == {-1}:
            empty.add(unit)
    distinct = list(names_of)
    order = [distinct[i] for i in np.random.default_rng(seed).permutation(len(distinct))]
    left = Counter(name for names in names_of.values() for name in names)
    drawn: list = []
    for unit in order:
        if unit not in empty and len(drawn) < count and all(left[name] > 1 for name in names_of[unit]):
            drawn.append(unit)
            left.subtract(names_of[unit])
    drawn = drawn or order[:count]
    taken = set(drawn)
    return [unit for unit in order if unit not in taken], drawn


def name_of(value: Any) -> str:
    """
    A cell as a name, in composed characters as the texts are; "" for an empty one (also NaN). 1 and 1.0 are the same name: a column
    with gaps holds 1.0 for 1.
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return text_processing.normalized(str(value))


def names_of(values: Sequence[Any] | None) -> list[str] | None:
    """Names that an option lists, each as `name_of` has the cells that they are compared with; None for None."""
    return None if values is None else [name_of(value) for value in values]


def read_name(value: Any, column: str) -> str:
    """The name (label, speaker) in a cell, as `name_of` has it; BadRow if it holds no name."""
    fraction = isinstance(value, float) and not value.is_integer()
    if isinstance(value, bool) or fraction or not isinstance(value, str | int | float) or not name_of(value):
        raise BadRow(f"{column!r} must hold one name or number, got {value!r}")
    return name_of(value)


def check_distinct_columns(columns: Mapping[str, str | None]) -> None:
    """ValueError if two options (option -> column) name the same column."""
    for option, other in itertools.combinations(columns, 2):
        if columns[option] is not None and columns[option] == columns[other]:
            raise ValueError(f"`{option}` and `{other}` name the same column, {columns[option]!r}: give each its own.")
