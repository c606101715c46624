# SPDX-License-Identifier: Apache-2.0
"""RoBERTa with emotion-specific attention (Scientific Reports 15, s41598-025-99515-6) and TF-IDF gating.

Shapes: B batch, L tokens, d hidden size, h heads of the added attention, C labels.
"""

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F
from transformers import initialization as init
from transformers.masking_utils import create_bidirectional_mask
from transformers.modeling_outputs import SequenceClassifierOutput
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.roberta import modeling_roberta as roberta
from transformers.processing_utils import Unpack
from transformers.utils import ModelOutput, TransformersKwargs
from transformers.utils.generic import can_return_tuple, merge_with_config_defaults
from transformers.utils.output_capturing import capture_outputs

from .common import (
    AdaptedModel,
    check_shape,
    classification_loss,
    first_real,
    input_shape,
    masked_mean,
    real_positions,
    sinusoidal_encoding,
    warn_if_untested,
)
from .configuration_roberta_esa import RobertaESAConfig


@dataclass
class RobertaESAModelOutput(ModelOutput):
    r"""
    Args:
        pooled_output: (B, d), or (B, 2d) with `esa_pooling="cls_mean"`: the sentence vector.
        last_hidden_state: (B, L, d), Z_final.
        hidden_states, attentions: the encoder's, as in [`RobertaModel`].
        esa_attentions: with `output_attentions`, (B, h, L, L), the added attention; padding keys have exactly 0.
        esa_scale: with `output_attentions`, (d,), the scaling vector S.
    """

    pooled_output: torch.FloatTensor | None = None
    last_hidden_state: torch.FloatTensor | None = None
    hidden_states: tuple[torch.FloatTensor, ...] | None = None
    attentions: tuple[torch.FloatTensor, ...] | None = None
    esa_attentions: torch.FloatTensor | None = None
    esa_scale: torch.FloatTensor | None = None


@dataclass
class RobertaESAClassifierOutput(SequenceClassifierOutput):
    """The mean loss, if `labels` are given; logits (B, C); the others as in [`RobertaESAModelOutput`]."""

    esa_attentions: torch.FloatTensor | None = None
    esa_scale: torch.FloatTensor | None = None


# Tokens


class EmotionSpecificAttention(nn.Module):
    """
    E_in = E + P; Z = multi-head attention of E_in over the real tokens; Z_final = Z ⊙ S + P. P is a learned table, sinusoidal, or absent;
    S starts at 1. A token's row of P is its position among the real tokens.
    """

    def __init__(self, config: RobertaESAConfig):
        super().__init__()
        self.config = config
        size, bias, learned = config.hidden_size, config.esa_bias, config.esa_position_embedding == "learned"
        self.head_size = size // config.esa_num_attention_heads
        self.scaling = self.head_size**-0.5
        self.is_causal = False
        self.position_embeddings = nn.Parameter(torch.empty(config.max_position_embeddings, size)) if learned else None
        self.query = nn.Linear(size, size, bias=bias)
        self.key = nn.Linear(size, size, bias=bias)
        self.value = nn.Linear(size, size, bias=bias)
        self.out_proj = nn.Linear(size, size, bias=bias) if config.esa_output_projection else None
        self.scale = nn.Parameter(torch.empty(size))  # S

    def position_vectors(self, states, positions) -> torch.Tensor | None:
        """P at these positions (B, L, d), at the first L positions if they are None (L, d), or None without P."""
        if self.config.esa_position_embedding == "none":
            return None
        table, length = self.position_embeddings, states.shape[1]
        if table is None:
            table = sinusoidal_encoding(length, states.shape[2], like=states)
        return table[:length] if positions is None else F.embedding(positions, table)

    def forward(self, hidden_states, mask, positions, explicit: bool, **kwargs):
        """
        E (B, L, d), mask of the attention implementation, or to be added to scores if the attention is to be `explicit`, positions
        (B, L) or None -> Z_final (B, L, d), attention (B, h, L, L) or None, S (d,).
        """
        vectors = self.position_vectors(hidden_states, positions)  # P
        states = hidden_states if vectors is None else hidden_states + vectors  # E_in
        shape = (*states.shape[:-1], -1, self.head_size)
        parts = [part(states).view(shape).transpose(1, 2) for part in (self.query, self.key, self.value)]
        attend = roberta.eager_attention_forward
        if not explicit:
            attend = ALL_ATTENTION_FUNCTIONS.get_interface(self.config._attn_implementation, attend)
        dropout = self.config.attention_probs_dropout_prob if self.training else 0.0
        output, attention = attend(self, *parts, mask, dropout=dropout, scaling=self.scaling, **kwargs)
        output = output.reshape(hidden_states.shape)
        if self.out_proj is not None:
            output = self.out_proj(output)
        states = output * self.scale if vectors is None else torch.addcmul(vectors, output, self.scale)
        return states, attention, self.scale


