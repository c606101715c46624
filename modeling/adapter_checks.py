# SPDX-License-Identifier: Apache-2.0
"""Looks at the adapters that PEFT puts over a model."""

from collections.abc import Sequence
from typing import TYPE_CHECKING


if TYPE_CHECKING:
    from transformers import PreTrainedModel as _Model
else:
    _Model = object


class ChecksAdapters(_Model):
    """A base of models that check an adapter before they take it, see `_check_adapter`."""

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

    @peft_config.deleter
    def peft_config(self) -> None:
        del self.__dict__["peft_config"]

    def _check_adapter(self, name: str, config) -> None:
        """ValueError unless the adapter of this name trains and saves the new weights; by default PEFT does neither."""
        raise NotImplementedError


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


__all__ = ["ChecksAdapters", "refuse_without", "saved_modules"]
