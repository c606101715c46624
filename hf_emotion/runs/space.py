# SPDX-License-Identifier: Apache-2.0
"""What a sweep tries of a recipe's fields, as Optuna's distributions."""

from typing import Any

from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from ..recipes import Recipe


# Another value of these changes what the trials are measured with (`shots`: the validation part, too), or is set by the sweep.
FIXED = {"name", "seeds", "dataset", "dataset_options", "shots", "max_eval_rows", "metric_for_best_model"}
FIXED |= {"one_model_per_context", "threshold"}
# If the loss compares the trials, another value of these changes what is compared.
OF_THE_LOSS = {"class_weights", "positive_weights", "soft_labels", "teachers", "label_smoothing_factor"}
OF_THE_LOSS |= {f"model_config.class_{name}" for name in ("balanced_beta", "balanced_normalize", "weights")}
FORMS = "write {low: 1, high: 9}, with `log: true` or a `step` if you like, or a list of values"


def read_space(space: Any, recipe: Recipe) -> dict[str, BaseDistribution]:
    """The distributions of a space, see `sweep`; ValueError for a key that may not differ, or for values of another form."""
    if not isinstance(space, dict) or not space:
        raise ValueError(f"a space needs a line `KEY: VALUES` for each field, got {space!r}: {FORMS}.")
    by_loss = str(recipe.training_arguments.get("metric_for_best_model")).removeprefix("eval_") == "loss"
    distributions: dict[str, BaseDistribution] = {}
    for name, values in space.items():
        key = str(name).removeprefix("training_arguments.")
        head = key.partition(".")[0]
        if head in FIXED or (by_loss and {head, key} & OF_THE_LOSS):
            raise ValueError(
                f"the space of `{key}`: it must be the same in all trials, because it changes what compares them."
            )
        try:
            distributions[key] = _distribution(values)
        except (TypeError, ValueError) as error:
            raise ValueError(f"the space of `{key}`, {values!r}: {error}; {FORMS}.") from error
    return distributions


def _distribution(values: Any) -> BaseDistribution:
    if isinstance(values, list) and not any(isinstance(value, (list, dict)) for value in values):
        return CategoricalDistribution([_number(value) for value in values])
    if not isinstance(values, dict) or not {"low", "high"} <= values.keys() <= {"low", "high", "log", "step"}:
        raise ValueError("neither a range nor a list of single values")
    numbers = {name: _number(value) for name, value in values.items()}
    integral = all(isinstance(value, int) for value in numbers.values())
    return (IntDistribution if integral else FloatDistribution)(**numbers)


def _number(value: Any) -> Any:
    """YAML reads 1e-4 (no point) as a text; here it is a number."""
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value
