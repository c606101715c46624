# SPDX-License-Identifier: Apache-2.0
"""Context-guided BERT (Wu and Ong: Context-Guided BERT for Targeted Aspect-Based Sentiment Analysis).

Shapes: B batch, L tokens, d hidden size, h heads, d_h = d/h, C labels.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn import functional as F
from transformers import initialization as init
from transformers.activations import ACT2FN
from transformers.masking_utils import create_bidirectional_mask
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.bert.modeling_bert import (
    BertEmbeddings,
    BertLayer,
    BertPooler,
    BertPreTrainedModel,
    BertSelfAttention,
    eager_attention_forward,
)
from transformers.processing_utils import Unpack
from transformers.pytorch_utils import apply_chunking_to_forward
from transformers.utils import ModelOutput, TransformersKwargs
from transformers.utils.generic import can_return_tuple, merge_with_config_defaults
from transformers.utils.output_capturing import capture_outputs

from .checked_input import can_look, check_ids, check_input, check_labels, warn_of_padding
from .configuration_cg_bert import CGBertConfig
from .fitting_checkpoints import OverEncoder
from .padding import additive_mask, first_real, may_begin_with_padding, positions_from_first_real, real_tokens
from .renamed_weights import RenamedWeights


if TYPE_CHECKING:  # never run: `save_pretrained` publishes the files that are imported here beside the weights
    from .pipeline_targeted_sentiment import TargetedSentimentPipeline  # noqa: F401


@dataclass
class CGBertModelOutput(ModelOutput):
    r"""
    Args:
        last_hidden_state (`torch.FloatTensor`): (B, L, d).
        pooler_output (`torch.FloatTensor`): (B, d), the classifier's input: pooled [CLS], or its last hidden state with
            `use_pooler=False`.
        hidden_states: as in [`BertModel`].
        attentions: with `output_attentions`, for each layer the softmax attention (B, h, L, L) over q̂ and k̂.
        context_gates: with `output_attentions`, for each layer λ_Q and λ_K, (B, h, L, 2).
    """

    last_hidden_state: torch.FloatTensor | None = None
    pooler_output: torch.FloatTensor | None = None
    hidden_states: tuple[torch.FloatTensor, ...] | None = None
    attentions: tuple[torch.FloatTensor, ...] | None = None
    context_gates: tuple[torch.FloatTensor, ...] | None = None


@dataclass
class CGBertClassifierOutput(ModelOutput):
    r"""
    Args:
        loss (`torch.FloatTensor`, *optional*): scalar, when `labels` are given.
        logits (`torch.FloatTensor`): (B, C), before the softmax.
        hidden_states, attentions, context_gates: as in [`CGBertModelOutput`].
    """

    loss: torch.FloatTensor | None = None
    logits: torch.FloatTensor | None = None
    hidden_states: tuple[torch.FloatTensor, ...] | None = None
    attentions: tuple[torch.FloatTensor, ...] | None = None
    context_gates: tuple[torch.FloatTensor, ...] | None = None


class ContextEmbeddings(nn.Embedding):
    """E_c of section 3.6: (B,) context ids -> (B, d)."""


class ContextGuidance(nn.Module):
    """
    Everything that a layer adds to BERT's attention: context queries and keys (U of eq. 2), and the gates λ = g(v·x + v_c·c) of
    eqs. 3 and 7, one number for each head and position.

    It holds its weights itself: PEFT and quantizers would replace every nn.Linear, and weights that are read outside their
    module's `forward` cannot be offloaded.
    """

    def __init__(self, config: CGBertConfig, in_features: int, out_features: int, gate_bias: bool = False):
        super().__init__()
        size, head_size = config.hidden_size, config.hidden_size // config.num_attention_heads
        self.context_weight = nn.Parameter(torch.empty(size, size))  # W_e
        self.hidden_weight = nn.Parameter(torch.empty(size, size))  # W_x
        self.context_bias = nn.Parameter(torch.empty(size))
        self.query_weight = nn.Parameter(torch.empty(out_features, in_features))  # U_Q, Z_Q
        self.query_bias = nn.Parameter(torch.empty(out_features))
        self.key_weight = nn.Parameter(torch.empty(out_features, in_features))
        self.key_bias = nn.Parameter(torch.empty(out_features))
        gate_shape = (head_size,) if config.gate_heads == "shared" else (config.num_attention_heads, head_size)
        self.query_gate_weight = nn.Parameter(torch.empty(gate_shape))  # v
        self.query_gate_context_weight = nn.Parameter(torch.empty(head_size))  # v_c
        self.query_gate_bias = nn.Parameter(torch.empty(1)) if gate_bias else None
        self.key_gate_weight = nn.Parameter(torch.empty(gate_shape))
        self.key_gate_context_weight = nn.Parameter(torch.empty(head_size))
        self.key_gate_bias = nn.Parameter(torch.empty(1)) if gate_bias else None
        self.activation = ACT2FN[config.gate_activation]

    def forward(self, hidden_states, query, key, context_embeds):
        """
        X (B, L, d), its queries and keys (B, L, h, d_h), E_c (B, d) -> context queries and keys, the same shape or
        (B, L, 1, d_h), and their gates (B, L, h).
        """
        context_query, context_key = self.project(hidden_states, context_embeds, query.shape)
        query_gate = self.gate(
            query, context_query, self.query_gate_weight, self.query_gate_context_weight, self.query_gate_bias
        )
        key_gate = self.gate(key, context_key, self.key_gate_weight, self.key_gate_context_weight, self.key_gate_bias)
        return context_query, context_key, query_gate, key_gate

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

    def gate(self, states, context, weight, context_weight, bias):
        """Queries or keys (B, L, h, d_h) and their contexts, the same shape or (B, L, 1, d_h) -> λ (B, L, h)."""
        scores = states @ weight if weight.dim() == 1 else torch.einsum("blhd,hd->blh", states, weight)
        scores = scores + context @ context_weight
        return self.activation(scores if bias is None else scores + bias)


class CGBertSelfAttention(BertSelfAttention):
    """Section 3.3: q̂ = (1−λ_Q) q + λ_Q ĉ_Q and k̂ likewise (eq. 2), then attention as in BERT. Values stay as they are."""

    def __init__(self, config: CGBertConfig, layer_idx: int | None = None):
        super().__init__(config, layer_idx=layer_idx)
        # PEFT trains and saves modules named "score" or "classifier" without being asked.
        self.score = ContextGuidance(config, self.attention_head_size, self.attention_head_size)

    def forward(self, hidden_states, attention_mask=None, context_embeds=None, key_bias=None, maps=None, **kwargs):
        """
        Hidden states (B, L, d), mask of the attention implementation, E_c (B, d), additive mask of the keys (B, 1, L) or
        (B, L, L) or None, and a list that receives (attention, gates), for which both are computed explicitly -> (B, L, d),
        attention or None.
        """
        input_shape = hidden_states.shape[:-1]
        hidden_shape = (*input_shape, -1, self.attention_head_size)
        query = self.query(hidden_states).view(hidden_shape)  # (B, L, h, d_h), like all others here
        key = self.key(hidden_states).view(hidden_shape)
        value = self.value(hidden_states).view(hidden_shape)

        context_query, context_key, query_gate, key_gate = self.score(hidden_states, query, key, context_embeds)
        query = torch.lerp(query, context_query, query_gate[..., None])
        key = torch.lerp(key, context_key, key_gate[..., None])

        attend = ALL_ATTENTION_FUNCTIONS.get_interface(self.config._attn_implementation, eager_attention_forward)
        if maps is not None:
            attend, attention_mask = eager_attention_forward, None if key_bias is None else key_bias[:, None]
        output, attention = attend(
            self,
            query.transpose(1, 2),
            key.transpose(1, 2),
            value.transpose(1, 2),
            attention_mask,
            dropout=self.dropout.p if self.training else 0.0,
            scaling=self.scaling,
            **kwargs,
        )
        if maps is not None:
            maps.append((attention, torch.stack([query_gate, key_gate], dim=-1).transpose(1, 2)))
        return output.reshape(*input_shape, -1).contiguous(), attention


class CGBertLayer(BertLayer):
    """BERT's layer with context-guided attention."""

    attention_class = CGBertSelfAttention

    def __init__(self, config: CGBertConfig, layer_idx: int):
        super().__init__(config, layer_idx=layer_idx)
        self.attention.self = self.attention_class(config, layer_idx)

    def forward(self, hidden_states, context_embeds, attention_mask=None, **kwargs):
        attention_output, _ = self.attention(
            hidden_states, attention_mask=attention_mask, context_embeds=context_embeds, **kwargs
        )
        return apply_chunking_to_forward(
            self.feed_forward_chunk, self.chunk_size_feed_forward, self.seq_len_dim, attention_output
        )


