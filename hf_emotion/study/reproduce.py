# SPDX-License-Identifier: Apache-2.0
"""
Runs the published tables again. Every finished run leaves a small JSON record, from which `tables.py` makes the tables.
"""

import dataclasses
import hashlib
import json
import logging
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..io.files import write_json
from ..recipes import Recipe, make_recipe, read_yaml
from ..reports.finished_runs import read_report
from ..training.recipe_checks import load_recipe
from .published import TABLES


logger = logging.getLogger(__name__)

# A record lists how its run differs from the packaged recipe, except in these fields.
SAME_TABLE_ROW = ("name", "description", "paper", "table_row", "published", "seeds", "base_model", "train_fraction")
HIDDEN_METRICS = ("per_label", "confusions")


def reproduce(
    table: str,
    base_model: str | None = None,
    seeds: int = 3,
    data_dir: str | Path | None = None,
    recipes: Sequence[str] | None = None,
    overrides: Sequence[str] = (),
    train_fraction: float | None = None,
    output: str | Path = "runs/reproduction",
    records: str | Path = "benchmarks/reproduction",
    judges: Sequence[str | Path] = (),
    contexts: int = 1000,
    bertscore_model: str | None = None,
) -> list[Path]:
    """
    Run the recipes of a published table, one seed after the other. Finished seeds are not run again.

    Args:
        table: one of `TABLES`.
        base_model: replaces the recipes' own.
        seeds: number of seeds of each recipe, counted from its first; the baselines have one.
        recipes: some of the table's recipes; default: all.
        overrides: "key=value" for every recipe.
        train_fraction: share of the training rows; default: the recipes' and overrides' own.
        output: folder of the run folders.
        records: folder of the records.
        judges, contexts, bertscore_model: for generators, see `evaluate_replies`; without judges only perplexity is measured.

    Returns:
        the paths of the records.

    Raises:
        ValueError: the table is unknown, or a recipe is not in it; the run folder belongs to another encoder of the same name.
    """
    from ..runs.train import train

    rows = recipes_of(table, recipes)
    if seeds < 1:
        raise ValueError(f"`seeds` must be at least 1, got {seeds}.")
    overrides = list(overrides)
    if train_fraction is not None:
        overrides.append(f"train_fraction={train_fraction:.10f}")  # YAML takes 1e-05 for a string
    if base_model is not None:
        overrides.append(f"base_model={json.dumps(str(base_model))}")
    written = []
    for name in rows:
        if name.startswith("baseline/"):
            first = next(row for row in TABLES[table].recipes if not row.startswith("baseline/"))
            recipe = load_recipe(first, overrides)
            written.append(_run_baseline(name, first, recipe, Path(records) / table, data_dir))
            continue
        recipe = load_recipe(name, overrides)
        for seed in range(recipe.seeds[0], recipe.seeds[0] + seeds):
            one = dataclasses.replace(recipe, seeds=[seed])
            path, folder = places(table, name, one, output, records)
            _check_encoder(folder, one.base_model)
            if path.is_file() and not (judges and _lacks_replies(path)):
                logger.warning("%s seed %d is on record already: %s", name, seed, path)
                written.append(path)
                continue
            if not (folder / "metrics.json").is_file():
                logger.warning("%s, seed %d -> %s", name, seed, folder)
                train(one, folder, data_dir=data_dir, resume=folder.exists())
            if judges and "teacher_forcing" in read_report(folder)["runs"][0].get("validation", {}):
                _evaluate_generator(folder, one, data_dir, judges, contexts, bertscore_model)
            written += collect(table, folder, records)
    return written


def places(
    table: str, name: str, recipe: Recipe, output: str | Path, records: str | Path, encoder: str | None = None
) -> tuple[Path, Path]:
    """The record and the run folder of one seed of a recipe. `encoder`: see `collect`."""
    named = recipe if encoder is None else dataclasses.replace(recipe, base_model=encoder)
    path = Path(records) / table / record_name(name, named)
    return path, Path(output) / table / path.stem


