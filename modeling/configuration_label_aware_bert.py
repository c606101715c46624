# SPDX-License-Identifier: Apache-2.0
"""Configuration of label-aware BERT (Wu, Wang and Liu: Label-Aware Attention for Fine-Grained Emotion Detection)."""

from typing import Literal

from huggingface_hub.dataclasses import strict
from transformers import BertConfig

from .class_balanced_loss import validate_label_fields
from .classifier_fields import ClassifierFields
from .fitting_checkpoints import BERT_TYPES, refuse_other_encoders


@strict
class LabelAwareBertConfig(ClassifierFields, BertConfig):
    r"""
    Everything of [`BertConfig`], and:

    Args:
        label_attention (`"bilinear"` or `"leam"`, defaults to `"bilinear"`):
            `"bilinear"`: one attention distribution per label, scores e W Hᵀ (section 3.2 of the paper). `"leam"`: one
            distribution for all labels, from cosine similarities (the paper's LEAM rows).
        label_embedding_size (`int`, *optional*, defaults to `hidden_size`):
            Size d' of a label vector. Only `hidden_size` allows initialisation from words, and LEAM needs it.
        leam_radius (`int`, defaults to 2):
            r of LEAM's convolution over tokens, kernel size 2r+1.
        tie_head (`bool`, defaults to `True`):
            One feed-forward head for all labels (section 3.3), or one for each.
        head_hidden_size (`int`, *optional*):
            Size of a hidden layer in the head (activation `hidden_act`); `None`: a single linear layer, as in the paper.
        sentence_representation (`"cls"` or `"pooler"`, defaults to `"cls"`):
            The sentence vector beside the label's: the raw h₁ (paper), or BERT's tanh pooler (published code).
        class_balanced_beta (`float`, *optional*):
            β of the class-balanced loss (section 3.4), in [0, 1). `None`: no re-weighting.
        class_balanced_normalize (`bool`, defaults to `False`):
            Rescale the weights to mean 1, so that β changes the balance and not the learning rate.
        class_counts (`list[int]`, *optional*):
            Number of training rows of each label; needed by the class-balanced loss.
        thresholds (`list[float]`, *optional*):
            Decision threshold of each label: a label is predicted where its probability is greater.

    `problem_type` defaults to `"multi_label_classification"`.

    | what the paper leaves open | ours |
    |---|---|
    | start of W | the identity; of LEAM's convolution, a moving average |
    | label of several word pieces | starts at their mean (`init_label_embeddings`; before that N(0, `initializer_range`²)) |
    | dropout | of the head's input (`classifier_dropout`, else `hidden_dropout_prob`), none of the attention |
    | tokens that a label attends to | all but padding, [CLS] and [SEP] included |
    | class-balanced weights of several labels | on both terms of a label's cross-entropy; mean over rows and labels |
    """

    model_type = "label-aware-bert"
    # Evaluation gathers every output of every row unless told otherwise; (N, C, L) would fill the memory.
    keys_to_ignore_at_inference = ["label_attentions", "hidden_states", "attentions"]

    label_attention: Literal["bilinear", "leam"] = "bilinear"
    label_embedding_size: int | None = None
    leam_radius: int = 2
    tie_head: bool = True
    head_hidden_size: int | None = None
    sentence_representation: Literal["cls", "pooler"] = "cls"
    class_balanced_beta: float | int | None = None
    class_balanced_normalize: bool = False
    class_counts: list[int] | None = None
    thresholds: list[float | int] | None = None

    def __post_init__(self, **kwargs):
        if self.label_embedding_size is None:
            self.label_embedding_size = self.hidden_size
        if self.problem_type is None:
            self.problem_type = "multi_label_classification"
        super().__post_init__(**kwargs)
        # The code lies beside the weights. Set here and not read from a loaded config, whose entries carry the name of
        # the repository they came from and would tie a fine-tuned copy to it.
        self.auto_map = {
            "AutoConfig": "configuration_label_aware_bert.LabelAwareBertConfig",
            "AutoModel": "modeling_label_aware_bert.LabelAwareBertModel",
            "AutoModelForSequenceClassification": "modeling_label_aware_bert.BertForLabelAwareClassification",
        }
        self.custom_pipelines = {
            "emotion-classification": {
                "impl": "pipeline_emotion_classification.EmotionClassificationPipeline",
                "pt": ["AutoModelForSequenceClassification"],
            }
        }

    @classmethod
    def check_checkpoint(cls, config_dict):
        refuse_other_encoders(config_dict, BERT_TYPES)

    def validate_encoder_only(self):
        if self.is_decoder or self.add_cross_attention:
            raise ValueError("label-aware BERT is an encoder: `is_decoder` and `add_cross_attention` must be False.")

    def validate_sizes(self):
        for name in ("label_embedding_size", "head_hidden_size"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"`{name}` must be at least 1, got {value}.")
        if self.leam_radius < 0:
            raise ValueError(f"`leam_radius` must not be negative, got {self.leam_radius}.")
        if self.label_attention == "leam":
            if self.label_embedding_size != self.hidden_size:
                raise ValueError(
                    "LEAM compares label vectors with hidden states: `label_embedding_size` must equal `hidden_size` "
                    f"({self.hidden_size}), got {self.label_embedding_size}."
                )
            if self.head_hidden_size is not None or not self.tie_head or self.sentence_representation != "cls":
                raise ValueError(
                    "LEAM ends in one linear layer from the attended vector to the labels: leave `head_hidden_size`, "
                    "`tie_head` and `sentence_representation` at their defaults."
                )

    def validate_labels(self):
        validate_label_fields(self)


__all__ = ["LabelAwareBertConfig"]
