# SPDX-License-Identifier: Apache-2.0
"""The published models. Importing this package registers every class with transformers' Auto classes.

Each file beside this one is also copied next to saved weights, where it runs without the rest of hf-emotion.
"""

from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification
from transformers.pipelines import PIPELINE_REGISTRY

from .class_balanced_loss import class_balanced_weights, classification_loss
from .configuration_label_aware_bert import LabelAwareBertConfig
from .modeling_label_aware_bert import BertForLabelAwareClassification, LabelAwareBertModel
from .pipeline_emotion_classification import EmotionClassificationPipeline


AutoConfig.register("label-aware-bert", LabelAwareBertConfig, exist_ok=True)
AutoModel.register(LabelAwareBertConfig, LabelAwareBertModel, exist_ok=True)
AutoModelForSequenceClassification.register(LabelAwareBertConfig, BertForLabelAwareClassification, exist_ok=True)
# With an auto class set, `save_pretrained` copies the class's files beside the weights.
LabelAwareBertConfig.register_for_auto_class()
LabelAwareBertModel.register_for_auto_class("AutoModel")
BertForLabelAwareClassification.register_for_auto_class("AutoModelForSequenceClassification")

PIPELINE_REGISTRY.register_pipeline(
    "emotion-classification",
    pipeline_class=EmotionClassificationPipeline,
    pt_model=AutoModelForSequenceClassification,
)

__all__ = [
    "BertForLabelAwareClassification",
    "EmotionClassificationPipeline",
    "LabelAwareBertConfig",
    "LabelAwareBertModel",
    "class_balanced_weights",
    "classification_loss",
]
