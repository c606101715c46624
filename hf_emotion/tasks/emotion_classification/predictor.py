# SPDX-License-Identifier: Apache-2.0
"""Predicts the emotions of texts. Needs neither torch nor transformers if the model is exported."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload

import numpy as np

from ...io.names import did_you_mean
from ...runtime.batching import as_list, as_texts
from ...runtime.classifying import (
    Encoded,
    TextRows,
    encode_rows,
    encoded_probabilities,
    is_multi_label,
    is_regression,
    label_names,
    row_probabilities,
)
from ...runtime.languages import languages_in, languages_of
from ...runtime.plain import text_processing
from ...runtime.ready import reading_more, with_weights
from ...runtime.unread import Counts, Unread, warn_unread
from ...runtime.windows import windowing
from ...taxonomies import NO_ROLL_UP, TAXONOMIES, group_index
from ..checkpoints import load_for
from ..predictor import LabelPredictor
from ..results import Label, Results, Scored
from . import TASK
from .results import EmotionResult
from .unlike import token_scores


if TYPE_CHECKING:
    import torch
    from datasets import Dataset
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from ...runtime.onnx import OnnxClassifier
    from ..classifier_evaluating import Evaluation
    from ..corpus import Corpus
    from ..loading import CorpusSplit

Texts: TypeAlias = Sequence[str | None] | str
logger = logging.getLogger(__name__)


class Predictor(LabelPredictor[list[Label]]):
    """
    Emotions of texts, from a checkpoint. Threads may share it, and on the CPU also forked processes; torch
    then uses one thread in each of these. `BatchingPredictor` batches concurrent calls.

    >>> predictor = Predictor("runs/quickstart")  # doctest: +SKIP
    >>> predictor(["What a day!"])  # doctest: +SKIP
    [[{'label': 'joy', 'score': 0.62}]]
    """

    task = TASK
    thresholds: np.ndarray

    def __init__(
        self,
        checkpoint: str | Path | PreTrainedModel | OnnxClassifier,
        tokenizer: PreTrainedTokenizerBase | None = None,
        device: str | int | torch.device | None = None,
        max_length: int | None = None,
        taxonomy: str | Mapping[str, Sequence[str]] | None = None,
        gate: text_processing.TfidfGate | None = None,
        dtype: str | None = None,
        stride: int | None = None,
        max_windows: int | None = None,
        aggregation_strategy: str | None = None,
        add_labels: Sequence[str] | None = None,
    ):
        """
        Texts of any length are read whole: a text longer than `max_length` is read in overlapping windows. Label attention attends
        over the tokens of all windows at once; for other models the logits are the mean over the windows.

        Args:
            checkpoint: a local folder (of `hf-emotion export` too), a Hub id, or a model (then with its tokenizer).
            tokenizer: default: the one saved with the checkpoint.
            device: a name, or a number as in `pipeline` (-1: the CPU); default: the GPU if there is one, else the CPU.
            max_length: tokens of a window, at most the model's positions; default: as many as in training (the tokenizer's
                `model_max_length`).
            taxonomy: "ekman" or "sentiment" to roll the 28 GoEmotions labels up; or groups of your own for the labels of any model, as in
                {"upset": ["anger", "sadness"]}.
            gate: the TF-IDF gate of a model that has one; default: the one saved with the checkpoint.
            dtype: "bfloat16" and "float16" are faster than "float32" on GPUs, bfloat16 on processors with AMX too, with slightly
                other probabilities; default: the checkpoint's.
            stride: number of tokens that two windows share; default: a quarter of `max_length`.
            max_windows: maximum number of windows per text, the rest is cut. 1: texts are cut at `max_length`. Default: no limit.
            aggregation_strategy: how the windows are combined. "average" (default): as above, what the text is about. "max", for
                multi-label models: the largest logit of each label, so every emotion that occurs somewhere.
            add_labels: names of further labels, see the `add_labels` of label-aware models. They come after the model's own, whose
                probabilities stay as they are. Each threshold is chosen on packaged texts, so that the label is given as often as
                the model's own labels. A model object is not changed: the labels are added to a copy.

        Raises:
            OSError: no such checkpoint, or one without a tokenizer or without the gate that it needs.
            ValueError: see `windowing`; the taxonomy does not fit the model's labels; the model is for another task;
                `add_labels` for a model that is exported, single-label or not label-aware, or that has such a label already.
        """
        if add_labels:
            if taxonomy not in (None, NO_ROLL_UP):
                raise ValueError(f"`taxonomy` {taxonomy!r} has no group for the labels of `add_labels` (--label).")
            checkpoint = with_weights(checkpoint)
        loaded: Any = checkpoint
        if add_labels:
            from .added_labels import with_labels

            loaded, tokenizer = load_for(TASK, checkpoint, tokenizer, device, dtype)
            predictor_of = partial(Predictor, tokenizer=tokenizer, max_length=max_length)
            loaded = with_labels(loaded, tokenizer, add_labels, predictor_of)
        super().__init__(loaded, tokenizer, device, max_length, dtype)
        config = self.model.config
        self.gate = gate or text_processing.load_gate(config)
        self.token_scores = token_scores(self.model)
        self.tells_unlike = self.token_scores is not None
        self.multi_label, self.regression = is_multi_label(config), is_regression(config)
        self.windows = windowing(self.max_length, stride, max_windows, aggregation_strategy, self.multi_label)
        self._groups: list[list[int]] | None = None
        self.use_thresholds(getattr(config, "thresholds", None) or [0.5] * len(self.labels), "`config.thresholds`")
        if self.regression and taxonomy not in (None, NO_ROLL_UP):
            raise ValueError(f"`taxonomy` {taxonomy!r} is for labels, and this model gives values: leave it out.")
        self.thresholds_by_language: dict[str, np.ndarray] = {
            code: self._checked(own, f"`config.thresholds_by_language` of {code!r}")
            for code, own in (getattr(config, "thresholds_by_language", None) or {}).items()
        }
        self.abstention = text_processing.threshold_of(config, "abstention")
        self.prediction_sets = text_processing.threshold_of(config, "prediction_sets")
        if taxonomy not in (None, NO_ROLL_UP):
            self.use_taxonomy(taxonomy)

    def use_thresholds(self, thresholds: Sequence[float] | Mapping[str, float], what: str = "`thresholds`") -> None:
        """
        Decide by other thresholds, one for each label of the model or, by their names, of some; and give no prediction sets. ValueError, which
        begins with `what`, for others.
        """
        if isinstance(thresholds, Mapping):
            names = label_names(self.model.config)
            for name in thresholds:
                if name not in names:
                    raise ValueError(f"{what}: no label {name!r}.{did_you_mean(name, names)} The labels are {names}.")
            thresholds = [thresholds.get(name, own) for name, own in zip(names, self.thresholds.tolist(), strict=True)]
        self.thresholds = self._checked(thresholds, what)
        self.thresholds_by_language = {}
        self.prediction_sets = None

    def _checked(self, thresholds: Sequence[float], what: str) -> np.ndarray:
        count = self.model.config.num_labels
        found = np.asarray(thresholds)
        if found.shape != (count,) or found.dtype.kind not in "fi" or not ((found >= 0) & (found <= 1)).all():
            raise ValueError(f"{what} must be {count} probabilities in [0, 1], one for each label, got {thresholds}.")
        return found

    def thresholds_of(self, texts: Sequence[str]) -> np.ndarray:
        """The thresholds of each text, (N, C): those of the language that is found in it, if the model has them, else the common ones."""
        common, own = self.thresholds, self.thresholds_by_language
        if not own:
            return np.broadcast_to(common, (len(texts), len(common)))
        return np.array([own.get(code or "", common) for code in languages_in(texts)]).reshape(-1, len(common))

    def fingerprint(self) -> str:
        own = super().fingerprint()
        if self._groups is None:
            return own
        return hashlib.sha256(f"{own}{self.labels}{self._groups}".encode()).hexdigest()

    def use_taxonomy(self, taxonomy: str | Mapping[str, Sequence[str]]) -> None:
        """Roll the model's labels up into the groups of a taxonomy, or groups of one's own; ValueError where they do not fit the labels."""
        groups = group_index(taxonomy, label_names(self.model.config))
        self._groups, self.labels = list(groups.values()), list(groups)

    @overload
    def __call__(
        self, texts: Texts, top_k: int | None = ..., progress: bool = ..., on_bad: Literal["error"] = ...
    ) -> Results[list[Label]]: ...
    @overload
    def __call__(
        self, texts: Texts, top_k: int | None = ..., progress: bool = ..., *, on_bad: Literal["skip"]
    ) -> Results[list[Label] | None]: ...
    @overload
    def __call__(
        self, texts: Texts, top_k: int | None = ..., progress: bool = ..., *, all_scores: Literal[True]
    ) -> Results[EmotionResult]: ...
    @overload
    def __call__(
        self,
        texts: Texts,
        top_k: int | None = ...,
        progress: bool = ...,
        on_bad: Literal["error", "skip"] = ...,
        all_scores: bool = ...,
    ) -> Results[Any]: ...
    def __call__(
        self,
        texts: Texts,
        top_k: int | None = None,
        progress: bool = False,
        on_bad: Literal["error", "skip"] = "error",
        all_scores: bool = False,
    ) -> Results[Any]:
        """
        The labels of each text with their probabilities, the most probable first.

        Args:
            texts: a list, a Series, an array of numpy or pyarrow; a single string counts as a list of one.
            top_k: the k most probable labels instead of those above their thresholds, and without an abstention.
            progress: show a progress bar, or a line every 30 seconds if standard error is not a terminal.
            on_bad: "skip": None, NaN and texts without a visible character get the result None and are counted in the log.
            all_scores: give for each text an `EmotionResult`, with the probability of every label and what the model could not read.

        Returns:
            for each text a list of {"label", "score"}; empty if no label passes its threshold. A single-label model
            gives the most probable label. A model with `config.abstention` gives the one label "abstained", with the
            largest probability as score, to a text of which it is not sure enough; one with `config.prediction_sets` gives the labels
            of the set. A regression gives each name its value as score, in the model's order; `top_k` the k highest. It is a list
            that JSON takes; its `to_frame()` gives a DataFrame.
        """
        self.check_top_k(top_k)
        if on_bad not in ("error", "skip"):
            raise ValueError(f"`on_bad` must be 'error' or 'skip', got {on_bad!r}.")
        items = as_list(texts)
        good = [on_bad == "error" or text_processing.is_readable(text) for text in items]
        found, unread, scored = self.scored_items(as_texts(list(compress(items, good))), top_k, progress)
        self.warn_unread(unread.counts)
        if not all(good):
            logger.warning("%d of %d texts are empty or no strings and get no result", good.count(False), len(good))
        results: Any = found
        if all_scores:
            every = (dict(zip(self.labels, row, strict=True)) for row in scored.probabilities.tolist())
            results = [
                EmotionResult(labels=labels, scores=scores, **own)
                for labels, scores, own in zip(found, every, unread.each(), strict=True)
            ]
        each = iter(results)
        return Results.of([next(each) if ok else None for ok in good], texts, of_labels=True)

    def predict_quietly(
        self, texts: Sequence[str] | str, top_k: int | None = None, progress: bool = False
    ) -> tuple[list[list[Label]], Unread]:
        self.check_top_k(top_k)
        return self.scored_items(as_texts(texts), top_k, progress)[:2]

    def encode(self, texts: Sequence[str] | str) -> Encoded:
        """N texts as the model reads them."""
        return encode_rows(self, TextRows(as_texts(texts)), self.windows)

    def present(
        self, probabilities: np.ndarray, top_k: int | None = None, thresholds: np.ndarray | None = None
    ) -> list[list[Label]]:
        """
        The result of `__call__` for each row, from the probabilities (N, C) of the model's labels, or its values. `thresholds`: see `decide`.
        """
        if self.regression:
            values: list[list[Label]] = [
                [{"label": name, "score": value} for name, value in zip(self.labels, row, strict=True)]
                for row in probabilities.tolist()
            ]
            return [sorted(row, key=lambda item: -item["score"])[:top_k] for row in values] if top_k else values
        scores, chosen = self.roll_up(probabilities), self.decide(probabilities, thresholds)
        if self.prediction_sets is not None:
            chosen = self.label_sets(probabilities)
        results: list[list[Label]] = []
        for row in range(len(scores)):
            sure = float(probabilities[row].max())
            if self.abstention is not None and not top_k and sure < self.abstention:
                results.append([{"label": text_processing.ABSTAINED, "score": sure}])
                continue
            order = np.argsort(-scores[row], kind="stable")
            order = order[:top_k] if top_k else order[chosen[row, order]]
            results.append([{"label": self.labels[i], "score": float(scores[row, i])} for i in order])
        return results

    def probabilities(
        self, texts: Sequence[str] | str | Encoded, progress: bool = False, raw: bool = False
    ) -> np.ndarray:
        """
        (N, labels) float32, for texts or for what `encode` returned: sigmoid for a multi-label model, softmax for a single-label
        one. A group of a taxonomy has the probability of its most probable label (for a single-label model the sum). Logits are
        divided by `config.calibration_temperature`, if there is one, unless `raw` is true. A regression gives values in
        `config.value_range`.
        """
        return self.roll_up(self.label_probabilities(texts, progress, raw))

    def label_probabilities(
        self, texts: Sequence[str] | str | Encoded, progress: bool = False, raw: bool = False
    ) -> np.ndarray:
        """As `probabilities`, but always for the model's own labels: (N, C)."""
        if isinstance(texts, Encoded):
            return encoded_probabilities(self, texts, raw=raw)
        probabilities, unread = row_probabilities(self, TextRows(as_texts(texts)), progress, self.windows, raw)
        self.warn_unread(unread.counts)
        return probabilities

    def of_rows(self, rows: Dataset, progress: bool = False) -> np.ndarray:
        """(N, C) for the rows of a corpus."""
        return self.label_probabilities(rows["text"], progress)

    def scored_items(
        self, texts: Sequence[str], top_k: int | None = None, progress: bool = False
    ) -> tuple[list[list[Label]], Unread, Scored]:
        """As `of_items`, and for each text the probabilities and decisions of all labels."""
        probabilities, unread = row_probabilities(self, TextRows(texts), progress, self.windows)
        results = self.present(probabilities, top_k, self.thresholds_of(texts))
        return results, unread, Scored.of(results, self.roll_up(probabilities), self.labels)

    @property
    def wide_labels(self) -> list[str]:
        return self.labels

    def roll_up(self, probabilities: np.ndarray) -> np.ndarray:
        """Probabilities of the model's labels (N, C) -> probabilities of the taxonomy's groups (N, groups)."""
        if self._groups is None:
            return probabilities
        combine = np.max if self.multi_label else np.sum
        return np.stack([combine(probabilities[:, members], axis=1) for members in self._groups], axis=1)

    def decide(self, probabilities: np.ndarray, thresholds: np.ndarray | None = None) -> np.ndarray:
        """
        (N, C) probabilities of the model's labels -> (N, labels) bool, without abstentions and prediction sets. A group of a taxonomy is
        chosen if one of its labels passes its own threshold. `thresholds`: (N, C), see `thresholds_of`; default: the common ones.
        """
        if not self.multi_label:
            scores = self.roll_up(probabilities)
            return np.arange(scores.shape[1]) == scores.argmax(axis=1)[:, None]
        return self._grouped(probabilities > (self.thresholds if thresholds is None else thresholds))

    def label_sets(self, probabilities: np.ndarray) -> np.ndarray:
        """
        (N, C) probabilities of the model's labels -> the prediction sets, (N, labels) bool. A set of a single-label model is never empty:
        it holds at least the most probable label.
        """
        chosen = self._grouped(probabilities >= self.prediction_sets)
        return chosen if self.multi_label else chosen | self.decide(probabilities)

    def _grouped(self, chosen: np.ndarray) -> np.ndarray:
        """Which of the model's labels are chosen (N, C) -> which of the taxonomy's groups are, (N, groups)."""
        if self._groups is None:
            return chosen
        return np.stack([chosen[:, members].any(axis=1) for members in self._groups], axis=1)

    def warn_unread(self, counts: Counts) -> None:
        other = reading_more() if counts.foreign else ""
        warn_unread(counts, self.limit, languages_of(self.model.config), of=self, other=other)

    @property
    def limit(self) -> str:
        if self.windows.most in (None, 1):
            return f"{self.max_length} tokens (`max_length`)"
        return f"{self.windows.most} windows of {self.max_length} tokens (`max_windows`)"

    def loader_options(self, corpus: Corpus) -> Mapping[str, Any]:
        """A model trained on the groups of a taxonomy is measured on these groups; a file need not have every label of the model."""
        if "taxonomy" in corpus.options:
            fitting = [name for name, groups in TAXONOMIES.items() if set(groups) == set(self.labels)]
            return {"taxonomy": fitting[0] if fitting else NO_ROLL_UP}
        if self.regression:
            values = {"track": "intensities", "labels": self.labels} if "track" in corpus.options else {}
            return {"targets": self.labels} if "targets" in corpus.options else values
        return {"labels": self.labels} if "labels" in corpus.options else {}

    def evaluate(self, of: CorpusSplit, **settings: Any) -> Evaluation:
        from .evaluating import evaluate

        return evaluate(self, of, **settings)
