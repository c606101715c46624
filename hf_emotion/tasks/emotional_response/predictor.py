# SPDX-License-Identifier: Apache-2.0
"""Generates replies in chosen emotions for lists of contexts, from a checkpoint of our generators."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.nn import functional as F
from transformers import PreTrainedModel, PreTrainedTokenizerBase, StoppingCriteriaList

from ...io.progress import progress_bar
from ...modeling.pipeline_emotional_response import (
    DEFAULT_NEW_TOKENS,
    around_context,
    emotion_ids_of,
    emotion_vector,
    encode_contexts,
    limit_length,
    pad_contexts,
    reads_emotion,
    text_positions,
    written,
)
from ...runtime.batching import as_texts
from ...runtime.plain import text_processing
from ...runtime.sharing import is_shared, pause, use_tokens
from ...runtime.torch_models import use_one_thread_after_fork
from ...runtime.unread import Unread, unknown_shares, warn_unread
from ..perplexity import padded
from ..predictor import AnyPredictor
from . import TASK


if TYPE_CHECKING:
    from ..corpus import Corpus
    from ..loading import CorpusSplit
    from .evaluating import ReplyEvaluation


logger = logging.getLogger(__name__)


Emotion = str | Mapping[str, float]


_sampling = threading.RLock()  # all threads share torch's random numbers, which a seed sets


def _renew_lock() -> None:
    """Make a new lock in a forked child, which lacks the thread that may hold the old one."""
    global _sampling
    _sampling = threading.RLock()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_renew_lock)


class ReplyGenerator(AnyPredictor):
    """
    Replies to contexts, each in an emotion, in a mixture of emotions, or in every emotion.

    >>> generator = ReplyGenerator("runs/mojitalk_gpt2_mod_ln")  # doctest: +SKIP
    >>> generator(["i lost my keys again"], "😭")  # doctest: +SKIP
    ['i feel you , i hate that']
    """

    task = TASK

    def __init__(
        self,
        checkpoint: str | Path | PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase | None = None,
        device: str | int | torch.device | None = None,
        max_length: int | None = None,
        dtype: str | None = None,
    ):
        """
        Arguments and errors as for `Predictor`. `max_length` counts the tokens of a context; a longer one keeps its last ones; default
        and upper bound: the model's positions, or half of them if it is decoder-only and writes behind the context.
        """
        super().__init__(checkpoint, tokenizer, device, max_length, dtype)
        if self.model.config.emotions is None:
            raise ValueError("the configuration names no `emotions`: set `config.emotions`, one name for each.")
        self.emotions: list[str] = list(self.model.config.emotions)

    def _lengths(self) -> tuple[int, str, None]:
        return text_positions(self.model.config), "model", None

    def __call__(
        self,
        contexts: Sequence[str] | str,
        emotions: Sequence[Emotion] | Emotion,
        batch_size: int = 64,
        seed: int | None = None,
        progress: bool = False,
        **generate_kwargs: Any,
    ) -> list[Any]:
        """
        Args:
            contexts: N texts.
            emotions: for each context a name (emoji) of the model or a mixture {name: weight}; or one for all contexts.
            batch_size: number of contexts per call of `generate`; contexts are sorted by length.
            seed: seed for the sampling; the same seed, contexts, emotions and batch size give the same replies, in threads too,
                which wait for each other.
            progress: show a progress bar.
            generate_kwargs: arguments of `generate` (`do_sample`, `top_k`, `num_beams`, `max_new_tokens`, ...); default: the
                checkpoint's. After a training they sample from the 10 most probable tokens, up to 40; `replies` samples none.

        Returns:
            N replies; with `num_return_sequences` > 1, N lists of replies.

        Raises:
            ValueError: an empty context, an unknown emotion (with the nearest names), as many emotions as contexts are not
                given, more new tokens than the model has positions for a reply.
        """
        return self.predict(contexts, emotions, batch_size, seed, progress, **generate_kwargs)[0]

    @torch.no_grad()
    def predict(
        self,
        contexts: Sequence[str] | str,
        emotions: Sequence[Emotion] | Emotion,
        batch_size: int = 64,
        seed: int | None = None,
        progress: bool = False,
        **generate_kwargs: Any,
    ) -> tuple[list[Any], Unread]:
        """The results of a call, and what the model cannot read of each context."""
        contexts = as_texts(contexts)
        if batch_size < 1:
            raise ValueError(f"`batch_size` must be at least 1, got {batch_size}.")
        if isinstance(emotions, str | Mapping):
            emotions = [emotions] * len(contexts)
        if not isinstance(emotions, Sequence) or len(emotions) != len(contexts):
            got = len(emotions) if isinstance(emotions, Sequence) else repr(emotions)
            raise ValueError(f"`emotions` must be one, or one for each of the {len(contexts)} contexts, got {got}.")
        config = self.model.config
        weights = [emotion_vector(emotion, config) for emotion in emotions]
        limit_length(generate_kwargs, self.model, min(DEFAULT_NEW_TOKENS, text_positions(config)))
        if (generate_kwargs.get("max_new_tokens") or 0) > text_positions(config):
            raise ValueError(f"`max_new_tokens` must be at most {text_positions(config)}, the model's positions.")
        use_one_thread_after_fork()
        with _sampling:
            ids = encode_contexts(self.tokenizer, contexts, config, self.max_length, emotion_ids_of(weights, config))
            unread = unread_contexts(self.tokenizer, config, contexts, self.max_length)
            use_tokens(sum(map(len, ids)) + len(ids) * self._most_written(generate_kwargs))
            if is_shared():
                generate_kwargs["stopping_criteria"] = StoppingCriteriaList([_only_while_wanted])
            device = self.model.device
            # What is drawn without a seed, here and elsewhere in the process, must not follow from an earlier seed.
            with torch.random.fork_rng([device] if device.type == "cuda" else [], enabled=seed is not None):
                if seed is not None:
                    torch.manual_seed(seed)
                return self._generate(ids, weights, batch_size, progress, generate_kwargs, seed is None), unread

    def _most_written(self, settings: Mapping[str, Any]) -> int:
        """The most tokens that a reply takes with these settings of `generate`, in all beams."""
        saved = self.model.generation_config
        beams, tokens = (settings.get(name) or getattr(saved, name) for name in ("num_beams", "max_new_tokens"))
        return (beams or 1) * (tokens or text_positions(self.model.config))

    def _generate(
        self,
        ids: list[list[int]],
        weights: list[list[float]],
        batch_size: int,
        progress: bool,
        generate_kwargs: Mapping[str, Any],
        for_others: bool,
    ) -> list[Any]:
        order = sorted(range(len(ids)), key=lambda row: len(ids[row]))
        replies: list[Any] = [None] * len(ids)
        with progress_bar(progress, len(ids), "replies") as bar:
            for start in range(0, len(order), batch_size):
                pause(for_others)  # others would draw from the random numbers of a seed
                rows = order[start : start + batch_size]
                inputs = self._padded([ids[row] for row in rows])
                output = self.model.generate(
                    **inputs,
                    emotion_weights=torch.tensor([weights[row] for row in rows], device=self.model.device),
                    **generate_kwargs,
                )
                sequences = output if isinstance(output, torch.Tensor) else output.sequences
                replied = written(sequences, inputs, self.model.config)
                texts = [text.strip() for text in self.tokenizer.batch_decode(replied, skip_special_tokens=True)]
                each = len(texts) // len(rows)
                for number, row in enumerate(rows):
                    own = texts[number * each : (number + 1) * each]
                    replies[row] = own if each > 1 else own[0]
                bar.update(len(rows))
        return replies

    def all_emotions(self, contexts: Sequence[str] | str, intensity: float = 1.0, **kwargs: Any) -> list[list[str]]:
        """
        Reply to each context in every emotion, in the order of `emotions`.

        Args:
            intensity: weight of the emotion; training uses 1, a larger weight exaggerates.
            kwargs: as in a call.
        """
        contexts = as_texts(contexts)
        each: list[Emotion] = [{emotion: intensity} for emotion in self.emotions]
        replies = self([context for context in contexts for _ in each], each * len(contexts), **kwargs)
        count = len(self.emotions)
        return [replies[start : start + count] for start in range(0, len(replies), count)]

    @torch.inference_mode()
    def token_losses(
        self,
        contexts: Sequence[str],
        replies: Sequence[str],
        emotions: Sequence[Emotion],
        batch_size: int = 64,
        progress: bool = False,
    ) -> np.ndarray:
        """
        -ln P of the tokens of given replies, in order: the tokens of each reply, then its end token. exp of the mean is the
        perplexity per token.
        """
        config = self.model.config
        weights = [emotion_vector(emotion, config) for emotion in emotions]
        ids = encode_contexts(self.tokenizer, contexts, config, self.max_length, emotion_ids_of(weights, config))
        labels = self.token_ids(replies)
        losses: list[np.ndarray] = [np.empty(0)] * len(ids)
        order = sorted(range(len(ids)), key=lambda row: len(labels[row]))
        with progress_bar(progress, len(order), "replies") as bar:
            for start in range(0, len(order), batch_size):
                rows = order[start : start + batch_size]
                logits, target = self._reply_logits(
                    [ids[row] for row in rows], [labels[row] for row in rows], [weights[row] for row in rows]
                )
                values = F.cross_entropy(logits.float().transpose(1, 2), target, reduction="none", ignore_index=-100)
                for row, loss in zip(rows, values.cpu().numpy(), strict=True):
                    losses[row] = loss[: len(labels[row])]
                bar.update(len(rows))
        return np.concatenate(losses) if losses else np.empty(0)

    def _reply_logits(
        self, contexts: list[list[int]], replies: list[list[int]], weights: list[list[float]]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits (B, T, V) of the tokens of replies, and the tokens (B, T), -100 at padding."""
        model, target = self.model, padded(replies, -100).to(self.model.device)
        inputs = with_replies(model, self._padded(contexts), target)
        emotions = torch.tensor(weights, device=model.device)
        logits = model(**inputs, emotion_weights=emotions, use_cache=False).logits
        return logits if model.config.is_encoder_decoder else logits[:, :-1], target

    def token_ids(self, replies: Sequence[str]) -> list[list[int]]:
        """
        The tokens of replies as the decoder writes them, cut to the model's positions for them, each with the token that ends a
        reply.
        """
        config = self.model.config
        if not len(replies):
            return []
        ids = self.tokenizer(
            list(replies), add_special_tokens=False, truncation=True, max_length=text_positions(config) - 1
        )["input_ids"]
        return [[*row, config.eos_token_id] for row in ids]

    def loader_options(self, corpus: Corpus) -> Mapping[str, Any]:
        """A file need not have every emotion of the model."""
        return {"labels": self.emotions} if corpus.own_files else {}

    def evaluate(self, of: CorpusSplit, **settings: Any) -> ReplyEvaluation:
        from .evaluating import evaluate_replies

        return evaluate_replies(self, of.dataset, of.split, of.data_dir, of.options, **settings)

    def _padded(self, rows: list[list[int]]) -> dict[str, torch.Tensor]:
        return {name: tensor.to(self.model.device) for name, tensor in pad_contexts(rows, self.model.config).items()}


