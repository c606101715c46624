# SPDX-License-Identifier: Apache-2.0
"""
ONNX export of generators of replies (a graph for the encoder and one for a step of the decoder, compared by greedy replies and the
logits of their tokens), and their Inference Endpoint.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from transformers import DynamicCache, EncoderDecoderCache

from ...io.progress import progress_bar
from ...modeling.pipeline_emotional_response import encode_contexts, pad_contexts
from ...runtime.graphs import write_graph
from ...runtime.loading import read_config
from ...runtime.onnx import DECODER, ENCODER
from ..checkpoints import load_any
from ..exporting import Comparison, Exporter, least_and_most
from .onnx_replies import OnnxReplyGenerator


NEW_TOKENS = 16  # number of tokens of each compared reply
GREEDY: dict[str, Any] = {"do_sample": False, "max_new_tokens": NEW_TOKENS}


def exporter() -> Exporter:
    return Exporter(
        load=TorchReplies,
        load_exported=OnnxReplyGenerator,
        write=write,
        compare=compare,
        works=works,
        timed=8,
        measured=False,
        of_rows=lambda rows: list(dict.fromkeys(rows["context"])),
    )


class TorchReplies:
    """A generator and its tokenizer."""

    def __init__(self, checkpoint: str | Path):
        config = read_config(checkpoint)
        if not config.is_encoder_decoder:
            raise ValueError(
                f"{checkpoint} is a language model, which is not exported here: fold it (hf-emotion fold)."
            )
        self.model, self.tokenizer = load_any(checkpoint)


def works(model: TorchReplies, exported: OnnxReplyGenerator, contexts: Sequence[str]) -> list[Callable[[], Any]]:
    def reply(one: Any) -> None:
        one.generate(**_batch(model, contexts), **GREEDY)

    return [partial(reply, one) for one in (model.model, exported)]


def write(model: TorchReplies, folder: Path) -> list[Path]:
    model.model.generation_config.save_pretrained(folder)
    return write_graphs(model.model, folder)


def write_graphs(model, folder: Path) -> list[Path]:
    """
    Write the two graphs. The encoder's graph also computes what depends only on context and emotion: keys and values of the
    cross-attention, γ and β of the decoder's norms. The decoder's graph reads one token and the cache.
    """
    config, encoder, decoder = model.config, model.get_encoder(), model.get_decoder()
    layers = range(config.num_hidden_layers)
    cross, past, present = (
        [f"{name}_{part}_{i}" for i in layers for part in ("key", "value")] for name in ("cross", "past", "present")
    )
    modulation = ["modulation"] if decoder.is_modulated else []

    def encode(inputs):
        weights = inputs.get("emotion_weights")
        states = encoder(
            input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"], emotion_weights=weights
        ).last_hidden_state
        scales = [decoder.modulation(weights)] if modulation else []
        cache = EncoderDecoderCache(DynamicCache(config=config), DynamicCache(config=config))
        # One step of the decoder fills the cache; its other results are not in the graph.
        decoder(
            input_ids=inputs["input_ids"][:, :1],
            encoder_hidden_states=states,
            encoder_attention_mask=inputs["attention_mask"],
            modulation=scales[0] if scales else None,
            cache=cache,
            use_cache=True,
        )
        return (*scales, *_tensors(cache.cross_attention_cache))

    def decode(inputs):
        caches = [
            DynamicCache([(inputs[names[2 * i]], inputs[names[2 * i + 1]]) for i in layers]) for names in (past, cross)
        ]
        cache, mask = EncoderDecoderCache(*caches), inputs["encoder_attention_mask"]
        hidden_states = decoder(
            input_ids=inputs["input_ids"],
            # Not read: the keys and values of the cross-attention are in the cache.
            encoder_hidden_states=mask[..., None].to(decoder.dtype),
            encoder_attention_mask=mask,
            modulation=inputs.get("modulation"),
            cache=cache,
            use_cache=True,
        ).last_hidden_state
        return (getattr(model, model.head_name)(hidden_states[:, -1]), *_tensors(cache.self_attention_cache))

    contexts = {"input_ids": torch.ones(2, 5, dtype=torch.long), "attention_mask": torch.ones(2, 5, dtype=torch.long)}
    if encoder.is_modulated or decoder.is_modulated:
        contexts["emotion_weights"] = torch.ones(2, config.num_emotions)
    graphs = [
        write_graph(
            folder / ENCODER,
            model,
            encode,
            contexts,
            [*modulation, *cross],
            lambda name: (0,) if name == "emotion_weights" else (0, 1),
        )
    ]
    with torch.no_grad():
        given = dict(zip([*modulation, *cross], encode(contexts), strict=True))
    tokens = {
        "input_ids": torch.ones(2, 1, dtype=torch.long),
        "encoder_attention_mask": contexts["attention_mask"],
        **given,
        **{name: given[other][:, :, :3] for name, other in zip(past, cross, strict=True)},
    }
    sizes = {"input_ids": (0,), "modulation": (0,), "encoder_attention_mask": (0, 1)}
    graphs.append(
        write_graph(
            folder / DECODER, model, decode, tokens, ["logits", *present], lambda name: sizes.get(name, (0, 2))
        )
    )
    return graphs


def _tensors(cache: DynamicCache) -> list[torch.Tensor]:
    return [tensor for layer in cache.layers for tensor in (layer.keys, layer.values)]


def _batch(model: TorchReplies, contexts: Sequence[str], first_emotion: int = 0) -> dict[str, torch.Tensor]:
    """Contexts as the encoder reads them, with the model's emotions taken in turn."""
    config = model.model.config
    emotions = torch.arange(first_emotion, first_emotion + len(contexts)) % config.num_emotions
    inputs = pad_contexts(encode_contexts(model.tokenizer, contexts, config, emotion_ids=emotions.tolist()), config)
    if model.model.get_encoder().is_modulated or model.model.get_decoder().is_modulated:
        inputs["emotion_ids"] = emotions
    return inputs


