# SPDX-License-Identifier: Apache-2.0
"""State dicts as the authors' published code writes them."""

import json
import re
from pathlib import Path

import torch
from model_cases import asymmetric_
from safetensors.torch import save_file
from transformers import BertConfig, BertModel


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


def linear(name: str, out_features: int, in_features: int, bias: bool = True) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (out_features, in_features)} | ({f"{name}.bias": (out_features,)} if bias else {})


def with_bert(prefix: str, shapes: dict[str, tuple[int, ...]], seed: int) -> dict[str, torch.Tensor]:
    """Tensors of these shapes and of a BERT: asymmetric values of a size that keeps activations near 1, in float64."""
    bert = asymmetric_(BertModel(BertConfig(**SIZES)), seed).double()
    tensors = {f"{prefix}.{name}": value for name, value in bert.state_dict().items()}
    generator = torch.Generator().manual_seed(seed)
    for name, shape in shapes.items():
        values = torch.rand(shape, generator=generator, dtype=torch.float64) + 0.5
        signs = torch.randint(0, 2, shape, generator=generator, dtype=torch.float64) * 2 - 1
        tilt = torch.linspace(0.6, 1.4, shape[-1], dtype=torch.float64)
        tensors[name] = values * signs * tilt * (0.2 if len(shape) == 1 else shape[-1] ** -0.5)
    return tensors


def absa_weights(kind: str, gate_bias: bool = False, dtype=torch.float64, seed: int = 0) -> dict[str, torch.Tensor]:
    shapes = {"bert.context_embeddings.weight": (CONTEXTS, HIDDEN)}
    for i in range(LAYERS):
        attention = f"bert.encoder.layer.{i}.attention.self"
        shapes |= linear(f"bert.encoder.context_layer.{i}", HIDDEN, 2 * HIDDEN)
        for name in ("context_for_q", "context_for_k"):
            shapes |= linear(f"{attention}.{name}", *CONTEXT_SHAPES[kind])
        for gate in GATES:
            shapes |= linear(f"{attention}.{gate}", 1, HEAD_SIZE, bias=gate_bias)
    shapes |= linear("bert.pooler.attention_gate.0", 32, HIDDEN) | linear("bert.pooler.attention_gate.3", 1, 32)
    tensors = with_bert("bert", shapes | linear("classifier", LABELS, HIDDEN), seed)
    norm = {"weight": "LayerNorm.gamma", "bias": "LayerNorm.beta"}
    tensors = {re.sub(r"LayerNorm\.(\w+)$", lambda found: norm[found[1]], name): one for name, one in tensors.items()}
    return {name: tensor.to(dtype) for name, tensor in tensors.items()}


def label_aware_weights(dtype=torch.float64, seed: int = 0) -> dict[str, torch.Tensor]:
    shapes = {"label_embds": (LABELS, HIDDEN), "W": (HIDDEN, HIDDEN), **linear("head", 1, 2 * HIDDEN)}
    return {name: tensor.to(dtype) for name, tensor in with_bert("backbone", shapes, seed).items()}


def save_reference(path: Path, weights: dict, settings: dict | None, config_name: str = "config.json") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".safetensors":
        save_file(weights, path)
    else:
        torch.save(weights, path)
    if settings is not None:
        (path.parent / config_name).write_text(json.dumps(settings), encoding="utf-8")
    return path
