# SPDX-License-Identifier: Apache-2.0
"""Prediction for lists of texts: length-sorted, in batches of a fixed token budget."""

import logging
import os
import threading
from collections.abc import Iterable, Mapping, Sequence, Set
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm.auto import tqdm
from transformers import (
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    BatchEncoding,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

import hf_emotion.modeling  # noqa: F401 - registers the Auto classes

from ..loading import read_config, read_model, read_tokenizer
from ..modeling.checked_input import check_finite, is_readable
from ..modeling.tfidf_gate import TfidfGate, load_gate
from ..modeling.usable_positions import usable_positions
from ..taxonomies import group_index
from .onnx import OnnxClassifier, OnnxDialogueClassifier, is_exported


logger = logging.getLogger(__name__)

# Larger batches leave the CPU's caches (measured with MiniLM: 512 rows 1.44 s at 1024 tokens, 1.73 s at 4096).
TOKENS_PER_BATCH = 1024  # times 16 elsewhere
CHUNK = 4096  # texts tokenized and sorted together
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}

# A fast tokenizer keeps truncation as a setting: two threads would change it under each other ("Already borrowed").
_tokenizing = threading.RLock()
_process = os.getpid()
if hasattr(os, "register_at_fork"):  # not on Windows
    # A child has none of the threads that may hold the lock.
    os.register_at_fork(
        before=_tokenizing.acquire, after_in_parent=_tokenizing.release, after_in_child=_tokenizing.release
    )


def use_one_thread_after_fork() -> None:
    """Once in a forked process: OpenMP waits for ever for the threads that stayed behind in the parent."""
    global _process
    if os.getpid() != _process:
        torch.set_num_threads(1)
        _process = os.getpid()


def progress_bar(progress: bool, **options: Any) -> AbstractContextManager[tqdm | None]:
    """A bar where standard error is a terminal; None unless asked for: a fork could find tqdm's lock taken."""
    return tqdm(disable=None, **options) if progress else nullcontext()


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
        checkpoint: str | Path | PreTrainedModel | OnnxClassifier,
        tokenizer: PreTrainedTokenizerBase | None = None,
        device: str | torch.device | None = None,
        max_length: int | None = None,
        taxonomy: str | None = None,
        gate: TfidfGate | None = None,
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
            max_length, usable_positions(config), "model", self.tokenizer.model_max_length
        )
        self.gate = gate or load_gate(config)
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
        if taxonomy is not None and taxonomy != "goemotions":
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
        self.check_top_k(top_k)
        return self.rank(self.label_probabilities(texts, progress), top_k)

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
        probabilities, truncated = self._label_probabilities(texts, progress)
        self.warn_truncated(truncated, len(probabilities))
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

    def warn_truncated(self, truncated: int, total: int) -> None:
        """One counted warning for the texts that were cut."""
        if truncated:
            logger.warning(
                "%d of %d texts are longer than %d tokens (`max_length`) and were cut",
                truncated,
                total,
                self.max_length,
            )

    def _label_probabilities(self, texts: Sequence[str] | str, progress: bool = False) -> tuple[np.ndarray, int]:
        """Probabilities of the model's labels (N, C) float32, and the number of texts that were cut."""
        probabilities, cut = self._run(as_texts(texts), progress=progress)
        return probabilities, int(cut.sum())

    def _run(
        self,
        texts: list[str],
        auxiliaries: Sequence[str] | None = None,
        context_ids: Sequence[int] | None = None,
        progress: bool = False,
    ) -> tuple[np.ndarray, np.ndarray]:
        """
        Probabilities (N, C) float32 of rows in any order of lengths, and which of them were cut, (N,) bool.

        Args:
            texts: N texts.
            auxiliaries: the second segment of each row.
            context_ids: the context of each row.
        """
        self.model.eval()  # it may be in training
        cut = np.zeros(len(texts), dtype=bool)
        output = np.empty((len(texts), self.model.config.num_labels), dtype=np.float32)
        with progress_bar(progress, total=len(texts), unit="texts") as bar:
            for start in range(0, len(texts), CHUNK):
                part = slice(start, start + CHUNK)
                pairs = [texts[part]] if auxiliaries is None else [texts[part], auxiliaries[part]]
                encoded, cut[part] = encode_texts(self.tokenizer, pairs, self.max_length, self.gate, self.model.config)
                budget = TOKENS_PER_BATCH * (1 if self.model.device.type == "cpu" else 16)
                for rows in token_budget_batches([len(ids) for ids in encoded["input_ids"]], budget):
                    names = [name for name in INPUT_NAMES if name in encoded]
                    batch = {name: [encoded[name][row] for row in rows] for name in names}
                    if context_ids is not None:
                        batch["context_ids"] = [context_ids[start + row] for row in rows]
                    output[[start + row for row in rows]] = self._forward(batch)
                    if bar is not None:
                        bar.update(len(rows))
        return output, cut

    @torch.inference_mode()
    def _forward(self, batch: dict[str, list]) -> np.ndarray:
        use_one_thread_after_fork()
        inputs: Any = pad_batch(self.tokenizer, batch).to(self.model.device)
        logits = self.model(**inputs).logits.float()
        check_finite(logits)
        return (logits.sigmoid() if self.multi_label else logits.softmax(dim=-1)).cpu().numpy()


