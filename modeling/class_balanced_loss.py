# SPDX-License-Identifier: Apache-2.0
"""Classification losses with class-balanced weights (Cui et al. 2019; section 3.4 of the label-aware attention paper)."""

import torch
from torch.nn import functional as F

from .checked_input import check_labels


def class_balanced_weights(class_counts: list[int], beta: float, normalize: bool = False) -> torch.Tensor:
    r"""
    The inverse of the effective number of samples, w_c = (1−β) / (1−β^{n_c}).

    Args:
        class_counts: training rows n_c of each class. The formula has no value at 0: a class without rows takes
            the weight of the class with the fewest rows, so that it does not outweigh all others.
        beta: β in [0, 1).
        normalize: divide by the mean, so that the weights have mean 1.

    Returns:
        float32 tensor (C,).

    Raises:
        ValueError: β outside [0, 1).
    """
    if not 0 <= beta < 1:
        raise ValueError(f"`beta` must lie in [0, 1), got {beta}.")
    present = [count for count in class_counts if count > 0]
    fewest = min(present) if present else 1
    counts = torch.tensor([count or fewest for count in class_counts], dtype=torch.float64)
    weights = (1 - beta) / (1 - torch.pow(torch.tensor(beta, dtype=torch.float64), counts))
    if normalize:
        weights = weights / weights.mean()
    return weights.float()


def classification_loss(logits: torch.Tensor, labels: torch.Tensor, config) -> torch.Tensor:
    r"""
    The loss that the configuration asks for, weighted by [`class_balanced_weights`] if `class_balanced_beta` is set.

    Args:
        logits: (B, C).
        labels: (B, C) of 0 and 1 for `problem_type="multi_label_classification"`: binary cross-entropy, the weight of a
            class on both of its terms, mean over B×C. (B,) class ids for `"single_label_classification"`, -100 for a row
            without a label: cross-entropy times the weight of the gold class, mean over the labelled rows.
        config: has `problem_type`, `class_balanced_beta`, `class_balanced_normalize` and `class_counts`.

    Raises:
        ValueError: labels of another shape or out of range, another problem type, or no counts for the class-balanced loss.
    """
    if config.problem_type == "multi_label_classification":
        shape = tuple(logits.shape)
    elif config.problem_type == "single_label_classification":
        shape = tuple(logits.shape[:1])
    else:
        raise ValueError(
            "`problem_type` must be 'multi_label_classification' or 'single_label_classification', "
            f"got {config.problem_type!r}."
        )
    if tuple(labels.shape) != shape:
        raise ValueError(
            f"`labels` must have shape {shape} for problem_type={config.problem_type!r}, got {tuple(labels.shape)}; "
            "set `problem_type` in the config to what the labels are."
        )
    check_labels(labels, logits.shape[1], config.problem_type == "multi_label_classification")
    several = config.problem_type == "multi_label_classification"
    labels = labels.to(logits.device, logits.dtype if several else torch.long)
    weights = None
    if config.class_balanced_beta is not None:
        if config.class_counts is None:
            raise ValueError("`class_balanced_beta` is set: the config needs `class_counts`, rows per training label.")
        weights = class_balanced_weights(
            config.class_counts, config.class_balanced_beta, config.class_balanced_normalize
        ).to(device=logits.device, dtype=logits.dtype)
    if several:
        return F.binary_cross_entropy_with_logits(logits, labels, weight=weights)
    losses = F.cross_entropy(logits, labels, reduction="none")  # (B,), 0 without a label
    if weights is not None:
        losses = losses * weights[labels.clamp(min=0)]
    return losses.sum() / (labels != -100).sum().clamp(min=1)


def validate_label_fields(config) -> None:
    """ValueError unless `class_counts`, `thresholds` and `class_balanced_beta` of a configuration fit its labels."""
    for name in ("class_counts", "thresholds"):
        values = getattr(config, name)
        if values is not None and len(values) != config.num_labels:
            raise ValueError(
                f"`{name}` needs one value for each of the {config.num_labels} labels, got {len(values)}; "
                f"pass `{name}=None` to drop values for other labels."
            )
    if config.class_counts is not None and min(config.class_counts) < 0:
        raise ValueError(f"`class_counts` must not be negative, got {config.class_counts}.")
    if config.thresholds is not None and not all(0 <= value <= 1 for value in config.thresholds):
        raise ValueError(f"`thresholds` are probabilities and must lie in [0, 1], got {config.thresholds}.")
    if config.class_balanced_beta is not None and not 0 <= config.class_balanced_beta < 1:
        raise ValueError(f"`class_balanced_beta` must lie in [0, 1), got {config.class_balanced_beta}.")


__all__ = ["class_balanced_weights", "classification_loss", "validate_label_fields"]
