# SPDX-License-Identifier: Apache-2.0
"""Where the real tokens of padded rows stand, whichever side the padding is on."""

import torch


def real_positions(mask: torch.Tensor) -> torch.Tensor:
    """(B, L), 0 at padding -> (B, L) of int64: the position of each real token among those of its row; some valid one at padding."""
    return ((mask != 0).cumsum(dim=-1) - 1).clamp(min=0)


def places_before_padding(mask: torch.Tensor) -> torch.Tensor:
    """(B, L), 0 at padding -> (B, L) of int64: the place of each in an order with the real ones first, both kinds in theirs."""
    real = mask != 0
    return torch.where(real, real.cumsum(dim=-1), real.sum(dim=-1, keepdim=True) + (~real).cumsum(dim=-1)) - 1


def inverse_order(places: torch.Tensor) -> torch.Tensor:
    """(B, L), the place to which each goes -> (B, L), which one comes to each place."""
    return torch.zeros_like(places).scatter(
        1, places, torch.arange(places.shape[1], device=places.device).expand_as(places)
    )


def reordered(states: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
    """(B, L, d), (B, L) -> (B, L, d), which has at place t what stood at `order[:, t]`."""
    return states.gather(1, order[..., None].expand_as(states))


def first_real(states: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    """(B, L, d), (B, L) or None -> (B, d): the state of the first real token; of the first place where a row has none."""
    if mask is None:
        return states[:, 0]
    first = (mask != 0).int().argmax(dim=-1)  # (B,), of equal values the first
    return states.gather(1, first[:, None, None].expand(-1, 1, states.shape[-1]))[:, 0]


__all__ = ["first_real", "inverse_order", "places_before_padding", "real_positions", "reordered"]
