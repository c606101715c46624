# SPDX-License-Identifier: Apache-2.0
"""Emotions of texts from a service."""

from collections.abc import Sequence

from ...runtime.batching import as_texts
from ...runtime.remote import Client, Remote, unread_of
from ...runtime.unread import Unread
from ..results import Label
from . import TASK


class RemotePredictor(Remote[list[Label]]):
    """A model behind a service, with the methods of `Predictor` that `predict` calls."""

    task = TASK

    def __init__(self, client: Client, taxonomy: str | None = None):
        """`taxonomy`: as for `Predictor`."""
        super().__init__(client)
        self.taxonomy = taxonomy
        self.multi_label: bool = client.about["multi_label"]
        self.regression = client.about["value_range"] is not None
        self.identity = {**client.identity, "taxonomy": taxonomy}

    def predict_quietly(
        self, texts: Sequence[str] | str, top_k: int | None = None, progress: bool = False
    ) -> tuple[list[list[Label]], Unread]:
        return self.of_items(as_texts(texts), top_k, progress)

    def of_items(
        self, texts: Sequence[str], top_k: int | None = None, progress: bool = False
    ) -> tuple[list[list[Label]], Unread]:
        self.check_top_k(top_k)
        found = self.client.ask(texts, progress, top_k=top_k, taxonomy=self.taxonomy)
        return [result["labels"] for result in found], unread_of(found)
