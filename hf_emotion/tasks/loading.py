# SPDX-License-Identifier: Apache-2.0
"""Loads corpora by name."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..data.misspelling import misspell_rows
from ..data.splits import check_split
from ..io.lazily import datasets
from ..recipes import Fields
from ..runtime.names import METRICS
from . import corpus_of, task_of_rows
from .predictor import AnyPredictor
from .rows import duplicates_between_splits, oversample_minorities, remove_duplicates


logger = logging.getLogger(__name__)


def load_dataset_for(
    name: str,
    data_dir: str | Path | None = None,
    dedupe: bool = False,
    oversample: bool = False,
    misspelt: float = 0.0,
    **options,
) -> datasets.DatasetDict:
    """
    Load a corpus by name and report the texts that occur in more than one split.

    Args:
        name: one of the names in `hf_emotion.tasks.corpora()`; "files" ("aspect_files", "term_files", "dialogue_files",
            "reply_files") for your own texts (texts with aspects, texts with terms, dialogues, pairs of context and reply).
        data_dir: local folder with the corpora; for your own files the folder or file itself. None: the folder that the
            environment variable HF_EMOTION_DATA names, or else the Hub (or the addresses in the loaders' docstrings).
        dedupe: remove rows from train whose text (for replies: whose context) is in validation or test.
        oversample: repeat training rows until all classes are equally large (after `dedupe`; only in train).
        misspelt: share of the training rows that get typing errors in 0.15 of their words, so that the model reads misspelt words.
        **options: arguments of the loader, e.g. `taxonomy="ekman"` or `label_separator=","`.

    Returns:
        `DatasetDict` with the columns `id`, `text`, `labels` (for values `targets` in their place); for aspects also `aspect`,
        `auxiliary`, `context_id` and, if there are targets, `target`; for terms also `words` (lists, as `labels`); for dialogues `id`,
        `utterances`, `speakers`, `labels` (lists); for replies `id`, `context`, `reply`, `labels`; for conversations `id` and `turns`.

    Raises:
        ValueError: unknown name or option; malformed rows; `dedupe` leaves no training row.
        FileNotFoundError, OSError: no such folder or file; a download fails.
    """
    corpus = corpus_of(name)
    corpus.check(options)
    if data_dir is not None and corpus.packaged:
        logger.warning("`data_dir` %s is not read: %s comes with hf-emotion", data_dir, name)
    if data_dir is None and not corpus.own_files:
        data_dir = os.path.expanduser(os.environ.get("HF_EMOTION_DATA", "")) or None
    if data_dir is not None and not corpus.packaged and not Path(data_dir).exists():
        raise FileNotFoundError(f"`data_dir` does not exist: {data_dir}")
    splits = corpus.loader(data_dir=data_dir, **options)
    task = task_of_rows(next(iter(splits.values())))
    if not 0 <= misspelt <= 1:
        raise ValueError(f"`misspelt` is a share of the training rows, 0 to 1; got {misspelt}.")
    if dedupe or oversample or misspelt:
        check_split(splits, "train", name)
    if dedupe:
        splits = remove_duplicates(task, splits)
        if not len(splits["train"]):
            raise ValueError(
                f"`dedupe` leaves no training row of {name}: all stand in the validation or test part, too."
            )
    if oversample:
        splits["train"] = oversample_minorities(splits["train"])
    found = duplicates_between_splits(task, splits)
    if misspelt:
        if "text" not in splits["train"].column_names:
            raise ValueError(f"`misspelt` needs rows with one text each; those of {name} are others: leave it out.")
        splits["train"] = misspell_rows(splits["train"], misspelt)
    if shared := [f"{pair}: {count}" for pair, count in found.items() if "&" in pair and count]:
        hint = "" if dedupe else " (dataset_options.dedupe=true removes them from train; in Python dedupe=True)"
        logger.warning("%s: distinct texts in two splits of the whole corpus: %s%s", name, ", ".join(shared), hint)
    return splits


def is_one_file(name: str, data_dir: str | Path | None) -> bool:
    """Whether a corpus is a single file of one's own, which has no parts."""
    return corpus_of(name).own_files and data_dir is not None and Path(data_dir).is_file()


def load_split(name: str, split: str, data_dir: str | Path | None = None, **options) -> datasets.Dataset:
    """One split of a corpus, see `load_dataset_for`. A single file of your own is loaded whole, whatever `split` says."""
    if is_one_file(name, data_dir):
        if split == "validation":
            logger.warning("%s is one file and is measured whole: it has no part %r", data_dir, split)
        return load_dataset_for(name, data_dir, **{**options, "validation_fraction": 0.0})["train"]
    splits = load_dataset_for(name, data_dir, **options)
    check_split(splits, split, name)
    return splits[split]


@dataclass(frozen=True)
class CorpusSplit:
    """A split of a corpus, see `load_split`; `options` are those of its loader."""

    dataset: str
    split: str = "test"
    data_dir: str | Path | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def load(self) -> datasets.Dataset:
        return load_split(self.dataset, self.split, self.data_dir, **self.options)


def trained_on(predictor: AnyPredictor) -> tuple[str, Fields] | None:
    """The corpus of a model's run and its options; None for a model from elsewhere."""
    folder = Path(predictor.model.config.name_or_path or os.devnull)
    for path in (folder / METRICS, folder / "parity.json"):  # of a run, of an exported model
        if path.is_file():
            report = json.loads(path.read_text(encoding="utf-8"))
            return (report["dataset"], report["dataset_options"]) if "dataset_options" in report else None
    return None


def options_for(predictor: AnyPredictor, name: str, given: Mapping[str, Any] | None = None) -> Fields:
    """
    The options with which a model is measured on a corpus: the given ones, else those of its run on this corpus, which are
    logged. Only the names that the model knows, such as its labels, come from the model. Rows are never repeated.
    """
    given = given or {}
    known = predictor.loader_options(corpus_of(name))
    corpus, of_run = trained_on(predictor) or (None, {})
    own = {
        option: value
        for option, value in of_run.items()
        if corpus == name and option not in ("oversample", "misspelt")
    }
    names = {option: value for option, value in known.items() if not option.endswith("_column")}
    if used := [f"{option}={value!r}" for option, value in own.items() if option not in given and option not in names]:
        told = (
            "%s is read with the options of the model's run: %s (another value: --option NAME=VALUE, none: NAME=null)"
        )
        logger.warning(told, name, ", ".join(used))
    return {**known, **own, **names, **given}