def _check_encoder(folder: Path, base_model: str) -> None:
    """ValueError if a run folder belongs to another encoder: records and run folders know local encoders only by name."""
    if (folder / "recipe.yaml").is_file():
        other = read_yaml((folder / "recipe.yaml").read_text(encoding="utf-8")).get("base_model", base_model)
        if Path(other).resolve() != Path(base_model).resolve():
            raise ValueError(
                f"`base_model` is {base_model!r}, but the run in {folder} used {other!r}, which has the same name: choose another "
                "--records and --output, or rename the encoder's folder."
            )


def recipes_of(table: str, recipes: Sequence[str] | None) -> Sequence[str]:
    """Some of a table's recipes, or all; ValueError for another table or recipe."""
    if table not in TABLES:
        raise ValueError(f"`table` must be one of {list(TABLES)}, got {table!r}.")
    unknown = [name for name in recipes or () if name not in TABLES[table].recipes]
    if unknown:
        raise ValueError(f"`recipes` must be some of {list(TABLES[table].recipes)}, got {unknown}.")
    return recipes or TABLES[table].recipes


def collect(
    table: str, run: str | Path, records: str | Path = "benchmarks/reproduction", encoder: str | None = None
) -> list[Path]:
    """
    Write the record of each seed of a finished run folder. For a generator it includes the folder's `evaluation.json`, which holds
    what `evaluate --json` prints.

    Args:
        encoder: name of the base model in the record; default: its Hub id, or the name of its folder.

    Raises:
        FileNotFoundError: no finished run folder.
        ValueError: no recipe of the table has the run's name.
    """
    run = Path(run)
    report = read_report(run)
    recipe = make_recipe(read_yaml((run / "recipe.yaml").read_text(encoding="utf-8")), str(run / "recipe.yaml"))
    names = {load_recipe(name).name: name for name in recipes_of(table, None) if not name.startswith("baseline/")}
    if recipe.name not in names:
        raise ValueError(f"{run} has the recipe {recipe.name!r}, but the table {table!r} has {list(names)}.")
    name = names[recipe.name]
    if encoder is not None:
        recipe = dataclasses.replace(recipe, base_model=encoder)
    written = []
    for seed in report["runs"]:
        metrics = _shown_metrics(seed)
        record = {
            "recipe": name,
            "seed": seed["seed"],
            "encoder": encoder_name(recipe.base_model),
            "changed": changed_settings(name, recipe),
            "train_fraction": float(recipe.train_fraction),
            "rows": report["rows"],
            "texts of test also in train": report["duplicates"].get("train & test"),
            "epochs": seed["epochs"],
            "minutes": seed["train_minutes"],
            "metrics": metrics,
            "environment": report.get("environment"),
        }
        fixed = seed.get("test", {}).get("fixed", {})
        if "per_label" in fixed:
            record["per_label_f1"] = {label: values["f1"] for label, values in fixed["per_label"].items()}
            record["confusions"] = fixed.get("confusions", [])[:8]
        evaluation = run / "evaluation.json"
        if evaluation.is_file():
            metrics.setdefault("test", {})["replies"] = _flat_replies(
                json.loads(evaluation.read_text(encoding="utf-8"))
            )
        one = dataclasses.replace(recipe, seeds=[seed["seed"]])
        path = Path(records) / table / record_name(name, one)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, record)
        written.append(path)
    return written


def _shown_metrics(run: dict[str, Any]) -> dict[str, dict[str, dict[str, Any]]]:
    """Split -> thresholds -> metric of a run, without long values."""
    return {
        split: {
            kind: {metric: value for metric, value in values.items() if metric not in HIDDEN_METRICS}
            for kind, values in run[split].items()
        }
        for split in ("validation", "test")
        if split in run
    }


def encoder_name(base_model: str) -> str:
    """The Hub id, or the name of a local folder."""
    return Path(base_model).name if Path(base_model).is_dir() else base_model


def changed_settings(name: str, recipe: Recipe) -> dict[str, Any]:
    """Settings of a run that differ from the packaged recipe: "training_arguments.learning_rate" -> value."""
    packaged, own = (_flat(dataclasses.asdict(one)) for one in (load_recipe(name), recipe))
    differing = {key for key in packaged.keys() | own.keys() if packaged.get(key) != own.get(key)}
    # A run changes the first to the second if the encoder, which every record names, is no BERT.
    if {packaged["model_type"], own["model_type"]} == {"label-aware-bert", "label-aware"}:
        differing -= {"model_type", "model_config.sentence_representation"}
    return {key: own.get(key) for key in sorted(differing) if key.split(".")[0] not in SAME_TABLE_ROW}


