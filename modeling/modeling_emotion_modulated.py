# SPDX-License-Identifier: Apache-2.0
"""A decoder-only language model whose norms follow an emotion (Liu et al. 2021): replies to a context in a given emotion.

Shapes: B batch, L tokens, E emotions, M modulated norms, S = M or (with a shift) 2M, h hidden size of the MLPs, d hidden size, V
vocabulary.
"""

import copy
import inspect
import os
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    GenerationMixin,
    PreTrainedConfig,
    PreTrainedModel,
)
from transformers import initialization as init
from transformers.modeling_outputs import BaseModelOutputWithPast, CausalLMOutputWithPast
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
from transformers.utils.generic import can_return_tuple

from .configuration_emotion_modulated import EmotionModulatedConfig


# Copied from modeling_mod_ln.EMOTION_ARGUMENTS
EMOTION_ARGUMENTS = ("emotion_ids", "emotion_weights", "emotion_modulation")
# Arguments of `from_pretrained` that are for the checkpoint of the language model, too; and those that are for it alone.
_HUB = ("cache_dir", "force_download", "local_files_only", "proxies", "revision", "subfolder", "token")
_SHARED = (
    *(name for name in _HUB if name not in ("revision", "subfolder")),
    *("attn_implementation", "dtype", "use_safetensors"),
)
_PLACES = ("device_map", "max_memory", "offload_folder", "quantization_config", "tp_plan", "use_kernels")


# Copied from modeling_mod_ln.check_emotions
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


# Copied from modeling_mod_ln.refuse_in_batches
def refuse_in_batches(arguments: Mapping[str, Any]) -> None:
    """ValueError for emotions among the arguments of `generate_batch`, which hands none to the model."""
    for name in EMOTION_ARGUMENTS:
        if arguments.get(name) is not None:
            raise ValueError(
                f"`{name}` must not be given to `generate_batch`, which does not hand it to the model: pass all rows to `generate`, as one "
                "padded batch."
            )


# Copied from modeling_mod_ln.in_every_emotion
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


# Copied from modeling_roberta_esa.real_positions
def real_positions(mask: torch.Tensor) -> torch.Tensor:
    """(B, L), 0 at padding -> (B, L) int64: the position of each real token among those of its row, wherever padding stands."""
    return ((mask != 0).cumsum(dim=-1) - 1).clamp(min=0)


# Modulation


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
        self.input_weight = nn.Parameter(
            torch.empty(slots, hidden, config.num_emotions)
        )  # W₁ of each Δγ, then of each Δβ
        self.output_weight = nn.Parameter(torch.empty(slots, config.hidden_size, hidden))  # W₂ likewise
        self.reset_parameters()

    @property
    def is_new(self) -> bool:
        """Whether it has learnt nothing yet, see `refuse_untrained`."""
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
        inner = inner.view(len(weights), *self.input_weight.shape[:2]).transpose(0, 1)  # (S, B, h)
        return torch.bmm(inner, self.output_weight.mT).transpose(0, 1)[:, :, None]


# The norms run as they are, so that kernels, quantization and tensor parallelism keep them; the emotion acts on what they return. It comes
# down to the layers as an argument, because a state of the whole model would be another one when a checkpointed layer is computed again.
# Hooks are instances of classes here, so that a model can be copied and pickled.


class TakesModulation:
    """
    Hook before a layer: takes the argument `emotion_modulation`, S times (B, 1, d), from it. While the layer runs in a thread, the
    hooks on its norms find it in `running`.
    """

    def __init__(self):
        self.running: dict[int, Sequence[torch.Tensor]] = {}

    def __call__(self, layer, args, kwargs):
        modulation = kwargs.pop("emotion_modulation", None)
        if modulation is not None:
            self.running[_thread()] = modulation
        elif self.running:
            self.running.pop(_thread(), None)
        return args, kwargs