class CGBertEncoder(nn.Module):
    def __init__(self, config: CGBertConfig, layer_class: type[CGBertLayer]):
        super().__init__()
        self.layer = nn.ModuleList(layer_class(config, index) for index in range(config.num_hidden_layers))

    def forward(self, hidden_states, context_embeds, **kwargs):
        for layer in self.layer:
            hidden_states = layer(hidden_states, context_embeds, **kwargs)
        return hidden_states


class CGBertPreTrainedModel(OverEncoder, RenamedWeights, BertPreTrainedModel):
    config: CGBertConfig
    config_class = CGBertConfig
    base_model_prefix = "bert"
    _no_split_modules = ["BertEmbeddings", "CGBertLayer"]
    _skip_keys_device_placement = ["maps"]  # a list that layers fill; a copy of it would be lost
    _can_record_outputs = {"hidden_states": CGBertLayer}
    # Parameters for which 0 has no meaning: weight decay must not pull them there.
    _no_weight_decay_parameters = ("score.weight", "query_gate", "key_gate")
    _renamed_weights = {
        "context_embeddings.weight": "score.weight",
        "context_projection.context_weight": "score.context_weight",
        "context_projection.hidden_weight": "score.hidden_weight",
        "context_projection.bias": "score.context_bias",
        **{
            f"{old}.{name}": f"score.{new}_{name}"
            for old, new, names in (
                ("context_query", "query", ("weight", "bias")),
                ("context_key", "key", ("weight", "bias")),
                ("query_gate", "query_gate", ("weight", "context_weight", "bias")),
                ("key_gate", "key_gate", ("weight", "context_weight", "bias")),
            )
            for name in names
        },
    }

    @torch.no_grad()
    def _init_weights(self, module):
        super()._init_weights(module)
        # Section 3.7: small, so that the gates of eq. 3 start near 0 and λ_A of eq. 8 near 0.
        if isinstance(module, (ContextEmbeddings, ContextGuidance)):
            for name, parameter in module.named_parameters(recurse=False):
                if name.endswith("bias"):
                    init.zeros_(parameter)
                else:
                    init.normal_(parameter, mean=0.0, std=self.config.context_initializer_range)


