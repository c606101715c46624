# SPDX-License-Identifier: Apache-2.0
"""Weights that were renamed after checkpoints with them had been written."""

import re
from typing import TYPE_CHECKING

from transformers.core_model_loading import WeightRenaming


if TYPE_CHECKING:
    from transformers import PreTrainedModel as _Model
else:
    _Model = object


class RenamedWeights(_Model):
    """
    For base models and heads, before their other bases. Checkpoints have the old names: `from_pretrained` and `load_state_dict`
    take them and the new ones, `save_pretrained` writes them. So every version reads every checkpoint.

    `_renamed_weights` maps old names to new ones, or parts of names that begin after a dot, e.g. {"label_attention.": "score."};
    "^" before an old name stands for the beginning of the names of the base model.
    Not registered with transformers, which knows a model by the name of its class alone: older code beside a checkpoint may
    have one of that name.
    """

    _renamed_weights: dict[str, str]

    @classmethod
    def _renaming_patterns(cls) -> dict[str, str]:
        patterns: dict[str, str] = {}
        for old, new in cls._renamed_weights.items():
            starts = [r"(?<!\w)"]
            if old.startswith("^"):
                starts = [r"(?<![\w.])", rf"(?<=^{cls.base_model_prefix}\.)"]
            patterns |= {start + re.escape(old.removeprefix("^")): start + re.escape(new) for start in starts}
        return patterns

    @classmethod
    def _renamings(cls) -> list[WeightRenaming]:
        return [WeightRenaming(*patterns) for patterns in cls._renaming_patterns().items()]

    @classmethod
    def from_pretrained(
        cls, pretrained_model_name_or_path, *args, key_mapping: dict[str, str] | None = None, **kwargs
    ):
        """As of every model of transformers."""
        key_mapping = cls._renaming_patterns() | (key_mapping or {})
        return super().from_pretrained(pretrained_model_name_or_path, *args, key_mapping=key_mapping, **kwargs)

    def save_pretrained(self, *args, **kwargs):
        """As of every model of transformers."""
        # Transformers writes the names that it read, which are the new ones where the checkpoint had none of these weights.
        self._weight_conversions = self._renamings()
        return super().save_pretrained(*args, **kwargs)

    def _load_from_state_dict(self, state_dict, prefix, *args):
        # The Trainer loads the best and the last checkpoint by `load_state_dict`.
        for name in [name for name in state_dict if name.startswith(prefix)]:
            renamed = name.removeprefix(prefix)
            for renaming in self._renamings():
                renamed, _ = renaming.rename_source_key(renamed)
            state_dict[prefix + renamed] = state_dict.pop(name)
        super()._load_from_state_dict(state_dict, prefix, *args)


__all__ = ["RenamedWeights"]
