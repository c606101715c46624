# SPDX-License-Identifier: Apache-2.0
"""Searches for a better recipe: trains it with other values of some fields, chosen by Optuna, and keeps the best by the validation part."""

import dataclasses
import logging
import os
import shutil
import time
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import yaml
from datasets import Dataset
from transformers import TrainerCallback

from ..data.splits import fingerprint
from ..io.extras import require
from ..io.files import locking, read_object, write_csv, write_json, write_text
from ..metrics import sign_of
from ..recipes import Recipe, make_recipe, read_yaml, set_field
from ..reports.figures import write_sweep
from ..tasks import task_of_rows
from ..tasks.loading import load_dataset_for
from ..training.fit import metric_of, watched_by
from ..training.recipe_checks import check_parts
from ..training.survive import check_same_data
from .train import check_output, train


if TYPE_CHECKING:
    from optuna import Trial as OptunaTrial
    from optuna.distributions import BaseDistribution


logger = logging.getLogger(__name__)

SETTINGS, TRIALS, BEST, PLOT = "sweep.yaml", "trials.json", "best.yaml", "sweep.png"
RANDOM_TRIALS = 5  # before Optuna's sampler models what was good, and before trials are pruned
SEED = 0


class Trial(TypedDict):
    """
    A trial: `state` is "complete", "pruned" or "failed", `dev` its metric on the validation part, if pruned the last one; `evaluations` its
    metric after each evaluation.
    """

    number: int
    state: str
    dev: float | None
    values: dict[str, Any]
    seconds: float
    error: str | None
    evaluations: list[float]


class Sweep(TypedDict):
    """A sweep: the number of the best trial, and its run folder."""

    name: str
    metric: str | None
    trials: list[Trial]
    best: int | None
    folder: str | None


def sweep(
    recipe: Recipe,
    space: Mapping[str, Any],
    trials: int = 20,
    output: str | Path | None = None,
    data_dir: str | Path | None = None,
    resume: bool = False,
) -> Sweep:
    """
    Train a recipe with other values of some fields and keep the best one by its metric on the validation part. The test part
    is not measured.

    Optuna's TPE chooses the values, at a fixed seed; a trial ends early if after an evaluation it is worse than the median of
    the earlier trials at the same evaluation (from the sixth trial on; not with `few_shot`). The first trial has the recipe's own
    values, where they lie in the space. A trial trains the first seed of the recipe.

    Args:
        recipe: see `load_recipe`.
        space: {key as in `train --set`: {"low": ..., "high": ...} or a list of values}. Between whole ends whole numbers are tried; with
            "log": True their logarithms are drawn evenly, with a "step" only multiples of it above "low".
        trials: number of trials, those before `resume` included.
        output: the folder, default `runs/NAME-sweep`; new or empty, unless `resume`. It gets `trials.csv`, `trials.json`, `best.yaml`
            (the recipe with the best values), `sweep.png`, the run folder of the best trial, and what `resume` needs.
        data_dir: see `load_dataset_for`.
        resume: go on in `output`; a trial that was interrupted is tried again from its start.

    Raises:
        FileExistsError, ValueError: as `train`; also for a space that does not fit the recipe, and if no trial ended.
    """
    require("optuna", "sweep", "sweep")
    if int(os.environ.get("WORLD_SIZE") or 1) > 1:
        raise ValueError("a sweep runs in one process: start it without torchrun or accelerate.")
    if recipe.one_model_per_context:
        raise ValueError("a sweep compares the evaluations of one training: set `one_model_per_context` to false.")
    from .space import read_space  # it needs Optuna

    distributions = read_space(space, recipe)
    for key, one in distributions.items():
        for value in getattr(one, "choices", None) or (one.low, one.high):  # each is checked before the first training
            with_values(recipe, {key: value})
    output = Path("runs") / f"{recipe.name}-sweep" if output is None else Path(output)
    settings: dict[str, Any] = {
        "recipe": dataclasses.asdict(recipe),
        "space": {key: repr(one) for key, one in distributions.items()},
    }
    check_output(
        output, SETTINGS, lambda text: {**(read_yaml(text) or {}), "data": 0} == {**settings, "data": 0}, resume
    )
    splits = load_dataset_for(recipe.dataset, data_dir, **recipe.dataset_options)
    splits.pop("test", None)
    settings["data"] = fingerprint(splits)
    if (output / SETTINGS).is_file():
        before = read_yaml((output / SETTINGS).read_text(encoding="utf-8"))
        check_same_data(before["data"], settings["data"], output)
    output.mkdir(parents=True, exist_ok=True)
    with locking(
        output, f"another process sweeps in {output}: wait until it has finished, or choose another --output."
    ):
        write_text(output / SETTINGS, yaml.safe_dump(settings, sort_keys=False, allow_unicode=True))
        result = Sweep(name=recipe.name, metric=None, trials=[], best=None, folder=None)
        if (output / TRIALS).is_file():
            result |= read_object(output / TRIALS, "delete the folder, and begin again")  # type: ignore[typeddict-item]
        while len(result["trials"]) < trials:
            _run_trial(result, recipe, distributions, trials, output, data_dir, splits["train"])
            _write(result, recipe, output)
        _write(result, recipe, output)  # also without a new trial: the folder may have moved
    if result["best"] is None:
        reasons = {str(trial["error"]) for trial in result["trials"]}
        raise ValueError(f"no trial of the sweep ended: {'; '.join(sorted(reasons))}. Change the recipe or the space.")
    write_sweep(output / PLOT, result, [(key, getattr(one, "log", False)) for key, one in distributions.items()])
    return result


