# SPDX-License-Identifier: Apache-2.0
"""Recipes whose corpus and model are checked, too: the schema alone (`hf_emotion.recipes`) knows neither."""

from collections.abc import Iterable
from pathlib import Path

from huggingface_hub.dataclasses import type_validator

from ..data import check_dataset
from ..recipes import Recipe, check_key, find_recipe, read_recipe
from .models import model_config_fields


def load_recipe(name: str | Path, overrides: Iterable[str] = ()) -> Recipe:
    """
    Read and check a recipe.

    Args:
        name: a path, or the name of a packaged recipe.
        overrides: "key=value", see `hf_emotion.recipes.read_recipe`.

    Raises:
        ValueError: an unknown or mistyped key, with the nearest valid one; a value of the wrong type; an unknown corpus or model.
    """
    return check_parts(read_recipe(name, overrides), source=str(find_recipe(name)))


def check_parts(recipe: Recipe, source: str = "recipe") -> Recipe:
    """The recipe; ValueError, which names the source, unless its corpus, its model and the options of both are known."""
    try:
        check_dataset(recipe.dataset, recipe.dataset_options)
        known = model_config_fields(recipe.model_type)
        for key, value in recipe.model_config.items():
            if known is None:
                break
            check_key(key, known, "model_config.")
            try:
                type_validator(f"model_config.{key}", value, known[key])
            except TypeError as error:
                raise ValueError(str(error)) from error
    except ValueError as error:
        raise ValueError(f"{source}: {error}") from error
    return recipe


__all__ = ["check_parts", "load_recipe"]
