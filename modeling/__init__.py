# SPDX-License-Identifier: Apache-2.0
"""The published models. Importing this package registers every class with transformers' Auto classes.

Each file beside this one is also copied next to saved weights, where it runs without the rest of hf-emotion.
"""

from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification
from transformers.pipelines import PIPELINE_REGISTRY

from .class_balanced_loss import class_balanced_weights, classification_loss
from .configuration_cg_bert import CGBertConfig
from .configuration_label_aware_bert import LabelAwareBertConfig
from .configuration_qacg_bert import QACGBertConfig
from .modeling_cg_bert import CGBertForSequenceClassification, CGBertModel
from .modeling_label_aware_bert import BertForLabelAwareClassification, LabelAwareBertModel
from .modeling_qacg_bert import QACGBertForSequenceClassification, QACGBertModel
from .pipeline_emotion_classification import EmotionClassificationPipeline
from .pipeline_targeted_sentiment import TargetedSentimentPipeline


for config_class, model_class, classifier_class in (
    (LabelAwareBertConfig, LabelAwareBertModel, BertForLabelAwareClassification),
    (CGBertConfig, CGBertModel, CGBertForSequenceClassification),
    (QACGBertConfig, QACGBertModel, QACGBertForSequenceClassification),
):
    AutoConfig.register(config_class.model_type, config_class, exist_ok=True)
    AutoModel.register(config_class, model_class, exist_ok=True)
    AutoModelForSequenceClassification.register(config_class, classifier_class, exist_ok=True)
    # With an auto class set, `save_pretrained` copies the class's files beside the weights.
    config_class.register_for_auto_class()
    model_class.register_for_auto_class("AutoModel")
    classifier_class.register_for_auto_class("AutoModelForSequenceClassification")

for task, pipeline_class in (
    ("emotion-classification", EmotionClassificationPipeline),
    ("targeted-sentiment", TargetedSentimentPipeline),
):
    PIPELINE_REGISTRY.register_pipeline(
        task, pipeline_class=pipeline_class, pt_model=AutoModelForSequenceClassification
    )

__all__ = [
    "BertForLabelAwareClassification",
    "CGBertConfig",
    "CGBertForSequenceClassification",
    "CGBertModel",
    "EmotionClassificationPipeline",
    "LabelAwareBertConfig",
    "LabelAwareBertModel",
    "QACGBertConfig",
    "QACGBertForSequenceClassification",
    "QACGBertModel",
    "TargetedSentimentPipeline",
    "class_balanced_weights",
    "classification_loss",
]
