# SPDX-License-Identifier: Apache-2.0
"""
Context-guided BERT, and quasi-attention context-guided BERT, which differs in its attention (Wu and Ong: Context-Guided BERT for
Targeted Aspect-Based Sentiment Analysis).

Shapes: B batch, L tokens, d hidden size, h heads, d_h = d/h, g context heads of quasi-attention (1 or h). In formulas, as in the paper, E_c
is the embedding of a row's context, and C the context matrix (B, L, d).
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from transformers import initialization as init
from transformers.activations import ACT2FN
from transformers.masking_utils import create_bidirectional_mask
from transformers.modeling_outputs import BaseModelOutputWithPooling, SequenceClassifierOutput
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.bert import modeling_bert as bert
from transformers.processing_utils import Unpack
from transformers.utils import TransformersKwargs
from transformers.utils.generic import can_return_tuple, merge_with_config_defaults
from transformers.utils.output_capturing import capture_outputs

from .common import (
    AdaptedModel,
    classification_loss,
    first_real,
    input_shape,
    positions_from_first_real,
    real_tokens,
    warn_if_untested,
)
from .configuration_cg_bert import CGBertConfig, QACGBertConfig


@dataclass
class CGBertModelOutput(BaseModelOutputWithPooling):
    r"""
    The fields of [`BertModel`]'s output, and with `output_attentions` the maps of each layer.

    Args:
        pooler_output: the classifier's input (B, d): pooled [CLS], or the last hidden state of [CLS] with `use_pooler=False`.
        attentions: softmax attention (B, h, L, L) over q̂ and k̂, in training after dropout, as in BERT; in quasi-attention A_self, before it.
        quasi_attentions: A_quasi (B, h, L, L), in [0, 1], exactly 0 on padding.
        context_gates: λ_Q and λ_K (B, h, L, 2); in quasi-attention λ_A (B, h, L, 1), in [−1, 1] for β = γ = 1.
        combined_attentions: Â = A_self + λ_A ⊙ α A_quasi (B, h, L, L), in [−1, 2] for α = β = γ = 1.
    """

    quasi_attentions: tuple[torch.FloatTensor, ...] | None = None
    context_gates: tuple[torch.FloatTensor, ...] | None = None
    combined_attentions: tuple[torch.FloatTensor, ...] | None = None


@dataclass
class CGBertClassifierOutput(SequenceClassifierOutput):
    """The mean loss, if `labels` are given; logits (B, labels), before the softmax; the maps as in [`CGBertModelOutput`]."""

    quasi_attentions: tuple[torch.FloatTensor, ...] | None = None
    context_gates: tuple[torch.FloatTensor, ...] | None = None
    combined_attentions: tuple[torch.FloatTensor, ...] | None = None


# Attention


class ContextEmbeddings(nn.Embedding):
    """E_c of section 3.6: (B,) context ids -> (B, d)."""


class ContextGuidance(nn.Module):
    """
    Everything that a layer adds to BERT's attention: context queries and keys (U of eq. 2), and the gates λ = g(v·x + v_c·c) of eqs. 3 and
    7, one number for each head and position. It holds its weights itself: PEFT and quantizers would replace every nn.Linear, and
    weights that are read outside their module's `forward` cannot be offloaded.
    """

    def __init__(self, config: CGBertConfig, in_features: int, out_features: int, gate_bias: bool = False):
        super().__init__()
        size, head_size = config.hidden_size, config.hidden_size // config.num_attention_heads
        self.context_weight = nn.Parameter(torch.empty(size, size))  # W_e
        self.hidden_weight = nn.Parameter(torch.empty(size, size))  # W_x
        self.context_bias = nn.Parameter(torch.empty(size))
        gate_shape = (head_size,) if config.gate_heads == "shared" else (config.num_attention_heads, head_size)
        self.query_weight = nn.Parameter(torch.empty(out_features, in_features))  # U_Q, Z_Q
        self.query_bias = nn.Parameter(torch.empty(out_features))
        self.key_weight = nn.Parameter(torch.empty(out_features, in_features))
        self.key_bias = nn.Parameter(torch.empty(out_features))
        self.query_gate_weight = nn.Parameter(torch.empty(gate_shape))  # v
        self.query_gate_context_weight = nn.Parameter(torch.empty(head_size))  # v_c
        self.query_gate_bias = nn.Parameter(torch.empty(1)) if gate_bias else None
        self.key_gate_weight = nn.Parameter(torch.empty(gate_shape))
        self.key_gate_context_weight = nn.Parameter(torch.empty(head_size))
        self.key_gate_bias = nn.Parameter(torch.empty(1)) if gate_bias else None
        self.activation = ACT2FN[config.gate_activation]

    def forward(self, hidden_states, query, key, context_embeds):
        """X (B, L, d), its queries and keys (B, L, h, d_h), E_c (B, d) -> context queries and keys (B, L, h or 1, d_h), gates (B, L, h)."""
        context_query, context_key = self.project(hidden_states, context_embeds, query.shape)
        gates = self.gate("query_gate", query, context_query), self.gate("key_gate", key, context_key)
        return context_query, context_key, *gates

    def project(self, hidden_states, context_embeds, shape):
        """Eq. 2: ĉ_Q = U_Q C + b and ĉ_K = U_K C + b for each head, of the given shape (B, L, h, d_h)."""
        context = self.context(hidden_states, context_embeds).view(shape)
        return F.linear(context, self.query_weight, self.query_bias), F.linear(context, self.key_weight, self.key_bias)

    def context(self, hidden_states, context_embeds):
        """Section 3.6: C = W_c [E_c ‖ X] + b + E_c, with W_c = [W_e | W_x]; (B, L, d)."""
        return F.linear(hidden_states, self.hidden_weight) + self.row_part(context_embeds)[:, None]

    def row_part(self, context_embeds):
        """W_e E_c + b + E_c (B, d), which is the same at every position: computed once per row and not once per token."""
        return F.linear(context_embeds, self.context_weight, self.context_bias) + context_embeds

    def gate(self, name, states, context):
        """Queries or keys (B, L, h, d_h) and their contexts, the same shape or (B, L, 1, d_h) -> λ (B, L, h)."""
        parts = ("weight", "context_weight", "bias")
        weight, context_weight, bias = (getattr(self, f"{name}_{part}") for part in parts)
        scores = states @ weight if weight.dim() == 1 else torch.einsum("blhd,hd->blh", states, weight)
        scores = scores + context @ context_weight
        return self.activation(scores if bias is None else scores + bias)


class CGBertSelfAttention(bert.BertSelfAttention):
    """Section 3.3: q̂ = (1−λ_Q) q + λ_Q ĉ_Q and k̂ likewise (eq. 2), then attention as in BERT. Values stay as they are."""

    def __init__(self, config: CGBertConfig, layer_idx: int | None = None):
        super().__init__(config, layer_idx=layer_idx)
        self.guidance = ContextGuidance(config, self.attention_head_size, self.attention_head_size)

    def forward(self, hidden_states, attention_mask=None, context_embeds=None, key_bias=None, maps=None, **kwargs):
        """
        Hidden states (B, L, d), mask of the attention implementation, E_c (B, d), additive mask of the keys (B, 1, L) or None,
        and a list that receives (attention, gates), for which both are computed explicitly -> (B, L, d), attention or None.
        """
        shape = (*hidden_states.shape[:-1], -1, self.attention_head_size)
        query, key, value = (part(hidden_states).view(shape) for part in (self.query, self.key, self.value))
        context_query, context_key, query_gate, key_gate = self.guidance(hidden_states, query, key, context_embeds)
        query = torch.lerp(query, context_query, query_gate[..., None])  # (B, L, h, d_h), like all here
        key = torch.lerp(key, context_key, key_gate[..., None])

        attend = ALL_ATTENTION_FUNCTIONS.get_interface(self.config._attn_implementation, bert.eager_attention_forward)
        if maps is not None:
            attend, attention_mask = bert.eager_attention_forward, None if key_bias is None else key_bias[:, None]
        states = [part.transpose(1, 2) for part in (query, key, value)]
        dropout = self.dropout.p if self.training else 0.0
        output, attention = attend(self, *states, attention_mask, dropout=dropout, scaling=self.scaling, **kwargs)
        if maps is not None:
            maps.append((attention, torch.stack([query_gate, key_gate], dim=-1).transpose(1, 2)))
        return output.reshape(hidden_states.shape).contiguous(), attention


class QuasiContextGuidance(ContextGuidance):
    """[`ContextGuidance`] with one context query and key for all heads, or one for each: Z of eq. 5 instead of U."""

    def __init__(self, config: QACGBertConfig):
        shared = config.context_heads == "shared"
        size = config.hidden_size // (config.num_attention_heads if shared else 1)
        super().__init__(config, config.hidden_size, size, gate_bias=config.gate_bias)
        self.shared = shared
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


class QACGBertSelfAttention(bert.BertSelfAttention):
    """
    Section 3.4: Â = A_self + λ_A ⊙ α A_quasi (eq. 4), Â V.

    λ_A does not depend on the key, so Â V = A_self V + λ_A ⊙ α (A_quasi V), and the attention implementation computes the first
    term. Dropout: "eager" (and `output_attentions`) draws one mask for Â; the other implementations draw one for each term, and
    with `context_heads="shared"` the heads share the mask of A_quasi.
    """

    def __init__(self, config: QACGBertConfig, layer_idx: int | None = None):
        super().__init__(config, layer_idx=layer_idx)
        self.shared = config.context_heads == "shared"
        self.guidance = QuasiContextGuidance(config)

    def forward(self, hidden_states, attention_mask=None, context_embeds=None, key_bias=None, maps=None, **kwargs):
        """The arguments are those of [`CGBertSelfAttention`]; the list receives (A_self, A_quasi, λ_A, Â), before dropout."""
        shape = (*hidden_states.shape[:-1], -1, self.attention_head_size)
        query, key, value = (part(hidden_states).view(shape) for part in (self.query, self.key, self.value))
        context_query, context_key, query_gate, key_gate = self.guidance(hidden_states, query, key, context_embeds)
        gate = 1 - (self.config.quasi_beta * query_gate + self.config.quasi_gamma * key_gate)  # λ_A (B, L, h), eq. 8
        dropout = self.dropout.p if self.training else 0.0

        if maps is None and self.config._attn_implementation != "eager":
            kind = self.config._attn_implementation
            attend = ALL_ATTENTION_FUNCTIONS.get_interface(kind, bert.eager_attention_forward)
            states = [part.transpose(1, 2) for part in (query, key, value)]
            output, attention = attend(self, *states, attention_mask, dropout=dropout, scaling=self.scaling, **kwargs)
            quasi = self.quasi_attention(context_query, context_key, key_bias, dropout)  # (B·g, L, L)
            quasi = quasi @ self.to_groups(value)  # (B·g, L, h/g·d_h)
            quasi = quasi.view(shape) if self.shared else quasi.unflatten(0, (shape[0], -1)).transpose(1, 2)
            # `quasi_attention` sets dropped weights to 0. Dropout also divides the others by 1 − p; with p = 1 there are none.
            scale = self.config.quasi_alpha / (1 - dropout or 1)
            output = torch.addcmul(output.view(shape), gate[..., None], quasi, value=scale)  # (B, L, h, d_h)
        else:
            gate = gate.transpose(1, 2)[..., None]  # (B, h, L, 1)
            scores = query.transpose(1, 2) @ key.permute(0, 2, 3, 1) * self.scaling
            attention = (scores if key_bias is None else scores + key_bias[:, None]).softmax(dim=-1)
            quasi = self.quasi_attention(context_query, context_key, key_bias).unflatten(0, (len(query), -1))
            combined = torch.addcmul(attention, gate, quasi, value=self.config.quasi_alpha)  # (B, h, L, L)
            if maps is not None:
                maps.append((attention, quasi.expand_as(attention), gate, combined))
            output = (F.dropout(combined, dropout).to(value.dtype) @ value.transpose(1, 2)).transpose(1, 2)
        return output.reshape(hidden_states.shape), attention

    def quasi_attention(self, context_query, context_key, key_bias, dropout: float = 0.0):
        """
        Eq. 6 without α: σ(f(c_Q, c_K)/√d_h), zero on padding keys; (B, L, g, d_h) twice -> (B·g, L, L).

        Dropout makes the argument of σ of a dropped weight very low, so that the weight is 0. The caller rescales the others. So the
        backward pass keeps only the map itself (and the distances, with `quasi_similarity="neg_l1"`).
        """
        query, key = self.to_groups(context_query), self.to_groups(context_key)  # (B·g, L, d_h)
        bias, length = query.new_zeros(1, 1, 1), query.shape[1]
        if key_bias is not None:
            bias = key_bias.repeat_interleave(1 if self.shared else self.num_attention_heads, dim=0)
        if dropout > 0:
            dropped = torch.rand(len(query), length, length, device=query.device) < dropout
            bias = torch.where(dropped, torch.finfo(bias.dtype).min, bias)  # (B·g, L, L)
        if self.config.quasi_similarity == "neg_l1":
            exact = torch.promote_types(query.dtype, torch.float32)  # torch has no L1 distance in half precision
            distances = torch.cdist(query.to(exact), key.to(exact), p=1).to(query.dtype)
            return (bias - self.scaling * distances).sigmoid()
        return torch.baddbmm(bias, query, key.transpose(1, 2), alpha=self.scaling).sigmoid()

    def to_groups(self, states):
        """(B, L, n, d_h) -> (B·g, L, n/g·d_h): n is g, or h for the values."""
        return states.flatten(2) if self.shared else states.transpose(1, 2).flatten(0, 1)


# Layers


class CGBertLayer(bert.BertLayer):
    """BERT's layer with one of the attentions above."""

    def __init__(self, config: CGBertConfig, layer_idx: int, attention_class: type[bert.BertSelfAttention]):
        super().__init__(config, layer_idx=layer_idx)
        self.attention.self = attention_class(config, layer_idx=layer_idx)

    # E_c as a positional argument: reentrant gradient checkpointing gives no gradients to named ones.
    def forward(self, hidden_states, context_embeds, **kwargs):
        states, _ = self.attention(hidden_states, context_embeds=context_embeds, **kwargs)
        chunks = (self.chunk_size_feed_forward, self.seq_len_dim)
        return bert.apply_chunking_to_forward(self.feed_forward_chunk, *chunks, states)


