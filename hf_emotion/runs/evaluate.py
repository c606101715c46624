# SPDX-License-Identifier: Apache-2.0
"""Measures a checkpoint on a corpus."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from ..inference import load_predictor
from ..io.names import given
from ..runtime.unread import said_once
from ..tasks import corpora
from ..tasks.loading import CorpusSplit, options_for, trained_on
from ..tasks.predictor import AnyPredictor


def evaluate(
    predictor: AnyPredictor | str | Path,
    dataset: str,
    split: str = "test",
    data_dir: str | Path | None = None,
    options: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Mapping[str, Any]:
    """
    Figures of a checkpoint on one split.

    Args:
        predictor: what `load_predictor` returns, or what it takes: a run folder, a Hub id or a ready model.
        dataset, split, data_dir, options: see `load_split`. A classifier of texts reads the replies of a corpus of replies. The
            options of the model's own run on this corpus are the default.
        settings: the task's own settings; None counts as not given. `threshold` for multi-label models: the fixed threshold
            in addition to the stored ones (default 0.3). For models of replies see `evaluate_replies`.

    Returns:
        For classifiers {"rows" (for dialogues: utterances with a label), "labels", "metrics"}; `metrics` has "fixed" (at the
            `threshold`, which stands beside it) and "tuned" for multi-label data, "argmax" for single-label data. For models of replies see
            `evaluate_replies`.

    Raises:
        ValueError: no such split; the labels of corpus and model differ; a setting is for another task.
    """
    if isinstance(predictor, str | Path):
        predictor = cast(AnyPredictor, load_predictor(predictor))
    task = predictor.task
    settings = given(**settings)
    if not set(settings) <= set(task.settings):
        unfit = ", ".join(f"`{name}` {value}" for name, value in settings.items() if name not in task.settings)
        raise ValueError(f"{unfit} does not go with a model for {task.name}: leave it out.")
    with said_once():
        of = CorpusSplit(dataset, split, data_dir, options_for(predictor, dataset, options))
        return predictor.evaluate(of, **settings)


def corpus_for(predictor: AnyPredictor, data_dir: str | Path | None) -> str:
    """The corpus to measure a model on if none is named: that of its run, or for a file your own files. ValueError without either."""
    own = trained_on(predictor)
    if own is not None and (data_dir is None or not Path(data_dir).is_file() or corpora()[own[0]].own_files):
        return own[0]
    files = [corpus.name for corpus in predictor.task.corpora if corpus.own_files]
    if data_dir is None or not files:
        raise ValueError("the model has no run that tells its corpus: name one with --dataset.")
    return files[0]
