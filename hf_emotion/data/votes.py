# SPDX-License-Identifier: Apache-2.0
"""Votes of annotators: a share for each label, and the labels that follow from them."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from typing import Any

from ..io.lazily import datasets
from ..io.lazily import numpy as np
from .rows import BadRow, Row, Rows


logger = logging.getLogger(__name__)

COLUMN = "votes"
SUM_TOLERANCE = 0.02  # of shares that were rounded when they were written


def vote_features() -> dict[str, Any]:
    """The columns `votes`, C shares in label order, and `annotators`, how many people voted on the row, 0 where that is not known."""
    return {COLUMN: datasets.List(datasets.Value("float32")), "annotators": datasets.Value("int64")}


def votes_of(rows: datasets.Dataset) -> np.ndarray | None:
    """(N, C) float64; None for rows without votes."""
    if COLUMN not in rows.column_names:
        return None
    return np.asarray(rows[COLUMN][:], dtype=np.float64)


def read_votes(row: Row, columns: Sequence[str], annotators: str | None, shares: bool) -> Row:
    """
    The votes of a row as they stand in its `columns`, for [`settle_votes`]; BadRow, see `load_files`.

    Args:
        annotators: the column with the number of annotators, each of whom may have given several labels; None: each gave one.
        shares: each annotator may have given several labels, and the columns hold shares of them.
    """
    values = [_number(row[name]) for name in columns]
    if not all(value >= 0 for value in values):
        raise BadRow(f"votes must be numbers, 0 or more, got {[row[name] for name in columns]}")
    voted = 0
    if annotators is not None:
        number = _number(row[annotators])
        if not number >= 1 or number % 1 or any(value % 1 or value > number for value in values):
            raise BadRow(f"votes must be whole numbers up to {annotators!r}, got {values} of {row[annotators]!r}")
        values, voted = [value / number for value in values], int(number)
    elif shares and max(values) > 1:
        raise BadRow(f"a vote must be a share in [0, 1], got {max(values):g}: counts need the column `annotators`")
    elif not shares and not sum(values):
        raise BadRow("all votes are 0")
    return {COLUMN: values, "annotators": voted}


def settle_votes(rows: Rows, columns: Sequence[str], names: Sequence[str], multi_label: bool) -> None:
    """
    Make the votes of each row shares in the order of `names`, and its `labels` the names that follow: the label with the most
    votes, or, for `multi_label`, each label that at least half of the annotators gave. A warning counts the ties, which the first label wins.

    For single-label data a file with any value between whole numbers holds shares, which must sum to 1; else it holds counts.
    """
    valid, tied = rows.rows, 0
    if not multi_label:
        counts = all(value % 1 == 0 for row in rows.rows for value in row[COLUMN])
        valid = []
        for row in rows.rows:
            total = sum(row[COLUMN])
            if not counts and abs(total - 1) > SUM_TOLERANCE:
                reason = f"shares of votes must sum to 1, got {total:.4g}; give shares, or whole counts, in every row"
                rows.reject(row["line"], reason)
                continue
            row["annotators"] = int(total) if counts else 0
            row[COLUMN] = [value / total for value in row[COLUMN]]
            valid.append(row)
    for row in valid:
        shares = dict(zip(columns, row[COLUMN], strict=True))
        row[COLUMN] = [shares.get(name, 0.0) for name in names]
        if multi_label:
            row["labels"] = [name for name, share in zip(names, row[COLUMN], strict=True) if share >= 0.5]
        else:
            most = max(row[COLUMN])
            first, *others = [name for name, share in zip(names, row[COLUMN], strict=True) if most - share < 1e-9]
            row["labels"] = [first]
            tied += bool(others)
    rows.rows = valid
    if tied:
        logger.warning(
            "%s: in %d of %d rows several labels have the most votes: the first of them in label order is the label",
            *(rows.source, tied, len(valid)),
        )


def _number(value: Any) -> float:
    """The number in a cell; NaN for anything else."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return math.nan
    return number if math.isfinite(number) else math.nan
