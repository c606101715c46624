# SPDX-License-Identifier: Apache-2.0
"""The loss of a training with weights of labels, or on the votes of annotators, in the place of the model's own."""

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from torch.nn import functional as F

from ..data.splits import label_names
from ..data.votes import votes_of
from ..recipes import WEIGHTS, Recipe
from ..runtime.plain import text_processing
from ..runtime.unread import is_new
from ..tasks import Task
from ..tasks.rows import gold_of
from .trainer import items_in


logger = logging.getLogger(__name__)


def training_loss(
    outputs: Any,
    labels: torch.Tensor,
    num_items_in_batch: torch.Tensor | int | None = None,
    votes: torch.Tensor | None = None,
    class_weights: Sequence[float] | None = None,
    positive_weights: Sequence[float] | None = None,
) -> torch.Tensor:
    """
    Cross-entropy, or binary cross-entropy where labels are (B, C), with weights; for the Trainer's `compute_loss_func`. As the
    losses of our models, it is a mean over labelled rows, or over B×C, and is not divided by the weights.

    Args:
        outputs: have `logits` (B, C), for dialogues (B, U, C).
        labels: (B, C) float of 0 and 1, NaN for a label that was not annotated; or (B,), for dialogues (B, U), class ids, -100 for no label.
        num_items_in_batch: the number of labels over all accumulated batches and processes; default: of this batch.
        votes: (B, C) shares, the targets instead of the labels. With one label per row: −Σ_c w_c v_c log p_c.
        class_weights: C weights; for rows with several labels, of both terms of a label.
        positive_weights: C weights of the terms of rows that have a label; (B, C) labels.
    """
    logits = outputs["logits"].float()
    if num_items_in_batch is None:
        num_items_in_batch = items_in(labels)
    weights = None if class_weights is None else logits.new_tensor(class_weights)
    if labels.is_floating_point():
        annotated = ~labels.to(logits.device).isnan()
        losses = F.binary_cross_entropy_with_logits(
            logits,
            (labels if votes is None else votes).to(logits).masked_fill(~annotated, 0.0),
            weight=weights,
            pos_weight=None if positive_weights is None else logits.new_tensor(positive_weights),
            reduction="none",
        )
        total = losses.masked_fill(~annotated, 0.0).sum()
    else:
        targets = labels.to(logits.device).flatten() if votes is None else votes.to(logits)
        total = F.cross_entropy(logits.flatten(0, -2), targets, weight=weights, reduction="sum")
    # Batches of dialogues without a label have none to divide by.
    return total / torch.as_tensor(num_items_in_batch, device=total.device).clamp(min=1)


def weights_of(task: Task, recipe: Recipe, rows: Dataset) -> dict[str, list[float]]:
    """The weights that a recipe asks for, C numbers each. "balanced" counts training rows (utterances), with `soft_labels` votes."""
    votes = votes_of(rows) if recipe.soft_labels else None
    if recipe.soft_labels and votes is None:
        raise ValueError(
            f"`soft_labels` trains on votes, and {recipe.dataset} has none: give `dataset_options.votes`, or leave it out."
        )
    if votes is not None and (votes.round() == votes).all() and is_new("unanimous"):
        logger.warning("all votes of the training part are unanimous: `soft_labels` trains on the labels themselves")
    wanted = {name: value for name in WEIGHTS if (value := getattr(recipe, name))}
    if not wanted:
        return {}
    names, gold = label_names(rows), gold_of(rows)
    if "positive_weights" in wanted and gold.single_label:
        raise ValueError(
            "`positive_weights` needs rows with several labels; these have one label each: use `class_weights`."
        )
    counts = gold.counts(len(names)) if votes is None else votes.sum(axis=0)
    weights = {}
    for field, value in wanted.items():
        if isinstance(value, dict):
            value = {text_processing.normalized(name): weight for name, weight in value.items()}  # as labels are
            if unknown := sorted(value.keys() - set(names)):
                raise ValueError(f"`{field}` has weights for {unknown}, and the labels are {names}.")
            weights[field] = [float(value.get(name, 1)) for name in names]
        elif field == "class_weights":
            weights[field] = balanced(counts)
        else:
            rows_of = gold.annotated.sum(axis=0)
            pairs = zip(rows_of, counts, strict=True)
            weights[field] = [float((rows - count) / count) if 0 < count < rows else 1.0 for rows, count in pairs]
    return weights


def balanced(counts: Sequence[float] | np.ndarray) -> list[float]:
    """scikit-learn's `class_weight="balanced"` for C counts; 1 for a label that does not occur."""
    counts = np.asarray(counts, dtype=np.float64)
    present = counts > 0
    even = counts.sum() / max(present.sum(), 1)
    return np.where(present, even / np.where(present, counts, 1), 1.0).tolist()
