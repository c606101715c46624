# SPDX-License-Identifier: Apache-2.0
"""Loads and saves weights that were renamed after checkpoints had been written."""

import re
from typing import TYPE_CHECKING

from transformers.core_model_loading import WeightRenaming


if TYPE_CHECKING:
    from transformers import PreTrainedModel as _Model
else:
    _Model = object


class RenamedWeights(_Model):
    """
    A base of base models and heads, to name first. Checkpoints have the old names: `from_pretrained` and `load_state_dict`
    take old and new names, `save_pretrained` writes the old ones. So every version reads every checkpoint.

    `_renamed_weights` maps old names, or parts of names that begin after a dot, to new ones, e.g. {"label_attention.":
    "score."}; "^" at the start of an old name means the beginning of a name in the base model, "#" in both names a number.
    The mapping is not registered with transformers, which knows a model only by its class name: older code beside a checkpoint may
    have a class of the same name.
    """

    _renamed_weights: dict[str, str]

    @classmethod
    def _renaming_patterns(cls) -> dict[str, str]:
        patterns: dict[str, str] = {}
        for old, new in cls._renamed_weights.items():
            starts = [r"(?<!\w)"]
            if old.startswith("^"):
                starts = [r"(?<![\w.])", rf"(?<=^{cls.base_model_prefix}\.)"]
            old, new = (re.escape(name).replace(r"\#", r"(\d+)") for name in (old.removeprefix("^"), new))
            patterns |= {start + old: start + new for start in starts}
        return patterns

    @classmethod
    def _renamings(cls) -> list[WeightRenaming]:
        return [WeightRenaming(*patterns) for patterns in cls._renaming_patterns().items()]

    @classmethod
    def from_pretrained(
        cls, pretrained_model_name_or_path, *args, key_mapping: dict[str, str] | None = None, **kwargs
    ):
        """As in every model of transformers."""
        key_mapping = cls._renaming_patterns() | (key_mapping or {})
        return super().from_pretrained(pretrained_model_name_or_path, *args, key_mapping=key_mapping, **kwargs)

    def save_pretrained(self, *args, **kwargs):
        """As in every model of transformers."""
        # Transformers writes the names that it read; these are the new names if the checkpoint had none of these weights.
        self._weight_conversions = self._renamings()
        return super().save_pretrained(*args, **kwargs)

    def _load_from_state_dict(self, state_dict, prefix, *args):
        # Needed because the Trainer loads the best and the last checkpoint by `load_state_dict`.
        renamings = self._renamings()
        for name in [name for name in state_dict if name.startswith(prefix)]:
            renamed = name.removeprefix(prefix)
            for renaming in renamings:
                renamed, _ = renaming.rename_source_key(renamed)
            state_dict[prefix + renamed] = state_dict.pop(name)
        super()._load_from_state_dict(state_dict, prefix, *args)


__all__ = ["RenamedWeights"]
