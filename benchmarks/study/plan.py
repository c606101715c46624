# SPDX-License-Identifier: Apache-2.0
"""
The plan of the study: a YAML file that lists the questions and the runs that answer them. Each run leaves a record; what is on record
is not run again, and an interrupted run goes on from its last checkpoint.
"""

import dataclasses
import json
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

from hf_emotion.recipes import Recipe, check_key, read_yaml
from hf_emotion.runs.reproduce import recipes_of
from hf_emotion.runs.train import train
from hf_emotion.runtime.names import METRICS
from hf_emotion.tasks.base import Table
from hf_emotion.training.recipe_checks import load_recipe

from .records import RECORDS, collect, places
from .tables import read_records


logger = logging.getLogger(__name__)

RUNS = Path("runs/reproduction")
KEYS = ("question", "table", "recipes", "encoder", "first", "set", "seeds")


@dataclasses.dataclass(frozen=True)
class PlannedRun:
    """One seed of one recipe. `first`: recipe and run folder of a training whose model is its base model. `minutes`: from its records."""

    question: str
    table: str
    name: str
    recipe: Recipe
    encoder: str
    record: Path
    folder: Path
    first: list[tuple[Recipe, Path]]
    minutes: float | None

    @property
    def state(self) -> str:
        """ "on record", "begun" or "to run"."""
        if self.record.is_file():
            return "on record"
        return "begun" if self.folder.exists() else "to run"


def read_plan(
    path: Path, encoders: Mapping[str, str] = {}, output: Path = RUNS, records: Path = RECORDS
) -> list[PlannedRun]:
    """
    Read a plan, whose encoders are perhaps elsewhere. It has `encoders`, which gives each encoder's name in the records its Hub id (or folder);
    and `runs`, a list of entries with `question`, `table`, `recipes` (default: all of the table), `encoder`, `set` (overrides as in `hf-emotion
    train --set`) and `seeds` (their number, default 3). With `first`, other overrides, each seed is trained with those first, and with `set`
    from there on. Raises ValueError for an unknown key, table, recipe or encoder.
    """
    plan = read_yaml(path.read_text(encoding="utf-8"))
    if not isinstance(plan, dict) or set(plan) != {"encoders", "runs"}:
        raise ValueError(f"{path}: a plan has the keys `encoders` and `runs`, got {plan!r:.100}.")
    known = {**plan["encoders"], **encoders}
    if unknown := sorted(set(encoders) - set(plan["encoders"])):
        raise ValueError(f"`encoders` names {unknown}, and the plan has {list(plan['encoders'])}.")
    runs = [run for entry in plan["runs"] for run in _runs(entry, known, path, output, records)]
    records_of = [run.record for run in runs]
    if twice := [run for run in runs if records_of.count(run.record) > 1]:
        one = f"{twice[0].name} over {twice[0].encoder}, seed {twice[0].recipe.seeds[0]}"
        remedy = "leave one out, or, if they differ in `first`, give one another name in `encoders`."
        raise ValueError(f"{path}: {one}, is planned twice (under {twice[0].question!r}): {remedy}")
    return runs


def _runs(entry: dict, encoders: Mapping[str, str], path: Path, output: Path, records: Path) -> Iterator[PlannedRun]:
    for key in entry:
        check_key(key, KEYS)
    if missing := [key for key in ("question", "table", "encoder") if key not in entry]:
        raise ValueError(f"{path}: a run lacks {missing}, got {entry!r:.200}.")
    table, encoder, seeds = entry["table"], entry["encoder"], entry.get("seeds", 3)
    if type(seeds) is not int or seeds < 1:
        raise ValueError(f"{path}: `seeds` must be a number of at least 1, got {seeds!r}.")
    if encoder not in encoders:
        raise ValueError(f"{path}: `encoder` must be one of {list(encoders)}, got {encoder!r}.")
    base_model, names = f"base_model={json.dumps(encoders[encoder])}", recipes_of(table, entry.get("recipes"))
    on_record = [record for record in read_records(table, records) if record["encoder"] == encoder]
    for name in names:
        recipe = load_recipe(name, [*(entry.get("set") or ()), base_model])
        minutes = _minutes(name, recipe, on_record)
        for seed in range(recipe.seeds[0], recipe.seeds[0] + seeds):
            one, first = dataclasses.replace(recipe, seeds=[seed]), []
            if "first" in entry:
                own = load_recipe(name, [*(entry["first"] or ()), base_model, f"seeds=[{seed}]"])
                _, base = places(table, name, own, output, records, encoder)
                first, one = [(own, base)], dataclasses.replace(one, base_model=str(base))
            record, folder = places(table, name, one, output, records, encoder)
            yield PlannedRun(entry["question"], table, name, one, encoder, record, folder, first, minutes)


def _minutes(name: str, recipe: Recipe, on_record: list[dict[str, Any]]) -> float | None:
    """The mean of the runs on record (of the recipe, if there are some), per epoch over all rows, times the epochs and the share of this run."""
    found = [one for one in on_record if one["minutes"] and one.get("epochs")]
    found = [one for one in found if one["recipe"] == name] or found
    each = [one["minutes"] / one["epochs"] / one["train_fraction"] for one in found]
    epochs = recipe.training_arguments.get("num_train_epochs", 3)
    return fmean(each) * epochs * recipe.train_fraction if each else None


def table(runs: list[PlannedRun]) -> Table:
    """The runs as a table: one row per question, recipe, encoder and state."""
    rows: dict[tuple[str, ...], list[PlannedRun]] = {}
    for run in runs:
        rows.setdefault((run.question, run.name, run.encoder, run.state), []).append(run)
    cells = []
    for key, group in rows.items():
        minutes, seeds = group[0].minutes, ", ".join(str(run.recipe.seeds[0]) for run in group)
        cells.append([*key, seeds, "not known" if minutes is None else f"{minutes:.0f}"])
    return Table(["question", "recipe", "encoder", "state", "seeds", "minutes each"], cells)


def left(runs: list[PlannedRun]) -> str:
    """What is left, in words."""
    open_runs = [run for run in runs if run.state != "on record"]
    known = [run.minutes for run in open_runs if run.minutes is not None]
    unknown = len(open_runs) - len(known)
    more = f", and {unknown} that nothing on record resembles" if unknown else ""
    done = f"{len(runs) - len(open_runs)} of {len(runs)} runs are on record"
    return f"{done}; left: {len(known)} runs of about {sum(known):.0f} minutes{more}."


def run_plan(runs: list[PlannedRun], data_dir: Path | None = None) -> list[Path]:
    """Train what is not on record, in the order of the plan, and write the records."""
    written = []
    for run in runs:
        if run.state == "on record":
            continue
        finished = (run.folder / METRICS).is_file()  # what came `first` may be deleted then
        for recipe, folder in () if finished else (*run.first, (run.recipe, run.folder)):
            if not (folder / METRICS).is_file():
                logger.warning("%s over %s, seed %d -> %s", run.name, run.encoder, recipe.seeds[0], folder)
                train(recipe, folder, data_dir=data_dir, resume=folder.exists())
        written += collect(run.table, run.folder, run.record.parent.parent, run.encoder)
    return written
