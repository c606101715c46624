# SPDX-License-Identifier: Apache-2.0
"""
GPT-2 to GPT-2 and BERT to BERT with layer norms whose scale and shift follow an emotion (Liu et al. 2021): replies to a context in a given
emotion.

Shapes: B batch, L tokens of the context, T tokens of the reply, E emotions, d hidden size, M modulated norms of a side, V vocabulary.
"""

import copy
from collections.abc import Iterable, Mapping
from math import exp
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from transformers import (
    BertForMaskedLM,
    DynamicCache,
    EncoderDecoderCache,
    GenerationMixin,
    GPT2LMHeadModel,
    PreTrainedConfig,
    PreTrainedModel,
)
from transformers import initialization as init
from transformers.masking_utils import create_bidirectional_mask, create_causal_mask
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import (
    BaseModelOutput,
    BaseModelOutputWithPastAndCrossAttentions,
    Seq2SeqLMOutput,
    Seq2SeqModelOutput,
)
from transformers.models.bert.modeling_bert import (
    BertCrossAttention,
    BertEmbeddings,
    BertIntermediate,
    BertOnlyMLMHead,
    BertPreTrainedModel,
    BertSelfAttention,
)
from transformers.models.gpt2.modeling_gpt2 import GPT2MLP, GPT2Attention, GPT2PreTrainedModel
from transformers.processing_utils import Unpack
from transformers.utils import TransformersKwargs
from transformers.utils.generic import can_return_tuple, merge_with_config_defaults
from transformers.utils.output_capturing import OutputRecorder, capture_outputs

from .configuration_mod_ln import BertModLNConfig, GPT2ModLNConfig


SILU_OF_1 = 1 / (1 + exp(-1))
EMOTION_ARGUMENTS = ("emotion_ids", "emotion_weights", "emotion_modulation")

# Fields of a plain configuration that say nothing about its encoder; the Trainer sets `use_cache` to False.
NOT_INHERITED = (
    *("is_decoder", "add_cross_attention", "tie_word_embeddings", "use_cache"),
    *PreTrainedConfig.__dataclass_fields__,
)


# Emotions


def check_emotions(
    config, emotion_ids: torch.Tensor | None, emotion_weights: torch.Tensor | None, batch_size: int | None
) -> torch.Tensor:
    """
    The weights c (B, E) of the emotions: one-hot for ids, or the given weights, any mixture. `batch_size` None: any number of
    rows.
    """
    wanted = f"ids (batch_size,) in [0, {config.num_emotions}), or weights (batch_size, {config.num_emotions})"
    if (emotion_ids is None) == (emotion_weights is None):
        found = "neither" if emotion_ids is None else "both"
        raise ValueError(f"Pass exactly one of `emotion_ids` and `emotion_weights`, {wanted}; got {found}.")
    name, given = ("emotion_ids", emotion_ids) if emotion_weights is None else ("emotion_weights", emotion_weights)
    if not isinstance(given, torch.Tensor):
        raise ValueError(f"`{name}` must be a tensor, {wanted}; got {given!r}.")
    sizes = () if emotion_weights is None else (config.num_emotions,)
    rows = len(given) if batch_size is None and given.dim() else batch_size
    whole = emotion_weights is not None or not (given.is_floating_point() or given.dtype == torch.bool)
    if tuple(given.shape) != (rows, *sizes) or not whole:
        raise ValueError(
            f"`{name}` must hold {wanted}, for {'any number of' if rows is None else rows} rows; got {tuple(given.shape)} of {given.dtype}."
        )
    return F.one_hot(given.long(), config.num_emotions) if emotion_weights is None else emotion_weights


def refuse_in_batches(arguments: Mapping[str, Any]) -> None:
    """ValueError for emotions among the arguments of `generate_batch`, which hands none to the model."""
    for name in EMOTION_ARGUMENTS:
        if arguments.get(name) is not None:
            raise ValueError(
                f"`{name}` must not be given to `generate_batch`, which does not hand it to the model: pass all rows to `generate`, as one "
                "padded batch."
            )


def in_every_emotion(model, input_ids: torch.Tensor, attention_mask: torch.Tensor | None, **kwargs) -> torch.Tensor:
    """
    What `model.generate` writes for contexts in every emotion, all in one batch: (L,) or (B, L) -> (E, T) or (B, E, T); with
    `num_return_sequences` R > 1 (E, R, T) or (B, E, R, T).
    """
    emotions = model.config.num_emotions
    ids = torch.atleast_2d(input_ids)
    rows = {"attention_mask": attention_mask}
    rows |= {name: kwargs.get(name) for name in ("decoder_input_ids", "decoder_attention_mask")}
    for name, value in rows.items():
        if value is not None:
            kwargs[name] = torch.atleast_2d(value).repeat_interleave(emotions, dim=0)
    outputs = model.generate(
        input_ids=ids.repeat_interleave(emotions, dim=0),
        emotion_ids=torch.arange(emotions, device=ids.device).repeat(len(ids)),
        **kwargs,
    )
    sequences = outputs if isinstance(outputs, torch.Tensor) else outputs.sequences  # (B·E·R, T)
    replies = len(sequences) // (len(ids) * emotions)
    sizes = (*input_ids.shape[:-1], emotions, *([replies] if replies > 1 else []))
    return sequences.view(*sizes, sequences.shape[-1])


