# SPDX-License-Identifier: Apache-2.0
"""Adds labels to a trained model, only by their names, with thresholds. Shapes: N texts, C labels."""

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...data.own_files import folded
from ...data.rows import packaged_rows
from ...runtime.batching import as_texts
from ...runtime.classifying import TextRows, is_multi_label, label_names, row_probabilities


def with_labels(model: Any, tokenizer: Any, names: Sequence[str], predictor_of: Callable[[Any], Any]) -> Any:
    """
    A copy of a model with further labels, and a threshold for each, see `threshold_by_rate`; ValueError if `names` is not a list of new names
    that the tokenizer knows, or if the model cannot take new labels.
    """
    try:
        names = as_texts(names)
    except (TypeError, ValueError) as error:
        raise ValueError(f"`add_labels` (--label) must be a list of names, got {names!r}: {error}") from error
    check_takes_labels(model, tokenizer)
    old = label_names(model.config)
    known = [folded(name) for name in old]
    for name in names:
        if folded(name) in known:
            raise ValueError(f"`add_labels` (--label) must be new names, each once: the model has {name!r}.")
        known.append(folded(name))
    model = copy.deepcopy(model)
    thresholds = list(getattr(model.config, "thresholds", None) or [0.5] * len(old))
    by_language = getattr(model.config, "thresholds_by_language", None)
    try:
        model.add_labels(names, tokenizer)
    except ValueError as error:
        raise ValueError(f"`add_labels` (--label) {names}: {error}") from error

    def use(added: Sequence[float]) -> None:
        model.config.thresholds = [*thresholds, *added]
        if by_language:
            model.config.thresholds_by_language = {code: [*own, *added] for code, own in by_language.items()}

    use([0.5] * len(names))
    texts = [row["text"] for _, row in packaged_rows("quickstart", "validation")]  # on which thresholds are chosen
    scores, _ = row_probabilities(predictor_of(model), TextRows(texts))
    own, new = scores[:, : len(old)], scores[:, len(old) :]
    use([threshold_by_rate(own, thresholds, column) for column in new.T])
    return model


def check_takes_labels(model: Any, tokenizer: Any) -> None:
    """ValueError if a model cannot take new labels."""
    rule = "`add_labels` (--label) needs a multi-label model with label-aware attention, a tied head and its weights"
    if not hasattr(model, "add_labels") or not is_multi_label(model.config):
        raise ValueError(f"{rule}; this is a {type(model).__name__} ({model.config.problem_type}).")
    try:
        model.add_labels([], tokenizer)  # only checks
    except ValueError as error:
        raise ValueError(f"{rule}: {error}") from error


def threshold_by_rate(known: np.ndarray, thresholds: Sequence[float] | np.ndarray, scores: np.ndarray) -> float:
    """
    The threshold at which a new label is given as often as the known ones.

    How often the known labels pass their thresholds is counted on unlabelled texts, label by label; the median of these rates, at
    least one text, is the rate of the new label. Its threshold is the quantile of its own scores that this share of texts exceeds.
    The thresholds of known labels would not do: the scores of an untrained label are on another scale, and only their order
    matters. `known`: (N, C) probabilities of the known labels for N texts; `scores`: (N,) of the new label, on any scale.
    """
    rate = float(np.median((known > np.asarray(thresholds)).mean(axis=0)))
    return float(np.quantile(scores.astype(np.float64), 1 - max(rate, 1 / len(scores))))
