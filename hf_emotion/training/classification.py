# SPDX-License-Identifier: Apache-2.0
"""Training classifiers of texts, aspects and dialogues, one seed at a time."""

import dataclasses
import json
import logging
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import torch
from datasets import ClassLabel, DatasetDict
from torch.utils.data import SequentialSampler, WeightedRandomSampler
from transformers import (
    EarlyStoppingCallback,
    Trainer,
    TrainingArguments,
    set_seed,
)

from .. import metrics
from ..data import fit_tfidf_gate
from ..data.splits import fingerprint, label_names
from ..io.files import filling, write_json
from ..modeling.dialogue_turns import encoder_positions
from ..modeling.pipeline_emotion_classification import EmotionClassificationPipeline
from ..modeling.pipeline_targeted_sentiment import TargetedSentimentPipeline
from ..modeling.tfidf_gate import TfidfGate
from ..modeling.usable_positions import usable_positions
from ..recipes import Recipe
from ..runtime.base_models import load_base_tokenizer
from ..runtime.checkpoints import is_dialogue_model, is_targeted
from ..tasks import corpus_of
from ..tasks.dialogue_emotion.building import build_dialogue_model, cached_vectors, encode_dialogues, is_frozen
from ..tasks.dialogue_emotion.predictor import DialoguePredictor
from ..tasks.dialogue_emotion.rows import is_dialogue_dataset
from ..tasks.emotion_classification.predictor import Predictor
from ..tasks.measures import at_thresholds, single_label
from ..tasks.rows import class_counts, is_multi_label, label_matrix
from ..tasks.sequence_classification import build_classifier, contexts_of, make_collator, tokenize
from ..tasks.targeted_sentiment.predictor import TargetedPredictor, check_room
from .fit import fit, training_arguments
from .order import ExactTrainer
from .survive import check_same_data


logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class HeldOut:
    """
    What a seed predicted for the development and the test part.

    Attributes:
        names: C label names.
        gold: part -> (N,) class ids, -1 where there is none, or for multi-label data (N, C) of 0 and 1.
        probabilities: part -> (N, C).
        thresholds: of each label, tuned on the development part; None for single-label data.
    """

    names: list[str]
    gold: dict[str, np.ndarray]
    probabilities: dict[str, np.ndarray]
    thresholds: list[float] | None


class EmotionTrainer(ExactTrainer):
    """
    The Trainer, except for what no argument of it offers: it spares from weight decay also what the model names (the
    stock rule knows only norms and biases), evaluates rows in their order, and can sample by inverse class frequency.
    """

    inverse_frequency_sampling = False

    def get_decay_parameter_names(self, model) -> list[str]:
        spared = getattr(model, "_no_weight_decay_parameters", ())
        return [name for name in super().get_decay_parameter_names(model) if not any(part in name for part in spared)]

    def _get_eval_sampler(self, eval_dataset):
        return SequentialSampler(eval_dataset)

    def _get_train_sampler(self, train_dataset=None):
        if not self.inverse_frequency_sampling:
            return super()._get_train_sampler(train_dataset)
        labels = np.asarray((self.train_dataset if train_dataset is None else train_dataset)["labels"])
        weights = 1 / np.bincount(labels)[labels]
        return WeightedRandomSampler(torch.from_numpy(weights), len(labels))


