# SPDX-License-Identifier: Apache-2.0
"""The records: every finished run leaves a small JSON file, from which `tables.py` makes the tables."""

import dataclasses
import hashlib
import json
import re
from pathlib import Path
from typing import Any

from hf_emotion.io.files import write_json
from hf_emotion.recipes import Recipe, make_recipe, read_yaml
from hf_emotion.run_report import RunReport
from hf_emotion.runs.reproduce import encoder_name, recipes_of
from hf_emotion.runtime.names import RECIPE
from hf_emotion.tasks.published import TABLES
from hf_emotion.training.recipe_checks import load_recipe


RECORDS = Path("benchmarks/reproduction")
# A record lists how its run differs from the packaged recipe, except in these fields.
SAME_TABLE_ROW = ("name", "description", "paper", "table_row", "published", "seeds", "base_model", "train_fraction")
HIDDEN_METRICS = ("per_label", "confusions")
BASELINES = ("baseline/tfidf", "baseline/frozen")  # logistic regression, on record
WITHOUT_BASELINES = ("dialogue", "mod-ln")


def rows_of(table: str) -> tuple[str, ...]:
    """What the rows of a table of the study are: baselines, if it has any, and recipes."""
    return (*(() if table in WITHOUT_BASELINES else BASELINES), *TABLES[table].recipes)


def places(table: str, name: str, recipe: Recipe, output: Path, records: Path, encoder: str) -> tuple[Path, Path]:
    """The record and the run folder of one seed of a recipe. `encoder`: the base model's name in it."""
    path = records / table / record_name(name, dataclasses.replace(recipe, base_model=encoder))
    return path, output / table / path.stem


def collect(table: str, run: Path, records: Path = RECORDS, encoder: str | None = None) -> list[Path]:
    """Write the record of each seed of a finished run folder, of a generator with its `evaluation.json`, what `evaluate --json` prints."""
    report = RunReport.read(run)
    recipe = make_recipe(read_yaml((run / RECIPE).read_text(encoding="utf-8")), str(run / RECIPE))
    names = {load_recipe(name).name: name for name in recipes_of(table, None)}
    if recipe.name not in names:
        raise ValueError(f"{run} has the recipe {recipe.name!r}, but the table {table!r} has {list(names)}.")
    name = names[recipe.name]
    if encoder is not None:
        recipe = dataclasses.replace(recipe, base_model=encoder)
    written = []
    for seed in report.runs:
        metrics: dict[str, Any] = {}  # split -> thresholds -> metric, without long values
        for split in ("validation", "test"):
            for kind, values in seed.figures(split).items():
                own = {metric: value for metric, value in values.items() if metric not in HIDDEN_METRICS}
                metrics.setdefault(split, {})[kind] = own
        record = {
            "recipe": name,
            "seed": seed.seed,
            "encoder": encoder_name(recipe.base_model),
            "changed": changed_settings(name, recipe),
            "train_fraction": float(recipe.train_fraction),
            "rows": report.rows,
            "texts of test also in train": report.duplicates.get("train & test"),
            "epochs": seed.epochs,
            "minutes": seed.train_minutes,
            "metrics": metrics,
            "environment": report.environment,
        }
        fixed = seed.figures("test").get("fixed", {})
        if "per_label" in fixed:
            record["per_label_f1"] = {label: values["f1"] for label, values in fixed["per_label"].items()}
            record["confusions"] = fixed.get("confusions", [])[:8]
        if (evaluation := run / "evaluation.json").is_file():
            replies = _flat_replies(json.loads(evaluation.read_text(encoding="utf-8")))
            metrics.setdefault("test", {})["replies"] = replies
        path = records / table / record_name(name, dataclasses.replace(recipe, seeds=[seed.seed]))
        write_json(path, record)
        written.append(path)
    return written


def changed_settings(name: str, recipe: Recipe) -> dict[str, Any]:
    """Settings of a run that differ from the packaged recipe: "training_arguments.learning_rate" -> value."""
    packaged, own = (_flat(dataclasses.asdict(one)) for one in (load_recipe(name), recipe))
    differing = {key for key in packaged.keys() | own.keys() if packaged.get(key) != own.get(key)}
    # A run changes the first to the second if the encoder, which every record names, is not a BERT.
    if {packaged["model_type"], own["model_type"]} == {"label-aware-bert", "label-aware"}:
        differing -= {"model_type", "model_config.sentence_representation"}
    return {key: own.get(key) for key in sorted(differing) if key.split(".")[0] not in SAME_TABLE_ROW}


def _flat(values: dict[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        flat |= {f"{key}.{inner}": item for inner, item in value.items()} if isinstance(value, dict) else {key: value}
    return flat


def record_name(name: str, recipe: Recipe) -> str:
    """The file name of a record: recipe, encoder, a digest of all other differences between runs, seed."""
    settings = {"fraction": float(recipe.train_fraction), **changed_settings(name, recipe)}
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True, default=str).encode()).hexdigest()[:6]
    encoder = re.sub(r"[^\w.-]", "_", encoder_name(recipe.base_model))
    return f"{name.partition('/')[2]}-{encoder}-{digest}-seed-{recipe.seeds[0]}.json"


def _flat_replies(evaluation: dict[str, Any]) -> dict[str, Any]:
    model = evaluation["rows"]["model"]
    flat: dict[str, Any] = {name: value for name, value in model.items() if isinstance(value, float)}
    for number, (judge, kinds) in enumerate(model["judges"].items(), 1):
        for name, value in kinds["all_emotions"].items():
            if isinstance(value, float):
                flat[name if number == 1 else f"{name} of judge {number}"] = value
        flat[f"judge {number}"] = Path(judge).name
    return {"contexts": evaluation["contexts"], "settings": evaluation["settings"], **flat}
