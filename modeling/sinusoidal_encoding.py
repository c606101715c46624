# SPDX-License-Identifier: Apache-2.0
"""Sinusoidal positions (Vaswani et al. 2017; eqs. 7 and 8 of the dialogue document)."""

import torch


def sinusoidal_encoding(length: int, size: int, *, like: torch.Tensor) -> torch.Tensor:
    """
    PE(pos, 2i) = sin(pos / 10000^(2i/size)), PE(pos, 2i+1) the cosine: (length, size), computed in float32, then given the dtype
    and device of `like`.
    """
    positions = torch.arange(length, device=like.device, dtype=torch.float32)
    even = torch.arange(0, size, 2, device=like.device, dtype=torch.float32)
    angles = positions[:, None] * torch.pow(10000.0, -even / size)  # (length, ⌈size/2⌉)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)[:, :size].to(like.dtype)


__all__ = ["sinusoidal_encoding"]