# Norms


class Modulators(nn.Module):
    r"""
    What an emotion adds to the scale and the shift of each of M norms, where c (B, E) weighs the emotions (eqs. 1-3):

        MLP_γ(c) = W₂ SiLU(W₁ c)         MLP_β(c) = W₂' SiLU(W₁' c + b)

    with W₁ (d/2, E), W₂ (d, d/2) for each norm. The bias b is in β, as in eq. 3 (the text beside it says γ).

    `modulation="residual"`: γ = weight + MLP_γ(c), β = bias + MLP_β(c), with the norm's own weight and bias. W₂ and W₂' start at
    0: the norm is then `nn.LayerNorm` with the same `weight` and `bias`.

    `modulation="replace"`: γ = MLP_γ(c), β = MLP_β(c). The first hidden unit carries the start: there W₁ c is the sum of c and
    W₁' c + b is 1; the other columns of W₂ and W₂' are 0. So for weights that sum to 1 the start is γ = 1 and β = 0, or the
    values given by [`carrying`].

    They are the same for all tokens of a row, so they are computed apart from the normalisation, and for all norms at once:

        scale, shift = modulators(c).unbind(dim=1)  # for one norm: (B, 1, d) each
        x = norm(x, scale, shift)

    The module holds all weights itself: weights that are read outside their module's `forward` can be neither offloaded nor
    sharded.

    Args:
        names (`Iterable[str]`): names of the norms, in the order of the result; the weights are named after them.
        size (`int`): d.
        num_emotions (`int`): E.
        modulation (`"residual"` or `"replace"`): as above.
    """

    # W₁ and W₂ of γ; W₁, b and W₂ of β.
    parts = ("scale_in", "scale_out", "shift_in", "shift_bias", "shift_out")
    _anew = False  # whether some of the weights came from no checkpoint

    def __init__(self, names: Iterable[str], size: int, num_emotions: int, modulation: str = "residual"):
        check_modulation(modulation)
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
        """One part of the weights, for each norm."""
        return [getattr(self, f"{name}_{part}") for name in self.names]

    @torch.no_grad()
    def reset(self, std: float = 0.2) -> None:
        """Set the start described above, with W₁ and W₁' from N(0, std²); loaded weights are kept."""
        for scale_in, scale_out, shift_in, shift_bias, shift_out in zip(*map(self.of, self.parts), strict=True):
            init.normal_(scale_in, mean=0.0, std=std)
            init.normal_(shift_in, mean=0.0, std=std)
            for parameter in (scale_out, shift_bias, shift_out):
                init.zeros_(parameter)
            if self.replace:
                for parameter, first in ((scale_in, 1.0), (shift_in, 0.0), (shift_bias, 1.0)):
                    init.copy_(parameter, torch.cat([torch.full_like(parameter[:1], first), parameter[1:]]))
                init.copy_(scale_out, carrying(torch.ones_like(scale_out[:, 0])))

    def ignores_emotions(self) -> bool:
        """
        Whether the result is the same for all emotions, as at the start; False if the weights are not here (meta device, shards).
        """
        weights = [*self.of("scale_out"), *self.of("shift_out")]
        if any(weight.dim() != 2 or weight.is_meta for weight in weights):
            return False
        return not any(weight[:, int(self.replace) :].any() for weight in weights)

    @property
    def is_new(self) -> bool:
        """Whether it has learnt nothing yet, see `refuse_untrained`."""
        return self._anew or self.ignores_emotions()

    def forward(self, emotion_weights: torch.Tensor) -> torch.Tensor:
        """
        c (B, E) -> MLP_γ and MLP_β of the first norm, then of the second, ... (B, 2M, 1, d).

        The narrow first layers of all norms are computed as one.
        """
        scale_out, shift_out = self.of("scale_out"), self.of("shift_out")
        emotion_weights = emotion_weights.to(scale_out[0])  # its dtype and device
        hidden = scale_out[0].shape[1]
        inner_scales = F.silu(F.linear(emotion_weights, torch.cat(self.of("scale_in"))))  # (B, M·d/2)
        inner_shifts = F.silu(
            F.linear(emotion_weights, torch.cat(self.of("shift_in")), torch.cat(self.of("shift_bias")))
        )
        parts = []
        for inner_scale, scale, inner_shift, shift in zip(
            inner_scales.split(hidden, dim=1), scale_out, inner_shifts.split(hidden, dim=1), shift_out, strict=True
        ):
            parts += [F.linear(inner_scale, scale), F.linear(inner_shift, shift)]
        return torch.stack(parts, dim=1)[:, :, None]