# Models


class RobertaESAPreTrainedModel(AdaptedModel, roberta.RobertaPreTrainedModel):
    config: RobertaESAConfig
    base_model_prefix = "roberta"
    _no_split_modules = ["RobertaEmbeddings", "RobertaLayer", "EmotionSpecificAttention"]
    # Parameters for which 0 has no meaning: weight decay must not pull them there.
    _no_weight_decay_parameters = ("emotion_attention.scale", "emotion_attention.position_embeddings")
    _can_record_outputs = {"hidden_states": roberta.RobertaLayer, "attentions": roberta.RobertaSelfAttention}

    @torch.no_grad()
    def _init_weights(self, module):
        super()._init_weights(module)
        module.is_new = True
        if isinstance(module, EmotionSpecificAttention):
            init.ones_(module.scale)
            if module.position_embeddings is not None:
                init.normal_(module.position_embeddings, mean=0.0, std=0.02)


class RobertaWithESA(RobertaESAPreTrainedModel):
    """RoBERTa, emotion-specific attention over its last hidden state, and pooling. Returns a [`RobertaESAModelOutput`]."""

    _input_embed_layer = "word_embeddings"

    def __init__(self, config: RobertaESAConfig):
        super().__init__(config)
        warn_if_untested()
        self.embeddings = roberta.RobertaEmbeddings(config)
        self.encoder = roberta.RobertaEncoder(config)
        self.emotion_attention = EmotionSpecificAttention(config)
        self.post_init()

    @merge_with_config_defaults
    @capture_outputs(tie_last_hidden_states=False)  # `hidden_states` are the encoder's, the last is not Z_final
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.LongTensor | None = None,
        position_ids: torch.LongTensor | None = None,
        inputs_embeds: torch.FloatTensor | None = None,
        token_gates: torch.FloatTensor | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> RobertaESAModelOutput:
        r"""
        Args:
            input_ids, token_type_ids, position_ids, inputs_embeds: as in [`RobertaModel`].
            attention_mask: (B, L), 1 for real tokens, 0 for padding, on either side.
            token_gates: (B, L), factors for the word embeddings; `tfidf_gating="scale"` needs them.

        Raises:
            ValueError: both or neither of ids and embeddings; a shape that does not fit; `token_gates` with another `tfidf_gating`.
        """
        shape = input_shape(input_ids, inputs_embeds, self.config.max_position_embeddings)
        check_shape("attention_mask", attention_mask, shape)
        check_shape("token_gates", token_gates, shape)
        if (token_gates is None) == (self.config.tfidf_gating == "scale"):
            found = "missing" if token_gates is None else "given"
            found = f"{found}, and `tfidf_gating` is {self.config.tfidf_gating!r}"
            raise ValueError(f"`token_gates` are {found}: pass those of `TfidfGate`, or ones, and only with 'scale'.")
        if input_ids is not None and not input_ids.is_meta:
            self.warn_if_padding_and_no_attention_mask(input_ids, attention_mask)
        padding = self.embeddings.padding_idx
        if token_gates is not None:
            if inputs_embeds is None:
                if position_ids is None:  # RoBERTa's own position ids find padding by its id
                    position_ids = self.embeddings.create_position_ids_from_input_ids(input_ids, padding)
                input_ids, inputs_embeds = None, self.embeddings.word_embeddings(input_ids)
            inputs_embeds = inputs_embeds * token_gates[..., None].to(inputs_embeds)
        positions = None if attention_mask is None else real_positions(attention_mask)  # (B, L)
        if input_ids is None and position_ids is None and positions is not None:
            position_ids = positions + padding + 1  # embeddings do not show padding
        states = self.embeddings(input_ids, token_type_ids, position_ids, inputs_embeds)  # (B, L, d)
        mask = create_bidirectional_mask(config=self.config, inputs_embeds=states, attention_mask=attention_mask)
        states = self.encoder(states, attention_mask=mask, **kwargs).last_hidden_state

        explicit = bool(kwargs.pop("output_attentions", None) or self.config.output_attentions)
        kwargs.pop("output_hidden_states", None)
        if explicit:
            padded = None if attention_mask is None else (attention_mask == 0)[:, None, None].to(states)
            mask = None if padded is None else padded * torch.finfo(states.dtype).min  # (B, 1, 1, L)
        states, attention, scale = self.emotion_attention(states, mask, positions, explicit, **kwargs)
        return RobertaESAModelOutput(
            pooled_output=self.pool(states, attention_mask),
            last_hidden_state=states,
            esa_attentions=attention if explicit else None,
            esa_scale=scale if explicit else None,
        )

    def pool(self, states: torch.Tensor, attention_mask: torch.Tensor | None) -> torch.Tensor:
        """(B, L, d), (B, L) or None -> (B, d) or (B, 2d)."""
        if self.config.esa_pooling == "cls":
            return first_real(states, attention_mask)
        mean = states.mean(dim=1) if attention_mask is None else masked_mean(states, attention_mask)
        if self.config.esa_pooling == "mean":
            return mean
        return torch.cat([first_real(states, attention_mask), mean], dim=-1)


