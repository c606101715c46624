# SPDX-License-Identifier: Apache-2.0
"""
GPT-2 to GPT-2 and BERT to BERT with layer norms whose scale and shift follow an emotion (Liu et al. 2021).

Shapes: B batch, L tokens of the context, T tokens of the reply, E emotions, d hidden size, M modulated norms of a side, V vocabulary.
"""

import copy
import math
from collections.abc import Iterable, Iterator
from functools import wraps
from typing import Any

import torch
import transformers
from torch import nn
from torch.nn import functional as F
from transformers import Cache, DynamicCache, EncoderDecoderCache, PreTrainedConfig
from transformers import initialization as init
from transformers.masking_utils import create_bidirectional_mask, create_causal_mask
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import BaseModelOutput, Seq2SeqLMOutput, Seq2SeqModelOutput
from transformers.modeling_outputs import BaseModelOutputWithPastAndCrossAttentions as StackOutput
from transformers.models.bert import modeling_bert as bert
from transformers.models.gpt2 import modeling_gpt2 as gpt2
from transformers.utils import ModelOutput
from transformers.utils.generic import can_return_tuple, merge_with_config_defaults
from transformers.utils.output_capturing import OutputRecorder, capture_outputs

from .common import (
    AdaptedModel,
    EmotionGenerationMixin,
    check_emotions,
    check_shape,
    input_shape,
    real_positions,
    token_loss,
    warn_if_untested,
)
from .configuration_mod_ln import BertModLNConfig, GPT2ModLNConfig


class Modulators(nn.Module):
    r"""
    What an emotion adds to the scale and the shift of each of M norms, where c (B, E) weighs the emotions (eqs. 1-3):

        MLP_γ(c) = W₂ SiLU(W₁ c)         MLP_β(c) = W₂' SiLU(W₁' c + b)

    with W₁ (d/2, E), W₂ (d, d/2) for each norm. The module holds all weights itself, named after the norms (`names`): weights that are read
    outside their module's `forward` can be neither offloaded nor sharded.

    `modulation="residual"`: γ = weight + MLP_γ(c), β = bias + MLP_β(c), with the norm's own weight and bias. W₂ and W₂' start at 0.
    `modulation="replace"`: γ = MLP_γ(c), β = MLP_β(c). The first hidden unit carries the start: there W₁ c is the sum of c and W₁' c + b
    is 1; the other columns of W₂ and W₂' are 0. So for weights that sum to 1 the start is γ = 1 and β = 0, or those of [`carrying`].
    """

    parts = ("scale_in", "scale_out", "shift_in", "shift_bias", "shift_out")  # W₁ and W₂ of γ; W₁, b and W₂ of β
    _anew = False  # whether some of the weights came from no checkpoint

    def __init__(self, names: Iterable[str], size: int, num_emotions: int, modulation: str = "residual"):
        super().__init__()
        self.names = tuple(name.replace(".", "_") for name in names)
        self.replace = modulation == "replace"
        hidden = size // 2
        shapes = ((hidden, num_emotions), (size, hidden), (hidden, num_emotions), (hidden,), (size, hidden))
        for name in self.names:
            for part, shape in zip(self.parts, shapes, strict=True):
                self.register_parameter(f"{name}_{part}", nn.Parameter(torch.empty(shape)))
        self.reset()

    def of(self, part: str) -> list[nn.Parameter]:
        return [getattr(self, f"{name}_{part}") for name in self.names]

    @torch.no_grad()
    def reset(self, std: float = 0.2) -> None:
        """Set the start described above, with W₁ and W₁' from N(0, std²); loaded weights are kept."""
        for scale_in, scale_out, shift_in, shift_bias, shift_out in zip(*map(self.of, self.parts), strict=True):
            for parameter in (scale_in, shift_in):
                init.normal_(parameter, mean=0.0, std=std)
            for parameter in (scale_out, shift_bias, shift_out):
                init.zeros_(parameter)
            if self.replace:
                for parameter, first in ((scale_in, 1.0), (shift_in, 0.0), (shift_bias, 1.0)):
                    init.copy_(parameter, torch.cat([torch.full_like(parameter[:1], first), parameter[1:]]))
                init.copy_(scale_out, carrying(torch.ones_like(scale_out[:, 0])))

    @property
    def is_new(self) -> bool:
        """Whether it has learnt nothing yet, see `new_modules`: it says the same of all emotions, as at the start."""
        weights = [*self.of("scale_out"), *self.of("shift_out")]
        here = all(weight.dim() == 2 and not weight.is_meta for weight in weights)  # not sharded
        return self._anew or (here and not any(weight[:, int(self.replace) :].any() for weight in weights))

    def forward(self, emotion_weights: torch.Tensor) -> torch.Tensor:
        """c (B, E) -> MLP_γ and MLP_β of the first norm, then of the second, ... (B, 2M, 1, d)."""
        scale_out, shift_out = self.of("scale_out"), self.of("shift_out")
        c, hidden = emotion_weights.to(scale_out[0]), scale_out[0].shape[1]  # of the weights' dtype and device
        scales = F.silu(F.linear(c, torch.cat(self.of("scale_in"))))  # (B, M·d/2)
        shifts = F.silu(F.linear(c, torch.cat(self.of("shift_in")), torch.cat(self.of("shift_bias"))))
        inner = zip(scales.split(hidden, dim=1), scale_out, shifts.split(hidden, dim=1), shift_out, strict=True)
        parts = [part for a, scale, b, shift in inner for part in (F.linear(a, scale), F.linear(b, shift))]
        return torch.stack(parts, dim=1)[:, :, None]


