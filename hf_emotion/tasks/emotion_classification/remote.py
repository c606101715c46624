# SPDX-License-Identifier: Apache-2.0
"""Emotions of texts from a service."""

from collections.abc import Sequence
from typing import Any

from ...runtime.batching import as_texts, check_top_k
from ...runtime.remote import Client, unread_of
from ...runtime.unread import Counts, Unread, warn_unread
from . import TASK


class RemotePredictor:
    """A model behind a service, with the methods of `Predictor` that `predict` calls."""

    task = TASK

    def __init__(self, client: Client, taxonomy: str | None = None):
        """`taxonomy`: as for `Predictor`."""
        self.client, self.taxonomy = client, taxonomy
        self.labels: list[str] = client.about["labels"]
        self.multi_label: bool = client.about["multi_label"]
        self.max_length: int = client.about["max_length"]
        self.identity = {**client.identity, "taxonomy": taxonomy}

    def predict(
        self, texts: Sequence[str] | str, top_k: int | None = None, progress: bool = False
    ) -> tuple[list[list[dict[str, Any]]], Unread]:
        results, unread = self.of_items(as_texts(texts), top_k, progress)
        self.warn_unread(unread.counts)
        return results, unread

    def of_items(
        self, texts: Sequence[str], top_k: int | None = None, progress: bool = False
    ) -> tuple[list[list[dict[str, Any]]], Unread]:
        self.check_top_k(top_k)
        found = self.client.ask(texts, progress, top_k=top_k, taxonomy=self.taxonomy)
        return [result["labels"] for result in found], unread_of(found)

    check_top_k = staticmethod(check_top_k)

    def warn_unread(self, counts: Counts) -> None:
        warn_unread(counts, "what the service reads", self.client.about["languages"])
