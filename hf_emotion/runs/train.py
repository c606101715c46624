# SPDX-License-Identifier: Apache-2.0
"""Runs a recipe: trains its seeds, writes the reports and the run folder."""

import dataclasses
import logging
import os
import platform
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
import transformers
from datasets import DatasetDict

from ..data.splits import fingerprint
from ..io.files import filling, is_taken, locking
from ..metrics.significance import over_seeds
from ..recipes import Recipe
from ..reports import classification, figures
from ..reports.card import write_card
from ..reports.certainty import calibrated
from ..reports.finished_runs import examples, read_predictions
from ..reports.html_report import write_report
from ..run_report import Environment, RunReport, SeedRun, Summary, best_run
from ..runtime.unread import said_once
from ..tasks.base import HeldOut, Task
from ..tasks.corpus_metrics import agreement_of
from ..tasks.held_out import labelled_units
from ..tasks.rows import class_counts, duplicates_between_splits
from ..training.recipe_checks import over_base_model
from ..training.seeds import SeedTraining
from ..training.survive import check_same_data, explained, remove_leftovers
from ..training.training_rows import check_data, few_rows, rows_of


logger = logging.getLogger(__name__)


def train(
    recipe: Recipe,
    output: str | Path | None = None,
    data_dir: str | Path | None = None,
    resume: bool = False,
    splits: DatasetDict | None = None,
    test: bool = True,
) -> RunReport:
    """
    Train every seed of a recipe, evaluate, and write the run folder; return what its `metrics.json` holds.

    The folder holds a checkpoint that AutoModel can load (with several seeds: the checkpoint of the best one on the
    validation part, and a folder `seed-N` for each), `metrics.json`, `predictions.parquet`, `recipe.yaml`, `README.md` (the
    model card), classification report and confusion matrix of the test part as text and PNG, and two plots.

    Args:
        recipe: see `load_recipe`.
        output: the run folder, default `runs/NAME`; must be new or empty, unless `resume`.
        data_dir: local folder with the corpora, see `load_dataset_for`.
        resume: continue an interrupted run in `output` from its last checkpoint; finished seeds are kept, and so is a finished run.
        splits: the parts train and, if there are any, validation and test, to use instead of the recipe's `dataset`. Texts have the columns
            `text` and `labels` (or `label`): `ClassLabel` or strings, or lists of them if a row may have several; `load_dataset_for` lists the
            columns of the other tasks. Without `id` the rows are numbered; without a validation part a tenth of the training part is set
            aside.
        test: whether to measure the test part, too.

    Raises:
        FileExistsError: `output` holds something and `resume` is not set; another process trains in it.
        ValueError: `resume` with another recipe than the one in `output`; `splits` that lack a column.
        OSError, MemoryError, FloatingPointError: no disk space, no memory, a training that diverged; the message says what to do.
        SystemExit: with code 143: the process got SIGTERM during the training; the checkpoint is written.
    """
    if not isinstance(recipe, Recipe):
        raise TypeError(
            f"`recipe` must be a Recipe, got {recipe!r}: write load_recipe(NAME) for a packaged one or a file."
        )
    output = Path("runs") / recipe.name if output is None else Path(output)
    with explained(output), _alone_in(output), said_once():
        return _train(recipe, output, data_dir, resume, splits, test)


@contextmanager
def _alone_in(output: Path) -> Iterator[None]:
    """Keep other trainings out of the run folder (the first process holds the lock); remove a new folder that stays empty."""
    if int(os.environ.get("RANK", "0")) or output.is_file():
        yield
        return
    new = not output.exists()
    output.mkdir(parents=True, exist_ok=True)
    taken = f"another process trains in {output}: wait until it has finished, or choose another --output."
    try:
        with locking(output, taken):
            yield
    finally:
        if new and not any(output.iterdir()):
            output.rmdir()


