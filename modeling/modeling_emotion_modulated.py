# SPDX-License-Identifier: Apache-2.0
"""A decoder-only language model whose norms follow an emotion (Liu et al. 2021): replies to a context in a given emotion.

Shapes: B batch, L tokens, E emotions, M modulated norms, S = M or (with a shift) 2M, h hidden size of the MLPs, d hidden size.
"""

import copy
import inspect
import os
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from os import PathLike
from typing import Any, Self

import torch
from torch import nn
from torch.nn import functional as F
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, GenerationConfig
from transformers import initialization as init
from transformers.modeling_utils import PreTrainedModel, load_state_dict
from transformers.models.auto import modeling_auto
from transformers.utils import cached_file
from transformers.utils.generic import can_return_tuple

from .common import AdaptedModel, EmotionGenerationMixin, check_emotions, real_positions, warn_if_untested
from .configuration_emotion_modulated import EmotionModulatedConfig


EMOTION_ARGUMENTS = ("emotion_ids", "emotion_weights", "emotion_modulation")
# What language models override in `generate`: their inputs, their cache, and whether drafts can be taken back.
GENERATION_HOOKS = (
    "_can_compile_fullgraph",
    "_is_stateful",
    "_prepare_cache_for_generation",
    "_supports_logits_to_keep",
    "_update_model_kwargs_for_generation",
    "prepare_inputs_for_generation",
)
HUB_ARGUMENTS = ("cache_dir", "force_download", "local_files_only", "proxies", "revision", "subfolder", "token")


