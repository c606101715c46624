# SPDX-License-Identifier: Apache-2.0
"""Shows which words drove the sentiment towards a term: gradients, integrated gradients and occlusion of the tag of its first word."""

from collections.abc import Sequence

import numpy as np

from ...runtime.attribution import (
    GRADIENT_TITLE,
    GRADIENT_UNIT,
    Explained,
    HeatMap,
    Merge,
    attribute_words,
    check_names,
    column_axis,
    merge_note,
    neutral_token,
)
from ...runtime.names import METHODS
from ..text_explaining import Question, read_text
from .predictor import AspectPredictor, readable


TITLES = {
    "gradient": (GRADIENT_TITLE, GRADIENT_UNIT),
    "integrated-gradients": ("integrated gradients", "logit"),
    "occlusion": ("occlusion: what the logit loses without the word", "logit"),
}


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
    reading, unread = read_text(predictor, Question(texts[0]), merge)
    predictor.warn_unread(unread.counts)
    token_of = {start: token for (start, _), token in zip(encoded.words[0], encoded.tokens[0], strict=True)}
    values = []
    for term in terms:
        tag = predictor.labels.index(f"B-{term['label']}")
        place = (token_of[term["start"]], tag)  # captum takes the index of the logit
        values.append(attribute_words(predictor.model, predictor.tokenizer, reading, place, method, merge)[0])
    notes = [merge_note(merge, method), "left out: special tokens"]
    if method != "gradient":
        notes.append(
            f"tokens are replaced by {predictor.tokenizer.convert_ids_to_tokens(neutral_token(predictor.tokenizer))}"
        )
    rows, scores = [f"{term['term']}: {term['label']}" for term in terms], [term["score"] for term in terms]
    axes = ("term: sentiment", column_axis(merge))
    heat = HeatMap(*TITLES[method], axes, rows, reading.words, np.array(values), scores, "probability")
    return Explained(texts[0], method, [heat], notes)
