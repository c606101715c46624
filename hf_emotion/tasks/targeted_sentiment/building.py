# SPDX-License-Identifier: Apache-2.0
"""Builds and trains the model of targeted sentiment of a recipe."""

import logging
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset, DatasetDict

from ...recipes import Recipe
from ...run_report import SeedRun
from .. import corpus_of
from ..base import HeldOut, MainProcessFirst, Part, Prepared
from ..held_out import finish_classifier
from ..sequence_classification import prepare_classifier
from .predictor import TargetedPredictor, check_room
from .rows import auxiliary_sentence, context_names, contexts, groups, none_label


logger = logging.getLogger(__name__)

# Standard deviation of the new weights of CG-BERT and QACG-BERT on one's own files. The paper's e⁻³, which the recipes and the
# configuration keep, drowns MiniLM's attention: for a long time the training only learns how frequent the labels are.
OWN_CONTEXT_INITIALIZER_RANGE = 0.01


def complete(recipe: Recipe) -> dict[str, Any]:
    """The spread of new weights for one's own files."""
    if recipe.model_type is None or not corpus_of(recipe.dataset).own_files:
        return {}
    return {"context_initializer_range": OWN_CONTEXT_INITIALIZER_RANGE}


def check_recipe(recipe: Recipe) -> None:
    """ValueError for `one_model_per_context` with a model that reads all contexts."""
    if recipe.one_model_per_context and recipe.model_type is not None:
        raise ValueError(
            f"`one_model_per_context` is for stock models, each of which sees a single context: `model_type` must be null, got "
            f"{recipe.model_type!r}."
        )


def arguments(recipe: Recipe) -> dict[str, Any]:
    # The metrics of a corpus need the rows of all contexts.
    metric = "accuracy" if recipe.one_model_per_context else corpus_of(recipe.dataset).selection_metric
    return {"metric_for_best_model": metric}


def parts(recipe: Recipe, splits: DatasetDict) -> list[Part] | None:
    """With `one_model_per_context`: a part for each target and aspect, with its rows."""
    if not recipe.one_model_per_context:
        return None
    known = contexts(splits["train"])
    ids = {split: np.asarray(rows["context_id"]) for split, rows in splits.items()}
    found: list[Part] = []
    for context_id in sorted({context_id for own in ids.values() for context_id in own.tolist()}):
        target, aspect = divmod(context_id, len(known["aspects"]))
        own = {"aspects": known["aspects"][aspect : aspect + 1], "targets": None, "target_texts": None}
        if known["targets"] is not None:
            own |= {name: known[name][target : target + 1] for name in ("targets", "target_texts")}
        # A name must not point to another folder, and no two contexts may share one.
        name = re.sub(r"[^\w.-]|^\.", "_", "-".join([*(own["targets"] or []), *own["aspects"]]))
        # A run folder removes its `checkpoints` in the end.
        if name in ["checkpoints", *(part.name for part in found)]:
            name = f"{name}-{context_id}"
        rows = {split: np.flatnonzero(own_ids == context_id) for split, own_ids in ids.items()}
        for split in ("train", "validation"):
            if not len(rows[split]):
                raise ValueError(
                    f"no {split} row for {name}: `one_model_per_context` needs some for every context; add rows, or train one model."
                )
        found.append(Part(name, rows, own))
    return found


def warn(train: Dataset, names: list[str], has_label: np.ndarray) -> None:
    """Warn of pairs of target and aspect without a training row, and of rows that never have the label "none"."""
    names_of_targets, aspects = context_names(train)
    targets: Sequence[str | None] = names_of_targets or [None]
    pairs = [auxiliary_sentence(target, aspect) for target in targets for aspect in aspects]
    asked = set(zip(train["text"], train["context_id"], strict=True))
    untrained = sorted(set(range(len(pairs))) - {context for _, context in asked})
    if untrained:
        logger.warning(
            "no training row asks about %s%s: the model will answer for them without having learnt to.",
            [pairs[i] for i in untrained[:10]],
            f" and {len(untrained) - 10} more" if len(untrained) > 10 else "",
        )
    total = len(set(groups(train))) * len(aspects)
    none = none_label(names)
    if len(asked) < total and (none is None or not has_label[names.index(none)]):
        logger.warning(
            "%d of %d pairs of a training text and an aspect have no row, and no row has the label 'none': the model learns to give "
            "every aspect of every text one of %s, also an aspect that the text does not name. "
            "`--set dataset_options.fill_none=true` gives these pairs rows with the label 'none', in every part.",
            total - len(asked),
            total,
            [name for name in names if name != none],
        )


def prepare(recipe: Recipe, splits: DatasetDict, fields: dict[str, Any] | None, first: MainProcessFirst) -> Prepared:
    return prepare_classifier(
        recipe,
        splits,
        first,
        contexts=fields or contexts(splits["train"]),
        alone=fields is not None,
        check=check_room,
    )


def finish(
    recipe: Recipe, run: SeedRun, trainer: Any, prepared: Prepared, splits: DatasetDict, folder: Path | None
) -> HeldOut | None:
    return finish_classifier(TargetedPredictor, recipe, run, trainer, prepared, splits, folder)
