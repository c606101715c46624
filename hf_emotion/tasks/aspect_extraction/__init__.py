# SPDX-License-Identifier: Apache-2.0
"""The terms that a text speaks of, and the sentiment towards each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...gold import Gold
from ...io.lazily import numpy as np
from ...runtime.plain import text_processing
from ..base import ClassificationTask, FileColumns


if TYPE_CHECKING:
    from datasets import Dataset, DatasetDict

    from ...recipes import Recipe
    from ..base import Fitted, HeldOut


class AspectExtraction(ClassificationTask):
    """The terms that a text speaks of, and the sentiment towards each. Its models give every word a tag, see `term_tags`."""

    name = "aspect-extraction"
    reads = "texts with terms"
    columns = frozenset({"text", "words"})
    headline = ("pair_f1", "term_f1", "polarity_accuracy")
    recipe_fields = frozenset({"languages"})
    stock = True
    auto_class = "AutoModelForTokenClassification"
    predictor_class = "AspectPredictor"
    file_columns = FileColumns(places=True)
    predictor_options = frozenset({"sentiment_model"})
    options = frozenset({"group"})
    explains = frozenset({"targets", "method"})

    def owns(self, config: Any) -> bool:
        return bool(text_processing.tag_labels((getattr(config, "id2label", None) or {}).values()))

    def labels(self, names: Sequence[str]) -> list[str]:
        return text_processing.tag_labels(names)

    def gold(self, rows: Dataset) -> Gold:
        return Gold(np.array([tag for tags in rows["labels"] for tag in tags], dtype=np.int64))

    def units(self, rows: Dataset) -> tuple[list[str], list[str]]:
        """The words, ROW/NUMBER, and the texts with the word in brackets."""
        found = [
            (f"{row}/{number}", f"{text[:start]}[{text[start:end]}]{text[end:]}")
            for row, text, words in zip(rows["id"], rows["text"], rows["words"], strict=True)
            for number, (start, end) in enumerate(words, 1)
        ]
        return [name for name, _ in found], [text for _, text in found]

    def finish(self, recipe: Recipe, fitted: Fitted, splits: DatasetDict, folder: Path | None) -> HeldOut | None:
        """As for classifiers, whose figures are those of the tags here, plus the figures of the terms."""
        from .evaluating import with_terms

        found = super().finish(recipe, fitted, splits, folder)
        for split, probabilities in {} if found is None else found.probabilities.items():
            fitted.run.record(split, with_terms(fitted.run.figures(split), splits[split], probabilities))
        return found


TASK = AspectExtraction()
