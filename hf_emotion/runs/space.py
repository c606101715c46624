# SPDX-License-Identifier: Apache-2.0
"""What a sweep tries: each field of a recipe with its values, `KEY=LOW..HIGH`, `KEY=LOW..HIGH:log` or `KEY=VALUE,VALUE`."""

import dataclasses
import math
import re
from collections.abc import Iterable
from typing import Any

import yaml

from ..recipes import Recipe, apply_override, make_recipe, read_value, read_yaml
from ..training.recipe_checks import check_parts


# Another value of these changes what the trials are measured with, or is set by the sweep.
FIXED = (
    "name",
    "seeds",
    "dataset",
    "dataset_options",
    "shots",  # of the validation part, too
    "max_eval_rows",
    "metric_for_best_model",
    "one_model_per_context",
    "threshold",
)
# If the loss compares the trials, another value of these changes what is compared.
OF_THE_LOSS = (
    "class_weights",
    "positive_weights",
    "soft_labels",
    "teachers",
    "label_smoothing_factor",
    "model_config.class_balanced_beta",
    "model_config.class_balanced_normalize",
    "model_config.class_weights",
)
WHOLE = ("adapter.r", "adapter.lora_alpha")  # fields of PEFT that only take whole numbers
RANGE = re.compile(r"(?P<low>[^,]+?)\.\.(?P<high>[^,:]+)(?P<log>:log)?")


@dataclasses.dataclass(frozen=True)
class Dimension:
    """
    A field and its values: `choices`, or else the numbers from `low` to `high`.

    Attributes:
        key: as `train --set` takes it.
        whole: whether only whole numbers are drawn.
        log: whether their logarithms are drawn evenly.
    """

    key: str
    low: float = 0.0
    high: float = 0.0
    whole: bool = False
    log: bool = False
    choices: tuple[Any, ...] = ()


def read_space(texts: Iterable[str], recipe: Recipe) -> list[Dimension]:
    """
    Read and check a space.

    Args:
        texts: one for each field.
        recipe: must take every end of a range and every choice.

    Raises:
        ValueError: a text of another form, an unknown key or a value that the recipe refuses, a reversed range, a logarithm of 0, a
            single value, a key given twice.
    """
    found: dict[str, Dimension] = {}
    for text in texts:
        key, separator, values = text.partition("=")
        if not separator or not key or not values:
            raise ValueError(
                f"a space has the form KEY=LOW..HIGH, KEY=LOW..HIGH:log or KEY=VALUE,VALUE, got {text!r}."
            )
        if key.partition(".")[0] in FIXED or key.removeprefix("training_arguments.") in FIXED:
            raise ValueError(f"the space {text!r}: `{key}` must be the same in all trials: set it in the recipe.")
        key = key.removeprefix("training_arguments.")
        by_loss = str(recipe.training_arguments.get("metric_for_best_model")).removeprefix("eval_") == "loss"
        if by_loss and any(key == name or key.startswith(f"{name}.") for name in OF_THE_LOSS):
            raise ValueError(
                f"the space {text!r}: `{key}` changes the loss, and `metric_for_best_model` compares the trials by it: name another metric."
            )
        if key in found:
            raise ValueError(f"the space names `{key}` twice: join both.")
        match = RANGE.fullmatch(values.strip())
        found[key] = _range(key, text, match, recipe) if match else _choices(key, text, values, recipe)
    if not found:
        raise ValueError("a sweep needs a space: give --space KEY=LOW..HIGH or KEY=VALUE,VALUE at least once.")
    return list(found.values())


def _range(key: str, text: str, match: re.Match[str], recipe: Recipe) -> Dimension:
    try:
        low, high = float(match["low"]), float(match["high"])
    except ValueError:
        raise ValueError(f"the space {text!r}: the ends of a range must be numbers.") from None
    log = match["log"] is not None
    if not (math.isfinite(low) and math.isfinite(high)) or low >= high:
        raise ValueError(f"the space {text!r}: the first number must be less than the second one.")
    if log and low <= 0:
        raise ValueError(f"the space {text!r}: a range with :log must begin above 0.")
    # Recipes do not check the types of fields that belong to PEFT or to a stock configuration.
    ints = key in WHOLE or type(_own(dataclasses.asdict(recipe), key)) is int
    whole = low.is_integer() and high.is_integer() and (ints or not _takes(recipe, key, low + 0.5))
    dimension = Dimension(key, low, high, whole, log)
    for end in (low, high):
        with_values(recipe, {key: int(end) if whole else end})
    return dimension


def _choices(key: str, text: str, values: str, recipe: Recipe) -> Dimension:
    if re.search(r"[\[{'\"]", values):
        try:
            choices = read_yaml(f"[{values}]")
        except ValueError as error:
            raise ValueError(f"the space {text!r} has no valid YAML values: {error}") from error
    else:
        choices = [_number(read_value(part.strip())) for part in values.split(",")]
    if len({yaml.safe_dump(choice) for choice in choices}) < max(2, len(choices)):
        raise ValueError(f"the space {text!r} needs at least two different values, or set the one by --set.")
    for choice in choices:
        with_values(recipe, {key: choice})
    return Dimension(key, choices=tuple(choices))


def _number(value: Any) -> Any:
    """YAML reads 1e-4 (no point) as a string; here it is a number."""
    return float(value) if isinstance(value, str) and re.fullmatch(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+", value) else value


def _takes(recipe: Recipe, key: str, value: Any) -> bool:
    try:
        with_values(recipe, {key: value})
    except ValueError:
        return False
    return True


def with_values(recipe: Recipe, values: dict[str, Any], **fields: Any) -> Recipe:
    """The recipe with other values, keys as in `train --set`, and other fields; ValueError for one that it refuses."""
    given = {**dataclasses.asdict(recipe), **fields}
    for key, value in values.items():
        text = yaml.safe_dump(value, default_flow_style=True, width=math.inf).partition("\n...")[0].strip()
        apply_override(given, f"{key}={text}")
    return check_parts(make_recipe(given))


def _own(fields: dict[str, Any], key: str) -> Any:
    """What a recipe has for a key; None for nothing."""
    head, _, rest = key.partition(".")
    if not rest:
        return {**fields["training_arguments"], **fields}.get(key)
    return fields[head].get(rest) if isinstance(fields[head], dict) else None


def own_values(recipe: Recipe, space: list[Dimension]) -> dict[str, Any] | None:
    """The values that the recipe itself has, if it sets every field of the space to a value in it; else None."""
    fields = dataclasses.asdict(recipe)
    own = {}
    for dimension in space:
        value = _own(fields, dimension.key)
        if dimension.choices:
            same = [
                one for one in dimension.choices if one == value and isinstance(one, bool) == isinstance(value, bool)
            ]
            inside, value = bool(same), same[0] if same else None
        else:
            inside = isinstance(value, int | float) and dimension.low <= value <= dimension.high
        if value is None or not inside:
            return None
        own[dimension.key] = value
    return own
