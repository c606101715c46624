# SPDX-License-Identifier: Apache-2.0
"""What the configurations of models with label-aware attention share."""

from dataclasses import dataclass
from typing import Literal

from .class_balanced_loss import validate_label_fields
from .classifier_fields import ClassifierFields


@dataclass(kw_only=True)
class LabelAwareFields(ClassifierFields):
    r"""
    Args:
        label_attention (`"bilinear"` or `"leam"`, defaults to `"bilinear"`):
            `"bilinear"`: one attention distribution per label, scores e W Hᵀ (section 3.2 of the paper). `"leam"`: one
            distribution for all labels, from cosine similarities (the paper's LEAM rows).
        label_attention_init (`"identity"` or `"normal"`, defaults to `"identity"`):
            Start of W: the identity, or N(0, `initializer_range`²).
        label_embedding_size (`int`, *optional*, defaults to the size of the vectors from which they start):
            Size d' of a label vector. LEAM needs `hidden_size`.
        label_embedding_init (`"words"` or `"contextual"`, defaults to `"words"`):
            Where `init_label_embeddings` starts label vectors: at the word embeddings of their names, or at the encoder's last
            hidden states over the names.
        leam_radius (`int`, defaults to 2):
            r of LEAM's convolution over tokens, kernel size 2r+1.
        tie_head (`bool`, defaults to `True`):
            One feed-forward head for all labels (section 3.3), or one for each.
        head_hidden_size (`int`, *optional*):
            Size of a hidden layer in the head (activation `hidden_act`); `None`: a single linear layer, as in the paper.
        head_bias_init (`"prior"` or `"zeros"`, defaults to `"prior"`):
            Start of the head's bias: the log odds of the labels' frequencies in the training rows, or 0. hf-emotion's
            trainings set the log odds; other trainings call `init_head_bias`.
        class_balanced_beta (`float`, *optional*):
            β of the class-balanced loss (section 3.4), in [0, 1). `None`: no re-weighting.
        class_balanced_normalize (`bool`, defaults to `False`):
            Rescale the weights to mean 1, so that β changes the balance and not the learning rate.
        class_counts (`list[int]`, *optional*):
            Number of training rows of each label; needed by the class-balanced loss.
        thresholds (`list[float]`, *optional*):
            Decision threshold of each label: a label is predicted if its probability is greater.
    """

    # Evaluation gathers every output of every row unless told otherwise; (N, C, L) would fill the memory.
    keys_to_ignore_at_inference = ["label_attentions", "label_attention_lse", "hidden_states", "attentions"]

    label_attention: Literal["bilinear", "leam"] = "bilinear"
    label_attention_init: Literal["identity", "normal"] = "identity"
    label_embedding_size: int | None = None
    label_embedding_init: Literal["words", "contextual"] = "words"
    leam_radius: int = 2
    tie_head: bool = True
    head_hidden_size: int | None = None
    head_bias_init: Literal["prior", "zeros"] = "prior"
    class_balanced_beta: float | int | None = None
    class_balanced_normalize: bool = False
    class_counts: list[int] | None = None
    thresholds: list[float | int] | None = None

    def __post_init__(self, **kwargs):
        if self.problem_type is None:
            self.problem_type = "multi_label_classification"
        super().__post_init__(**kwargs)
        self.custom_pipelines = {
            "emotion-classification": {
                "impl": "pipeline_emotion_classification.EmotionClassificationPipeline",
                "pt": ["AutoModelForSequenceClassification"],
            }
        }

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
            default = type(self).sentence_representation
            if self.head_hidden_size is not None or not self.tie_head or self.sentence_representation != default:
                raise ValueError(
                    "LEAM ends in one linear layer from the attended vector to the labels: leave `head_hidden_size`, "
                    "`tie_head` and `sentence_representation` at their defaults."
                )

    def validate_labels(self):
        validate_label_fields(self)


__all__ = ["LabelAwareFields"]