class EmotionModulation(nn.Module):
    r"""
    All modulators of a model (eqs. 2 and 3 of Liu et al. 2021, without the bias b), which owns their weights:

        Δγ(c) = W₂ SiLU(W₁ c)        Δβ(c) = W₂' SiLU(W₁' c)

    with W₁ (h, E), W₂ (d, h) for each norm. W₂ starts at 0, so that every emotion starts as the language model; c = 0 always is the
    language model.
    """

    def __init__(self, config: EmotionModulatedConfig, norms: int):
        super().__init__()
        self.std = float(config.modulation_initializer_range)
        slots, hidden = 2 * norms if config.shift else norms, config.modulation_size
        # W₁ of each Δγ, then of each Δβ; W₂ likewise.
        self.input_weight = nn.Parameter(torch.empty(slots, hidden, config.num_emotions))
        self.output_weight = nn.Parameter(torch.empty(slots, config.hidden_size, hidden))
        self.reset_parameters()

    @property
    def is_new(self) -> bool:
        """Whether it has learnt nothing yet, see `new_modules`."""
        return not self.output_weight.is_meta and not self.output_weight.any()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Set the start; loaded weights are kept."""
        init.normal_(self.input_weight, mean=0.0, std=self.std)
        init.zeros_(self.output_weight)

    def forward(self, emotion_weights: torch.Tensor) -> torch.Tensor:
        """c (B, E) -> Δγ of each norm, then Δβ of each norm (B, S, 1, d)."""
        weights = emotion_weights.to(self.input_weight)  # its dtype and device
        inner = F.silu(F.linear(weights, self.input_weight.flatten(0, 1)))  # (B, S·h)
        inner = inner.view(weights.shape[0], *self.input_weight.shape[:2]).transpose(0, 1)  # (S, B, h)
        return torch.bmm(inner, self.output_weight.mT).transpose(0, 1)[:, :, None]


class RunningPass(threading.local):
    """
    The pass that runs in a thread (threads may share a model), where hooks behind the norms find its emotion. The norms run as they
    are, so that kernels, quantization and tensor parallelism keep them. A copy, or a pickled model, starts with no pass.
    """

    def __init__(self):  # is called in each thread
        self.modulation: Sequence[torch.Tensor] | None = None  # S times (B, 1, d); None: no emotion
        self.reached: set[int] | None = None  # the Δγ that norms have taken; None: not counted

    def __reduce__(self):
        return RunningPass, ()

    def modulate(self, scale_slot: int, shift_slot: int | None, norm: nn.Module, inputs, states: torch.Tensor):
        """Hook behind a norm whose Δγ and Δβ stand at these places of S: norm(x) · (1 + Δγ) + Δβ; norm(x) without an emotion."""
        modulation = self.modulation
        if modulation is None:
            return states
        if self.reached is not None:
            self.reached.add(scale_slot)
        scale = modulation[scale_slot]
        if flat := states.dim() == 2:  # OPT's layers put the tokens of all rows into one dimension
            states = states.unflatten(0, (scale.shape[0], -1))
        # Not states · (1 + Δγ): in bfloat16 1 + Δγ loses a small Δγ.
        states = torch.addcmul(states, states, scale.to(states))
        if shift_slot is not None:
            states = states + modulation[shift_slot].to(states)
        return states.flatten(0, 1) if flat else states

    def checkpoint(self, function, layer, *inputs, **kwargs):
        """A layer in the checkpointing `function`, which computes it again after the pass, on a GPU in another thread."""
        modulation = self.modulation
        if modulation is None or torch.compiler.is_compiling():  # a compiler does so within its graph
            return function(layer, *inputs, **kwargs)

        def run(*given):
            before, self.modulation = self.modulation, given[len(inputs) :] or modulation
            try:
                return layer(*given[: len(inputs)])
            finally:
                self.modulation = before

        # Reentrant checkpointing has gradients only for its arguments.
        reentrant = getattr(function, "keywords", {}).get("use_reentrant")
        return function(run, *inputs, *(modulation if reentrant else ()), **kwargs)


class EmotionModulatedModel(AdaptedModel):
    """The decoder of a language model, `language_model`, and its modulators, `emotion_modulation`. Returns what the decoder returns."""

    config_class = EmotionModulatedConfig
    base_model_prefix = "language_model"
    language_model_class: Any = AutoModel
    supports_gradient_checkpointing = True
    # The language model itself says whether it supports these.
    _supports_sdpa = _supports_flash_attn = _supports_flex_attn = _supports_attention_backend = True
    _can_compile_fullgraph = True
    _skip_keys_device_placement = ["past_key_values", "cache"]

    def __init__(self, config: EmotionModulatedConfig, language_model: Any = None):
        """Over `language_model`, or a new one. ValueError if its layers and their norms, or the `modulated_norms`, are not found."""
        super().__init__(config)
        warn_if_untested()
        given = language_model is not None
        if not given:
            # The dtype of the whole model, not the one that the configuration of the language model's checkpoint records.
            language_model = self.language_model_class.from_config(config.text_config, dtype=torch.get_default_dtype())
        known = list(dict.fromkeys(name for layer in _layers(language_model) for name in _norms_of(layer)))
        if config.modulated_norms is None:
            config.modulated_norms = known
        if unknown := [name for name in config.modulated_norms if name not in known]:
            kind = language_model.config.model_type
            raise ValueError(f"`modulated_norms` must be some of {known}, those of a {kind!r} model, got {unknown}.")
        norms = _modulated(language_model, config)
        self.emotion_modulation = EmotionModulation(config, len(norms)) if norms else None
        self.language_model, self.running = language_model, RunningPass()
        self.num_norms, self.all_reached = len(norms), False
        self._given = _sample(language_model) if given else {}
        for slot, norm in enumerate(norms):
            shift_slot = slot + len(norms) if config.shift else None
            norm.register_forward_hook(partial(self.running.modulate, slot, shift_slot))
        # One object: `generate` makes masks for the attention that this configuration names. It does not name the source of the
        # weights, which may be a local folder.
        config.text_config = language_model.config
        language_model.config.name_or_path = ""
        self.supports_gradient_checkpointing = language_model.supports_gradient_checkpointing
        if config.freeze_language_model:
            language_model.requires_grad_(False)
        if given:
            for module in language_model.modules():
                module._is_hf_initialized = True  # its weights stay
            if self.emotion_modulation is not None:  # offloaded weights are nowhere
                place = None if language_model.device.type == "meta" else language_model.device
                self.emotion_modulation.to(place, language_model.dtype)
            # The Trainer and `save_pretrained` look for it.
            if places := getattr(language_model, "hf_device_map", None):
                self.hf_device_map = {f"language_model.{part}".rstrip("."): place for part, place in places.items()}
        if self.can_generate():
            self.generation_config = copy.deepcopy(language_model.generation_config)
            # GPT-2's name does not tell it; the warning that follows would break a graph.
            language_model.loss_type = language_model.loss_type or "ForCausalLM"
            for name in filter(partial(hasattr, language_model), GENERATION_HOOKS):
                setattr(self, name, getattr(language_model, name))
        self.post_init()

    def _init_weights(self, module):
        if isinstance(module, EmotionModulation):
            module.reset_parameters()

    def get_decoder(self):
        return self.language_model.get_decoder()

    def get_output_embeddings(self):
        return self.language_model.get_output_embeddings()

    def set_output_embeddings(self, value):
        self.language_model.set_output_embeddings(value)

    def resize_token_embeddings(self, *args, **kwargs):
        return self.language_model.resize_token_embeddings(*args, **kwargs)  # which keeps the size elsewhere, too

    def _set_gradient_checkpointing(self, enable: bool = True, **kwargs):
        if function := kwargs.get("gradient_checkpointing_func"):
            kwargs["gradient_checkpointing_func"] = partial(self.running.checkpoint, function)
        super()._set_gradient_checkpointing(enable, **kwargs)

    def train(self, mode: bool = True) -> Self:
        """As in every model of this library."""
        super().train(mode)
        # Noted here, because the language model may be frozen again before it is saved; a sample does not see a few trained rows.
        if mode and any(parameter.requires_grad for parameter in self.language_model.parameters()):
            self.config.forget_base_model()
        return self

    def save_pretrained(self, *args, **kwargs):
        """As in every model of transformers; the language model's weights are left out if the configuration names their checkpoint."""
        # A checkpoint must hold weights; and those of the language model if they are not its checkpoint's any more.
        trained = any(parameter.requires_grad for parameter in self.language_model.parameters())
        if trained or self.emotion_modulation is None or _changed(self.language_model, self._given):
            self.config.forget_base_model()
        names = () if self.config.base_model_name_or_path is None else self.language_model.state_dict()
        self._keys_to_ignore_on_save = {f"language_model.{name}" for name in names}
        if names:  # in one file
            kwargs["max_shard_size"] = "1TB"
        super().save_pretrained(*args, **kwargs)

    def modulation(self, emotion_ids=None, emotion_weights=None, batch_size: int | None = None) -> torch.Tensor | None:
        """Emotions as `forward` takes them -> Δγ of each norm, then Δβ of each norm (B, S, 1, d); None if no norm is modulated."""
        weights = check_emotions(self.config, emotion_ids, emotion_weights, batch_size)
        return None if self.emotion_modulation is None else self.emotion_modulation(weights)

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        position_ids: torch.LongTensor | None = None,
        inputs_embeds: torch.FloatTensor | None = None,
        labels: torch.LongTensor | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int | torch.Tensor | None = None,
        emotion_ids: torch.LongTensor | None = None,
        emotion_weights: torch.FloatTensor | None = None,
        emotion_modulation: torch.FloatTensor | None = None,
        num_items_in_batch: torch.Tensor | int | None = None,
        **kwargs: Any,
    ):
        r"""
        Args:
            input_ids, inputs_embeds: (B, L) ids, or (B, L, d) embeddings.
            attention_mask, position_ids: (B, L), 1 for real tokens, 0 for padding, on either side; positions, by default from the mask.
            labels: (B, L), -100 at tokens that are not counted: those of the context, and padding. For the model with a head.
            emotion_ids: (B,), the emotion of each row, in [0, `num_emotions`). Without emotions it is the language model.
            emotion_weights: (B, E), instead of `emotion_ids`: any mixture of emotions, of any intensity.
            emotion_modulation: (B, S, 1, d), the result of `modulation`, instead of the emotions.
            num_items_in_batch: the loss is divided by it; default: the number of labels in this batch.

        Raises:
            ValueError: another shape, both kinds of emotions, not one of ids and embeddings; a norm that is not called as a module.
        """
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("Pass exactly one of `input_ids` and `inputs_embeds`.")
        if labels is not None and not self.can_generate():
            raise ValueError("`labels` are for the model with a head, `EmotionModulatedForCausalLM`: leave them out.")
        rows: Any = input_ids if inputs_embeds is None else inputs_embeds
        batch_size, length = rows.shape[:2]
        if emotion_ids is not None or emotion_weights is not None:
            if emotion_modulation is not None:
                raise ValueError("Pass exactly one of `emotion_ids`, `emotion_weights` and `emotion_modulation`.")
            emotion_modulation = self.modulation(emotion_ids, emotion_weights, batch_size)
        if position_ids is None and isinstance(attention_mask, torch.Tensor) and attention_mask.dim() == 2:
            position_ids = real_positions(attention_mask)[:, -length:]  # the mask also covers the cache
        if labels is not None:
            labels, use_cache = labels.long(), use_cache or False
            if num_items_in_batch is None:
                num_items_in_batch = (labels[:, 1:] != -100).sum()
            # Batches without a label have none to divide by.
            kwargs["num_items_in_batch"] = torch.as_tensor(num_items_in_batch, device=labels.device).clamp(min=1)
        given = {"input_ids": input_ids, "inputs_embeds": inputs_embeds, "attention_mask": attention_mask}
        given |= {"position_ids": position_ids, "use_cache": use_cache, "logits_to_keep": logits_to_keep}
        given |= {"labels": labels, **kwargs}
        kwargs = {name: value for name, value in given.items() if value is not None}  # not every model takes all
        for name in ("output_attentions", "output_hidden_states"):
            if getattr(self.config, name) and kwargs.get(name) is None:
                kwargs[name] = True
        running, text_config = self.running, self.config.text_config
        # Once, where no layer may be dropped.
        counted = emotion_modulation is not None and not self.all_reached and not getattr(text_config, "layerdrop", 0)
        counted = counted and not torch.compiler.is_compiling()
        reached: set[int] = set()
        running.modulation = None if emotion_modulation is None else emotion_modulation.unbind(dim=1)
        running.reached = reached if counted else None
        try:
            outputs = self.language_model(return_dict=True, **kwargs)
            if counted and len(reached) < self.num_norms:
                missed = f"a {text_config.model_type!r} model does not call the others as modules"
                raise ValueError(f"the emotion reaches {len(reached)} of {self.num_norms} norms: {missed}.")
            self.all_reached = self.all_reached or counted
        finally:
            running.modulation = running.reached = None
        return outputs

    @classmethod
    def from_language_model_pretrained(
        cls, language_model: str | PathLike[str], dtype: torch.dtype | str = torch.float32, **arguments: Any
    ) -> Self:
        """
        A new model over a pretrained language model, a Hub id or folder that `AutoModelForCausalLM` loads, with all weights in one dtype.
        Until it is trained it computes what the language model computes. `arguments`: fields of [`EmotionModulatedConfig`], and what
        the `from_pretrained` of the language model takes.

        Raises:
            ValueError: the model is an encoder-decoder, needs its own code, or its layers are not found. OSError: no such checkpoint.
        """
        known = cls.config_class.__dataclass_fields__
        fields = {name: arguments.pop(name) for name in list(arguments) if name in known}
        arguments |= {"dtype": dtype, "trust_remote_code": False}
        loaded = cls.language_model_class.from_pretrained(language_model, **arguments)
        # No field names a folder in a repository; without a name the weights are saved.
        if fields.get("freeze_language_model", True) and not arguments.get("subfolder"):
            path = os.path.abspath(language_model) if os.path.isdir(language_model) else str(language_model)
            commit = arguments.get("revision") or getattr(loaded.config, "_commit_hash", None)
            fields = {"base_model_name_or_path": path, "base_model_revision": commit, **fields}
        model = cls(cls.config_class(text_config=loaded.config, **fields), loaded)
        if model.can_generate() and model.generation_config._from_model_config:
            model.generation_config.use_cache = None  # the Trainer sets it to False
        return model

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path, *args, config=None, output_loading_info=False, **kwargs):
        """
        As in every model of transformers. A checkpoint may hold only the modulators: then the language model comes from the checkpoint
        that the configuration names, and takes the arguments (`device_map`, `use_kernels`, ...).

        Raises:
            ValueError: the weights of the language model are nowhere, or its sizes are not those of the modulators.
            OSError: its checkpoint is not found.
        """
        name, hub = pretrained_model_name_or_path, {key: kwargs[key] for key in HUB_ARGUMENTS if key in kwargs}
        if config is None and name is not None:
            fields = [key for key in kwargs if key in cls.config_class.__dataclass_fields__ and key != "dtype"]
            config = cls.config_class.from_pretrained(name, **hub, **{key: kwargs.pop(key) for key in fields})
        if name is not None and config.base_model_name_or_path is not None:
            model, info = cls._from_modulators(str(name), copy.deepcopy(config), hub, **kwargs)
            return (model, info) if output_loading_info else model
        # Files have the names of the model with a head.
        if config is not None and cls.language_model_class is AutoModel:
            prefix = modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING[type(config.text_config)].base_model_prefix
            kwargs.setdefault("key_mapping", {rf"^language_model\.{prefix}\.": "language_model."})
        model, info = super().from_pretrained(name, *args, config=config, output_loading_info=True, **kwargs)
        if any(key.startswith("language_model.") for key in info["missing_keys"]):
            wanted = "`base_model_name_or_path` must name their checkpoint, got None"
            raise ValueError(f"{str(name)!r} lacks weights of the language model: {wanted}.")
        return (model, info) if output_loading_info else model

    @classmethod
    def _from_modulators(cls, name: str, config: EmotionModulatedConfig, hub: dict[str, Any], **kwargs):
        base: Any = config.base_model_name_or_path
        settings: Any = config.text_config
        kwargs |= {"revision": config.base_model_revision, "subfolder": "", "trust_remote_code": False}
        dtype = kwargs.pop("torch_dtype", None) or kwargs.get("dtype") or "auto"  # the first is the old name
        kwargs["dtype"] = (config.dtype or dtype) if dtype == "auto" else dtype  # that of the training may be finer
        kwargs.setdefault("attn_implementation", config._attn_implementation)  # where the Auto classes put it
        file = ".".join(part for part in ("model", kwargs.pop("variant", None), "safetensors") if part)
        try:
            found = AutoConfig.from_pretrained(base, **{key: kwargs[key] for key in HUB_ARGUMENTS if key in kwargs})
            text = found.get_text_config()
            for size in ("hidden_size", "num_hidden_layers"):
                if getattr(text, size) != getattr(settings, size):
                    wanted = f"the `{size}` {getattr(settings, size)} of the modulators in {name!r}"
                    found = f"got {getattr(text, size)}: name another language model"
                    raise ValueError(f"{base!r} must have {wanted}, {found}.")
            # Settings are those of the training; how weights are quantized is a matter of the checkpoint that has them.
            if (settings.model_type, settings.vocab_size) != (found.model_type, text.vocab_size):
                settings = found
            elif hasattr(found, "quantization_config"):
                settings.quantization_config = found.quantization_config
            elif hasattr(settings, "quantization_config"):
                del settings.quantization_config
            language_model = cls.language_model_class.from_pretrained(base, config=settings, **kwargs)
        except OSError as error:
            fault = f"{name!r} holds modulators for the language model {base!r}, which cannot be loaded ({error})"
            raise OSError(f"{fault}. Pass `base_model_name_or_path`, a Hub id or a folder that holds it.") from error
        config.name_or_path = name
        model = cls(config, language_model)
        saved, own = load_state_dict(cached_file(name, file, **hub)), model.state_dict()
        anew = [key for key in saved.keys() & own.keys() if saved[key].shape != own[key].shape]
        anew = anew if kwargs.get("ignore_mismatched_sizes") else []
        mismatched = {(key, saved.pop(key).shape, own[key].shape) for key in anew}
        missing, unexpected = model.load_state_dict(saved, strict=False)
        missing = {key for key in missing if key.startswith("emotion_modulation.") and key not in anew}
        if model.can_generate() and kwargs.get("generation_config") is None:
            with suppress(OSError):
                model.generation_config = GenerationConfig.from_pretrained(name, **hub)
        info = {"missing_keys": missing, "unexpected_keys": set(unexpected), "mismatched_keys": mismatched}
        return model.eval(), info


