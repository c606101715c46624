# SPDX-License-Identifier: Apache-2.0
"""A text encoder of AutoModel inside one of our models: its configuration, how it is built, and how its weights are loaded."""

import copy
import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from transformers import CONFIG_MAPPING, MODEL_MAPPING, AutoConfig, AutoModel, PreTrainedConfig, PreTrainedModel


if TYPE_CHECKING:
    from transformers import PreTrainedModel as _Model
else:
    _Model = object


def nested_config(
    config: Mapping[str, Any] | PreTrainedConfig,
    field: str = "encoder_config",
    what: str = "an encoder",
    wanted: str = "an encoder only",
) -> PreTrainedConfig:
    """
    The configuration of a model as a part of another configuration, in its field `field`. `what`, `wanted`: the model, for the
    messages.

    Raises:
        ValueError: transformers itself does not have the model type, or it is an encoder-decoder or reads more than text.
    """
    # A copy, because a running model's configuration would lose its attention implementation here. It does not name the source of
    # the weights, which may be a local folder.
    values = config if isinstance(config, Mapping) else config.to_dict()
    values = {name: value for name, value in values.items() if name != "_name_or_path"}
    if values.get("model_type") not in CONFIG_MAPPING:
        raise ValueError(
            f"`{field}` has the model type {values.get('model_type')!r}, which this version of transformers does "
            f"not have; {what} with its own code cannot be a part of the model: take one that transformers has."
        )
    nested = AutoConfig.for_model(**values)
    if not type(nested).__module__.startswith("transformers."):
        raise ValueError(
            f"`{field}` is of a {nested.model_type!r} model; {what} with its own code cannot be a part of the "
            "model: take one that transformers has."
        )
    if nested.is_encoder_decoder:
        raise ValueError(f"`{field}` is of a {nested.model_type!r} model, an encoder-decoder: take {wanted}.")
    text = nested.get_text_config()
    if text is not nested:
        raise ValueError(
            f"`{field}` is of a {nested.model_type!r} model, which reads more than text: take {wanted} that reads text alone, such as "
            f"one of the type {text.model_type!r}."
        )
    return nested


class NestedSizes:
    """A base of configurations whose sizes are those of the model inside, see `get_text_config`."""

    @property
    def hidden_size(self) -> int:
        """That of the model inside."""
        return self.get_text_config().hidden_size  # type: ignore[attr-defined]  # of the configuration

    @property
    def num_hidden_layers(self) -> int:
        """That of the model inside."""
        return self.get_text_config().num_hidden_layers  # type: ignore[attr-defined]

    @property
    def num_attention_heads(self) -> int:
        """That of the model inside."""
        return self.get_text_config().num_attention_heads  # type: ignore[attr-defined]


def output_size(config: PreTrainedConfig) -> int:
    """The size of a text encoder's last hidden states: `hidden_size`, but for OPT, which projects them to that of its word embeddings."""
    return getattr(config, "word_embed_proj_dim", None) or config.hidden_size


def without_pooler(config: PreTrainedConfig) -> dict[str, bool]:
    """The argument that leaves out a text encoder's pooler, if it may have one: nothing here would read or train it."""
    classes = MODEL_MAPPING[type(config)]
    classes = classes if isinstance(classes, list | tuple) else [classes]
    has_pooler = all("add_pooling_layer" in inspect.signature(cls.__init__).parameters for cls in classes)
    return {"add_pooling_layer": False} if has_pooler else {}


def build_encoder(config: PreTrainedConfig, reads: str) -> PreTrainedModel:
    """
    Build the encoder, without loading weights. `reads`: what needs it, for the message.

    Raises:
        ValueError: the model reads no token ids.
    """
    # The dtype of the whole model, not the one that the configuration of the encoder's checkpoint records.
    encoder = AutoModel.from_config(config, dtype=torch.get_default_dtype(), **without_pooler(config))
    if encoder.main_input_name != "input_ids":
        raise ValueError(
            f"`encoder_config` is of a {encoder.config.model_type!r} model, which reads `{encoder.main_input_name}`: {reads} need a "
            "text encoder, which reads `input_ids`."
        )
    if "attention_mask" not in inspect.signature(encoder.forward).parameters:
        raise ValueError(
            f"`encoder_config` is of a {encoder.config.model_type!r} model, which reads padding like words: {reads} need an encoder "
            "that takes an `attention_mask`."
        )
    if not encoder._no_split_modules:  # transformers does not say what must be on one device: all of it
        encoder._no_split_modules = {type(encoder).__name__}
    return encoder


class OverAnyEncoder(_Model):
    """A base of models over an encoder of any architecture, to name first; `_encoder_name` is the encoder's attribute."""

    _encoder_name: str

    @property
    def own_encoder(self) -> PreTrainedModel:
        """The encoder inside the model."""
        return getattr(self.base_model, self._encoder_name)

    @classmethod
    def from_encoder_pretrained(cls, encoder, dtype: torch.dtype | str = torch.float32, **arguments):
        r"""
        Make a new model over a pretrained text encoder: the encoder gets the checkpoint's weights, all others start anew.

        Args:
            encoder (`str` or `os.PathLike`): a Hub id or folder that `AutoModel` loads.
            dtype: dtype of all weights; "auto": that of the checkpoint.
            arguments: fields of the model's configuration, for a classifier `num_labels` or `id2label` and `label2id`;
                `attn_implementation`; and what else the `from_pretrained` of the encoder takes (`revision`, `token`,
                `use_safetensors`, ...).

        Raises:
            OSError: no such checkpoint.
            ValueError: the model encodes no text, or needs its own code; the checkpoint lacks weights.
        """
        names = {*cls.config_class.__dataclass_fields__, "num_labels"}
        fields = {name: arguments.pop(name) for name in list(arguments) if name in names}
        attention = {name: arguments.pop(name) for name in ["attn_implementation"] if name in arguments}
        arguments["trust_remote_code"] = False
        saved, _ = PreTrainedConfig.get_config_dict(encoder, **arguments)
        if saved.get("model_type") == cls.config_class.model_type:
            raise ValueError(
                f"{str(encoder)!r} is a {saved['model_type']!r} model itself: load it with `from_pretrained`."
            )
        if saved.get("model_type") in CONFIG_MAPPING:
            saved = AutoConfig.from_pretrained(encoder, **arguments)
        config = cls.config_over_encoder(saved, **fields)
        # Without weights, so that an encoder that does not fit is refused before its weights are loaded.
        with torch.device("meta"):
            empty = cls(copy.deepcopy(config)).own_encoder
        # Loaded before the model is made, which gets its dtype: `to` would also round rotary frequencies, which stay in float32.
        loaded, found = type(empty).from_pretrained(
            encoder, dtype=dtype, output_loading_info=True, **without_pooler(empty.config), **arguments
        )
        model = cls._from_config(config, dtype=loaded.dtype, **attention)
        own = model.own_encoder
        if found["missing_keys"]:
            raise ValueError(
                f"{str(encoder)!r} lacks weights of its {own.config.model_type!r} model: {sorted(found['missing_keys'])[:3]}."
            )
        own.load_state_dict(loaded.state_dict())
        return model

    @classmethod
    def config_over_encoder(cls, encoder_config, **fields):
        """The configuration of a model over an encoder with this configuration."""
        return cls.config_class(encoder_config=encoder_config, **fields)


__all__ = [
    "NestedSizes",
    "OverAnyEncoder",
    "build_encoder",
    "nested_config",
    "output_size",
    "without_pooler",
]
