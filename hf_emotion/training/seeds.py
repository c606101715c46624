# SPDX-License-Identifier: Apache-2.0
"""Trains one seed of a recipe, for any task."""

import dataclasses
import logging
import math
import shutil
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import cast

import numpy as np
import torch
from datasets import ClassLabel, Dataset, DatasetDict
from transformers import CONFIG_MAPPING, EarlyStoppingCallback, EvalPrediction, TrainingArguments, set_seed

from ..data.splits import fingerprint, label_names
from ..data.votes import COLUMN as VOTES
from ..io.files import filling, read_object, write_json
from ..recipes import WEIGHTS, Recipe
from ..run_report import Contexts, SeedRun, best_run
from ..runtime.loading import auto_class_of
from ..tasks.base import Fitted, HeldOut, Part, Prepared, Task
from ..tasks.checkpoints import load_any, save_model
from ..tasks.held_out import held_out
from ..tasks.predictor import LabelPredictor
from ..tasks.rows import gold_of
from .adapters import FOLDER as ADAPTER
from .adapters import save_adapter, with_adapter
from .fit import fit, measured, training_arguments
from .losses import training_loss, weights_of
from .progress import run_of_its_own, say_less
from .survive import check_same_data
from .trainer import EmotionTrainer


logger = logging.getLogger(__name__)

CHECKED_ROWS = 40  # whole groups of 4 (SentiHood) and of 5 rows (SemEval-2014), which the metrics need


