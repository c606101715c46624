# SPDX-License-Identifier: Apache-2.0
"""A checkpoint measured on a corpus."""

from pathlib import Path
from typing import Any

from .. import metrics
from ..data.splits import label_names
from ..tasks import corpus_of, options_of
from ..tasks.dialogue_emotion.loading import FOUR_CLASSES
from ..tasks.dialogue_emotion.predictor import DialoguePredictor
from ..tasks.dialogue_emotion.rows import is_dialogue_dataset
from ..tasks.emotion_classification.predictor import Predictor
from ..tasks.emotional_response.rows import is_reply_dataset, replies_as_texts
from ..tasks.language_modeling.rows import is_conversation_dataset
from ..tasks.loading import load_split
from ..tasks.measures import single_label
from ..tasks.rows import is_multi_label, label_matrix
from ..tasks.targeted_sentiment.predictor import TargetedPredictor
from ..tasks.targeted_sentiment.rows import is_aspect_dataset
from ..taxonomies import NO_ROLL_UP, TAXONOMIES


def evaluate(
    predictor: Predictor | TargetedPredictor | DialoguePredictor,
    dataset: str,
    split: str = "test",
    data_dir: str | Path | None = None,
    options: dict[str, Any] | None = None,
    threshold: float | None = None,
) -> dict[str, Any]:
    """
    Metrics of a classifier on one split. (Generators: `evaluate_replies`.)

    Args:
        predictor: what `load_predictor` gives.
        dataset, split, data_dir, options: see `load_split`. Of a corpus of replies the replies are classified.
        threshold: of a multi-label model, the fixed threshold beside the stored ones; default: 0.3.

    Returns:
        {"rows" (of dialogues: utterances with a label), "labels", "metrics"}; `metrics` has "fixed" and "tuned" for multi-label data, "argmax" for single-label data.

    Raises:
        ValueError: no such split; labels of the corpus and of the model that differ; a threshold for a single-label model.
    """
    multi_label = isinstance(predictor, Predictor) and predictor.multi_label
    if threshold is not None and not multi_label:
        raise ValueError(
            f"`threshold` {threshold} is for multi-label models: this one gives one label a row, the most probable one. Leave it out."
        )
    options = dict(options or {})
    known = options_of(dataset)
    if "taxonomy" in known and "taxonomy" not in options:
        # A model trained on groups is measured on them.
        fitting = [name for name, groups in TAXONOMIES.items() if set(groups) == set(predictor.labels)]
        options["taxonomy"] = fitting[0] if fitting else NO_ROLL_UP
    elif corpus_of(dataset).own_files:
        options.setdefault("labels", predictor.labels)  # a file need not have every label of the model
        if isinstance(predictor, TargetedPredictor):
            options.setdefault("aspect_column", "aspect")
            options.setdefault("aspects", predictor.model.config.aspects)
            if predictor.model.config.targets is not None:
                options.setdefault("target_column", "target")
                options.setdefault("targets", predictor.model.config.targets)
    elif "four_classes" in known and sorted(predictor.labels) == sorted(FOUR_CLASSES):
        options.setdefault("four_classes", True)
    rows = load_split(dataset, split, data_dir, **options)
    if is_conversation_dataset(rows):
        raise ValueError(f"`dataset` {dataset!r} has no labels to measure a classifier on.")
    if is_reply_dataset(rows):
        rows = replies_as_texts(rows)
    names = label_names(rows)
    if sorted(names) != sorted(predictor.labels):
        raise ValueError(
            f"the labels of {dataset} and of the checkpoint differ: only in the corpus {sorted(set(names) - set(predictor.labels))}, "
            f"only in the model {sorted(set(predictor.labels) - set(names))}."
        )
    if is_multi_label(rows) != multi_label:
        counts = ("several labels", "one label")
        corpus, model = counts if is_multi_label(rows) else counts[::-1]
        raise ValueError(
            f"the corpus has {corpus} a row, and the model gives {model.replace('one label', 'one')}: measure it on a corpus of its own kind"
            + (" (in files of your own `label_separator` separates labels)." if dataset == "files" else ".")
        )
    for kind, in_corpus, predictor_class in (
        ("aspects", is_aspect_dataset(rows), TargetedPredictor),
        ("dialogues", is_dialogue_dataset(rows), DialoguePredictor),
    ):
        if in_corpus != isinstance(predictor, predictor_class):
            has, knows = ("has", "knows none") if in_corpus else ("has no", "asks for them")
            raise ValueError(
                f"the corpus {dataset} {has} {kind}, and the model {knows}: measure it on a corpus of its own kind."
            )
    order = [predictor.labels.index(name) for name in names]
    gold = label_matrix(rows)
    decisions = None
    if isinstance(predictor, DialoguePredictor):
        probabilities, unread = predictor._probabilities(rows["utterances"], rows["speakers"], progress=True)
        predictor.warn_unread(*unread.counts)
    elif isinstance(predictor, TargetedPredictor):
        probabilities = predictor.row_probabilities(rows, progress=True)
    else:
        own = predictor.label_probabilities(rows["text"], progress=True)
        probabilities, decisions = predictor.roll_up(own), predictor.decide(own)[:, order]
    probabilities = probabilities[:, order]
    if multi_label:
        results = {
            "fixed": metrics.goemotions(
                gold, probabilities, metrics.PUBLISHED_THRESHOLD if threshold is None else threshold, names
            ),
            "tuned": metrics.goemotions(gold, probabilities, label_names=names, decisions=decisions),
        }
        return {"rows": len(gold), "labels": names, "metrics": results}
    results = {"argmax": single_label(dataset, gold, probabilities, names)}
    return {"rows": int((gold >= 0).sum()), "labels": names, "metrics": results}
