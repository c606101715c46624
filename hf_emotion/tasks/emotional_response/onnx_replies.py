# SPDX-License-Identifier: Apache-2.0
"""Generates replies with an exported generator, by onnxruntime on the CPU.

Shapes: B batch, L tokens, E emotions, V vocabulary.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import (
    GenerationConfig,
    LogitsProcessorList,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from ...modeling.common import check_emotions
from ...modeling.pipeline_emotional_response import (
    DEFAULT_NEW_TOKENS,
    emotion_ids_of,
    emotion_vector,
    encode_contexts,
    pad_contexts,
)
from ...runtime.batching import as_texts
from ...runtime.loading import read_config, read_tokenizer, reading
from ...runtime.onnx import DECODER, ENCODER, Session
from .predictor import unread_contexts


logger = logging.getLogger(__name__)

# What a generation configuration may set here; other fields would change replies, and are not computed.
KNOWN = {
    *("bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id", "transformers_version", "use_cache"),
    *("max_length", "max_new_tokens", "do_sample", "top_k", "top_p", "temperature", "repetition_penalty"),
    *("output_attentions", "output_hidden_states", "_from_model_config"),
}


class OnnxReplyGenerator:
    """
    Replies to contexts in given emotions, from an exported generator.

    >>> generator = OnnxReplyGenerator("runs/mojitalk-onnx")  # doctest: +SKIP
    >>> generator([("I failed the exam.", "sadness")], do_sample=False)  # doctest: +SKIP
    ["i'm so sorry to hear that"]
    """

    takes_arrays = True  # as of `OnnxClassifier`: it is exported
    device = torch.device("cpu")

    def __init__(self, folder: str | Path):
        """A folder that `hf-emotion export` wrote; ModuleNotFoundError without onnxruntime, OSError for a missing or damaged file."""
        self.folder = folder = Path(folder)
        self.encoder, self.decoder = Session(folder / ENCODER), Session(folder / DECODER)
        self.config = read_config(folder)
        with reading(folder, "generation_config.json"):
            self.generation_config = GenerationConfig.from_pretrained(folder)
        ignored = [name for name in self.generation_config.to_diff_dict() if name not in KNOWN]
        if ignored:
            logger.warning(
                "%s: an exported generator does not know %s of its generation_config.json", folder, ", ".join(ignored)
            )
        self.tokenizer = read_tokenizer(folder)

    def eval(self) -> "OnnxReplyGenerator":
        return self

    def __call__(
        self, inputs: Sequence[tuple[str, str | Mapping[str, float]]], max_length: int | None = None, **settings: Any
    ) -> list[str]:
        """
        One reply for each (context, emotion), all in one batch.

        Args:
            inputs: the contexts with their emotions; an emotion is a name or an emoji of the model, or a mixture {name: weight}.
            max_length: maximum number of tokens per context; default: the model's positions.
            settings: arguments of `generate`.

        Raises:
            ValueError: an empty context, an unknown emotion; what `generate` refuses.
        """
        weights = [emotion_vector(emotion, self.config) for _, emotion in inputs]
        contexts = as_texts([context for context, _ in inputs])
        emotion_ids = emotion_ids_of(weights, self.config)
        unread_contexts(self.tokenizer, self.config, contexts, max_length or self.config.max_position_embeddings)
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
        top_p: float | None = None,
        temperature: float | None = None,
        repetition_penalty: float | None = None,
        generator: torch.Generator | None = None,
        stopping_criteria: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] | None = None,
        **others: Any,
    ) -> torch.LongTensor:
        """
        Greedy decoding, or sampling among the most probable tokens. Each setting that is not given is the one of the model's
        generation configuration.

        Args:
            input_ids, attention_mask: (B, L), the contexts.
            emotion_ids, emotion_weights: (B,) or (B, E), as the torch model takes them.
            max_new_tokens: at most the model's positions; default: 40, or the model's positions if they are fewer.
            do_sample: False takes the most probable token; the next three are for sampling.
            top_k: the number of most probable tokens to sample from; 0: all tokens.
            top_p: the least probability that the tokens to sample from have together.
            temperature: divides the logits.
            repetition_penalty: divides the logits of tokens that the reply has already (multiplies negative ones).
            generator: the source of the random numbers.
            stopping_criteria: (tokens, logits) -> (B,), whether a reply ends here.

        Returns:
            (B, T), the start token and the reply, padded at the end.

        Raises:
            ValueError: emotions are missing or have another shape; a setting is out of its range, or not known here.
        """
        if others:
            raise ValueError(
                f"an exported generator does not take `{'`, `'.join(others)}`: leave it out, or take the checkpoint that it was exported from."
            )
        own = self.generation_config
        if max_new_tokens is None:
            most = own.max_new_tokens or (own.max_length or DEFAULT_NEW_TOKENS + 1) - 1  # it counts the start token
            max_new_tokens = min(most, self.config.max_position_embeddings)
        if not 1 <= max_new_tokens <= self.config.max_position_embeddings:
            raise ValueError(
                f"`max_new_tokens` must lie between 1 and {self.config.max_position_embeddings}, got {max_new_tokens}."
            )
        do_sample = own.do_sample if do_sample is None else do_sample
        top_k = own.top_k if top_k is None else top_k
        top_p = own.top_p if top_p is None else top_p
        temperature = own.temperature if temperature is None else temperature
        penalty = own.repetition_penalty if repetition_penalty is None else repetition_penalty
        processors = LogitsProcessorList()
        if penalty not in (None, 1):
            processors.append(RepetitionPenaltyLogitsProcessor(penalty))
        if do_sample and temperature not in (None, 1):
            processors.append(TemperatureLogitsWarper(float(temperature)))
        if do_sample and top_k:
            processors.append(TopKLogitsWarper(top_k))
        if do_sample and top_p not in (None, 1):
            processors.append(TopPLogitsWarper(top_p))
        end = self.config.eos_token_id
        ends = torch.tensor([] if end is None else [end] if isinstance(end, int) else end, dtype=torch.long)
        state = self.start(input_ids, attention_mask, emotion_ids, emotion_weights)
        tokens = torch.full((len(input_ids), 1), self.config.decoder_start_token_id)
        finished = torch.zeros(len(input_ids), dtype=torch.bool)
        for _ in range(max_new_tokens):
            logits = processors(tokens, self.step(tokens[:, -1:], state))
            if do_sample:
                chosen = torch.multinomial(logits.softmax(dim=-1), 1, generator=generator)[:, 0]
            else:
                chosen = logits.argmax(dim=-1)
            chosen = chosen.masked_fill(finished, self.config.pad_token_id)
            tokens = torch.cat([tokens, chosen[:, None]], dim=1)
            finished |= torch.isin(chosen, ends)
            if stopping_criteria is not None:
                finished |= stopping_criteria(tokens, logits)
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
        """
        Run the encoder and return what `step` needs: keys and values of the contexts, γ and β of the decoder, an empty
        cache.
        """
        if attention_mask is None:
            attention_mask = torch.ones_like(input_ids)
        inputs = {"input_ids": input_ids, "attention_mask": attention_mask}
        if "emotion_weights" in {value.name for value in self.encoder.inputs()}:
            weights = check_emotions(self.config, emotion_ids, emotion_weights, len(input_ids))
            inputs["emotion_weights"] = weights.float()
        state = _run(self.encoder, inputs)
        for value in self.decoder.inputs():
            if value.name.startswith("past_"):
                _, heads, _, size = value.shape
                state[value.name] = torch.zeros(len(input_ids), heads, 0, size)
        return {**state, "encoder_attention_mask": attention_mask}

    def step(self, tokens: torch.LongTensor, state: dict[str, torch.Tensor]) -> torch.Tensor:
        """One token of each reply (B, 1) -> logits of the next token (B, V); the cache in `state` grows."""
        outputs = _run(self.decoder, {"input_ids": tokens, **state})
        logits = outputs.pop("logits")
        state.update({name.replace("present_", "past_", 1): tensor for name, tensor in outputs.items()})
        return logits


def _run(session: Session, inputs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The outputs of a graph by their names."""
    outputs = session({name: tensor.numpy() for name, tensor in inputs.items()})
    return {name: torch.from_numpy(output) for name, output in zip(session.outputs(), outputs, strict=True)}
