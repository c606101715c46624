# SPDX-License-Identifier: Apache-2.0
"""Language models of conversations, from which generators of replies start."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base import Task
from .corpora import CORPORA


if TYPE_CHECKING:
    from datasets import Dataset, DatasetDict

    from ...recipes import Recipe
    from ...run_report import RunReport, SeedRun
    from ..base import MainProcessFirst, Prepared
    from ..cards import Card


class LanguageModeling(Task[Any]):
    """Language models of conversations, from which generators of replies start."""

    name = "language-modeling"
    reads = "conversations"
    corpora = CORPORA
    columns = frozenset({"turns"})
    labelled = False
    selects_labels = False
    model_types = ("gpt2",)
    headline = ("perplexity",)
    auto_class = "AutoModelForCausalLM"
    predictor_class = None

    def owns(self, config: Any) -> bool:
        return any(name.endswith("LMHeadModel") for name in getattr(config, "architectures", None) or [])

    def texts(self, rows: Dataset) -> list[str]:
        return ["\n".join(turns) for turns in rows["turns"]]

    def gold(self, rows: Dataset) -> None:
        """There are no labels."""

    def arguments(self, recipe: Recipe) -> dict[str, Any]:
        from .building import arguments

        return arguments()

    def prepare(
        self, recipe: Recipe, splits: DatasetDict, fields: dict[str, Any] | None, first: MainProcessFirst
    ) -> Prepared:
        from .building import prepare

        return prepare(recipe, splits)

    def finish(
        self,
        recipe: Recipe,
        run: SeedRun,
        trainer: Any,
        prepared: Prepared,
        splits: DatasetDict,
        folder: Path | None,
    ) -> None:
        from ..perplexity import finish

        finish(run, trainer, prepared, folder)

    def card(self, folder: Path, recipe: Recipe, report: RunReport, best: SeedRun) -> Card:
        from .card import card

        return card(recipe, report, best)


TASK = LanguageModeling()
