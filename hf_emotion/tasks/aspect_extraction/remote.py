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
