# SPDX-License-Identifier: Apache-2.0
"""What tasks have in common whose models write, and are measured by their perplexity."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from .base import P, Prepared, Task


if TYPE_CHECKING:
    from datasets import Dataset, DatasetDict

    from ..recipes import Fields, Recipe
    from ..run_report import SeedRun


class GenerationTask(Task[P]):
    """A task whose models write."""

    selects_labels = False
    headline = ("perplexity",)

    def arguments(self, recipe: Recipe, train: Dataset) -> Fields:
        return {"metric_for_best_model": "perplexity"}

    def finish(
        self, recipe: Recipe, run: SeedRun, trainer: Any, prepared: Prepared, splits: DatasetDict, folder: Path | None
    ) -> None:
        from .perplexity import finish

        finish(run, trainer, prepared, folder)
