# SPDX-License-Identifier: Apache-2.0
"""Looks at the adapters that PEFT puts over a model."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch


if TYPE_CHECKING:
    from transformers import PreTrainedModel as _Model
else:
    _Model = object


class ChecksAdapters(_Model):
    """A base of models that check an adapter before they take it, see `_check_adapter`."""

    _checked_adapters: frozenset[str] = frozenset()

    @property
    def peft_config(self) -> dict:
        """The adapters. PEFT sets this attribute; without an adapter it does not exist."""
        if "peft_config" not in self.__dict__:
            raise AttributeError("peft_config")
        return self.__dict__["peft_config"]

    @peft_config.setter
    def peft_config(self, adapters: dict) -> None:
        for name, config in adapters.items():
            self._check_adapter(name, config)
        self.__dict__["peft_config"] = adapters
        self._checked_adapters = frozenset(adapters)

    @peft_config.deleter
    def peft_config(self) -> None:
        del self.__dict__["peft_config"]

    def _check_training(self) -> None:
        """`_check_adapter` where a training begins, for adapters after the first: PEFT changes the dictionary that it has set."""
        if _trains(self):
            for name, config in self.__dict__.get("peft_config", {}).items():
                if name not in self._checked_adapters:
                    self._check_adapter(name, config)
                    self._checked_adapters = self._checked_adapters | {name}

    def _check_adapter(self, name: str, config) -> None:
        """ValueError unless the adapter of this name trains and saves the new weights; by default PEFT does neither."""
        raise NotImplementedError


# The modules of classifiers that may hold new weights.
NEW_MODULES = ("classifier", "score", "pooler")


class TrainsNewWeights(_Model):
    """A base of classifiers, to name first: adapters that would leave new weights untrained are refused where a training begins."""

    # Names of parameters that the checkpoint lacked; None: there was no checkpoint.
    _new_weights: frozenset[str] | None = None

    def _check_training(self) -> None:
        """ValueError if there are adapters, and new weights that are not trained."""
        adapters = self.__dict__.get("peft_config")  # PEFT sets it
        if not adapters or not _trains(self):
            return
        trained: dict[str, bool] = {}
        for name, parameter in self.named_parameters():
            name = re.sub(r"\.(original_module|base_layer|modules_to_save\.[^.]+)(?=\.)", "", name)  # PEFT's own parts
            trained[name] = trained.get(name, False) or parameter.requires_grad
        left = [name for name in trained if not trained[name] and self._is_new(name)]
        modules = [module for module in NEW_MODULES if any(module in name.split(".") for name in left)]
        name, config = list(adapters.items())[-1]
        refuse_without(name, config, [module for module in modules if module not in saved_modules(config)])

    def _is_new(self, name: str) -> bool:
        if self._new_weights is None:
            return not {"classifier", "score"}.isdisjoint(name.split("."))
        return name in self._new_weights


def _trains(model: torch.nn.Module) -> bool:
    return model.training and torch.is_grad_enabled() and not torch.compiler.is_compiling()


def saved_modules(config) -> list[str]:
    """The modules that an adapter trains and saves in full."""
    return list(getattr(config, "modules_to_save", None) or ())


def refuse_without(name: str, config, lacking: Sequence[str]) -> None:
    """ValueError if an adapter lacks modules with new weights."""
    if not lacking:
        return
    given = saved_modules(config)
    modules = ", ".join(f'"{module}"' for module in [*given, *lacking])
    raise ValueError(
        f"the adapter would neither train nor save the new weights: `modules_to_save` of {name!r} must "
        f"name their modules, got {given or None}. Load the model anew, for this call has changed it, and pass "
        f"{type(config).__name__}(..., modules_to_save=[{modules}]). Weights that were trained and saved are not new: load that model "
        "with `from_pretrained`, and the adapters that were made over it."
    )


__all__ = ["ChecksAdapters", "TrainsNewWeights", "refuse_without", "saved_modules"]
