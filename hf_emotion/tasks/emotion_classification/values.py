# SPDX-License-Identifier: Apache-2.0
"""Regression of texts: what is refused, how values are measured and written after a training. N rows, C values."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
from datasets import DatasetDict

from ... import metrics
from ...data.splits import label_names
from ...data.targets import target_matrix
from ...io.files import filling
from ...recipes import Recipe
from ...run_report import SeedRun
from ...runtime.plain import text_processing
from . import OF_LABELS


def refuse_fields_of_labels(recipe: Recipe) -> None:
    """ValueError for a recipe of values with a field that is for labels."""
    for name in OF_LABELS:
        if getattr(recipe, name):
            raise ValueError(f"`{name}` is for labels, and {recipe.dataset} has values here: leave it out.")
    if recipe.model_config.get("class_balanced_beta") is not None:
        raise ValueError("`model_config.class_balanced_beta` is for labels, and these are values: leave it out.")


def held_out_values(
    recipe: Recipe,
    run: SeedRun,
    found: dict[str, np.ndarray],
    splits: DatasetDict,
    folder: Path,
    model: Any,
    save: Callable[[Path], Any],
) -> None:
    """
    Put the figures of predicted values, part -> (N, C), into `run`, and write the checkpoint and values.parquet (split, id, gold and
    predicted values) into `folder`, both or neither. Beside `held_out`, which does this for labels.
    """
    for rule in ("thresholds", *text_processing.RULES):  # of the base model
        if getattr(model.config, rule, None) is not None:
            setattr(model.config, rule, None)
    names = label_names(splits["train"])
    kind = pyarrow.list_(pyarrow.float32())
    tables = []
    for split, predicted in found.items():
        rows, gold = splits[split], target_matrix(splits[split])
        run.record(split, {"values": metrics.regression(gold, predicted, names)})
        values = {
            name: pyarrow.array(list(each.astype(np.float32)), kind)
            for name, each in (("gold", gold), ("values", predicted))
        }
        tables.append(pyarrow.table({"split": [split] * len(rows), "id": list(rows["id"]), **values}))
    with filling(folder) as temporary:
        save(temporary)
        table = pyarrow.concat_tables(tables).replace_schema_metadata({"label_names": json.dumps(names)})
        pyarrow.parquet.write_table(table, temporary / "values.parquet")