def _flat(values: dict[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, dict):
            flat |= {f"{key}.{inner}": item for inner, item in value.items()}
        else:
            flat[key] = value
    return flat


def record_name(name: str, recipe: Recipe) -> str:
    """The file name of a record: recipe, encoder, a digest of all other differences between runs, seed."""
    digest = _digest(recipe.train_fraction, changed_settings(name, recipe))
    encoder = _as_file_name(encoder_name(recipe.base_model))
    return f"{name.partition('/')[2]}-{encoder}-{digest}-seed-{recipe.seeds[0]}.json"


def _digest(train_fraction: float, changed: dict[str, Any]) -> str:
    settings = {"fraction": float(train_fraction), **changed}
    return hashlib.sha256(json.dumps(settings, sort_keys=True, default=str).encode()).hexdigest()[:6]


def _as_file_name(name: str) -> str:
    return re.sub(r"[^\w.-]", "_", name)


def _run_baseline(name: str, first: str, recipe: Recipe, folder: Path, data_dir) -> Path:
    """The record of a baseline over the corpus of a table's `first` recipe."""
    from ..runs.train import environment
    from .baselines import baseline

    kind = name.partition("/")[2]
    encoder = encoder_name(recipe.base_model) if kind == "frozen" else "-"
    read = ("dataset", "dataset_options", "threshold", *(("max_length",) if kind == "frozen" else ()))
    changed = {key: value for key, value in changed_settings(first, recipe).items() if key.split(".")[0] in read}
    stem = f"frozen-{_as_file_name(encoder)}" if kind == "frozen" else "tfidf"
    if changed or recipe.train_fraction < 1:
        stem += f"-{_digest(recipe.train_fraction, changed)}"
    path = folder / f"{stem}.json"
    if path.is_file():
        logger.warning("%s is on record already: %s", name, path)
        return path
    result = baseline(kind, recipe, data_dir)
    record = {
        "recipe": name,
        "seed": None,
        "encoder": encoder,
        "changed": {"C": result["C"], **changed},
        "train_fraction": float(recipe.train_fraction),
        "rows": result["rows"],
        "minutes": result["minutes"],
        "metrics": _shown_metrics(result),
        "environment": environment(use_cpu=True),
    }
    folder.mkdir(parents=True, exist_ok=True)
    write_json(path, record)
    return path


def _evaluate_generator(
    folder: Path, recipe: Recipe, data_dir, judges, contexts: int, bertscore_model: str | None
) -> None:
    from ..tasks.emotional_response.evaluating import evaluate_replies
    from ..tasks.emotional_response.predictor import ReplyGenerator

    path = folder / "evaluation.json"
    if not path.is_file():
        evaluation = evaluate_replies(
            ReplyGenerator(folder),
            recipe.dataset,
            data_dir=data_dir,
            judges=judges,
            contexts=contexts,
            bertscore_model=bertscore_model,
            options=recipe.dataset_options,
        )
        write_json(path, {key: value for key, value in evaluation.items() if key != "replies"})


def _lacks_replies(record: Path) -> bool:
    """Whether a record is for a generator whose replies were not judged."""
    metrics = json.loads(record.read_text(encoding="utf-8"))["metrics"]
    return "teacher_forcing" in metrics.get("validation", {}) and "replies" not in metrics.get("test", {})


def _flat_replies(evaluation: dict[str, Any]) -> dict[str, Any]:
    model = evaluation["rows"]["model"]
    flat: dict[str, Any] = {name: value for name, value in model.items() if isinstance(value, float)}
    for number, (judge, kinds) in enumerate(model["judges"].items(), 1):
        for name, value in kinds["all_emotions"].items():
            if isinstance(value, float):
                flat[name if number == 1 else f"{name} of judge {number}"] = value
        flat[f"judge {number}"] = Path(judge).name
    return {"contexts": evaluation["contexts"], "settings": evaluation["settings"], **flat}
