# SPDX-License-Identifier: Apache-2.0
"""Emotions of texts from a service."""

from collections.abc import Sequence

import numpy as np

from ...runtime.batching import as_texts
from ...runtime.remote import Client, Remote, unread_of
from ...runtime.unread import Unread
from ...taxonomies import NO_ROLL_UP, group_index
from ..results import Label, Scored
from .predictor import Predictor


class RemotePredictor(Remote, Predictor):
    """A `Predictor` whose model is behind a service."""

    wide_labels = Predictor.wide_labels

    def __init__(self, client: Client, taxonomy: str | None = None):
        """`taxonomy`: as for `Predictor`."""
        super().__init__(client)
        self.taxonomy = taxonomy
        if taxonomy not in (None, NO_ROLL_UP):
            self.labels = list(group_index(taxonomy, self.labels))
        self.multi_label: bool = client.about["multi_label"]
        self.regression = client.about["value_range"] is not None
        self.tells_unlike = client.about["tells_unlike"]
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

    def scored_items(
        self, texts: Sequence[str], top_k: int | None = None, progress: bool = False
    ) -> tuple[list[list[Label]], Unread, Scored]:
        """As `of_items`, and for each text the probabilities and decisions of all labels."""
        self.check_top_k(top_k)
        found = self.client.ask(texts, progress, top_k=top_k, taxonomy=self.taxonomy, all_scores=True)
        results = [result["labels"] for result in found]
        scores = np.array([[result["scores"][label] for label in self.labels] for result in found], np.float32)
        return results, unread_of(found), Scored.of(results, scores, self.labels)
