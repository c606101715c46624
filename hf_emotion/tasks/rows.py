# SPDX-License-Identifier: Apache-2.0
"""What a task tells about the rows of its corpora."""

from __future__ import annotations

from collections import Counter

import numpy as np
from datasets import Dataset

from ..data.lazily import datasets
from ..data.splits import label_names, multi_hot
from .dialogue_emotion.rows import flat_labels, is_dialogue_dataset
from .emotional_response.rows import is_reply_dataset
from .language_modeling.rows import is_conversation_dataset
from .targeted_sentiment.rows import is_aspect_dataset


def is_multi_label(dataset: datasets.Dataset) -> bool:
    """Whether a text has a list of labels. (The list of a dialogue has one for each utterance.)"""
    return not isinstance(dataset.features["labels"], datasets.ClassLabel) and not is_dialogue_dataset(dataset)


def label_matrix(dataset: datasets.Dataset) -> np.ndarray:
    """
    Gold labels: (N, C) of 0 and 1, int8, for multi-label data; (N,) class ids, int64, for single-label data, of dialogues those
    of all utterances, -1 where there is none.
    """
    if is_dialogue_dataset(dataset):
        return flat_labels(dataset)
    if not is_multi_label(dataset):
        return np.asarray(dataset["labels"], dtype=np.int64)
    return multi_hot(dataset["labels"], len(label_names(dataset)))


def row_texts(dataset: datasets.Dataset) -> list[str]:
    """The text of each row; of a dialogue its turns, one a line; of a reply its context, a line break and the reply."""
    if is_conversation_dataset(dataset):
        return ["\n".join(turns) for turns in dataset["turns"]]
    if is_dialogue_dataset(dataset):
        return ["\n".join(utterances) for utterances in dataset["utterances"]]
    if is_reply_dataset(dataset):
        return [f"{context}\n{reply}" for context, reply in zip(dataset["context"], dataset["reply"], strict=True)]
    return list(dataset["text"])


def duplicates_between_splits(splits: datasets.DatasetDict) -> dict[str, int]:
    """
    Number of distinct texts (whole dialogues, pairs of context and reply) that stand in both splits, for each pair of splits
    ("train & test": 32), and repeated rows within a split ("repeated in train"); of aspect data repeated sentences, for a
    sentence has a row for each of its aspects.
    """
    texts = {split: _sentences(dataset) for split, dataset in splits.items()}
    names = list(texts)
    report = {f"repeated in {name}": sum(texts[name].values()) - len(texts[name]) for name in names}
    for i, first in enumerate(names):
        for second in names[i + 1 :]:
            report[f"{first} & {second}"] = len(texts[first].keys() & texts[second].keys())
    return report


def _sentences(dataset: datasets.Dataset) -> Counter[str]:
    """How often each text stands in a split; with several aspects it stands there once."""
    if not is_aspect_dataset(dataset):
        return Counter(row_texts(dataset))
    texts: Counter[str] = Counter()
    for (text, _), rows in Counter(zip(dataset["text"], dataset["context_id"], strict=True)).items():
        texts[text] = max(texts[text], rows)
    return texts


def remove_duplicates(splits: datasets.DatasetDict) -> datasets.DatasetDict:
    """
    Remove from train every text (whole dialogue) that stands in validation or test; of replies every pair whose context stands
    there, whatever the reply, which are more than the pairs that `duplicates_between_splits` counts.
    """
    of_rows = (lambda dataset: dataset["context"]) if is_reply_dataset(splits["train"]) else row_texts
    held_out = {text for split, dataset in splits.items() if split != "train" for text in of_rows(dataset)}
    keep = [row for row, text in enumerate(of_rows(splits["train"])) if text not in held_out]
    return datasets.DatasetDict({**splits, "train": splits["train"].select(keep)})


def class_counts(dataset: Dataset) -> dict[str, int]:
    """Rows (utterances) of each label, in label order; nothing of data without labels."""
    if is_conversation_dataset(dataset):
        return {}
    gold, names = label_matrix(dataset), label_names(dataset)
    if is_multi_label(dataset):
        counts = gold.sum(axis=0, dtype=np.int64)
    else:
        counts = np.bincount(gold[gold >= 0], minlength=len(names))
    return dict(zip(names, counts.tolist(), strict=True))
