# SPDX-License-Identifier: Apache-2.0
"""Conversations to train a language model on."""

from ..corpus import Corpus
from .loading import load_conversations


CORPORA = (
    Corpus(
        name="conversations",
        loader=load_conversations,
        terms="the terms of the corpora that its option `corpora` names",
    ),
)
