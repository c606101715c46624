# SPDX-License-Identifier: Apache-2.0
"""For any corpus: gold labels, duplicates, and samples of its rows."""

import numpy as np
from datasets import ClassLabel, Dataset, DatasetDict

from ..data.splits import label_names
from ..gold import Gold
from . import Task, task_of_rows


def gold_of(rows: Dataset) -> Gold:
    """`Task.gold` of rows whose task is not at hand."""
    return task_of_rows(rows).gold(rows)


def rows_for_task(task: Task, rows: Dataset) -> Dataset | None:
    """The rows as models of a task read them; None if they cannot. A classifier of texts reads the replies of a corpus of replies."""
    found = task_of_rows(rows)
    if found is task:
        return rows
    read = found.as_texts(rows)
    return None if read is None or task_of_rows(read) is not task else read


def class_counts(task: Task, rows: Dataset) -> dict[str, int]:
    """How many rows (utterances) have each label (or each value), in label order; empty for data without labels."""
    if not task.labelled:
        return {}
    names = label_names(rows)
    return dict(zip(names, task.gold(rows).counts(len(names)).tolist(), strict=True))


def share_of(rows: Dataset, fraction: float) -> Dataset:
    """A share of the rows, at least one row, drawn at a fixed seed: all seeds of a training get the same subset."""
    return rows.shuffle(seed=0).select(range(max(1, round(len(rows) * fraction))))


def at_most(task: Task, rows: Dataset, number: int | None) -> Dataset:
    """
    At most `number` rows, in their order, drawn at a fixed seed; None: all. Rows that belong together (`Task.groups`) stay together,
    and at least one group is drawn.
    """
    if number is None or number >= len(rows):
        return rows
    groups = task.groups(rows)
    numbers: dict = {}
    group_of = np.array([numbers.setdefault(group, len(numbers)) for group in groups or range(len(rows))])
    sizes = np.bincount(group_of)
    order = np.random.default_rng(0).permutation(len(sizes))
    count = max(1, np.searchsorted(sizes[order].cumsum(), number, side="right"))
    return rows.select(np.flatnonzero(np.isin(group_of, order[:count])))


def few_of(task: Task, rows: Dataset, shots: int, seed: int) -> Dataset:
    """
    At least `shots` rows of each label, or all it has, drawn at the seed, in their order. The rarest label comes first, and a row with
    several labels counts for each; rows without a label count as one more label.
    """
    found = task.gold(rows).has(len(label_names(rows)))
    found = np.column_stack([found, ~found.any(axis=1)])
    order = np.random.default_rng(seed).permutation(len(rows))
    taken = np.zeros(len(rows), bool)
    for label in np.argsort(found.sum(axis=0), kind="stable"):
        missing = max(0, shots - int(found[taken, label].sum()))
        taken[order[found[order, label] & ~taken[order]][:missing]] = True
    return rows.select(np.flatnonzero(taken))


def oversample_minorities(rows: Dataset, seed: int = 0) -> Dataset:
    """
    Repeat rows until every class has as many as the largest: with n rows in a class and m in the largest, each row ⌊m/n⌋ or ⌈m/n⌉
    times. Give only a training split: oversampling before splitting puts copies of training rows into the test part.
    """
    if not isinstance(rows.features.get("labels"), ClassLabel):
        raise ValueError("`oversample` needs one label per row: leave it out.")
    labels = np.asarray(rows["labels"])
    generator = np.random.default_rng(seed)
    most = np.bincount(labels).max()
    taken = []
    for label in np.unique(labels):
        same = np.flatnonzero(labels == label)
        taken += [np.tile(same, most // len(same)), generator.permutation(same)[: most % len(same)]]
    return rows.select(np.sort(np.concatenate(taken)))


def duplicates_between_splits(task: Task, splits: DatasetDict) -> dict[str, int]:
    """
    For each pair of splits the number of distinct texts (whole dialogues, pairs of context and reply) in both ("train &
    test": 32), and for each split the number of repeated rows ("repeated in train"). Aspect data count repeated sentences,
    since a sentence has a row for each of its aspects.
    """
    texts = {split: task.counted_texts(rows) for split, rows in splits.items()}
    names = list(texts)
    report = {f"repeated in {name}": sum(texts[name].values()) - len(texts[name]) for name in names}
    for i, first in enumerate(names):
        for second in names[i + 1 :]:
            report[f"{first} & {second}"] = len(texts[first].keys() & texts[second].keys())
    return report


def remove_duplicates(task: Task, splits: DatasetDict) -> DatasetDict:
    """Remove every row from train whose text (dialogue, context of a reply) is in validation or test."""
    held_out = {text for split, rows in splits.items() if split != "train" for text in task.held_out_texts(rows)}
    keep = [number for number, text in enumerate(task.held_out_texts(splits["train"])) if text not in held_out]
    return DatasetDict({**splits, "train": splits["train"].select(keep)})
