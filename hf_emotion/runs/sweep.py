# SPDX-License-Identifier: Apache-2.0
"""Searches for a better recipe: trains it with other values of some fields, chosen by Optuna, and keeps the best by the validation part."""

import dataclasses
import logging
import os
import shutil
import time
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import yaml
from transformers import TrainerCallback

from ..data.splits import fingerprint
from ..io.extras import require
from ..io.files import locking, write_csv, write_json, write_text
from ..metrics import sign_of
from ..recipes import Recipe, make_recipe, read_yaml, set_field
from ..reports.figures import write_sweep
from ..tasks.loading import load_dataset_for
from ..training.fit import metric_of, watched_by
from ..training.recipe_checks import check_parts
from ..training.survive import check_same_data
from .train import check_output, train


if TYPE_CHECKING:
    from optuna import Study
    from optuna.distributions import BaseDistribution
    from optuna.trial import Trial as OptunaTrial


logger = logging.getLogger(__name__)

JOURNAL, SETTINGS, TRIALS, BEST, PLOT = "trials.journal", "sweep.yaml", "trials", "best.yaml", "sweep.png"
RANDOM_TRIALS = 5  # before Optuna's sampler models what was good, and before trials are pruned
SEED = 0


class Trial(TypedDict):
    """A trial: `state` is "complete", "pruned" or "failed", `dev` its metric on the validation part, if pruned the last one."""

    number: int
    state: str
    dev: float | None
    values: dict[str, Any]
    seconds: float
    error: str | None


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
    from optuna.distributions import distribution_to_json

    from .space import read_space  # it needs Optuna

    distributions = read_space(space, recipe)
    for key, one in distributions.items():
        for value in getattr(one, "choices", None) or (one.low, one.high):  # each is checked before the first training
            with_values(recipe, {key: value})
    output = Path("runs") / f"{recipe.name}-sweep" if output is None else Path(output)
    settings: dict[str, Any] = {
        "recipe": dataclasses.asdict(recipe),
        "space": {key: distribution_to_json(one) for key, one in distributions.items()},
        "data": None,
    }
    check_output(output, SETTINGS, lambda text: _settings_in(text) | {"data": None} == settings, resume)
    splits = load_dataset_for(recipe.dataset, data_dir, **recipe.dataset_options)
    splits.pop("test", None)
    settings["data"] = fingerprint(splits)
    if (output / SETTINGS).is_file():
        before = _settings_in((output / SETTINGS).read_text(encoding="utf-8"))
        check_same_data(before.get("data"), settings["data"], output)
    output.mkdir(parents=True, exist_ok=True)
    with locking(
        output, f"another process sweeps in {output}: wait until it has finished, or choose another --output."
    ):
        write_text(output / SETTINGS, yaml.safe_dump(settings, sort_keys=False, allow_unicode=True))
        study = _open_study(output, recipe)
        while len(done := _done(study)) < trials:
            _run_trial(study, recipe, distributions, len(done), trials, output, data_dir)
            _write(study, recipe, distributions, output)
        result = _write(study, recipe, distributions, output)
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
        inside = (
            value in one.choices
            if hasattr(one, "choices")
            else isinstance(value, int | float) and one.low <= value <= one.high
        )
        if inside:
            values[key] = value
    return values


def _settings_in(text: str) -> dict[str, Any]:
    """The recipe and the space of a sweep, and the fingerprint of its corpus."""
    return read_yaml(text) or {}


def _open_study(output: Path, recipe: Recipe) -> "Study":
    """The study in the folder; trials that were running when it stopped count as failed and are tried again."""
    import optuna
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    # This process holds the folder's lock: one that a killed process left is stale.
    for left in output.glob(f"{JOURNAL}.lock*"):
        left.unlink()
    _drop_torn_line(output / JOURNAL)
    backend = JournalFileBackend(str(output / JOURNAL), JournalFileOpenLock(str(output / JOURNAL)))
    study = optuna.create_study(
        storage=JournalStorage(backend),
        study_name=recipe.name,
        direction="maximize",
        pruner=optuna.pruners.MedianPruner(n_startup_trials=RANDOM_TRIALS),
        load_if_exists=True,
    )
    for trial in study.get_trials(states=(optuna.trial.TrialState.RUNNING,)):
        study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
    return study


def _drop_torn_line(journal: Path) -> None:
    """Cut a last line that a killed process wrote only in part: Optuna would refuse what follows it."""
    if journal.is_file():
        content = journal.read_bytes()
        if content and not content.endswith(b"\n"):
            journal.write_bytes(content[: content.rfind(b"\n") + 1])


def _done(study: "Study") -> list[Any]:
    """The trials that count: all but those that were interrupted."""
    return [
        trial
        for trial in study.trials
        if trial.state.is_finished() and (trial.state.name != "FAIL" or "error" in trial.user_attrs)
    ]


