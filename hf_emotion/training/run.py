# SPDX-License-Identifier: Apache-2.0
"""Recipe -> stock Trainer -> run folder."""

import json
import logging
import os
import platform
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import torch
import transformers
from datasets import Dataset, DatasetDict
from transformers import (
    EarlyStoppingCallback,
    PreTrainedTokenizerBase,
    Trainer,
    TrainingArguments,
    set_seed,
)
from transformers.trainer_utils import get_last_checkpoint

from .. import metrics
from ..data import duplicates_between_splits, is_multi_label, label_matrix, label_names, load_dataset_for
from ..data.text import multi_hot
from ..inference.predictor import Predictor
from ..recipes import Recipe
from .files import filling, write_json, write_text
from .models import build_classifier, load_base_tokenizer


logger = logging.getLogger(__name__)

TRAIN_FRACTION_SEED = 0  # one subset for all seeds, so that runs differ by their seed alone


class EmotionTrainer(Trainer):
    """The stock Trainer, sparing from weight decay also what the model names: the stock rule knows only norms and biases."""

    def get_decay_parameter_names(self, model) -> list[str]:
        spared = getattr(model, "_no_weight_decay_parameters", ())
        return [name for name in super().get_decay_parameter_names(model) if not any(part in name for part in spared)]


def train(
    recipe: Recipe, output: str | Path | None = None, data_dir: str | Path | None = None, resume: bool = False
) -> dict[str, Any]:
    """
    Train every seed of a recipe, evaluate, and write the run folder.

    The folder holds a checkpoint that AutoModel can load (with several seeds: that of the best one on the development
    split, and a folder `seed-N` for each), `metrics.json`, `predictions.parquet`, `recipe.yaml`, `README.md` (the model
    card) and two plots.

    Args:
        recipe: the recipe.
        output: the run folder, default `runs/NAME`; must be new or empty, unless `resume`.
        data_dir: local folder with the corpora, see `load_dataset_for`.
        resume: continue an interrupted run in `output` from its last checkpoint; finished seeds are kept.

    Returns:
        the content of `metrics.json`.

    Raises:
        FileExistsError: `output` holds something and `resume` is not set.
        ValueError: `resume` with another recipe than the one in `output`.
    """
    output = Path("runs") / recipe.name if output is None else Path(output)
    main_process = int(os.environ.get("RANK", "0")) == 0
    recipe_file = output / "recipe.yaml"
    if main_process:
        _check_output(output, recipe_file, recipe, resume)
    splits = load_dataset_for(recipe.dataset, data_dir, **recipe.dataset_options)
    if recipe.train_fraction < 1:
        rows = max(1, round(len(splits["train"]) * recipe.train_fraction))
        splits["train"] = splits["train"].shuffle(seed=TRAIN_FRACTION_SEED).select(range(rows))
    folders = {seed: output if len(recipe.seeds) == 1 else output / f"seed-{seed}" for seed in recipe.seeds}
    runs = []
    for seed, folder in folders.items():
        finished = folder / "metrics.json"
        if resume and finished.is_file():
            logger.warning("seed %d is finished already", seed)
            runs.append(json.loads(finished.read_text(encoding="utf-8"))["runs"][0])
            continue
        runs.append(_train_seed(recipe, seed, folder, splits, resume, recipe_file if main_process else None))
        if main_process and len(recipe.seeds) > 1:
            write_json(finished, _report(recipe, splits, runs[-1:]))
            shutil.rmtree(folder / "checkpoints")
    report = _report(recipe, splits, runs)
    if main_process:
        _finish(recipe, output, folders, report)
        shutil.rmtree(output / "checkpoints", ignore_errors=True)  # kept until all is written: --resume needs them
    return report


def _check_output(output: Path, recipe_file: Path, recipe: Recipe, resume: bool) -> None:
    if not resume:
        if output.exists() and (not output.is_dir() or any(output.iterdir())):
            raise FileExistsError(
                f"the run folder {output} exists and is not empty: choose another with --output, or continue it with --resume."
            )
    elif not recipe_file.is_file():
        if output.exists() and any(output.iterdir()):
            raise FileExistsError(
                f"--resume: {output} is no run folder (no recipe.yaml): choose another with --output."
            )
    elif recipe_file.read_text(encoding="utf-8") != recipe.to_yaml():
        raise ValueError(
            f"--resume: {recipe_file} is not the recipe of this command. Give the same recipe and overrides as before, or "
            "another --output."
        )