class AppliesModulation:
    """Hook behind a norm: norm(x) · (1 + Δγ) + Δβ while its layer runs with an emotion, norm(x) otherwise."""

    def __init__(self, running: dict[int, Sequence[torch.Tensor]], scale_slot: int, shift_slot: int | None):
        self.running = running  # its layer's
        self.scale_slot = scale_slot  # where in S this norm's Δγ stands
        self.shift_slot = shift_slot  # where its Δβ stands
        self.reached = False  # whether an emotion has come down to it

    def __call__(self, norm, args, states):
        modulation = self.running.get(_thread()) if self.running else None
        if modulation is None:
            return states
        if not self.reached:
            self.reached = True
        scale = modulation[self.scale_slot]
        if flat := states.dim() == 2:  # OPT's layers put the tokens of all rows into one dimension
            states = states.unflatten(0, (len(scale), -1))
        # Not states · (1 + Δγ): in bfloat16 1 + Δγ loses a small Δγ.
        states = torch.addcmul(states, states, scale.to(states))
        if self.shift_slot is not None:
            states = states + modulation[self.shift_slot].to(states)
        return states.flatten(0, 1) if flat else states


class ForgetsModulation:
    """Hook behind a layer: the emotion was for this call alone."""

    def __init__(self, running: dict[int, Sequence[torch.Tensor]]):
        self.running = running

    def __call__(self, layer, args, output):
        if self.running:
            self.running.pop(_thread(), None)


class Checkpoints:
    """A layer's checkpointing function: where the layer is computed again, its hooks do not run, and its norms need the emotion."""

    def __init__(self, function, running: dict[int, Sequence[torch.Tensor]]):
        self.function, self.running = function, running

    def __call__(self, forward, *args, **kwargs):
        modulation = self.running.get(_thread())

        def modulated(*args, **kwargs):
            before = self.running.get(_thread())
            if modulation is not None:
                self.running[_thread()] = modulation
            try:
                return forward(*args, **kwargs)
            finally:
                self.running.pop(_thread(), None)
                if before is not None:
                    self.running[_thread()] = before

        return self.function(modulated, *args, **kwargs)


def _thread() -> int:
    """Threads may share a model. A compiled graph runs in one."""
    return 0 if torch.compiler.is_compiling() else threading.get_ident()


def norms_of(layer: nn.Module) -> list[str]:
    """The names of the norms of a layer. Those inside of its attention, such as `q_norm`, are no part of the paper's idea."""
    return [name for name, child in layer.named_children() if "norm" in type(child).__name__.lower()]


def layers_of(language_model: PreTrainedModel) -> nn.ModuleList:
    """The layers of a language model, or of its decoder."""
    decoder, count = language_model.get_decoder(), language_model.config.num_hidden_layers
    lists = [child for child in decoder.children() if isinstance(child, nn.ModuleList) and len(child) == count]
    if not lists:
        raise ValueError(
            f"`text_config` is of a {language_model.config.model_type!r} model, whose layers are not found: take a Llama-like model."
        )
    return lists[0]


def place_modulation(
    layers: nn.ModuleList, names: Sequence[str], shift: bool
) -> tuple[list[TakesModulation], list[AppliesModulation]]:
    """Let the norms of these names in every layer follow the emotion. Returns the hooks before the layers and on the norms."""
    total, before, hooks = len(names) * len(layers), [], []
    for number, layer in enumerate(layers):
        takes = TakesModulation()
        before.append(takes)
        layer.register_forward_pre_hook(takes, with_kwargs=True, prepend=True)
        layer.register_forward_hook(ForgetsModulation(takes.running))
        for position, name in enumerate(names):
            slot = number * len(names) + position
            hooks.append(AppliesModulation(takes.running, slot, total + slot if shift else None))
            getattr(layer, name).register_forward_hook(hooks[-1])
    return before, hooks


# Models

NEW_MODULES = ("emotion_modulation",)


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


