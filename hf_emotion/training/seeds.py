# SPDX-License-Identifier: Apache-2.0
"""Trains one seed of a recipe, for any task."""

import dataclasses
import logging
import shutil
import time
from pathlib import Path
from typing import cast

import numpy as np
import torch
from datasets import ClassLabel, DatasetDict
from transformers import CONFIG_MAPPING, EarlyStoppingCallback, TrainingArguments, set_seed

from ..data.splits import fingerprint, label_names
from ..data.votes import COLUMN as VOTES
from ..io.files import filling, read_object, write_json
from ..recipes import Recipe
from ..run_report import Contexts, SeedRun, best_run
from ..runtime.loading import auto_class_of
from ..tasks.base import HeldOut, LabelPredictor, Part, Prepared, Task
from ..tasks.checkpoints import load_any
from ..tasks.held_out import held_out
from ..tasks.saving import save_model
from .adapters import FOLDER as ADAPTER
from .adapters import save_adapter, with_adapter
from .fit import fit, measured, training_arguments
from .losses import loss_of, weights_of
from .progress import run_of_its_own, say_less
from .survive import check_same_data, diverged
from .trainer import EmotionTrainer


logger = logging.getLogger(__name__)

CHECKED_ROWS = 40  # whole groups of 4 (SentiHood) and of 5 rows (SemEval-2014), which the metrics need


def train_seed(
    task: Task,
    recipe: Recipe,
    seed: int,
    folder: Path,
    splits: DatasetDict,
    resume: bool,
    recipe_file: Path,
    main_process: bool,
) -> tuple[SeedRun, HeldOut | None]:
    """Train one seed and return its entry in `runs` and its predictions. Only the main process predicts and writes."""
    parts = task.parts(recipe, splits)
    if parts is not None:
        return _train_parts(task, recipe, seed, folder, splits, resume, recipe_file, main_process, parts)
    fitted = _fit_best if recipe.few_shot else fit_model
    trainer, prepared, run = fitted(task, recipe, seed, folder / "checkpoints", splits, resume, recipe_file)
    if recipe.adapter and main_process:
        save_adapter(trainer.model, folder / ADAPTER, recipe.base_model)
    return run, task.finish(recipe, run, trainer, prepared, splits, folder if main_process else None)