def _train(
    recipe: Recipe, output: Path, data_dir: str | Path | None, resume: bool, splits: DatasetDict | None, test: bool
) -> RunReport:
    main_process = int(os.environ.get("RANK", "0")) == 0
    if not main_process:  # with several processes, only the first one logs
        logging.getLogger("hf_emotion").setLevel(logging.ERROR)
    recipe = over_base_model(recipe)
    recipe_file = output / "recipe.yaml"
    if splits is not None:
        recipe = dataclasses.replace(recipe, dataset_options={})  # given splits take no options
    if main_process:
        check_output(output, recipe_file.name, recipe.to_yaml().__eq__, resume)
    task, rows = rows_of(recipe, data_dir, splits, test)
    of_seed = {seed: few_rows(task, recipe, rows, seed) for seed in recipe.seeds}
    whole = output / "metrics.json"
    if resume and whole.is_file():  # what was added to the run since (rules, analyses, an edited card) stays
        report = RunReport.read(output)
        for run in report.runs:
            check_same_data(run.data, fingerprint(of_seed[run.seed]), whole)
        if main_process:
            logger.warning("%s is finished already: its files stay as they are", output)
            remove_leftovers(output)  # of a process that was killed right after the last file
        return report
    if main_process:  # each warning is given once
        check_data(task, of_seed[recipe.seeds[0]])
    folders = {seed: output if len(recipe.seeds) == 1 else output / f"seed-{seed}" for seed in recipe.seeds}
    runs = []
    for number, (seed, folder) in enumerate(folders.items(), 1):
        if main_process and len(folders) > 1:
            logger.warning("seed %d, %d of %d", seed, number, len(folders))
        finished, own = folder / "metrics.json", of_seed[seed]
        if resume and finished.is_file():
            logger.warning("seed %d is finished already", seed)
            (earlier,) = RunReport.read(folder).runs
            check_same_data(earlier.data, fingerprint(own), finished)
            runs.append(earlier)
            continue
        run, held_out = SeedTraining(
            task=task,
            recipe=recipe,
            splits=own,
            seed=seed,
            folder=folder,
            recipe_file=recipe_file,
            resume=resume,
            main_process=main_process,
        ).run()
        runs.append(run)
        if held_out is not None:
            _write_classification_report(recipe, seed, folder, held_out)
        if main_process and len(recipe.seeds) > 1:
            _report(task, recipe, own, runs[-1:]).write(folder)
            # with one model for each context, each model writes its own
            shutil.rmtree(folder / "checkpoints", ignore_errors=True)
    rows = of_seed[best_run(runs).seed]
    report = _report(task, recipe, rows, runs)
    if main_process:
        _finish(recipe, output, folders, report, rows)
        remove_leftovers(output)  # only when all is written: --resume needs the checkpoints
    return report


def check_output(output: Path, file: str, same: Callable[[str], bool], resume: bool) -> None:
    """Refuse a folder that holds something, but with `resume` one whose `file` says that the `same` command began it."""
    if resume and (output / file).is_file():
        if not same((output / file).read_text(encoding="utf-8")):
            raise ValueError(
                f"--resume: {output / file} is not the recipe of this command. Give the same as before, or another --output."
            )
    elif is_taken(output):
        raise FileExistsError(
            f"--resume: nothing was started in {output} (it has no {file}): choose another with --output."
            if resume
            else f"the folder {output} exists and is not empty: choose another with --output, or go on in it with --resume."
        )


def _write_classification_report(recipe: Recipe, seed: int, folder: Path, held_out: HeldOut) -> None:
    """Write report and confusion matrix of the test part, or of the validation part if there is none; nothing without any label."""
    split = "test" if "test" in held_out.probabilities else "validation"
    gold = held_out.gold[split]
    if gold.counts(len(held_out.names)).any():
        title = f"{recipe.name}, {split}, seed {seed}"
        with filling(folder) as temporary:
            classification.write_reports(
                temporary, title, gold, held_out.probabilities[split], held_out.names, held_out.thresholds
            )


def _report(task: Task, recipe: Recipe, splits: DatasetDict, runs: list[SeedRun]) -> RunReport:
    known = {field.name for field in dataclasses.fields(RunReport)}
    return RunReport(
        **{field.name: getattr(recipe, field.name) for field in dataclasses.fields(recipe) if field.name in known},
        task=task.name,
        rows={split: len(dataset) for split, dataset in splits.items()},
        duplicates=duplicates_between_splits(task, splits),
        class_counts=class_counts(task, splits["train"]),
        agreement=agreement_of(splits),
        contexts=task.contexts(splits["train"]),
        summary=summarize(runs),
        runs=runs,
        environment=environment(bool(recipe.training_arguments.get("use_cpu"))),
    )


def summarize(runs: list[SeedRun]) -> Summary:
    """Every plain figure over the seeds, see `over_seeds`."""
    summary: Summary = {}
    for split in ("validation", "test"):
        for kind in runs[0].figures(split):
            figures = [run.metrics(split, kind) for run in runs]
            spreads = {metric: over_seeds([own[metric] for own in figures]) for metric in figures[0]}
            if spreads:
                summary.setdefault(split, {})[kind] = spreads
    return summary


def environment(use_cpu: bool) -> Environment:
    """Versions and hardware of a run."""
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() and not use_cpu else "CPU",
        "threads": torch.get_num_threads(),
    }


def _finish(recipe: Recipe, output: Path, folders: dict[int, Path], report: RunReport, splits: DatasetDict) -> None:
    best = report.best
    if len(folders) > 1:  # the seed that was best on the validation part stands for the run
        with filling(output) as temporary:
            for path in folders[best.seed].iterdir():
                if path.is_file() and path.name not in ("metrics.json", "README.md", "recipe.yaml"):
                    shutil.copyfile(path, temporary / path.name)
                elif (path / "adapter_config.json").is_file():
                    shutil.rmtree(output / path.name, ignore_errors=True)  # left by an interrupted process
                    shutil.copytree(path, temporary / path.name)
    figures.write_plots(output, report, best)
    split, shown, calibration = report.measured_split, None, None
    if (output / "predictions.parquet").is_file():
        found = read_predictions(output, split, best.multi_label)
        shown = examples(found, labelled_units(splits[split])[2], best.thresholds)
        calibration = calibrated(report, split, [found])
    write_report(output, report, examples=shown, calibration=calibration)
    write_card(output, recipe, report, best)
    report.write(output)  # last: its presence says that the run is whole