class EmotionModulatedPreTrainedModel(PreTrainedModel):
    """
    A language model of transformers (`language_model`) and its modulators (`emotion_modulation`). Without an emotion it is the
    language model.
    """

    config: EmotionModulatedConfig
    config_class = EmotionModulatedConfig
    base_model_prefix = "language_model"
    language_class: Any = AutoModel  # loads the language model
    supports_gradient_checkpointing = True
    _supports_sdpa = True  # the language model itself says whether it supports these
    _supports_flash_attn = True
    _supports_flex_attn = True
    _supports_attention_backend = True
    _can_compile_fullgraph = True
    _skip_keys_device_placement = ["past_key_values"]
    _reached = False  # whether an emotion has come down to all norms
    _loaded: Mapping[str, torch.Tensor] = {}  # numbers of the weights that the language model was loaded with

    def __init__(self, config: EmotionModulatedConfig, with_language_model: bool = True):
        """`with_language_model=False`: `adopt` gives it later; the configuration must name the norms."""
        super().__init__(config)
        language_model = None
        if with_language_model:
            # The dtype of the whole model, not the one that the configuration of the language model's checkpoint records.
            language_model = self.language_class.from_config(config.text_config, dtype=torch.get_default_dtype())
        if config.modulated_norms is None and language_model is not None:
            config.modulated_norms = norms_of(layers_of(language_model)[0])
        norms = len(config.modulated_norms or ()) * config.num_hidden_layers
        self.emotion_modulation = EmotionModulation(config, norms) if norms else None
        if language_model is not None:
            self.adopt(language_model)
        self.post_init()

    def adopt(self, language_model: PreTrainedModel) -> None:
        """
        Take a language model as this model's own. It is changed: its norms follow the emotion.

        Raises:
            ValueError: its layers, or the norms of the configuration, are not found.
        """
        config, layers = self.config, layers_of(language_model)
        found, names = norms_of(layers[0]), config.modulated_norms or []
        if unknown := [name for name in names if name not in found]:
            raise ValueError(
                f"`modulated_norms` must be some of {found}, the norms of a layer of a {config.get_text_config().model_type!r} model, got "
                f"{unknown}."
            )
        self._layer_hooks, self._norm_hooks = place_modulation(layers, names, config.shift)
        self.language_model, self._reached = language_model, False
        # One object: `generate` makes masks for the attention that this configuration names. It does not name the source of the
        # weights, which may be a local folder.
        config.text_config = language_model.config
        language_model.config._name_or_path = ""
        if config.freeze_language_model:
            language_model.requires_grad_(False)
        self.supports_gradient_checkpointing = language_model.supports_gradient_checkpointing
        if isinstance(self, GenerationMixin):
            self.generation_config = copy.deepcopy(language_model.generation_config)
            # GPT-2's name does not tell it; the warning that follows would break a graph.
            if language_model.loss_type is None:
                language_model.loss_type = "ForCausalLM"

    def _complete(self, language_model: PreTrainedModel) -> None:
        """`adopt`, for a model that was made without a language model."""
        self.adopt(language_model)
        self._loaded = sample_of(language_model)
        # The weights are set. What is left is what a model with this language model knows of itself.
        with init.no_init_weights():
            self.post_init()

    @torch.no_grad()
    def _init_weights(self, module):
        if isinstance(module, EmotionModulation):
            module.reset_parameters()

    def train(self, mode: bool = True):
        if mode:
            refuse_untrained(self)
        return super().train(mode)

    @property
    def is_modulated(self) -> bool:
        return self.emotion_modulation is not None

    def get_input_embeddings(self):
        return self.language_model.get_input_embeddings()

    def set_input_embeddings(self, value):
        self.language_model.set_input_embeddings(value)

    def get_decoder(self):
        return self.language_model.get_decoder()

    def resize_token_embeddings(self, *args, **kwargs):
        """As in every model of transformers."""
        return self.language_model.resize_token_embeddings(*args, **kwargs)

    def modulation(
        self,
        emotion_ids: torch.LongTensor | None = None,
        emotion_weights: torch.FloatTensor | None = None,
        batch_size: int | None = None,
    ) -> torch.Tensor | None:
        """Emotions as `forward` takes them -> Δγ of each norm, then Δβ of each norm (B, S, 1, d); None if no norm is modulated."""
        weights = check_emotions(self.config, emotion_ids, emotion_weights, batch_size)
        return None if self.emotion_modulation is None else self.emotion_modulation(weights)

    def run(
        self,
        input_ids,
        inputs_embeds,
        attention_mask,
        position_ids,
        emotion_ids,
        emotion_weights,
        emotion_modulation,
        **kwargs,
    ):
        """The language model's output under the emotions."""
        # The mask also covers the cache, so only the ids' own shape is checked.
        batch_size, length = input_shape(input_ids, inputs_embeds)
        if emotion_modulation is None and (emotion_ids is not None or emotion_weights is not None):
            emotion_modulation = self.modulation(emotion_ids, emotion_weights, batch_size)
        if position_ids is None and isinstance(attention_mask, torch.Tensor) and attention_mask.dim() == 2:
            position_ids = real_positions(attention_mask)[:, -length:]
        parts = None if emotion_modulation is None else emotion_modulation.unbind(dim=1)
        inputs = {"position_ids": position_ids, "emotion_modulation": parts}
        kwargs |= {name: value for name, value in inputs.items() if value is not None}
        for name in ("output_attentions", "output_hidden_states"):
            if getattr(self.config, name):
                kwargs.setdefault(name, True)
        outputs = self.language_model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            inputs_embeds=inputs_embeds,
            return_dict=True,
            **kwargs,
        )
        if parts is not None and not self._reached and not torch.compiler.is_compiling():
            if not all(hook.reached for hook in self._norm_hooks):
                raise ValueError(
                    f"the emotion does not reach all norms: a {self.config.get_text_config().model_type!r} model does not hand its arguments "
                    "to its layers. Take a Llama-like model."
                )
            self._reached = True
        return outputs

    def _set_gradient_checkpointing(self, enable: bool = True, gradient_checkpointing_func=None, **kwargs):
        settings = getattr(gradient_checkpointing_func, "keywords", {})
        if enable and settings.get("use_reentrant"):
            raise ValueError(
                "`use_reentrant` must be False, got True: reentrant checkpointing drops the gradients of the emotion."
            )
        super()._set_gradient_checkpointing(enable, gradient_checkpointing_func, **kwargs)
        for layer, hook in zip(layers_of(self.language_model), self._layer_hooks, strict=True):
            function = getattr(layer, "_gradient_checkpointing_func", None)
            if function is not None and not isinstance(function, Checkpoints):
                layer._gradient_checkpointing_func = Checkpoints(function, hook.running)

    @classmethod
    def from_language_model_pretrained(
        cls, language_model, dtype: torch.dtype | str = torch.float32, **arguments: Any
    ) -> "EmotionModulatedPreTrainedModel":
        r"""
        Make a new model over a pretrained language model. It computes what the language model computes until it is trained.

        Args:
            language_model (`str` or `os.PathLike`): a Hub id or folder that `AutoModelForCausalLM` (or `AutoModel`) loads.
            dtype: dtype of all weights.
            arguments: fields of [`EmotionModulatedConfig`] (`num_emotions`, `emotions`, `shift`, ...), and what else the
                `from_pretrained` of the language model takes (`attn_implementation`, `revision`, `token`, ...).

        Raises:
            OSError: no such checkpoint.
            ValueError: the model is an encoder-decoder, needs its own code, or its layers are not found.
        """
        fields = {
            name: arguments.pop(name) for name in list(arguments) if name in cls.config_class.__dataclass_fields__
        }
        loaded = cls.language_class.from_pretrained(language_model, dtype=dtype, trust_remote_code=False, **arguments)
        # No field names a folder in a repository; without a name the weights are saved.
        if fields.get("freeze_language_model", True) and not arguments.get("subfolder"):
            local = os.path.isdir(language_model)
            fields.setdefault(
                "base_model_name_or_path", os.path.abspath(language_model) if local else str(language_model)
            )
            fields.setdefault(
                "base_model_revision", arguments.get("revision") or getattr(loaded.config, "_commit_hash", None)
            )
        config = cls.config_class(text_config=loaded.config, **fields)
        model = cls._over(config, loaded)
        # Alone: for the whole model `to` would also round the rotary frequencies, which stay in float32.
        if model.emotion_modulation is not None:
            model.emotion_modulation.to(loaded.dtype)
        if isinstance(model, GenerationMixin):
            if model.generation_config._from_model_config:  # where the Trainer sets `use_cache` to False
                model.generation_config.use_cache = None
            model.generation_config.update(do_sample=True, top_k=10)  # the paper's decoding
        return model

    @classmethod
    def _over(
        cls, config: EmotionModulatedConfig, language_model: PreTrainedModel
    ) -> "EmotionModulatedPreTrainedModel":
        """A new model over a language model that is loaded."""
        if config.modulated_norms is None:
            config.modulated_norms = norms_of(layers_of(language_model)[0])
        model = cls(config, with_language_model=False)
        model._complete(language_model)
        return model

    # Overridden because the weights come from two checkpoints if the language model's are not saved with the modulators.
    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path, *args, config=None, **kwargs):
        """
        As in every model of transformers. If the checkpoint holds the modulators alone, the language model is loaded from the
        checkpoint that its configuration names.

        Raises:
            OSError: the checkpoint of the language model is not found.
            ValueError: the weights of the language model are nowhere, or its sizes are not those of the modulators.
        """
        if "torch_dtype" in kwargs:  # the old name
            kwargs.setdefault("dtype", kwargs.pop("torch_dtype"))
        if config is None and pretrained_model_name_or_path is not None:
            fields = {
                name: kwargs.pop(name)
                for name in list(kwargs)
                if name in cls.config_class.__dataclass_fields__ and name != "dtype"
            }
            hub = {name: kwargs[name] for name in _HUB if name in kwargs}
            config = cls.config_class.from_pretrained(pretrained_model_name_or_path, **hub, **fields)
        report = kwargs.pop("output_loading_info", False)
        if (
            cls.language_class is AutoModel and config is not None
        ):  # checkpoints name the weights of the model with a head
            with_head = AutoModelForCausalLM._model_mapping[type(config.text_config)]
            names = {rf"^language_model\.{with_head.base_model_prefix}\.": "language_model."}
            kwargs["key_mapping"] = names | (kwargs.get("key_mapping") or {})
        if config is None or config.base_model_name_or_path is None or kwargs.get("state_dict") is not None:
            model, info = super().from_pretrained(
                pretrained_model_name_or_path, *args, config=config, output_loading_info=True, **kwargs
            )
            if any(name.startswith("language_model.") for name in info["missing_keys"]):
                raise ValueError(
                    "`base_model_name_or_path` must name the checkpoint of the language model, whose weights are not all in "
                    f"{str(pretrained_model_name_or_path)!r}, got {model.config.base_model_name_or_path!r}: pass a Hub id or a folder, or "
                    "leave the argument out if the modulators' checkpoint names it."
                )
            return (model, info) if report else model
        shared = {name: kwargs.pop(name) for name in _PLACES if name in kwargs}
        shared |= {name: kwargs[name] for name in _SHARED if name in kwargs}
        if config.dtype is not None and shared.get("dtype", "auto") == "auto":
            shared["dtype"] = config.dtype  # that of the training, which may be finer than the checkpoint's
        if config._attn_implementation is not None:  # where the Auto classes put the argument
            shared.setdefault("attn_implementation", config._attn_implementation)
        base = {
            "pretrained_model_name_or_path": config.base_model_name_or_path,
            "revision": config.base_model_revision,
            "trust_remote_code": False,
        }
        try:
            base_config = AutoConfig.from_pretrained(**base, **{name: shared[name] for name in _HUB if name in shared})
            for name in ("hidden_size", "num_hidden_layers"):
                saved, found = getattr(config, name), getattr(base_config.get_text_config(), name)
                if found != saved:
                    raise ValueError(
                        f"`base_model_name_or_path` must be a language model with `{name}` {saved}, that of the modulators in "
                        f"{str(pretrained_model_name_or_path)!r}; {config.base_model_name_or_path!r} has {found}: pass the one that they "
                        "were trained over."
                    )
            language_model = cls.language_class.from_pretrained(
                **base, config=_settings(config.text_config, base_config), **shared
            )
        except OSError as error:
            raise OSError(
                f"{str(pretrained_model_name_or_path)!r} holds modulators for the language model {config.base_model_name_or_path!r}, "
                f"which cannot be loaded ({error}). Pass `base_model_name_or_path`, a Hub id or a folder that holds it."
            ) from error
        model, info = super().from_pretrained(
            pretrained_model_name_or_path,
            *args,
            config=config,
            with_language_model=False,
            output_loading_info=True,
            **kwargs,
        )
        generation_config = getattr(model, "generation_config", None)
        model._complete(language_model)
        if generation_config is not None:
            model.generation_config = generation_config
        if model.is_modulated:
            model.emotion_modulation.to(language_model.device)
        model.eval()
        return (model, info) if report else model

    def save_pretrained(self, *args, **kwargs):
        """
        As in every model of transformers; the language model's weights are left out if the configuration names their checkpoint, and
        they are still as in it.
        """
        if not self.is_modulated or changed(self.language_model, self._loaded):  # a checkpoint must hold weights
            self.config.forget_base_model()
        own = self.config.base_model_name_or_path is not None
        self._keys_to_ignore_on_save = (
            {f"language_model.{name}" for name in self.language_model.state_dict()} if own else set()
        )
        super().save_pretrained(*args, **kwargs)


