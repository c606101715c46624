# SPDX-License-Identifier: Apache-2.0
"""What `hf-emotion export` has written, run by onnxruntime on the CPU.

Shapes: B batch, L tokens, U utterances, D utterance vector, C labels, E emotions, V vocabulary.
"""

import ctypes
import os
import threading
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from transformers import GenerationConfig, PreTrainedTokenizerBase
from transformers.modeling_outputs import SequenceClassifierOutput

import hf_emotion.modeling  # noqa: F401 - registers the Auto classes

from ..modeling.emotion_fields import check_emotions
from ..modeling.pipeline_emotional_response import (
    DEFAULT_NEW_TOKENS,
    emotion_ids_of,
    emotion_vector,
    encode_contexts,
    pad_contexts,
)
from .loading import read_config, read_tokenizer, reading


if TYPE_CHECKING:
    import onnxruntime


# A classifier is one graph; before that of dialogues stands the graph that encodes utterances, a generator has two.
MODEL, ENCODER, DECODER = "model.onnx", "encoder.onnx", "decoder.onnx"


def is_exported(checkpoint: str | Path) -> bool:
    """Whether a folder holds an exported classifier."""
    return (Path(checkpoint) / MODEL).is_file()


class Session:
    """
    A graph, ready to run with as many threads as torch has, from any thread. A forked process opens it again: onnxruntime's
    threads stay behind in the parent.
    """

    def __init__(self, path: Path):
        """
        Raises:
            ModuleNotFoundError: onnxruntime is not installed.
            OSError: no such file, or no graph in it.
        """
        self.path = path
        self._lock = threading.Lock()
        self._opened: onnxruntime.InferenceSession | None = _open(path)
        _sessions.add(self)

    def __reduce__(self):
        return Session, (self.path,)

    def get(self) -> "onnxruntime.InferenceSession":
        with self._lock:
            if self._opened is None:
                self._opened = _open(self.path)
            return self._opened

    def __call__(self, inputs: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
        """The outputs of the graph, in its order."""
        return [torch.from_numpy(output) for output in self.get().run(None, {k: v.numpy() for k, v in inputs.items()})]

    def inputs(self) -> list:
        return self.get().get_inputs()

    def outputs(self) -> list[str]:
        return [value.name for value in self.get().get_outputs()]


_sessions: "weakref.WeakSet[Session]" = weakref.WeakSet()


def _leave_sessions_behind() -> None:
    for session in list(_sessions):
        session._lock = threading.Lock()
        if session._opened is not None:
            # Never freed: its destructor would wait for threads that the child does not have.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(session._opened))
            session._opened = None


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_leave_sessions_behind)


def _open(path: Path) -> "onnxruntime.InferenceSession":
    try:
        import onnxruntime
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"{path.parent} is an exported model, which needs onnxruntime: pip install 'hf-emotion[onnx]'"
        ) from error
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing: export the model again.")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 3  # errors
    try:
        return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's errors share no class
        raise OSError(f"{path} cannot be read: export the model again ({error}).") from error


class OnnxClassifier:
    """An exported classifier as the predictors call a torch model: `config`, `device`, and a call that returns `logits`."""

    device, dtype = torch.device("cpu"), torch.float32

    def __init__(self, folder: str | Path):
        self.files = [Path(folder) / MODEL]
        self.config = read_config(folder)
        self.session = Session(self.files[0])

    def eval(self) -> "OnnxClassifier":
        return self

    def __call__(self, **inputs: torch.Tensor) -> SequenceClassifierOutput:
        """The inputs of the torch model -> logits (B, C), of dialogues (B, U, C)."""
        return SequenceClassifierOutput(logits=self.session(inputs)[0])