class EmotionModulatedForCausalLM(EmotionModulatedModel, EmotionGenerationMixin):
    """[`EmotionModulatedModel`] over a whole language model, with its head. Returns a [`CausalLMOutputWithPast`]."""

    language_model_class = AutoModelForCausalLM

    @torch.no_grad()
    def generate(
        self, inputs: torch.Tensor | None = None, generation_config: Any = None, *args: Any, **kwargs: Any
    ) -> Any:
        """
        [`GenerationMixin.generate`] with `emotion_ids` (B,) or `emotion_weights` (B, E); the modulation is computed once, or at each
        step if an `assistant_model` drafts in this emotion (a stock model drafts without one). A `guidance_scale` above 1 guides away
        from the language model without an emotion, on the same prompt or on `negative_prompt_ids`.

        Raises:
            ValueError: emotions as in `forward`; guidance with beams, which transformers computes for the wrong beams; guidance
                of a prompt of embeddings without `negative_prompt_ids`; a draft by only the first layers.
        """
        ids = kwargs.get("input_ids", inputs)
        rows = kwargs.get("inputs_embeds") if ids is None else ids
        emotions = (kwargs.get("emotion_ids"), kwargs.get("emotion_weights"))
        given = any(emotion is not None for emotion in emotions) and kwargs.get("emotion_modulation") is None
        if given and not _takes_emotions(kwargs.get("assistant_model")):
            # The batch is the first dimension, so `generate` repeats the tensor for each beam or sample of a row.
            kwargs["emotion_modulation"] = self.modulation(*emotions, None if rows is None else len(rows))
            del kwargs["emotion_ids" if emotions[1] is None else "emotion_weights"]
        setting = partial(self.setting, generation_config, kwargs)
        if (layer := setting("assistant_early_exit")) is not None:
            raise ValueError(f"`assistant_early_exit` must be None, got {layer}: the emotion is for all layers.")
        guided, beams = setting("guidance_scale", 1) != 1, setting("num_beams", 1)
        if guided and beams > 1:  # each would be guided by another one's text
            raise ValueError(f"`num_beams` must be 1 with `guidance_scale`, got {beams}.")
        if guided and kwargs.get("negative_prompt_ids") is None and rows is not None:
            if ids is None:
                raise ValueError("`negative_prompt_ids` must be given with `guidance_scale` and `inputs_embeds`.")
            mask = kwargs.get("attention_mask")
            if mask is None:  # as `generate` makes that of the prompt
                pad, end = setting("pad_token_id"), setting("eos_token_id")
                unknown = pad is None or pad in (end if isinstance(end, list) else [end])
                mask = torch.ones_like(ids) if unknown else ids.ne(pad).long()
            replies = setting("num_return_sequences", 1)
            kwargs["negative_prompt_ids"] = ids.repeat_interleave(replies, dim=0)
            kwargs["negative_prompt_attention_mask"] = mask.repeat_interleave(replies, dim=0)
        return super().generate(inputs, generation_config, *args, **kwargs)

    def _get_candidate_generator(self, *args, model_kwargs, assistant_model=None, **kwargs):
        if assistant_model is not None and not _takes_emotions(assistant_model):
            model_kwargs = {name: value for name, value in model_kwargs.items() if name not in EMOTION_ARGUMENTS}
        kwargs |= {"model_kwargs": model_kwargs, "assistant_model": assistant_model}
        return super()._get_candidate_generator(*args, **kwargs)

    def generate_batch(self, *args, **kwargs):
        """As in every model of transformers, without an emotion, because it hands none to the model; ValueError if one is given."""
        for name in EMOTION_ARGUMENTS:
            if kwargs.get(name) is not None:
                raise ValueError(f"`{name}` must not be given to `generate_batch`: pass the rows to `generate`.")
        return super().generate_batch(*args, **kwargs)

    @torch.no_grad()
    def fold(self, emotion_weights: torch.Tensor) -> PreTrainedModel:
        """
        The language model that this model is under one emotion, `emotion_weights` (E,), as a stock model of transformers: Δγ is
        multiplied into the weights of the norms. ValueError if the model has a shift, or modulates nothing; or for another shape.
        """
        if self.config.shift or self.emotion_modulation is None:
            modulated = self.emotion_modulation is not None
            what = "`shift` is True, and norms have no place for Δβ" if modulated else "no norm is modulated"
            raise ValueError(f"the emotion cannot be folded: {what}. Train a model with `shift=False`.")
        # With a copy of the configuration: changes in the folded model do not reach this one.
        plain = AutoModelForCausalLM.from_config(copy.deepcopy(self.config.text_config), dtype=self.dtype)
        plain.load_state_dict(self.language_model.state_dict())
        norms = _modulated(plain, self.config)
        scales = 1 + self.modulation(emotion_weights=emotion_weights[None])[0, :, 0]  # type: ignore[index]  # (M, d)
        for norm, scale in zip(norms, scales, strict=True):
            if getattr(norm, "weight", None) is None:
                raise ValueError("the emotion cannot be folded: a norm of the language model has no weight.")
            centre = _centre(norm)
            norm.weight.copy_((norm.weight + centre) * scale - centre)
            if getattr(norm, "bias", None) is not None:
                norm.bias.mul_(scale)
        plain.generation_config = copy.deepcopy(self.generation_config)
        return plain