def sample_of(model: nn.Module) -> dict[str, torch.Tensor]:
    """Some numbers of each weight, enough to see that it was trained or that an adapter was merged into it."""
    return {
        name: weight.detach().flatten()[:: max(1, weight.numel() // 256)].cpu().clone()
        for name, weight in model.named_parameters()
        if weight.is_floating_point() and not weight.is_meta
    }


def changed(model: nn.Module, loaded: Mapping[str, torch.Tensor]) -> bool:
    """Whether weights differ from the numbers of `sample_of`, in the dtype that they have now."""
    own = sample_of(model)
    return own.keys() != loaded.keys() or any(not torch.equal(own[n], loaded[n].to(own[n].dtype)) for n in own)


class EmotionModulatedModel(EmotionModulatedPreTrainedModel):
    """The base model of [`EmotionModulatedForCausalLM`], without its head. Returns a [`BaseModelOutputWithPast`]."""

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        position_ids: torch.LongTensor | None = None,
        past_key_values=None,
        inputs_embeds: torch.FloatTensor | None = None,
        use_cache: bool | None = None,
        emotion_ids: torch.LongTensor | None = None,
        emotion_weights: torch.FloatTensor | None = None,
        emotion_modulation: torch.FloatTensor | None = None,
        **kwargs: Any,
    ) -> BaseModelOutputWithPast:
        """For the arguments see [`EmotionModulatedForCausalLM.forward`]."""
        return self.run(
            **{"input_ids": input_ids, "inputs_embeds": inputs_embeds, "attention_mask": attention_mask},
            **{"position_ids": position_ids, "past_key_values": past_key_values, "use_cache": use_cache},
            **{
                "emotion_ids": emotion_ids,
                "emotion_weights": emotion_weights,
                "emotion_modulation": emotion_modulation,
            },
            **kwargs,
        )


class EmotionModulatedForCausalLM(EmotionModulatedPreTrainedModel, GenerationMixin):
    """
    A causal language model whose norms follow an emotion. Without an emotion it is the language model. Returns a
    [`CausalLMOutputWithPast`].
    """

    language_class = AutoModelForCausalLM

    def get_output_embeddings(self):
        return self.language_model.get_output_embeddings()

    def set_output_embeddings(self, value):
        self.language_model.set_output_embeddings(value)

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        position_ids: torch.LongTensor | None = None,
        past_key_values=None,
        inputs_embeds: torch.FloatTensor | None = None,
        labels: torch.LongTensor | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int | torch.Tensor = 0,
        emotion_ids: torch.LongTensor | None = None,
        emotion_weights: torch.FloatTensor | None = None,
        emotion_modulation: torch.FloatTensor | None = None,
        num_items_in_batch: torch.Tensor | int | None = None,
        **kwargs: Any,
    ) -> CausalLMOutputWithPast:
        r"""
        Args:
            input_ids, inputs_embeds: (B, L) ids, or (B, L, d) embeddings.
            attention_mask: (B, L), 1 for real tokens, 0 for padding, on either side.
            position_ids: (B, L); default: from the mask.
            labels: (B, L), -100 at tokens that are not counted: those of the context, and padding.
            emotion_ids: (B,), the emotion of each row, in [0, `num_emotions`).
            emotion_weights: (B, E), instead of `emotion_ids`: any mixture of emotions, of any intensity. Neither: the language
                model, without an emotion.
            emotion_modulation: (B, S, 1, d), the result of `modulation`, instead of the emotions.
            num_items_in_batch: number of labels over all accumulation steps, by which the loss is divided; default: the
                labels of this batch.
            kwargs: what else the language model takes.

        Raises:
            ValueError: both of `emotion_ids` and `emotion_weights`, or another shape; both or neither of ids and embeddings; a
                language model that does not hand the emotion to its layers.
        """
        if labels is not None:
            labels = labels.long()
            if use_cache is None:
                use_cache = False
            if num_items_in_batch is None:
                num_items_in_batch = (labels[:, 1:] != -100).sum()
            # Batches without a label have none to divide by.
            count = torch.as_tensor(num_items_in_batch, device=labels.device).clamp(min=1)
            kwargs |= {"labels": labels, "num_items_in_batch": count}
        return self.run(
            **{"input_ids": input_ids, "inputs_embeds": inputs_embeds, "attention_mask": attention_mask},
            **{"position_ids": position_ids, "past_key_values": past_key_values, "use_cache": use_cache},
            **{
                "emotion_ids": emotion_ids,
                "emotion_weights": emotion_weights,
                "emotion_modulation": emotion_modulation,
            },
            logits_to_keep=logits_to_keep,
            **kwargs,
        )

    @torch.no_grad()
    def generate(self, inputs: torch.Tensor | None = None, generation_config=None, *args, **kwargs):
        """
        [`GenerationMixin.generate`] with `emotion_ids` (B,) or `emotion_weights` (B, E); the modulation is computed once, or at each
        step if an `assistant_model` drafts in this emotion. A stock model drafts without one. With `guidance_scale` above 1 the emotion is guided away from the language model without
        an emotion on the same prompt, or on `negative_prompt_ids`.

        Raises:
            ValueError: emotions as in `forward`; guidance with beams, which transformers computes for the wrong beams; guidance
                of a prompt of embeddings without `negative_prompt_ids`; a draft by the first layers alone.
        """
        ids = kwargs.get("input_ids", inputs)
        rows = kwargs.get("inputs_embeds") if ids is None else ids
        emotions = (kwargs.get("emotion_ids"), kwargs.get("emotion_weights"))
        if not _takes_emotions(kwargs.get("assistant_model")) and any(emotion is not None for emotion in emotions):
            # The batch is the first dimension, so `generate` repeats the tensor for each beam or sample of a row.
            kwargs["emotion_modulation"] = self.modulation(*emotions, None if rows is None else len(rows))
            del kwargs["emotion_ids" if emotions[1] is None else "emotion_weights"]
        configs = [config for config in (generation_config, self.generation_config) if config is not None]

        def setting(name: str) -> Any:
            found = (kwargs.get(name), *(getattr(config, name, None) for config in configs))
            return next((value for value in found if value is not None), None)

        if setting("assistant_early_exit") is not None:
            raise ValueError(
                f"`assistant_early_exit` must be None, got {setting('assistant_early_exit')}: the emotion is for all layers. Pass a draft "
                "model as `assistant_model`."
            )
        scale, beams, replies = (
            setting(name) or 1 for name in ("guidance_scale", "num_beams", "num_return_sequences")
        )
        if scale != 1 and beams > 1:
            raise ValueError(
                f"`num_beams` must be 1 with `guidance_scale`, got {beams}: transformers would guide each beam by another one's text."
            )
        if scale != 1 and kwargs.get("negative_prompt_ids") is None and rows is not None:
            if ids is None:
                raise ValueError(
                    "`negative_prompt_ids` must be given with `guidance_scale` and `inputs_embeds`, got None: pass the token ids of the "
                    "prompt, or the prompt itself as `input_ids`."
                )
            mask = kwargs.get("attention_mask")
            if mask is None:  # as `generate` makes that of the prompt
                pad, end = setting("pad_token_id"), setting("eos_token_id")
                ends = end if isinstance(end, list) else [end]
                mask = torch.ones_like(ids) if pad is None or pad in ends else ids.ne(pad).long()
            kwargs["negative_prompt_ids"] = ids.repeat_interleave(replies, dim=0)
            kwargs["negative_prompt_attention_mask"] = mask.repeat_interleave(replies, dim=0)
        return super().generate(inputs, generation_config, *args, **kwargs)

    def _get_candidate_generator(self, *args, model_kwargs, assistant_model=None, **kwargs):
        if assistant_model is not None and not _takes_emotions(assistant_model):
            model_kwargs = {name: value for name, value in model_kwargs.items() if name not in EMOTION_ARGUMENTS}
        return super()._get_candidate_generator(
            *args, model_kwargs=model_kwargs, assistant_model=assistant_model, **kwargs
        )

    def generate_batch(self, *args, **kwargs):
        """As in every model of transformers, without an emotion; ValueError if one is given."""
        refuse_in_batches(kwargs)
        return super().generate_batch(*args, **kwargs)

    def generate_all_emotions(
        self, input_ids: torch.LongTensor, attention_mask: torch.Tensor | None = None, **kwargs
    ) -> torch.LongTensor:
        """
        Continue contexts in every emotion, all in one batch.

        Args:
            input_ids, attention_mask: (L,), one context, or (B, L), padded on the left.
            kwargs: arguments of `generate`.

        Returns:
            (E, T) for one context, (B, E, T) for several; (E, R, T) or (B, E, R, T) with `num_return_sequences` R > 1. The context
            is part of each row.
        """
        return in_every_emotion(self, input_ids, attention_mask, **kwargs)

    @torch.no_grad()
    def fold(self, emotion_weights: torch.Tensor) -> PreTrainedModel:
        """
        The language model that this model is under one emotion, as a stock model of transformers: Δγ is multiplied into the weights
        of the norms.

        Args:
            emotion_weights: (E,), a mixture of emotions of any intensity.

        Raises:
            ValueError: the model has a shift, or modulates nothing; another shape.
        """
        if self.config.shift or not self.is_modulated:
            what = "`shift` is True, and a norm has no place for Δβ" if self.is_modulated else "no norm is modulated"
            raise ValueError(f"the emotion cannot be folded: {what}. Train a model with `shift=False`.")
        modulation = self.modulation(emotion_weights=emotion_weights[None])
        assert modulation is not None  # the model is modulated
        # Of a configuration of its own: what is changed in the folded model is not changed here.
        plain = AutoModelForCausalLM.from_config(copy.deepcopy(self.config.text_config), dtype=self.dtype)
        plain.load_state_dict(self.language_model.state_dict())
        slots = iter(modulation[0, :, 0])  # (M, d)
        for layer in layers_of(plain):
            for name in self.config.modulated_norms or ():
                norm, scale = getattr(layer, name), 1 + next(slots)
                if getattr(norm, "weight", None) is None:
                    raise ValueError(
                        f"the emotion cannot be folded: the norm {name!r} of the language model has no weight."
                    )
                centre = _centre(norm)
                norm.weight.copy_((norm.weight + centre) * scale - centre)
                if getattr(norm, "bias", None) is not None:
                    norm.bias.mul_(scale)
        plain.generation_config = copy.deepcopy(self.generation_config)
        return plain