class ModulatedLayerNorm(nn.LayerNorm):
    """x̂ = γ · (x − μ) / √(var + ε) + β with the γ and β of [`Modulators`]. The paper divides by σ + ε, which pretrained weights do not."""

    def __init__(self, size: int, eps: float = 1e-5, modulation: str = "residual"):
        super().__init__(size, eps=eps, elementwise_affine=modulation == "residual")

    def forward(self, states: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
        """x (B, L, d), and what the emotion gives for scale and shift (B, 1, d) -> (B, L, d)."""
        if self.weight is not None:
            scale, shift = scale + self.weight, shift + self.bias
        return torch.addcmul(shift, F.layer_norm(states, self.normalized_shape, eps=self.eps), scale)


def carrying(value: torch.Tensor) -> torch.Tensor:
    """(d,) -> W₂ (d, d/2), with which a norm without `weight` starts at this value, by its first hidden unit."""
    columns = value.new_zeros(len(value), len(value) // 2)
    columns[:, 0] = value / (1 / (1 + math.exp(-1)))  # SiLU(1)
    return columns


def layer_norm(config, eps: float, modulated: bool) -> nn.LayerNorm:
    if modulated:
        return ModulatedLayerNorm(config.hidden_size, eps, config.modulation)
    return nn.LayerNorm(config.hidden_size, eps=eps)


def normalise(layer: nn.Module, name: str, states: torch.Tensor, modulation: Iterator[torch.Tensor]) -> torch.Tensor:
    """Apply a norm of a layer, one of `layer.modulated` with the next scale and shift."""
    norm = getattr(layer, name)
    return norm(states, next(modulation), next(modulation)) if name in layer.modulated else norm(states)


def positions_of(attention_mask: torch.Tensor | None, length: int, past: int, device: torch.device) -> torch.Tensor:
    """(B, length) or (1, length), the positions of the last `length` tokens among the real ones; padding may be on either side."""
    if attention_mask is None or attention_mask.dim() != 2:
        return torch.arange(length, device=device)[None] + past
    return real_positions(attention_mask)[:, -length:]


def cache_among(values: Iterable[Any]) -> Any:
    """The cache among arguments or outputs, None if there is none. `past_key_values` is called `cache` since transformers 5.24."""
    return next((value for value in values if isinstance(value, Cache)), None)


class ModLNPreTrainedModel(AdaptedModel):
    """A base of all models, to name before that of GPT-2 or BERT."""

    base_model_prefix = "model"
    _can_record_outputs: dict[str, Any] = {}
    _skip_keys_device_placement = ["past_key_values", "cache"]
    _no_weight_decay_parameters = ("modulation.",)

    @torch.no_grad()
    def _init_weights(self, module):
        super()._init_weights(module)
        if isinstance(module, Modulators):
            module.reset(self.config.modulation_initializer_range)
            module._anew = True
        else:
            module.is_new = True

    def resize_token_embeddings(self, new_num_tokens=None, pad_to_multiple_of=None, mean_resizing=True):
        """Resize the embeddings of both sides, and of the head if there is one."""
        if (decoder := self.get_decoder()) is not self:
            decoder.resize_token_embeddings(new_num_tokens, pad_to_multiple_of, mean_resizing)
        return super().resize_token_embeddings(new_num_tokens, pad_to_multiple_of, mean_resizing)


class ModulatedStack(ModLNPreTrainedModel):
    """
    One side: an encoder, or (`is_decoder`) a decoder with cross-attention to all states of the encoder. `modulation` is None if no norm is
    modulated.
    """

    is_decoder = False
    one_way = False  # whether a token of the context sees only those before it
    layers_name: str  # of the list of layers
    modulation: Modulators | None

    def __init__(self, config):
        super().__init__(config)
        warn_if_untested()
        modulated = config.modulate_decoder if self.is_decoder else config.modulate_encoder
        self.modulated = config.modulated_norms if modulated else []  # names of those that follow the emotion
        self.gradient_checkpointing = False

    def post_init(self):
        names = [name for name, module in self.named_modules() if isinstance(module, ModulatedLayerNorm)]
        sizes = (self.config.hidden_size, self.config.num_emotions, self.config.modulation)
        self.modulation = Modulators(names, *sizes) if names else None
        self.parts_per_layer = 2 * sum(name.startswith(f"{self.layers_name}.0.") for name in names)
        super().post_init()

    @property
    def is_modulated(self) -> bool:
        return self.modulation is not None

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
        cache: EncoderDecoderCache | None = None,
        position_ids: torch.LongTensor | None = None,
        use_cache: bool | None = None,
        **kwargs,
    ) -> StackOutput:
        """The arguments of [`EncoderDecoder.forward`], those of the decoder without the prefix `decoder_`."""
        batch_size, length = input_shape(input_ids, inputs_embeds, self.config.max_position_embeddings)
        if self.modulation is None:  # which needs no emotions
            parts = ()
        elif modulation is None:
            parts = self.modulation(check_emotions(self.config, emotion_ids, emotion_weights, batch_size)).unbind(1)
        elif modulation.shape[0] == batch_size:
            parts = modulation.unbind(dim=1)  # 2M times (B, 1, d)
        else:
            raise ValueError(f"there must be emotions for each of the {batch_size} rows, got {modulation.shape[0]}.")

        if not self.is_decoder:
            cache = None
        elif use_cache and cache is None:
            cache = EncoderDecoderCache(DynamicCache(config=self.config), DynamicCache(config=self.config))
        elif cache is not None and self.gradient_checkpointing and self.training and torch.is_grad_enabled():
            raise ValueError("there must be no cache with gradient checkpointing: layers that run twice write twice.")
        past = 0 if cache is None else cache.get_seq_length()
        if position_ids is None:
            given: Any = input_ids if inputs_embeds is None else inputs_embeds
            position_ids = positions_of(attention_mask, length, past, given.device)
        states = self.embed(input_ids, inputs_embeds, position_ids)

        if self.is_decoder or self.one_way:
            own_cache = None if cache is None else cache.self_attention_cache
            mask = create_causal_mask(self.config, states, attention_mask, own_cache)
        else:
            mask = create_bidirectional_mask(self.config, states, attention_mask)
        if self.is_decoder:
            encoder_attention_mask = create_bidirectional_mask(
                self.config, states, encoder_attention_mask, encoder_hidden_states=encoder_hidden_states
            )
        kwargs |= {"attention_mask": mask, "context_mask": encoder_attention_mask}
        for index, layer in enumerate(getattr(self, self.layers_name)):
            own = parts[self.parts_per_layer * index : self.parts_per_layer * (index + 1)]
            states = layer(states, encoder_hidden_states, *own, cache=cache, **kwargs)
        return StackOutput(self.last_norm(states, parts[-2:]), cache if use_cache else None)

    def last_norm(self, states, modulation):
        """(B, T, d), and scale and shift of the last norm -> (B, T, d); BERT has none here."""
        return states


class EncoderDecoder(ModLNPreTrainedModel):
    """A base model."""

    sides: tuple  # the classes of its encoder and its decoder

    def __init__(self, config):
        super().__init__(config)
        self.encoder, self.decoder = (side(config) for side in self.sides)
        self.post_init()

    def get_input_embeddings(self):
        return self.encoder.get_input_embeddings()

    def set_input_embeddings(self, value):
        self.encoder.set_input_embeddings(value)

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        decoder_input_ids: torch.LongTensor | None = None,
        decoder_attention_mask: torch.Tensor | None = None,
        emotion_ids: torch.LongTensor | None = None,
        emotion_weights: torch.FloatTensor | None = None,
        encoder_outputs: Any = None,
        inputs_embeds: torch.FloatTensor | None = None,
        decoder_inputs_embeds: torch.FloatTensor | None = None,
        decoder_position_ids: torch.LongTensor | None = None,
        decoder_modulation: torch.FloatTensor | None = None,
        use_cache: bool | None = None,
        **kwargs,
    ) -> Seq2SeqModelOutput:
        r"""
        Args:
            input_ids, attention_mask, inputs_embeds: (B, L), the context, 1 for its real tokens; padding may be on either side.
            decoder_input_ids, decoder_attention_mask, decoder_inputs_embeds: (B, T), the reply so far.
            emotion_ids: (B,), the emotion of each reply, in [0, `num_emotions`).
            emotion_weights: (B, E), instead of `emotion_ids`: any mixture of emotions, of any intensity.
            encoder_outputs: the encoder's outputs of an earlier call, instead of the context.
            decoder_position_ids: (B, T); default: from the mask.
            decoder_modulation: (B, 2M, 1, d), the result of `decoder.modulation`, instead of the emotions for this side.
            kwargs: the cache, an [`EncoderDecoderCache`] under any name, and what attention takes.

        Raises:
            ValueError: both or neither of ids and embeddings, or of `emotion_ids` and `emotion_weights`; a shape that does not fit.
        """
        if encoder_outputs is None:
            shape = input_shape(input_ids, inputs_embeds)
            check_shape("attention_mask", attention_mask, shape)
            # A padding token that ends every context, as GPT-2's, says nothing about padding.
            shown = self.config.pad_token_id != self.config.context_separator_token_id
            if shown and input_ids is not None and not input_ids.is_meta:
                self.warn_if_padding_and_no_attention_mask(input_ids, attention_mask)
        reads = self.encoder.is_modulated and encoder_outputs is None
        if reads or (self.decoder.is_modulated and decoder_modulation is None):  # before anything runs
            rows = shape[0] if encoder_outputs is None else len(encoder_outputs[0])
            emotion_weights = check_emotions(self.config, emotion_ids, emotion_weights, rows)
        cache = cache_among(kwargs.values())
        kwargs = {name: value for name, value in kwargs.items() if value is not None and value is not cache}
        kwargs |= {"emotion_weights": emotion_weights, "return_dict": True}
        if encoder_outputs is None:
            context = {"input_ids": input_ids, "attention_mask": attention_mask, "inputs_embeds": inputs_embeds}
            encoder_outputs = self.encoder(**context, use_cache=False, **kwargs)
        elif not isinstance(encoder_outputs, ModelOutput):
            names = ("last_hidden_state", "hidden_states", "attentions")
            encoder_outputs = BaseModelOutput(**dict(zip(names, encoder_outputs, strict=False)))
        outputs = self.decoder(
            input_ids=decoder_input_ids,
            attention_mask=decoder_attention_mask,
            encoder_hidden_states=encoder_outputs.last_hidden_state,
            encoder_attention_mask=attention_mask,
            inputs_embeds=decoder_inputs_embeds,
            modulation=decoder_modulation,
            cache=cache,
            position_ids=decoder_position_ids,
            use_cache=use_cache,
            **kwargs,
        )
        return Seq2SeqModelOutput(
            outputs.last_hidden_state,
            cache_among(outputs.values()),
            decoder_hidden_states=outputs.hidden_states,
            decoder_attentions=outputs.attentions,
            cross_attentions=outputs.cross_attentions,
            encoder_last_hidden_state=encoder_outputs.last_hidden_state,
            encoder_hidden_states=encoder_outputs.hidden_states,
            encoder_attentions=encoder_outputs.attentions,
        )


