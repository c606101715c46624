# SPDX-License-Identifier: Apache-2.0
"""What is to be known of a corpus before a model is trained on it."""

import logging
from collections.abc import Sequence

import numpy as np
from datasets import Dataset, DatasetDict

from ..data.splits import label_names
from ..tasks.language_modeling.rows import is_conversation_dataset
from ..tasks.rows import is_multi_label, label_matrix
from ..tasks.targeted_sentiment.rows import auxiliary_sentence, context_names, is_aspect_dataset, none_label


logger = logging.getLogger(__name__)

MIN_VALIDATION_ROWS = 20  # of fewer, the standard error of an accuracy of .5 is above .11


def check_data(splits: DatasetDict, classifies: bool) -> None:
    """
    Warn of labels, and pairs of target and aspect, without a training row; of aspect data without rows that say that an aspect
    is not named; and of a validation part of fewer than 20 rows (utterances) with a label, or fewer than there are labels.

    Args:
        splits: train and validation part, and perhaps others.
        classifies: whether a classifier is trained.

    Raises:
        ValueError: a classifier, and all training rows have the same labels.
    """
    train, validation = splits["train"], splits["validation"]
    if is_conversation_dataset(train):
        _check_validation(len(validation), 0)
        return
    names, gold = label_names(train), _labelled(train)
    has_label = gold.any(axis=0) if is_multi_label(train) else np.bincount(gold, minlength=len(names)) > 0
    if classifies and (gold == gold[:1]).all():
        occurring = [name for name, found in zip(names, has_label, strict=True) if found]
        if is_multi_label(train):
            raise ValueError(f"every training row has the labels {occurring}: add rows with other labels, or without.")
        raise ValueError(
            f"a classifier needs at least two labels, and the training part has {occurring}: add rows of others, or, to tell "
            "that label from none, give `dataset_options.label_separator` or `label_columns`."
        )
    if not has_label.all():
        missing = [name for name, found in zip(names, has_label, strict=True) if not found]
        logger.warning(
            "no training row has the labels %s, which the model then never learns: add rows, or leave them out of `labels`.",
            missing,
        )
    if is_aspect_dataset(train):
        _check_aspects(train, names, has_label)
    _check_validation(len(_labelled(validation)), len(names))


def _labelled(dataset: Dataset) -> np.ndarray:
    """`label_matrix` without the utterances that have no label."""
    gold = label_matrix(dataset)
    return gold if gold.ndim == 2 else gold[gold >= 0]


def _check_aspects(train: Dataset, names: list[str], has_label: np.ndarray) -> None:
    names_of_targets, aspects = context_names(train)
    targets: Sequence[str | None] = names_of_targets or [None]
    contexts = [auxiliary_sentence(target, aspect) for target in targets for aspect in aspects]
    asked = set(zip(train["text"], train["context_id"], strict=True))
    untrained = sorted(set(range(len(contexts))) - {context for _, context in asked})
    if untrained:
        logger.warning(
            "no training row asks about %s%s: the model will answer for them without having learnt to.",
            [contexts[i] for i in untrained[:10]],
            f" and {len(untrained) - 10} more" if len(untrained) > 10 else "",
        )
    total = len({(text, context // len(aspects)) for text, context in asked}) * len(aspects)
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


def _check_validation(rows: int, labels: int) -> None:
    needed = max(MIN_VALIDATION_ROWS, labels)
    if rows < needed:
        logger.warning(
            "the validation part has %d rows, too few to choose an epoch or thresholds by, or to trust its figures: it should have at "
            "least %d. Set more aside (`--set dataset_options.validation_fraction=...`), or add a validation file.",
            rows,
            needed,
        )