def with_replies(model: Any, contexts: Mapping[str, torch.Tensor], replies: torch.Tensor) -> dict[str, Any]:
    """What a model reads to predict replies (B, T), -100 at padding, to contexts from `pad_contexts`."""
    if model.config.is_encoder_decoder:
        return {**contexts, "decoder_input_ids": model.prepare_decoder_input_ids_from_labels(replies)}
    # Replies begin at one place, and the logits, large for a large vocabulary, are those from the token before it on.
    real = replies != -100
    return {
        "input_ids": torch.cat([contexts["input_ids"], replies.where(real, model.config.pad_token_id)], dim=1),
        "attention_mask": torch.cat([contexts["attention_mask"], real.long()], dim=1),
        "logits_to_keep": replies.shape[1] + 1,
    }


def decoding(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of `generate` completed as they are meant: an option of drawing draws, and beams do not, whatever the checkpoint does."""
    options = dict(options)
    if not options.keys().isdisjoint(("top_k", "top_p", "temperature")):
        options.setdefault("do_sample", True)
    if "top_p" in options:
        options.setdefault("top_k", 0)  # else the checkpoint's would cut first
    if options.get("num_beams", 1) > 1:
        options.setdefault("do_sample", False)
    return options


def _only_while_wanted(tokens: torch.Tensor, scores: Any, **kwargs: Any) -> torch.Tensor:
    """A stopping criterion that stops no reply; it raises an error when nobody waits for them any more."""
    pause(False)
    return torch.zeros(len(tokens), dtype=torch.bool, device=tokens.device)


def unread_contexts(
    tokenizer: PreTrainedTokenizerBase, config: Any, contexts: Sequence[str], max_length: int
) -> Unread:
    """What a model cannot read of each context; warnings count a context once, however many replies it gets."""
    if not contexts:  # tokenizers fail on an empty list
        return Unread.nothing(0)
    contexts = list(map(text_processing.normalized, contexts))
    distinct = list(dict.fromkeys(contexts))
    special = sum(map(len, around_context(tokenizer, config, 0 if reads_emotion(config) else None)))
    encoded = tokenizer(distinct, add_special_tokens=False, verbose=False)
    cut = np.array([len(ids) + special > max_length for ids in encoded["input_ids"]], dtype=bool)
    unread = Unread.nothing(len(distinct))._replace(
        truncated=cut, unknown=unknown_shares(tokenizer, distinct, encoded)
    )
    warn_unread(unread.counts, f"{max_length} tokens", what="contexts", of=tokenizer)
    number = {context: row for row, context in enumerate(distinct)}
    return unread.take([number[context] for context in contexts])
