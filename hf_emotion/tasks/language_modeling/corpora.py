# SPDX-License-Identifier: Apache-2.0
"""Conversations to train a language model on."""

from ..base import Corpus, later


CORPORA = (
    Corpus(
        name="conversations",
        loader=later(__package__, "loading.load_conversations"),
        terms="the terms of the corpora that its option `corpora` names",
    ),
)
