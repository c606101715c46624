# SPDX-License-Identifier: Apache-2.0
"""A classifier of emotions outside its corpus: other corpora, labels mapped to Ekman's, and sentences that differ in a term of identity."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from hf_emotion.data.splits import label_names
from hf_emotion.metrics import classification
from hf_emotion.tasks.emotion_classification.predictor import Predictor
from hf_emotion.tasks.loading import load_split
from hf_emotion.tasks.rows import gold_of
from hf_emotion.taxonomies import EKMAN


WORDS = yaml.safe_load(Path(__file__).with_name("transfer.yaml").read_text(encoding="utf-8"))
TEMPLATES, TERMS = WORDS["templates"], WORDS["terms"]
GROUPS = [*EKMAN.items(), *WORDS["labels"].items()]
EKMAN_OF = {label: group for group, labels in GROUPS for label in labels}


def ekman_groups(labels: Sequence[str]) -> list[str | None]:
    """The group of each label; None for a label that has none."""
    return [EKMAN_OF.get(label.lower()) for label in labels]


def transfer(
    predictor: Predictor, dataset: str, data_dir: Path | None = None, split: str = "test", options: Mapping = {}
) -> dict[str, Any]:
    """
    Accuracy and macro-F1 of a classifier on another corpus, over the groups of Ekman (and neutral) that both have. Each text (utterance) gets the
    group with the largest probability: of a multi-label model that of its most probable label, else the sum over its labels. Rows without a gold
    group, or with several, are left out. "majority": accuracy of the most frequent group. Raises ValueError if the two share too few groups.
    """
    rows = load_split(dataset, split, data_dir, **options)
    if "utterances" in rows.column_names:
        texts = [utterance for dialogue in rows["utterances"] for utterance in dialogue]
        ids = [[label] if label >= 0 else [] for label in gold_of(rows).values]
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
    counts = {"dataset": dataset, "groups": groups, "rows": len(kept), "left_out": len(texts) - len(kept)}
    majority = float(np.bincount(gold).max() / len(gold))
    return {**counts, "accuracy": figures["accuracy"], "macro_f1": figures["macro_f1"], "majority": majority}


def identity_terms(predictor: Predictor) -> dict[str, dict[str, Any]]:
    """
    How much the probabilities change when only the term of identity changes. For each kind of term "mean_range", the mean over templates and labels
    of the largest less the smallest probability; "largest" of these; "changed", the share of templates whose decision differs between terms.
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
        largest: dict[str, Any] = {"range": float(ranges[template, label]), "label": predictor.labels[label]}
        largest |= {"template": TEMPLATES[template], "terms": [terms[values.argmax()], terms[values.argmin()]]}
        changed = float((chosen != chosen[:, :1]).any(axis=(1, 2)).mean())
        result[kind] = {"mean_range": float(ranges.mean()), "largest": largest, "changed": changed}
    return result