def _label_names(config) -> list[str]:
    """The names of a model's labels in their order; ValueError unless each id has one of its own."""
    names = dict(config.id2label)
    if set(names) != set(range(config.num_labels)) or len(set(names.values())) != len(names):
        raise ValueError(
            f"`config.id2label` must give each id from 0 to {config.num_labels - 1} a name of its own, got {names}."
        )
    return [names[i] for i in range(config.num_labels)]


def check_max_length(max_length: int | None, limit: int, of: str, default: int | None = None) -> int:
    """`max_length`, else `default`, else the limit; ValueError unless it lies between 3 and the limit of the model or encoder."""
    if max_length is not None and not 3 <= max_length <= limit:
        raise ValueError(f"`max_length` must lie between 3 and the {of}'s {limit} positions, got {max_length}.")
    return max_length or min(limit, default or limit)


INPUT_NAMES = ("input_ids", "token_type_ids", "token_gates")


def encode_texts(
    tokenizer: PreTrainedTokenizerBase, segments: list[Sequence[str]], max_length: int, gate: TfidfGate | None, config
) -> tuple[dict[str, list], np.ndarray]:
    """
    Texts as a model reads them, for training and prediction alike.

    Args:
        segments: the texts, and, for pairs, the second segment of each, which is never cut.
        gate, config: the model's TF-IDF gate and its configuration, which says what the gate does.

    Returns:
        `input_ids`, for pairs `token_type_ids`, with `tfidf_gating="scale"` `token_gates`; and (N,) bool: which were cut.
    """
    texts, *auxiliary = segments
    scaled = gate is not None and config.tfidf_gating == "scale"
    if gate is not None and not scaled:
        texts = [gate.filter(text) for text in texts]
    options: dict[str, Any] = {
        "return_token_type_ids": bool(auxiliary),
        "return_attention_mask": False,
        "verbose": False,
    }
    with _tokenizing:
        encoded = tokenizer(texts, *auxiliary, return_offsets_mapping=scaled, **options)
        cut = np.array([len(ids) > max_length for ids in encoded["input_ids"]], dtype=bool)
        rows = np.flatnonzero(cut)
        if rows.size:
            options |= {"truncation": "only_first", "max_length": max_length}
            parts = [[segment[row] for row in rows] for segment in (texts, *auxiliary)]
            shorter = tokenizer(*parts, return_offsets_mapping=scaled, **options)
            for name, values in shorter.items():
                for row, value in zip(rows, values, strict=True):
                    encoded[name][row] = value
    if scaled:
        offsets = encoded.pop("offset_mapping")
        encoded["token_gates"] = [gate.token_gates(*pair) for pair in zip(texts, offsets, strict=True)]
    return dict(encoded), cut


