# SPDX-License-Identifier: Apache-2.0
"""How much a score rises if rows are oversampled before they are split, which puts copies of training rows into the test part."""

from pathlib import Path
from typing import Any

from datasets import DatasetDict, concatenate_datasets

from hf_emotion.io.files import write_json
from hf_emotion.recipes import Recipe
from hf_emotion.runs.reproduce import encoder_name
from hf_emotion.runs.train import train
from hf_emotion.tasks.loading import load_dataset_for
from hf_emotion.tasks.rows import oversample_minorities


def measure_leakage(recipe: Recipe, output: Path, data_dir: Path | None = None) -> dict[str, Any]:
    """Train a recipe on all rows, oversampled, then split 80 / 10 / 10; measure it. `in_train`: the share of the test texts that are in train."""
    options = {name: value for name, value in recipe.dataset_options.items() if name not in ("dedupe", "oversample")}
    rows = concatenate_datasets(list(load_dataset_for(recipe.dataset, data_dir, **options).values()))
    rows = oversample_minorities(rows, 0).shuffle(seed=0)
    tenth = len(rows) // 10
    parts = {"train": range(2 * tenth, len(rows)), "validation": range(tenth), "test": range(tenth, 2 * tenth)}
    splits = DatasetDict({name: rows.select(part) for name, part in parts.items()})
    texts = set(splits["train"]["text"])
    report = train(recipe, output, splits=splits)
    result: dict[str, Any] = {"corpus": recipe.dataset, "recipe": recipe.name, "seeds": recipe.seeds}
    result |= {"encoder": encoder_name(recipe.base_model), "training_arguments": recipe.training_arguments}
    result |= {f"{part}_rows": len(splits[part]) for part in ("train", "test")}
    result["in_train"] = sum(text in texts for text in splits["test"]["text"]) / len(splits["test"])
    result["accuracy"] = report.summary["test"]["argmax"]["accuracy"]
    result["minutes"] = [run.train_minutes for run in report.runs]
    write_json(output / "leakage.json", result)
    return result
