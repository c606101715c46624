# SPDX-License-Identifier: Apache-2.0
"""
Formulas that several files compare models with: one row and one head after the other. Nothing here knows the models' code; autograd
differentiates it, so that gradients can be compared too. States x are (L, d), `w` weights by our names.
"""

import math

import torch
from model_cases import encoder_inputs
from torch.nn import functional as F


MAPS = {"cg": ("attentions", "context_gates")}
MAPS["qacg"] = ("attentions", "quasi_attentions", "context_gates", "combined_attentions")


def masked_inputs(left: bool = True) -> dict[str, torch.Tensor]:
    """Four rows with padding on the right, on the left (which moves stock BERT) and within."""
    inputs = encoder_inputs(4, 6, seed=21)
    if left:
        inputs["attention_mask"][2] = torch.tensor([0, 0, 1, 1, 1, 1])
    inputs["attention_mask"][3] = torch.tensor([1, 1, 0, 1, 0, 1])
    return inputs


def naive_positions(length: int, size: int) -> torch.Tensor:
    """Sines and cosines, (L, d)."""
    table = torch.zeros(length, size, dtype=torch.float64)
    for pos in range(length):
        for k in range(size):
            angle = pos / 10000 ** (2 * (k // 2) / size)
            table[pos, k] = math.sin(angle) if k % 2 == 0 else math.cos(angle)
    return table


def layer_norm(w: dict, name: str, x: torch.Tensor, eps: float) -> torch.Tensor:
    return F.layer_norm(x, x.shape[1:], w[f"{name}.weight"], w[f"{name}.bias"], eps)


def linear(w: dict, name: str, x: torch.Tensor, sign: str = ".") -> torch.Tensor:
    return x @ w[f"{name}{sign}weight"].T + w.get(f"{name}{sign}bias", 0)


def masked_softmax(scores: torch.Tensor, real: torch.Tensor) -> torch.Tensor:
    return scores.masked_fill(~real, -math.inf).softmax(dim=1)


def naive_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, heads: int, seen: torch.Tensor):
    """Of one row, (L, d) each, over what is seen, (L,) or (L, L) -> outputs (L, d), attentions (heads, L, L)."""
    size, outputs, maps = q.shape[1] // heads, [], []
    for start in range(0, q.shape[1], size):
        head = slice(start, start + size)
        maps.append(masked_softmax(q[:, head] @ k[:, head].T / math.sqrt(size), seen))
        outputs.append(maps[-1] @ v[:, head])
    return torch.cat(outputs, dim=1), torch.stack(maps)


def naive_label_aware(w: dict, base: str, config, states: torch.Tensor, sentences: torch.Tensor):
    """
    S = e W Hᵀ, α = softmax(S), h̃ = α H, logit = FFN([h̃ ‖ s]) for the real tokens of a row, (L, d), and its sentence vector, (d,) or at
    each token (L, d) -> logits (C,), [h̃ ‖ s] (C, 2d), α (C, L).
    """
    scores = w[f"{base}.score.label_embeddings"] @ w[f"{base}.score.weight"].T @ states.T
    joined, logits = scores.softmax(dim=1) @ torch.cat([states, sentences.expand_as(states)], dim=1), []
    for i, vector in enumerate(joined):
        head, size = 0 if config.tie_head else i, config.head_hidden_size
        if size is not None:
            part = slice(head * size, (head + 1) * size)
            vector = F.gelu(w["classifier.dense.weight"][part] @ vector + w["classifier.dense.bias"][part])
        logits.append(w["classifier.out_proj.weight"][head] @ vector + w["classifier.out_proj.bias"][head])
    return torch.stack(logits), joined, scores.softmax(dim=1)


# Context-guided BERT and its quasi-attention sister
def naive_context(w: dict, name: str, x: torch.Tensor, e_c: torch.Tensor) -> torch.Tensor:
    """Section 3.6: C = W_c [E_c ‖ X] + b, with a residual connection on E_c, at every position."""
    w_c = torch.cat([w[f"{name}.guidance.context_weight"], w[f"{name}.guidance.hidden_weight"]], dim=1)  # (d, 2d)
    return torch.cat([e_c.expand_as(x), x], dim=1) @ w_c.T + w[f"{name}.guidance.context_bias"] + e_c


def naive_gate(w: dict, config, name: str, head: int, x: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    """λ = g(v·x + v_c·c), eqs. 3 and 7, (L, 1): v is a head's own or shared, v_c always shared."""
    v = w[f"{name}_weight"]
    score = x @ (v if config.gate_heads == "shared" else v[head]) + c @ w[f"{name}_context_weight"]
    if f"{name}_bias" in w:
        score = score + w[f"{name}_bias"][0]
    return {"tanh": torch.tanh, "sigmoid": torch.sigmoid}[config.gate_activation](score)[:, None]


def naive_cg_attention(w: dict, config, name: str, x: torch.Tensor, e_c: torch.Tensor, real: torch.Tensor):
    """Section 3.3 for one row -> output (L, d), attentions (h, L, L), gates λ_Q and λ_K (h, L, 2)."""
    context, size = naive_context(w, name, x, e_c), config.hidden_size // config.num_attention_heads
    outputs, attentions, gates = [], [], []
    for head in range(config.num_attention_heads):
        part, mixed, lambdas = slice(head * size, (head + 1) * size), [], []
        for role in ("query", "key"):
            plain = linear(w, f"{name}.{role}", x)[:, part]
            of_context = linear(w, f"{name}.guidance.{role}", context[:, part], "_")  # U C^h
            lambdas.append(naive_gate(w, config, f"{name}.guidance.{role}_gate", head, plain, of_context))
            mixed.append((1 - lambdas[-1]) * plain + lambdas[-1] * of_context)  # eq. 2
        attentions.append(masked_softmax(mixed[0] @ mixed[1].T / math.sqrt(size), real))
        outputs.append(attentions[-1] @ linear(w, f"{name}.value", x)[:, part])
        gates.append(torch.cat(lambdas, dim=1))
    return torch.cat(outputs, dim=1), (torch.stack(attentions), torch.stack(gates))


def naive_qacg_attention(w: dict, config, name: str, x: torch.Tensor, e_c: torch.Tensor, real: torch.Tensor):
    """Section 3.4 for one row -> output (L, d), A_self, A_quasi (h, L, L), λ_A (h, L, 1), Â (h, L, L)."""
    context, size = naive_context(w, name, x, e_c), config.hidden_size // config.num_attention_heads
    outputs, maps = [], []
    for head in range(config.num_attention_heads):
        part = slice(head * size, (head + 1) * size)
        q, k, v = (linear(w, f"{name}.{role}", x)[:, part] for role in ("query", "key", "value"))
        of_head = slice(None) if config.context_heads == "shared" else part
        # eq. 5
        c_q, c_k = (linear(w, f"{name}.guidance.{role}", context, "_")[:, of_head] for role in ("query", "key"))
        attention = masked_softmax(q @ k.T / math.sqrt(size), real)
        similarity = c_q @ c_k.T if config.quasi_similarity == "dot" else -(c_q[:, None] - c_k).abs().sum(dim=2)
        quasi = torch.sigmoid(similarity / math.sqrt(size)) * real  # eq. 6
        lambda_q = naive_gate(w, config, f"{name}.guidance.query_gate", head, q, c_q)  # eq. 7
        lambda_k = naive_gate(w, config, f"{name}.guidance.key_gate", head, k, c_k)
        gate = 1 - (config.quasi_beta * lambda_q + config.quasi_gamma * lambda_k)  # eq. 8
        combined = attention + gate * config.quasi_alpha * quasi  # eq. 4
        outputs.append(combined @ v)
        maps.append((attention, quasi, gate, combined))
    return torch.cat(outputs, dim=1), tuple(torch.stack(heads) for heads in zip(*maps, strict=True))


NAIVE_ATTENTION = {"cg": naive_cg_attention, "qacg": naive_qacg_attention}


def naive_model(family: str, w: dict, config, word_vectors: torch.Tensor, inputs: dict):
    """Word vectors (B, L, d) -> logits (B, C), hidden states [(B, L, d)], maps of each layer, pooled [CLS] (B, d)."""
    rows, eps, prefix = [], config.layer_norm_eps, "bert.embeddings"
    for b, words in enumerate(word_vectors):
        real = inputs["attention_mask"][b].bool()
        first, e_c = int(real.int().argmax()), w["bert.context_embeddings.weight"][inputs["context_ids"][b]]
        positions = (torch.arange(len(real)) - first).clamp(min=0)  # counted from the first real token
        x = words + w[f"{prefix}.position_embeddings.weight"][positions]
        x = x + w[f"{prefix}.token_type_embeddings.weight"][inputs["token_type_ids"][b]]
        x = layer_norm(w, f"{prefix}.LayerNorm", x, eps)
        hidden_states, maps = [x], []
        for layer in range(config.num_hidden_layers):
            name = f"bert.encoder.layer.{layer}"
            attended, layer_maps = NAIVE_ATTENTION[family](w, config, f"{name}.attention.self", x, e_c, real)
            maps.append(layer_maps)
            output = linear(w, f"{name}.attention.output.dense", attended)
            middle = layer_norm(w, f"{name}.attention.output.LayerNorm", output + x, eps)
            output = linear(w, f"{name}.output.dense", F.gelu(linear(w, f"{name}.intermediate.dense", middle)))
            x = layer_norm(w, f"{name}.output.LayerNorm", output + middle, eps)
            hidden_states.append(x)
        pooled = linear(w, "bert.pooler.dense", x[first]).tanh() if config.use_pooler else x[first]
        rows.append((linear(w, "classifier", pooled), hidden_states, maps, pooled))
    logits, hidden_states, maps, pooled = zip(*rows, strict=True)
    return (
        torch.stack(logits),
        [torch.stack(states) for states in zip(*hidden_states, strict=True)],
        [[torch.stack(kind) for kind in zip(*layer, strict=True)] for layer in zip(*maps, strict=True)],
        torch.stack(pooled),
    )
