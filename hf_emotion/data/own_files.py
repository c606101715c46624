# SPDX-License-Identifier: Apache-2.0
"""What the loaders of your own files share: files, columns, the names that a column may hold, and the validation part."""

from __future__ import annotations

import logging
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..io.lazily import datasets
from ..io.lazily import numpy as np
from ..io.names import did_you_mean, listed
from ..runtime.plain import text_processing
from .files import SPLIT_STEMS, split_files, valid_rows
from .rows import BadRow, OnBadRows, Row, Rows


if TYPE_CHECKING:
    SetAside = Callable[[datasets.Dataset, float], tuple[datasets.Dataset, datasets.Dataset]]

logger = logging.getLogger(__name__)


def own_files(
    data_dir: str | Path | None, others: Collection[str] = (), **lists: Sequence[str] | None
) -> dict[str, Path]:
    """The files in `data_dir` by split, see `split_files`; ValueError without it, or if one of the `lists` (options) is a string."""
    for option, value in lists.items():
        if isinstance(value, str):
            raise ValueError(f"`{option}` must be a list of names, got the string {value!r}: write [{value}].")
    if data_dir is None:
        raise ValueError(
            "`data_dir` must name a folder with train.csv (or .tsv, .jsonl, .parquet, .xlsx), or one such file."
        )
    return split_files(Path(data_dir), others)


def check_columns(
    path: Path | str, line: int, row: Mapping[str, Any], columns: Iterable[str | None], remedy: str
) -> None:
    """ValueError for a column that the row lacks; the remedy names the options that name columns."""
    missing = [name for name in columns if name is not None and name not in row]
    if missing:
        raise ValueError(
            f"{path}, line {line}: no column {missing[0]!r}; the columns are {listed(row)}. Name yours with {remedy}, and the separator of "
            "a CSV with separator."
        )


def read_own(
    path: Path,
    on_bad_rows: OnBadRows,
    columns: Sequence[str],
    separator: str | None,
    add: Callable[[Rows, int, Row], None],
    remedy: str | None = None,
) -> Rows:
    """
    The rows of a file that `add` adds to them, given the line and the row; it raises BadRow for one that is rejected. With a `remedy` every row
    must have the columns, see `check_columns`.
    """
    rows = Rows(path, on_bad_rows)
    for line, row in valid_rows(path, rows, columns, separator):
        if remedy is not None:
            check_columns(path, line, row, columns, remedy)
        try:
            add(rows, line, row)
        except BadRow as reason:
            rows.reject(line, str(reason))
    return rows


def with_validation(
    splits: dict[str, datasets.Dataset], fraction: float, set_aside: SetAside, unit: str = "rows"
) -> datasets.DatasetDict:
    """
    The splits in their usual order. If there is no validation part, `set_aside` takes `fraction` of the training part for it, unless that
    is 0. `unit`: what rows are called in the warning.
    """
    if "validation" not in splits and fraction != 0:
        splits["train"], splits["validation"] = set_aside(splits["train"], fraction)
        logger.warning("no validation file: %d training %s set aside for validation", len(splits["validation"]), unit)
    return datasets.DatasetDict({split: splits[split] for split in SPLIT_STEMS if split in splits})


