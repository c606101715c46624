# SPDX-License-Identifier: Apache-2.0
"""Emotions of texts: one label or several for each."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ...gold import Gold
from ...io.lazily import datasets
from ..base import ClassificationTask, FileColumns


if TYPE_CHECKING:
    from datasets import Dataset, DatasetDict

    from ...recipes import Fields, Recipe
    from ..base import Fitted, HeldOut


# Fields of a recipe that are for labels.
OF_LABELS = (
    *("class_weights", "positive_weights", "soft_labels", "teachers"),
    *("abstain", "prediction_sets", "shots", "few_shot"),
)


class EmotionClassification(ClassificationTask):
    """Emotions of texts: one label or several for each, or a value for each of some names."""

    name = "emotion-classification"
    reads = "texts"
    columns = frozenset({"text"})
    model_types = ("label-aware-bert", "label-aware", "roberta-esa")
    headline = ("macro_f1", "accuracy", "micro_f1", "weighted_f1", "macro_average_precision", "pearson", "ccc", "mae")
    recipe_fields = frozenset({"label_texts", "max_windows", "languages", *OF_LABELS})
    stock = True
    auto_class = "AutoModelForSequenceClassification"
    predictor_class = "Predictor"
    file_columns = FileColumns()
    predictor_options = frozenset({"taxonomy", "stride", "max_windows", "aggregation_strategy", "add_labels"})
    options = frozenset({"top_k"})
    settings = frozenset({"threshold"})
    explains = frozenset({"labels", "method"})
    ranks_words = True

    def gold(self, rows: Dataset) -> Gold:
        from ...data.splits import gold_matrix
        from ...data.targets import has_targets, target_matrix

        if has_targets(rows):
            return Gold(target_matrix(rows))
        if isinstance(rows.features["labels"], datasets.ClassLabel):
            return super().gold(rows)
        return Gold(gold_matrix(rows))

    def check_recipe(self, recipe: Recipe) -> None:
        from .building import check_recipe

        check_recipe(recipe)

    def over_base_model(self, recipe: Recipe) -> Recipe:
        from .building import over_base_model

        return over_base_model(recipe)

    def arguments(self, recipe: Recipe, train: Dataset) -> Fields:
        """With a method for few rows its own learning rate and epochs, too; values are selected by Pearson's r."""
        from ...data.targets import has_targets
        from .few_shot import arguments_of

        by = {"metric_for_best_model": "pearson"} if has_targets(train) else {}
        method = next(iter(recipe.few_shot or ()), "")
        return super().arguments(recipe, train) | by | arguments_of(method, len(train))

    def methods(self, recipe: Recipe, train: Dataset) -> list[str]:
        from .few_shot import methods_of

        return methods_of(recipe, train, self.model_types[:2])

    def finish(self, recipe: Recipe, fitted: Fitted, splits: DatasetDict, folder: Path | None) -> HeldOut | None:
        from ...data.targets import has_targets
        from ..held_out import finish_classifier, held_out
        from .unlike import telling
        from .values import held_out_values

        finish = telling(fitted.prepared, held_out_values if has_targets(splits["train"]) else held_out)
        return finish_classifier(self, recipe, fitted, splits, folder, finish)


TASK = EmotionClassification()
