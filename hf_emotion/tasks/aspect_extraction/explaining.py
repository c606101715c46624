# SPDX-License-Identifier: Apache-2.0
"""Shows which words drove the sentiment towards a term: gradients, integrated gradients and occlusion of the tag of its first word."""

from collections.abc import Sequence

from ...runtime.attribution import Explained, Merge, check_names
from ...runtime.names import METHODS
from ..text_explaining import TITLES, Question, Row, read_text, rows_map
from .predictor import AspectPredictor, readable


def explain(
    predictor: AspectPredictor,
    text: str | Sequence[str],
    merge: Merge,
    targets: Sequence[str] | None = None,
    method: str = METHODS[1],
) -> Explained:
    """Rows are the terms that the model finds, or those of them that are `targets`, with their sentiments."""
    if method not in TITLES:
        raise ValueError(f"a model of terms is explained by one of {list(TITLES)}, got {method!r}.")
    texts = readable(text)
    if len(texts) != 1:
        raise ValueError(f"the model explains one text at a time, got {len(texts)}.")
    encoded = predictor.encode(texts)
    (terms,) = predictor.present(predictor.probabilities(encoded), encoded)
    if not terms:
        raise ValueError(f"the model finds no term in {texts[0]!r}: there is nothing to explain.")
    if targets is not None:
        check_names("targets", targets, [term["term"] for term in terms])
        terms = [term for term in terms if term["term"] in targets]
    question = Question(texts[0])
    reading, unread = read_text(predictor, question, merge)
    predictor.warn_unread(unread.counts)
    token_of = {encoded.words[0][word][0]: token for word, token in encoded.read[0]}
    terms = [term for term in terms if term["start"] in token_of]
    if not terms:
        raise ValueError(
            "only the first window is explained, and the terms stand behind it: give their part of the text."
        )
    rows = []
    for term in terms:
        # The index of the logit: the first token of the term, and its tag.
        logit = (token_of[term["start"]], predictor.labels.index(f"B-{term['label']}"))
        rows.append(Row(f"{term['term']}: {term['label']}", reading, logit, term["score"]))
    maps, notes = rows_map(predictor, [question], rows, "term: sentiment", method, merge)
    return Explained(texts[0], method, maps, notes)
