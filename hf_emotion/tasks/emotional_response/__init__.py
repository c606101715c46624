# SPDX-License-Identifier: Apache-2.0
"""Replies to contexts in chosen emotions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base import GenerationTask
from ..corpus import mark


if TYPE_CHECKING:
    from datasets import Dataset

    from ..base import Table


class EmotionalResponse(GenerationTask):
    """Replies to contexts in chosen emotions."""

    name = "emotional-response"
    reads = "replies"
    columns = frozenset({"context", "reply"})
    model_types = ("gpt2-mod-ln", "bert-mod-ln", "emotion-modulated")
    recipe_fields = frozenset({"emotion_tokens"})
    auto_class = "AutoModelForSeq2SeqLM"
    predictor_class = "ReplyGenerator"
    command = "generate"
    settings = frozenset({"judges", "contexts", "bertscore_model", "intensity", "seed"})
    explains = frozenset({"emotions", "reply"})

    def owns(self, config: Any) -> bool:
        return hasattr(config, "modulated_norms")

    def texts(self, rows: Dataset) -> list[str]:
        return [f"{context}\n{reply}" for context, reply in zip(rows["context"], rows["reply"], strict=True)]

    def held_out_texts(self, rows: Dataset) -> list[str]:
        """The contexts: no training pair may share one, whatever its reply."""
        return list(rows["context"])

    def units(self, rows: Dataset) -> tuple[list[str], list[str]]:
        return list(rows["id"]), list(rows["reply"])

    def exported(self, folder: Path) -> Any:
        from .onnx_replies import OnnxReplyGenerator

        return OnnxReplyGenerator(folder)

    def as_texts(self, rows: Dataset) -> Dataset:
        """The replies as the texts of a classifier, such as a judge of emotional replies: columns `id`, `text`, `labels`."""
        from .. import GENERAL

        return mark(rows.remove_columns("context").rename_column("reply", "text"), GENERAL.name)

    def figures(self, result: Mapping[str, Any], dataset: str, split: str, all_figures: bool) -> list[Table | str]:
        from .showing import figures

        return figures(result, dataset, split, all_figures)


TASK = EmotionalResponse()