class CGBertEncoder(nn.Module):
    def __init__(self, config: CGBertConfig, attention_class: type[bert.BertSelfAttention]):
        super().__init__()
        self.layer = nn.ModuleList(CGBertLayer(config, i, attention_class) for i in range(config.num_hidden_layers))

    def forward(self, hidden_states, context_embeds, **kwargs):
        for layer in self.layer:
            hidden_states = layer(hidden_states, context_embeds, **kwargs)
        return hidden_states


# Models


class CGBertPreTrainedModel(AdaptedModel, bert.BertPreTrainedModel):
    config: CGBertConfig
    base_model_prefix = "bert"
    _no_split_modules = ["BertEmbeddings", "CGBertLayer"]
    _skip_keys_device_placement = ["maps"]  # a list that layers fill; a copy of it would be lost
    _can_record_outputs = {"hidden_states": CGBertLayer}
    # Parameters for which 0 has no meaning: weight decay must not pull them there.
    _no_weight_decay_parameters = ("context_embeddings.weight", "query_gate", "key_gate")

    @torch.no_grad()
    def _init_weights(self, module):
        super()._init_weights(module)
        module.is_new = True
        # Section 3.7: small, so that the gates of eq. 3 start near 0 and λ_A of eq. 8 near 0.
        if isinstance(module, (ContextEmbeddings, ContextGuidance)):
            for name, parameter in module.named_parameters(recurse=False):
                if name.endswith("bias"):
                    init.zeros_(parameter)
                else:
                    init.normal_(parameter, mean=0.0, std=self.config.context_initializer_range)


