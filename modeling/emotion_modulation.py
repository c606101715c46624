# SPDX-License-Identifier: Apache-2.0
"""Puts an emotion on the norms of the layers of a language model.

Shapes: B batch, L tokens, E emotions, M modulated norms of the model, S = M or (with a shift) 2M, h hidden size of the MLPs, d
hidden size.
"""

import threading
from collections.abc import Sequence

import torch
from torch import nn
from torch.nn import functional as F
from transformers import initialization as init

from .configuration_emotion_modulated import EmotionModulatedConfig


class EmotionModulation(nn.Module):
    r"""
    All modulators of a model (eqs. 2 and 3 of Liu et al. 2021, without the bias b), which owns their weights:

        Δγ(c) = W₂ SiLU(W₁ c)        Δβ(c) = W₂' SiLU(W₁' c)

    with W₁ (h, E), W₂ (d, h) for each norm. W₂ starts at 0, so that every emotion starts as the language model; c = 0 always is the
    language model.
    """

    def __init__(self, config: EmotionModulatedConfig, norms: int):
        super().__init__()
        self.std = float(config.modulation_initializer_range)
        slots, hidden = 2 * norms if config.shift else norms, config.modulation_size
        self.input_weight = nn.Parameter(
            torch.empty(slots, hidden, config.num_emotions)
        )  # W₁ of each Δγ, then of each Δβ
        self.output_weight = nn.Parameter(torch.empty(slots, config.hidden_size, hidden))  # W₂ likewise
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Set the start; loaded weights are kept."""
        init.normal_(self.input_weight, mean=0.0, std=self.std)
        init.zeros_(self.output_weight)

    def forward(self, emotion_weights: torch.Tensor) -> torch.Tensor:
        """c (B, E) -> Δγ of each norm, then Δβ of each norm (B, S, 1, d)."""
        weights = emotion_weights.to(self.input_weight)  # its dtype and device
        inner = F.silu(F.linear(weights, self.input_weight.flatten(0, 1)))  # (B, S·h)
        inner = inner.view(len(weights), *self.input_weight.shape[:2]).transpose(0, 1)  # (S, B, h)
        return torch.bmm(inner, self.output_weight.mT).transpose(0, 1)[:, :, None]


class ModulatedNorm:
    """Over a norm's own class: norm(x) · (1 + Δγ) + Δβ while its layer runs with an emotion, norm(x) otherwise."""

    scale_slot: int  # where in S this norm's Δγ stands
    shift_slot: int | None  # where its Δβ stands
    running: dict[int, Sequence[torch.Tensor]]  # its layer's

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        states = super().forward(states)  # type: ignore[misc]  # of the norm's own class
        modulation = self.running.get(_thread())
        if modulation is None:
            return states
        scale = modulation[self.scale_slot]
        if flat := states.dim() == 2:  # OPT's layers put the tokens of all rows into one dimension
            states = states.unflatten(0, (len(scale), -1))
        # Not states · (1 + Δγ): in bfloat16 1 + Δγ loses a small Δγ.
        states = torch.addcmul(states, states, scale.to(states))
        if self.shift_slot is not None:
            states = states + modulation[self.shift_slot].to(states)
        return states.flatten(0, 1) if flat else states


class ModulatedLayer:
    """Over a layer's own class: takes `emotion_modulation`, S times (B, 1, d), and puts it on its norms for this call alone."""

    running: dict[
        int, Sequence[torch.Tensor]
    ]  # thread -> the modulation of the forward pass that it runs; its norms read it
    reached = False  # whether an emotion has come down to this layer

    def forward(self, *args, emotion_modulation: Sequence[torch.Tensor] | None = None, **kwargs):
        if emotion_modulation is None:
            return super().forward(*args, **kwargs)  # type: ignore[misc]  # of the layer's own class
        if not self.reached:  # setting an attribute of a module is slow
            self.reached = True
        thread = _thread()
        self.running[thread] = emotion_modulation
        try:
            return super().forward(*args, **kwargs)  # type: ignore[misc]
        finally:
            del self.running[thread]


def _thread() -> int:
    """Threads may share a model. A compiled graph runs in one."""
    return 0 if torch.compiler.is_compiling() else threading.get_ident()


def modulate(module: nn.Module, over: type) -> None:
    """Put `over` in front of the bases of a module's class, which keeps its name: transformers and accelerate look for it."""
    own = type(module)
    module.__class__ = type(own.__name__, (over, own), {"__module__": own.__module__, "__doc__": own.__doc__})


def norms_of(layer: nn.Module) -> list[str]:
    """The names of the norms of a layer. Those inside of its attention, such as `q_norm`, are no part of the paper's idea."""
    return [name for name, child in layer.named_children() if "norm" in type(child).__name__.lower()]


def place_modulation(layers: nn.ModuleList, names: Sequence[str], shift: bool) -> None:
    """Let the norms of these names in every layer follow the emotion."""
    total = len(names) * len(layers)
    for number, layer in enumerate(layers):
        modulate(layer, ModulatedLayer)
        running: dict[int, Sequence[torch.Tensor]] = {}
        layer.running = running
        for position, name in enumerate(names):
            norm, slot = getattr(layer, name), number * len(names) + position
            modulate(norm, ModulatedNorm)
            norm.scale_slot, norm.shift_slot, norm.running = slot, total + slot if shift else None, running


__all__ = ["EmotionModulation", "norms_of", "place_modulation"]
