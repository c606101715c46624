# SPDX-License-Identifier: Apache-2.0
"""The emotion of every turn of a dialogue."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...gold import Gold
from ...io.lazily import numpy as np
from ..base import ClassificationTask, FileColumns


if TYPE_CHECKING:
    from datasets import Dataset

    from .predictor import DialoguePredictor, OnnxDialogueClassifier


class DialogueEmotion(ClassificationTask):
    """The emotion of every turn of a dialogue."""

    name = "dialogue-emotion"
    reads = "dialogues"
    columns = frozenset({"utterances", "speakers"})
    model_types = ("dialogue-bilstm",)
    recipe_fields = frozenset({"class_weights", "languages"})
    headline = ("weighted_f1", "needs_context_macro_f1", "accuracy", "macro_f1", "micro_f1_without_neutral")
    auto_class = "AutoModelForTokenClassification"
    predictor_class = "DialoguePredictor"
    file_columns = FileColumns(text="utterance", grouped=True)
    options = frozenset({"top_k"})
    explains = frozenset({"labels", "method"})

    def owns(self, config: Any) -> bool:
        return config.model_type == "dialogue-bilstm"

    def texts(self, rows: Dataset) -> list[str]:
        return ["\n".join(utterances) for utterances in rows["utterances"]]

    def gold(self, rows: Dataset) -> Gold:
        return Gold(np.array([label for labels in rows["labels"] for label in labels], dtype=np.int64))

    def units(self, rows: Dataset) -> tuple[list[str], list[str]]:
        turns = [
            (f"{row}/{number}", f"{speaker}: {utterance}" if speaker else utterance)
            for row, speakers, utterances in zip(rows["id"], rows["speakers"], rows["utterances"], strict=True)
            for number, (speaker, utterance) in enumerate(zip(speakers, utterances, strict=True), 1)
        ]
        return [name for name, _ in turns], [text for _, text in turns]

    def trained_predictor(self, model: Any, tokenizer: Any, **options: Any) -> DialoguePredictor:
        """If the encoder of its model did not change, it reads the vectors that the training has computed."""
        from .building import cached_vectors, is_frozen

        predictor = self.predictor(model, tokenizer, **options)
        if is_frozen(model.config):
            predictor.vectors_of = cached_vectors
        return predictor

    def exported(self, folder: Path) -> OnnxDialogueClassifier:
        from .predictor import OnnxDialogueClassifier

        return OnnxDialogueClassifier(folder)


TASK = DialogueEmotion()