def fit_model(
    task: Task,
    recipe: Recipe,
    seed: int,
    checkpoints: Path,
    splits: DatasetDict,
    resume: bool,
    recipe_file: Path,
    part: Contexts | None = None,
    method: str | None = None,
) -> tuple[EmotionTrainer, Prepared, SeedRun]:
    """Train one model, by a `method` for few rows if there is one: its trainer (with the best weights), what was prepared, its entry."""
    set_seed(seed)
    whole, start = recipe, time.perf_counter()
    if method is not None:
        recipe = dataclasses.replace(recipe, few_shot=[method])
    one_label = task.selects_labels and isinstance(splits["train"].features.get("labels"), ClassLabel)
    smoothed = recipe.training_arguments.get("label_smoothing_factor") and task.labelled
    for name, wrong in (
        ("inverse_frequency_sampling", recipe.inverse_frequency_sampling and not one_label),
        ("label_smoothing_factor", smoothed and task.gold(splits["train"]).ndim == 2),
    ):
        if wrong:
            raise ValueError(
                f"`{name}` is for rows with one label, and those of this corpus have more, or none: leave it out."
            )
    arguments = training_arguments(
        TrainingArguments, recipe, checkpoints, seed, **task.arguments(recipe, splits["train"])
    )
    weights = weights_of(task, recipe, splits["train"])
    own_loss, prepared_for = loss_of(recipe, weights), recipe
    type_ = recipe.model_type
    if weights and type_ is not None and "class_weights" in CONFIG_MAPPING[type_].__dataclass_fields__:
        # The model's own loss has weights.
        own_loss = None
        prepared_for = dataclasses.replace(recipe, class_weights=None, model_config=recipe.model_config | weights)
    prepared = task.prepare(prepared_for, splits, arguments.main_process_first, part)
    _check_metric(recipe, prepared)
    # Rows are evaluated in the order of their lengths, which saves padding; `measure` puts them back in their own order.
    order = np.arange(len(prepared.validation))
    if "length" in prepared.validation.column_names:
        order = np.argsort(prepared.validation["length"], kind="stable")

    def measure(prediction) -> dict[str, float]:
        values, labels = np.asarray(prediction.predictions), np.asarray(prediction.label_ids)
        if len(values) == len(order):
            values, labels = _in_order(values, order), _in_order(labels, order)
        if trainer.lr_scheduler is not None and values.dtype.kind == "f" and not np.isfinite(values).all():
            raise diverged(trainer, float("nan"))
        figures = prepared.measure(values, labels)
        return {name: value for name, value in figures.items() if isinstance(value, float | int)}

    patience = recipe.early_stopping_patience
    model = prepared.model
    if recipe.adapter:
        model = with_adapter(model, recipe.adapter, auto_class_of(model.config, task.auto_class))
    data = fingerprint(splits)  # takes time: the Trainer makes the folder, and soon after that the recipe lies in it
    trainer = EmotionTrainer(
        model=model,
        args=arguments,
        train_dataset=prepared.train,
        eval_dataset=prepared.validation.select(order),
        processing_class=prepared.tokenizer,
        data_collator=prepared.collate,
        compute_loss_func=own_loss or prepared.loss,
        compute_metrics=measure,
        preprocess_logits_for_metrics=prepared.reduce_logits,
        callbacks=[] if patience is None else [EarlyStoppingCallback(patience)],
    )
    trainer.inverse_frequency_sampling = recipe.inverse_frequency_sampling
    say_less(trainer, checkpoints.parent if method is None else checkpoints.parent.parent, method)
    before = (time.perf_counter() - start) / 60
    with run_of_its_own(trainer):
        if any(parameter.requires_grad for parameter in model.parameters()):
            run = fit(trainer, whole, seed, checkpoints, resume, recipe_file, data)
        else:
            run = measured(trainer, whole, seed, recipe_file, data)
    if method is not None:
        run.train_minutes += before
    names = label_names(splits["train"]) if weights else ()
    for name, values in weights.items():
        setattr(run, name, dict(zip(names, values, strict=True)))
    return trainer, prepared, run


def _fit_best(
    task: Task, recipe: Recipe, seed: int, checkpoints: Path, splits: DatasetDict, resume: bool, recipe_file: Path
) -> tuple[EmotionTrainer, Prepared, SeedRun]:
    """Train one model by each of the recipe's methods for few rows; returns what `fit_model` returns of the one best on the validation part."""
    best: tuple[EmotionTrainer, Prepared, SeedRun] | None = None
    chosen = ""
    runs: dict[str, SeedRun] = {}
    for method in recipe.few_shot:
        fitted = fit_model(task, recipe, seed, checkpoints / method, splits, resume, recipe_file, method=method)
        runs[method] = run = fitted[2]
        shown = "not a number" if run.best_dev_metric is None else f"{run.best_dev_metric:.3f}"
        logger.warning("%s: %s on the validation part %s", method, run.selected_by, shown)
        if best is None or best_run([best[2], run]) is run:
            best, chosen = fitted, method
    assert best is not None
    if len(runs) > 1:
        logger.warning("%s is kept", chosen)
    best[2].few_shot = {
        "chosen": chosen,
        "tried": {
            method: {"best_dev_metric": run.best_dev_metric, "train_minutes": run.train_minutes}
            for method, run in runs.items()
        },
    }
    best[2].train_minutes = sum(run.train_minutes for run in runs.values())
    return best


