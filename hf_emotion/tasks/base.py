# SPDX-License-Identifier: Apache-2.0
"""What a corpus says about itself. Each record stands beside its loader; help texts, cards, metrics and checks read it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """
    A corpus.

    Attributes:
        name: what recipes and commands call it.
        loader: (data_dir, **options) -> `datasets.DatasetDict`.
        hub_id: the data set on the Hub, None where it is none there.
        languages: codes of its languages; none where they are not known.
        terms: licence or terms of use, and who published it.
        metrics: the function of `hf_emotion.metrics` with its published figures, beside `classification`; "dialogue" replaces that.
        selection_metric: what chooses the epoch on the development split.
        example: a text for the model card; None: a placeholder.
        packaged: whether it comes with hf-emotion and needs no `data_dir`.
        own_files: whether it is the user's own, read from the files in `data_dir`.
        clean_reply: (reply, label names) -> what is measured of a generated reply.
        published: figures of generated replies, row of the paper -> metric -> figure.
    """

    name: str
    loader: Callable[..., Any]
    hub_id: str | None = None
    languages: tuple[str, ...] = ("en",)
    terms: str
    metrics: str | None = None
    selection_metric: str = "macro_f1"
    example: str | None = None
    packaged: bool = False
    own_files: bool = False
    clean_reply: Callable[[str, Sequence[str]], str] | None = None
    published: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


OWN_TERMS = "the user's own files: name their terms here before publishing"
