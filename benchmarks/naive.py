# SPDX-License-Identifier: Apache-2.0
"""
The published formulas without any of our short cuts: `naive(model)` gives the result of `model` at the cost of the literal
formulas. Every token is concatenated with the context before W_c, attention maps are explicit, labels are looped over, and a
Mod-LN computes γ and β anew for every token.

Shapes: B batch, L tokens, d hidden size, h heads, d_h = d/h, g context heads (1 or h), E emotions.
"""

import copy

import torch
from hf_emotion.modeling.modeling_cg_bert import (
    CGBertSelfAttention,
    ContextGuidance,
    QACGBertSelfAttention,
    QuasiContextGuidance,
)
from hf_emotion.modeling.modeling_label_aware import LabelAwarePooling
from hf_emotion.modeling.modeling_mod_ln import ModulatedLayerNorm, ModulatedStack, Modulators
from torch import nn
from torch.nn import functional as F
from transformers import PreTrainedModel


class NaiveContextGuidance(ContextGuidance):
    """
    Sections 3.3 and 3.6 with one matrix W_c (d, 2d), `both_weight`, instead of our `context_weight` and `hidden_weight`; the
    dimension of heads comes before positions: (B, h, L, d_h).
    """

    def context(self, hidden_states, context_embeds):
        """C = W_c [E_c ‖ X] + b + E_c, (B, L, d)."""
        context = context_embeds[:, None].expand_as(hidden_states)
        return F.linear(torch.cat([context, hidden_states], dim=-1), self.both_weight, self.context_bias) + context

    def project(self, hidden_states, context_embeds, shape):
        context = heads(self.context(hidden_states, context_embeds), shape[-1])
        return F.linear(context, self.query_weight, self.query_bias), F.linear(context, self.key_weight, self.key_bias)

    def gate(self, states, context, weight, context_weight, bias):
        """λ = g(v·x + v_c·c): (B, h, L, d_h) and (B, g, L, d_h) -> (B, h, L, 1)."""
        v = weight if weight.dim() == 1 else weight[:, None]  # (d_h,) or (h, 1, d_h)
        scores = (states * v).sum(-1, keepdim=True) + (context * context_weight).sum(-1, keepdim=True)
        return self.activation(scores if bias is None else scores + bias)


class NaiveQuasiContextGuidance(NaiveContextGuidance, QuasiContextGuidance):
    """Eq. 5."""

    def project(self, hidden_states, context_embeds, shape):
        context = self.context(hidden_states, context_embeds)
        query = F.linear(context, self.query_weight, self.query_bias)
        key = F.linear(context, self.key_weight, self.key_bias)
        if not self.shared:
            query, key = self.dropout(query), self.dropout(key)
        # Every head has its own map, even if all share one context.
        return heads(query, shape[-1]).expand(shape), heads(key, shape[-1]).expand(shape)


def heads(states, head_size):
    """(B, L, n·d_h) -> (B, n, L, d_h)."""
    return states.unflatten(-1, (-1, head_size)).transpose(1, 2)


class NaiveGuided:
    """The parts that both context-guided attentions share."""

    def guided(self, hidden_states, context_embeds):
        """Queries, keys and values (B, h, L, d_h), and what `NaiveContextGuidance` returns for them."""
        parts = (heads(part(hidden_states), self.attention_head_size) for part in (self.query, self.key, self.value))
        query, key, value = parts
        return query, key, value, *self.score(hidden_states, query, key, context_embeds)

    def softmax_attention(self, query, key, key_bias):
        scores = query @ key.transpose(-1, -2) / self.attention_head_size**0.5
        return (scores if key_bias is None else scores + key_bias[:, None]).softmax(dim=-1)

    def output(self, attention, value):
        return (self.dropout(attention) @ value).transpose(1, 2).flatten(2), attention


class NaiveCGBertSelfAttention(NaiveGuided, CGBertSelfAttention):
    """Section 3.3."""

    def forward(self, hidden_states, attention_mask=None, context_embeds=None, key_bias=None, maps=None, **kwargs):
        query, key, value, context_query, context_key, query_gate, key_gate = self.guided(
            hidden_states, context_embeds
        )
        query = (1 - query_gate) * query + query_gate * context_query
        key = (1 - key_gate) * key + key_gate * context_key
        return self.output(self.softmax_attention(query, key, key_bias), value)


