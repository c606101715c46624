# SPDX-License-Identifier: Apache-2.0
"""Label-aware BERT (Wu, Wang and Liu: Label-Aware Attention for Fine-Grained Emotion Detection), and its LEAM variant.

Shapes: B batch, L tokens, d hidden size, C labels.
"""

from typing import TYPE_CHECKING

import torch
from transformers.masking_utils import create_bidirectional_mask
from transformers.models.bert.modeling_bert import (
    BertEmbeddings,
    BertEncoder,
    BertLayer,
    BertPooler,
    BertPreTrainedModel,
    BertSelfAttention,
)
from transformers.processing_utils import Unpack
from transformers.utils import TransformersKwargs
from transformers.utils.generic import merge_with_config_defaults
from transformers.utils.output_capturing import capture_outputs

from .checked_input import check_ids, check_input, warn_of_padding
from .configuration_label_aware_bert import LabelAwareBertConfig
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
from .padding import additive_mask, first_real, may_begin_with_padding, positions_from_first_real, real_tokens
from .renamed_weights import RenamedWeights


if TYPE_CHECKING:  # never run: `save_pretrained` publishes the files that are imported here beside the weights
    from .pipeline_emotion_classification import EmotionClassificationPipeline  # noqa: F401


class LabelAwareBertPreTrainedModel(LabelAwareWeights, OverEncoder, RenamedWeights, BertPreTrainedModel):
    config: LabelAwareBertConfig
    config_class = LabelAwareBertConfig
    base_model_prefix = "bert"
    _no_split_modules = ["BertEmbeddings", "BertLayer"]
    _can_record_outputs = {"hidden_states": BertLayer, "attentions": BertSelfAttention}
    _renamed_weights = {
        "label_embeddings.weight": "score.label_embeddings",
        **{f"label_attention.{name}": f"score.{name}" for name in ("weight", "bias", "scale")},
    }


class LabelAwareBertModel(LabelVectors, LabelAwareBertPreTrainedModel):
    """BERT with one vector per label that attends to its tokens. Returns a [`LabelAwareModelOutput`]."""

    def __init__(self, config: LabelAwareBertConfig):
        super().__init__(config)
        self.embeddings = BertEmbeddings(config)
        self.encoder = BertEncoder(config)
        self.pooler = BertPooler(config) if config.sentence_representation == "pooler" else None
        # Everything that is new here, label vectors included. PEFT trains and saves modules named "score" or "classifier" without being asked.
        self.score = label_pooling(config)
        self.post_init()

    def get_input_embeddings(self):
        return self.embeddings.word_embeddings

    def set_input_embeddings(self, value):
        self.embeddings.word_embeddings = value

    @merge_with_config_defaults
    @capture_outputs
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
            input_ids, token_type_ids, position_ids, inputs_embeds: as in [`BertModel`]; positions count from the first real token.
            attention_mask: (B, L), 1 for real tokens, 0 for padding, on either side; or four-dimensional, see `real_tokens`.
            pooling_mask: (B, L), 1 for the real tokens that labels may attend to, at least one in each row; default: all. For
                overlapping windows of a long text it is 0 at tokens that another window counts.

        Raises:
            ValueError: see `check_input` and `real_tokens`.
        """
        batch_size, length = check_input(self.config, input_ids, inputs_embeds)
        warn_of_padding(self.config, input_ids, attention_mask)
        check_ids("`token_type_ids`", token_type_ids, self.config.type_vocab_size)
        token_mask = real_tokens(attention_mask, batch_size, length)  # (B, L)
        leading = token_mask if may_begin_with_padding(token_mask) else None
        if position_ids is None and leading is not None:
            position_ids = positions_from_first_real(leading)
        embedding_output = self.embeddings(
            input_ids=input_ids,
            token_type_ids=token_type_ids,
            position_ids=position_ids,
            inputs_embeds=inputs_embeds,
        )
        if attention_mask is not None and attention_mask.dim() == 4:
            attention_mask = additive_mask(attention_mask, embedding_output.dtype)
        hidden_states = self.encoder(
            embedding_output,
            attention_mask=create_bidirectional_mask(
                config=self.config, inputs_embeds=embedding_output, attention_mask=attention_mask
            ),
            **kwargs,
        ).last_hidden_state  # (B, L, d)

        pooled = pooled_tokens(token_mask, pooling_mask, (batch_size, length))
        representations, label_attentions, lse = self.score(hidden_states, pooled)
        if self.config.label_attention == "bilinear":
            sentence = first_real(hidden_states, leading)  # (B, d)
            if self.pooler is not None:
                sentence = self.pooler(sentence[:, None])
            representations = with_sentence(representations, sentence)  # (B, C, 2d)
        return LabelAwareModelOutput(
            label_representations=representations,
            last_hidden_state=hidden_states,
            label_attentions=label_attentions,
            label_attention_lse=lse,
        )


class BertForLabelAwareClassification(LabelAwareClassifier, LabelAwareBertPreTrainedModel):
    """Multi-label (or single-label) classification by label-aware attention. Returns a [`LabelAwareClassifierOutput`]."""

    def __init__(self, config: LabelAwareBertConfig):
        super().__init__(config)
        self.num_labels = config.num_labels
        self.bert = LabelAwareBertModel(config)
        self.classifier = label_classifier(config)
        self.post_init()


__all__ = [
    "BertForLabelAwareClassification",
    "LabelAwareBertModel",
    "LabelAwareBertPreTrainedModel",
]