class CGBertModel(CGBertPreTrainedModel):
    """BERT whose queries and keys are guided by a context, a target and an aspect. Returns a [`CGBertModelOutput`]."""

    _input_embed_layer = "word_embeddings"
    attention_class: type[bert.BertSelfAttention] = CGBertSelfAttention
    map_names: tuple[str, ...] = ("attentions", "context_gates")

    def __init__(self, config: CGBertConfig):
        super().__init__(config)
        warn_if_untested()
        self.embeddings = bert.BertEmbeddings(config)
        self.context_embeddings = ContextEmbeddings(config.num_contexts, config.hidden_size)  # E_c
        self.encoder = CGBertEncoder(config, self.attention_class)
        self.pooler = bert.BertPooler(config) if config.use_pooler else None
        self.post_init()

    @merge_with_config_defaults
    @capture_outputs
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.LongTensor | None = None,
        position_ids: torch.LongTensor | None = None,
        inputs_embeds: torch.FloatTensor | None = None,
        context_ids: torch.LongTensor | None = None,
        output_attentions: bool | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> CGBertModelOutput:
        r"""
        Args:
            input_ids, token_type_ids, position_ids, inputs_embeds: as in [`BertModel`]; positions count from the first real token.
            attention_mask: (B, L), 1 for real tokens, 0 for padding, on either side.
            context_ids: (B,), the context of each row, in [0, `num_contexts`).
            output_attentions: return the maps of every layer. They are computed explicitly, with every attention implementation.

        Raises:
            ValueError: both or neither of ids and embeddings; no `context_ids`; a shape that does not fit.
        """
        shape = input_shape(input_ids, inputs_embeds, self.config.max_position_embeddings)
        if context_ids is None or context_ids.shape != shape[:1]:
            found = "none" if context_ids is None else tuple(context_ids.shape)
            wanted = f"shape ({shape[0]},), one id in [0, {self.config.num_contexts}) for each row"
            raise ValueError(f"`context_ids` must have {wanted}; got {found}.")
        if input_ids is not None and not input_ids.is_meta:
            self.warn_if_padding_and_no_attention_mask(input_ids, attention_mask)
        token_mask = real_tokens(attention_mask, shape)  # (B, L)
        if position_ids is None and token_mask is not None:
            position_ids = positions_from_first_real(token_mask)
        states = self.embeddings(input_ids, token_type_ids, position_ids, inputs_embeds)  # (B, L, d)
        key_bias = None
        if token_mask is not None:
            lowest, zeros = torch.finfo(states.dtype).min, torch.zeros_like(token_mask, dtype=states.dtype)
            key_bias = zeros.masked_fill(~token_mask, lowest)[:, None]
        mask = create_bidirectional_mask(config=self.config, inputs_embeds=states, attention_mask=attention_mask)
        if output_attentions is None:
            output_attentions = self.config.output_attentions
        maps: Any = [] if output_attentions else None  # each layer adds a tuple
        states = self.encoder(
            states, self.context_embeddings(context_ids), attention_mask=mask, key_bias=key_bias, maps=maps, **kwargs
        )
        sentence = first_real(states, token_mask)  # (B, d)
        outputs = CGBertModelOutput(states, sentence if self.pooler is None else self.pooler(sentence[:, None]))
        for i, name in enumerate(self.map_names if output_attentions else ()):
            outputs[name] = tuple(layer[i] for layer in maps)
        return outputs


