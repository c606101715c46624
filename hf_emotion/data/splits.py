# SPDX-License-Identifier: Apache-2.0
"""What the splits of every corpus have in common: labels, duplicates, oversampling."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from .aspect import is_aspect_dataset
from .conversations import is_conversation_dataset
from .dialogue import flat_labels, is_dialogue_dataset
from .lazily import datasets
from .replies import is_reply_dataset


def fingerprint(splits: Mapping[str, datasets.Dataset]) -> str:
    """Tells the rows of a corpus from others, and from themselves after a change."""
    digest = hashlib.sha256()
    for split, dataset in splits.items():
        digest.update(f"{split} {dataset.features}\n".encode())
        for batch in dataset.iter(batch_size=10_000):
            digest.update(repr(batch).encode())
    return digest.hexdigest()


def check_split(splits: datasets.DatasetDict, split: str, dataset: str) -> None:
    """ValueError unless a corpus, loaded as `splits`, has the split."""
    if split not in splits:
        raise ValueError(f"{dataset} has no split {split!r}: it has {list(splits)}.")


def label_names(dataset: datasets.Dataset) -> list[str]:
    """The label names of a split, in the order of their ids."""
    feature = dataset.features["labels"]
    return list((feature if isinstance(feature, datasets.ClassLabel) else feature.feature).names)


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


def multi_hot(label_ids: Iterable[Sequence[int]], num_labels: int) -> np.ndarray:
    """Lists of label ids -> (N, C) of 0 and 1, int8."""
    label_ids = list(label_ids)
    matrix = np.zeros((len(label_ids), num_labels), dtype=np.int8)
    for row, ids in enumerate(label_ids):
        matrix[row, list(ids)] = 1
    return matrix


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


def oversample_minorities(dataset: datasets.Dataset, seed: int = 0) -> datasets.Dataset:
    """
    Repeat rows until every class has as many as the largest: each row of a class ⌊m/n⌋ or ⌈m/n⌉ times, for n rows of m. Only a
    training split may be given: to oversample before splitting puts copies of training rows into the test part.

    Raises:
        ValueError: data with several labels in a row, or none.
    """
    if not isinstance(dataset.features.get("labels"), datasets.ClassLabel):
        raise ValueError(
            "`oversample` needs one label per row; the corpus is multi-label, or has dialogues or conversations."
        )
    labels = np.asarray(dataset["labels"])
    generator = np.random.default_rng(seed)
    most = np.bincount(labels).max()
    rows = []
    for label in np.unique(labels):
        own = np.flatnonzero(labels == label)
        rows += [np.tile(own, most // len(own)), generator.permutation(own)[: most % len(own)]]
    return dataset.select(np.sort(np.concatenate(rows)))


def share_of(dataset: datasets.Dataset, fraction: float) -> datasets.Dataset:
    """That share of the rows, at least one, drawn at a fixed seed: one subset for all seeds of a training, so that runs differ by their seed alone."""
    rows = max(1, round(len(dataset) * fraction))
    return dataset.shuffle(seed=0).select(range(rows))
