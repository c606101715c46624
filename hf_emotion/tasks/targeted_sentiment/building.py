# SPDX-License-Identifier: Apache-2.0
"""Builds and trains the model of targeted sentiment of a recipe."""

import logging
import re
from collections import Counter
from collections.abc import Sequence
from functools import partial

import numpy as np
from datasets import Dataset, DatasetDict

from ...data.splits import label_names
from ...modeling.text_processing import model_inputs, targets_in
from ...recipes import Recipe
from ...run_report import Contexts
from ..base import MainProcessFirst, Part, Prepared
from ..sequence_classification import prepare_classifier
from . import LABEL_AWARE, TASK
from .loading import auxiliary_sentence, context_names, none_label
from .predictor import check_room


logger = logging.getLogger(__name__)


def parts(recipe: Recipe, splits: DatasetDict) -> list[Part] | None:
    """With `one_model_per_context`: a part for each target and aspect, with its rows."""
    if not recipe.one_model_per_context:
        return None
    known = TASK.contexts(splits["train"])
    ids = {split: np.asarray(rows["context_id"]) for split, rows in splits.items()}
    found: list[Part] = []
    for context_id in sorted({context_id for own in ids.values() for context_id in own.tolist()}):
        target, aspect = divmod(context_id, len(known["aspects"]))
        targets, texts = (names and names[target : target + 1] for names in (known["targets"], known["target_texts"]))
        own = Contexts(aspects=known["aspects"][aspect : aspect + 1], targets=targets, target_texts=texts)
        # A name must not point to another folder, and no two contexts may share one.
        name = re.sub(r"[^\w.-]|^\.", "_", "-".join([*(own["targets"] or []), *own["aspects"]]))
        # A run folder removes its `checkpoints` in the end.
        if name in ["checkpoints", *(part.name for part in found)]:
            name = f"{name}-{context_id}"
        rows = {split: np.flatnonzero(own_ids == context_id) for split, own_ids in ids.items()}
        for split in ("train", "validation"):
            if not len(rows[split]):
                raise ValueError(f"`one_model_per_context`: no {split} row for {name}; add rows, or train one model.")
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
            "no training row asks about %s: the model will answer for them without having learnt to.",
            [pairs[i] for i in untrained],
        )
    total = len(set(TASK.groups(train))) * len(aspects)
    none = none_label(names)
    if len(asked) < total and (none is None or not has_label[names.index(none)]):
        logger.warning(
            "%d of %d pairs of a training text and an aspect have no row, and no row has the label 'none': the model learns that every text "
            "names every aspect. `--set dataset_options.fill_none=true` gives these pairs rows with the label 'none'.",
            *(total - len(asked), total),
        )


def prepare(recipe: Recipe, splits: DatasetDict, first: MainProcessFirst, part: Contexts | None) -> Prepared:
    own = partial(prepare_classifier, recipe, splits, first, contexts=part or TASK.contexts(splits["train"]))
    if recipe.model_type not in LABEL_AWARE:
        return own(alone=part is not None, check=check_room)
    if recipe.inverse_frequency_sampling:
        raise ValueError(
            "`inverse_frequency_sampling` draws rows by their label, and label attention reads all aspects of a text at once."
        )
    return own(joined=all_aspects, frequencies=shares(splits["train"]))


def all_aspects(rows: Dataset, config) -> Dataset:
    """
    The rows of a text and target as one: the text as a model of label attention reads it, and `labels` (A,), -100 for an aspect that no row
    asks about. A question that is asked again begins another row.
    """
    targets, aspects = context_names(rows)
    asked: Counter[tuple[str, int]] = Counter()
    found: dict[tuple[str, int, int], list[int]] = {}
    for text, context, label in zip(rows["text"], rows["context_id"], rows["labels"], strict=True):
        target, aspect = divmod(context, len(aspects))
        row = found.setdefault((text, target, asked[text, context]), [-100] * len(aspects))
        row[aspect] = label
        asked[text, context] += 1
    names: Sequence[str | None] = targets or [None]
    texts = [model_inputs(config, text, names[target], aspects[0])[0] for text, target, _ in found]
    unnamed = sum(names[target] not in targets_in(config, text) for text, target, _ in found) if targets else 0
    if unnamed and len(names) > 1:
        logger.warning(
            "%d of %d texts do not name their target, and label attention has no other sign of it: it may give all targets one answer; "
            "`model_type: qacg-bert` with `model_config.auxiliary_sentence` reads the target beside the text",
            *(unnamed, len(found)),
        )
    return Dataset.from_dict({"text": texts, "labels": list(found.values())})


def shares(rows: Dataset) -> list[float]:
    """For each aspect and each label but "none": its share among the rows with this label or "none"; without "none" among all."""
    names, (_, aspects) = label_names(rows), context_names(rows)
    counts = np.zeros((len(aspects), len(names)))
    np.add.at(counts, (rows["aspect"][:], rows["labels"][:]), 1)
    name = none_label(names)
    if name is None:
        return (counts / counts.sum(axis=1, keepdims=True).clip(1)).ravel().tolist()
    none = names.index(name)
    own = np.delete(counts, none, axis=1)
    return (own / (own + counts[:, [none]]).clip(1)).ravel().tolist()
