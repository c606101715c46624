# SPDX-License-Identifier: Apache-2.0
"""GPT-2 to GPT-2 with modulated layer norms: replies to a context in a given emotion.

Shapes: B batch, L tokens of the context, T tokens of the reply, d hidden size, M modulated norms of a side, V vocabulary.
"""

from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from transformers import DynamicCache, EncoderDecoderCache, GPT2LMHeadModel
from transformers.masking_utils import create_bidirectional_mask, create_causal_mask
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import BaseModelOutput, BaseModelOutputWithPastAndCrossAttentions
from transformers.models.gpt2.modeling_gpt2 import GPT2MLP, GPT2Attention, GPT2PreTrainedModel
from transformers.processing_utils import Unpack
from transformers.utils import TransformersKwargs
from transformers.utils.generic import merge_with_config_defaults
from transformers.utils.output_capturing import OutputRecorder, capture_outputs

from .checked_input import check_input, check_length
from .configuration_gpt2_mod_ln import GPT2ModLNConfig
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


def layer_norm(config: GPT2ModLNConfig, modulated: bool) -> nn.LayerNorm:
    if modulated:
        return ModulatedLayerNorm(config.hidden_size, config.layer_norm_epsilon, config.modulation)
    return nn.LayerNorm(config.hidden_size, eps=config.layer_norm_epsilon)


class GPT2ModLNBlock(GradientCheckpointingLayer):
    """GPT-2's block with modulated norms; the decoder's has cross-attention between the other two sub-layers."""

    def __init__(self, config: GPT2ModLNConfig, layer_idx: int, decoder: bool, modulated: bool):
        super().__init__()
        names = ("ln_1", "ln_cross_attn", "ln_2") if decoder else ("ln_1", "ln_2")
        used = [name for name in names if modulated and name in config.modulated_norms]  # type: ignore[operator]  # the configuration fills it in
        self.slots = {name: used.index(name) if name in used else None for name in names}

        self.ln_1 = layer_norm(config, "ln_1" in used)
        self.attn = GPT2Attention(config, layer_idx=layer_idx)
        self.crossattention = None
        if decoder:
            self.ln_cross_attn = layer_norm(config, "ln_cross_attn" in used)
            self.crossattention = GPT2Attention(config, is_cross_attention=True, layer_idx=layer_idx)
        self.ln_2 = layer_norm(config, "ln_2" in used)
        self.mlp = GPT2MLP(4 * config.hidden_size if config.n_inner is None else config.n_inner, config)

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
        states = normalise(self.ln_1, hidden_states, modulation, self.slots["ln_1"])
        hidden_states = (
            hidden_states
            + self.attn(states, past_key_values=past_key_values, attention_mask=attention_mask, **kwargs)[0]
        )
        if self.crossattention is not None:
            states = normalise(self.ln_cross_attn, hidden_states, modulation, self.slots["ln_cross_attn"])
            hidden_states = (
                hidden_states
                + self.crossattention(
                    states,
                    past_key_values=past_key_values,
                    encoder_hidden_states=encoder_hidden_states,
                    encoder_attention_mask=encoder_attention_mask,
                    **kwargs,
                )[0]
            )
        states = normalise(self.ln_2, hidden_states, modulation, self.slots["ln_2"])
        return hidden_states + self.mlp(states)


class GPT2ModLNPreTrainedModel(RenamedWeights, GPT2PreTrainedModel):
    config: GPT2ModLNConfig
    config_class = GPT2ModLNConfig
    base_model_prefix = "model"
    modules_of_new_weights = ("modulation", "ln_cross_attn", "crossattention")
    _no_split_modules = ["GPT2ModLNBlock"]
    _no_weight_decay_parameters = ("modulation.",)
    _renamed_weights = Modulators.old_names(["h.#.ln_1", "h.#.ln_cross_attn", "h.#.ln_2", "ln_f"])
    _can_record_outputs: dict[str, Any] = {}

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path, *args, quantization_config=None, **kwargs):
        """
        As in every model of transformers.

        Raises:
            ValueError: torchao shall quantize it, which would leave all weights as they are.
        """
        if quantization_config is not None:
            values = quantization_config if isinstance(quantization_config, dict) else vars(quantization_config)
            if values.get("quant_method") == "torchao":
                raise ValueError(
                    "`quantization_config` must not be torchao's: it quantizes `nn.Linear` alone, and GPT-2's layers are `Conv1D`. Take "
                    "bitsandbytes, or a generator over BERT or over a Llama-like model."
                )
            kwargs["quantization_config"] = quantization_config
        return super().from_pretrained(pretrained_model_name_or_path, *args, **kwargs)

    @torch.no_grad()
    def _init_weights(self, module):
        super()._init_weights(module)
        if isinstance(module, Modulators):
            module.reset(self.config.modulation_initializer_range)