class EmotionalGeneration(ModLNPreTrainedModel, EmotionGenerationMixin):
    """A model with a head."""

    head_name: str
    plain_class: Any  # whose checkpoints it wraps

    def save_pretrained(self, *args, **kwargs):
        # When PEFT merges LoRA it takes the head for untied, because it compares it with the encoder's embeddings.
        if self.get_output_embeddings().weight is self.get_decoder().get_input_embeddings().weight:
            self.config.tie_word_embeddings = True
        super().save_pretrained(*args, **kwargs)

    def prepare_decoder_input_ids_from_labels(self, labels: torch.Tensor) -> torch.Tensor:
        """What the decoder reads to predict `labels`, (B, T) each: the token before; -100 becomes padding."""
        start = torch.full_like(labels[:, :1], self.config.decoder_start_token_id)
        shifted = torch.cat([start, labels[:, :-1]], dim=1)
        return shifted.masked_fill(shifted == -100, self.config.pad_token_id)

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        decoder_input_ids: torch.LongTensor | None = None,
        decoder_attention_mask: torch.Tensor | None = None,
        emotion_ids: torch.LongTensor | None = None,
        emotion_weights: torch.FloatTensor | None = None,
        labels: torch.LongTensor | None = None,
        encoder_outputs: ModelOutput | tuple[torch.FloatTensor, ...] | None = None,
        use_cache: bool | None = None,
        num_items_in_batch: torch.Tensor | int | None = None,
        **kwargs,
    ) -> Seq2SeqLMOutput:
        r"""
        Args:
            labels: (B, T), the tokens of the reply and its end token; -100 at padding, which has the id of GPT-2's end of text. Without
                `decoder_input_ids` the decoder reads them, shifted. The other arguments: see the base model.
            num_items_in_batch: the loss is divided by it; default: the number of labels in this batch.
        """
        # Training needs no cache; with label smoothing it passes no labels.
        if labels is not None or (self.training and use_cache is None):
            use_cache = False
        if labels is not None and decoder_input_ids is None and kwargs.get("decoder_inputs_embeds") is None:
            decoder_input_ids = self.prepare_decoder_input_ids_from_labels(labels)
        inputs = (input_ids, attention_mask, decoder_input_ids, decoder_attention_mask, emotion_ids, emotion_weights)
        outputs = self.model(*inputs, encoder_outputs, use_cache=use_cache, return_dict=True, **kwargs)
        logits, loss = getattr(self, self.head_name)(outputs.last_hidden_state), None  # (B, T, V)
        if labels is not None:
            loss = token_loss(logits.float(), labels, num_items_in_batch)
        rest = {name: value for name, value in outputs.items() if name != "last_hidden_state"}
        return Seq2SeqLMOutput(loss=loss, logits=logits, **rest)

    @torch.no_grad()
    def generate(
        self, inputs: torch.Tensor | None = None, generation_config: Any = None, *args: Any, **kwargs: Any
    ) -> Any:
        """[`GenerationMixin.generate`] with `emotion_ids` (B,) or `emotion_weights` (B, E), whose γ and β are computed once."""
        scale = self.setting(generation_config, kwargs, "guidance_scale", 1)
        if scale != 1 or any(name.startswith("negative_prompt") and kwargs[name] is not None for name in kwargs):
            wanted = "and `negative_prompt_ids` and `negative_prompt_attention_mask` must be None"
            why = "the model has no run without an emotion to guide away from. For more of an emotion pass `emotion_weights` above 1"
            raise ValueError(f"`guidance_scale` must be 1, got {scale}, {wanted}: {why}.")
        decoder = self.get_decoder()
        # An assistant gets the same arguments but has its own γ and β, so both models compute them at each step.
        alone = kwargs.get("assistant_model") is None
        if alone and decoder.is_modulated and kwargs.get("decoder_modulation") is None:
            given = [t for t in (inputs, kwargs.get("input_ids"), kwargs.get("inputs_embeds")) if t is not None]
            rows = len(given[0]) if given else None
            weights = check_emotions(self.config, kwargs.get("emotion_ids"), kwargs.get("emotion_weights"), rows)
            # The batch is the first dimension, so `generate` repeats the tensor for each beam or sample of a row.
            kwargs["decoder_modulation"] = decoder.modulation(weights)
        return super().generate(inputs, generation_config, *args, **kwargs)

    @wraps(transformers.GenerationMixin.prepare_inputs_for_generation)  # whose arguments `generate` takes
    def prepare_inputs_for_generation(self, input_ids, *args, **kwargs):
        # Done before a static cache turns the mask into a four-dimensional one, from which positions cannot be read.
        mask = kwargs.get("decoder_attention_mask")
        if mask is not None and mask.dim() == 2 and kwargs.get("decoder_position_ids") is None:
            kwargs["decoder_position_ids"] = positions_of(mask, mask.shape[1], 0, mask.device)
        return super().prepare_inputs_for_generation(input_ids, *args, **kwargs)

    def generate_all_emotions(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor | None = None, **kwargs: Any
    ) -> torch.Tensor:
        """As in [`EmotionGenerationMixin`]. An encoder that is not modulated runs once for each context."""
        encoder = self.get_encoder()
        if not self.get_decoder().is_modulated and not encoder.is_modulated:
            raise ValueError("no norm of the model is modulated: its reply is the same for every emotion.")
        if not encoder.is_modulated:
            mask = None if attention_mask is None else torch.atleast_2d(attention_mask)
            with torch.no_grad():
                states = encoder(input_ids=torch.atleast_2d(input_ids), attention_mask=mask, return_dict=True)[0]
            states = states.repeat_interleave(self.config.num_emotions, dim=0)  # (B·E, L, d)
            kwargs["encoder_outputs"] = BaseModelOutput(last_hidden_state=states)
        return super().generate_all_emotions(input_ids, attention_mask, **kwargs)

    @classmethod
    def from_encoder_decoder_pretrained(
        cls,
        base: str,
        *,
        tokenizer: Any = None,
        output_loading_info: bool = False,
        attn_implementation: str | None = None,
        **kwargs: Any,
    ) -> Any:
        """
        An encoder-decoder whose two sides start as the plain checkpoint `base`, a folder or Hub id. New are the modulation of the
        norms, cross-attention, and the head's own layers if the checkpoint has no head. Every emotion starts with the norms of the
        checkpoint, in `modulation="replace"` every one whose weights sum to 1.

        Args:
            tokenizer: gives the ids of the special tokens, for checkpoints whose vocabulary is not the published one.
            output_loading_info: return (model, report); `missing_keys` of the report are the new parameters.
            kwargs: fields of the configuration (`num_emotions=...`); the others go to `from_pretrained` (`dtype`, `revision`).
        """
        config_class, fields = cls.config_class, cls.config_class.__dataclass_fields__
        found = PreTrainedConfig.get_config_dict(base, **kwargs)[0].get("model_type")
        if found != config_class.base_model_type:
            wanted = f"a checkpoint of {config_class.base_model_type!r}, got {found!r}"
            raise ValueError(f"{base!r} must be {wanted}: if it is a wrapped one, load it with `from_pretrained`.")
        given = {} if tokenizer is None else config_class.token_ids(tokenizer)
        given |= {name: kwargs.pop(name) for name in list(kwargs) if name in fields and name != "dtype"}
        plain, info = cls.plain_class.from_pretrained(base, output_loading_info=True, **kwargs)
        # Not those of every configuration, nor of the model's role; the Trainer sets `use_cache` to False.
        role = ("is_decoder", "add_cross_attention", "tie_word_embeddings", "use_cache")
        other = {*PreTrainedConfig.__dataclass_fields__, *role}
        known = [name for name in plain.config.__dataclass_fields__ if name in fields and name not in other]
        inherited = {name: getattr(plain.config, name) for name in known}
        config = config_class(**{name: value for name, value in inherited.items() if value is not None} | given)
        with torch.device("meta"):
            empty = cls(config)
        names = empty.state_dict().keys()
        modulated = {name for name, module in empty.named_modules() if isinstance(module, ModulatedLayerNorm)}
        state = {}
        for name, value in plain.state_dict().items():
            body = name.removeprefix("transformer.").removeprefix("bert.").removeprefix("encoder.")
            of_head = name.startswith(("lm_head.", "cls."))
            places = [name] if of_head else [f"model.encoder.{body}", f"model.decoder.{body}"]
            for place in [] if name in info["missing_keys"] else places:
                owner, _, part = place.rpartition(".")
                if place in names:
                    state[place] = value.clone()  # the sides share no memory
                elif owner in modulated:  # the emotion replaces scale and shift of this norm
                    model, side, norm = owner.split(".", maxsplit=2)
                    part = "scale_out" if part == "weight" else "shift_out"
                    state[f"{model}.{side}.modulation.{norm.replace('.', '_')}_{part}"] = carrying(value)
        arguments = {"config": config, "dtype": plain.dtype, "attn_implementation": attn_implementation}
        made, report = cls.from_pretrained(None, state_dict=state, output_loading_info=True, **arguments)
        made.name_or_path = made.config.name_or_path = ""  # not "None", which PEFT would look for on the Hub
        return (made, report) if output_loading_info else made