def train_classifier(
    recipe: Recipe, seed: int, folder: Path, splits: DatasetDict, resume: bool, recipe_file: Path | None
) -> tuple[dict[str, Any], HeldOut | None]:
    """
    Train one seed of a classifier, write its checkpoint and predictions, and return its entry in `runs` with what it predicted;
    only the first process predicts and writes.
    """
    names, multi_label = label_names(splits["train"]), is_multi_label(splits["train"])
    gold = {split: label_matrix(dataset) for split, dataset in splits.items()}
    gate = None
    if recipe.model_config.get("tfidf_gating", "none") != "none":
        gate = fit_tfidf_gate(splits["train"]["text"])
    if recipe.one_model_per_context:
        run, probabilities = _fit_each_context(recipe, seed, folder, splits, resume, recipe_file)
        if recipe_file is None:
            return run, None
        model = None
    else:
        contexts = contexts_of(splits["train"])
        trainer, run = _fit(recipe, seed, folder / "checkpoints", splits, resume, recipe_file, contexts, gate)
        model = trainer.whole_model()
        if recipe_file is None:  # only the first process evaluates and writes
            return run, None
        probabilities = _predict(model, trainer.processing_class, recipe, splits, gate)
    thresholds = None
    if multi_label:
        thresholds = metrics.tune_thresholds(gold["validation"], probabilities["validation"])
        run["thresholds"] = dict(zip(names, thresholds, strict=True))
    labelled = (gold["validation"] >= 0) if not multi_label else slice(None)  # of a dialogue not every turn is
    if len(gold["validation"][labelled]):
        run["temperature"] = metrics.fit_temperature(
            gold["validation"][labelled], probabilities["validation"][labelled]
        )
    if model is not None:
        # Not `temperature`, which transformers takes for an argument of `generate` and drops.
        model.config.calibration_temperature = run.get("temperature")
        if thresholds is not None:
            model.config.thresholds = thresholds
    for split, scores in probabilities.items():
        run[split] = at_thresholds(recipe.dataset, gold[split], scores, names, recipe.threshold, thresholds)
    with filling(folder) as temporary:
        if model is not None:
            # Our models bring their pipelines along; a stock one with aspects or a gate needs ours too.
            if recipe.model_type is None and is_targeted(model.config):
                TargetedSentimentPipeline(model=model, tokenizer=trainer.processing_class).save_pretrained(temporary)
            elif recipe.model_type is None and gate is not None:
                EmotionClassificationPipeline(
                    model=model, tokenizer=trainer.processing_class, gate=gate
                ).save_pretrained(temporary)
            else:
                model.save_pretrained(temporary)
                trainer.processing_class.save_pretrained(temporary)
        if gate is not None:
            gate.save_pretrained(temporary)
        _write_predictions(temporary / "predictions.parquet", splits, probabilities, names)
    return run, HeldOut(names, gold, probabilities, thresholds)


def _fit(
    recipe: Recipe,
    seed: int,
    checkpoints: Path,
    splits: DatasetDict,
    resume: bool,
    recipe_file: Path | None,
    contexts: dict | None,
    gate: TfidfGate | None = None,
) -> tuple[Trainer, dict[str, Any]]:
    """Train one model; its trainer, which holds the weights that were best on dev, and what is known of the training."""
    set_seed(seed)
    names, multi_label = label_names(splits["train"]), is_multi_label(splits["train"])
    if recipe.inverse_frequency_sampling and not isinstance(splits["train"].features["labels"], ClassLabel):
        raise ValueError("`inverse_frequency_sampling` needs one label per row; the corpus has several.")
    tokenizer = load_base_tokenizer(recipe.base_model)
    tokenizer.model_max_length = recipe.max_length  # travels with the model: what it predicts is cut as in its metrics
    arguments = _training_arguments(recipe, checkpoints, seed)
    parts = DatasetDict({split: splits[split] for split in ("train", "validation")})
    if is_dialogue_dataset(splits["train"]):
        if recipe.model_type != "dialogue-bilstm":
            raise ValueError(
                f"the corpus holds dialogues: `model_type` must be 'dialogue-bilstm', got {recipe.model_type!r}."
            )
        model = build_dialogue_model(recipe.base_model, recipe.model_config, tokenizer, names)
        _check_max_length(recipe, encoder_positions(model.config))
        with arguments.main_process_first(desc="utterance vectors"):
            encoded, collate = encode_dialogues(parts, model, tokenizer, recipe.max_length)
    else:
        model = build_classifier(
            recipe.base_model,
            recipe.model_type,
            recipe.model_config,
            tokenizer,
            names,
            multi_label,
            list(class_counts(splits["train"]).values()),
            recipe.label_texts,
            contexts,
        )
        _check_max_length(recipe, usable_positions(model.config))
        if contexts is not None:
            check_room(tokenizer, model.config, recipe.max_length)
        with arguments.main_process_first(desc="tokenization"):
            encoded = {
                split: tokenize(rows, tokenizer, recipe.max_length, model.config, gate)
                for split, rows in parts.items()
            }
        collate = make_collator(tokenizer, len(names), multi_label)
    # Evaluated in the order of their lengths, which saves padding; the metrics put the rows back.
    order = np.argsort(encoded["validation"]["length"], kind="stable")
    callbacks = []
    if recipe.early_stopping_patience is not None:
        callbacks.append(EarlyStoppingCallback(recipe.early_stopping_patience))
    trainer = EmotionTrainer(
        model=model,
        args=arguments,
        train_dataset=encoded["train"],
        eval_dataset=encoded["validation"].select(order),
        processing_class=tokenizer,
        data_collator=collate,
        compute_metrics=_dev_metrics(recipe, names, multi_label, order),
        callbacks=callbacks,
    )
    trainer.inverse_frequency_sampling = recipe.inverse_frequency_sampling
    return trainer, fit(trainer, recipe, seed, checkpoints, resume, recipe_file, fingerprint(splits))


