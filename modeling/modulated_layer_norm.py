# SPDX-License-Identifier: Apache-2.0
"""Layer normalisation whose scale and shift follow an emotion.

Shapes: B batch, E emotions, M norms, d hidden size.
"""

from collections.abc import Iterable
from math import exp

import torch
from torch import nn
from torch.nn import functional as F
from transformers import initialization as init


SILU_OF_1 = 1 / (1 + exp(-1))


class Modulators(nn.Module):
    r"""
    What an emotion adds to the scale and the shift of each of M norms, where c (B, E) weighs the emotions (eqs. 1-3):

        MLP_γ(c) = W₂ SiLU(W₁ c)         MLP_β(c) = W₂' SiLU(W₁' c + b)

    with W₁ (d/2, E), W₂ (d, d/2) for each norm. The bias b is in β, as in eq. 3 (the text beside it says γ).

    `modulation="residual"`: γ = weight + MLP_γ(c), β = bias + MLP_β(c), with the norm's own weight and bias. W₂ and W₂' start at
    0: the norm is then `nn.LayerNorm` with the same `weight` and `bias`.

    `modulation="replace"`: γ = MLP_γ(c), β = MLP_β(c). The first hidden unit carries the start: there W₁ c is the sum of c and
    W₁' c + b is 1; the other columns of W₂ and W₂' are 0. So for weights that sum to 1 the start is γ = 1 and β = 0, or the
    values given by [`carrying`].

    They are the same for all tokens of a row, so they are computed apart from the normalisation, and for all norms at once:

        scale, shift = modulators(c).unbind(dim=1)  # for one norm: (B, 1, d) each
        x = norm(x, scale, shift)

    The module holds all weights itself: weights that are read outside their module's `forward` can be neither offloaded nor
    sharded.

    Args:
        names (`Iterable[str]`): names of the norms, in the order of the result; the weights are named after them.
        size (`int`): d.
        num_emotions (`int`): E.
        modulation (`"residual"` or `"replace"`): as above.
    """

    # W₁ and W₂ of γ; W₁, b and W₂ of β.
    parts = ("scale_in", "scale_out", "shift_in", "shift_bias", "shift_out")

    def __init__(self, names: Iterable[str], size: int, num_emotions: int, modulation: str = "residual"):
        check_modulation(modulation)
        if size < 2 or num_emotions < 1:
            raise ValueError(
                f"`size` must be at least 2 and `num_emotions` at least 1, got {size} and {num_emotions}."
            )
        super().__init__()
        self.names = tuple(name.replace(".", "_") for name in names)
        self.replace = modulation == "replace"
        hidden = size // 2
        shapes = ((hidden, num_emotions), (size, hidden), (hidden, num_emotions), (hidden,), (size, hidden))
        for name in self.names:
            for part, shape in zip(self.parts, shapes, strict=True):
                self.register_parameter(f"{name}_{part}", nn.Parameter(torch.empty(shape)))
        self.reset()

    @classmethod
    def old_names(cls, names: Iterable[str]) -> dict[str, str]:
        """The old names of these norms' weights, inside each norm -> the new ones, in the module `modulation`."""
        return {
            f"{name}.{part}": f"modulation.{name.replace('.', '_')}_{part}" for name in names for part in cls.parts
        }

    def of(self, part: str) -> list[nn.Parameter]:
        """One part of the weights, for each norm."""
        return [getattr(self, f"{name}_{part}") for name in self.names]

    @torch.no_grad()
    def reset(self, std: float = 0.2) -> None:
        """Set the start described above, with W₁ and W₁' from N(0, std²); loaded weights are kept."""
        for scale_in, scale_out, shift_in, shift_bias, shift_out in zip(*map(self.of, self.parts), strict=True):
            init.normal_(scale_in, mean=0.0, std=std)
            init.normal_(shift_in, mean=0.0, std=std)
            for parameter in (scale_out, shift_bias, shift_out):
                init.zeros_(parameter)
            if self.replace:
                for parameter, first in ((scale_in, 1.0), (shift_in, 0.0), (shift_bias, 1.0)):
                    init.copy_(parameter, torch.cat([torch.full_like(parameter[:1], first), parameter[1:]]))
                init.copy_(scale_out, carrying(torch.ones_like(scale_out[:, 0])))

    def ignores_emotions(self) -> bool:
        """
        Whether the result is the same for all emotions, as at the start; False if the weights are not here (meta device, shards).
        """
        weights = [*self.of("scale_out"), *self.of("shift_out")]
        if any(weight.dim() != 2 or weight.is_meta for weight in weights):
            return False
        return not any(weight[:, int(self.replace) :].any() for weight in weights)

    def forward(self, emotion_weights: torch.Tensor) -> torch.Tensor:
        """
        c (B, E) -> MLP_γ and MLP_β of the first norm, then of the second, ... (B, 2M, 1, d).

        The narrow first layers of all norms are computed as one.
        """
        scale_out, shift_out = self.of("scale_out"), self.of("shift_out")
        emotion_weights = emotion_weights.to(scale_out[0])  # its dtype and device
        hidden = scale_out[0].shape[1]
        inner_scales = F.silu(F.linear(emotion_weights, torch.cat(self.of("scale_in"))))  # (B, M·d/2)
        inner_shifts = F.silu(
            F.linear(emotion_weights, torch.cat(self.of("shift_in")), torch.cat(self.of("shift_bias")))
        )
        parts = []
        for inner_scale, scale, inner_shift, shift in zip(
            inner_scales.split(hidden, dim=1), scale_out, inner_shifts.split(hidden, dim=1), shift_out, strict=True
        ):
            parts += [F.linear(inner_scale, scale), F.linear(inner_shift, shift)]
        return torch.stack(parts, dim=1)[:, :, None]


class ModulatedLayerNorm(nn.LayerNorm):
    r"""
    x̂ = γ · (x − μ) / √(var + ε) + β with the γ and β of [`Modulators`]. With `modulation="residual"` it has a `weight` and a `bias`,
    to which they are added. The paper divides by σ + ε; √(var + ε) keeps the meaning of pretrained weights.
    """

    def __init__(self, size: int, eps: float = 1e-5, modulation: str = "residual"):
        check_modulation(modulation)
        super().__init__(size, eps=eps, elementwise_affine=modulation == "residual")

    def forward(self, states: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
        """x (B, L, d), and what the emotion gives for scale and shift (B, 1, d) -> (B, L, d)."""
        if self.weight is not None:
            scale, shift = scale + self.weight, shift + self.bias
        return torch.addcmul(shift, F.layer_norm(states, self.normalized_shape, eps=self.eps), scale)


def carrying(value: torch.Tensor) -> torch.Tensor:
    """(d,) -> W₂ (d, d/2), with which a norm without `weight` starts at this value, by its first hidden unit."""
    columns = value.new_zeros(len(value), len(value) // 2)
    columns[:, 0] = value / SILU_OF_1
    return columns


def check_modulation(modulation: str) -> None:
    """ValueError unless it is one of the two."""
    if modulation not in ("residual", "replace"):
        raise ValueError(f'`modulation` must be "residual" or "replace", got {modulation!r}.')


def normalise(norm: nn.Module, states: torch.Tensor, modulation: tuple[torch.Tensor, ...], slot: int | None):
    """Apply a norm with its slot in `modulation` (scale, shift, scale, shift, ...), or a plain one if `slot` is None."""
    return norm(states) if slot is None else norm(states, modulation[2 * slot], modulation[2 * slot + 1])


__all__ = ["ModulatedLayerNorm", "Modulators", "carrying", "normalise"]