def _settings(saved: PreTrainedConfig, base: PreTrainedConfig) -> PreTrainedConfig:
    """
    The settings that the modulators were saved with, for the weights of `base`; those of `base` if it is another model. How weights
    are quantized is a matter of the checkpoint that has them.
    """
    if (saved.model_type, saved.vocab_size) != (base.model_type, base.get_text_config().vocab_size):
        return base
    settings = copy.deepcopy(saved)
    if hasattr(settings, "quantization_config"):
        del settings.quantization_config
    if hasattr(base, "quantization_config"):
        settings.quantization_config = base.quantization_config
    return settings


def _takes_emotions(model: PreTrainedModel | None) -> bool:
    return model is not None and "emotion_ids" in inspect.signature(model.forward).parameters


def _centre(norm: nn.Module) -> float:
    """1 for norms that multiply by 1 + weight (Gemma's), 0 for those that multiply by the weight."""
    probe = copy.deepcopy(norm).float()
    for parameter in probe.parameters():
        nn.init.zeros_(parameter)
    values = torch.linspace(-1.0, 1.0, len(probe.weight), device=probe.weight.device)
    return float(probe(values[None]).any())


# By this name the Trainer knows that the labels of a model are shifted, when it smooths them. Here, where code from the Hub does it too.
MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[EmotionModulatedConfig.model_type] = EmotionModulatedForCausalLM.__name__

__all__ = ["EmotionModulatedForCausalLM", "EmotionModulatedModel"]
