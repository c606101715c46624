# SPDX-License-Identifier: Apache-2.0
"""Emotion and aspect-sentiment models as first-class Hugging Face models, and the toolkit around them."""

import importlib
from typing import TYPE_CHECKING, Any

from .io.version import __version__  # noqa: F401


# Imported when first used, so that `import hf_emotion` loads neither torch nor transformers.
_HOMES = {
    name: home
    for home, names in {
        ".inference.explain": "explain",
        ".inference.features": "EmotionFeatures",
        ".modeling": (
            "AspectExtractionPipeline BertForLabelAwareClassification BertModLNConfig BertModLNForConditionalGeneration BertModLNModel "
            "CGBertConfig CGBertForSequenceClassification CGBertModel DialogueBiLSTMConfig "
            "DialogueBiLSTMForEmotionRecognition DialogueBiLSTMModel DialogueEmotionPipeline "
            "EmotionClassificationPipeline EmotionModulatedConfig EmotionModulatedForCausalLM "
            "EmotionModulatedModel EmotionalResponsePipeline GPT2ModLNConfig GPT2ModLNForConditionalGeneration "
            "GPT2ModLNModel LabelAwareBertConfig LabelAwareBertModel LabelAwareConfig "
            "LabelAwareForSequenceClassification LabelAwareModel ModulatedLayerNorm Modulators QACGBertConfig "
            "QACGBertForSequenceClassification QACGBertModel RobertaESAConfig RobertaESAModel RobertaWithESA "
            "RobertaWithESAForSequenceClassification TargetedSentimentPipeline"
        ),
        ".recipes": "Recipe",
        ".reports.compare": "compare",
        ".reports.faithfulness": "faithfulness",
        ".reports.label_errors": "check_labels",
        ".reports.summarize": "summarize",
        ".runs.evaluate": "evaluate",
        ".runs.sweep": "sweep",
        ".runs.train": "train",
        ".serving.threads": "BatchingPredictor",
        ".tasks.aspect_extraction.predictor": "AspectPredictor",
        ".tasks.dialogue_emotion.predictor": "DialoguePredictor",
        ".tasks.emotion_classification.predictor": "Predictor",
        ".tasks.emotional_response.folding": "fold",
        ".tasks.emotional_response.onnx_replies": "OnnxReplyGenerator",
        ".tasks.emotional_response.predictor": "ReplyGenerator",
        ".tasks.loading": "load_dataset_for",
        ".tasks.targeted_sentiment.predictor": "TargetedPredictor",
        ".training.recipe_checks": "load_recipe",
    }.items()
    for name in names.split()
}
_MODULES = ("convert", "metrics")

__all__ = [*_HOMES, *_MODULES]

if TYPE_CHECKING:
    from . import convert, metrics  # noqa: F401
    from .inference.explain import explain  # noqa: F401
    from .inference.features import EmotionFeatures  # noqa: F401
    from .modeling import *  # noqa: F403
    from .recipes import Recipe  # noqa: F401
    from .reports.compare import compare  # noqa: F401
    from .reports.faithfulness import faithfulness  # noqa: F401
    from .reports.label_errors import check_labels  # noqa: F401
    from .reports.summarize import summarize  # noqa: F401
    from .runs.evaluate import evaluate  # noqa: F401
    from .runs.sweep import sweep  # noqa: F401
    from .runs.train import train  # noqa: F401
    from .serving.threads import BatchingPredictor  # noqa: F401
    from .tasks.aspect_extraction.predictor import AspectPredictor  # noqa: F401
    from .tasks.dialogue_emotion.predictor import DialoguePredictor  # noqa: F401
    from .tasks.emotion_classification.predictor import Predictor  # noqa: F401
    from .tasks.emotional_response.folding import fold  # noqa: F401
    from .tasks.emotional_response.onnx_replies import OnnxReplyGenerator  # noqa: F401
    from .tasks.emotional_response.predictor import ReplyGenerator  # noqa: F401
    from .tasks.loading import load_dataset_for  # noqa: F401
    from .tasks.targeted_sentiment.predictor import TargetedPredictor  # noqa: F401
    from .training.recipe_checks import load_recipe  # noqa: F401


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f".{name}", __name__)
    if name in _HOMES:
        value = getattr(importlib.import_module(_HOMES[name], __name__), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
