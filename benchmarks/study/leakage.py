# SPDX-License-Identifier: Apache-2.0
"""How much a score rises if rows are oversampled before they are split, which puts copies of training rows into the test part."""

from pathlib import Path
from typing import Any

from datasets import DatasetDict, concatenate_datasets

from hf_emotion.data.splits import oversample_minorities
from hf_emotion.io.files import write_json
from hf_emotion.recipes import Recipe
from hf_emotion.runs.reproduce import encoder_name
from hf_emotion.runs.train import train
from hf_emotion.tasks.loading import load_dataset_for


def leaky_splits(splits: DatasetDict, seed: int = 0) -> DatasetDict:
    """All rows together, oversampled until the classes are equal, then split 80 / 10 / 10 at random."""
    rows = oversample_minorities(concatenate_datasets(list(splits.values())), seed).shuffle(seed=seed)
    held_out = len(rows) // 10
    return DatasetDict(
        train=rows.select(range(2 * held_out, len(rows))),
        validation=rows.select(range(held_out)),
        test=rows.select(range(held_out, 2 * held_out)),
    )


def measure_leakage(recipe: Recipe, output: str | Path, data_dir: str | Path | None = None) -> dict[str, Any]:
    """
    Train a recipe on leaky splits and measure it.
    Returns what stands in `leakage.json` in `output`, with `in_train`, the share of the test rows whose text is also in train.
    """
    options = {name: value for name, value in recipe.dataset_options.items() if name not in ("dedupe", "oversample")}
    splits = leaky_splits(load_dataset_for(recipe.dataset, data_dir, **options))
    texts = set(splits["train"]["text"])
    report = train(recipe, output, splits=splits)
    result = {
        "corpus": recipe.dataset,
        "recipe": recipe.name,
        "encoder": encoder_name(recipe.base_model),
        "training_arguments": recipe.training_arguments,
        "seeds": recipe.seeds,
        "train_rows": len(splits["train"]),
        "test_rows": len(splits["test"]),
        "in_train": sum(text in texts for text in splits["test"]["text"]) / len(splits["test"]),
        "accuracy": report.summary["test"]["argmax"]["accuracy"],
        "minutes": [run.train_minutes for run in report.runs],
    }
    write_json(Path(output) / "leakage.json", result)
    return result