class GPT2ModLNBlock(GradientCheckpointingLayer):
    """GPT-2's block with modulated norms; the decoder's has cross-attention between the other two sub-layers."""

    def __init__(self, config: GPT2ModLNConfig, layer_idx: int, decoder: bool, modulated: list[str]):
        super().__init__()
        self.modulated, eps = modulated, config.layer_norm_epsilon
        self.ln_1 = layer_norm(config, eps, "ln_1" in modulated)
        self.attn = gpt2.GPT2Attention(config, layer_idx=layer_idx)
        self.crossattention = None
        if decoder:
            self.ln_cross_attn = layer_norm(config, eps, "ln_cross_attn" in modulated)
            self.crossattention = gpt2.GPT2Attention(config, is_cross_attention=True, layer_idx=layer_idx)
        self.ln_2 = layer_norm(config, eps, "ln_2" in modulated)
        self.mlp = gpt2.GPT2MLP(4 * config.hidden_size if config.n_inner is None else config.n_inner, config)

    # The modulation as positional arguments: gradient checkpointing ignores named ones. Attention takes the cache by its position, which
    # has not changed, not by its name, which has.
    def forward(self, states, context, *modulation, attention_mask, context_mask, cache, **kwargs):
        """(B, T, d), (B, L, d), and scale and shift (B, 1, d) of each modulated norm -> (B, T, d)."""
        parts = iter(modulation)
        normed = normalise(self, "ln_1", states, parts)
        states = states + self.attn(normed, cache, attention_mask=attention_mask, **kwargs)[0]
        if self.crossattention is not None:
            kwargs |= {"encoder_hidden_states": context, "encoder_attention_mask": context_mask}
            states = states + self.crossattention(normalise(self, "ln_cross_attn", states, parts), cache, **kwargs)[0]
        return states + self.mlp(normalise(self, "ln_2", states, parts))


