# SPDX-License-Identifier: Apache-2.0
"""Prediction for lists of texts: length-sorted, in batches of a fixed token budget."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ...runtime.batching import (
    CHUNK,
    INPUT_NAMES,
    TOKENS_PER_BATCH,
    as_texts,
    check_max_length,
    encode_texts,
    pad_rows,
    progress_bar,
    token_budget_batches,
)
from ...runtime.checkpoints import is_dialogue_model, is_generator, is_targeted, load_checkpoint, model_probabilities
from ...runtime.plain import tfidf_gate, usable_positions
from ...runtime.unread import Unread, warn_unknown
from ...taxonomies import NO_ROLL_UP, group_index


if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from ...runtime.onnx import OnnxClassifier


logger = logging.getLogger(__name__)


class Predictor:
    """
    Emotions of texts, from a checkpoint. It may be shared by threads and, on the CPU, by forked processes, in each of which
    torch then uses one thread; `BatchingPredictor` batches concurrent calls.

    >>> predictor = Predictor("runs/quickstart")  # doctest: +SKIP
    >>> predictor(["What a day!"])  # doctest: +SKIP
    [[{'label': 'joy', 'score': 0.62}]]
    """

    targeted = False

    def __init__(
        self,
        checkpoint: "str | Path | PreTrainedModel | OnnxClassifier",
        tokenizer: "PreTrainedTokenizerBase | None" = None,
        device: "str | torch.device | None" = None,
        max_length: int | None = None,
        taxonomy: str | None = None,
        gate: "tfidf_gate.TfidfGate | None" = None,
        dtype: str | None = None,
    ):
        """
        Args:
            checkpoint: a local folder (of `hf-emotion export` too), a Hub id, or a model (then with its tokenizer).
            tokenizer: default: the one saved with the checkpoint.
            device: default: the GPU where there is one, else the CPU.
            max_length: tokens per text, at most the model's positions; default: as many as in training (the tokenizer's
                `model_max_length`).
            taxonomy: "ekman" or "sentiment" to roll the 28 GoEmotions labels up.
            gate: the TF-IDF gate of a model that has one; default: the one saved with the checkpoint.
            dtype: "bfloat16" and "float16" are faster than "float32" on GPUs, bfloat16 on processors with AMX too, with slightly
                other probabilities; default: the checkpoint's.

        Raises:
            OSError: no such checkpoint, or one without a tokenizer or without the gate that it needs.
            ValueError: a taxonomy that does not fit the model's labels; a model of targeted sentiment, which `TargetedPredictor`
                takes.
        """
        self.model, self.tokenizer = load_checkpoint(checkpoint, tokenizer, device, dtype)
        if is_generator(self.model.config):
            raise ValueError(
                f"{checkpoint if isinstance(checkpoint, str | Path) else 'the model'} generates replies: use ReplyGenerator, or "
                "`hf-emotion generate`."
            )
        if is_dialogue_model(self.model.config):
            raise ValueError(
                f"{checkpoint if isinstance(checkpoint, str | Path) else 'the model'} reads dialogues: use DialoguePredictor."
            )
        if is_targeted(self.model.config) != self.targeted:
            name = checkpoint if isinstance(checkpoint, str | Path) else "the model"
            raise ValueError(
                f"{name} was {'not ' if self.targeted else ''}trained for targeted sentiment (its config names "
                f"{'no' if self.targeted else 'the'} `aspects`): use {'Predictor' if self.targeted else 'TargetedPredictor'}."
            )
        self.model.eval()
        config = self.model.config
        self.multi_label = config.problem_type == "multi_label_classification"
        self.max_length = check_max_length(
            max_length, usable_positions.usable_positions(config), "model", self.tokenizer.model_max_length
        )
        self.gate = gate or tfidf_gate.load_gate(config)
        labels = _label_names(config)
        if not self.multi_label and (len(labels) == 1 or config.problem_type == "regression"):
            raise ValueError(
                f"the model gives a number and no label (`problem_type` {config.problem_type!r}, {len(labels)} outputs): for the "
                "probability of one label, the sigmoid, set `config.problem_type` to 'multi_label_classification'."
            )
        thresholds = list(getattr(config, "thresholds", None) or [0.5] * len(labels))
        if len(thresholds) != len(labels) or not all(0 <= threshold <= 1 for threshold in thresholds):
            raise ValueError(
                f"`config.thresholds` must be {len(labels)} probabilities in [0, 1], one for each label, got {thresholds}."
            )
        self._groups = None
        if taxonomy not in (None, NO_ROLL_UP):
            groups = group_index(taxonomy, labels)
            self._groups = list(groups.values())
            labels = list(groups)
        self.labels: list[str] = labels
        self.thresholds = np.asarray(thresholds)

    def __call__(
        self, texts: Sequence[str] | str, top_k: int | None = None, progress: bool = False
    ) -> list[list[dict]]:
        """
        For each text its labels with their probabilities, most probable first.

        Args:
            texts: the texts; a single string counts as a list of one.
            top_k: the k most probable labels instead of those above their thresholds.
            progress: show a progress bar, where standard error is a terminal.

        Returns:
            for each text a list of {"label", "score"}; empty where no label passes its threshold. A single-label model
            gives the most probable label.
        """
        return self.predict(texts, top_k, progress)[0]

    def predict(
        self, texts: Sequence[str] | str, top_k: int | None = None, progress: bool = False
    ) -> tuple[list[list[dict]], Unread]:
        """As a call, and what the model cannot read of each text."""
        self.check_top_k(top_k)
        probabilities, unread = self._label_probabilities(texts, progress)
        self.warn_unread(*unread.counts)
        return self.rank(probabilities, top_k), unread

    def rank(self, probabilities: np.ndarray, top_k: int | None = None) -> list[list[dict]]:
        """(N, C) probabilities of the model's labels -> for each row what `__call__` returns."""
        scores, chosen = self.roll_up(probabilities), self.decide(probabilities)
        results = []
        for row in range(len(scores)):
            order = np.argsort(-scores[row], kind="stable")
            order = order[:top_k] if top_k else [i for i in order if chosen[row, i]]
            results.append([{"label": self.labels[i], "score": float(scores[row, i])} for i in order])
        return results

    def probabilities(self, texts: Sequence[str] | str, progress: bool = False) -> np.ndarray:
        """(N, labels), float32: sigmoid for a multi-label model, softmax for a single-label one; of a group of a taxonomy its most probable label (sum, for a single-label model)."""
        return self.roll_up(self.label_probabilities(texts, progress))

    def label_probabilities(self, texts: Sequence[str] | str, progress: bool = False) -> np.ndarray:
        """As `probabilities`, but always of the model's own labels: (N, C)."""
        probabilities, unread = self._label_probabilities(texts, progress)
        self.warn_unread(*unread.counts)
        return probabilities

    def roll_up(self, probabilities: np.ndarray) -> np.ndarray:
        """Probabilities of the model's labels (N, C) -> those of the taxonomy's groups."""
        if self._groups is None:
            return probabilities
        combine = np.max if self.multi_label else np.sum
        return np.stack([combine(probabilities[:, members], axis=1) for members in self._groups], axis=1)

    def decide(self, probabilities: np.ndarray) -> np.ndarray:
        """
        (N, C) probabilities of the model's labels -> (N, labels) bool. A group of a taxonomy is chosen where one of its
        labels passes that label's own threshold.
        """
        if not self.multi_label:
            scores = self.roll_up(probabilities)
            return np.arange(scores.shape[1]) == scores.argmax(axis=1)[:, None]
        chosen = probabilities > self.thresholds
        if self._groups is None:
            return chosen
        return np.stack([chosen[:, members].any(axis=1) for members in self._groups], axis=1)

    @staticmethod
    def check_top_k(top_k: int | None) -> None:
        """ValueError unless None or positive."""
        if top_k is not None and top_k < 1:
            raise ValueError(f"`top_k` must be at least 1, got {top_k}.")

    def warn_unread(self, truncated: int, unknown: int, total: int) -> None:
        """A counted warning for the texts that were cut, and one for those that the tokenizer does not know."""
        if truncated:
            logger.warning(
                "%d of %d texts are longer than %d tokens (`max_length`) and were cut",
                truncated,
                total,
                self.max_length,
            )
        warn_unknown(unknown, total)

    def _label_probabilities(self, texts: Sequence[str] | str, progress: bool = False) -> tuple[np.ndarray, Unread]:
        """Probabilities of the model's labels (N, C) float32, and what it cannot read of the texts."""
        return self._run(as_texts(texts), progress=progress)

    def _run(
        self,
        texts: list[str],
        auxiliaries: Sequence[str] | None = None,
        context_ids: Sequence[int] | None = None,
        progress: bool = False,
    ) -> tuple[np.ndarray, Unread]:
        """
        Probabilities (N, C) float32 of rows in any order of lengths, and what the model cannot read of their texts.

        Args:
            texts: N texts.
            auxiliaries: the second segment of each row.
            context_ids: the context of each row.
        """
        self.model.eval()  # it may be in training
        unread = Unread.nothing(len(texts))
        output = np.empty((len(texts), self.model.config.num_labels), dtype=np.float32)
        with progress_bar(progress, total=len(texts), unit="texts") as bar:
            for start in range(0, len(texts), CHUNK):
                part = slice(start, start + CHUNK)
                pairs = [texts[part]] if auxiliaries is None else [texts[part], auxiliaries[part]]
                encoded, found = encode_texts(self.tokenizer, pairs, self.max_length, self.gate, self.model.config)
                unread.truncated[part], unread.unknown[part] = found
                budget = TOKENS_PER_BATCH * (1 if self.model.device.type == "cpu" else 16)
                for rows in token_budget_batches([len(ids) for ids in encoded["input_ids"]], budget):
                    names = [name for name in INPUT_NAMES if name in encoded]
                    batch = {name: [encoded[name][row] for row in rows] for name in names}
                    if context_ids is not None:
                        batch["context_ids"] = [context_ids[start + row] for row in rows]
                    output[[start + row for row in rows]] = self._forward(batch)
                    if bar is not None:
                        bar.update(len(rows))
        return output, unread

    def _forward(self, batch: dict[str, list]) -> np.ndarray:
        return model_probabilities(self.model, pad_rows(self.tokenizer, batch), self.multi_label)


def _label_names(config) -> list[str]:
    """The names of a model's labels in their order; ValueError unless each id has one of its own."""
    names = dict(config.id2label)
    if set(names) != set(range(config.num_labels)) or len(set(names.values())) != len(names):
        raise ValueError(
            f"`config.id2label` must give each id from 0 to {config.num_labels - 1} a name of its own, got {names}."
        )
    return [names[i] for i in range(config.num_labels)]
