# SPDX-License-Identifier: Apache-2.0
"""
Published figures, published.json, as fractions: every row of the tables that we reproduce, and the best known figures from papers and
cards. [mean, std] where there is a standard deviation.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources


Figure = float | tuple[float, float]


@dataclass(frozen=True)
class PublishedTable:
    """
    A published table and the recipes that run it.

    Attributes:
        title: the paper, the measured quantity and the data.
        recipes: names of the recipes, in the order of the rows.
        columns: metrics to show, (thresholds, metric) as in `metrics.json`.
        published: row of the paper -> metric -> figure. A recipe's row is its `table_row`.
        encoders: row of the paper -> the pretrained model that it trained, and what else makes its figures differ from ours. Rows that
            trained none are left out.
    """

    title: str
    recipes: tuple[str, ...]
    columns: tuple[tuple[str, str], ...]
    published: Mapping[str, Mapping[str, Figure]] = field(default_factory=dict)
    encoders: Mapping[str, str] = field(default_factory=dict)


def _read() -> dict[str, PublishedTable]:
    text = (resources.files("hf_emotion.tasks") / "published.json").read_text(encoding="utf-8")
    return {name: PublishedTable(**_with_tuples(fields)) for name, fields in json.loads(text).items()}


def _with_tuples(value):
    if isinstance(value, dict):
        return {name: _with_tuples(item) for name, item in value.items()}
    return tuple(map(_with_tuples, value)) if isinstance(value, list) else value


TABLES = _read()
