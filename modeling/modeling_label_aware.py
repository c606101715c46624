# SPDX-License-Identifier: Apache-2.0
"""Label-aware attention (Wu, Wang and Liu) over any text encoder of AutoModel.

Shapes: B batch, L tokens, d hidden size, C labels.
"""

import inspect
from typing import TYPE_CHECKING

import torch
from transformers import PreTrainedModel
from transformers.processing_utils import Unpack
from transformers.utils import TransformersKwargs
from transformers.utils.generic import can_return_tuple

from .checked_input import check_ids, check_input, warn_of_padding
from .configuration_label_aware import LabelAwareConfig
from .fitting_checkpoints import OverEncoder
from .label_attention import (
    LabelAwareClassifier,
    LabelAwareModelOutput,
    LabelAwareWeights,
    LabelVectors,
    label_classifier,
    label_pooling,
    pooled_tokens,
    with_sentence,
)
from .nested_encoder import OverAnyEncoder, build_encoder
from .padding import (
    first_real,
    inverse_order,
    masked_mean,
    may_begin_with_padding,
    places_before_padding,
    real_tokens,
    reordered,
)


if TYPE_CHECKING:  # never run: `save_pretrained` publishes the files that are imported here beside the weights
    from .pipeline_emotion_classification import EmotionClassificationPipeline  # noqa: F401


class LabelAwarePreTrainedModel(LabelAwareWeights, OverAnyEncoder, OverEncoder, PreTrainedModel):
    config: LabelAwareConfig
    config_class = LabelAwareConfig
    base_model_prefix = "model"
    _encoder_name = "encoder"
    _supports_sdpa = True  # the encoder itself says whether it supports this
    _supports_flash_attn = True
    _supports_flex_attn = True
    _supports_attention_backend = True


class LabelAwareModel(LabelVectors, LabelAwarePreTrainedModel):
    """A text encoder with one vector per label that attends to its tokens. Returns a [`LabelAwareModelOutput`]."""

    def __init__(self, config: LabelAwareConfig):
        super().__init__(config)
        self.encoder = build_encoder(config.encoder_config, "labels")
        # Everything that is new here, label vectors included. PEFT trains and saves modules named "score" or "classifier" without being asked.
        self.score = label_pooling(config)
        self.supports_gradient_checkpointing = self.encoder.supports_gradient_checkpointing
        self._encoder_takes = frozenset(inspect.signature(self.encoder.forward).parameters)
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
        token_type_ids: torch.LongTensor | None = None,
        position_ids: torch.LongTensor | None = None,
        inputs_embeds: torch.FloatTensor | None = None,
        pooling_mask: torch.Tensor | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> LabelAwareModelOutput:
        r"""
        Args:
            input_ids, inputs_embeds: (B, L) ids, or (B, L, d) embeddings.
            attention_mask: (B, L), 1 for real tokens, 0 for padding, on either side.
            token_type_ids: (B, L); ignored if the encoder does not read them.
            position_ids: (B, L), for encoders that read them.
            pooling_mask: (B, L), 1 for the real tokens that labels may attend to, at least one in each row; default: all. For
                overlapping windows of a long text it is 0 at tokens that another window counts.

        Raises:
            ValueError: see `check_input`; or the encoder does not read an input.
        """
        encoder = self.encoder.config
        batch_size, length = check_input(encoder, input_ids, inputs_embeds, attention_mask)
        warn_of_padding(encoder, input_ids, attention_mask)
        inputs = {"token_type_ids": token_type_ids, "position_ids": position_ids, "inputs_embeds": inputs_embeds}
        inputs = {name: value for name, value in inputs.items() if value is not None}
        if input_ids is not None:
            inputs["input_ids"] = input_ids
        if (
            "token_type_ids" not in self._encoder_takes
        ):  # another model's tokenizer may give them; for a single text they carry no information
            inputs.pop("token_type_ids", None)
        for name in inputs.keys() - self._encoder_takes:
            raise ValueError(f"`{name}` is not an input of a {encoder.model_type!r} model: leave it out.")
        if getattr(encoder, "type_vocab_size", 0):
            check_ids("`token_type_ids`", token_type_ids, encoder.type_vocab_size)
        token_mask = real_tokens(attention_mask, batch_size, length)  # (B, L)
        places = None
        if token_mask is not None and may_begin_with_padding(token_mask):
            # Padding moves behind the tokens, where it changes no encoder's positions.
            places = places_before_padding(token_mask)  # (B, L)
            order = inverse_order(places)
            inputs = {name: reordered(value, order) for name, value in inputs.items()}
            attention_mask = token_mask.gather(1, order).long()
        for name in ("output_attentions", "output_hidden_states"):
            kwargs.setdefault(name, getattr(self.config, name))
        if (
            "use_cache" in self._encoder_takes
        ):  # the cache of decoder-only models is not needed: nothing comes after the text
            kwargs["use_cache"] = False
        outputs = self.encoder(attention_mask=attention_mask, return_dict=True, **inputs, **kwargs)
        hidden_states, layers, attentions = (
            outputs.last_hidden_state,  # (B, L, d)
            outputs.get("hidden_states"),
            outputs.get("attentions"),
        )
        if places is not None:
            hidden_states = reordered(hidden_states, places)
            layers = layers and tuple(reordered(layer, places) for layer in layers)
            attentions = attentions and tuple(_reordered_maps(maps, places) for maps in attentions)

        states = hidden_states
        if token_mask is not None:
            token_mask = token_mask.to(states.device)
            # With local attention padding may see nothing and become NaN, and NaN times 0 is NaN.
            states = states.masked_fill(~token_mask[..., None], 0.0)
        pooled = pooled_tokens(token_mask, pooling_mask, (batch_size, length))
        representations, label_attentions, lse = self.score(states, pooled)
        if self.config.label_attention == "bilinear":
            representations = with_sentence(representations, self._sentence(states, token_mask))  # (B, C, 2d)
        return LabelAwareModelOutput(
            label_representations=representations,
            last_hidden_state=hidden_states,
            label_attentions=label_attentions,
            label_attention_lse=lse,
            hidden_states=layers,
            attentions=attentions,
        )

    def _sentence(self, hidden_states: torch.Tensor, token_mask: torch.Tensor | None) -> torch.Tensor:
        """(B, L, d), (B, L) or None -> s (B, d)."""
        if self.config.sentence_representation == "first":
            return first_real(hidden_states, token_mask)
        if token_mask is None:
            token_mask = torch.ones_like(hidden_states[..., 0], dtype=torch.bool)
        if self.config.sentence_representation == "mean":
            return masked_mean(hidden_states, token_mask)
        return first_real(hidden_states.flip(1), token_mask.flip(1))


def _reordered_maps(maps: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """Attention (B, h, L, L) with both token axes reordered."""
    places = places.to(maps.device)
    maps = maps.gather(2, places[:, None, :, None].expand_as(maps))
    return maps.gather(3, places[:, None, None].expand_as(maps))


class LabelAwareForSequenceClassification(LabelAwareClassifier, LabelAwarePreTrainedModel):
    """Multi-label (or single-label) classification by label-aware attention. Returns a [`LabelAwareClassifierOutput`]."""

    def __init__(self, config: LabelAwareConfig):
        super().__init__(config)
        self.num_labels = config.num_labels
        self.model = LabelAwareModel(config)
        self.classifier = label_classifier(config)
        self.supports_gradient_checkpointing = self.model.supports_gradient_checkpointing
        self.post_init()


__all__ = ["LabelAwareForSequenceClassification", "LabelAwareModel", "LabelAwarePreTrainedModel"]
