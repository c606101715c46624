# SPDX-License-Identifier: Apache-2.0
"""Computes probabilities, sorted by length, in batches of a token budget. Needs neither torch nor transformers. N rows, C labels."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..io.progress import progress_bar
from .batching import INPUT_NAMES, TOKENS_PER_BATCH, chunks, encode_texts, pad_rows, token_budget_batches
from .checkpoints import model_logits, scores_of, window_logits
from .plain import text_processing
from .sharing import check_characters, check_windows, pause, use_tokens
from .unread import Unread, are_unlike
from .windows import Windowing, is_whole, join_windows


@dataclass(frozen=True)
class TextRows:
    """N texts to classify, and, if there are some, the second segment of each and the number of its context."""

    texts: Sequence[str]
    auxiliaries: Sequence[str] | None = None
    context_ids: Sequence[int] | None = None

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, part: slice) -> "TextRows":
        return TextRows(
            self.texts[part],
            None if self.auxiliaries is None else self.auxiliaries[part],
            None if self.context_ids is None else self.context_ids[part],
        )


@dataclass(frozen=True)
class Encoded:
    """
    Rows as a model reads them.

    Attributes:
        inputs: name of an input -> N rows, as `pad_rows` takes them; W rows if a text needs several windows.
        unread: what the model cannot read of each text.
        documents: (W,), the number of each window's text; None if each text has only one window.
        strategy: how windows are joined, see `Windowing`.
    """

    inputs: dict[str, list]
    unread: Unread
    documents: np.ndarray | None = None
    strategy: str = "average"

    def __len__(self) -> int:
        return len(self.unread.truncated)


def encode_rows(predictor: Any, rows: TextRows, windows: Windowing | None = None) -> Encoded:
    """Rows as the model of a predictor (`tokenizer`, `max_length`, `gate`, `model`, `token_scores`) reads them, long ones in `windows`."""
    if windows is not None and windows.most is None:
        check_characters(rows.texts, windows.size)
    segments = [rows.texts] if rows.auxiliaries is None else [rows.texts, rows.auxiliaries]
    encoded, unread = encode_texts(
        predictor.tokenizer, segments, predictor.max_length, predictor.gate, predictor.model.config, windows
    )
    inputs = {name: encoded[name] for name in INPUT_NAMES if name in encoded}
    if windows is not None and windows.most is None and "documents" in encoded:
        check_windows(encoded["documents"], len(rows))
    use_tokens(sum(map(len, inputs["input_ids"])))
    if (scores := predictor.token_scores) is not None:
        documents = encoded.get("documents", range(len(rows)))
        unread = unread._replace(unlike=are_unlike(scores, inputs["input_ids"], documents))
    if rows.context_ids is not None:
        inputs["context_ids"] = list(rows.context_ids)
    if windows is None or "documents" not in encoded:
        return Encoded(inputs, unread)
    return Encoded(inputs, unread, np.array(encoded["documents"]), windows.strategy)


def encoded_probabilities(predictor: Any, encoded: Encoded, bar: Any = None, raw: bool = False) -> np.ndarray:
    """(N, C) float32, probabilities, or values of a regression; `raw`: without the model's temperature."""
    return scores_of(encoded_logits(predictor, encoded, bar), predictor, raw)


def encoded_logits(predictor: Any, encoded: Encoded, bar: Any = None) -> np.ndarray:
    """(N, C) or (N, A, C) float32, see `logits_shape`, before the temperature and the sigmoid or the softmax."""
    if predictor.model.training:
        predictor.model.eval()
    if encoded.documents is not None:
        return _document_logits(predictor, encoded, encoded.documents, bar)
    shape = logits_shape(predictor.model.config)
    if "context_ids" in encoded.inputs:  # each row asks for one aspect
        shape = shape[-1:]
    output = np.empty((len(encoded), *shape), dtype=np.float32)
    for rows, inputs in _batches(predictor, encoded):
        output[rows] = model_logits(predictor.model, inputs)
        if bar is not None:
            bar.update(len(rows))
    return output