class ModulatedLayerNorm(nn.LayerNorm):
    r"""
    x̂ = γ · (x − μ) / √(var + ε) + β with the γ and β of [`Modulators`]. With `modulation="residual"` it has a `weight` and a `bias`,
    to which they are added. The paper divides by σ + ε; √(var + ε) keeps the meaning of pretrained weights.
    """

    def __init__(self, size: int, eps: float = 1e-5, modulation: str = "residual"):
        check_modulation(modulation)
        super().__init__(size, eps=eps, elementwise_affine=modulation == "residual")

    def forward(self, states: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
        """x (B, L, d), and what the emotion gives for scale and shift (B, 1, d) -> (B, L, d)."""
        if self.weight is not None:
            scale, shift = scale + self.weight, shift + self.bias
        return torch.addcmul(shift, F.layer_norm(states, self.normalized_shape, eps=self.eps), scale)


def carrying(value: torch.Tensor) -> torch.Tensor:
    """(d,) -> W₂ (d, d/2), with which a norm without `weight` starts at this value, by its first hidden unit."""
    columns = value.new_zeros(len(value), len(value) // 2)
    columns[:, 0] = value / SILU_OF_1
    return columns


def check_modulation(modulation: str) -> None:
    """ValueError unless it is one of the two."""
    if modulation not in ("residual", "replace"):
        raise ValueError(f'`modulation` must be "residual" or "replace", got {modulation!r}.')


def normalise(norm: nn.Module, states: torch.Tensor, modulation: tuple[torch.Tensor, ...], slot: int | None):
    """Apply a norm with its slot in `modulation` (scale, shift, scale, shift, ...), or a plain one if `slot` is None."""
    return norm(states) if slot is None else norm(states, modulation[2 * slot], modulation[2 * slot + 1])


# What both architectures share: the two sides


def shift_right(labels: torch.Tensor, start: int, pad: int) -> torch.Tensor:
    """What the decoder reads (B, T) to predict `labels` (B, T): the token before each; -100 becomes `pad`."""
    shifted = torch.cat([torch.full_like(labels[:, :1], start), labels[:, :-1]], dim=1)
    return shifted.masked_fill(shifted == -100, pad)


def positions_of(attention_mask: torch.Tensor | None, length: int, past: int, device: torch.device) -> torch.Tensor:
    """
    (B, length) or (1, length), the position of each of the last `length` tokens among the real ones; padding may be on either
    side.
    """
    if attention_mask is None or attention_mask.dim() != 2:
        return torch.arange(length, device=device)[None] + past
    return (attention_mask.long().cumsum(dim=1) - 1).clamp(min=0)[:, -length:]


# Copied from modeling_label_aware.input_shape
def input_shape(
    input_ids: torch.Tensor | None, inputs_embeds: torch.Tensor | None, positions: int | None = None
) -> tuple[int, int]:
    """
    (B, L) of ids (B, L) or embeddings (B, L, d); ValueError unless exactly one is given, with that many dimensions, a row, and at least
    one and at most `positions` tokens.
    """
    if (input_ids is None) == (inputs_embeds is None):
        raise ValueError("Pass exactly one of `input_ids` and `inputs_embeds`.")
    name, axes = ("input_ids", 2) if inputs_embeds is None else ("inputs_embeds", 3)
    given: Any = input_ids if inputs_embeds is None else inputs_embeds
    if given.dim() != axes:
        raise ValueError(f"`{name}` must have {axes} dimensions, batch and tokens first; got {tuple(given.shape)}.")
    rows, length = given.shape[0], given.shape[1]
    if not torch.compiler.is_compiling() and not (rows and 0 < length <= (positions or length)):
        raise ValueError(
            f"`{name}` must have a row, and from 1 to {positions or 'any number of'} tokens; got {rows, length}."
        )
    return rows, length


# Children with weights that a plain checkpoint lacks. The last is the head's of BERT.
NEW_MODULES = ("modulation", "ln_cross_attn", "crossattention", "transform")


# Copied from modeling_label_aware.refuse_untrained
def refuse_untrained(model: nn.Module) -> None:
    """
    ValueError if PEFT trains adapters and leaves weights of `NEW_MODULES` as they started, at random: `_init_weights` marks modules
    whose weights came from no checkpoint (`is_new`).
    """
    if not getattr(model, "peft_config", None) or not any(p.requires_grad for p in model.parameters()):
        return
    lacking = set()
    for name, module in model.named_modules():
        parts = [part for part in name.split(".") if part in NEW_MODULES]
        if parts and getattr(module, "is_new", False) and "original_module" not in name:
            if not all(parameter.requires_grad for parameter in module.parameters(recurse=False)):
                lacking.add(parts[0])
    if lacking:
        raise ValueError(
            f"the adapter neither trains nor saves new weights of the model: load the model anew, and name {sorted(lacking)} in the "
            "`modules_to_save` of the adapter's configuration."
        )


class ModulatedWeights(PreTrainedModel):
    """What all models share, to name first: how modulators start."""

    @torch.no_grad()
    def _init_weights(self, module):
        super()._init_weights(module)
        if isinstance(module, Modulators):
            module.reset(self.config.modulation_initializer_range)
            module._anew = True
        else:
            module.is_new = True

    def train(self, mode: bool = True):
        if mode:
            refuse_untrained(self)
        return super().train(mode)


class ModulatedStack(PreTrainedModel):
    """
    What encoders and decoders share, to name first. Both architectures have `blocks`, and `embed` for ids or embeddings with positions.
    `modulation` holds the modulators of all their modulated norms, None if there are none: c (B,
    E) -> what is added to scale and shift of the first norm, then of the second, ... (B, 2M, 1, d).
    """

    modulation: Modulators | None

    def post_init(self):
        names = [name for name, module in self.named_modules() if isinstance(module, ModulatedLayerNorm)]
        sizes = (self.config.hidden_size, self.config.num_emotions, self.config.modulation)
        self.modulation = Modulators(names, *sizes) if names else None
        super().post_init()

    @property
    def is_modulated(self) -> bool:
        return self.modulation is not None

    def modulation_parts(
        self,
        batch_size: int,
        emotion_ids: torch.Tensor | None,
        emotion_weights: torch.Tensor | None,
        modulation: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, ...]:
        """2M tensors (B, 1, d); none for a side without modulated norms, which needs no emotions."""
        if self.modulation is None:
            return ()
        if modulation is None:
            modulation = self.modulation(check_emotions(self.config, emotion_ids, emotion_weights, batch_size))
        elif modulation.shape[0] != batch_size:
            raise ValueError(f"there must be emotions for each of the {batch_size} rows, got {modulation.shape[0]}.")
        return modulation.unbind(dim=1)

    def run(self, hidden_states, encoder_hidden_states, modulation, **kwargs) -> torch.Tensor:
        """(B, T, d), (B, L, d) or None, and scale and shift of all norms -> (B, T, d)."""
        own = 2 * sum(slot is not None for slot in self.blocks[0].slots.values()) if len(self.blocks) else 0
        for index, block in enumerate(self.blocks):
            parts = modulation[own * index : own * (index + 1)]
            hidden_states = block(hidden_states, encoder_hidden_states, *parts, **kwargs)
        return self.last_norm(hidden_states, modulation[own * len(self.blocks) :])

    def last_norm(self, hidden_states, modulation):
        return hidden_states


class ModulatedEncoder(ModulatedStack):
    """`forward` of the encoders."""

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
        """For the arguments see [`EncoderDecoder.forward`]."""
        batch_size, length = input_shape(input_ids, inputs_embeds, self.config.max_position_embeddings)
        modulation = self.modulation_parts(batch_size, emotion_ids, emotion_weights)
        states = self.embed(input_ids, inputs_embeds, attention_mask, length, 0, None)
        mask = self.mask(states, attention_mask)
        return BaseModelOutput(last_hidden_state=self.run(states, None, modulation, attention_mask=mask, **kwargs))


class ModulatedDecoder(ModulatedStack):
    """`forward` of the decoders, with cross-attention to all states of the encoder."""

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
        """For the arguments see [`EncoderDecoder.forward`]; here they lack the prefix `decoder_`."""
        batch_size, length = input_shape(input_ids, inputs_embeds, self.config.max_position_embeddings)
        parts = self.modulation_parts(batch_size, emotion_ids, emotion_weights, modulation)
        if use_cache and past_key_values is None:
            past_key_values = EncoderDecoderCache(DynamicCache(config=self.config), DynamicCache(config=self.config))
        past = 0 if past_key_values is None else past_key_values.get_seq_length()
        states = self.embed(input_ids, inputs_embeds, attention_mask, length, past, position_ids)
        own_cache = None if past_key_values is None else past_key_values.self_attention_cache
        mask = create_causal_mask(self.config, states, attention_mask, past_key_values=own_cache)
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


class TwoSides(PreTrainedModel):
    """What base models and heads share, to name first."""

    def resize_token_embeddings(
        self, new_num_tokens=None, pad_to_multiple_of=None, mean_resizing=True
    ) -> nn.Embedding:
        """Resize the embeddings of both sides, and of the head if there is one."""
        self.get_decoder().resize_token_embeddings(new_num_tokens, pad_to_multiple_of, mean_resizing)
        return super().resize_token_embeddings(new_num_tokens, pad_to_multiple_of, mean_resizing)


class EncoderDecoder(TwoSides):
    """`forward` of the base models, which have an `encoder` and a `decoder`."""

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
        encoder_outputs: BaseModelOutput | tuple[torch.FloatTensor, ...] | None = None,
        past_key_values=None,
        inputs_embeds: torch.FloatTensor | None = None,
        decoder_inputs_embeds: torch.FloatTensor | None = None,
        decoder_position_ids: torch.LongTensor | None = None,
        decoder_modulation: torch.FloatTensor | None = None,
        use_cache: bool | None = None,
        **kwargs,
    ) -> Seq2SeqModelOutput:
        r"""
        Args:
            input_ids, attention_mask, inputs_embeds: (B, L), the context and which of its tokens are real; padding may be on
                either side.
            decoder_input_ids, decoder_attention_mask, decoder_inputs_embeds: (B, T), the reply so far.
            emotion_ids: (B,), the emotion of each reply, in [0, `num_emotions`).
            emotion_weights: (B, E), instead of `emotion_ids`: any mixture of emotions, of any intensity.
            encoder_outputs: the encoder's outputs of an earlier call, instead of the context.
            past_key_values: an `EncoderDecoderCache`.
            decoder_position_ids: (B, T); default: from the mask.
            decoder_modulation: (B, 2M, 1, d), the result of `decoder.modulation`, instead of the emotions for this side.

        Raises:
            ValueError: both or neither of `emotion_ids` and `emotion_weights` if a side needs them; both or neither of ids and
                embeddings; a shape that does not fit.
        """
        if encoder_outputs is None:
            batch_size, length = input_shape(input_ids, inputs_embeds)
            if attention_mask is not None and attention_mask.shape != (batch_size, length):
                raise ValueError(
                    f"`attention_mask` must have shape {(batch_size, length)}, got {tuple(attention_mask.shape)}."
                )
        else:
            batch_size = len(encoder_outputs[0])
        if (encoder_outputs is None and self.encoder.is_modulated) or (
            decoder_modulation is None and self.decoder.is_modulated
        ):  # checked once for both sides
            emotion_weights = check_emotions(self.config, emotion_ids, emotion_weights, batch_size)
        if encoder_outputs is None:
            encoded = self.encoder(
                input_ids=input_ids,
                attention_mask=attention_mask,
                inputs_embeds=inputs_embeds,
                emotion_weights=emotion_weights,
                return_dict=True,
                **kwargs,
            )
        elif isinstance(encoder_outputs, BaseModelOutput):
            encoded = encoder_outputs
        else:
            names = ("last_hidden_state", "hidden_states", "attentions")
            encoded = BaseModelOutput(**dict(zip(names, encoder_outputs, strict=False)))
        decoder_outputs = self.decoder(
            input_ids=decoder_input_ids,
            attention_mask=decoder_attention_mask,
            encoder_hidden_states=encoded.last_hidden_state,
            encoder_attention_mask=attention_mask,
            inputs_embeds=decoder_inputs_embeds,
            emotion_weights=emotion_weights,
            modulation=decoder_modulation,
            past_key_values=past_key_values,
            position_ids=decoder_position_ids,
            use_cache=use_cache,
            return_dict=True,
            **kwargs,
        )
        return Seq2SeqModelOutput(
            last_hidden_state=decoder_outputs.last_hidden_state,
            past_key_values=decoder_outputs.past_key_values,
            decoder_hidden_states=decoder_outputs.hidden_states,
            decoder_attentions=decoder_outputs.attentions,
            cross_attentions=decoder_outputs.cross_attentions,
            encoder_last_hidden_state=encoded.last_hidden_state,
            encoder_hidden_states=encoded.hidden_states,
            encoder_attentions=encoded.attentions,
        )


class EmotionalGenerationMixin(TwoSides, GenerationMixin):
    """
    A base of heads: loss, generation and the wrapping of plain checkpoints. A head has a `model`, `_logits` (B, T, d) -> (B,
    T, V), and a `plain_class`; `_wrapped` maps that class's weights to names in the head.
    """

    def _set_decoding(self) -> None:
        """Set the paper's decoding: top-k sampling, k = 10."""
        self.generation_config.update(do_sample=True, top_k=10)

    def get_input_embeddings(self):
        return self.model.get_input_embeddings()

    def set_input_embeddings(self, value):
        self.model.set_input_embeddings(value)

    def save_pretrained(self, *args, **kwargs):
        """
        Save the model. When PEFT merges LoRA it takes the head for untied, because it compares it with the encoder's
        embeddings.
        """
        if self.get_output_embeddings().weight is self.get_decoder().get_input_embeddings().weight:
            self.config.tie_word_embeddings = True
        super().save_pretrained(*args, **kwargs)

    def prepare_decoder_input_ids_from_labels(self, labels: torch.Tensor) -> torch.Tensor:
        return shift_right(labels, self.config.decoder_start_token_id, self.config.pad_token_id)

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
        encoder_outputs: BaseModelOutput | tuple[torch.FloatTensor, ...] | None = None,
        past_key_values=None,
        inputs_embeds: torch.FloatTensor | None = None,
        decoder_inputs_embeds: torch.FloatTensor | None = None,
        decoder_position_ids: torch.LongTensor | None = None,
        decoder_modulation: torch.FloatTensor | None = None,
        use_cache: bool | None = None,
        num_items_in_batch: torch.Tensor | int | None = None,
        **kwargs,
    ) -> Seq2SeqLMOutput:
        r"""
        Args:
            labels: (B, T), the tokens of the reply and its end token; -100 at padding. Find padding by the attention mask, not by
                the padding id, which is also GPT-2's end of text. Without `decoder_input_ids` the decoder reads the labels shifted
                to the right.
            num_items_in_batch: number of labels over all accumulation steps, by which the loss is divided; default: the
                labels of this batch.

        For the other arguments see the base model.
        """
        # Training needs no cache; with label smoothing it passes no labels.
        if labels is not None or (self.training and use_cache is None):
            use_cache = False
        if labels is not None and decoder_input_ids is None and decoder_inputs_embeds is None:
            decoder_input_ids = self.prepare_decoder_input_ids_from_labels(labels)
        outputs = self.model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            decoder_input_ids=decoder_input_ids,
            decoder_attention_mask=decoder_attention_mask,
            emotion_ids=emotion_ids,
            emotion_weights=emotion_weights,
            encoder_outputs=encoder_outputs,
            past_key_values=past_key_values,
            inputs_embeds=inputs_embeds,
            decoder_inputs_embeds=decoder_inputs_embeds,
            decoder_position_ids=decoder_position_ids,
            decoder_modulation=decoder_modulation,
            use_cache=use_cache,
            return_dict=True,
            **kwargs,
        )
        logits = self._logits(outputs.last_hidden_state)  # (B, T, V)
        loss = None
        if labels is not None:
            if labels.shape != logits.shape[:2]:
                raise ValueError(f"`labels` must have shape {tuple(logits.shape[:2])}, got {tuple(labels.shape)}.")
            labels = labels.to(logits.device, torch.long)
            total = F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten(), ignore_index=-100, reduction="sum")
            if num_items_in_batch is None:
                num_items_in_batch = (labels != -100).sum()
            # Batches without a label have none to divide by.
            loss = total / torch.as_tensor(num_items_in_batch, device=total.device).clamp(min=1)
        return Seq2SeqLMOutput(
            loss=loss, logits=logits, **{k: v for k, v in outputs.items() if k != "last_hidden_state"}
        )

    @torch.no_grad()
    def generate(self, inputs: torch.Tensor | None = None, generation_config=None, *args, **kwargs):
        """[`GenerationMixin.generate`] with `emotion_ids` (B,) or `emotion_weights` (B, E); γ and β are computed once,
        or at each step if an `assistant_model` drafts."""
        self._refuse_guidance(generation_config, kwargs)
        decoder = self.get_decoder()
        # An assistant gets the same arguments but has its own γ and β, so both models compute them at each step.
        alone = kwargs.get("assistant_model") is None
        if alone and decoder.is_modulated and kwargs.get("decoder_modulation") is None:
            rows = [t for t in (inputs, kwargs.get("input_ids"), kwargs.get("inputs_embeds")) if t is not None]
            weights = check_emotions(
                self.config, kwargs.get("emotion_ids"), kwargs.get("emotion_weights"), len(rows[0]) if rows else None
            )
            # The batch is the first dimension, so `generate` repeats the tensor for each beam or sample of a row.
            kwargs["decoder_modulation"] = decoder.modulation(weights)
        return super().generate(inputs, generation_config, *args, **kwargs)

    def generate_batch(self, *args, **kwargs):
        """As in every model of transformers, without an emotion; ValueError if one is given."""
        refuse_in_batches(kwargs)
        return super().generate_batch(*args, **kwargs)

    def _refuse_guidance(self, generation_config, arguments: dict) -> None:
        """ValueError for classifier-free guidance: it subtracts a run without an emotion, which the model does not have."""
        configs = (generation_config, self.generation_config)
        scales = (arguments.get("guidance_scale"), *(getattr(config, "guidance_scale", None) for config in configs))
        scale = next((scale for scale in scales if scale is not None), 1)
        given = {"guidance_scale": scale} if scale != 1 else {}
        for name in ("negative_prompt_ids", "negative_prompt_attention_mask"):
            if arguments.get(name) is not None:
                given[name] = f"a tensor of shape {tuple(arguments[name].shape)}"
        for name, value in given.items():
            raise ValueError(
                f"`{name}` must not be given, got {value}: guidance subtracts a run without an emotion, which the model does "
                "not have. For more of an emotion, pass `emotion_weights` above 1."
            )

    def prepare_inputs_for_generation(self, input_ids, *args, **kwargs):
        # Done before a static cache turns the mask into a four-dimensional one, from which positions cannot be read.
        mask = kwargs.get("decoder_attention_mask")
        if mask is not None and mask.dim() == 2 and kwargs.get("decoder_position_ids") is None:
            kwargs["decoder_position_ids"] = positions_of(mask, mask.shape[1], 0, mask.device)
        return super().prepare_inputs_for_generation(input_ids, *args, **kwargs)

    def generate_all_emotions(
        self, input_ids: torch.LongTensor, attention_mask: torch.Tensor | None = None, **kwargs
    ) -> torch.LongTensor:
        """
        Generate a reply in every emotion, all in one batch; the encoder runs once for each context if it is not modulated.

        Args:
            input_ids, attention_mask: (L,), one context, or (B, L).
            kwargs: arguments of `generate`.

        Returns:
            (E, T) for one context, (B, E, T) for several; (E, R, T) or (B, E, R, T) with `num_return_sequences` R > 1.
        """
        decoder, encoder = self.get_decoder(), self.get_encoder()
        if not decoder.is_modulated and not encoder.is_modulated:
            raise ValueError("no norm of the model is modulated: its reply is the same for every emotion.")
        if not encoder.is_modulated:
            mask = None if attention_mask is None else torch.atleast_2d(attention_mask)
            with torch.no_grad():
                encoded = encoder(input_ids=torch.atleast_2d(input_ids), attention_mask=mask, return_dict=True)
            kwargs["encoder_outputs"] = BaseModelOutput(
                last_hidden_state=encoded.last_hidden_state.repeat_interleave(
                    self.config.num_emotions, dim=0
                )  # (B·E, L, d)
            )
        return in_every_emotion(self, input_ids, attention_mask, **kwargs)

    @classmethod
    def from_encoder_decoder_pretrained(
        cls, base: str, *, tokenizer=None, output_loading_info: bool = False, attn_implementation=None, **kwargs
    ) -> Any:
        """
        Make an encoder-decoder. Both sides start as the plain checkpoint `base`. New are the weights that it lacks: the modulation
        of the norms, cross-attention, and the head's own layers if the checkpoint has no head.

        With `modulation="residual"` every emotion starts with the norms of the checkpoint, with `"replace"` every emotion
        whose weights sum to 1. PEFT's `modules_to_save` must name the new modules; the error of an adapter without it says
        which line to use.

        Args:
            base (`str`): folder or Hub id.
            tokenizer: gives the ids of the special tokens, for checkpoints whose vocabulary is not the published one.
            output_loading_info (`bool`): return (model, report); `missing_keys` of the report are the new parameters.
            attn_implementation (`str`, *optional*): as in `from_pretrained`.
            kwargs: fields of the configuration (`num_emotions=...`); the others go to `from_pretrained` (`dtype`, `revision`,
                ...).
        """
        config_class = cls.config_class
        found = PreTrainedConfig.get_config_dict(base, **kwargs)[0].get("model_type")
        if found != config_class.base_model_type:
            remedy = "; load it with `from_pretrained`" if found == config_class.model_type else ""
            raise ValueError(
                f"{base!r} must be a checkpoint of {config_class.base_model_type!r}, got {found!r}{remedy}."
            )
        given = {} if tokenizer is None else config_class.token_ids(tokenizer)
        for name in list(kwargs):
            if name in config_class.__dataclass_fields__ and name != "dtype":
                given[name] = kwargs.pop(name)
        plain, info = cls.plain_class.from_pretrained(base, output_loading_info=True, **kwargs)
        inherited = {
            name: getattr(plain.config, name)
            for name in plain.config.__dataclass_fields__
            if name in config_class.__dataclass_fields__ and name not in NOT_INHERITED
        }
        inherited = {name: value for name, value in inherited.items() if value is not None}
        config = config_class(**{**inherited, **given})
        with torch.device("meta"):
            empty = cls(config)
        places = empty.state_dict().keys()
        modulated = {name for name, module in empty.named_modules() if isinstance(module, ModulatedLayerNorm)}
        state = {}
        for name, value in plain.state_dict().items():
            if name in info["missing_keys"]:
                continue
            for place in cls._wrapped(name):
                owner, _, part = place.rpartition(".")
                if place in places:
                    state[place] = value.clone()  # the sides share no memory
                elif owner in modulated:  # the emotion replaces scale and shift of this norm
                    base, side, norm = owner.split(".", maxsplit=2)
                    slot = f"{base}.{side}.modulation.{norm.replace('.', '_')}"
                    state[f"{slot}_{'scale' if part == 'weight' else 'shift'}_out"] = carrying(value)
        model, report = cls.from_pretrained(
            None,
            config=config,
            state_dict=state,
            dtype=plain.dtype,
            attn_implementation=attn_implementation,
            output_loading_info=True,
        )
        model.name_or_path = model.config.name_or_path = ""  # not "None", which PEFT would look for on the Hub
        return (model, report) if output_loading_info else model