class NaiveQACGBertSelfAttention(NaiveGuided, QACGBertSelfAttention):
    """Section 3.4."""

    def forward(self, hidden_states, attention_mask=None, context_embeds=None, key_bias=None, maps=None, **kwargs):
        config = self.config
        query, key, value, context_query, context_key, query_gate, key_gate = self.guided(
            hidden_states, context_embeds
        )
        quasi = (context_query @ context_key.transpose(-1, -2) / self.attention_head_size**0.5).sigmoid()
        if key_bias is not None:
            quasi = quasi * (key_bias[:, None] == 0)
        gate = 1 - (config.quasi_beta * query_gate + config.quasi_gamma * key_gate)
        attention = self.softmax_attention(query, key, key_bias) + gate * (config.quasi_alpha * quasi)
        return self.output(attention, value)


class NaiveLabelAwarePooling(LabelAwarePooling):
    """Section 3.2, with a loop over the labels."""

    def forward(self, hidden_states, token_mask):
        projected = hidden_states @ self.weight  # W h_j, (B, L, d')
        representations, attentions, lse = [], [], []
        for label in self.label_embeddings:
            scores = projected @ label  # (B, L)
            if token_mask is not None:
                scores = scores.masked_fill(~token_mask, torch.finfo(scores.dtype).min)
            attention = scores.softmax(dim=-1)
            representations.append((attention[..., None] * hidden_states).sum(dim=1))
            attentions.append(attention)
            lse.append(scores.logsumexp(dim=-1))
        return torch.stack(representations, dim=1), torch.stack(attentions, dim=1), torch.stack(lse, dim=1)


class NaiveModulatedLayerNorm(ModulatedLayerNorm):
    """Eqs. 1-3, computed for every token. `modulator`: W₁ and W₂ of γ; W₁, b and W₂ of β."""

    def forward(self, states, emotion_weights, _):
        """x (B, L, d), c (B, 1, E) -> (B, L, d)."""
        weights = emotion_weights.expand(-1, states.shape[1], -1)  # (B, L, E)
        scale_in, scale_out, shift_in, shift_bias, shift_out = self.modulator
        scale = F.linear(F.silu(F.linear(weights, scale_in)), scale_out)
        shift = F.linear(F.silu(F.linear(weights, shift_in, shift_bias)), shift_out)
        if self.weight is not None:
            scale, shift = scale + self.weight, shift + self.bias
        centred = states - states.mean(dim=-1, keepdim=True)
        return scale * centred / (centred.square().mean(dim=-1, keepdim=True) + self.eps).sqrt() + shift


class NaiveModulators(Modulators):
    def forward(self, emotion_weights):
        """The emotions themselves, for each norm: (B, E) -> (B, 2M, 1, E)."""
        weights = emotion_weights.to(self.of("scale_in")[0])
        return weights[:, None, None].expand(-1, 2 * len(self.names), -1, -1)


CLASSES = {
    ContextGuidance: NaiveContextGuidance,
    QuasiContextGuidance: NaiveQuasiContextGuidance,
    CGBertSelfAttention: NaiveCGBertSelfAttention,
    QACGBertSelfAttention: NaiveQACGBertSelfAttention,
    LabelAwarePooling: NaiveLabelAwarePooling,
    ModulatedLayerNorm: NaiveModulatedLayerNorm,
    Modulators: NaiveModulators,
}


def naive(model: PreTrainedModel) -> PreTrainedModel:
    """
    A copy of a label-aware, context-guided or GPT-2 Mod-LN model that computes the literal formulas. The parameters keep
    their names, except that `both_weight` (d, 2d) is `context_weight` and `hidden_weight` side by side.
    """
    model = copy.deepcopy(model)
    for stack in model.modules():
        if isinstance(stack, ModulatedStack) and stack.is_modulated:
            norms = (module for module in stack.modules() if isinstance(module, ModulatedLayerNorm))
            for norm, *modulator in zip(norms, *map(stack.modulation.of, Modulators.parts), strict=True):
                norm.modulator = tuple(modulator)  # no parameters of the norm
    for module in list(model.modules()):
        if type(module) in CLASSES:
            module.__class__ = CLASSES[type(module)]
        if isinstance(module, NaiveContextGuidance):
            both = torch.cat([module.context_weight, module.hidden_weight], dim=1)
            module.both_weight = nn.Parameter(both.detach())
            del module.context_weight, module.hidden_weight
    return model


__all__ = ["naive"]
