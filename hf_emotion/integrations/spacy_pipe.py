# SPDX-License-Identifier: Apache-2.0
"""`nlp.add_pipe("hf_emotion", config={"model": "goemotions"})`: an entry point of the package tells spaCy of it."""

from collections.abc import Iterable, Iterator
from typing import Any

from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.util import minibatch

from ..runtime.batching import as_texts
from ..runtime.plain import text_processing
from . import load_text_model


for owner in (Doc, Span):
    owner.set_extension("emotions", default=None, force=True)


class EmotionPipe:
    """
    A component. Emotions: `doc._.emotions`, and of each sentence `sent._.emotions`, are as `EmotionResult`, None without a readable text;
    `doc.cats` has all scores. Terms: `doc.spans[name]`, whose `attrs` has the "scores" and what the model could not read.
    """

    def __init__(self, name: str, model: str):
        self.name, self.model_name = name, model
        self.predictor, self.finds_terms = load_text_model(model)

    def __reduce__(self) -> tuple[Any, ...]:
        """A spawned process loads the model by its name."""
        return type(self), (self.name, self.model_name)

    def __call__(self, doc: Doc) -> Doc:
        self.annotate([doc])
        return doc

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        for docs in minibatch(stream, batch_size):
            self.annotate(docs)
            yield from docs

    def annotate(self, docs: list[Doc]) -> None:
        """As a call, for a batch."""
        units: list[Doc | Span] = list(docs)
        if self.finds_terms:
            for doc in docs:
                doc.spans[self.name] = []
        else:
            units += [sent for doc in docs if doc.has_annotation("SENT_START") for sent in doc.sents]
        units = [one for one in units if text_processing.is_readable(one.text)]
        if not units:
            return
        texts = [one.text for one in units]
        if self.finds_terms:
            results, unread = self.predictor.predict(texts)
            for doc, terms, own in zip(units, results, unread.each(), strict=True):
                add_terms(doc, self.name, terms, own)
            return
        results, unread, scored = self.predictor.scored_items(as_texts(texts))
        self.predictor.warn_unread(unread.counts)
        rows = zip(units, results, scored.probabilities.tolist(), unread.each(), strict=True)
        for one, labels, values, own in rows:
            scores = dict(zip(self.predictor.labels, values, strict=True))
            one._.emotions = {"labels": labels, "scores": scores, **own}
            if isinstance(one, Doc):
                one.cats |= scores


def add_terms(doc: Doc, key: str, terms: list[Any], unread: Any) -> None:
    """Put terms, and what the model could not read, into a group of spans."""
    spans = [doc.char_span(term["start"], term["end"], term["label"], alignment_mode="expand") for term in terms]
    doc.spans[key] = spans
    doc.spans[key].attrs.update(scores=[term["score"] for term in terms], **unread)


@Language.factory("hf_emotion")
def make(nlp: Language, name: str, model: str) -> EmotionPipe:
    """The component. `model`: run folder, local folder, Hub id or ready model."""
    return EmotionPipe(name, model)
