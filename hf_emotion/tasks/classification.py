# SPDX-License-Identifier: Apache-2.0
"""What tasks have in common whose models choose labels, and are measured against gold labels."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .base import HeldOut, P, Prepared, Table, Task


if TYPE_CHECKING:
    from datasets import Dataset, DatasetDict

    from ..recipes import Fields, Recipe
    from ..run_report import SeedRun


class ClassificationTask(Task[P]):
    """A task whose models choose labels."""

    def arguments(self, recipe: Recipe, train: Dataset) -> Fields:
        """The metric of the corpus selects the epoch."""
        from . import corpus_of

        return {"metric_for_best_model": corpus_of(recipe.dataset).selection_metric}

    def finish(
        self, recipe: Recipe, run: SeedRun, trainer: Any, prepared: Prepared, splits: DatasetDict, folder: Path | None
    ) -> HeldOut | None:
        from .held_out import finish_classifier

        return finish_classifier(self, recipe, run, trainer, prepared, splits, folder)

    def figures(self, result: Mapping[str, Any], dataset: str, split: str, all_figures: bool) -> list[Table | str]:
        from .classifier_evaluating import figures

        return figures(self, result, dataset, split, all_figures)
