# SPDX-License-Identifier: Apache-2.0
"""What a model answers about the terms of a text."""

from typing import Annotated, NotRequired

from ..results import Doc, Label, Readable


class AspectTerm(Label):
    """A term, its place in the text (`text[start:end]`, in characters), and the most probable sentiment towards it."""

    term: Annotated[str, Doc("The term, as it stands in the text.")]
    start: Annotated[int, Doc("Where it begins, in characters.")]
    end: Annotated[int, Doc("Where it ends: the character behind it.")]
    group: NotRequired[Annotated[str, Doc("The most frequent term of its group, where terms are grouped.")]]


class TermsResult(Readable):
    """The terms of a text, in its order."""

    terms: Annotated[list[AspectTerm], Doc("The terms, in the order of the text.")]
