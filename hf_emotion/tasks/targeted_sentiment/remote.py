# SPDX-License-Identifier: Apache-2.0
"""Sentiment towards the aspects of targets from a service."""

from collections.abc import Sequence
from types import SimpleNamespace

from ...runtime.batching import as_texts
from ...runtime.plain import text_processing
from ...runtime.remote import Remote, unread_of
from ...runtime.unread import Unread
from ..results import Label
from .predictor import TargetedPredictor, as_labels
from .results import Sentiment


class RemotePredictor(Remote, TargetedPredictor):
    """A `TargetedPredictor` whose model is behind a service."""

    def predict_quietly(
        self, texts: Sequence[str] | str, targets: Sequence[str] | None = None, progress: bool = False
    ) -> tuple[list[list[Sentiment]], Unread]:
        found = self.client.ask(as_texts(texts), progress, targets=targets, all_scores=True)
        return [result["sentiments"] for result in found], unread_of(found)

    def of_items(self, texts: Sequence[str], top_k: int | None = None) -> tuple[list[list[Label]], Unread]:
        self.check_top_k(top_k)
        known = SimpleNamespace(**{name: self.client.about[name] for name in ("targets", "target_texts")})
        asked = [
            row for row, text in enumerate(texts) if known.targets is None or text_processing.targets_in(known, text)
        ]
        found = self.client.ask([texts[row] for row in asked])
        unread, own = Unread.nothing(len(texts)), unread_of(found)
        results: list[list[Label]] = [[] for _ in texts]
        for number, row in enumerate(asked):
            results[row] = as_labels(found[number]["sentiments"])
        unread.put(asked, own)
        return results, unread
