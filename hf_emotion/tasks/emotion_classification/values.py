# SPDX-License-Identifier: Apache-2.0
"""Regression of texts: what is refused, how values are measured and written after a training. N rows, C values."""

import json
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
from ..base import Prepared
from ..saving import save_model
from .predictor import Predictor


# Fields of a recipe that are for labels.
OF_LABELS = (
    "class_weights",
    "positive_weights",
    "soft_labels",
    "teachers",
    "abstain",
    "prediction_sets",
    "shots",
    "few_shot",
)


def refuse_fields_of_labels(recipe: Recipe) -> None:
    """ValueError for a recipe of values with a field that is for labels."""
    for name in OF_LABELS:
        if getattr(recipe, name):
            raise ValueError(f"`{name}` is for labels, and {recipe.dataset} has values here: leave it out.")
    if recipe.model_config.get("class_balanced_beta") is not None:
        raise ValueError("`model_config.class_balanced_beta` is for labels, and these are values: leave it out.")


def finish_values(
    recipe: Recipe,
    run: SeedRun,
    trainer: Any,
    prepared: Prepared,
    splits: DatasetDict,
    folder: Path | None,
) -> None:
    """
    Predict the validation and the test part, put the figures into `run`, and write the checkpoint and values.parquet (split, id, gold and
    predicted values) into `folder`, both or neither. For the arguments see `Task.finish`.
    """
    model = trainer.whole_model()  # all processes have a part in this
    tokenizer, settings = prepared.tokenizer, prepared.settings
    if folder is None:
        return
    for rule in ("thresholds", "calibration_temperature", "abstention", "prediction_sets"):  # of the base model
        if getattr(model.config, rule, None) is not None:
            setattr(model.config, rule, None)
    predictor, names = (
        Predictor(model, tokenizer, max_length=recipe.max_length, **settings),
        label_names(splits["train"]),
    )
    tables = []
    for split, rows in splits.items():
        if split == "train":
            continue
        gold, found = target_matrix(rows), predictor.of_rows(rows, progress=True)
        setattr(run, split, {"values": metrics.regression(gold, found, names)})
        kind = pyarrow.list_(pyarrow.float32())
        values = {
            name: pyarrow.array(list(each.astype(np.float32)), kind)
            for name, each in (("gold", gold), ("values", found))
        }
        tables.append(pyarrow.table({"split": [split] * len(rows), "id": list(rows["id"]), **values}))
    with filling(folder) as temporary:
        save_model(model, tokenizer, temporary, **settings)
        table = pyarrow.concat_tables(tables).replace_schema_metadata({"label_names": json.dumps(names)})
        pyarrow.parquet.write_table(table, temporary / "values.parquet")