@dataclass(frozen=True, kw_only=True)
class SeedTraining:
    """
    One seed of a recipe.

    Attributes:
        folder: where its checkpoint belongs.
        recipe_file: where the recipe is written before the first step.
        resume: whether to go on from the last checkpoint.
        main_process: whether this process predicts and writes.
        part: the contexts of a model that has its own.
        method: the method for few rows.
    """

    task: Task
    recipe: Recipe
    splits: DatasetDict
    seed: int
    folder: Path
    recipe_file: Path
    resume: bool
    main_process: bool
    part: Contexts | None = None
    method: str | None = None

    @property
    def checkpoints(self) -> Path:
        """The Trainer's folder."""
        return self.folder / "checkpoints" / (self.method or "")

    def run(self) -> tuple[SeedRun, HeldOut | None]:
        """Train and return the entry in `runs` and the predictions. Only the main process predicts and writes."""
        parts = self.task.parts(self.recipe, self.splits)
        if parts is not None:
            return self._each(parts)
        methods = self.task.methods(self.recipe, self.splits["train"])
        fitted = self._best_method(methods) if methods else self.fit()
        self._save_adapter(fitted)
        folder = self.folder if self.main_process else None
        return fitted.run, self.task.finish(self.recipe, fitted, self.splits, folder)

    def fit(self) -> Fitted:
        """Train one model."""
        set_seed(self.seed)
        start = time.perf_counter()
        recipe, train = self.recipe, self.splits["train"]
        if self.method is not None:
            recipe = dataclasses.replace(recipe, few_shot=[self.method])
        self._check_labels()
        own = self.task.arguments(recipe, train)
        arguments = training_arguments(TrainingArguments, recipe, self.checkpoints, self.seed, **own)
        weights = weights_of(self.task, recipe, train)
        prepared_for, type_ = recipe, recipe.model_type
        # In the place of the model's own, for what that does not do.
        loss = partial(training_loss, **weights) if weights or recipe.soft_labels or recipe.teachers else None
        if weights and type_ is not None and "class_weights" in CONFIG_MAPPING[type_].__dataclass_fields__:
            # The model's own loss has weights.
            loss = None
            prepared_for = dataclasses.replace(recipe, class_weights=None, model_config=recipe.model_config | weights)
        prepared = self.task.prepare(prepared_for, self.splits, arguments.main_process_first, self.part)
        _check_metric(recipe, prepared)
        model, patience = prepared.model, recipe.early_stopping_patience
        if any(getattr(module, "peft_config", None) for module in model.modules()):
            wanted = "merge it with PEFT (`merge_and_unload`), and save the model again"
            raise ValueError(f"the base model {recipe.base_model!r} has an adapter beside its weights: {wanted}.")
        if recipe.adapter:
            model = with_adapter(model, recipe.adapter, auto_class_of(model.config, self.task.auto_class))
        # Takes time: the Trainer makes the folder, and soon after that the recipe lies in it.
        data = fingerprint(self.splits)
        order = by_length(prepared.validation)
        trainer = EmotionTrainer(
            model=model,
            args=arguments,
            train_dataset=prepared.train,
            eval_dataset=prepared.validation.select(order),
            processing_class=prepared.tokenizer,
            data_collator=prepared.collate,
            compute_loss_func=loss or prepared.loss,
            compute_metrics=partial(_measure, prepared, order),
            preprocess_logits_for_metrics=prepared.reduce_logits,
            callbacks=[] if patience is None else [EarlyStoppingCallback(patience)],
        )
        trainer.inverse_frequency_sampling = recipe.inverse_frequency_sampling
        say_less(trainer, self.folder, self.method)
        before = (time.perf_counter() - start) / 60
        with run_of_its_own(trainer):
            trains = any(parameter.requires_grad for parameter in model.parameters())
            run = fit(self, trainer, data) if trains else measured(self, trainer, data)
        if self.method is not None:
            run.train_minutes += before
        names = label_names(train) if weights else []
        by_label = {name: dict(zip(names, values, strict=True)) for name, values in weights.items()}
        run.class_weights, run.positive_weights = (by_label.get(name) for name in WEIGHTS)
        return Fitted(trainer, prepared, run)

    def _check_labels(self) -> None:
        """ValueError for a field that is for rows with one label, where these have more, or none."""
        recipe, train = self.recipe, self.splits["train"]
        one_label = self.task.selects_labels and isinstance(train.features.get("labels"), ClassLabel)
        smoothed = recipe.training_arguments.get("label_smoothing_factor") and self.task.labelled
        for name, wrong in (
            ("inverse_frequency_sampling", recipe.inverse_frequency_sampling and not one_label),
            ("label_smoothing_factor", smoothed and not gold_of(train).single_label),
        ):
            if wrong:
                raise ValueError(
                    f"`{name}` is for rows with one label, and those of this corpus have more, or none: leave it out."
                )

    def _best_method(self, methods: list[str]) -> Fitted:
        """
        Train one model by each of the methods for few rows: the one that is best on the validation part, or an earlier one that is at most
        one standard error worse (Breiman et al. 1984), as few rows would often choose the costlier one by chance.
        """
        best: Fitted | None = None
        chosen = ""
        runs: dict[str, SeedRun] = {}
        for method in methods:
            fitted = dataclasses.replace(self, method=method).fit()
            runs[method] = run = fitted.run
            shown = "not a number" if run.best_dev_metric is None else f"{run.best_dev_metric:.3f}"
            logger.warning("%s: %s on the validation part %s", method, run.selected_by, shown)
            if best is None or _is_clearly_better(run, best.run, len(self.splits["validation"])):
                best, chosen = fitted, method
        assert best is not None
        if len(runs) > 1:
            beaten = best_run(runs.values()) is not best.run
            logger.warning("%s is kept%s", chosen, ": no later one is better by a standard error" if beaten else "")
        best.run.few_shot = {
            "chosen": chosen,
            "tried": {
                method: {"best_dev_metric": run.best_dev_metric, "train_minutes": run.train_minutes}
                for method, run in runs.items()
            },
        }
        best.run.train_minutes = sum(run.train_minutes for run in runs.values())
        return best

    def _each(self, parts: list[Part]) -> tuple[SeedRun, HeldOut | None]:
        """Train one model for each part, in its own folder, unless it is finished: the joint entry in `runs`, and all probabilities."""
        classes = len(label_names(self.splits["train"]))
        probabilities = {
            split: np.zeros((len(rows), classes), np.float32)
            for split, rows in self.splits.items()
            if split != "train"
        }
        entries = []
        for number, part in enumerate(parts, 1):
            rows = DatasetDict({split: own.select(part.rows[split]) for split, own in self.splits.items()})
            own = dataclasses.replace(self, splits=rows, folder=self.folder / part.name, part=part.contexts)
            entries.append(own._one_of(f"{part.name}, model {number} of {len(parts)}"))
            if not self.main_process:
                continue
            loaded = load_any(str(own.folder))
            predictor = cast(LabelPredictor, self.task.predictor(*loaded, max_length=self.recipe.max_length))
            for split, scores in probabilities.items():
                if len(part.rows[split]):
                    scores[part.rows[split]] = predictor.of_rows(rows[split], progress=True)
        metrics = [entry.best_dev_metric for entry in entries]
        run = SeedRun(
            seed=self.seed,
            train_minutes=sum(entry.train_minutes for entry in entries),
            resumed=any(entry.resumed for entry in entries),
            data=fingerprint(self.splits),
            epochs=entries[0].epochs,
            # A mean over fewer models says something else.
            best_dev_metric=None if None in metrics else float(np.mean(np.array(metrics, dtype=np.float64))),
            selected_by=entries[0].selected_by,
            best_step=None,
            history=[],
            contexts=entries,
        )
        if not self.main_process:
            return run, None
        return run, held_out(self.recipe, run, probabilities, self.splits, self.folder)

    def _one_of(self, title: str) -> SeedRun:
        """Train one of several models and write its checkpoint, or read the facts of a finished one."""
        finished = self.folder / "run.json"
        if self.resume and finished.is_file():
            values = read_object(finished, "remove it, and this model is trained again")
            run = SeedRun.from_dict(values, str(finished))
            check_same_data(run.data, fingerprint(self.splits), finished)
            return run
        if self.main_process:
            logger.warning(title)
        fitted = self.fit()
        self._save_adapter(fitted)
        model = fitted.trainer.whole_model()
        if self.main_process:
            with filling(self.folder) as temporary:
                save_model(model, fitted.prepared.tokenizer, temporary)
            write_json(finished, fitted.run.to_dict())
            shutil.rmtree(self.checkpoints, ignore_errors=True)
        return fitted.run

    def _save_adapter(self, fitted: Fitted) -> None:
        if self.recipe.adapter and self.main_process:
            save_adapter(fitted.trainer.model, self.folder / ADAPTER, self.recipe.base_model)


def by_length(rows: Dataset) -> np.ndarray:
    """(N,) numbers of rows in the order of their lengths, which saves padding."""
    return np.argsort(rows["length"], kind="stable") if "length" in rows.column_names else np.arange(len(rows))


def _measure(prepared: Prepared, order: np.ndarray, prediction: EvalPrediction) -> dict[str, float]:
    """The figures of predictions for the validation rows in this order; `measure` gets them in their own."""
    values, labels = np.asarray(prediction.predictions), np.asarray(prediction.label_ids)
    if len(values) == len(order):
        back = np.argsort(order)
        values, labels = values[back], labels[back]
    figures = prepared.measure(values, labels)
    return {name: value for name, value in figures.items() if isinstance(value, float | int)}


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


def _is_clearly_better(run: SeedRun, kept: SeedRun, rows: int) -> bool:
    """By more than a standard error of a share of that many rows. Of a metric that is not a share, or is better when lower: if it is better."""
    found, before = run.best_dev_metric, kept.best_dev_metric
    if best_run([kept, run]) is kept:
        return False
    if found is None or before is None or not 0 <= before < found <= 1:
        return True
    return found - before > math.sqrt(found * (1 - found) / rows)
