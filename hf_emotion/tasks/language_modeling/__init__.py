# SPDX-License-Identifier: Apache-2.0
"""Language models of conversations, from which generators of replies start."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..base import GenerationTask


if TYPE_CHECKING:
    from datasets import Dataset

    from ...recipes import Fields, Recipe


class LanguageModeling(GenerationTask):
    """Language models of conversations, from which generators of replies start."""

    name = "language-modeling"
    reads = "conversations"
    columns = frozenset({"turns"})
    labelled = False
    model_types = ("gpt2",)
    auto_class = "AutoModelForCausalLM"
    predictor_class = None

    def owns(self, config: Any) -> bool:
        return any(name.endswith("LMHeadModel") for name in getattr(config, "architectures", None) or [])

    def texts(self, rows: Dataset) -> list[str]:
        return ["\n".join(turns) for turns in rows["turns"]]

    def arguments(self, recipe: Recipe, train: Dataset) -> Fields:
        # All blocks have the same length.
        return super().arguments(recipe, train) | {"train_sampling_strategy": "random"}


TASK = LanguageModeling()
