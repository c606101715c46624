# SPDX-License-Identifier: Apache-2.0
"""State dicts as the authors' published code writes them."""

import json
from pathlib import Path

import torch
from safetensors.torch import save_file


# No two sizes are equal, so that a mixed-up dimension is an error and not a wrong number.
HIDDEN, HEADS, HEAD_SIZE, LAYERS, LABELS, CONTEXTS = 12, 3, 4, 2, 7, 6
SIZES = {
    "vocab_size": 31,
    "hidden_size": HIDDEN,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "intermediate_size": 20,
    "max_position_embeddings": 17,
    "type_vocab_size": 5,
    "num_labels": LABELS,
}

ABSA_SIZES = {**SIZES, "num_contexts": CONTEXTS}

CONTEXT_SHAPES = {"cg": (HEAD_SIZE, HEAD_SIZE), "shared": (HEAD_SIZE, HIDDEN), "per_head": (HIDDEN, HIDDEN)}

GATES = ("lambda_q_query_layer", "lambda_q_context_layer", "lambda_k_key_layer", "lambda_k_context_layer")


class Weights:
    """Asymmetric values of a size that keeps activations near 1."""

    def __init__(self, seed: int):
        self.generator = torch.Generator().manual_seed(seed)
        self.tensors: dict[str, torch.Tensor] = {}

    def add(self, name: str, *shape: int, offset: float = 0.0) -> None:
        values = torch.rand(shape, generator=self.generator, dtype=torch.float64) + 0.5
        signs = torch.randint(0, 2, shape, generator=self.generator, dtype=torch.float64) * 2 - 1
        tilt = torch.linspace(0.6, 1.4, shape[-1], dtype=torch.float64)
        scale = 0.2 if len(shape) == 1 else shape[-1] ** -0.5
        self.tensors[name] = offset + values * signs * tilt * scale

    def linear(self, name: str, out_features: int, in_features: int, bias: bool = True) -> None:
        self.add(f"{name}.weight", out_features, in_features)
        if bias:
            self.add(f"{name}.bias", out_features)

    def norm(self, name: str, scale: str, shift: str) -> None:
        self.add(f"{name}.{scale}", HIDDEN, offset=1.0)
        self.add(f"{name}.{shift}", HIDDEN)

    def bert(self, prefix: str, scale: str, shift: str) -> None:
        for kind, rows in (("word", 31), ("position", 17), ("token_type", 5)):
            self.add(f"{prefix}.embeddings.{kind}_embeddings.weight", rows, HIDDEN)
        self.norm(f"{prefix}.embeddings.LayerNorm", scale, shift)
        for i in range(LAYERS):
            layer = f"{prefix}.encoder.layer.{i}"
            for kind in ("query", "key", "value"):
                self.linear(f"{layer}.attention.self.{kind}", HIDDEN, HIDDEN)
            self.linear(f"{layer}.attention.output.dense", HIDDEN, HIDDEN)
            self.norm(f"{layer}.attention.output.LayerNorm", scale, shift)
            self.linear(f"{layer}.intermediate.dense", 20, HIDDEN)
            self.linear(f"{layer}.output.dense", HIDDEN, 20)
            self.norm(f"{layer}.output.LayerNorm", scale, shift)
        self.linear(f"{prefix}.pooler.dense", HIDDEN, HIDDEN)


def absa_weights(kind: str, gate_bias: bool = False, dtype=torch.float64, seed: int = 0) -> dict[str, torch.Tensor]:
    weights = Weights(seed)
    weights.bert("bert", "gamma", "beta")
    weights.add("bert.context_embeddings.weight", CONTEXTS, HIDDEN)
    for i in range(LAYERS):
        weights.linear(f"bert.encoder.context_layer.{i}", HIDDEN, 2 * HIDDEN)
        attention = f"bert.encoder.layer.{i}.attention.self"
        weights.linear(f"{attention}.context_for_q", *CONTEXT_SHAPES[kind])
        weights.linear(f"{attention}.context_for_k", *CONTEXT_SHAPES[kind])
        for gate in GATES:
            weights.linear(f"{attention}.{gate}", 1, HEAD_SIZE, bias=gate_bias)
    weights.linear("bert.pooler.attention_gate.0", 32, HIDDEN)
    weights.linear("bert.pooler.attention_gate.3", 1, 32)
    weights.linear("classifier", LABELS, HIDDEN)
    return {name: tensor.to(dtype) for name, tensor in weights.tensors.items()}


def label_aware_weights(dtype=torch.float64, seed: int = 0) -> dict[str, torch.Tensor]:
    weights = Weights(seed)
    weights.add("label_embds", LABELS, HIDDEN)
    weights.add("W", HIDDEN, HIDDEN)
    weights.bert("backbone", "weight", "bias")
    weights.linear("head", 1, 2 * HIDDEN)
    return {name: tensor.to(dtype) for name, tensor in weights.tensors.items()}


def save_reference(path: Path, weights: dict, settings: dict | None, config_name: str = "config.json") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".safetensors":
        save_file(weights, path)
    else:
        torch.save(weights, path)
    if settings is not None:
        (path.parent / config_name).write_text(json.dumps(settings), encoding="utf-8")
    return path