class CGBertModel(CGBertPreTrainedModel):
    """BERT whose queries and keys are guided by a context, a target and an aspect. Returns a [`CGBertModelOutput`]."""

    layer_class = CGBertLayer
    output_class = CGBertModelOutput
    map_names: tuple[str, ...] = ("attentions", "context_gates")

    def __init__(self, config: CGBertConfig):
        super().__init__(config)
        self.embeddings = BertEmbeddings(config)
        # PEFT trains and saves modules named "score" or "classifier" without being asked.
        self.score = ContextEmbeddings(config.num_contexts, config.hidden_size)
        self.encoder = CGBertEncoder(config, self.layer_class)
        self.pooler = BertPooler(config) if config.use_pooler else None
        self.post_init()

    def get_input_embeddings(self):
        return self.embeddings.word_embeddings

    def set_input_embeddings(self, value):
        self.embeddings.word_embeddings = value

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
    ) -> ModelOutput:
        r"""
        Args:
            input_ids, token_type_ids, position_ids, inputs_embeds: as in [`BertModel`]; positions count from the first real token.
            attention_mask: (B, L), 1 for real tokens, 0 for padding, on either side; or four-dimensional, see `real_tokens`.
            context_ids: (B,), the context of each row, in [0, `num_contexts`).
            output_attentions: return the attentions and the gates of every layer; they are then computed explicitly, with
                every attention implementation.

        Raises:
            ValueError: see `check_input` and `real_tokens`; no `context_ids`, another shape, or an id out of range.
        """
        batch_size, length = check_input(self.config, input_ids, inputs_embeds)
        warn_of_padding(self.config, input_ids, attention_mask)
        check_ids("`token_type_ids`", token_type_ids, self.config.type_vocab_size)
        self._check_context_ids(context_ids, batch_size)
        if output_attentions is None:
            output_attentions = self.config.output_attentions
        token_mask = real_tokens(attention_mask, batch_size, length)  # (B, L)
        leading = token_mask if may_begin_with_padding(token_mask) else None
        if position_ids is None and leading is not None:
            position_ids = positions_from_first_real(leading)
        embedding_output = self.embeddings(
            input_ids=input_ids,
            token_type_ids=token_type_ids,
            position_ids=position_ids,
            inputs_embeds=inputs_embeds,
        )
        key_bias = None
        if attention_mask is not None:
            bias = additive_mask(attention_mask, embedding_output.dtype)
            key_bias = bias[:, None] if bias.dim() == 2 else bias[:, 0]  # (B, 1, L) or (B, L, L)
            attention_mask = attention_mask if bias.dim() == 2 else bias
        maps: list | None = [] if output_attentions else None
        hidden_states = self.encoder(
            embedding_output,
            self.score(context_ids),
            attention_mask=create_bidirectional_mask(
                config=self.config, inputs_embeds=embedding_output, attention_mask=attention_mask
            ),
            key_bias=key_bias,
            maps=maps,
            **kwargs,
        )  # (B, L, d)
        sentence = first_real(hidden_states, leading)  # (B, d)
        return self.output_class(
            last_hidden_state=hidden_states,
            pooler_output=sentence if self.pooler is None else self.pooler(sentence[:, None]),
            **({} if maps is None else dict(zip(self.map_names, zip(*maps, strict=True), strict=True))),
        )

    def _check_context_ids(self, context_ids: torch.Tensor | None, batch_size: int) -> None:
        known = ""
        if self.config.aspects is not None:
            known = f" The aspects are {self.config.aspects}" + (
                f", the targets {self.config.targets}: id = target · {len(self.config.aspects)} + aspect."
                if self.config.targets
                else "."
            )
        if context_ids is None:
            raise ValueError(
                f"`context_ids` are missing: pass one id in [0, {self.config.num_contexts}) for each row.{known}"
            )
        if tuple(context_ids.shape) != (batch_size,):
            raise ValueError(f"`context_ids` must have shape ({batch_size},), got {tuple(context_ids.shape)}.")
        if can_look(context_ids):
            outside = (context_ids < 0) | (context_ids >= self.config.num_contexts)
            if outside.any():
                raise ValueError(
                    f"`context_ids` must lie in [0, {self.config.num_contexts}), got {context_ids[outside].tolist()}.{known}"
                )