def _train_seed(
    recipe: Recipe, seed: int, folder: Path, splits: DatasetDict, resume: bool, recipe_file: Path | None
) -> dict[str, Any]:
    """Train one seed, write its checkpoint and predictions, and return its entry in `runs`."""
    set_seed(seed)
    names, multi_label = label_names(splits["train"]), is_multi_label(splits["train"])
    gold = {split: label_matrix(dataset) for split, dataset in splits.items()}
    tokenizer = load_base_tokenizer(recipe.base_model)
    model = build_classifier(
        recipe.base_model,
        recipe.model_type,
        recipe.model_config,
        tokenizer,
        names,
        multi_label,
        class_counts(splits["train"]),
        recipe.label_texts,
    )
    limit = model.config.max_position_embeddings
    if recipe.max_length > limit:
        raise ValueError(f"`max_length` is {recipe.max_length}, but {recipe.base_model} has {limit} positions.")

    checkpoints = folder / "checkpoints"
    arguments = _training_arguments(recipe, checkpoints, seed)
    with arguments.main_process_first(desc="tokenization"):
        encoded = {
            split: tokenize(dataset, tokenizer, recipe.max_length)
            for split, dataset in splits.items()
            if split != "test"
        }
    callbacks = []
    if recipe.early_stopping_patience is not None:
        callbacks.append(EarlyStoppingCallback(recipe.early_stopping_patience))
    trainer = EmotionTrainer(
        model=model,
        args=arguments,
        train_dataset=encoded["train"],
        eval_dataset=encoded["validation"],
        processing_class=tokenizer,
        data_collator=make_collator(tokenizer, len(names), multi_label),
        compute_metrics=_dev_metrics(names, multi_label, recipe.threshold),
        callbacks=callbacks,
    )
    if recipe_file is not None:  # not before everything that can be wrong with the input has been read
        write_text(recipe_file, recipe.to_yaml())
    last = get_last_checkpoint(str(checkpoints)) if resume and checkpoints.is_dir() else None
    result = trainer.train(resume_from_checkpoint=last)
    model = trainer.accelerator.unwrap_model(trainer.model)

    run: dict[str, Any] = {
        "seed": seed,
        "train_minutes": result.metrics["train_runtime"] / 60,
        "resumed": last is not None,
        "epochs": trainer.state.epoch,
        "best_dev_metric": trainer.state.best_metric,
        "best_step": trainer.state.best_global_step,
        "history": [entry for entry in trainer.state.log_history if "loss" in entry or "eval_loss" in entry],
    }
    if not trainer.is_world_process_zero():
        return run
    predictor = Predictor(model, tokenizer, max_length=recipe.max_length)
    probabilities = {
        split: predictor.probabilities(splits[split]["text"], progress=True) for split in splits if split != "train"
    }
    if multi_label:
        thresholds = metrics.tune_thresholds(gold["validation"], probabilities["validation"])
        model.config.thresholds = thresholds
        run["thresholds"] = dict(zip(names, thresholds, strict=True))
    for split, scores in probabilities.items():
        if multi_label:
            run[split] = {
                "fixed": metrics.goemotions(gold[split], scores, recipe.threshold, names),
                "tuned": metrics.goemotions(gold[split], scores, thresholds, names),
            }
        else:
            run[split] = {"argmax": metrics.classification(gold[split], scores, names)}
    with filling(folder) as temporary:
        model.save_pretrained(temporary)
        tokenizer.save_pretrained(temporary)
        _write_predictions(temporary / "predictions.parquet", splits, probabilities, names)
    return run


def class_counts(dataset: Dataset) -> list[int]:
    """Rows of each label, in label order."""
    gold = label_matrix(dataset)
    if is_multi_label(dataset):
        return gold.sum(axis=0, dtype=np.int64).tolist()
    return np.bincount(gold, minlength=len(label_names(dataset))).tolist()


def _training_arguments(recipe: Recipe, checkpoints: Path, seed: int) -> TrainingArguments:
    values = {
        "eval_strategy": "epoch",
        "save_strategy": "epoch",
        "save_total_limit": 1,
        "load_best_model_at_end": True,
        "metric_for_best_model": "macro_f1",
        "greater_is_better": True,
        "train_sampling_strategy": "group_by_length",
        "per_device_eval_batch_size": 64,
        "logging_steps": 50,
        "report_to": "none",
        "dataloader_pin_memory": torch.cuda.is_available(),
        "bf16": torch.cuda.is_available() and torch.cuda.is_bf16_supported(),
        **recipe.training_arguments,
    }
    # The collator drops the column `length`, which the sampler needs.
    return TrainingArguments(output_dir=str(checkpoints), seed=seed, remove_unused_columns=False, **values)


def tokenize(dataset: Dataset, tokenizer: PreTrainedTokenizerBase, max_length: int) -> Dataset:
    """Columns `input_ids`, `attention_mask`, `length`, `labels`; texts are cut to `max_length` tokens, with one counted warning."""

    def encode(batch: dict) -> dict:
        full = tokenizer(batch["text"], verbose=False)["input_ids"]
        encoded = tokenizer(batch["text"], truncation=True, max_length=max_length, return_token_type_ids=False)
        return {
            **encoded,
            "length": [len(ids) for ids in encoded["input_ids"]],
            "cut": [len(ids) > max_length for ids in full],
        }

    dataset = dataset.map(encode, batched=True, remove_columns=["id", "text"], desc="tokenizing")
    cut = sum(dataset["cut"])
    if cut:
        logger.warning("%d of %d texts are longer than %d tokens and are cut", cut, len(dataset), max_length)
    return dataset.remove_columns("cut")


