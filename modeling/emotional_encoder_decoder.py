# SPDX-License-Identifier: Apache-2.0
"""What encoder-decoders with modulated norms share: emotions in, replies out, and how a checkpoint is wrapped.

Shapes: B batch, L tokens of the context, T tokens of the reply, E emotions, d hidden size, M modulated norms of a side, V
vocabulary.
"""

from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn import functional as F
from transformers import GenerationMixin, PreTrainedConfig
from transformers.modeling_outputs import BaseModelOutput, Seq2SeqLMOutput, Seq2SeqModelOutput
from transformers.utils.generic import can_return_tuple

from .adapter_checks import ChecksAdapters, refuse_without, saved_modules
from .checked_input import check_input, check_labels, warn_of_padding
from .emotion_fields import check_emotions, in_every_emotion, refuse_in_batches
from .fitting_checkpoints import HUB_ARGUMENTS
from .modulated_layer_norm import ModulatedLayerNorm, Modulators, carrying


if TYPE_CHECKING:
    from transformers import PreTrainedModel as _Model
else:
    _Model = object

# Fields of a plain configuration that say nothing about its encoder; the Trainer sets `use_cache` to False.
NOT_INHERITED = (
    *("is_decoder", "add_cross_attention", "tie_word_embeddings", "use_cache"),
    *PreTrainedConfig.__dataclass_fields__,
)


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


class ModulatedStack(_Model):
    """
    A base of encoders and decoders. `modulation` holds the modulators of all their modulated norms, None if there are none: c (B,
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


class TwoSides(ChecksAdapters):
    """
    A base of base models and heads. They refuse plain checkpoints, and adapters that would leave new weights untrained; and they
    resize the embeddings of both sides. `modules_of_new_weights`: the names of possibly new modules for PEFT's `modules_to_save`.
    """

    _new_weights: frozenset[str] = frozenset()  # names of parameters that were not in the checkpoint

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path, *model_args, output_loading_info=False, **kwargs):
        model, info = super().from_pretrained(
            pretrained_model_name_or_path, *model_args, output_loading_info=True, **kwargs
        )
        missing = set(info["missing_keys"])
        prefix = f"{cls.base_model_prefix}." if hasattr(model, cls.base_model_prefix) else ""
        # The encoder's weights would not tell: BERT's own layers have their names.
        if all(f"{prefix}decoder.{name}" in missing for name, _ in model.get_decoder().named_parameters()):
            raise ValueError(
                f"{pretrained_model_name_or_path!r} has no weights of an encoder-decoder. A plain checkpoint is wrapped with "
                "`from_encoder_decoder_pretrained`, a method of the ...ForConditionalGeneration class."
            )
        model._new_weights = frozenset(missing | {name for name, *_ in info["mismatched_keys"]})
        return (model, info) if output_loading_info else model

    def _check_adapter(self, name: str, config) -> None:
        sides = {"encoder": self.get_encoder(), "decoder": self.get_decoder()}
        unmoved = {
            f"{side}.modulation"
            for side, stack in sides.items()
            if stack.is_modulated and stack.modulation.ignores_emotions()
        }
        given = saved_modules(config)
        new = {f".{parameter}." for parameter in self._new_weights | unmoved}
        new = {parameter for parameter in new if not any(f".{module}." in parameter for module in given)}
        refuse_without(
            name, config, [m for m in self.modules_of_new_weights if any(f".{m}." in parameter for parameter in new)]
        )

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
            ValueError: both or neither of `emotion_ids` and `emotion_weights` if a side needs them, another shape, an id
                out of range; both or neither of ids and embeddings; an encoder's mask that is not (B, L).
        """
        if encoder_outputs is None:
            batch_size, _ = check_input(self.config, input_ids, inputs_embeds, attention_mask)
            warn_of_padding(self.config, input_ids, attention_mask)
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
        self._check_training()
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
            check_labels(labels, logits.shape[-1])
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
        hub = {name: kwargs[name] for name in HUB_ARGUMENTS if name in kwargs}
        plain_type = PreTrainedConfig.get_config_dict(base, **hub)[0].get("model_type")
        if plain_type != config_class.base_model_type:
            remedy = "; load it with `from_pretrained`" if plain_type == config_class.model_type else ""
            raise ValueError(
                f'{base!r} must be a checkpoint of type "{config_class.base_model_type}", got "{plain_type}"{remedy}.'
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
                    state[f"{owner}.{'scale' if part == 'weight' else 'shift'}_out"] = carrying(value)
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


__all__ = [
    "EmotionalGenerationMixin",
    "EncoderDecoder",
    "ModulatedStack",
    "TwoSides",
    "positions_of",
    "shift_right",
]