class CGBertForSequenceClassification(CGBertPreTrainedModel):
    """Sentiment towards a target's aspect, which `context_ids` name. Returns a [`CGBertClassifierOutput`]."""

    # The loss is a mean over rows and ignores `num_items_in_batch`. Without this the Trainer would not divide it by the number of
    # accumulation steps.
    accepts_loss_kwargs = False
    base_class = CGBertModel
    output_class = CGBertClassifierOutput

    def __init__(self, config: CGBertConfig):
        super().__init__(config)
        self.num_labels = config.num_labels
        self.bert = self.base_class(config)
        self.dropout = nn.Dropout(
            config.hidden_dropout_prob if config.classifier_dropout is None else config.classifier_dropout
        )
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
    ) -> ModelOutput:
        r"""
        Args:
            labels: (B,) class ids.

        For the other arguments see [`CGBertModel`].
        """
        self._check_training()
        outputs = self.bert(
            input_ids,
            attention_mask=attention_mask,
            token_type_ids=token_type_ids,
            position_ids=position_ids,
            inputs_embeds=inputs_embeds,
            context_ids=context_ids,
            output_attentions=output_attentions,
            return_dict=True,
            **kwargs,
        )
        logits = self.classifier(self.dropout(outputs.pooler_output))  # (B, C)
        loss = None
        if labels is not None:
            if tuple(labels.shape) != tuple(logits.shape[:1]):
                raise ValueError(f"`labels` must have shape ({len(logits)},), got {tuple(labels.shape)}.")
            check_labels(labels, logits.shape[1])
            labels = labels.to(logits.device, torch.long)
            loss = F.cross_entropy(logits, labels, reduction="sum") / (labels != -100).sum().clamp(min=1)
        return self.output_class(
            loss=loss,
            logits=logits,
            **{name: outputs[name] for name in ("hidden_states", *self.bert.map_names) if name in outputs},
        )


__all__ = [
    "CGBertClassifierOutput",
    "CGBertForSequenceClassification",
    "CGBertModel",
    "CGBertModelOutput",
    "CGBertPreTrainedModel",
]