class OnnxDialogueClassifier(OnnxClassifier):
    """The same for dialogues: utterances are encoded by a graph of their own."""

    def __init__(self, folder: str | Path):
        super().__init__(folder)
        self.files.append(Path(folder) / ENCODER)
        self.encoder = Session(self.files[1])

    def encode_utterances(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """(N, L) twice -> (N, D)."""
        return self.encoder({"input_ids": input_ids, "attention_mask": attention_mask})[0]


class OnnxReplyGenerator:
    """
    Replies to contexts in given emotions, from an exported generator.

    >>> generator = OnnxReplyGenerator("runs/mojitalk-onnx")  # doctest: +SKIP
    >>> generator([("I failed the exam.", "sadness")], do_sample=False)  # doctest: +SKIP
    ["i'm so sorry to hear that"]
    """

    device = torch.device("cpu")

    def __init__(self, folder: str | Path, tokenizer: PreTrainedTokenizerBase | None = None):
        """
        Args:
            folder: what `hf-emotion export` has written.
            tokenizer: default: the one in the folder.

        Raises:
            ModuleNotFoundError: onnxruntime is not installed.
            OSError: a file is missing or damaged.
        """
        folder = Path(folder)
        self.encoder, self.decoder = Session(folder / ENCODER), Session(folder / DECODER)
        self.config = read_config(folder)
        with reading(folder, "generation_config.json"):
            self.generation_config = GenerationConfig.from_pretrained(folder)
        self.tokenizer = tokenizer or read_tokenizer(folder)

    def __call__(
        self, inputs: Sequence[tuple[str, str | Mapping[str, float]]], max_length: int | None = None, **settings: Any
    ) -> list[str]:
        """
        One reply for each (context, emotion), all in one batch.

        Args:
            inputs: an emotion is a name or an emoji of the model, or a mixture {name: weight}.
            max_length: tokens of a context; default: the model's positions.
            settings: of `generate`.
        """
        weights = [emotion_vector(emotion, self.config) for _, emotion in inputs]
        contexts = [context for context, _ in inputs]
        emotion_ids = emotion_ids_of(weights, self.config)
        rows = encode_contexts(self.tokenizer, contexts, self.config, max_length, emotion_ids)
        batch = pad_contexts(rows, self.config)
        sequences = self.generate(**batch, emotion_weights=torch.tensor(weights), **settings)
        return [text.strip() for text in self.tokenizer.batch_decode(sequences, skip_special_tokens=True)]

    def generate(
        self,
        input_ids: torch.LongTensor,
        attention_mask: torch.Tensor | None = None,
        emotion_ids: torch.LongTensor | None = None,
        emotion_weights: torch.FloatTensor | None = None,
        max_new_tokens: int | None = None,
        do_sample: bool | None = None,
        top_k: int | None = None,
        temperature: float = 1.0,
        generator: torch.Generator | None = None,
    ) -> torch.LongTensor:
        """
        Greedy decoding, or sampling among the `top_k` most probable tokens.

        Args:
            input_ids, attention_mask: (B, L), the contexts.
            emotion_ids, emotion_weights: (B,) or (B, E), as of the torch model.
            max_new_tokens: at most the model's positions; default: 40, or those if they are fewer.
            do_sample, top_k: default: the model's generation configuration; 0: all tokens.
            temperature: what logits are divided by before sampling.
            generator: of the random numbers.

        Returns:
            (B, T), the start token and the reply, filled up with the padding token behind its end.

        Raises:
            ValueError: emotions missing or of another shape, settings out of their range.
        """
        if max_new_tokens is None:
            max_new_tokens = min(DEFAULT_NEW_TOKENS, self.config.max_position_embeddings)
        if not 1 <= max_new_tokens <= self.config.max_position_embeddings:
            raise ValueError(
                f"`max_new_tokens` must lie between 1 and the model's {self.config.max_position_embeddings} positions, got "
                f"{max_new_tokens}."
            )
        do_sample = self.generation_config.do_sample if do_sample is None else do_sample
        top_k = self.generation_config.top_k if top_k is None else top_k
        if do_sample and not temperature > 0:
            raise ValueError(f"`temperature` must be greater than 0, got {temperature}.")
        if do_sample and top_k is not None and top_k < 0:
            raise ValueError(f"`top_k` must not be negative, got {top_k}.")
        end = self.config.eos_token_id
        ends = torch.tensor([] if end is None else [end] if isinstance(end, int) else end, dtype=torch.long)
        state = self.start(input_ids, attention_mask, emotion_ids, emotion_weights)
        tokens = torch.full((len(input_ids), 1), self.config.decoder_start_token_id)
        finished = torch.zeros(len(input_ids), dtype=torch.bool)
        for _ in range(max_new_tokens):
            logits = self.step(tokens[:, -1:], state)
            if do_sample:
                logits = logits / temperature
                if top_k:
                    least = logits.topk(min(top_k, logits.shape[1])).values[:, -1:]
                    logits = logits.masked_fill(logits < least, -torch.inf)
                chosen = torch.multinomial(logits.softmax(dim=-1), 1, generator=generator)[:, 0]
            else:
                chosen = logits.argmax(dim=-1)
            chosen = chosen.masked_fill(finished, self.config.pad_token_id)
            tokens = torch.cat([tokens, chosen[:, None]], dim=1)
            finished |= torch.isin(chosen, ends)
            if finished.all():
                break
        return tokens

    def start(
        self,
        input_ids: torch.LongTensor,
        attention_mask: torch.Tensor | None = None,
        emotion_ids: torch.LongTensor | None = None,
        emotion_weights: torch.FloatTensor | None = None,
    ) -> dict[str, torch.Tensor]:
        """The encoder: what `step` needs of a batch: keys and values of the contexts, γ and β of the decoder, an empty cache."""
        if attention_mask is None:
            attention_mask = torch.ones_like(input_ids)
        inputs = {"input_ids": input_ids, "attention_mask": attention_mask}
        if "emotion_weights" in {value.name for value in self.encoder.inputs()}:
            weights = check_emotions(self.config, emotion_ids, emotion_weights, len(input_ids))
            inputs["emotion_weights"] = weights.float()
        state = dict(zip(self.encoder.outputs(), self.encoder(inputs), strict=True))
        for value in self.decoder.inputs():
            if value.name.startswith("past_"):
                _, heads, _, size = value.shape
                state[value.name] = torch.zeros(len(input_ids), heads, 0, size)
        return {**state, "encoder_attention_mask": attention_mask}

    def step(self, tokens: torch.LongTensor, state: dict[str, torch.Tensor]) -> torch.Tensor:
        """One token of each reply (B, 1) -> logits of the next one (B, V); `state` grows by it."""
        outputs = dict(zip(self.decoder.outputs(), self.decoder({"input_ids": tokens, **state}), strict=True))
        logits = outputs.pop("logits")
        state.update({name.replace("present_", "past_", 1): tensor for name, tensor in outputs.items()})
        return logits


__all__ = ["OnnxClassifier", "OnnxDialogueClassifier", "OnnxReplyGenerator", "Session", "is_exported"]
