# SPDX-License-Identifier: Apache-2.0
"""Configuration of label-aware BERT (Wu, Wang and Liu: Label-Aware Attention for Fine-Grained Emotion Detection)."""

from typing import Literal

from huggingface_hub.dataclasses import strict
from transformers import BertConfig

from .fitting_checkpoints import BERT_TYPES, refuse_other_encoders
from .label_aware_fields import LabelAwareFields


@strict
class LabelAwareBertConfig(LabelAwareFields, BertConfig):
    r"""
    Everything of [`BertConfig`] and of [`LabelAwareFields`], and:

    Args:
        sentence_representation (`"cls"` or `"pooler"`, defaults to `"cls"`):
            The sentence vector beside the label's vector: the raw h₁ (paper), or BERT's tanh pooler (published code).

    `problem_type` defaults to `"multi_label_classification"`.

    | what the paper leaves open | ours |
    |---|---|
    | start of W | the identity (`label_attention_init`); LEAM's convolution starts as a moving average |
    | start of a label | the mean over its word pieces (`init_label_embeddings`; before that N(0, `initializer_range`²)) |
    | start of the head's bias | the log odds of the labels' frequencies in a training, else 0 (`head_bias_init`) |
    | dropout | of the head's input (`classifier_dropout`, else `hidden_dropout_prob`), none of the attention |
    | tokens that a label attends to | all but padding, [CLS] and [SEP] included |
    | class-balanced weights of several labels | on both terms of a label's cross-entropy; mean over rows and labels |
    """

    model_type = "label-aware-bert"
    sentence_representation: Literal["cls", "pooler"] = "cls"

    def __post_init__(self, **kwargs):
        if self.label_embedding_size is None:
            self.label_embedding_size = self.hidden_size
        super().__post_init__(**kwargs)
        # The code lies beside the weights. Set here and not read from a loaded config, whose entries carry the name of
        # the repository they came from and would tie a fine-tuned copy to it.
        self.auto_map = {
            "AutoConfig": "configuration_label_aware_bert.LabelAwareBertConfig",
            "AutoModel": "modeling_label_aware_bert.LabelAwareBertModel",
            "AutoModelForSequenceClassification": "modeling_label_aware_bert.BertForLabelAwareClassification",
        }

    @classmethod
    def check_checkpoint(cls, config_dict):
        refuse_other_encoders(config_dict, BERT_TYPES)

    def validate_encoder_only(self):
        if self.is_decoder or self.add_cross_attention:
            raise ValueError("label-aware BERT is an encoder: `is_decoder` and `add_cross_attention` must be False.")


__all__ = ["LabelAwareBertConfig"]
