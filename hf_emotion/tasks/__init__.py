# SPDX-License-Identifier: Apache-2.0
"""
The tasks and their corpora: the only place that knows how tasks differ.

Importing this loads nothing heavy: tasks import what their methods need when these are called.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..io.names import did_you_mean
from . import (
    aspect_extraction,
    dialogue_emotion,
    emotion_classification,
    emotional_response,
    language_modeling,
    targeted_sentiment,
)
from .base import Task as Task
from .corpus import Corpus as Corpus


if TYPE_CHECKING:
    from datasets import Dataset

    from ..run_report import RunReport

# In the order in which corpora are listed.
TASKS: list[Task] = [
    emotion_classification.TASK,
    targeted_sentiment.TASK,
    aspect_extraction.TASK,
    dialogue_emotion.TASK,
    emotional_response.TASK,
    language_modeling.TASK,
]


GENERAL: Task = emotion_classification.TASK  # that of classifiers that no other task owns


def corpora() -> dict[str, Corpus]:
    """The corpora by name."""
    return {corpus.name: corpus for task in TASKS for corpus in task.corpora}


def labelled_corpora() -> list[str]:
    """The names of the corpora whose rows have labels."""
    return [corpus.name for task in TASKS if task.labelled for corpus in task.corpora]


def packaged_corpus() -> str:
    """The name of the corpus that comes with the package."""
    return next(name for name, corpus in corpora().items() if corpus.packaged)


def corpus_of(name: str) -> Corpus:
    """The record of a corpus; ValueError for an unknown one, with the nearest name."""
    known = corpora()
    if not isinstance(name, str) or name not in known:
        raise ValueError(f"unknown dataset {name!r}: the names are {sorted(known)}.{did_you_mean(name, known.keys())}")
    return known[name]


def task_of(config: Any) -> Task:
    """The task of a model with this configuration."""
    return next((task for task in TASKS if task.owns(config)), GENERAL)


def task_of_rows(rows: "Dataset") -> Task:
    """The task whose rows these are, as their loader marked them; ValueError for rows from elsewhere."""
    found = [task for task in TASKS if task.name == rows.info.config_name]
    if not found:
        raise ValueError("the rows do not say which task they are of: load them by `load_dataset_for`.")
    return found[0]


def task_of_columns(columns: Sequence[str]) -> Task:
    """The task that reads most of these columns of somebody's own rows; ValueError if none does."""
    fitting = [task for task in TASKS if task.columns <= set(columns)]
    if not fitting:
        needed = "; ".join(f"{task.reads} {sorted(task.columns)}" for task in TASKS)
        raise ValueError(f"the rows have the columns {columns}, and no task reads them. The tasks need: {needed}.")
    return max(fitting, key=lambda task: len(task.columns))


def task_of_type(model_type: str | None) -> Task | None:
    """The task of a recipe's `model_type`; None if that is unknown, or if it is None, because then the rows decide."""
    return next((task for task in TASKS if model_type in task.model_types), None)


def task_of_pipeline(name: str) -> Task:
    """The task whose pipeline has this name; for the names of transformers' own pipelines the most general task."""
    return next((task for task in TASKS if task.name == name), GENERAL)


def task_of_run(report: "RunReport") -> Task:
    """The task of a finished run, from its metrics.json."""
    return next(task for task in TASKS if task.name == report.task)