class GPT2ModLNPreTrainedModel(ModLNPreTrainedModel, gpt2.GPT2PreTrainedModel):
    config: GPT2ModLNConfig
    _no_split_modules = ["GPT2ModLNBlock"]


class GPT2ModLNEncoder(ModulatedStack, GPT2ModLNPreTrainedModel):
    """GPT-2 over the context; like GPT-2, every token sees those before it."""

    one_way = True
    layers_name = "h"
    _input_embed_layer = "wte"
    _can_record_outputs = {
        "hidden_states": GPT2ModLNBlock,
        "attentions": OutputRecorder(gpt2.GPT2Attention, layer_name=".attn", index=1),
    }

    def __init__(self, config: GPT2ModLNConfig):
        super().__init__(config)
        self.wte = nn.Embedding(config.vocab_size, config.hidden_size)
        self.wpe = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        self.drop = nn.Dropout(config.embd_pdrop)
        blocks = (GPT2ModLNBlock(config, i, self.is_decoder, self.modulated) for i in range(config.num_hidden_layers))
        self.h = nn.ModuleList(blocks)
        self.ln_f = layer_norm(config, config.layer_norm_epsilon, "ln_f" in self.modulated)
        self.post_init()

    def embed(self, input_ids, inputs_embeds, position_ids):
        """(B, T) or (B, T, d), and (B, T) or (1, T) -> (B, T, d)."""
        states = self.wte(input_ids) if inputs_embeds is None else inputs_embeds
        return self.drop(states + self.wpe(position_ids.to(states.device)).to(states.device))

    def last_norm(self, states, modulation):
        return normalise(self, "ln_f", states, iter(modulation))


