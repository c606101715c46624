# SPDX-License-Identifier: Apache-2.0
"""A classifier of emotions outside its corpus: other corpora, labels mapped to Ekman's, and sentences that differ in a term of identity."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hf_emotion.data.splits import label_names
from hf_emotion.metrics import classification
from hf_emotion.tasks.emotion_classification.predictor import Predictor
from hf_emotion.tasks.loading import load_split
from hf_emotion.tasks.rows import label_matrix
from hf_emotion.taxonomies import EKMAN


# Labels of the other corpora; GoEmotions' labels are mapped as its authors do.
OTHER_LABELS = {
    **dict.fromkeys(("no emotion", "no_emotion"), "neutral"),
    **dict.fromkeys(("happiness", "happy", "joyful", "peaceful", "powerful"), "joy"),
    **dict.fromkeys(("scared", "afraid"), "fear"),
    **dict.fromkeys(("mad", "angry"), "anger"),
    **dict.fromkeys(("sad",), "sadness"),
    **dict.fromkeys(("surprised",), "surprise"),
}
EKMAN_OF = {**{label: group for group, labels in EKMAN.items() for label in labels}, **OTHER_LABELS}

# Written for this measurement. Every term fits every template of its kind.
TEMPLATES = (
    "I am {}.",
    "My neighbour is {}.",
    "We hired somebody who is {}.",
    "My best friend is {} and came to dinner.",
    "The person in front of me in the queue was {}.",
    "They told me that their teacher is {}.",
)
TERMS = {
    "gender": ("a woman", "a man", "non-binary", "transgender"),
    "religion": ("Christian", "Muslim", "Jewish", "Hindu", "Buddhist", "an atheist"),
    "origin": ("American", "Mexican", "Chinese", "Nigerian", "Polish", "Indian", "an immigrant"),
    "skin colour": ("Black", "white", "Asian", "Latino"),
    "orientation": ("straight", "gay", "lesbian", "bisexual"),
    "age": ("young", "middle-aged", "old"),
    "disability": ("blind", "deaf", "in a wheelchair", "autistic"),
}


def ekman_groups(labels: Sequence[str]) -> list[str | None]:
    """The group of each label; None for a label that has none."""
    return [EKMAN_OF.get(label.lower()) for label in labels]


def transfer(
    predictor: Predictor,
    dataset: str,
    data_dir: str | Path | None = None,
    split: str = "test",
    options: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """
    Accuracy and macro-F1 of a classifier on another corpus, over the groups of Ekman (and neutral) that both have.

    Each text gets the group with the largest probability. For a multi-label model that is the probability of the group's most
    probable label, for a single-label model the sum over the group's labels. Rows without a gold group, or with several, are
    left out and counted. The utterances of dialogues are read one by one.

    Returns {"groups", "rows", "left_out", "accuracy", "macro_f1", "majority" (accuracy of the most frequent group)}. Raises ValueError if
    the corpus has no emotions, or shares too few groups with the model.
    """
    rows = load_split(dataset, split, data_dir, **(options or {}))
    if "utterances" in rows.column_names:
        texts = [utterance for dialogue in rows["utterances"] for utterance in dialogue]
        ids = [[label] if label >= 0 else [] for label in label_matrix(rows)]
    elif "text" in rows.column_names and "aspect" not in rows.column_names:
        texts = list(rows["text"])
        ids = [labels if isinstance(labels, list) else [labels] for labels in rows["labels"]]
    else:
        raise ValueError(f"`dataset` {dataset!r} has no texts with emotions: its columns are {rows.column_names}.")
    of_corpus, of_model = ekman_groups(label_names(rows)), ekman_groups(predictor.labels)
    groups = [group for group in EKMAN if group in of_corpus and group in of_model]
    if len(groups) < 2:
        raise ValueError(f"{dataset} and the model share the groups {groups} of Ekman: two are needed.")
    found = [{of_corpus[label] for label in labels} for labels in ids]
    kept = [i for i, names in enumerate(found) if len(names) == 1 and names <= set(groups)]
    gold = np.array([groups.index(next(iter(found[i]))) for i in kept])
    probabilities = predictor.label_probabilities([texts[i] for i in kept], progress=True)
    combine = np.max if predictor.multi_label else np.sum
    members = [[i for i, group in enumerate(of_model) if group == name] for name in groups]
    scores = np.stack([combine(probabilities[:, columns], axis=1) for columns in members], axis=1)
    figures = classification(gold, scores, groups)
    return {
        "dataset": dataset,
        "groups": groups,
        "rows": len(kept),
        "left_out": len(texts) - len(kept),
        "accuracy": figures["accuracy"],
        "macro_f1": figures["macro_f1"],
        "majority": float(np.bincount(gold).max() / len(gold)),
    }


def identity_terms(predictor: Predictor) -> dict[str, dict[str, Any]]:
    """
    How much the probabilities change when only the term of identity changes, over `TEMPLATES` and `TERMS`.
    For each kind of term "mean_range", the mean over templates and labels of the difference between the largest and the smallest
    probability; "largest", the largest such difference; "changed", the share of the templates whose decision differs between terms.
    """
    result = {}
    for kind, terms in TERMS.items():
        texts = [template.format(term) for template in TEMPLATES for term in terms]
        probabilities = predictor.label_probabilities(texts)
        scores = probabilities.reshape(len(TEMPLATES), len(terms), -1)
        chosen = predictor.decide(probabilities).reshape(len(TEMPLATES), len(terms), -1)
        ranges = scores.max(axis=1) - scores.min(axis=1)  # (templates, labels)
        template, label = np.unravel_index(ranges.argmax(), ranges.shape)
        values = scores[template, :, label]
        result[kind] = {
            "mean_range": float(ranges.mean()),
            "largest": {
                "range": float(ranges[template, label]),
                "label": predictor.labels[label],
                "template": TEMPLATES[template],
                "terms": [terms[values.argmax()], terms[values.argmin()]],
            },
            "changed": float((chosen != chosen[:, :1]).any(axis=(1, 2)).mean()),
        }
    return result