def known_names(
    parsed: Mapping[str, Rows], column: str, given: Sequence[str] | None, more: Sequence[str] = ()
) -> list[str]:
    """
    The names that a column ("labels", "aspect", "target") may hold: the given ones, or those in the training part and `more`, sorted. Rows
    with another name are rejected, in all parts: a model would not know it.
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
    """The given names, or else those that occur in the training part, sorted, with a warning of names that look alike."""
    if given:
        check_different(f"{kind}s", given)
        return list(given)
    names = sorted(set(occurring))
    alike: dict[str, list[str]] = {}
    for name in names:
        alike.setdefault(folded(name), []).append(name)
    groups = [" and ".join(map(ascii, group)) for group in alike.values() if len(group) > 1]
    if groups:
        logger.warning(
            "the training part has %ss that differ only in case, white space or the form of a character, and are learnt as "
            "different ones: %s. Write them in one way if they mean the same.",
            kind,
            "; ".join(groups),
        )
    return names


def check_different(option: str, names: Sequence[str]) -> None:
    """ValueError for an option that lists a name twice."""
    if len(set(names)) < len(names):
        raise ValueError(f"`{option}` must be different names, got {list(names)}.")


def check_label_column(rows: Rows, names: Sequence[str], label_column: str) -> None:
    """ValueError if the training part has so many labels that their column seems to be the wrong one, or labels that are lists."""
    cells = {name: {part.strip() for part in re.split(r"[|;,/]", name)} for name in names}
    lists = [name for name, parts in cells.items() if name[:1] in "[{" or (len(parts) > 1 and parts <= set(names))]
    if lists or len(names) > max(20, len(rows.rows) / 2):
        raise ValueError(
            f"{rows.source}: the column {label_column!r} holds {len(names)} different labels in {len(rows.rows)} rows, such as "
            f"{[*lists, *names][0]!r}: name the column of the labels with label_column, what separates the labels of a cell with "
            "dataset_options.label_separator, or, to keep them, list all in dataset_options.labels."
        )


def unknown_name(kind: str, name: str, known: Sequence[str], given: bool) -> str:
    """The message for a row with an unknown name, which lists the known names."""
    return (
        f"unknown {kind} {name!r}{'' if given else ': no training row has it'}; the {kind}s are {list(known)}"
        f"{'' if given else f'; to allow it, list all {kind}s in `{kind}s`'}."
        f"{did_you_mean(folded(name), {folded(other): other for other in known})}"
    )


def folded(name: str) -> str:
    """A name for comparisons: without case, white space and invisible characters, in one Unicode form."""
    characters = unicodedata.normalize("NFKC", name).casefold()
    return "".join(
        c for c in characters if not c.isspace() and c not in "\ufe0e\ufe0f" and unicodedata.category(c) != "Cf"
    )


def draw_units(
    dataset: datasets.Dataset,
    units: Sequence[Hashable],
    fraction: float,
    rounded: Callable[[float], int] = round,
) -> tuple[list, list]:
    """
    Draw a fraction of the distinct `units` of rows (texts, contexts) that stay together: (the rest, what is drawn). If only one unit has a label,
    or a target and aspect, it stays in training and the next one of the draw is taken instead; so does a dialogue without labels. If
    all units are like that, the draw is taken as it is.
    """
    names_of: dict[Hashable, set] = {}
    empty: set[Hashable] = set()  # dialogues without a labelled turn, by which nothing can be chosen
    all_labels = dataset["labels"] if "labels" in dataset.column_names else [[]] * len(dataset)  # else values
    contexts = dataset["context_id"] if "context_id" in dataset.column_names else [None] * len(dataset)
    for unit, labels, context in zip(units, all_labels, contexts, strict=True):
        names = {("label", label) for label in (labels if isinstance(labels, list) else [labels]) if label != -1}
        names_of.setdefault(unit, set()).update(names | {("context", context)})
        if isinstance(labels, list) and labels and set(labels) == {-1}:
            empty.add(unit)
    distinct = list(names_of)
    count = rounded(fraction * len(distinct)) if 0 < fraction < 1 else 0
    if not 0 < count < len(distinct):
        raise ValueError(f"`validation_fraction` must leave rows in both parts, got {fraction} of {len(distinct)}.")
    order = [distinct[i] for i in np.random.default_rng(0).permutation(len(distinct))]
    left = Counter(name for names in names_of.values() for name in names)
    drawn: list = []
    for unit in order:
        if unit not in empty and len(drawn) < count and all(left[name] > 1 for name in names_of[unit]):
            drawn.append(unit)
            left.subtract(names_of[unit])
    drawn = drawn or order[:count]
    taken = set(drawn)
    return [unit for unit in order if unit not in taken], drawn


def split_units(
    rows: datasets.Dataset,
    fraction: float,
    units: Sequence[Hashable] | None = None,
    rounded: Callable[[float], int] = round,
) -> tuple[datasets.Dataset, datasets.Dataset]:
    """Set aside a fraction of the `units` (None: each row is one), see `draw_units`: (the rest, what is set aside), rows in order."""
    units = range(len(rows)) if units is None else units
    drawn = set(draw_units(rows, units, fraction, rounded)[1])
    aside = np.array([unit in drawn for unit in units])
    return rows.select(np.flatnonzero(~aside)), rows.select(np.flatnonzero(aside))


def split_by_text(
    rows: datasets.Dataset, fraction: float, column: str = "text"
) -> tuple[datasets.Dataset, datasets.Dataset]:
    """Set aside a fraction of the distinct texts of a column, see `split_units`."""
    return split_units(rows, fraction, rows[column][:])


def name_of(value: Any) -> str:
    """A cell as a name, in composed characters; "" for an empty one. 1.0 is 1: a column with gaps holds 1.0 for 1."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return text_processing.normalized(str(value))


def check_distinct_columns(columns: Mapping[str, str | None]) -> None:
    """ValueError if two options (option -> column) name the same column."""
    named = [column for column in columns.values() if column is not None]
    if len(set(named)) < len(named):
        raise ValueError(
            f"{' and '.join(f'`{option}`' for option in columns)} must name different columns, got {named}."
        )


def names_of(values: Sequence[Any] | None) -> list[str] | None:
    """Names that an option lists, each as `name_of` has the cells that they are compared with; None for None."""
    return None if values is None else [name_of(value) for value in values]


def read_name(value: Any, column: str) -> str:
    """The name (label, speaker) in a cell, as `name_of` has it; BadRow if it holds no name."""
    fraction = isinstance(value, float) and not value.is_integer()
    if isinstance(value, bool) or fraction or not isinstance(value, str | int | float) or not name_of(value):
        raise BadRow(f"{column!r} must hold one name or number, got {value!r}")
    return name_of(value)