def _takes_emotions(model: PreTrainedModel | None) -> bool:
    return model is not None and "emotion_ids" in inspect.signature(model.forward).parameters


def _sample(model: nn.Module) -> dict[str, torch.Tensor]:
    """Some numbers of each weight, enough to see that it was trained or that an adapter was merged into it."""
    return {
        name: weight.detach().flatten()[:: max(1, weight.numel() // 256)].cpu().clone()
        for name, weight in model.named_parameters()
        if weight.is_floating_point() and not weight.is_meta
    }


def _changed(model: nn.Module, given: Mapping[str, torch.Tensor]) -> bool:
    """Whether weights differ from what `_sample` gave, in the dtype that they have now."""
    own = _sample(model)
    return own.keys() != given.keys() or any(not own[name].equal(given[name].to(own[name].dtype)) for name in own)


def _layers(language_model: PreTrainedModel) -> nn.ModuleList:
    kind, count = language_model.config.model_type, getattr(language_model.config, "num_hidden_layers", None)
    decoder = language_model.base_model.get_decoder()
    for child in getattr(decoder, "model", decoder).children():
        if isinstance(child, nn.ModuleList) and len(child) == count and any(map(_norms_of, child)):
            return child
    fault = "whose layers, or the norms in them, are not found"
    raise ValueError(f"`text_config` is of a {kind!r} model, {fault}: take a Llama-like model.")


def _norms_of(layer: nn.Module) -> list[str]:
    """
    The names of the norms of a layer. Those inside of its attention, such as `q_norm`, are not part of the paper's idea; that of an
    attention to an encoder has no input here.
    """
    modules = [(name, child) for name, child in layer.named_children() if not name.startswith("encoder_attn")]
    # What has modules inside is a block with a norm.
    return [name for name, child in modules if "norm" in type(child).__name__.lower() and not any(child.children())]


def _modulated(language_model: PreTrainedModel, config: EmotionModulatedConfig) -> list[nn.Module]:
    """The norms that follow the emotion. Layers of several kinds do not have the same."""
    layers, names = _layers(language_model), config.modulated_norms or ()
    return [getattr(layer, name) for layer in layers for name in names if name in _norms_of(layer)]


def _centre(norm: nn.Module) -> float:
    """1 for norms that multiply by 1 + weight (Gemma's), 0 for those that multiply by the weight."""
    probe = copy.deepcopy(norm).float()
    for parameter in probe.parameters():
        nn.init.zeros_(parameter)
    values = torch.linspace(-1.0, 1.0, len(probe.weight), device=probe.weight.device)
    return float(probe(values[None]).any())


# The Trainer uses this mapping to decide whether to shift labels for label smoothing. It is set here, so that code from the Hub sets it, too.
modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[EmotionModulatedConfig.model_type] = "EmotionModulatedForCausalLM"

__all__ = ["EmotionModulatedForCausalLM", "EmotionModulatedModel"]