def logits_shape(config: Any) -> tuple[int, ...]:
    """(C,), or (A, C) of a model that answers for A aspects at once: the shape of its logits for one row without a context id."""
    aspects = (len(config.aspects),) if text_processing.all_aspects_at_once(config) else ()
    return *aspects, config.num_labels


def _batches(predictor: Any, encoded: Encoded) -> Iterator[tuple[list[int], dict[str, np.ndarray]]]:
    """Numbers of rows (windows), and their inputs, padded."""
    budget = TOKENS_PER_BATCH * (1 if predictor.model.device.type == "cpu" else 16)
    for rows in token_budget_batches([len(ids) for ids in encoded.inputs["input_ids"]], budget):
        pause()
        batch = {name: [values[row] for row in rows] for name, values in encoded.inputs.items()}
        yield rows, pad_rows(predictor.tokenizer, batch)


def _document_logits(predictor: Any, encoded: Encoded, documents: np.ndarray, bar: Any) -> np.ndarray:
    """(N, C) float32 of texts in windows."""
    shape = len(documents), predictor.model.config.num_labels
    logits, lse = np.empty(shape, np.float32), np.empty(shape, np.float32)
    first = np.diff(documents, prepend=-1) > 0
    for rows, inputs in _batches(predictor, encoded):
        logits[rows], lse[rows] = window_logits(predictor.model, inputs)
        if bar is not None:
            bar.update(int(first[rows].sum()))
    return join_windows(logits, lse, documents, len(encoded), encoded.strategy)


def row_probabilities(
    predictor: Any, rows: TextRows, progress: bool = False, windows: Windowing | None = None, raw: bool = False
) -> tuple[np.ndarray, Unread]:
    """
    Probabilities, float32, of the shape that `logits_shape` gives for each of N rows, `raw`: without the temperature; and what the model cannot
    read of the rows.
    """
    unread = Unread.nothing(len(rows))
    output = np.empty((len(rows), *logits_shape(predictor.model.config)), dtype=np.float32)
    with progress_bar(progress, total=len(rows), unit="texts") as bar:
        for part in chunks(rows.texts):
            encoded = encode_rows(predictor, rows[part], windows)
            unread.put(part, encoded.unread)
            output[part] = encoded_probabilities(predictor, encoded, bar, raw)
    return output, unread


def label_names(config) -> list[str]:
    """The names of a model's labels in their order; ValueError unless `id2label` names each id once, and `label2id` does not deny it."""
    names = {number: str(name) if is_whole(name) else name for number, name in config.id2label.items()}
    ids = {name: number for number, name in names.items() if type(name) is str}
    other = {str(name): number for name, number in (config.label2id or {}).items()}
    if sorted(ids.values()) != list(range(config.num_labels)) or (set(ids) == set(other) and ids != other):
        raise ValueError(
            f"`config.id2label` and `config.label2id` must agree and name each id from 0 to {config.num_labels - 1} once, got {names} "
            f"and {other}."
        )
    return [names[i] for i in range(config.num_labels)]


def is_regression(config) -> bool:
    """Whether a model gives values in a known range."""
    return config.problem_type == "regression" and getattr(config, "value_range", None) is not None


def is_multi_label(config) -> bool:
    """Whether a model gives each label a probability of its own; ValueError if it gives a number and no label."""
    multi_label = config.problem_type == "multi_label_classification"
    if is_regression(config):
        return False
    if not multi_label and (config.num_labels == 1 or config.problem_type == "regression"):
        raise ValueError(
            f"the model gives a number and no label (`problem_type` {config.problem_type!r}, {config.num_labels} outputs): for the "
            "probability of one label, the sigmoid, set `config.problem_type` to 'multi_label_classification'."
        )
    return multi_label