class GPT2ModLNStack(ModulatedStack, GPT2ModLNPreTrainedModel):
    """What both sides share."""

    def __init__(self, config: GPT2ModLNConfig, decoder: bool, modulated: bool):
        super().__init__(config)
        self.wte = nn.Embedding(config.vocab_size, config.hidden_size)
        self.wpe = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        self.drop = nn.Dropout(config.embd_pdrop)
        self.h = nn.ModuleList(
            GPT2ModLNBlock(config, index, decoder, modulated) for index in range(config.num_hidden_layers)
        )
        self.ln_f = layer_norm(config, modulated and "ln_f" in config.modulated_norms)  # type: ignore[operator]  # as above
        self.gradient_checkpointing = False
        self.post_init()

    def get_input_embeddings(self):
        return self.wte

    def set_input_embeddings(self, value):
        self.wte = value

    def run(self, inputs_embeds, position_ids, encoder_hidden_states, modulation, **kwargs) -> torch.Tensor:
        """(B, T, d), (B or 1, T), (B, L, d) or None, and scale and shift of all norms -> (B, T, d)."""
        hidden_states = self.drop(inputs_embeds + self.wpe(position_ids).to(inputs_embeds.device))
        own = 2 * sum(slot is not None for slot in self.h[0].slots.values()) if len(self.h) else 0
        for index, block in enumerate(self.h):
            parts = modulation[own * index : own * (index + 1)]
            hidden_states = block(hidden_states, encoder_hidden_states, *parts, **kwargs)
        last = own * len(self.h)
        return normalise(self.ln_f, hidden_states, modulation[last:], 0 if len(modulation) > last else None)


class GPT2ModLNEncoder(GPT2ModLNStack):
    """GPT-2 over the context; like GPT-2, every token sees those before it."""

    _can_record_outputs = {
        "hidden_states": GPT2ModLNBlock,
        "attentions": OutputRecorder(GPT2Attention, layer_name=".attn", index=1),
    }

    def __init__(self, config: GPT2ModLNConfig):
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
        """For the arguments see [`GPT2ModLNModel`]."""
        batch_size, length = check_input(self.config, input_ids, inputs_embeds, attention_mask)
        modulation = self.modulation_parts(batch_size, emotion_ids, emotion_weights)
        if inputs_embeds is None:
            inputs_embeds = self.wte(input_ids)
        position_ids = positions_of(attention_mask, length, 0, inputs_embeds.device)
        mask = create_causal_mask(self.config, inputs_embeds, attention_mask, past_key_values=None)
        hidden_states = self.run(inputs_embeds, position_ids, None, modulation, attention_mask=mask, **kwargs)
        return BaseModelOutput(last_hidden_state=hidden_states)


class GPT2ModLNDecoder(GPT2ModLNStack):
    """GPT-2 over the reply, with cross-attention to all states of the encoder."""

    _can_record_outputs = {
        "hidden_states": GPT2ModLNBlock,
        "attentions": OutputRecorder(GPT2Attention, layer_name=".attn", index=1),
        "cross_attentions": OutputRecorder(GPT2Attention, layer_name=".crossattention", index=1),
    }

    def __init__(self, config: GPT2ModLNConfig):
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
        """For the arguments see [`GPT2ModLNModel`]; here they lack the prefix `decoder_`."""
        names = "`decoder_input_ids` and `decoder_inputs_embeds`"
        batch_size, length = check_input(self.config, input_ids, inputs_embeds, names=names)
        parts = self.modulation_parts(batch_size, emotion_ids, emotion_weights, modulation)
        if inputs_embeds is None:
            inputs_embeds = self.wte(input_ids)
        if use_cache and past_key_values is None:
            past_key_values = EncoderDecoderCache(DynamicCache(config=self.config), DynamicCache(config=self.config))
        past = 0 if past_key_values is None else past_key_values.get_seq_length()
        check_length(past + length, self.config.max_position_embeddings)
        if position_ids is None:
            position_ids = positions_of(attention_mask, length, past, inputs_embeds.device)
        mask = create_causal_mask(
            self.config,
            inputs_embeds,
            attention_mask,
            past_key_values=None if past_key_values is None else past_key_values.self_attention_cache,
        )
        encoder_mask = create_bidirectional_mask(
            self.config, inputs_embeds, encoder_attention_mask, encoder_hidden_states=encoder_hidden_states
        )
        hidden_states = self.run(
            inputs_embeds,
            position_ids,
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


class GPT2ModLNModel(EncoderDecoder, GPT2ModLNPreTrainedModel):
    """Two GPT-2 whose norms follow an emotion. Returns a [`Seq2SeqModelOutput`]."""

    def __init__(self, config: GPT2ModLNConfig):
        super().__init__(config)
        self.encoder = GPT2ModLNEncoder(config)
        self.decoder = GPT2ModLNDecoder(config)
        self.post_init()


class GPT2ModLNForConditionalGeneration(EmotionalGenerationMixin, GPT2ModLNPreTrainedModel):
    """Replies to a context in a given emotion. Returns a [`Seq2SeqLMOutput`]."""

    _tied_weights_keys = {"lm_head.weight": "model.decoder.wte.weight"}
    plain_class = GPT2LMHeadModel

    def __init__(self, config: GPT2ModLNConfig):
        super().__init__(config)
        self.model = GPT2ModLNModel(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()
        self._set_decoding()

    def _logits(self, hidden_states: torch.Tensor) -> torch.Tensor:
        return self.lm_head(hidden_states)

    @staticmethod
    def _wrapped(name: str) -> list[str]:
        if name == "lm_head.weight":
            return [name]
        name = name.removeprefix("transformer.")
        return [f"model.encoder.{name}", f"model.decoder.{name}"]


__all__ = [
    "GPT2ModLNDecoder",
    "GPT2ModLNEncoder",
    "GPT2ModLNForConditionalGeneration",
    "GPT2ModLNModel",
    "GPT2ModLNPreTrainedModel",
]
