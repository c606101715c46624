# SPDX-License-Identifier: Apache-2.0
"""What a model answers about the terms of a text."""

from typing import NotRequired

from ..results import Label, Readable


class AspectTerm(Label):
    """A term, its place in the text (`text[start:end]`, in characters), and the most probable sentiment towards it."""

    term: str
    start: int
    end: int
    group: NotRequired[str]
    """The most frequent term of its group, where terms are grouped."""


class TermsResult(Readable):
    """The terms of a text, in its order."""

    terms: list[AspectTerm]
