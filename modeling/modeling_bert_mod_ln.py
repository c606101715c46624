# SPDX-License-Identifier: Apache-2.0
"""BERT to BERT with modulated layer norms: replies to a context in a given emotion.

Shapes: B batch, L tokens of the context, T tokens of the reply, d hidden size, M modulated norms of a side, V vocabulary.
"""

import copy
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from transformers import BertForMaskedLM, DynamicCache, EncoderDecoderCache
from transformers.masking_utils import create_bidirectional_mask, create_causal_mask
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import BaseModelOutput, BaseModelOutputWithPastAndCrossAttentions
from transformers.models.bert.modeling_bert import (
    BertCrossAttention,
    BertEmbeddings,
    BertIntermediate,
    BertOnlyMLMHead,
    BertPreTrainedModel,
    BertSelfAttention,
)
from transformers.processing_utils import Unpack
from transformers.utils import TransformersKwargs
from transformers.utils.generic import merge_with_config_defaults
from transformers.utils.output_capturing import capture_outputs

from .checked_input import check_input, check_length
from .configuration_bert_mod_ln import BertModLNConfig
from .emotional_encoder_decoder import (
    EmotionalGenerationMixin,
    EncoderDecoder,
    ModulatedStack,
    positions_of,
)
from .modulated_layer_norm import ModulatedLayerNorm, Modulators, normalise
from .renamed_weights import RenamedWeights


if TYPE_CHECKING:  # never run: `save_pretrained` publishes the files that are imported here beside the weights
    from .pipeline_emotional_response import EmotionalResponsePipeline  # noqa: F401


class BertModLNOutput(nn.Module):
    """
    The end of a sub-layer: projection, dropout, residual, norm; weights are named as in [`BertOutput`] and
    [`BertSelfOutput`].
    """

    def __init__(self, config: BertModLNConfig, in_features: int, modulated: bool):
        super().__init__()
        size, eps = config.hidden_size, config.layer_norm_eps
        self.dense = nn.Linear(in_features, size)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        if modulated:
            self.LayerNorm = ModulatedLayerNorm(size, eps, config.modulation)
        else:
            self.LayerNorm = nn.LayerNorm(size, eps=eps)

    def forward(self, states, residual, modulation, slot):
        return normalise(self.LayerNorm, self.dropout(self.dense(states)) + residual, modulation, slot)


class BertModLNSubLayer(nn.Module):
    """Self- or cross-attention and the end of its sub-layer: [`BertAttention`] with a modulated norm."""

    def __init__(self, config: BertModLNConfig, attention: nn.Module, modulated: bool):
        super().__init__()
        self.self = attention
        self.output = BertModLNOutput(config, config.hidden_size, modulated)

    def forward(self, hidden_states, modulation, slot, **kwargs):
        return self.output(self.self(hidden_states, **kwargs)[0], hidden_states, modulation, slot)