RobertaESAModel = RobertaWithESA


class RobertaWithESAForSequenceClassification(RobertaESAPreTrainedModel):
    """Single- or multi-label classification, or regression. Returns a [`RobertaESAClassifierOutput`]."""

    accepts_loss_kwargs = False  # see `classification_loss`

    def __init__(self, config: RobertaESAConfig):
        super().__init__(config)
        self.num_labels = config.num_labels
        self.roberta = RobertaWithESA(config)
        dropout = config.hidden_dropout_prob if config.classifier_dropout is None else config.classifier_dropout
        size = config.hidden_size * (2 if config.esa_pooling == "cls_mean" else 1)
        layers = [nn.Dropout(dropout)]
        if config.head_hidden_size is not None:
            layers += [nn.Linear(size, config.head_hidden_size), nn.Tanh(), nn.Dropout(dropout)]
            size = config.head_hidden_size
        self.classifier = nn.Sequential(*layers, nn.Linear(size, config.num_labels))
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.LongTensor | None = None,
        position_ids: torch.LongTensor | None = None,
        inputs_embeds: torch.FloatTensor | None = None,
        token_gates: torch.FloatTensor | None = None,
        labels: torch.Tensor | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> RobertaESAClassifierOutput:
        """The arguments of [`RobertaWithESA`], and `labels`: see [`classification_loss`]."""
        inputs = (input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds, token_gates)
        outputs = self.roberta(*inputs, return_dict=True, **kwargs)
        logits = self.classifier(outputs.pooled_output)  # (B, C)
        loss = None if labels is None else classification_loss(logits, labels, self.config)
        maps = ("hidden_states", "attentions", "esa_attentions", "esa_scale")
        return RobertaESAClassifierOutput(loss, logits, **{name: outputs.get(name) for name in maps})


__all__ = ["RobertaESAModel", "RobertaWithESA", "RobertaWithESAForSequenceClassification"]
