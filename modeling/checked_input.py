# SPDX-License-Identifier: Apache-2.0
"""Checks the input of every model; otherwise a wrong id or length would end in an unclear error of an embedding table."""

import torch
from transformers.utils import logging

from .text_processing import usable_positions


logger = logging.get_logger(__name__)


def check_input(
    config, input_ids, inputs_embeds, attention_mask=None, names: str = "`input_ids` and `inputs_embeds`"
) -> tuple[int, int]:
    """
    Check an encoder's or decoder's input and return its shape (B, L).

    Raises:
        ValueError: both or neither of ids (B, L) and embeddings (B, L, d); another number of dimensions; a mask that is not
            (B, L); no row; no token, or more than the model has positions; an id outside the vocabulary.
    """
    if (input_ids is None) == (inputs_embeds is None):
        raise ValueError(f"Pass exactly one of {names}.")
    given, name, axes = (input_ids, "ids", "") if inputs_embeds is None else (inputs_embeds, "embeds", ", hidden_size")
    if given.dim() != 2 + bool(axes):
        raise ValueError(
            f"The input {name} must have shape (batch_size, sequence_length{axes}), got {tuple(given.shape)}."
        )
    if attention_mask is not None and attention_mask.dim() != 2:
        raise ValueError(
            f"`attention_mask` must have shape (batch_size, sequence_length), got {tuple(attention_mask.shape)}."
        )
    if not torch.compiler.is_compiling() and not len(given):
        raise ValueError(f"there must be at least one row, got a batch of shape {tuple(given.shape)}.")
    usable = usable_positions(config)
    # Ids may include padding, which takes no position, so the bound for ids is the size of the table.
    check_length(
        given.shape[1],
        max(usable, getattr(config, "max_position_embeddings", None) or 0) if inputs_embeds is None else usable,
    )
    check_ids("the input ids", input_ids, getattr(config, "vocab_size", None))
    return given.shape[:2]


def check_length(length: int, positions: int) -> None:
    """ValueError unless the model has a position for each token; skipped in a graph, whose lengths are symbols."""
    if not torch.compiler.is_compiling() and not 1 <= length <= positions:
        raise ValueError(
            f"there must be from 1 to {positions} tokens, the model's positions, got {length}: cut the text."
        )


def warn_of_padding(config, input_ids: torch.Tensor | None, attention_mask: torch.Tensor | None) -> None:
    """Warn once of ids (B, L) that begin or end with padding, which a model without a mask reads as words."""
    pad = getattr(config, "pad_token_id", None)
    if input_ids is None or attention_mask is not None or pad is None or not can_look(input_ids):
        return
    ends = [getattr(config, f"{name}_token_id", None) for name in ("bos", "eos", "sep", "context_separator")]
    if pad not in ends and (input_ids[:, [0, -1]] == pad).any():
        logger.warning_once(
            "the input ids hold padding, and there is no `attention_mask`: the model reads the padding too. Pass the mask that the "
            "tokenizer gives."
        )


def can_look(values: torch.Tensor) -> bool:
    """Whether values can be read without waiting for a device or breaking a graph."""
    return values.device.type == "cpu" and not torch.compiler.is_compiling()


def check_labels(labels: torch.Tensor, num_labels: int, multi_label: bool = False) -> None:
    """ValueError unless all labels are class ids in [0, num_labels), or -100 for none; with `multi_label`, values in [0, 1]."""
    if not multi_label and labels.is_floating_point():
        raise ValueError(f"`labels` must be whole numbers, the class ids, got {labels.dtype}.")
    if not can_look(labels):
        return
    if multi_label:
        wrong = labels[~((labels >= 0) & (labels <= 1))]  # NaN is neither
        rule = "hold 0 and 1 (or probabilities between them): leave rows without labels out"
    else:
        wrong = labels[((labels < 0) & (labels != -100)) | (labels >= num_labels)]
        rule = f"lie in [0, {num_labels}), or be -100 for no label"
    if wrong.numel():
        raise ValueError(f"`labels` must {rule}; got {wrong[:5].tolist()}.")


def check_ids(name: str, ids: torch.Tensor | None, size: int | None) -> None:
    """ValueError unless all ids lie in [0, size). `size` None: any ids, for encoders without a vocabulary (CANINE)."""
    if ids is None or size is None or not can_look(ids):
        return
    if ids.is_floating_point():
        raise ValueError(f"{name} must be whole numbers, got {ids.dtype}.")
    if ids.numel() and (ids.min() < 0 or ids.max() >= size):
        outside = ids[(ids < 0) | (ids >= size)].flatten()[:5].tolist()
        raise ValueError(
            f"{name} must lie in [0, {size}), got {outside}: take the tokenizer that the model was trained with."
        )


def check_finite(logits: torch.Tensor) -> None:
    """ValueError unless all logits are finite: comparisons with NaN are false, so NaN would look like an answer without labels."""
    if not logits.isfinite().all():
        raise ValueError(
            "the model computes NaN or infinity for a text: its weights are damaged (did the training diverge?), or its dtype is too "
            "narrow for it. Load it in float32 or bfloat16, or train it again."
        )


__all__ = [
    "can_look",
    "check_finite",
    "check_ids",
    "check_input",
    "check_labels",
    "check_length",
    "warn_of_padding",
]