def make_collator(
    tokenizer: PreTrainedTokenizerBase, num_labels: int, multi_label: bool
) -> Callable[[list[dict]], dict]:
    """A collator that pads to the longest row of the batch and makes labels (B, C) float, or (B,) int64 for single-label data."""

    def collate(rows: list[dict]) -> dict:
        batch = tokenizer.pad(
            [{"input_ids": row["input_ids"], "attention_mask": row["attention_mask"]} for row in rows],
            return_tensors="pt",
        )
        labels = [row["labels"] for row in rows]
        batch["labels"] = (
            torch.from_numpy(multi_hot(labels, num_labels)).float() if multi_label else torch.tensor(labels)
        )
        return batch

    return collate


DEV_METRICS = ("accuracy", "macro_f1", "micro_f1", "weighted_f1", "macro_average_precision")


def _dev_metrics(names: list[str], multi_label: bool, threshold: float) -> Callable:
    def compute(prediction) -> dict[str, float]:
        logits = torch.as_tensor(prediction.predictions).float()
        if multi_label:
            values = metrics.goemotions(prediction.label_ids, logits.sigmoid().numpy(), threshold, names)
        else:
            values = metrics.classification(prediction.label_ids, logits.softmax(-1).numpy(), names)
        return {name: value for name, value in values.items() if name in DEV_METRICS}

    return compute


def _write_predictions(
    path: Path, splits: DatasetDict, probabilities: dict[str, np.ndarray], names: list[str]
) -> None:
    """One row per development and test row: split, id, gold labels, probabilities in label order. No texts."""
    tables = []
    for split, scores in probabilities.items():
        gold = splits[split]["labels"]
        gold = [[names[i] for i in (ids if isinstance(ids, list) else [ids])] for ids in gold]
        tables.append(
            pyarrow.table(
                {
                    "split": [split] * len(gold),
                    "id": splits[split]["id"],
                    "labels": gold,
                    "probabilities": pyarrow.array(list(scores), pyarrow.list_(pyarrow.float32())),
                }
            )
        )
    table = pyarrow.concat_tables(tables).replace_schema_metadata({"label_names": json.dumps(names)})
    pyarrow.parquet.write_table(table, path)


def _report(recipe: Recipe, splits: DatasetDict, runs: list[dict]) -> dict[str, Any]:
    """The content of metrics.json."""
    return {
        "name": recipe.name,
        "model_type": recipe.model_type,
        "base_model": recipe.base_model,
        "dataset": recipe.dataset,
        "dataset_options": recipe.dataset_options,
        "train_fraction": recipe.train_fraction,
        "rows": {split: len(dataset) for split, dataset in splits.items()},
        "duplicates": duplicates_between_splits(splits),
        "class_counts": dict(zip(label_names(splits["train"]), class_counts(splits["train"]), strict=True)),
        "threshold": recipe.threshold,
        "published": recipe.published,
        "summary": summarize(runs),
        "runs": runs,
        "environment": environment(),
    }


def summarize(runs: list[dict]) -> dict[str, dict[str, dict[str, dict[str, float]]]]:
    """Mean and standard deviation (n-1; null for one seed) of every scalar metric over the seeds: split -> thresholds -> metric."""
    summary: dict = {}
    for split in ("validation", "test"):
        for kind, values in runs[0].get(split, {}).items():
            for metric, value in values.items():
                if not isinstance(value, float | None):  # None: a NaN of a seed that was read back from JSON
                    continue
                series = np.array([run[split][kind][metric] for run in runs], dtype=np.float64)
                summary.setdefault(split, {}).setdefault(kind, {})[metric] = {
                    "mean": float(series.mean()),
                    "std": float(series.std(ddof=1)) if len(series) > 1 else None,
                }
    return summary


def environment() -> dict[str, Any]:
    """Versions and hardware of a run."""
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU",
        "threads": torch.get_num_threads(),
    }


def _finish(recipe: Recipe, output: Path, folders: dict[int, Path], report: dict[str, Any]) -> None:
    from .card import write_card
    from .plots import write_plots

    best = max(report["runs"], key=lambda run: run["best_dev_metric"] or 0)
    if len(folders) > 1:  # the best seed on the development split stands for the run
        with filling(output) as temporary:
            for path in folders[best["seed"]].iterdir():
                if path.is_file() and path.name not in ("metrics.json", "README.md", "recipe.yaml"):
                    shutil.copyfile(path, temporary / path.name)
    write_plots(output, report, best)
    write_card(output, recipe, report, best)
    write_json(output / "metrics.json", report)  # last: its presence says that the run is whole