def _check_metric(recipe: Recipe, prepared: Prepared) -> None:
    """ValueError for a `metric_for_best_model` that is not measured; the Trainer would notice only after the first epoch."""
    metric = recipe.training_arguments.get("metric_for_best_model")
    if metric is None or metric.removeprefix("eval_") == "loss":
        return
    rows = prepared.validation.select(range(min(len(prepared.validation), CHECKED_ROWS)))
    batch = prepared.collate(list(rows))
    batch.pop(VOTES, None)
    with torch.no_grad():
        logits = prepared.model.eval()(**batch).logits
    if prepared.reduce_logits is not None:
        logits = prepared.reduce_logits(logits, batch["labels"])
    try:
        figures = prepared.measure(logits.float().numpy(), batch["labels"].numpy())
    except ValueError:  # these few rows may all lack a label; the Trainer sees all rows
        return
    known = [name for name, value in figures.items() if isinstance(value, float | int)]
    if metric.removeprefix("eval_") not in known:
        raise ValueError(
            f"`metric_for_best_model` {metric!r} is not measured on {recipe.dataset}: choose one of {['loss', *known]}, or leave it out."
        )


def _in_order(values: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Undoes the sorting: `values` are in the order `order`, the result is in the order of the rows."""
    result = np.empty_like(values)
    result[order] = values
    return result


def _train_parts(
    task: Task,
    recipe: Recipe,
    seed: int,
    folder: Path,
    splits: DatasetDict,
    resume: bool,
    recipe_file: Path,
    main_process: bool,
    parts: list[Part],
) -> tuple[SeedRun, HeldOut | None]:
    """Train one model for each part, in its own folder, unless it is finished: the joint entry in `runs`, and all probabilities."""
    num_labels = len(label_names(splits["train"]))
    probabilities = {
        split: np.zeros((len(rows), num_labels), np.float32) for split, rows in splits.items() if split != "train"
    }
    entries = []
    for number, part in enumerate(parts, 1):
        place = folder / part.name
        rows = DatasetDict({split: splits[split].select(part.rows[split]) for split in splits})
        finished = place / "run.json"
        if not (resume and finished.is_file()):
            if main_process:
                logger.warning("%s, model %d of %d", part.name, number, len(parts))
            trainer, prepared, run = fit_model(
                task, recipe, seed, place / "checkpoints", rows, resume, recipe_file, part.contexts
            )
            entries.append(run)
            if recipe.adapter and main_process:
                save_adapter(trainer.model, place / ADAPTER, recipe.base_model)
            model = trainer.whole_model()
            if not main_process:
                continue
            with filling(place) as temporary:
                save_model(model, prepared.tokenizer, temporary)
            write_json(finished, run.to_dict())
            shutil.rmtree(place / "checkpoints", ignore_errors=True)
        else:
            entries.append(
                SeedRun.from_dict(read_object(finished, "remove it, and this model is trained again"), str(finished))
            )
            check_same_data(entries[-1].data, fingerprint(rows), finished)
        if not main_process:
            continue
        predictor = cast(LabelPredictor, task.predictor(*load_any(str(place)), max_length=recipe.max_length))
        for split, scores in probabilities.items():
            if len(part.rows[split]):
                scores[part.rows[split]] = predictor.of_rows(rows[split], progress=True)
    metrics = [entry.best_dev_metric for entry in entries]
    run = SeedRun(
        seed=seed,
        train_minutes=sum(entry.train_minutes for entry in entries),
        resumed=any(entry.resumed for entry in entries),
        data=fingerprint(splits),
        epochs=entries[0].epochs,
        # A mean over fewer models says something else.
        best_dev_metric=None if None in metrics else float(np.mean(np.array(metrics, dtype=np.float64))),
        selected_by=entries[0].selected_by,
        best_step=None,
        history=[],
        contexts=entries,
    )
    return run, held_out(recipe, run, probabilities, splits, folder) if main_process else None