class GPT2ModLNDecoder(GPT2ModLNEncoder):
    """GPT-2 over the reply."""

    is_decoder = True
    _can_record_outputs = GPT2ModLNEncoder._can_record_outputs | {
        "cross_attentions": OutputRecorder(gpt2.GPT2Attention, layer_name=".crossattention", index=1)
    }


class GPT2ModLNModel(EncoderDecoder, GPT2ModLNPreTrainedModel):
    """Two GPT-2 whose norms follow an emotion. Returns a [`Seq2SeqModelOutput`]."""

    sides = (GPT2ModLNEncoder, GPT2ModLNDecoder)


class GPT2ModLNForConditionalGeneration(EmotionalGeneration, GPT2ModLNPreTrainedModel):
    """Replies to a context in a given emotion. Returns a [`Seq2SeqLMOutput`]."""

    _tied_weights_keys = {"lm_head.weight": "model.decoder.wte.weight"}
    plain_class, head_name = transformers.GPT2LMHeadModel, "lm_head"

    def __init__(self, config: GPT2ModLNConfig):
        quantization = getattr(config, "quantization_config", None) or {}
        method = quantization.get("quant_method") if isinstance(quantization, dict) else quantization.quant_method
        if method == "torchao":
            raise ValueError("`quantization_config` must not be torchao's: it leaves GPT-2's `Conv1D` layers alone.")
        super().__init__(config)
        self.model = GPT2ModLNModel(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()


class BertModLNOutput(nn.Module):
    """The end of a sub-layer: projection, dropout, residual, norm; weights are named as in [`BertOutput`] and [`BertSelfOutput`]."""

    def __init__(self, config: BertModLNConfig, in_features: int, modulated: bool):
        super().__init__()
        self.modulated = ["LayerNorm"] if modulated else []
        self.dense = nn.Linear(in_features, config.hidden_size)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.LayerNorm = layer_norm(config, config.layer_norm_eps, modulated)

    def forward(self, states, residual, modulation: Iterator[torch.Tensor]):
        return normalise(self, "LayerNorm", self.dropout(self.dense(states)) + residual, modulation)


class BertModLNSubLayer(nn.Module):
    """Self- or cross-attention and the end of its sub-layer: [`BertAttention`] with a modulated norm."""

    def __init__(self, config: BertModLNConfig, attention: nn.Module, modulated: bool):
        super().__init__()
        self.self = attention
        self.output = BertModLNOutput(config, config.hidden_size, modulated)

    def forward(self, hidden_states, *context, modulation: Iterator[torch.Tensor], **kwargs):
        return self.output(self.self(hidden_states, *context, **kwargs)[0], hidden_states, modulation)


class BertModLNLayer(GradientCheckpointingLayer):
    """BERT's layer with modulated norms; the decoder's has cross-attention between the other two sub-layers."""

    def __init__(self, config: BertModLNConfig, layer_idx: int, decoder: bool, modulated: list[str]):
        super().__init__()
        attention = bert.BertSelfAttention(config, is_causal=decoder, layer_idx=layer_idx)
        self.attention = BertModLNSubLayer(config, attention, "attention" in modulated)
        self.crossattention = None
        if decoder:
            attention = bert.BertCrossAttention(config, layer_idx=layer_idx)
            self.crossattention = BertModLNSubLayer(config, attention, "crossattention" in modulated)
        self.intermediate = bert.BertIntermediate(config)
        self.output = BertModLNOutput(config, config.intermediate_size, "output" in modulated)

    def forward(self, states, context, *modulation, attention_mask, context_mask, cache, **kwargs):
        """As in [`GPT2ModLNBlock`]."""
        kwargs["modulation"] = parts = iter(modulation)
        states = self.attention(states, attention_mask, cache, **kwargs)
        if self.crossattention is not None:
            states = self.crossattention(states, context, context_mask, cache, **kwargs)
        return self.output(self.intermediate(states), states, parts)


class BertModLNPreTrainedModel(ModLNPreTrainedModel, bert.BertPreTrainedModel):
    config: BertModLNConfig
    _can_compile_fullgraph = True
    # The head too: Accelerate 1.15 raises an IndexError where it has to split it, because it shares weights with the embeddings.
    _no_split_modules = ["BertEmbeddings", "BertModLNLayer", "BertOnlyMLMHead"]


class BertModLNEncoder(ModulatedStack, BertModLNPreTrainedModel):
    """BERT over the context."""

    layers_name = "layer"
    _input_embed_layer = "word_embeddings"
    _can_record_outputs = {"hidden_states": BertModLNLayer, "attentions": bert.BertSelfAttention}

    def __init__(self, config: BertModLNConfig):
        super().__init__(config)
        self.embeddings = bert.BertEmbeddings(config)
        layers = (BertModLNLayer(config, i, self.is_decoder, self.modulated) for i in range(config.num_hidden_layers))
        self.layer = nn.ModuleList(layers)
        self.post_init()

    def embed(self, input_ids, inputs_embeds, position_ids):
        return self.embeddings(input_ids=input_ids, position_ids=position_ids, inputs_embeds=inputs_embeds)


class BertModLNDecoder(BertModLNEncoder):
    """BERT over the reply, where every token sees those before it."""

    is_decoder = True
    _can_record_outputs = BertModLNEncoder._can_record_outputs | {"cross_attentions": bert.BertCrossAttention}


class BertModLNModel(EncoderDecoder, BertModLNPreTrainedModel):
    """Two BERTs whose norms follow an emotion. Returns a [`Seq2SeqModelOutput`]."""

    sides = (BertModLNEncoder, BertModLNDecoder)


class BertModLNForConditionalGeneration(EmotionalGeneration, BertModLNPreTrainedModel):
    """Replies to a context in a given emotion. Returns a [`Seq2SeqLMOutput`]."""

    _tied_weights_keys = {
        "cls.predictions.decoder.weight": "model.decoder.embeddings.word_embeddings.weight",
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    }
    plain_class, head_name = transformers.BertForMaskedLM, "cls"

    def __init__(self, config: BertModLNConfig):
        super().__init__(config)
        self.model = BertModLNModel(config)
        self.cls = bert.BertOnlyMLMHead(config)
        self.post_init()

    def get_output_embeddings(self):
        return self.cls.predictions.decoder

    def set_output_embeddings(self, new_embeddings):
        self.cls.predictions.decoder = new_embeddings
        # Tied biases are one parameter. Untied ones are two: a checkpoint saves one parameter under one name, and lacks the other.
        tied = self.config.tie_word_embeddings
        self.cls.predictions.bias = new_embeddings.bias if tied else copy.deepcopy(new_embeddings.bias)


__all__ = [
    "BertModLNForConditionalGeneration",
    "BertModLNModel",
    "GPT2ModLNForConditionalGeneration",
    "GPT2ModLNModel",
    "ModulatedLayerNorm",
    "Modulators",
]