# GPT-2


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


class GPT2ModLNPreTrainedModel(ModulatedWeights, GPT2PreTrainedModel):
    config: GPT2ModLNConfig
    config_class = GPT2ModLNConfig
    base_model_prefix = "model"
    _no_split_modules = ["GPT2ModLNBlock"]
    _no_weight_decay_parameters = ("modulation.",)
    _can_record_outputs: dict[str, Any] = {}


class GPT2ModLNStack(ModulatedStack):
    """What both sides of GPT-2 share, to name first."""

    _input_embed_layer = "wte"

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

    @property
    def blocks(self) -> nn.ModuleList:
        return self.h

    def embed(self, input_ids, inputs_embeds, attention_mask, length, past, position_ids):
        states = self.wte(input_ids) if inputs_embeds is None else inputs_embeds
        if position_ids is None:
            position_ids = positions_of(attention_mask, length, past, states.device)
        return self.drop(states + self.wpe(position_ids).to(states.device))

    def last_norm(self, hidden_states, modulation):
        return normalise(self.ln_f, hidden_states, modulation, 0 if modulation else None)


class GPT2ModLNEncoder(GPT2ModLNStack, ModulatedEncoder, GPT2ModLNPreTrainedModel):
    """GPT-2 over the context; like GPT-2, every token sees those before it."""

    _can_record_outputs = {
        "hidden_states": GPT2ModLNBlock,
        "attentions": OutputRecorder(GPT2Attention, layer_name=".attn", index=1),
    }

    def __init__(self, config: GPT2ModLNConfig):
        super().__init__(config, decoder=False, modulated=config.modulate_encoder)

    def mask(self, states, attention_mask):
        return create_causal_mask(self.config, states, attention_mask, past_key_values=None)


