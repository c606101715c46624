# SPDX-License-Identifier: Apache-2.0
"""Predicts the emotion of every turn of dialogues: first utterances in large length-sorted batches, then the dialogues."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ...io.progress import progress_bar
from ...runtime.batching import (
    TOKENS_PER_BATCH,
    chunks,
    encode_texts,
    pad_rows,
    token_budget_batches,
    tokenizing,
)
from ...runtime.checkpoints import model_probabilities
from ...runtime.onnx import ENCODER, OnnxClassifier, Session
from ...runtime.plain import text_processing
from ...runtime.sharing import pause, use_tokens
from ...runtime.unread import Unread
from ..predictor import LabelPredictor
from ..results import Label, Results, Scored
from . import TASK
from .loading import FOUR_CLASSES
from .results import Turn


if TYPE_CHECKING:
    import torch
    from datasets import Dataset
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from ...runtime.attribution import Explained, Merge
    from ..base import Answer
    from ..corpus import Corpus
    from .streaming import DialogueStream


UTTERANCES_PER_BATCH = 1024


class DialoguePredictor(LabelPredictor[list[Turn]]):
    """
    Emotions of the turns of dialogues, from a checkpoint.

    >>> predictor = DialoguePredictor("runs/meld_bilstm_attention")  # doctest: +SKIP
    >>> predictor([[("Ana", "I got the job!"), ("Ben", "No way!")]])  # doctest: +SKIP
    [[{'speaker': 'Ana', 'utterance': 'I got the job!', 'label': 'joy', 'score': 0.91, 'scores': {...}}, ...]]
    """

    task = TASK
    units = "utterances"

    def __init__(
        self,
        checkpoint: str | Path | PreTrainedModel | OnnxDialogueClassifier,
        tokenizer: PreTrainedTokenizerBase | None = None,
        device: str | int | torch.device | None = None,
        max_length: int | None = None,
        dtype: str | None = None,
    ):
        """
        Arguments and errors as for `Predictor`; `max_length` counts the tokens of an utterance. ValueError also for a model that reads
        dialogues only as vectors.
        """
        super().__init__(checkpoint, tokenizer, device, max_length, dtype)
        # a cache of the same vectors may replace it
        self.vectors_of: Callable[..., tuple[np.ndarray, Unread]] = utterance_vectors
        self._said = False  # the warning that turns name no speaker is given once

    def _lengths(self) -> tuple[int, str, int | None]:
        if self.model.config.utterance_encoder == "vectors":
            raise ValueError("the model has no utterance encoder: call it with `utterance_embeds`.")
        return text_processing.encoder_positions(self.model.config), "encoder", self.tokenizer.model_max_length

    def __call__(self, dialogues: Sequence[Sequence[Any]], progress: bool = False) -> Results[list[Turn]]:
        """
        The most probable emotion of every turn of every dialogue.

        Args:
            dialogues: lists of turns; a turn is (speaker, utterance), a dictionary with these keys, or just an utterance.
            progress: show a progress bar.

        Returns:
            for each dialogue a list of {"speaker", "utterance", "label", "score", "scores"}.

        Raises:
            ValueError: an empty dialogue or utterance; one dialogue instead of a list of them.
        """
        return Results(self.predict(dialogues, progress)[0])

    def predict_quietly(
        self, dialogues: Sequence[Sequence[Any]], progress: bool = False
    ) -> tuple[list[list[Turn]], Unread]:
        turns = read_dialogues(dialogues)
        probabilities, unread = self._probabilities(turns, progress)
        return self.present(probabilities, turns), unread

    def stream(self) -> DialogueStream:
        """
        A conversation that goes on: its `add` answers one turn after the other, each in the time of one turn. Without `causal` a turn is answered
        from the dialogue so far, and each later one tells which earlier answers it changes.
        """
        from .streaming import DialogueStream

        return DialogueStream(self)

    def encode(self, dialogues: Sequence[Sequence[Any]]) -> EncodedDialogues:
        """Dialogues as the model reads them: the utterances become vectors of the utterance encoder."""
        return self._encode(read_dialogues(dialogues))

    def probabilities(
        self, dialogues: Sequence[Sequence[Any]] | EncodedDialogues, progress: bool = False, raw: bool = False
    ) -> np.ndarray:
        """
        (N, C) float32 for the N turns of dialogues, or of what `encode` returned for them, one dialogue after the other; `raw`: without
        the model's temperature.
        """
        if isinstance(dialogues, EncodedDialogues):
            return self._run(dialogues, progress, raw)
        probabilities, unread = self._probabilities(read_dialogues(dialogues), progress, raw)
        self.warn_unread(unread.counts)
        return probabilities

    def present(
        self, probabilities: np.ndarray, dialogues: Sequence[Sequence[tuple[str | None, str]]]
    ) -> list[list[Turn]]:
        """(N, C) probabilities of the turns of dialogues -> for each dialogue what a call returns."""
        found = (text_processing.most_probable(self.labels, row) for row in probabilities.tolist())
        return [
            [cast(Turn, {"speaker": speaker, "utterance": utterance, **next(found)}) for speaker, utterance in turns]
            for turns in dialogues
        ]

    def of_rows(self, rows: Dataset, progress: bool = False) -> np.ndarray:
        """(N, C) for all turns of the rows of a corpus."""
        probabilities, unread = self._probabilities(dialogues_of(rows), progress)
        self.warn_unread(unread.counts)
        return probabilities

    def scored_items(
        self, dialogues: Sequence[Sequence[tuple[str | None, str]]], top_k: int | None = None
    ) -> tuple[list[list[Label]], Unread, Scored]:
        """
        The most probable label of each turn, or its `top_k` most probable ones, as {"label", "score"}; what the model cannot read; and for
        each turn the probabilities and decisions of all labels.
        """
        self.check_top_k(top_k)
        probabilities, unread = self._probabilities(dialogues)
        order = np.argsort(-probabilities, axis=1, kind="stable")[:, : top_k or 1]
        results = [
            [Label(label=self.labels[i], score=float(scores[i])) for i in best]
            for scores, best in zip(probabilities, order, strict=True)
        ]
        return results, unread, Scored.of(results, probabilities, self.labels)

    @property
    def wide_labels(self) -> list[str]:
        return self.labels

    def tell_of_speakers(self, turns: Sequence[Sequence[tuple[str | None, str]]]) -> None:
        if self.model.config.num_speakers and not self._said:  # a file comes in many parts
            names = [speaker for dialogue in turns for speaker, _ in dialogue]
            self._said = text_processing.warn_of_speakers(names, self.model.config.num_speakers)

    def _probabilities(
        self, turns: Sequence[Sequence[tuple[str | None, str]]], progress: bool = False, raw: bool = False
    ) -> tuple[np.ndarray, Unread]:
        encoded = self._encode(turns, progress)
        return self._run(encoded, progress, raw), encoded.unread

    def _encode(self, turns: Sequence[Sequence[tuple[str | None, str]]], progress: bool = False) -> EncodedDialogues:
        self.tell_of_speakers(turns)
        read = [text_processing.turn_windows(dialogue, self.model.config.context_turns) for dialogue in turns]
        texts = list(dict.fromkeys(text for dialogue in read for text in dialogue))
        vectors, unread = self.vectors_of(self.model, self.tokenizer, texts, self.max_length, progress)
        row_of = {text: row for row, text in enumerate(texts)}
        rows = [np.array([row_of[text] for text in dialogue]) for dialogue in read]
        speaker_ids = None
        if limit := self.model.config.num_speakers:
            speaker_ids = [
                text_processing.number_speakers([speaker for speaker, _ in dialogue], limit) for dialogue in turns
            ]
        each = np.concatenate([np.empty(0, int), *rows])
        return EncodedDialogues(vectors, rows, speaker_ids, unread.take(each))

    def _run(self, encoded: EncodedDialogues, progress: bool, raw: bool = False) -> np.ndarray:
        if self.model.training:
            self.model.eval()
        temperature = 1.0 if raw else text_processing.temperature_of(self.model.config)
        rows, speaker_ids = encoded.rows, encoded.speaker_ids
        starts = np.cumsum([0, *map(len, rows)])
        output = np.empty((starts[-1], len(self.labels)), np.float32)
        with progress_bar(progress, total=len(rows), unit="dialogues") as bar:
            for batch in token_budget_batches([len(dialogue) for dialogue in rows], UTTERANCES_PER_BATCH):
                pause()
                inputs = pad_dialogues(
                    [encoded.vectors[rows[i]] for i in batch],
                    None if speaker_ids is None else [speaker_ids[i] for i in batch],
                )
                scores = model_probabilities(self.model, inputs, multi_label=False, temperature=temperature)
                for i, dialogue in zip(batch, scores, strict=True):
                    output[starts[i] : starts[i + 1]] = dialogue[: len(rows[i])]
                bar.update(len(batch))
        return output

    @property
    def limit(self) -> str:
        return f"{self.max_length} tokens"

    def answer(self, lines: list[str], *, stream: bool = False, **options: Any) -> Answer:
        from .showing import answer

        return answer(self, lines, **options)

    def loader_options(self, corpus: Corpus) -> Mapping[str, Any]:
        """A model of four emotions is measured on these four; a file need not have every label of the model."""
        if corpus.own_files:
            return {"labels": self.labels}
        four = "four_classes" in corpus.options and sorted(self.labels) == sorted(FOUR_CLASSES)
        return {"four_classes": True} if four else {}

    def explain(self, text: str | Sequence[Any], merge: Merge, **options: Any) -> Explained:
        from .explaining import explain

        return explain(self, text, **options)  # no words are split, so there is nothing to merge


@dataclass(frozen=True)
class EncodedDialogues:
    """
    Dialogues as a model reads them.

    Attributes:
        vectors: (U, D) float32 of the distinct utterances.
        rows: for each dialogue the numbers of its utterances among these.
        speaker_ids: for each dialogue the numbers of its speakers; None for a model without speakers.
        unread: what the model cannot read of each turn, one dialogue after the other.
    """

    vectors: np.ndarray
    rows: list[np.ndarray]
    speaker_ids: list[list[int]] | None
    unread: Unread


def dialogues_of(rows: Dataset) -> list[list[tuple[str, str]]]:
    """The turns of the rows of a corpus."""
    return [list(zip(*pair, strict=True)) for pair in zip(rows["speakers"], rows["utterances"], strict=True)]


def read_dialogues(dialogues: Sequence[Sequence[Any]]) -> list[list[tuple[str | None, str]]]:
    """Dialogues as lists of (speaker or None, utterance); errors as in a call of `DialoguePredictor`."""
    dialogues = list(dialogues)
    text_processing.refuse_turns(dialogues)
    for number, dialogue in enumerate(dialogues, 1):
        # A pair of strings is a turn: one dialogue was given instead of a list of dialogues.
        pair = isinstance(dialogue, tuple) and len(dialogue) == 2 and all(isinstance(part, str) for part in dialogue)
        if not isinstance(dialogue, list | tuple) or not dialogue or pair:
            raise ValueError(
                f"dialogue {number} of {len(dialogues)} must be a list of turns, at least one; got {dialogue!r}. "
                "Several dialogues are a list of such lists."
            )
    return [
        [text_processing.read_turn(turn, number) for number, turn in enumerate(dialogue, 1)] for dialogue in dialogues
    ]


def speaker_and_utterance(line: str) -> tuple[str | None, str]:
    """(speaker or None, utterance). The speaker is the text before the first ": ", if it has at most three words."""
    speaker, separator, utterance = line.partition(": ")
    if separator and utterance.strip() and 0 < len(speaker.split()) <= 3:
        return speaker.strip(), utterance
    return None, line


def pad_dialogues(vectors: list[np.ndarray], speaker_ids: list[list[int]] | None = None) -> dict[str, np.ndarray]:
    """
    Dialogues (U, D) -> `utterance_embeds` (B, U, D) float32, `utterance_mask` (B, U) int64 and, if given, `speaker_ids` (B, U)
    int64.
    """
    lengths = np.array([len(dialogue) for dialogue in vectors])
    real = np.arange(lengths.max()) < lengths[:, None]  # (B, U)
    embeds = np.zeros((*real.shape, vectors[0].shape[1]), np.float32)
    embeds[real] = np.concatenate(vectors)
    inputs = {"utterance_embeds": embeds, "utterance_mask": real.astype(np.int64)}
    if speaker_ids is not None:
        inputs["speaker_ids"] = np.zeros(real.shape, np.int64)
        inputs["speaker_ids"][real] = np.concatenate(speaker_ids)
    return inputs


Text = str | tuple[str, ...]  # what the utterance encoder reads for a turn, see `turn_windows`


def encode_turns(
    tokenizer: PreTrainedTokenizerBase, texts: Sequence[Text], max_length: int, config: Any
) -> tuple[dict[str, list], Unread]:
    """`input_ids` and, with `context_turns`, `turn_mask` of turns as the utterance encoder reads them, and what it cannot read of them."""
    if not config.context_turns:
        return encode_texts(tokenizer, [[str(text) for text in texts]], max_length, None, config)
    number_of: dict[str, int] = {}
    windows = [[number_of.setdefault(line, len(number_of)) for line in text] for text in texts]
    encoded, unread = encode_texts(tokenizer, [list(number_of)], max_length, None, config)
    ids = encoded["input_ids"]
    with tokenizing:
        before = text_processing.special_borders(tokenizer, tokenizer(["a"]), 0)[0]
    pairs = [text_processing.window_tokens([ids[line] for line in window], before, max_length) for window in windows]
    input_ids, masks = map(list, zip(*pairs, strict=True))
    return {"input_ids": input_ids, "turn_mask": masks}, unread.take(np.array([window[-1] for window in windows]))


def utterance_vectors(
    model: PreTrainedModel | OnnxDialogueClassifier,
    tokenizer: PreTrainedTokenizerBase,
    texts: Sequence[Text],
    max_length: int,
    progress: bool = False,
) -> tuple[np.ndarray, Unread]:
    """The utterance encoder's vectors (N, D) float32 of N texts (see `turn_windows`), and what it cannot read of the turns."""
    model.eval()
    if getattr(model, "takes_arrays", False):
        encode = model.encode_utterances
    else:
        from ...runtime.torch_models import torch_utterance_encoder

        encode = torch_utterance_encoder(model)
    output = np.empty((len(texts), model.config.utterance_size), np.float32)
    unread = Unread.nothing(len(texts))
    budget = TOKENS_PER_BATCH * (1 if model.device.type == "cpu" else 16)
    with progress_bar(progress, total=len(texts), unit="utterances") as bar:
        for part in chunks([text if isinstance(text, str) else text[-1] for text in texts]):
            encoded, found = encode_turns(tokenizer, texts[part], max_length, model.config)
            unread.put(part, found)
            use_tokens(sum(map(len, encoded["input_ids"])))
            for rows in token_budget_batches([len(ids) for ids in encoded["input_ids"]], budget):
                pause()
                batch = {name: [values[row] for row in rows] for name, values in encoded.items()}
                # At the end, whatever the tokenizer does: an encoder counts positions from the first token.
                inputs = pad_rows(tokenizer, batch, padding_side="right")
                output[[part.start + row for row in rows]] = encode(**inputs)
                bar.update(len(rows))
    return output, unread


class OnnxDialogueClassifier(OnnxClassifier):
    """An exported classifier of the turns of dialogues; a second graph encodes the utterances."""

    def __init__(self, folder: str | Path):
        super().__init__(folder)
        self.encoder = Session(self.folder / ENCODER)

    def encode_utterances(self, **inputs: np.ndarray) -> np.ndarray:
        """`input_ids`, `attention_mask` and, with `context_turns`, `turn_mask`, (N, L) int64 each -> vectors (N, D) float32."""
        return self.encoder(inputs)[0]
