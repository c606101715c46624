# SPDX-License-Identifier: Apache-2.0
"""Layer normalisation whose scale and shift follow an emotion.

Shapes: B batch, E emotions, d hidden size.
"""

from collections.abc import Sequence
from math import exp

import torch
from torch import nn
from torch.nn import functional as F
from transformers import initialization as init


SILU_OF_1 = 1 / (1 + exp(-1))


class ModulatedLayerNorm(nn.LayerNorm):
    r"""
    x̂ = γ(c) · (x − μ) / √(var + ε) + β(c), where c (B, E) weighs the emotions (eqs. 1-3):

        MLP_γ(c) = W₂ SiLU(W₁ c)         MLP_β(c) = W₂' SiLU(W₁' c + b)

    with W₁ (d/2, E), W₂ (d, d/2). The paper divides by σ + ε; √(var + ε) keeps the meaning of pretrained weights. The bias b
    is in β, as in eq. 3 (the text beside it says γ).

    `modulation="residual"`: γ = weight + MLP_γ(c), β = bias + MLP_β(c). W₂ and W₂' start at 0: the layer is then
    `nn.LayerNorm` with the same `weight` and `bias`.

    `modulation="replace"`: γ = MLP_γ(c), β = MLP_β(c). The first hidden unit carries the start: there W₁ c is the sum of c and
    W₁' c + b is 1; the other columns of W₂ and W₂' are 0. So for weights that sum to 1 the start is γ = 1 and β = 0, or the
    values given by [`carrying`].

    γ and β are the same for all tokens of a row, so they are computed apart from the normalisation:

        scale, shift = norm.modulation(c)  # (B, 1, d) each
        x = norm(x, scale, shift)
    """

    def __init__(self, size: int, num_emotions: int, eps: float = 1e-5, modulation: str = "residual"):
        if modulation not in ("residual", "replace"):
            raise ValueError(f'`modulation` must be "residual" or "replace", got {modulation!r}.')
        if size < 2 or num_emotions < 1:
            raise ValueError(
                f"`size` must be at least 2 and `num_emotions` at least 1, got {size} and {num_emotions}."
            )
        super().__init__(size, eps=eps, elementwise_affine=modulation == "residual")
        hidden = size // 2
        self.scale_in = nn.Parameter(torch.empty(hidden, num_emotions))  # W₁ of γ
        self.scale_out = nn.Parameter(torch.empty(size, hidden))  # W₂ of γ
        self.shift_in = nn.Parameter(torch.empty(hidden, num_emotions))  # W₁ of β
        self.shift_bias = nn.Parameter(torch.empty(hidden))  # b
        self.shift_out = nn.Parameter(torch.empty(size, hidden))  # W₂ of β
        self.reset_modulation()

    @torch.no_grad()
    def reset_modulation(self, std: float = 0.2) -> None:
        """Set the start described above, with W₁ and W₁' from N(0, std²); loaded weights are kept."""
        init.normal_(self.scale_in, mean=0.0, std=std)
        init.normal_(self.shift_in, mean=0.0, std=std)
        for parameter in (self.scale_out, self.shift_bias, self.shift_out):
            init.zeros_(parameter)
        if self.weight is None:
            for parameter, first in ((self.scale_in, 1.0), (self.shift_in, 0.0), (self.shift_bias, 1.0)):
                init.copy_(parameter, torch.cat([torch.full_like(parameter[:1], first), parameter[1:]]))
            init.copy_(self.scale_out, self.carrying(torch.ones_like(self.scale_out[:, 0])))

    def ignores_emotions(self) -> bool:
        """
        Whether γ and β are the same for all emotions, as at the start; False if the weights are not here (meta device,
        shards).
        """
        first = int(self.weight is None)
        parts = [part[:, first:] for part in (self.scale_out, self.shift_out) if part.dim() == 2 and not part.is_meta]
        return len(parts) == 2 and not any(part.any() for part in parts)

    @staticmethod
    def carrying(value: torch.Tensor) -> torch.Tensor:
        """(d,) -> W₂ (d, d/2), with which a layer without `weight` starts at this value, by its first hidden unit."""
        columns = value.new_zeros(len(value), len(value) // 2)
        columns[:, 0] = value / SILU_OF_1
        return columns

    def modulation(self, emotion_weights: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """c (B, E) -> γ, β (B, 1, d)."""
        scale, shift = modulations([self], emotion_weights).unbind(dim=1)
        return scale, shift

    def forward(self, states: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
        """x (B, L, d), γ, β (B, 1, d) -> (B, L, d)."""
        return torch.addcmul(shift, F.layer_norm(states, self.normalized_shape, eps=self.eps), scale)


def modulations(norms: Sequence[ModulatedLayerNorm], emotion_weights: torch.Tensor) -> torch.Tensor:
    """
    c (B, E) -> γ and β of the first norm, then of the second, ... (B, 2M, 1, d).

    The narrow first layers of all norms are computed as one.
    """
    hidden = norms[0].scale_in.shape[0]
    scale_in = torch.cat([norm.scale_in for norm in norms])  # (M·d/2, E)
    shift_in = torch.cat([norm.shift_in for norm in norms])
    shift_bias = torch.cat([norm.shift_bias for norm in norms])
    inner_scales = F.silu(F.linear(emotion_weights, scale_in)).split(hidden, dim=1)  # M times (B, d/2)
    inner_shifts = F.silu(F.linear(emotion_weights, shift_in, shift_bias)).split(hidden, dim=1)
    parts = []
    for norm, inner_scale, inner_shift in zip(norms, inner_scales, inner_shifts, strict=True):
        parts += [F.linear(inner_scale, norm.scale_out), F.linear(inner_shift, norm.shift_out)]
    result = torch.stack(parts, dim=1)  # (B, 2M, d)
    if norms[0].weight is not None:
        result = result + torch.stack([part for norm in norms for part in (norm.weight, norm.bias)])
    return result[:, :, None]


def normalise(norm: nn.Module, states: torch.Tensor, modulation: tuple[torch.Tensor, ...], slot: int | None):
    """Apply a norm with the γ, β at its slot in `modulation` (γ, β, γ, β, ...), or without modulation if `slot` is None."""
    return norm(states) if slot is None else norm(states, modulation[2 * slot], modulation[2 * slot + 1])


__all__ = ["ModulatedLayerNorm", "modulations", "normalise"]
