# SPDX-License-Identifier: Apache-2.0
"""The published models. Importing this package registers every class with transformers' Auto classes.

Each file beside this one is also copied next to saved weights, where it runs without the rest of hf-emotion.
"""

from typing import Any

from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
)
from transformers.pipelines import PIPELINE_REGISTRY

# Makes it an attribute here even if `hf_emotion.runtime.plain` imported it before the package.
from . import text_processing  # noqa: F401
from .configuration_cg_bert import CGBertConfig, QACGBertConfig
from .configuration_dialogue_bilstm import DialogueBiLSTMConfig
from .configuration_emotion_modulated import EmotionModulatedConfig
from .configuration_label_aware import LabelAwareBertConfig, LabelAwareConfig
from .configuration_mod_ln import BertModLNConfig, GPT2ModLNConfig
from .configuration_roberta_esa import RobertaESAConfig
from .modeling_cg_bert import (
    CGBertForSequenceClassification,
    CGBertModel,
    QACGBertForSequenceClassification,
    QACGBertModel,
)
from .modeling_dialogue_bilstm import DialogueBiLSTMForEmotionRecognition, DialogueBiLSTMModel
from .modeling_emotion_modulated import EmotionModulatedForCausalLM, EmotionModulatedModel
from .modeling_label_aware import (
    BertForLabelAwareClassification,
    LabelAwareBertModel,
    LabelAwareForSequenceClassification,
    LabelAwareModel,
    class_balanced_weights,
    classification_loss,
)
from .modeling_mod_ln import (
    BertModLNForConditionalGeneration,
    BertModLNModel,
    GPT2ModLNForConditionalGeneration,
    GPT2ModLNModel,
    ModulatedLayerNorm,
    Modulators,
)
from .modeling_roberta_esa import RobertaESAModel, RobertaWithESA, RobertaWithESAForSequenceClassification
from .pipeline_dialogue_emotion import DialogueEmotionPipeline
from .pipeline_emotion_classification import EmotionClassificationPipeline
from .pipeline_emotional_response import EmotionalResponsePipeline
from .pipeline_targeted_sentiment import TargetedSentimentPipeline


for config_class, model_class, head_class, auto_class in (
    (
        LabelAwareBertConfig,
        LabelAwareBertModel,
        BertForLabelAwareClassification,
        AutoModelForSequenceClassification,
    ),
    (LabelAwareConfig, LabelAwareModel, LabelAwareForSequenceClassification, AutoModelForSequenceClassification),
    (CGBertConfig, CGBertModel, CGBertForSequenceClassification, AutoModelForSequenceClassification),
    (QACGBertConfig, QACGBertModel, QACGBertForSequenceClassification, AutoModelForSequenceClassification),
    (
        RobertaESAConfig,
        RobertaWithESA,
        RobertaWithESAForSequenceClassification,
        AutoModelForSequenceClassification,
    ),
    (
        DialogueBiLSTMConfig,
        DialogueBiLSTMModel,
        DialogueBiLSTMForEmotionRecognition,
        AutoModelForTokenClassification,
    ),
    (GPT2ModLNConfig, GPT2ModLNModel, GPT2ModLNForConditionalGeneration, AutoModelForSeq2SeqLM),
    (BertModLNConfig, BertModLNModel, BertModLNForConditionalGeneration, AutoModelForSeq2SeqLM),
    (EmotionModulatedConfig, EmotionModulatedModel, EmotionModulatedForCausalLM, AutoModelForCausalLM),
):
    # With an auto class set, `save_pretrained` copies the class's files beside the weights.
    AutoConfig.register(config_class.model_type, config_class, exist_ok=True)
    AutoModel.register(config_class, model_class, exist_ok=True)
    model_class.register_for_auto_class("AutoModel")
    auto_class.register(config_class, head_class, exist_ok=True)
    config_class.register_for_auto_class()
    head_class.register_for_auto_class(auto_class.__name__)

pipeline_classes: tuple[Any, ...] = (
    EmotionClassificationPipeline,
    TargetedSentimentPipeline,
    DialogueEmotionPipeline,
    EmotionalResponsePipeline,
)
for pipeline_class in pipeline_classes:
    for task, entry in pipeline_class._registered_impl.items():
        PIPELINE_REGISTRY.register_pipeline(task, pipeline_class=pipeline_class, pt_model=entry["pt"])

__all__ = [
    "BertForLabelAwareClassification",
    "BertModLNConfig",
    "BertModLNForConditionalGeneration",
    "BertModLNModel",
    "CGBertConfig",
    "CGBertForSequenceClassification",
    "CGBertModel",
    "DialogueBiLSTMConfig",
    "DialogueBiLSTMForEmotionRecognition",
    "DialogueBiLSTMModel",
    "DialogueEmotionPipeline",
    "EmotionClassificationPipeline",
    "EmotionModulatedConfig",
    "EmotionModulatedForCausalLM",
    "EmotionModulatedModel",
    "EmotionalResponsePipeline",
    "GPT2ModLNConfig",
    "GPT2ModLNForConditionalGeneration",
    "GPT2ModLNModel",
    "LabelAwareBertConfig",
    "LabelAwareBertModel",
    "LabelAwareConfig",
    "LabelAwareForSequenceClassification",
    "LabelAwareModel",
    "ModulatedLayerNorm",
    "Modulators",
    "QACGBertConfig",
    "QACGBertForSequenceClassification",
    "QACGBertModel",
    "RobertaESAConfig",
    "RobertaESAModel",
    "RobertaWithESA",
    "RobertaWithESAForSequenceClassification",
    "TargetedSentimentPipeline",
    "class_balanced_weights",
    "classification_loss",
]