def pad_batch(tokenizer: PreTrainedTokenizerBase, batch: dict[str, list]) -> BatchEncoding:
    """Rows of `encode_texts` -> tensors (B, L), padded to the longest row, with `attention_mask`."""
    gates = batch.pop("token_gates", None)
    inputs = tokenizer.pad(batch, return_tensors="pt")
    if gates is not None:
        mask = inputs["attention_mask"].bool()  # says on which side the padding is
        inputs["token_gates"] = torch.ones(mask.shape)
        inputs["token_gates"][mask] = torch.tensor([gate for row in gates for gate in row])
    return inputs


def is_targeted(config) -> bool:
    """Whether a model was trained for targeted sentiment."""
    return getattr(config, "aspects", None) is not None


def is_dialogue_model(config) -> bool:
    """Whether a model reads dialogues."""
    return config.model_type == "dialogue-bilstm"


def is_generator(config) -> bool:
    """Whether a model generates replies in chosen emotions."""
    return hasattr(config, "modulated_norms")


def as_texts(texts: Sequence[str] | str) -> list[str]:
    """A list of texts (a string is a list of one); TypeError for what is none, ValueError where one is empty or no string."""
    # Of a table the elements are the names of its columns, and a set has no order.
    wrong = isinstance(texts, Mapping | Set | bytes) or not isinstance(texts, Iterable) or hasattr(texts, "columns")
    if wrong:
        remedy = "texts['text'], the column with the texts" if hasattr(texts, "columns") else "[text, ...]"
        raise TypeError(f"texts must be a string or a list of strings, got {type(texts).__name__}: write {remedy}.")
    texts = [texts] if isinstance(texts, str) else list(texts)
    for row, text in enumerate(texts):
        try:
            if isinstance(text, str):
                text.encode()
        except UnicodeEncodeError as error:
            raise ValueError(
                f"text {row + 1} of {len(texts)} holds half a character (U+{ord(text[error.start]):04X} at {error.start}), which is "
                "no Unicode text: read it as UTF-8, or leave such characters out."
            ) from error
        if not is_readable(text):
            raise ValueError(f"text {row + 1} of {len(texts)} is empty or no string: {text!r}")
    return texts