def _run_trial(
    study: "Study",
    recipe: Recipe,
    space: "Mapping[str, BaseDistribution]",
    number: int,
    total: int,
    output: Path,
    data_dir: str | Path | None,
) -> None:
    import optuna

    # The trial depends on those before it alone, so that an interrupted sweep goes on as if nothing had happened.
    study.sampler = optuna.samplers.TPESampler(seed=SEED + number, n_startup_trials=RANDOM_TRIALS)
    if number == 0 and not study.get_trials(states=(optuna.trial.TrialState.WAITING,)):
        study.enqueue_trial(own_values(recipe, space))
    trial = study.ask(dict(space))
    values = {key: trial.params[key] for key in space}
    trial.set_user_attr("values", values)
    trial.set_user_attr("began", time.time())
    logger.warning(
        "trial %d of %d: %s", number + 1, total, ", ".join(f"{key}={value}" for key, value in values.items())
    )
    folder = output / f"trial-{trial.number}"
    shutil.rmtree(folder, ignore_errors=True)
    watch = Watch(trial)
    state, value = optuna.trial.TrialState.COMPLETE, None
    try:
        own_recipe = with_values(recipe, values, name=f"{recipe.name}-trial-{trial.number}", seeds=recipe.seeds[:1])
        # With `few_shot` several trainings follow each other, or none has evaluations: there is nothing to prune by.
        with nullcontext() if own_recipe.few_shot else watched_by(watch):
            report = train(own_recipe, folder, data_dir=data_dir, test=False)
        (run,) = report.runs
        metric, dev = run.selected_by.removeprefix("eval_"), run.best_dev_metric
        trial.set_user_attr("metric", metric)
        if dev is None:
            raise FloatingPointError(f"`{metric}` is not a number on the validation part")
        value = sign_of(metric) * dev  # the study maximizes
        trial.set_user_attr("dev", dev)
    except optuna.TrialPruned:
        state = optuna.trial.TrialState.PRUNED
        trial.set_user_attr("dev", watch.last)
        trial.set_user_attr("metric", watch.metric)
    except (FloatingPointError, MemoryError, ValueError) as error:  # these values do not work; others may
        if isinstance(error, ValueError) and not any(one.state.name in ("COMPLETE", "PRUNED") for one in study.trials):
            raise  # it may not come from the values
        state = optuna.trial.TrialState.FAIL
        trial.set_user_attr("error", str(error) or type(error).__name__)
        logger.warning("trial %d failed: %s", number + 1, error)
    trial.set_user_attr("seconds", time.time() - trial.user_attrs["began"])
    study.tell(trial, value, state=state)
    best = _best(study)
    for path in output.glob("trial-*"):
        if best is None or path.name != f"trial-{best.number}":
            shutil.rmtree(path)


class Watch(TrainerCallback):
    """Reports every evaluation to a trial, and prunes it. `metric`, `last`: what selects the epoch, and its last value."""

    def __init__(self, trial: "OptunaTrial"):
        self.trial, self.metric = trial, "loss"
        self.step, self.last = 0, float("nan")

    def on_evaluate(self, args, state, control, metrics=None, **kwargs):
        import optuna

        self.metric = metric_of(args)
        self.last = (metrics or {}).get(f"eval_{self.metric}", float("nan"))
        self.step += 1
        self.trial.report(sign_of(self.metric) * self.last, self.step)
        if state.global_step < state.max_steps and self.trial.should_prune():
            raise optuna.TrialPruned


def _best(study: "Study") -> Any:
    complete = [trial for trial in study.trials if trial.state.name == "COMPLETE"]
    return max(complete, key=lambda trial: trial.value, default=None)


def _write(study: "Study", recipe: Recipe, space: Iterable[str], output: Path) -> Sweep:
    """Write the table and the best recipe, and return the table."""
    states = {"COMPLETE": "complete", "PRUNED": "pruned", "FAIL": "failed"}
    found: list[Trial] = [
        {
            "number": trial.number,
            "state": states[trial.state.name],
            "dev": trial.user_attrs.get("dev"),
            "values": trial.user_attrs["values"],
            "seconds": trial.user_attrs["seconds"],
            "error": trial.user_attrs.get("error"),
        }
        for trial in _done(study)
    ]
    best = _best(study)
    metrics = [trial.user_attrs["metric"] for trial in study.trials if "metric" in trial.user_attrs]
    result: Sweep = {
        "name": recipe.name,
        "metric": metrics[-1] if metrics else None,
        "trials": found,
        "best": None if best is None else best.number,
        "folder": None if best is None else str(output / f"trial-{best.number}"),
    }
    write_json(output / f"{TRIALS}.json", result)
    header = ["trial", "state", "dev", "seconds", *space]
    rows = [
        [str(trial["number"]), trial["state"], str(trial["dev"]), f"{trial['seconds']:.1f}"]
        + [str(trial["values"][key]) for key in space]
        for trial in found
    ]
    write_csv(output / f"{TRIALS}.csv", header, rows)
    if best is not None:
        write_text(output / BEST, with_values(recipe, best.user_attrs["values"]).to_yaml())
    return result