class GPT2ModLNDecoder(GPT2ModLNStack, ModulatedDecoder, GPT2ModLNPreTrainedModel):
    """GPT-2 over the reply."""

    _can_record_outputs = {
        "hidden_states": GPT2ModLNBlock,
        "attentions": OutputRecorder(GPT2Attention, layer_name=".attn", index=1),
        "cross_attentions": OutputRecorder(GPT2Attention, layer_name=".crossattention", index=1),
    }

    def __init__(self, config: GPT2ModLNConfig):
        super().__init__(config, decoder=True, modulated=config.modulate_decoder)


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
        quantization: Any = getattr(config, "quantization_config", None) or {}
        quantization = quantization if isinstance(quantization, dict) else vars(quantization)
        if quantization.get("quant_method") == "torchao":
            raise ValueError(
                "`quantization_config` must not be torchao's: it quantizes `nn.Linear` alone, and GPT-2's layers are `Conv1D`. Take "
                "bitsandbytes, or a generator over BERT or over a Llama-like model."
            )
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


# BERT


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


class BertModLNPreTrainedModel(ModulatedWeights, BertPreTrainedModel):
    config: BertModLNConfig
    config_class = BertModLNConfig
    base_model_prefix = "model"
    _can_compile_fullgraph = True
    # The head too: Accelerate 1.15 raises an IndexError where it has to split it, for it shares weights with the embeddings.
    _no_split_modules = ["BertEmbeddings", "BertModLNLayer", "BertOnlyMLMHead"]
    _no_weight_decay_parameters = ("modulation.",)
    _skip_keys_device_placement = ["past_key_values"]
    _can_record_outputs: dict[str, Any] = {}


