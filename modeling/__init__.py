# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F403, F405
"""The published models. Importing this package registers every class with transformers' Auto classes.

Each file beside this one is also copied next to saved weights, where it runs without the rest of hf-emotion.
"""

from typing import Any

import transformers
from transformers.pipelines import PIPELINE_REGISTRY

# Makes it an attribute here even if `hf_emotion.runtime.plain` imported it before the package.
from . import text_processing as text_processing
from .configuration_cg_bert import *
from .configuration_dialogue_bilstm import *
from .configuration_emotion_modulated import *
from .configuration_label_aware import *
from .configuration_mod_ln import *
from .configuration_roberta_esa import *
from .modeling_cg_bert import *
from .modeling_dialogue_bilstm import *
from .modeling_emotion_modulated import *
from .modeling_label_aware import *
from .modeling_mod_ln import *
from .modeling_roberta_esa import *
from .pipeline_aspect_extraction import *
from .pipeline_dialogue_emotion import *
from .pipeline_emotion_classification import *
from .pipeline_emotional_response import *
from .pipeline_targeted_sentiment import *


config_classes: tuple[Any, ...] = (
    *(LabelAwareBertConfig, LabelAwareConfig, CGBertConfig, QACGBertConfig, RobertaESAConfig),
    *(DialogueBiLSTMConfig, GPT2ModLNConfig, BertModLNConfig, EmotionModulatedConfig),
)
for config_class in config_classes:
    # With an auto class set, `save_pretrained` copies the class's files beside the weights.
    transformers.AutoConfig.register(config_class.model_type, config_class, exist_ok=True)
    config_class.register_for_auto_class()
    for auto_class, home in config_class().auto_map.items():
        if auto_class != "AutoConfig":
            model_class = globals()[home.partition(".")[2]]
            getattr(transformers, auto_class).register(config_class, model_class, exist_ok=True)
            model_class.register_for_auto_class(auto_class)

pipeline_classes: tuple[Any, ...] = (
    *(EmotionClassificationPipeline, TargetedSentimentPipeline, AspectExtractionPipeline),
    *(DialogueEmotionPipeline, EmotionalResponsePipeline),
)
for pipeline_class in pipeline_classes:
    for task, entry in pipeline_class._registered_impl.items():
        PIPELINE_REGISTRY.register_pipeline(task, pipeline_class=pipeline_class, pt_model=entry["pt"])
