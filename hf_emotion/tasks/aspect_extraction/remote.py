# SPDX-License-Identifier: Apache-2.0
"""The terms of texts from a service."""

from collections.abc import Sequence

from ...runtime.remote import Remote, unread_of
from ...runtime.unread import Unread
from .predictor import AspectPredictor, readable
from .results import AspectTerm


class RemotePredictor(Remote, AspectPredictor):
    """A `AspectPredictor` whose model is behind a service."""

    def predict_quietly(
        self, texts: Sequence[str] | str, progress: bool = False
    ) -> tuple[list[list[AspectTerm]], Unread]:
        found = self.client.ask(readable(texts), progress)
        return [result["terms"] for result in found], unread_of(found)

    def of_items(self, texts: Sequence[str], top_k: int | None = None) -> tuple[list[list[AspectTerm]], Unread]:
        self.check_top_k(top_k)
        return self.predict_quietly(texts)
