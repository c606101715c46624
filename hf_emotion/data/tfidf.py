# SPDX-License-Identifier: Apache-2.0
"""Fits the TF-IDF gate."""

import math
from collections.abc import Iterable

from ..runtime.plain import tfidf_gate


def fit_tfidf_gate(texts: Iterable[str]) -> tfidf_gate.TfidfGate:
    """
    The gate for the distinct texts of a split, so that copies (oversampling) do not count. Give the training split only.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer

    if isinstance(texts, str):  # a list of letters
        raise ValueError(f"`texts` must be a list of texts, got the string {texts!r}: write [text].")
    texts = list(dict.fromkeys(texts))
    vectorizer = TfidfVectorizer(norm=None, analyzer=lambda text: [word for _, _, word in tfidf_gate.find_words(text)])
    vectorizer.fit(texts)
    idf = zip(vectorizer.get_feature_names_out(), vectorizer.idf_, strict=True)
    return tfidf_gate.TfidfGate(
        {str(word): round(float(value), 6) for word, value in idf}, math.log(1 + len(texts)) + 1
    )
