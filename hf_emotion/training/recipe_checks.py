# SPDX-License-Identifier: Apache-2.0
"""Reads recipes and checks their corpus and model, which the schema in `hf_emotion.recipes` cannot check."""

import dataclasses
from collections.abc import Collection
from pathlib import Path

from huggingface_hub.dataclasses import type_validator
from transformers import CONFIG_MAPPING

import hf_emotion.modeling  # noqa: F401 - registers the Auto classes

from ..recipes import Recipe, check_key, find_recipe, read_recipe, source_of
from ..runtime.languages import check_languages
from ..tasks import TASKS, corpus_of, task_of_type


def load_recipe(name: str | Path, overrides: Collection[str] = ()) -> Recipe:
    """
    Read and check a recipe.

    Args:
        name: a path, or the name of a packaged recipe.
        overrides: "key=value", see `hf_emotion.recipes.read_recipe`.

    Raises:
        ValueError: an unknown or mistyped key, with the nearest valid one; a value of the wrong type; an unknown corpus or model.
    """
    return check_parts(read_recipe(name, overrides), source=source_of(find_recipe(name), overrides))


def check_parts(recipe: Recipe, source: str = "recipe") -> Recipe:
    """The recipe, with the fields that its task sets; ValueError, which names the source, for an unknown corpus, model or option."""
    try:
        corpus_of(recipe.dataset).check(recipe.dataset_options)
        names = [recipe.dataset, *recipe.dataset_options.get("corpora", ())]
        if (recipe.data_license or recipe.data_terms) and not any(corpus_of(name).own_files for name in names):
            raise ValueError("`data_license` and `data_terms` are for your own files: leave them out.")
        _check_model(recipe)
        check_languages(recipe.languages)
        for task in TASKS:
            if task.trains(recipe.model_type):
                task.check_recipe(recipe)
                fields = task.complete(recipe)
                if more := {name: fields[name] for name in fields if name not in recipe.model_config}:
                    recipe = dataclasses.replace(recipe, model_config=recipe.model_config | more)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{source}: {error}") from error
    return recipe


def over_base_model(recipe: Recipe) -> Recipe:
    """The recipe that `train` trains: checked, with the model type that fits its base model."""
    recipe = check_parts(recipe)
    task = task_of_type(recipe.model_type)
    return recipe if task is None else check_parts(task.over_base_model(recipe))


def _check_model(recipe: Recipe) -> None:
    if recipe.model_type is None:  # the base model's own configuration knows the fields
        return
    if task_of_type(recipe.model_type) is None:
        known = [name for task in TASKS for name in task.model_types]
        raise ValueError(f"unknown `model_type` {recipe.model_type!r}: None (the base model's own) or one of {known}.")
    fields = {name: field.type for name, field in CONFIG_MAPPING[recipe.model_type].__dataclass_fields__.items()}
    for key, value in recipe.model_config.items():
        check_key(key, list(fields), "model_config.")
        type_validator(f"model_config.{key}", value, fields[key])
