# SPDX-License-Identifier: Apache-2.0
"""RoBERTa with emotion-specific attention (Scientific Reports 15, s41598-025-99515-6) and TF-IDF gating.

Shapes: B batch, L tokens, d hidden size, h heads of the added attention, C labels.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn import functional as F
from transformers import initialization as init
from transformers.masking_utils import create_bidirectional_mask
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.roberta.modeling_roberta import (
    RobertaEmbeddings,
    RobertaEncoder,
    RobertaLayer,
    RobertaPreTrainedModel,
    RobertaSelfAttention,
    eager_attention_forward,
)
from transformers.processing_utils import Unpack
from transformers.utils import ModelOutput, TransformersKwargs
from transformers.utils.generic import can_return_tuple, merge_with_config_defaults
from transformers.utils.output_capturing import capture_outputs

from .checked_input import check_ids, check_input, check_length, warn_of_padding
from .class_balanced_loss import classification_loss
from .configuration_roberta_esa import RobertaESAConfig
from .fitting_checkpoints import OverEncoder
from .padding import first_real, masked_mean, real_positions
from .renamed_weights import RenamedWeights
from .sinusoidal_encoding import sinusoidal_encoding
from .text_processing import usable_positions


if TYPE_CHECKING:  # never run: `save_pretrained` publishes the files that are imported here beside the weights
    from .pipeline_emotion_classification import EmotionClassificationPipeline  # noqa: F401


@dataclass
class RobertaESAModelOutput(ModelOutput):
    r"""
    Args:
        pooled_output (`torch.FloatTensor`): (B, d), or (B, 2d) with `esa_pooling="cls_mean"`: the sentence vector.
        last_hidden_state (`torch.FloatTensor`): (B, L, d), Z_final.
        hidden_states, attentions: the encoder's, as in [`RobertaModel`].
        esa_attentions (`torch.FloatTensor`): with `output_attentions`, (B, h, L, L), the added attention; padding keys have
            exactly 0.
        esa_scale (`torch.FloatTensor`): with `output_attentions`, (d,), the scaling vector S.
    """

    pooled_output: torch.FloatTensor | None = None
    last_hidden_state: torch.FloatTensor | None = None
    hidden_states: tuple[torch.FloatTensor, ...] | None = None
    attentions: tuple[torch.FloatTensor, ...] | None = None
    esa_attentions: torch.FloatTensor | None = None
    esa_scale: torch.FloatTensor | None = None


@dataclass
class RobertaESAClassifierOutput(ModelOutput):
    r"""
    Args:
        loss (`torch.FloatTensor`, *optional*): scalar, when `labels` are given.
        logits (`torch.FloatTensor`): (B, C).
        hidden_states, attentions, esa_attentions, esa_scale: as in [`RobertaESAModelOutput`].
    """

    loss: torch.FloatTensor | None = None
    logits: torch.FloatTensor | None = None
    hidden_states: tuple[torch.FloatTensor, ...] | None = None
    attentions: tuple[torch.FloatTensor, ...] | None = None
    esa_attentions: torch.FloatTensor | None = None
    esa_scale: torch.FloatTensor | None = None


class EmotionSpecificAttention(nn.Module):
    """
    E_in = E + P; Z = multi-head attention of E_in over the real tokens; Z_final = Z ⊙ S + P.

    P is a learned table, sinusoidal, or absent; S starts at 1. A token's row of P is its position among the real tokens.
    """

    def __init__(self, config: RobertaESAConfig):
        super().__init__()
        self.config = config
        size = config.hidden_size
        self.head_size = size // config.esa_num_attention_heads
        self.scaling = self.head_size**-0.5
        self.is_causal = False
        self.dropout = config.attention_probs_dropout_prob
        self.position_embeddings = None
        if config.esa_position_embedding == "learned":
            self.position_embeddings = nn.Parameter(torch.empty(config.max_position_embeddings, size))
        self.query = nn.Linear(size, size, bias=config.esa_bias)
        self.key = nn.Linear(size, size, bias=config.esa_bias)
        self.value = nn.Linear(size, size, bias=config.esa_bias)
        self.out_proj = nn.Linear(size, size, bias=config.esa_bias) if config.esa_output_projection else None
        self.scale = nn.Parameter(torch.empty(size))  # S

    def position_vectors(self, hidden_states, positions) -> torch.Tensor | None:
        """P at these positions (B, L, d), at the first L positions if they are None (L, d), or None without P."""
        length, size = hidden_states.shape[1:]
        if self.config.esa_position_embedding == "none":
            return None
        table = self.position_embeddings
        if table is None:
            table = sinusoidal_encoding(length, size, like=hidden_states)
        return table[:length] if positions is None else F.embedding(positions, table)

    def forward(self, hidden_states, attention_mask, key_bias, positions, output_attentions: bool, **kwargs):
        """
        E (B, L, d), mask of the attention implementation, additive mask of the keys (B, 1, 1, L) or None, positions (B, L) or
        None -> Z_final (B, L, d), attention (B, h, L, L) or None, S (d,).
        """
        vectors = self.position_vectors(hidden_states, positions)  # P
        states = hidden_states if vectors is None else hidden_states + vectors  # E_in
        shape = (*states.shape[:-1], -1, self.head_size)
        query, key, value = (
            projection(states).view(shape).transpose(1, 2) for projection in (self.query, self.key, self.value)
        )
        attend = ALL_ATTENTION_FUNCTIONS.get_interface(self.config._attn_implementation, eager_attention_forward)
        if output_attentions:
            attend, attention_mask = eager_attention_forward, key_bias
        output, attention = attend(
            self,
            query,
            key,
            value,
            attention_mask,
            dropout=self.dropout if self.training else 0.0,
            scaling=self.scaling,
            **kwargs,
        )
        output = output.reshape(hidden_states.shape)
        if self.out_proj is not None:
            output = self.out_proj(output)
        if vectors is None:
            return output * self.scale, attention, self.scale
        return torch.addcmul(vectors, output, self.scale), attention, self.scale


class RobertaESAPreTrainedModel(OverEncoder, RenamedWeights, RobertaPreTrainedModel):
    config: RobertaESAConfig
    config_class = RobertaESAConfig
    base_model_prefix = "roberta"
    _no_split_modules = ["RobertaEmbeddings", "RobertaLayer", "EmotionSpecificAttention"]
    # Parameters for which 0 has no meaning: weight decay must not pull them there.
    _no_weight_decay_parameters = ("score.scale", "score.position_embeddings")
    _can_record_outputs = {"hidden_states": RobertaLayer, "attentions": RobertaSelfAttention}
    _renamed_weights = {"esa.": "score."}

    @torch.no_grad()
    def _init_weights(self, module):
        super()._init_weights(module)
        if isinstance(module, EmotionSpecificAttention):
            init.ones_(module.scale)
            if module.position_embeddings is not None:
                init.normal_(module.position_embeddings, mean=0.0, std=0.02)


class RobertaWithESA(RobertaESAPreTrainedModel):
    """RoBERTa, emotion-specific attention over its last hidden state, and pooling. Returns a [`RobertaESAModelOutput`]."""

    def __init__(self, config: RobertaESAConfig):
        super().__init__(config)
        self.embeddings = RobertaEmbeddings(config)
        self.encoder = RobertaEncoder(config)
        # Everything that is new here. PEFT trains and saves modules named "score" or "classifier" without being asked.
        self.score = EmotionSpecificAttention(config)
        self.post_init()

    def get_input_embeddings(self):
        return self.embeddings.word_embeddings

    def set_input_embeddings(self, value):
        self.embeddings.word_embeddings = value

    @merge_with_config_defaults
    @capture_outputs(
        tie_last_hidden_states=False
    )  # `hidden_states` are the encoder's and do not end with the model's output
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
            ValueError: see `check_input`; a mask or gates that are not (B, L); `token_gates` without `tfidf_gating="scale"`, or
                the other way round.
        """
        shape = tuple(check_input(self.config, input_ids, inputs_embeds))
        warn_of_padding(self.config, input_ids, attention_mask)
        check_ids("`token_type_ids`", token_type_ids, self.config.type_vocab_size)
        if input_ids is not None and position_ids is None and input_ids.device.type == "cpu":
            padding = self.embeddings.padding_idx  # only real tokens have positions
            if not torch.compiler.is_compiling():
                longest = int((input_ids != padding).sum(dim=1).max())
                check_length(max(longest, 1), usable_positions(self.config))
        for name, value in (("attention_mask", attention_mask), ("token_gates", token_gates)):
            if value is not None and tuple(value.shape) != shape:
                raise ValueError(
                    f"`{name}` must have shape (batch_size, sequence_length) = {shape}, got {tuple(value.shape)}."
                )
        if token_gates is None and self.config.tfidf_gating == "scale":
            raise ValueError(
                f"`token_gates` are missing and `tfidf_gating` is 'scale': pass the factor of each token, shape {shape}, as "
                "`TfidfGate.token_gates` gives it (the gate lies beside the weights; the pipeline and the predictors pass it), or "
                "ones to scale nothing."
            )
        if token_gates is not None:
            if self.config.tfidf_gating != "scale":
                raise ValueError(
                    f"`token_gates` are given, and `tfidf_gating` is {self.config.tfidf_gating!r}: it must be 'scale'."
                )
            if inputs_embeds is None:
                if position_ids is None:  # RoBERTa's own position ids find padding by its id
                    position_ids = self.embeddings.create_position_ids_from_input_ids(
                        input_ids, self.embeddings.padding_idx
                    )
                input_ids, inputs_embeds = None, self.embeddings.word_embeddings(input_ids)
            inputs_embeds = inputs_embeds * token_gates[..., None].to(inputs_embeds)
        positions = None if attention_mask is None else real_positions(attention_mask)  # (B, L)
        if input_ids is None and position_ids is None and positions is not None:
            position_ids = positions + self.embeddings.padding_idx + 1  # embeddings do not show padding
        embedding_output = self.embeddings(
            input_ids=input_ids,
            token_type_ids=token_type_ids,
            position_ids=position_ids,
            inputs_embeds=inputs_embeds,
        )
        mask = create_bidirectional_mask(
            config=self.config, inputs_embeds=embedding_output, attention_mask=attention_mask
        )
        hidden_states = self.encoder(embedding_output, attention_mask=mask, **kwargs).last_hidden_state  # (B, L, d)

        output_attentions = bool(kwargs.pop("output_attentions", None) or self.config.output_attentions)
        kwargs.pop("output_hidden_states", None)
        key_bias = None
        if attention_mask is not None:
            key_bias = torch.zeros_like(attention_mask, dtype=hidden_states.dtype)
            key_bias = key_bias.masked_fill(attention_mask == 0, torch.finfo(key_bias.dtype).min)[:, None, None]
        states, attention, scale = self.score(hidden_states, mask, key_bias, positions, output_attentions, **kwargs)
        return RobertaESAModelOutput(
            pooled_output=self.pool(states, attention_mask),
            last_hidden_state=states,
            esa_attentions=attention if output_attentions else None,
            esa_scale=scale if output_attentions else None,
        )

    def pool(self, states: torch.Tensor, attention_mask: torch.Tensor | None) -> torch.Tensor:
        """(B, L, d), (B, L) or None -> (B, d) or (B, 2d)."""
        if self.config.esa_pooling == "cls":
            return first_real(states, attention_mask)
        mean = states.mean(dim=1) if attention_mask is None else masked_mean(states, attention_mask)
        return (
            mean
            if self.config.esa_pooling == "mean"
            else torch.cat([first_real(states, attention_mask), mean], dim=-1)
        )