class BertModLNLayer(GradientCheckpointingLayer):
    """BERT's layer with modulated norms; the decoder's has cross-attention between the other two sub-layers."""

    def __init__(self, config: BertModLNConfig, layer_idx: int, decoder: bool, modulated: bool):
        super().__init__()
        names = ("attention", "crossattention", "output") if decoder else ("attention", "output")
        used = [name for name in names if modulated and name in config.modulated_norms]  # type: ignore[operator]  # the configuration fills it in
        self.slots = {name: used.index(name) if name in used else None for name in names}

        attention = BertSelfAttention(config, is_causal=decoder, layer_idx=layer_idx)
        self.attention = BertModLNSubLayer(config, attention, "attention" in used)
        self.crossattention = None
        if decoder:
            attention = BertCrossAttention(config, layer_idx=layer_idx)
            self.crossattention = BertModLNSubLayer(config, attention, "crossattention" in used)
        self.intermediate = BertIntermediate(config)
        self.output = BertModLNOutput(config, config.intermediate_size, "output" in used)

    def forward(
        self,
        hidden_states: torch.Tensor,
        encoder_hidden_states: torch.Tensor | None,
        *modulation: torch.Tensor,  # as positional arguments: gradient checkpointing ignores named ones
        attention_mask: torch.Tensor | None = None,
        encoder_attention_mask: torch.Tensor | None = None,
        past_key_values: EncoderDecoderCache | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> torch.Tensor:
        """(B, T, d), (B, L, d), and scale and shift (B, 1, d) of each modulated norm -> (B, T, d)."""
        hidden_states = self.attention(
            hidden_states,
            modulation,
            self.slots["attention"],
            attention_mask=attention_mask,
            past_key_values=past_key_values,
            **kwargs,
        )
        if self.crossattention is not None:
            hidden_states = self.crossattention(
                hidden_states,
                modulation,
                self.slots["crossattention"],
                encoder_hidden_states=encoder_hidden_states,
                attention_mask=encoder_attention_mask,
                past_key_values=past_key_values,
                **kwargs,
            )
        return self.output(self.intermediate(hidden_states), hidden_states, modulation, self.slots["output"])


class BertModLNPreTrainedModel(RenamedWeights, BertPreTrainedModel):
    config: BertModLNConfig
    config_class = BertModLNConfig
    base_model_prefix = "model"
    modules_of_new_weights = ("modulation", "crossattention", "transform")  # the last is the head's
    _can_compile_fullgraph = True
    # The head too: Accelerate 1.15 raises an IndexError where it has to split it, for it shares weights with the embeddings.
    _no_split_modules = ["BertEmbeddings", "BertModLNLayer", "BertOnlyMLMHead"]
    _no_weight_decay_parameters = ("modulation.",)
    _renamed_weights = Modulators.old_names(
        f"layer.#.{name}.LayerNorm" for name in ("attention.output", "crossattention.output", "output")
    )
    _skip_keys_device_placement = ["past_key_values"]
    _can_record_outputs: dict[str, Any] = {}

    @torch.no_grad()
    def _init_weights(self, module):
        super()._init_weights(module)
        if isinstance(module, Modulators):
            module.reset(self.config.modulation_initializer_range)


class BertModLNStack(ModulatedStack, BertModLNPreTrainedModel):
    """What both sides share."""

    def __init__(self, config: BertModLNConfig, decoder: bool, modulated: bool):
        super().__init__(config)
        self.embeddings = BertEmbeddings(config)
        self.layer = nn.ModuleList(
            BertModLNLayer(config, index, decoder, modulated) for index in range(config.num_hidden_layers)
        )
        self.gradient_checkpointing = False
        self.post_init()

    def get_input_embeddings(self):
        return self.embeddings.word_embeddings

    def set_input_embeddings(self, value):
        self.embeddings.word_embeddings = value

    def run(self, hidden_states, encoder_hidden_states, modulation, **kwargs) -> torch.Tensor:
        """(B, T, d), (B, L, d) or None, and scale and shift of all norms -> (B, T, d)."""
        own = 2 * sum(slot is not None for slot in self.layer[0].slots.values()) if len(self.layer) else 0
        for index, layer in enumerate(self.layer):
            parts = modulation[own * index : own * (index + 1)]
            hidden_states = layer(hidden_states, encoder_hidden_states, *parts, **kwargs)
        return hidden_states


class BertModLNEncoder(BertModLNStack):
    """BERT over the context."""

    _can_record_outputs = {
        "hidden_states": BertModLNLayer,
        "attentions": BertSelfAttention,
    }

    def __init__(self, config: BertModLNConfig):
        super().__init__(config, decoder=False, modulated=config.modulate_encoder)

    @merge_with_config_defaults
    @capture_outputs
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        inputs_embeds: torch.FloatTensor | None = None,
        emotion_ids: torch.LongTensor | None = None,
        emotion_weights: torch.FloatTensor | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> BaseModelOutput:
        """For the arguments see [`BertModLNModel`]."""
        batch_size, length = check_input(self.config, input_ids, inputs_embeds, attention_mask)
        modulation = self.modulation_parts(batch_size, emotion_ids, emotion_weights)
        device = inputs_embeds.device if input_ids is None else input_ids.device  # type: ignore[union-attr]  # one is given
        position_ids = positions_of(attention_mask, length, 0, device)
        states = self.embeddings(input_ids=input_ids, position_ids=position_ids, inputs_embeds=inputs_embeds)
        mask = create_bidirectional_mask(self.config, states, attention_mask)
        hidden_states = self.run(states, None, modulation, attention_mask=mask, **kwargs)
        return BaseModelOutput(last_hidden_state=hidden_states)


class BertModLNDecoder(BertModLNStack):
    """BERT over the reply, where every token sees those before it, with cross-attention to all states of the encoder."""

    _can_record_outputs = {
        "hidden_states": BertModLNLayer,
        "attentions": BertSelfAttention,
        "cross_attentions": BertCrossAttention,
    }

    def __init__(self, config: BertModLNConfig):
        super().__init__(config, decoder=True, modulated=config.modulate_decoder)

    @merge_with_config_defaults
    @capture_outputs
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        encoder_hidden_states: torch.FloatTensor | None = None,
        encoder_attention_mask: torch.Tensor | None = None,
        inputs_embeds: torch.FloatTensor | None = None,
        emotion_ids: torch.LongTensor | None = None,
        emotion_weights: torch.FloatTensor | None = None,
        modulation: torch.FloatTensor | None = None,
        past_key_values: EncoderDecoderCache | None = None,
        position_ids: torch.LongTensor | None = None,
        use_cache: bool | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> BaseModelOutputWithPastAndCrossAttentions:
        """For the arguments see [`BertModLNModel`]; here they lack the prefix `decoder_`."""
        names = "`decoder_input_ids` and `decoder_inputs_embeds`"
        batch_size, length = check_input(self.config, input_ids, inputs_embeds, names=names)
        parts = self.modulation_parts(batch_size, emotion_ids, emotion_weights, modulation)
        if use_cache and past_key_values is None:
            past_key_values = EncoderDecoderCache(DynamicCache(config=self.config), DynamicCache(config=self.config))
        past = 0 if past_key_values is None else past_key_values.get_seq_length()
        check_length(past + length, self.config.max_position_embeddings)
        if position_ids is None:
            device = inputs_embeds.device if input_ids is None else input_ids.device  # type: ignore[union-attr]  # one is given
            position_ids = positions_of(attention_mask, length, past, device)
        states = self.embeddings(input_ids=input_ids, position_ids=position_ids, inputs_embeds=inputs_embeds)
        mask = create_causal_mask(
            self.config,
            states,
            attention_mask,
            past_key_values=None if past_key_values is None else past_key_values.self_attention_cache,
        )
        encoder_mask = create_bidirectional_mask(
            self.config, states, encoder_attention_mask, encoder_hidden_states=encoder_hidden_states
        )
        hidden_states = self.run(
            states,
            encoder_hidden_states,
            parts,
            attention_mask=mask,
            encoder_attention_mask=encoder_mask,
            past_key_values=past_key_values,
            **kwargs,
        )
        return BaseModelOutputWithPastAndCrossAttentions(
            last_hidden_state=hidden_states, past_key_values=past_key_values if use_cache else None
        )


class BertModLNModel(EncoderDecoder, BertModLNPreTrainedModel):
    """Two BERTs whose norms follow an emotion. Returns a [`Seq2SeqModelOutput`]."""

    def __init__(self, config: BertModLNConfig):
        super().__init__(config)
        self.encoder = BertModLNEncoder(config)
        self.decoder = BertModLNDecoder(config)
        self.post_init()


class BertModLNForConditionalGeneration(EmotionalGenerationMixin, BertModLNPreTrainedModel):
    """Replies to a context in a given emotion. Returns a [`Seq2SeqLMOutput`]."""

    _tied_weights_keys = {
        "cls.predictions.decoder.weight": "model.decoder.embeddings.word_embeddings.weight",
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    }
    plain_class = BertForMaskedLM

    def __init__(self, config: BertModLNConfig):
        super().__init__(config)
        self.model = BertModLNModel(config)
        self.cls = BertOnlyMLMHead(config)
        self.post_init()
        self._set_decoding()

    def get_output_embeddings(self):
        return self.cls.predictions.decoder

    def set_output_embeddings(self, new_embeddings):
        self.cls.predictions.decoder = new_embeddings
        # Tied biases are one parameter. Untied ones are two: a checkpoint saves one parameter under one name, and lacks the other.
        tied = self.config.tie_word_embeddings
        self.cls.predictions.bias = new_embeddings.bias if tied else copy.deepcopy(new_embeddings.bias)

    def _logits(self, hidden_states: torch.Tensor) -> torch.Tensor:
        return self.cls(hidden_states)

    @staticmethod
    def _wrapped(name: str) -> list[str]:
        if name.startswith("cls."):
            return [name]
        name = name.removeprefix("bert.").removeprefix("encoder.")
        return [f"model.encoder.{name}", f"model.decoder.{name}"]


__all__ = [
    "BertModLNDecoder",
    "BertModLNEncoder",
    "BertModLNForConditionalGeneration",
    "BertModLNModel",
    "BertModLNPreTrainedModel",
]
