# SPDX-License-Identifier: Apache-2.0
"""Sentiment towards the aspects of targets in texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...data.lazily import numpy as np
from ..base import FileColumns, Task
from .corpora import CORPORA


if TYPE_CHECKING:
    from datasets import Dataset, DatasetDict

    from ...recipes import Recipe
    from ...run_report import RunReport, SeedRun
    from ...runtime.attribution import Explained, Merge, Reading
    from ...runtime.remote import Client
    from ..base import Answer, Guidance, HeldOut, MainProcessFirst, Page, Part, PipelineFunction, Prepared
    from ..cards import Card
    from ..exporting import Exporter
    from ..service import Service
    from ..text_explaining import Question
    from .predictor import TargetedPredictor
    from .remote import RemotePredictor


class TargetedSentiment(Task["TargetedPredictor"]):
    """Sentiment towards the aspects of targets in texts."""

    name = "targeted-sentiment"
    reads = "texts with aspects"
    corpora = CORPORA
    columns = frozenset({"aspect", "auxiliary", "context_id"})
    model_types = ("cg-bert", "qacg-bert")
    headline = (
        "aspect_macro_f1",
        "sentiment_accuracy",
        "aspect_auc",
        "f1",
        "accuracy_4way",
        "macro_f1",
        "accuracy",
        "weighted_f1",
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

    def ran(self, report: RunReport) -> bool:
        return report.contexts is not None

    def texts(self, rows: Dataset) -> list[str]:
        return list(rows["text"])

    def counted_texts(self, rows: Dataset) -> Counter[str]:
        from .rows import counted_texts

        return counted_texts(rows)

    def groups(self, rows: Dataset) -> list[tuple[str, int]]:
        from .rows import groups

        return groups(rows)

    def gold(self, rows: Dataset) -> np.ndarray:
        return np.asarray(rows["labels"], dtype=np.int64)

    def units(self, rows: Dataset) -> tuple[list[str], list[str]]:
        pairs = zip(rows["text"], rows["auxiliary"], strict=True)
        return list(rows["id"]), [f"{text} [{auxiliary}]" for text, auxiliary in pairs]

    def contexts(self, rows: Dataset) -> dict[str, Any]:
        from .rows import contexts

        return contexts(rows)

    def complete(self, recipe: Recipe) -> dict[str, Any]:
        from .building import complete

        return complete(recipe)

    def check_recipe(self, recipe: Recipe) -> None:
        from .building import check_recipe

        check_recipe(recipe)

    def warn(self, train: Dataset, names: list[str], has_label: np.ndarray) -> None:
        from .building import warn

        warn(train, names, has_label)

    def arguments(self, recipe: Recipe) -> dict[str, Any]:
        from .building import arguments

        return arguments(recipe)

    def parts(self, recipe: Recipe, splits: DatasetDict) -> list[Part] | None:
        from .building import parts

        return parts(recipe, splits)

    def prepare(
        self, recipe: Recipe, splits: DatasetDict, fields: dict[str, Any] | None, first: MainProcessFirst
    ) -> Prepared:
        from .building import prepare

        return prepare(recipe, splits, fields, first)

    def finish(
        self,
        recipe: Recipe,
        run: SeedRun,
        trainer: Any,
        prepared: Prepared,
        splits: DatasetDict,
        folder: Path | None,
    ) -> HeldOut | None:
        from .building import finish

        return finish(recipe, run, trainer, prepared, splits, folder)

    def card(self, folder: Path, recipe: Recipe, report: RunReport, best: SeedRun) -> Card:
        from .card import card

        return card(folder, recipe, report, best)

    def predictor(self, model: Any, tokenizer: Any, **options: Any) -> TargetedPredictor:
        from .predictor import TargetedPredictor

        return TargetedPredictor(model, tokenizer, **options)

    def answer(
        self, predictor: TargetedPredictor, lines: list[str], *, stream: bool = False, **options: Any
    ) -> Answer:
        from .showing import answer

        return answer(predictor, lines, stream=stream, **options)

    def loader_options(self, predictor: TargetedPredictor, dataset: str) -> dict[str, Any]:
        from .evaluating import loader_options

        return loader_options(predictor, dataset)

    def aspect_errors(
        self, report: RunReport, ids: list[str], names: list[str], gold: np.ndarray, predicted: np.ndarray
    ) -> dict[str, Any] | None:
        from .evaluating import aspect_errors

        return aspect_errors(report, ids, names, gold, predicted)

    def explain(
        self, predictor: TargetedPredictor, text: str | Sequence[Any], merge: Merge, **options: Any
    ) -> Explained:
        from .explaining import explain

        return explain(predictor, text, merge, **options)

    def row_questions(self, predictor: TargetedPredictor, rows: Dataset) -> list[Question]:
        from .explaining import row_questions

        return row_questions(predictor, rows)

    def word_scores(self, predictor: TargetedPredictor, reading: Reading, label: int, method: str) -> np.ndarray:
        from .explaining import word_scores

        return word_scores(predictor, reading, label, method)

    def guidance(self, report: RunReport) -> Guidance | None:
        from .guidance import of_run

        return of_run(report)

    def remote(self, client: Client, **options: Any) -> RemotePredictor:
        from .remote import RemotePredictor

        return RemotePredictor(client, **options)

    def service(self, predictor: TargetedPredictor) -> Service:
        from .service import service

        return service(predictor)

    def page(self, predictor: TargetedPredictor) -> Page:
        from .page import page

        return page(predictor)

    def exporter(self) -> Exporter:
        from .exporting import exporter

        return exporter()

    def respond(self) -> PipelineFunction:
        from .hub_programs import respond

        return respond


TASK = TargetedSentiment()
