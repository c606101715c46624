# SPDX-License-Identifier: Apache-2.0
"""Quasi-attention context-guided BERT (Wu and Ong, section 3.4): context-guided BERT with another attention.

Shapes: B batch, L tokens, d hidden size, h heads, d_h = d/h, C labels, g context heads (1 or h).
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn import functional as F
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.bert.modeling_bert import BertSelfAttention, eager_attention_forward
from transformers.utils import ModelOutput

from .configuration_qacg_bert import QACGBertConfig
from .modeling_cg_bert import (
    CGBertForSequenceClassification,
    CGBertLayer,
    CGBertModel,
    CGBertPreTrainedModel,
    ContextGuidance,
)


if TYPE_CHECKING:  # never run: `save_pretrained` publishes the files that are imported here beside the weights
    from .pipeline_targeted_sentiment import TargetedSentimentPipeline  # noqa: F401


@dataclass
class QACGBertModelOutput(ModelOutput):
    r"""
    Args:
        last_hidden_state (`torch.FloatTensor`): (B, L, d).
        pooler_output (`torch.FloatTensor`): (B, d), the classifier's input: pooled [CLS], or its last hidden state with
            `use_pooler=False`.
        hidden_states: as in [`BertModel`].
        attentions: with `output_attentions`, as the following, for each layer: A_self (B, h, L, L), in [0, 1].
        quasi_attentions: A_quasi (B, h, L, L), in [0, 1], exactly 0 on padding.
        context_gates: λ_A (B, h, L, 1), in [−1, 1] for β = γ = 1.
        combined_attentions: Â = A_self + λ_A ⊙ α A_quasi (B, h, L, L), in [−1, 2] for α = β = γ = 1.
    """

    last_hidden_state: torch.FloatTensor | None = None
    pooler_output: torch.FloatTensor | None = None
    hidden_states: tuple[torch.FloatTensor, ...] | None = None
    attentions: tuple[torch.FloatTensor, ...] | None = None
    quasi_attentions: tuple[torch.FloatTensor, ...] | None = None
    context_gates: tuple[torch.FloatTensor, ...] | None = None
    combined_attentions: tuple[torch.FloatTensor, ...] | None = None


@dataclass
class QACGBertClassifierOutput(ModelOutput):
    r"""
    Args:
        loss (`torch.FloatTensor`, *optional*): scalar, when `labels` are given.
        logits (`torch.FloatTensor`): (B, C), before the softmax.
        hidden_states, attentions, quasi_attentions, context_gates, combined_attentions: as in [`QACGBertModelOutput`].
    """

    loss: torch.FloatTensor | None = None
    logits: torch.FloatTensor | None = None
    hidden_states: tuple[torch.FloatTensor, ...] | None = None
    attentions: tuple[torch.FloatTensor, ...] | None = None
    quasi_attentions: tuple[torch.FloatTensor, ...] | None = None
    context_gates: tuple[torch.FloatTensor, ...] | None = None
    combined_attentions: tuple[torch.FloatTensor, ...] | None = None


class QuasiContextGuidance(ContextGuidance):
    """As [`ContextGuidance`], with one context query and key for all heads, or one for each: Z of eq. 5."""

    def __init__(self, config: QACGBertConfig):
        size = (
            config.hidden_size // config.num_attention_heads
            if config.context_heads == "shared"
            else config.hidden_size
        )
        super().__init__(config, config.hidden_size, size, gate_bias=config.gate_bias)
        self.shared = config.context_heads == "shared"
        self.dropout = nn.Dropout(config.attention_probs_dropout_prob)

    def project(self, hidden_states, context_embeds, shape):
        """Eq. 5: c_Q = Z_Q C + b and c_K = Z_K C + b, each (B, L, g, d_h)."""
        if not self.shared:
            context = self.context(hidden_states, context_embeds)  # (B, L, d)
            query = self.dropout(F.linear(context, self.query_weight, self.query_bias))
            return query.view(shape), self.dropout(F.linear(context, self.key_weight, self.key_bias)).view(shape)
        # Z (W_x X) = (Z W_x) X: C itself is not needed. Multiplying the weights costs as much as 2·d_h tokens and saves the
        # d×d product of every token.
        weight = torch.cat([self.query_weight, self.key_weight])  # (2·d_h, d)
        bias = torch.cat([self.query_bias, self.key_bias])
        row_part = F.linear(self.row_part(context_embeds), weight, bias)  # (B, 2·d_h)
        projected = F.linear(hidden_states, weight @ self.hidden_weight) + row_part[:, None]
        return tuple(part[:, :, None] for part in projected.chunk(2, dim=-1))


class QACGBertSelfAttention(BertSelfAttention):
    """
    Section 3.4: Â = A_self + λ_A ⊙ α A_quasi (eq. 4), Â V.

    λ_A does not depend on the key, so Â V = A_self V + λ_A ⊙ α (A_quasi V), and the attention implementation computes the first
    term. Dropout: "eager" (and `output_attentions`) draws one mask for Â; the other implementations draw one for
    each term, and with `context_heads="shared"` the heads share the mask of A_quasi.
    """

    def __init__(self, config: QACGBertConfig, layer_idx: int | None = None):
        super().__init__(config, layer_idx=layer_idx)
        self.shared = config.context_heads == "shared"
        self.score = QuasiContextGuidance(config)  # has the name that it has in CG-BERT

    def forward(self, hidden_states, attention_mask=None, context_embeds=None, key_bias=None, maps=None, **kwargs):
        """
        Hidden states (B, L, d), mask of the attention implementation, E_c (B, d), additive mask of the keys (B, 1, L) or
        (B, L, L) or None, and a list that receives (A_self, A_quasi, λ_A, Â), for which all are computed explicitly -> (B, L,
        d), A_self or None.
        """
        input_shape = hidden_states.shape[:-1]
        hidden_shape = (*input_shape, -1, self.attention_head_size)
        query = self.query(hidden_states).view(hidden_shape)  # (B, L, h, d_h)
        key = self.key(hidden_states).view(hidden_shape)
        value = self.value(hidden_states).view(hidden_shape)
        context_query, context_key, query_gate, key_gate = self.score(hidden_states, query, key, context_embeds)
        gate = 1 - (self.config.quasi_beta * query_gate + self.config.quasi_gamma * key_gate)  # λ_A (B, L, h), eq. 8
        dropout = self.dropout.p if self.training else 0.0

        if maps is None and self.config._attn_implementation != "eager":
            attend = ALL_ATTENTION_FUNCTIONS.get_interface(self.config._attn_implementation, eager_attention_forward)
            output, attention = attend(
                self,
                query.transpose(1, 2),
                key.transpose(1, 2),
                value.transpose(1, 2),
                attention_mask,
                dropout=dropout,
                scaling=self.scaling,
                **kwargs,
            )  # (B, L, h, d_h)
            quasi = self.quasi_attention(context_query, context_key, key_bias, dropout)  # (B·g, L, L)
            quasi = self.from_groups(quasi @ self.to_groups(value), hidden_shape)
            scale = self.config.quasi_alpha / (1 - dropout)
            output = torch.addcmul(output.view(hidden_shape), gate[..., None], quasi, value=scale)
        else:
            gate = gate.transpose(1, 2)[..., None]  # (B, h, L, 1)
            scores = query.transpose(1, 2) @ key.permute(0, 2, 3, 1) * self.scaling
            attention = (scores if key_bias is None else scores + key_bias[:, None]).softmax(dim=-1)
            quasi = self.quasi_attention(context_query, context_key, key_bias).unflatten(0, (input_shape[0], -1))
            combined = torch.addcmul(attention, gate, quasi, value=self.config.quasi_alpha)  # (B, h, L, L)
            if maps is not None:
                maps.append((attention, quasi.expand_as(attention), gate, combined))
            output = F.dropout(combined, dropout).to(value.dtype) @ value.transpose(1, 2)
            output = output.transpose(1, 2)
        return output.reshape(*input_shape, -1), attention

    def quasi_attention(self, context_query, context_key, key_bias, dropout: float = 0.0):
        """
        Eq. 6 without α: σ(f(c_Q, c_K)/√d_h), zero on padding keys; (B, L, g, d_h) twice -> (B·g, L, L).

        Dropout acts before the logistic function, without rescaling, so that the backward pass keeps only the map itself (and the
        distances, with `quasi_similarity="neg_l1"`).
        """
        context_query, context_key = self.to_groups(context_query), self.to_groups(context_key)  # (B·g, L, d_h)
        length = context_query.shape[1]
        bias = context_query.new_zeros(1, 1, 1)
        if key_bias is not None:
            bias = key_bias.repeat_interleave(
                1 if self.shared else self.num_attention_heads, dim=0
            )  # (B·g, 1 or L, L)
        if dropout > 0:
            dropped = torch.rand(len(context_query), length, length, device=context_query.device) < dropout
            bias = torch.where(dropped, torch.finfo(bias.dtype).min, bias)  # (B·g, L, L)
        if self.config.quasi_similarity == "neg_l1":
            exact = torch.promote_types(
                context_query.dtype, torch.float32
            )  # torch has no L1 distance in half precision
            distances = torch.cdist(context_query.to(exact), context_key.to(exact), p=1).to(context_query.dtype)
            return (bias - self.scaling * distances).sigmoid()
        return torch.baddbmm(bias, context_query, context_key.transpose(1, 2), alpha=self.scaling).sigmoid()

    def to_groups(self, states):
        """(B, L, n, d_h) -> (B·g, L, n/g·d_h): n is g, or h for the values."""
        if self.shared:
            return states.flatten(2)
        return states.transpose(1, 2).flatten(0, 1)

    def from_groups(self, states, shape):
        """(B·g, L, h/g·d_h) -> (B, L, h, d_h)."""
        if self.shared:
            return states.view(shape)
        return states.unflatten(0, (shape[0], -1)).transpose(1, 2)


class QACGBertLayer(CGBertLayer):
    """BERT's layer with quasi-attention."""

    attention_class = QACGBertSelfAttention


class QACGBertPreTrainedModel(CGBertPreTrainedModel):
    config: QACGBertConfig
    config_class = QACGBertConfig
    _no_split_modules = ["BertEmbeddings", "QACGBertLayer"]
    _can_record_outputs = {"hidden_states": QACGBertLayer}


class QACGBertModel(QACGBertPreTrainedModel, CGBertModel):
    """BERT with quasi-attention, which can subtract, guided by a context. Returns a [`QACGBertModelOutput`]."""

    layer_class = QACGBertLayer
    output_class = QACGBertModelOutput
    map_names = ("attentions", "quasi_attentions", "context_gates", "combined_attentions")


class QACGBertForSequenceClassification(QACGBertPreTrainedModel, CGBertForSequenceClassification):
    """Sentiment towards a target's aspect, which `context_ids` name. Returns a [`QACGBertClassifierOutput`]."""

    base_class = QACGBertModel
    output_class = QACGBertClassifierOutput


__all__ = [
    "QACGBertClassifierOutput",
    "QACGBertForSequenceClassification",
    "QACGBertModel",
    "QACGBertModelOutput",
    "QACGBertPreTrainedModel",
]