def with_values(recipe: Recipe, values: Mapping[str, Any], **fields: Any) -> Recipe:
    """The recipe with other values, keys as in `train --set`, and other fields; ValueError for one that it refuses."""
    given = {**dataclasses.asdict(recipe), **fields}
    for key, value in values.items():
        set_field(given, key, value)
    return check_parts(make_recipe(given))


def own_values(recipe: Recipe, space: "Mapping[str, BaseDistribution]") -> dict[str, Any]:
    """The values that the recipe itself has for these fields, where they lie in the space."""
    fields = recipe.training_arguments | dataclasses.asdict(recipe)
    values = {}
    for key, one in space.items():
        head, _, rest = key.partition(".")
        value = fields.get(head)
        if rest:
            value = value.get(rest) if isinstance(value, dict) else None
        if hasattr(one, "choices"):
            inside = value in one.choices
        else:
            inside = isinstance(value, int | float) and one.low <= value <= one.high
        if inside:
            values[key] = value
    return values


def _next_trial(result: Sweep, recipe: Recipe, space: "Mapping[str, BaseDistribution]") -> "OptunaTrial":
    """The trial that Optuna asks for after those before it, and nothing else: an interrupted sweep goes on as if nothing had happened."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    sign = sign_of(result["metric"] or "")  # the study maximizes
    study = optuna.create_study(
        direction="maximize",
        sampler=optuna.samplers.TPESampler(seed=SEED + len(result["trials"]), n_startup_trials=RANDOM_TRIALS),
        pruner=optuna.pruners.MedianPruner(n_startup_trials=RANDOM_TRIALS),
    )
    for one in result["trials"]:
        values = [float("nan") if value is None else sign * value for value in one["evaluations"]]
        trial = optuna.trial.create_trial(
            state=optuna.trial.TrialState[{"failed": "FAIL"}.get(one["state"], one["state"].upper())],
            value=sign * one["dev"] if one["dev"] is not None and one["state"] == "complete" else None,
            params=one["values"],
            distributions=dict(space),
            intermediate_values=dict(enumerate(values)),
        )
        study.add_trial(trial)
    if not result["trials"]:
        study.enqueue_trial(own_values(recipe, space))
    return study.ask(dict(space))


def _run_trial(
    result: Sweep,
    recipe: Recipe,
    space: "Mapping[str, BaseDistribution]",
    total: int,
    output: Path,
    data_dir: str | Path | None,
    rows: Dataset,
) -> None:
    """Train once more, and add the trial to the sweep."""
    from optuna import TrialPruned

    number, watch, began = len(result["trials"]), Watch(_next_trial(result, recipe, space)), time.time()
    values = {key: watch.trial.params[key] for key in space}
    logger.warning("trial %d of %d: %s", number + 1, total, ", ".join(f"{key}={one}" for key, one in values.items()))
    folder = output / f"trial-{number}"
    shutil.rmtree(folder, ignore_errors=True)
    state, dev, reason = "complete", None, None
    try:
        own_recipe = with_values(recipe, values, name=f"{recipe.name}-trial-{number}", seeds=recipe.seeds[:1])
        # With methods for few rows several trainings follow each other, or none has evaluations: there is nothing to prune by.
        with nullcontext() if task_of_rows(rows).methods(own_recipe, rows) else watched_by(watch):
            report = train(own_recipe, folder, data_dir=data_dir, test=False)
        (run,) = report.runs
        result["metric"], dev = run.selected_by.removeprefix("eval_"), run.best_dev_metric
        if dev is None:
            raise FloatingPointError(f"`{result['metric']}` is not a number on the validation part")
    except TrialPruned:
        result["metric"], state, dev = watch.metric, "pruned", watch.values[-1]
    except (FloatingPointError, MemoryError, ValueError) as error:  # these values do not work; others may
        if isinstance(error, ValueError) and all(one["state"] == "failed" for one in result["trials"]):
            raise  # it may not come from the values
        state, reason = "failed", str(error) or type(error).__name__
        logger.warning("trial %d failed: %s", number + 1, error)
    seconds, seen = time.time() - began, watch.values
    result["trials"].append(
        Trial(number=number, state=state, dev=dev, values=values, seconds=seconds, error=reason, evaluations=seen)
    )


class Watch(TrainerCallback):
    """Reports every evaluation to a trial, and prunes it. `metric`, `values`: what selects the epoch, and how it was."""

    def __init__(self, trial: "OptunaTrial"):
        self.trial, self.metric = trial, "loss"
        self.values: list[float] = []

    def on_evaluate(self, args, state, control, metrics=None, **kwargs):
        from optuna import TrialPruned

        self.metric = metric_of(args)
        value = (metrics or {}).get(f"eval_{self.metric}", float("nan"))
        self.trial.report(sign_of(self.metric) * value, len(self.values))
        self.values.append(value)
        if state.global_step < state.max_steps and self.trial.should_prune():
            raise TrialPruned


def _write(result: Sweep, recipe: Recipe, output: Path) -> None:
    """Choose the best trial, write the table and its recipe, and delete the other trials' run folders."""
    sign, found = sign_of(result["metric"] or ""), result["trials"]
    complete = [
        (sign * one["dev"], -one["number"]) for one in found if one["state"] == "complete" and one["dev"] is not None
    ]
    if complete:
        result["best"] = best = -max(complete)[1]
        result["folder"] = str(output / f"trial-{best}")
        write_text(output / BEST, with_values(recipe, found[best]["values"]).to_yaml())
    write_json(output / TRIALS, result)
    rows = [
        [trial["number"], trial["state"], trial["dev"], f"{trial['seconds']:.1f}", *trial["values"].values()]
        for trial in found
    ]
    header = ["trial", "state", "dev", "seconds", *found[0]["values"]]
    write_csv((output / TRIALS).with_suffix(".csv"), header, [list(map(str, row)) for row in rows])
    for path in output.glob("trial-*"):
        if str(path) != result["folder"]:
            shutil.rmtree(path)