class BertModLNStack(ModulatedStack):
    """What both sides of BERT share, to name first."""

    _input_embed_layer = "word_embeddings"

    def __init__(self, config: BertModLNConfig, decoder: bool, modulated: bool):
        super().__init__(config)
        self.embeddings = BertEmbeddings(config)
        self.layer = nn.ModuleList(
            BertModLNLayer(config, index, decoder, modulated) for index in range(config.num_hidden_layers)
        )
        self.gradient_checkpointing = False
        self.post_init()

    @property
    def blocks(self) -> nn.ModuleList:
        return self.layer

    def embed(self, input_ids, inputs_embeds, attention_mask, length, past, position_ids):
        if position_ids is None:
            device = (input_ids if inputs_embeds is None else inputs_embeds).device
            position_ids = positions_of(attention_mask, length, past, device)
        return self.embeddings(input_ids=input_ids, position_ids=position_ids, inputs_embeds=inputs_embeds)


class BertModLNEncoder(BertModLNStack, ModulatedEncoder, BertModLNPreTrainedModel):
    """BERT over the context."""

    _can_record_outputs = {"hidden_states": BertModLNLayer, "attentions": BertSelfAttention}

    def __init__(self, config: BertModLNConfig):
        super().__init__(config, decoder=False, modulated=config.modulate_encoder)

    def mask(self, states, attention_mask):
        return create_bidirectional_mask(self.config, states, attention_mask)


class BertModLNDecoder(BertModLNStack, ModulatedDecoder, BertModLNPreTrainedModel):
    """BERT over the reply, where every token sees those before it."""

    _can_record_outputs = {
        "hidden_states": BertModLNLayer,
        "attentions": BertSelfAttention,
        "cross_attentions": BertCrossAttention,
    }

    def __init__(self, config: BertModLNConfig):
        super().__init__(config, decoder=True, modulated=config.modulate_decoder)


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
    "BertModLNForConditionalGeneration",
    "BertModLNModel",
    "GPT2ModLNForConditionalGeneration",
    "GPT2ModLNModel",
]