def load_checkpoint(
    checkpoint: str | Path | PreTrainedModel | OnnxClassifier,
    tokenizer: PreTrainedTokenizerBase | None = None,
    device: str | torch.device | None = None,
    dtype: str | None = None,
) -> tuple[PreTrainedModel | OnnxClassifier, PreTrainedTokenizerBase]:
    """
    A classifier (of texts or of the turns of dialogues) or generator and its tokenizer. A model object stays as it is, where it is; one
    that is loaded goes to the GPU where there is one, with its own dtype or the given one.

    Raises:
        ModuleNotFoundError: an exported model without onnxruntime.
        OSError: no such checkpoint, or one without a tokenizer or without safetensors.
        ValueError: a model object without `tokenizer`; a checkpoint without trained head, with damaged files or with code of its
            own, which is not run; an exported model on another device than the CPU, "cuda" without a GPU; another `dtype` than those of `DTYPES`, or one
            for a model object or an exported model.
    """
    if dtype is not None and dtype not in DTYPES:
        raise ValueError(f"`dtype` must be one of {list(DTYPES)}, got {dtype!r}.")
    if not isinstance(checkpoint, str | Path):
        if tokenizer is None:
            raise ValueError("pass `tokenizer` together with a model object.")
        _check_vocabulary(checkpoint.config, tokenizer)
        if dtype is not None:
            raise ValueError(
                f"`dtype` {dtype!r} is for checkpoints: a model object has its own, see `model.to(dtype)`."
            )
        return checkpoint, tokenizer
    if Path(checkpoint).is_file():
        raise OSError(
            f"the checkpoint {str(checkpoint)!r} is a file: give the folder that holds it, with its config.json."
        )
    if Path(checkpoint).is_dir() and not (Path(checkpoint) / "config.json").is_file():
        found = [path.parent for pattern in ("*", "*/*") for path in Path(checkpoint).glob(f"{pattern}/config.json")]
        inner = sorted(path.relative_to(checkpoint).as_posix() for path in found)
        hint = f" Its folders {inner} are checkpoints." if inner else ""
        raise OSError(f"{checkpoint} is no checkpoint: it has no config.json.{hint}")
    if is_exported(checkpoint):
        if torch.device(device or "cpu").type != "cpu":
            raise ValueError(f"`device` must be 'cpu' for {checkpoint}, an exported model; got {str(device)!r}.")
        if dtype is not None:
            raise ValueError(f"`dtype` {dtype!r}: {checkpoint} is an exported model, whose weights stay as they are.")
        dialogues = is_dialogue_model(read_config(checkpoint))
        model = (OnnxDialogueClassifier if dialogues else OnnxClassifier)(checkpoint)
        return model, tokenizer or read_tokenizer(checkpoint)
    try:
        config = read_config(checkpoint)
        auto_class = AutoModelForSequenceClassification
        if is_dialogue_model(config):
            auto_class = AutoModelForTokenClassification
        elif is_generator(config):
            auto_class = AutoModelForSeq2SeqLM
        model, loading = read_model(auto_class, checkpoint, config=config, output_loading_info=True)
    except OSError as error:
        raise OSError(
            f"the checkpoint {str(checkpoint)!r} cannot be loaded, neither from a local folder nor from the Hub: "
            f"{str(error).splitlines()[0]}"
        ) from error
    if loading["missing_keys"]:
        raise ValueError(
            f"{checkpoint} is no trained model: it lacks {sorted(loading['missing_keys'])}. Train it first."
        )
    if tokenizer is None:
        if Path(checkpoint).is_dir() and not (Path(checkpoint) / "tokenizer_config.json").is_file():
            raise OSError(
                f"the checkpoint {str(checkpoint)!r} has no tokenizer (tokenizer_config.json, tokenizer.json): save the "
                "tokenizer it was trained with into the folder, tokenizer.save_pretrained(folder)."
            )
        tokenizer = read_tokenizer(checkpoint)
    _check_vocabulary(config, tokenizer)
    device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"`device` is {str(device)!r}, but torch finds no GPU: leave it out, or write 'cpu'.")
    return model.to(device, None if dtype is None else DTYPES[dtype]), tokenizer


ROUNDED_UP = (
    128  # rows of embeddings that a tokenizer may lack: sizes are rounded up for speed, and leave room for new words
)


def _check_vocabulary(config, tokenizer: PreTrainedTokenizerBase) -> None:
    """Warns of a tokenizer that cannot be the model's: other words have its ids, which no error tells."""
    rows = getattr(getattr(config, "encoder_config", None) or config, "vocab_size", None)
    if rows is not None and not rows - ROUNDED_UP <= len(tokenizer) <= rows:
        logger.warning(
            "the tokenizer knows %d tokens and the model %d: take the tokenizer that the model was trained with, or the labels mean "
            "nothing",
            len(tokenizer),
            rows,
        )


def token_budget_batches(lengths: Sequence[int], tokens: int) -> list[list[int]]:
    """
    Rows sorted by length, longest first, and cut into batches of at most `tokens` tokens, padding included (a longer row
    is a batch of its own).
    """
    batches: list[list[int]] = []
    for row in sorted(range(len(lengths)), key=lambda row: -lengths[row]):
        if batches and lengths[batches[-1][0]] * (len(batches[-1]) + 1) <= tokens:
            batches[-1].append(row)
        else:
            batches.append([row])
    return batches
