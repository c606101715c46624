# SPDX-License-Identifier: Apache-2.0
"""Sentiment towards the aspects of targets in texts."""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...io.lazily import numpy as np
from ..base import ClassificationTask, FileColumns


if TYPE_CHECKING:
    from datasets import Dataset, DatasetDict

    from ...recipes import Fields, Recipe
    from ...run_report import Contexts, RunReport, SeedRun
    from ..base import Guidance, Part
    from ..cards import Card


# Standard deviation of the new weights of CG-BERT and QACG-BERT on your own files. The paper's e⁻³, which the recipes and the
# configuration keep, drowns MiniLM's attention: for a long time the training only learns how frequent the labels are.
OWN_CONTEXT_INITIALIZER_RANGE = 0.01
GUIDED, LABEL_AWARE = ("cg-bert", "qacg-bert"), ("label-aware-bert", "label-aware")


class TargetedSentiment(ClassificationTask):
    """Sentiment towards the aspects of targets in texts."""

    name = "targeted-sentiment"
    reads = "texts with aspects"
    columns = frozenset({"text", "aspect", "auxiliary", "context_id"})
    model_types = (*GUIDED, *LABEL_AWARE)
    headline = (
        *("aspect_macro_f1", "sentiment_accuracy", "aspect_auc", "f1", "accuracy_4way"),
        *("macro_f1", "accuracy", "weighted_f1"),
    )
    recipe_fields = frozenset({"one_model_per_context", "class_weights", "languages"})
    stock = True
    auto_class = "AutoModelForSequenceClassification"
    predictor_class = "TargetedPredictor"
    file_columns = FileColumns()
    options = frozenset({"targets"})
    explains = frozenset({"labels", "targets", "aspects", "method", "layer", "head"})
    ranks_words = True

    def owns(self, config: Any) -> bool:
        return getattr(config, "aspects", None) is not None

    def counted_texts(self, rows: Dataset) -> Counter[str]:
        """A sentence has one row per aspect, so it counts as often as its most frequent aspect."""
        found: Counter[str] = Counter()
        for (text, _), count in Counter(zip(rows["text"], rows["context_id"], strict=True)).items():
            found[text] = max(found[text], count)
        return found

    def groups(self, rows: Dataset) -> list[tuple[str, int]]:
        """Text and number of the target: the metrics of the corpora are over all aspects of these."""
        from .loading import context_names

        aspects = len(context_names(rows)[1])
        return [(text, context // aspects) for text, context in zip(rows["text"], rows["context_id"], strict=True)]

    def units(self, rows: Dataset) -> tuple[list[str], list[str]]:
        pairs = zip(rows["text"], rows["auxiliary"], strict=True)
        return list(rows["id"]), [f"{text} [{auxiliary}]" for text, auxiliary in pairs]

    def contexts(self, rows: Dataset) -> Contexts:
        from .loading import TARGET_TEXTS, context_names

        targets, aspects = context_names(rows)
        words = None if targets is None else [TARGET_TEXTS.get(name, name) for name in targets]
        return {"aspects": aspects, "targets": targets, "target_texts": words}

    def complete(self, recipe: Recipe) -> Fields:
        """The spread of new weights for your own files."""
        from .. import corpus_of

        if recipe.model_type not in GUIDED or not corpus_of(recipe.dataset).own_files:
            return {}
        return {"context_initializer_range": OWN_CONTEXT_INITIALIZER_RANGE}

    def check_recipe(self, recipe: Recipe) -> None:
        if recipe.one_model_per_context and recipe.model_type is not None:
            raise ValueError(
                f"`one_model_per_context` is for stock models, not for `model_type` {recipe.model_type!r}."
            )

    def warn(self, train: Dataset, names: list[str], has_label: np.ndarray) -> None:
        from .building import warn

        warn(train, names, has_label)

    def arguments(self, recipe: Recipe, train: Dataset) -> Fields:
        # The metrics of a corpus need the rows of all contexts.
        by = {"metric_for_best_model": "accuracy"}
        return by if recipe.one_model_per_context else super().arguments(recipe, train)

    def parts(self, recipe: Recipe, splits: DatasetDict) -> list[Part] | None:
        from .building import parts

        return parts(recipe, splits)

    def card(self, folder: Path, recipe: Recipe, report: RunReport, best: SeedRun) -> Card:
        from .card import card

        return card(folder, recipe, report, best)

    def aspect_errors(
        self, report: RunReport, ids: list[str], names: list[str], gold: np.ndarray, predicted: np.ndarray
    ) -> dict[str, dict[str, float]] | None:
        """For each aspect its rows, accuracy and three kinds of errors; None without a label "none"."""
        from ...metrics.numbers import mean
        from .loading import none_label

        name = none_label(names)
        if name is None:
            return None
        none = names.index(name)
        result = {}
        assert report.contexts is not None
        aspects, targets = report.contexts["aspects"], report.contexts["targets"]
        # the end of a row's id -> its aspect
        asked = {
            f"/{aspect}" if target is None else f"/{target}/{aspect}": aspect
            for target in targets or (None,)
            for aspect in aspects
        }
        ends = sorted(asked, key=len, reverse=True)  # an aspect with a slash may end like another one
        of_rows = np.array([asked[next(end for end in ends if row.endswith(end))] for row in ids])
        for aspect in aspects:
            rows = of_rows == aspect
            labels, own = gold[rows], predicted[rows]
            result[aspect] = {
                "rows": len(labels),
                "accuracy": mean(labels == own),
                "missed": int(((labels != none) & (own == none)).sum()),
                "invented": int(((labels == none) & (own != none)).sum()),
                "wrong sentiment": int(((labels != none) & (own != none) & (labels != own)).sum()),
            }
        return result

    def guidance(self, report: RunReport) -> Guidance | None:
        from .guidance import of_run

        return partial(of_run, report) if report.model_type in GUIDED else None


TASK = TargetedSentiment()