def _replies(model: TorchReplies, sequences: torch.Tensor) -> list[list[int]]:
    """The tokens of each reply, without padding, which depends on the batch."""
    pad = model.model.config.pad_token_id
    return [[token for token in row[1:] if token != pad] for row in sequences.tolist()]


def compare(model: TorchReplies, exported: OnnxReplyGenerator, contexts: Sequence[str]) -> Comparison:
    """Compare greedy replies of both in batches of 1, 2, ... 32, and the logits of each token of torch's replies."""
    shapes: list[torch.Size] = []
    start, magnitudes, largest, tokens, others = 0, [], [], 0, 0
    with progress_bar(True, len(contexts), "contexts") as bar:
        while start < len(contexts):
            batch = _batch(model, contexts[start : start + len(shapes) % 32 + 1], start)
            shapes.append(batch["input_ids"].shape)
            start += len(batch["input_ids"])
            ours = model.model.generate(**batch, **GREEDY, output_logits=True, return_dict_in_generate=True)
            theirs = exported.generate(**batch, **GREEDY)
            same = zip(_replies(model, ours.sequences), _replies(model, theirs), strict=True)
            others += sum(one != other for one, other in same)
            state = exported.start(**batch)
            for position, logits in enumerate(ours.logits):
                difference = (exported.step(ours.sequences[:, position : position + 1], state) - logits).abs()
                magnitudes.append(logits.abs().max())
                largest.append(difference.max())
                tokens += len(logits)
            bar.update(len(ours.sequences))
    return {
        "texts": len(contexts),
        "batch_sizes": least_and_most(shape[0] for shape in shapes),
        "lengths": least_and_most(shape[1] for shape in shapes),
        "rows": tokens,
        "labels": model.model.config.vocab_size,
        "largest_logit": torch.stack(magnitudes).max().item(),
        "max_logit_difference": torch.stack(largest).max().item(),
        "other_decisions": others,
    }


# This function becomes part of the handler.py of an Inference Endpoint, and imports nothing.
def respond(run, inputs, parameters: dict) -> list:
    """
    For a text a list of {"emotion", "generated_text"}, for several texts a list of such lists; `parameters`: `emotions`, names or mixtures
    {name: weight} (default: all of the model), and arguments of `generate`.
    """
    parameters = dict(parameters)
    emotions = parameters.pop("emotions", None) or run.model.config.emotions
    if not isinstance(emotions, list):
        emotions = [emotions]
    texts = [inputs] if isinstance(inputs, str) else inputs
    replies = [[reply for emotion in emotions for reply in run((text, emotion), **parameters)] for text in texts]
    return replies[0] if isinstance(inputs, str) else replies