def _check_max_length(recipe: Recipe, limit: int) -> None:
    if recipe.max_length > limit:
        raise ValueError(f"`max_length` is {recipe.max_length}, but {recipe.base_model} has {limit} positions.")


def _predict(
    model, tokenizer, recipe: Recipe, splits: DatasetDict, gate: TfidfGate | None = None
) -> dict[str, np.ndarray]:
    """Probabilities (N, C) of development and test rows; of dialogues those of all utterances."""
    held_out = {split: rows for split, rows in splits.items() if split != "train"}
    if is_dialogue_model(model.config):
        dialogues = DialoguePredictor(model, tokenizer, max_length=recipe.max_length)
        encode = cached_vectors if is_frozen(model.config) else None
        return {
            split: dialogues.probabilities(rows["utterances"], rows["speakers"], progress=True, encode=encode)[0]
            for split, rows in held_out.items()
        }
    if is_targeted(model.config):
        targeted = TargetedPredictor(model, tokenizer, max_length=recipe.max_length)
        return {split: targeted.row_probabilities(rows, progress=True) for split, rows in held_out.items()}
    predictor = Predictor(model, tokenizer, max_length=recipe.max_length, gate=gate)
    return {split: predictor.probabilities(rows["text"], progress=True) for split, rows in held_out.items()}


