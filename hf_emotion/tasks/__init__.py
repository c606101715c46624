# SPDX-License-Identifier: Apache-2.0
"""The corpora, in the order in which they are listed."""

import difflib
import inspect

from .base import Corpus
from .dialogue_emotion import loading as dialogue
from .emotion_classification import loading as text
from .emotional_response import loading as replies
from .language_modeling import loading as conversations
from .targeted_sentiment import loading as aspect


CORPORA: dict[str, Corpus] = {
    corpus.name: corpus
    for corpora in (text.CORPORA, aspect.CORPORA, dialogue.CORPORA, replies.CORPORA, conversations.CORPORA)
    for corpus in corpora
}


# The rows of all others have labels.
LABELLED = [name for name in CORPORA if CORPORA[name] not in conversations.CORPORA]


PACKAGED = next(name for name in CORPORA if CORPORA[name].packaged)


def corpus_of(name: str) -> Corpus:
    """The record of a corpus; ValueError with the nearest name for an unknown one."""
    if not isinstance(name, str) or name not in CORPORA:
        near = difflib.get_close_matches(str(name), CORPORA, n=1)
        hint = f" did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"unknown dataset {name!r}:{hint} the names are {sorted(CORPORA)}.")
    return CORPORA[name]


def options_of(name: str) -> list[str]:
    """What a corpus' loader may be told, beside `data_dir`."""
    return [option for option in inspect.signature(corpus_of(name).loader).parameters if option != "data_dir"]
