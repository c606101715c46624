# SPDX-License-Identifier: Apache-2.0
"""Joins terms of one aspect, such as "waiter", "waitress" and "staff", by the vectors of a sentence encoder."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from ...runtime.plain import text_processing
from ..base import Table
from .results import AspectTerm


ENCODER = "minilm"  # made for similarity; an encoder that was trained to find terms puts all of them together
SIMILAR = 0.45  # mean cosine of two groups that are joined
MOST = 2000  # terms that are compared, the most frequent ones; each other one is a group


def group_terms(results: Sequence[list[AspectTerm]]) -> Table:
    """
    Give each term of texts its `group`, the name of the most frequent term in it, and return a table of the groups, the largest first.
    Terms that differ only in case or in the form of a character are one. Groups come from average linkage of the cosines.
    """
    names = [[text_processing.composed(term["term"]).casefold() for term in terms] for terms in results]
    counts = Counter(name for own in names for name in own)
    ranked = [name for name, _ in counts.most_common()]  # the first of equals comes first in the texts
    numbers = _clusters(ranked[:MOST])
    first: dict[int, str] = {}
    group_of = {name: name for name in ranked}
    group_of |= {name: first.setdefault(number, name) for name, number in zip(ranked, numbers, strict=False)}
    members: dict[str, list[str]] = {}
    for name, group in group_of.items():
        members.setdefault(group, []).append(name)
    found: dict[str, Counter[str]] = {}
    for terms, own in zip(results, names, strict=True):
        for term, name in zip(terms, own, strict=True):
            term["group"] = group_of[name]
            found.setdefault(group_of[name], Counter())[term["label"]] += 1
    labels = sorted({label for own in found.values() for label in own}, reverse=True)  # positive first
    rows = [
        [group, str(own.total()), *(str(own[label]) for label in labels), ", ".join(members[group])]
        for group, own in sorted(found.items(), key=lambda pair: -pair[1].total())
    ]
    return Table(["group", "terms", *labels, "its terms"], rows)


def _clusters(terms: list[str]) -> list[int]:
    """The number of the group of each term."""
    if len(terms) < 2:
        return [0] * len(terms)
    import torch
    from sklearn.cluster import AgglomerativeClustering

    from ...runtime.base_models import load_base_tokenizer, read_encoder

    encoder, tokenizer = read_encoder(ENCODER), load_base_tokenizer(ENCODER)
    vectors = []
    for start in range(0, len(terms), 64):
        batch = tokenizer(terms[start : start + 64], padding=True, truncation=True, max_length=32, return_tensors="pt")
        with torch.no_grad():
            states = encoder(**batch).last_hidden_state
        real = batch["attention_mask"][..., None]
        vectors.append(((states * real).sum(dim=1) / real.sum(dim=1)).numpy())
    join = AgglomerativeClustering(None, metric="cosine", linkage="average", distance_threshold=1 - SIMILAR)
    return join.fit(np.concatenate(vectors)).labels_.tolist()
