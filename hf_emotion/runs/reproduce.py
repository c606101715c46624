# SPDX-License-Identifier: Apache-2.0
"""Runs the recipes of a published table, and sets their figures beside the published ones."""

import dataclasses
import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..io.names import did_you_mean
from ..metrics.significance import mean_std, over_seeds
from ..recipes import read_recipe
from ..run_report import decision_title
from ..tasks.base import Table
from ..tasks.published import TABLES, Figure, PublishedTable
from ..training.recipe_checks import load_recipe
from .train import train


logger = logging.getLogger(__name__)


def reproduce(
    table: str,
    base_model: str | None = None,
    seeds: int = 3,
    data_dir: str | Path | None = None,
    recipes: Sequence[str] | None = None,
    overrides: Sequence[str] = (),
    output: str | Path = "runs/reproduction",
) -> Table:
    """
    Run the recipes of a published table, one seed after the other. Finished seeds are not run again.

    Args:
        table: one of `TABLES`.
        base_model: replaces the recipes' own.
        seeds: number of seeds of each recipe, counted from its first.
        recipes: some of the table's recipes; default: all.
        overrides: "key=value" for every recipe.
        output: folder of the run folders, TABLE/RECIPE-seed-N.

    Returns:
        the published rows, then a row for each recipe: mean ± standard deviation over the seeds of the test part.
    """
    overrides = [*overrides, *([] if base_model is None else [f"base_model={json.dumps(base_model)}"])]
    # All are checked before the first one is trained.
    checked = {name: load_recipe(name, overrides) for name in recipes_of(table, recipes)}
    content, limits = TABLES[table], [recipe.threshold for recipe in checked.values()]
    rows = [[title, encoder, "", *cells] for title, encoder, cells in published_rows(content)]
    for name, recipe in checked.items():
        measured = []
        for seed in range(recipe.seeds[0], recipe.seeds[0] + seeds):
            folder = Path(output) / table / f"{name.partition('/')[2]}-seed-{seed}"
            logger.warning("%s, seed %d -> %s", name, seed, folder)
            one = dataclasses.replace(recipe, seeds=[seed])
            report = train(one, folder, data_dir=data_dir, resume=folder.exists())
            measured.append(report.runs[0].figures("test"))
        rows.append([name, encoder_name(recipe.base_model), str(seeds), *figures(content, measured)])
    return Table(["row", "encoder", "seeds", *column_names(content, *limits)], rows)


def recipes_of(table: str, recipes: Sequence[str] | None) -> Sequence[str]:
    """Some of a table's recipes, or all; ValueError for another table or recipe."""
    if table not in TABLES:
        raise ValueError(f"unknown `table` {table!r}: one of {list(TABLES)}.{did_you_mean(table, list(TABLES))}")
    known = TABLES[table].recipes
    if wrong := [name for name in recipes or () if name not in known]:
        hint = did_you_mean(wrong[0].rpartition("/")[2], {name.rpartition("/")[2]: name for name in known})
        raise ValueError(f"{wrong[0]!r} is not in the table {table}: `recipes` are some of {list(known)}.{hint}")
    return recipes or known


def encoder_name(base_model: str) -> str:
    """The Hub id, or the name of a local folder."""
    return Path(base_model).name if Path(base_model).is_dir() else base_model


def column_names(content: PublishedTable, *thresholds: float) -> list[str]:
    """Titles of the columns; `thresholds` are fixed ones in addition to that of the published rows."""
    thresholds = (read_recipe(content.recipes[0]).threshold, *thresholds)
    many = len({kind for kind, _ in content.columns}) > 1
    return [f"{metric} ({decision_title(kind, *thresholds)})" if many else metric for kind, metric in content.columns]


def published_rows(content: PublishedTable) -> list[tuple[str, str, list[str]]]:
    """For each row of the paper its title, its encoder and its cells."""
    return [
        (
            f"*published: {row}*",
            content.encoders.get(row, "-"),
            [_published(content, kind, found.get(metric), metric) for kind, metric in content.columns],
        )
        for row, found in content.published.items()
    ]


def _published(content: PublishedTable, kind: str, value: Figure | None, metric: str) -> str:
    first = next(other for other, name in content.columns if name == metric)
    if value is None or kind != first:
        return ""
    digits = 1 if isinstance(value, float) and value > 10 else 3
    return f"{value[0]:.3f} ± {value[1]:.3f}" if isinstance(value, tuple) else f"{value:.{digits}f}"


def figures(content: PublishedTable, measured: Sequence[Mapping[str, Mapping[str, Any]]]) -> list[str]:
    """The cells of a row, from the figures of each seed, thresholds -> metric -> figure; "-" for what a seed lacks."""
    cells = []
    for kind, metric in content.columns:
        values: list[Any] = [one.get(kind, {}).get(metric) for one in measured]
        cells.append("-" if None in values else mean_std(over_seeds(values), 1 if values[0] > 10 else 3))
    return cells