def _fit_each_context(
    recipe: Recipe, seed: int, folder: Path, splits: DatasetDict, resume: bool, recipe_file: Path | None
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """
    One model for each target and aspect, in a folder of its own, which `predict` can read; a finished one is not trained
    again. Their entries in `runs` joined, and the probabilities of all rows.
    """
    contexts = contexts_of(splits["train"])
    if contexts is None:
        raise ValueError("`one_model_per_context` needs a corpus with aspects.")
    num_labels = len(label_names(splits["train"]))
    probabilities = {
        split: np.zeros((len(rows), num_labels), np.float32) for split, rows in splits.items() if split != "train"
    }
    context_ids = {split: np.asarray(rows["context_id"]) for split, rows in splits.items()}
    own_contexts, rows_of = {}, {}  # both by the context's folder
    for context_id in sorted({context_id for ids in context_ids.values() for context_id in ids.tolist()}):
        target, aspect = divmod(context_id, len(contexts["aspects"]))
        own = {"aspects": contexts["aspects"][aspect : aspect + 1], "targets": None, "target_texts": None}
        if contexts["targets"] is not None:
            own |= {name: contexts[name][target : target + 1] for name in ("targets", "target_texts")}
        # No letter in a name may mean another folder, and no two contexts may share one.
        name = re.sub(r"[^\w.-]|^\.", "_", "-".join([*(own["targets"] or []), *own["aspects"]]))
        context = folder / name
        if context in rows_of:
            context = context.with_name(f"{context.name}-{context_id}")
        own_contexts[context] = own
        rows_of[context] = {split: np.flatnonzero(ids == context_id) for split, ids in context_ids.items()}
        for split in ("train", "validation"):
            if not len(rows_of[context][split]):
                raise ValueError(
                    f"no {split} row for {context.name}: `one_model_per_context` needs some for every context."
                )
    parts = []
    for context, rows in rows_of.items():
        part = DatasetDict({split: splits[split].select(rows[split]) for split in splits})
        finished = context / "run.json"
        if not (resume and finished.is_file()):
            trainer, run = _fit(
                recipe, seed, context / "checkpoints", part, resume, recipe_file, own_contexts[context]
            )
            parts.append(run)
            model = trainer.whole_model()
            if recipe_file is None:  # not the first process
                continue
            with filling(context) as temporary:
                model.save_pretrained(temporary)
                trainer.processing_class.save_pretrained(temporary)
            write_json(finished, run)
            shutil.rmtree(context / "checkpoints", ignore_errors=True)
        else:
            parts.append(json.loads(finished.read_text(encoding="utf-8")))
            check_same_data(parts[-1].get("data"), fingerprint(part), finished)
        if recipe_file is None:
            continue
        predictor = TargetedPredictor(str(context), max_length=recipe.max_length)
        for split, scores in probabilities.items():
            if len(rows[split]):
                scores[rows[split]] = predictor.row_probabilities(part[split], progress=True)
    run = {
        "seed": seed,
        "train_minutes": sum(part["train_minutes"] for part in parts),
        "resumed": any(part["resumed"] for part in parts),
        "data": fingerprint(splits),
        "epochs": parts[0]["epochs"],
        "best_dev_metric": float(np.mean([part["best_dev_metric"] for part in parts])),
        "best_step": None,
        "history": [],
        "contexts": parts,
    }
    return run, probabilities


def _training_arguments(recipe: Recipe, checkpoints: Path, seed: int) -> TrainingArguments:
    # The metrics of a corpus take the rows of all contexts together.
    metric = "accuracy" if recipe.one_model_per_context else corpus_of(recipe.dataset).selection_metric
    return training_arguments(TrainingArguments, recipe, checkpoints, seed, metric_for_best_model=metric)


def _dev_metrics(recipe: Recipe, names: list[str], multi_label: bool, order: np.ndarray) -> Callable:
    """The scalar metrics of the development split, whose rows are evaluated in `order`."""

    def compute(prediction) -> dict[str, float]:
        logits = np.empty_like(prediction.predictions)
        labels = np.empty_like(prediction.label_ids)
        logits[order], labels[order] = prediction.predictions, prediction.label_ids
        if labels.shape == logits.shape[:-1] and labels.ndim == 2:  # dialogues, filled up with -100
            logits, labels = logits[labels != -100], labels[labels != -100]
        scores = torch.from_numpy(logits).float()
        if multi_label:
            values = metrics.goemotions(labels, scores.sigmoid().numpy(), recipe.threshold, names)
        elif recipe.one_model_per_context:  # rows of one context only: the corpus' metrics need all
            values = metrics.classification(labels, scores.softmax(-1).numpy(), names)
        else:
            values = single_label(recipe.dataset, labels, scores.softmax(-1).numpy(), names)
        return {name: value for name, value in values.items() if isinstance(value, float)}

    return compute


def _write_predictions(
    path: Path, splits: DatasetDict, probabilities: dict[str, np.ndarray], names: list[str]
) -> None:
    """
    One row per development and test row (utterance with a label): split, id, gold labels, probabilities in label order. No
    texts.
    """
    tables = []
    for split, scores in probabilities.items():
        gold, ids = splits[split]["labels"], splits[split]["id"]
        if is_dialogue_dataset(splits[split]):
            ids = [
                f"{row}/{turn}" for row, labels in zip(ids, gold, strict=True) for turn in range(1, len(labels) + 1)
            ]
            flat = label_matrix(splits[split])
            gold, scores = flat[flat >= 0].tolist(), scores[flat >= 0]
            ids = [row for row, label in zip(ids, flat, strict=True) if label >= 0]
        gold = [[names[i] for i in (labels if isinstance(labels, list) else [labels])] for labels in gold]
        tables.append(
            pyarrow.table(
                {
                    "split": [split] * len(gold),
                    "id": ids,
                    "labels": gold,
                    "probabilities": pyarrow.array(list(scores), pyarrow.list_(pyarrow.float32())),
                }
            )
        )
    table = pyarrow.concat_tables(tables).replace_schema_metadata({"label_names": json.dumps(names)})
    pyarrow.parquet.write_table(table, path)
