# SPDX-License-Identifier: Apache-2.0
"""
Finds the real tokens of padded rows; padding may be on either side. Masks and orders follow the states to their device, which is
another one if a model is spread over several.
"""

import torch

from .checked_input import can_look


def real_positions(mask: torch.Tensor) -> torch.Tensor:
    """
    (B, L), 0 at padding -> (B, L) int64: the position of each real token among the real tokens of its row; any valid value at
    padding.
    """
    return ((mask != 0).cumsum(dim=-1) - 1).clamp(min=0)


def places_before_padding(mask: torch.Tensor) -> torch.Tensor:
    """(B, L), 0 at padding -> (B, L) int64: the place of each token when real tokens come first; both kinds keep their order."""
    real = mask != 0
    return torch.where(real, real.cumsum(dim=-1), real.sum(dim=-1, keepdim=True) + (~real).cumsum(dim=-1)) - 1


def inverse_order(places: torch.Tensor) -> torch.Tensor:
    """(B, L), the place to which each token goes -> (B, L), the token that comes to each place."""
    return torch.zeros_like(places).scatter(
        1, places, torch.arange(places.shape[1], device=places.device).expand_as(places)
    )


def reordered(states: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
    """
    States (B, L) or (B, L, d), order (B, L) -> states of the same shape: place t gets what was at `order[:, t]`. States of one row
    stand for all rows.
    """
    states, order = states.expand(order.shape[0], *states.shape[1:]), order.to(states.device)
    return states.gather(1, order if states.dim() == 2 else order[..., None].expand_as(states))


def masked_mean(states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """(N, L, D), (N, L) -> (N, D), the mean over real tokens; 0 for a row without any."""
    weights = mask.to(states)[:, None]  # (N, 1, L)
    if states.dtype == torch.float16:  # which could not hold the sum over thousands of tokens
        return ((weights / weights.sum(dim=-1, keepdim=True).clamp(min=1)) @ states).squeeze(1)
    return (weights @ states).squeeze(1) / weights.sum(dim=-1).clamp(min=1)


def first_real(states: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    """(B, L, d), (B, L) or None -> (B, d): the state of the first real token, or at place 0 if a row has none."""
    if mask is None:
        return states[:, 0]
    first = (mask != 0).int().argmax(dim=-1).to(states.device)  # (B,), argmax takes the first of equal values
    return states.gather(1, first[:, None, None].expand(-1, 1, states.shape[-1]))[:, 0]


def may_begin_with_padding(mask: torch.Tensor | None) -> bool:
    """Whether the real tokens of some row may begin after place 0; True for every mask if reading it costs too much."""
    return mask is not None and not (can_look(mask) and bool(mask[:, 0].all()))


def positions_from_first_real(mask: torch.Tensor) -> torch.Tensor:
    """(B, L), 0 at padding -> (B, L) int64: places counted from the first real token; 0 before it."""
    first = (mask != 0).int().argmax(dim=-1, keepdim=True)
    return (torch.arange(mask.shape[1], device=mask.device) - first).clamp(min=0)


def real_tokens(attention_mask: torch.Tensor | None, batch_size: int, length: int) -> torch.Tensor | None:
    """
    (B, L) bool, which tokens are real, or None without a mask. In a four-dimensional mask a token is real if any token sees it.

    Args:
        attention_mask: (B, L), (B, 1, 1, L) or (B, 1, L, L), whose last axes are the seeing and the seen tokens: 1 and 0, or True
            and False. Floating point numbers in four dimensions are added to the scores: 0 or negative.

    Raises:
        ValueError: the mask has another shape, or four dimensions with numbers above 0.
    """
    if attention_mask is None:
        return None
    shapes = [(batch_size, length), (batch_size, 1, 1, length), (batch_size, 1, length, length)]
    if tuple(attention_mask.shape) not in shapes:
        raise ValueError(
            f"`attention_mask` must have shape (batch_size, sequence_length) = {shapes[0]}, 1 for real tokens and 0 for padding, or "
            f"{shapes[1]} or {shapes[2]}; got {tuple(attention_mask.shape)}."
        )
    if attention_mask.dim() == 2:
        return attention_mask.bool()
    seen = attention_mask[:, 0]
    if not attention_mask.is_floating_point():
        return seen.bool().any(dim=1)
    if can_look(seen) and (seen > 0).any():
        raise ValueError(
            "`attention_mask` of floating point numbers in four dimensions is added to the scores: 0 for a seen token, negative "
            f"for an unseen one; got {seen.max().item()}. Pass one of {shapes[0]}, or whole numbers, 1 and 0."
        )
    return (seen == 0).any(dim=1)


def additive_mask(attention_mask: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """
    A mask that `real_tokens` takes, in the form that is added to scores: 0, or the lowest number for unseen tokens; the same
    shape.
    """
    lowest = torch.finfo(dtype).min
    if attention_mask.dim() == 4 and attention_mask.is_floating_point():
        return attention_mask.to(dtype).clamp(min=lowest)
    return torch.zeros_like(attention_mask, dtype=dtype).masked_fill(attention_mask == 0, lowest)


__all__ = [
    "additive_mask",
    "first_real",
    "inverse_order",
    "masked_mean",
    "may_begin_with_padding",
    "places_before_padding",
    "positions_from_first_real",
    "real_positions",
    "real_tokens",
    "reordered",
]