RobertaESAModel = RobertaWithESA


class RobertaWithESAForSequenceClassification(RobertaESAPreTrainedModel):
    """Single- or multi-label classification. Returns a [`RobertaESAClassifierOutput`]."""

    # The loss is a mean over rows and ignores `num_items_in_batch`. Without this the Trainer would not divide it by the number of
    # accumulation steps.
    accepts_loss_kwargs = False

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
        r"""
        Args:
            labels: (B,) class ids for single-label, (B, C) of 0 and 1 for multi-label classification.

        For the other arguments see [`RobertaWithESA`].
        """
        self._check_training()
        outputs = self.roberta(
            input_ids,
            attention_mask=attention_mask,
            token_type_ids=token_type_ids,
            position_ids=position_ids,
            inputs_embeds=inputs_embeds,
            token_gates=token_gates,
            return_dict=True,
            **kwargs,
        )
        logits = self.classifier(outputs.pooled_output)  # (B, C)
        return RobertaESAClassifierOutput(
            loss=None if labels is None else classification_loss(logits, labels, self.config),
            logits=logits,
            hidden_states=outputs.hidden_states,
            attentions=outputs.attentions,
            esa_attentions=outputs.esa_attentions,
            esa_scale=outputs.esa_scale,
        )


__all__ = [
    "RobertaESAClassifierOutput",
    "RobertaESAModel",
    "RobertaESAModelOutput",
    "RobertaESAPreTrainedModel",
    "RobertaWithESA",
    "RobertaWithESAForSequenceClassification",
]
