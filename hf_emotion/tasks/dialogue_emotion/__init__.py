# SPDX-License-Identifier: Apache-2.0
"""The emotion of every turn of a dialogue."""

from __future__ import annotations

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
    from ...runtime.attribution import Explained, Merge
    from ...runtime.remote import Client
    from ..base import Answer, HeldOut, MainProcessFirst, Page, PipelineFunction, Prepared
    from ..cards import Card
    from ..exporting import Exporter
    from ..service import Service
    from .onnx_model import OnnxDialogueClassifier
    from .predictor import DialoguePredictor
    from .remote import RemotePredictor


class DialogueEmotion(Task["DialoguePredictor"]):
    """The emotion of every turn of a dialogue."""

    name = "dialogue-emotion"
    reads = "dialogues"
    corpora = CORPORA
    columns = frozenset({"utterances", "speakers"})
    model_types = ("dialogue-bilstm",)
    recipe_fields = frozenset({"class_weights", "languages"})
    headline = ("weighted_f1", "accuracy", "macro_f1", "micro_f1_without_neutral")
    auto_class = "AutoModelForTokenClassification"
    predictor_class = "DialoguePredictor"
    file_columns = FileColumns(text="utterance", grouped=True)
    options = frozenset({"top_k"})
    explains = frozenset({"labels", "method"})

    def owns(self, config: Any) -> bool:
        return config.model_type == "dialogue-bilstm"

    def texts(self, rows: Dataset) -> list[str]:
        return ["\n".join(utterances) for utterances in rows["utterances"]]

    def gold(self, rows: Dataset) -> np.ndarray:
        return np.array([label for labels in rows["labels"] for label in labels], dtype=np.int64)

    def units(self, rows: Dataset) -> tuple[list[str], list[str]]:
        from .rows import units

        return units(rows)

    def prepare(
        self, recipe: Recipe, splits: DatasetDict, fields: dict[str, Any] | None, first: MainProcessFirst
    ) -> Prepared:
        from .building import prepare

        return prepare(recipe, splits, first)

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

        return card(recipe, report, best)

    def predictor(self, model: Any, tokenizer: Any, **options: Any) -> DialoguePredictor:
        from .predictor import DialoguePredictor

        return DialoguePredictor(model, tokenizer, **options)

    def exported(self, folder: Path) -> OnnxDialogueClassifier:
        from .onnx_model import OnnxDialogueClassifier

        return OnnxDialogueClassifier(folder)

    def answer(
        self, predictor: DialoguePredictor, lines: list[str], *, stream: bool = False, **options: Any
    ) -> Answer:
        from .showing import answer

        return answer(predictor, lines, **options)

    def loader_options(self, predictor: DialoguePredictor, dataset: str) -> dict[str, Any]:
        from .evaluating import loader_options

        return loader_options(predictor, dataset)

    def explain(
        self, predictor: DialoguePredictor, text: str | Sequence[Any], merge: Merge, **options: Any
    ) -> Explained:
        from .explaining import explain

        return explain(predictor, text, **options)  # no words are split, so there is nothing to merge

    def remote(self, client: Client, **options: Any) -> RemotePredictor:
        from .remote import RemotePredictor

        return RemotePredictor(client, **options)

    def service(self, predictor: DialoguePredictor) -> Service:
        from .service import service

        return service(predictor)

    def page(self, predictor: DialoguePredictor) -> Page:
        from .page import page

        return page(predictor)

    def exporter(self) -> Exporter:
        from .exporting import exporter

        return exporter()

    def respond(self) -> PipelineFunction:
        from .hub_programs import respond

        return respond


TASK = DialogueEmotion()