class CGBertForSequenceClassification(CGBertPreTrainedModel):
    """Sentiment towards a target's aspect, which `context_ids` name. Returns a [`CGBertClassifierOutput`]."""

    accepts_loss_kwargs = False  # see `classification_loss`
    base_class: type[CGBertModel] = CGBertModel

    def __init__(self, config: CGBertConfig):
        super().__init__(config)
        self.num_labels = config.num_labels
        self.bert = self.base_class(config)
        dropout = config.hidden_dropout_prob if config.classifier_dropout is None else config.classifier_dropout
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.LongTensor | None = None,
        position_ids: torch.LongTensor | None = None,
        inputs_embeds: torch.FloatTensor | None = None,
        context_ids: torch.LongTensor | None = None,
        labels: torch.LongTensor | None = None,
        output_attentions: bool | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> CGBertClassifierOutput:
        """The arguments of [`CGBertModel`], and `labels`: (B,) class ids, -100 for a row without a label."""
        inputs = (input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds, context_ids)
        outputs = self.bert(*inputs, output_attentions=output_attentions, return_dict=True, **kwargs)
        logits = self.classifier(self.dropout(outputs.pooler_output))  # (B, labels)
        loss = None if labels is None else classification_loss(logits, labels, self.config)
        names = [name for name in ("hidden_states", *self.bert.map_names) if name in outputs]
        return CGBertClassifierOutput(loss, logits, **{name: outputs[name] for name in names})


class QACGBertModel(CGBertModel):
    """BERT with quasi-attention, which can subtract, guided by a context. Returns a [`CGBertModelOutput`]."""

    config: QACGBertConfig
    attention_class = QACGBertSelfAttention
    map_names = ("attentions", "quasi_attentions", "context_gates", "combined_attentions")


class QACGBertForSequenceClassification(CGBertForSequenceClassification):
    """Sentiment towards a target's aspect, which `context_ids` name. Returns a [`CGBertClassifierOutput`]."""

    config: QACGBertConfig
    base_class = QACGBertModel


__all__ = ["CGBertForSequenceClassification", "CGBertModel", "QACGBertForSequenceClassification", "QACGBertModel"]
