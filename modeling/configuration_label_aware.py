# SPDX-License-Identifier: Apache-2.0
"""Configurations of label-aware attention (Wu, Wang and Liu: Label-Aware Attention for Fine-Grained Emotion Detection)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from huggingface_hub.dataclasses import strict
from transformers import CONFIG_MAPPING, AutoConfig, BertConfig, PreTrainedConfig
from transformers.utils import logging


logger = logging.get_logger(__name__)

# Values that belong to the labels of a checkpoint.
LABEL_FIELDS = (
    *("class_counts", "class_weights", "thresholds", "label_texts"),
    *("calibration_temperature", "abstention", "prediction_sets", "value_range"),
)
# Types of checkpoints with an encoder that has the architecture and the weight names of BERT.
BERT_TYPES = ("bert", "label-aware-bert", "cg-bert", "qacg-bert")


def merged(config_class, config_dict, kwargs, fitting: Sequence[str], remedy: str) -> dict[str, Any]:
    """
    A checkpoint's config.json with the fields among the arguments of `from_pretrained`, so that the checks of the class see both. If the
    arguments change the labels, values for the old labels are left out. ValueError for another model type than those of `fitting`:
    transformers would leave its weights at random values.
    """
    saved, found = dict(config_dict), config_dict.get("model_type", config_class.model_type)
    if found not in fitting:
        wanted = " or ".join(map(repr, fitting))
        raise ValueError(f"the checkpoint must be one of {wanted}, got one of {found!r}: {remedy}.")
    if found != config_class.model_type:
        saved.pop("problem_type", None)  # that of another head
    known = (*config_class.__dataclass_fields__, *LABEL_FIELDS)
    given = {name: kwargs.pop(name) for name in list(kwargs) if name in known}
    names = saved.get("id2label") or {i: f"LABEL_{i}" for i in range(saved.get("num_labels") or 2)}
    new = given.get("id2label") or names
    if kwargs.get("num_labels", len(new)) != len(new):
        new = {}
        saved = {name: value for name, value in saved.items() if name not in ("id2label", "label2id")}
    if {int(i): name for i, name in new.items()} != {int(i): name for i, name in names.items()}:
        stale = [f"`{name}`" for name in LABEL_FIELDS if saved.pop(name, None) is not None and name not in given]
        if stale:
            logger.warning(f"The labels are new: {', '.join(stale)} of the old ones are dropped.")
    return {**saved, **given}


def check_labels(config) -> None:
    """ValueError unless `problem_type`, `value_range`, `class_counts`, `thresholds` and `class_balanced_beta` fit a configuration's labels."""
    kinds = ("single_label_classification", "multi_label_classification", "regression")
    if config.problem_type not in kinds:
        raise ValueError(f"`problem_type` must be one of {kinds}, got {config.problem_type!r}.")
    if config.problem_type == "regression":
        ends = list(config.value_range or [])
        if len(ends) != 2 or not -math.inf < ends[0] < ends[1] < math.inf:
            wanted = "the lowest and the highest value of the data"
            raise ValueError(f"regression needs `value_range`, {wanted}, got {config.value_range}.")
        if config.regression_loss == "ordinal" and any(end % 1 for end in ends):
            raise ValueError(
                f'`regression_loss` "ordinal" needs whole numbers in `value_range`, got {config.value_range}.'
            )
    for name in ("class_counts", "thresholds", "label_texts"):
        values = getattr(config, name, None)
        if values is not None and len(values) != config.num_labels:
            wanted = f"one value for each of the {config.num_labels} labels"
            raise ValueError(f"`{name}` needs {wanted}, got {len(values)}; or pass `{name}=None`.")
    if config.class_counts is not None and min(config.class_counts) < 0:
        raise ValueError(f"`class_counts` must not be negative, got {config.class_counts}.")
    if config.thresholds is not None and not all(0 <= value <= 1 for value in config.thresholds):
        raise ValueError(f"`thresholds` are probabilities and must lie in [0, 1], got {config.thresholds}.")
    if config.class_balanced_beta is not None and not 0 <= config.class_balanced_beta < 1:
        raise ValueError(f"`class_balanced_beta` must lie in [0, 1), got {config.class_balanced_beta}.")


def nested_config(config: Mapping[str, Any] | PreTrainedConfig, field: str) -> PreTrainedConfig:
    """A copy of the configuration `field` of a model over text; ValueError for one that transformers itself does not have, or another."""
    # Not the object itself: a running model's configuration would lose its attention implementation here. The copy does not name the
    # source of the weights, which may be a local folder.
    values = dict(config if isinstance(config, Mapping) else config.to_dict(), _name_or_path="")
    kind = values.get("model_type")
    nested: Any = AutoConfig.for_model(**values) if kind in CONFIG_MAPPING else None
    own = nested is not None and type(nested).__module__.startswith("transformers.")
    if not own or nested.is_encoder_decoder or nested.get_text_config() is not nested:
        fault = "transformers itself does not have, or which is an encoder-decoder or reads more than text"
        raise ValueError(f"`{field}` is of type {kind!r}, which {fault}.")
    return nested


@dataclass(kw_only=True)
class LabelAwareFields:
    r"""
    Args:
        label_attention: `"bilinear"` (default): one attention distribution per label, scores e W Hᵀ (section 3.2 of the paper). `"leam"`:
            one distribution for all labels, from cosine similarities (the paper's LEAM rows).
        label_attention_init: start of W, the `"identity"` (default), or `"normal"`: N(0, `initializer_range`²).
        label_embedding_size: size d' of a label vector, by default that of the vectors from which they start. LEAM needs `hidden_size`.
        label_embedding_init: where `init_label_embeddings` starts label vectors: at the `"words"` (default), the word embeddings of their
            names, or `"contextual"`, at the encoder's last hidden states over the names.
        label_texts: the texts from which `init_label_embeddings` started the labels in their order, where they are not their names.
        leam_radius: r of LEAM's convolution over tokens, kernel size 2r+1.
        tie_head: one feed-forward head for all labels (section 3.3), or one for each.
        head_hidden_size: size of a hidden layer in the head (activation `hidden_act`); `None`: a single linear layer, as in the paper.
        head_bias_init: start of the head's bias: the log odds of the labels' frequencies in the training rows, `"prior"` (default), or
            `"zeros"`. hf-emotion's trainings set the log odds; other trainings call `init_head_bias`.
        class_balanced_beta: β of the class-balanced loss (section 3.4), in [0, 1). `None`: no re-weighting.
        class_balanced_normalize: rescale the weights to mean 1, so that β changes the balance and not the learning rate.
        class_counts: number of training rows of each label; needed by the class-balanced loss.
        thresholds: decision threshold of each label: a label is predicted if its probability is greater.
        problem_type: `"multi_label_classification"` (default), `"single_label_classification"`, or `"regression"`: a value for each label.
        value_range: the lowest and the highest value of the data that a regression learnt.
        regression_loss: `"mse"` (default): squared errors; `"ordinal"`: cumulative logits, for whole numbers (`regression_losses`).
        ordinal_slope: slope of the cumulative logits.
    """

    # Evaluation gathers every output of every row unless told otherwise; (N, C, L) would fill the memory.
    keys_to_ignore_at_inference = ["label_attentions", "label_attention_lse", "hidden_states", "attentions"]

    label_attention: Literal["bilinear", "leam"] = "bilinear"
    label_attention_init: Literal["identity", "normal"] = "identity"
    label_embedding_size: int | None = None
    label_embedding_init: Literal["words", "contextual"] = "words"
    label_texts: list[str] | None = None
    leam_radius: int = 2
    tie_head: bool = True
    head_hidden_size: int | None = None
    head_bias_init: Literal["prior", "zeros"] = "prior"
    class_balanced_beta: float | int | None = None
    class_balanced_normalize: bool = False
    class_counts: list[int] | None = None
    thresholds: list[float | int] | None = None
    value_range: list[float | int] | None = None
    regression_loss: Literal["mse", "ordinal"] = "mse"
    ordinal_slope: float | int = 3.0

    def validate_sizes(self):
        for name in ("label_embedding_size", "head_hidden_size"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"`{name}` must be at least 1, got {value}.")
        if self.leam_radius < 0:
            raise ValueError(f"`leam_radius` must not be negative, got {self.leam_radius}.")
        if self.label_attention != "leam":
            return
        if self.label_embedding_size != self.hidden_size:
            wanted = (
                f"equal `hidden_size` ({self.hidden_size}) with LEAM, which compares label vectors with hidden states"
            )
            raise ValueError(f"`label_embedding_size` must {wanted}; got {self.label_embedding_size}.")
        for name in ("tie_head", "head_hidden_size", "sentence_representation"):
            if getattr(self, name) != getattr(type(self), name):
                raise ValueError(f"`{name}` must stay at its default: LEAM has one linear layer at its end.")

    def validate_labels(self):
        check_labels(self)


@strict
class LabelAwareConfig(LabelAwareFields, PreTrainedConfig):
    r"""
    The fields of [`LabelAwareFields`], and those below. Starts and loss are as in [`LabelAwareBertConfig`].

    Args:
        encoder_config: configuration of the encoder, by default BERT-base's: any model of transformers that reads token ids and is not
            an encoder-decoder.
        sentence_representation: the sentence vector s that goes with the label's vector: the `"mean"` (default) of the hidden states, the state
            of the `"first"` token ([CLS] in BERT and similar models), or of the `"last"` (decoder-only models).
        classifier_dropout: dropout on the head's input.
        initializer_range: standard deviation of weights that start at random.
    """

    model_type = "label-aware"
    sub_configs = {"encoder_config": AutoConfig}
    hidden_act = "gelu"  # activation of the head's hidden layer

    encoder_config: dict[str, Any] | PreTrainedConfig | None = None
    sentence_representation: Literal["mean", "first", "last"] = "mean"
    classifier_dropout: float | int = 0.1
    initializer_range: float = 0.02

    def __post_init__(self, **kwargs):
        self.encoder_config = nested_config(self.encoder_config or {"model_type": "bert"}, "encoder_config")
        for name, size in self.encoder_sizes().items():
            if kwargs.pop(name, size) != size:
                raise ValueError(f"`{name}` is that of the encoder, {size}: change `encoder_config`, or leave it out.")
        if self.label_embedding_size is None:
            self.label_embedding_size = self.hidden_size
            # Some encoders, such as ALBERT and ELECTRA, have smaller word embeddings.
            if self.label_embedding_init == "words" and self.label_attention != "leam":
                for name in ("input_embedding_size", "embedding_size"):
                    self.label_embedding_size = getattr(self.encoder_config, name, None) or self.label_embedding_size
        self.problem_type = self.problem_type or "multi_label_classification"
        super().__post_init__(**kwargs)
        # Not read from a loaded config, whose entries name the repository they came from and would tie a fine-tuned copy to it.
        self.auto_map = {
            "AutoConfig": "configuration_label_aware.LabelAwareConfig",
            "AutoModel": "modeling_label_aware.LabelAwareModel",
            "AutoModelForSequenceClassification": "modeling_label_aware.LabelAwareForSequenceClassification",
        }

    @classmethod
    def from_dict(cls, config_dict, **kwargs):
        remedy = "`from_encoder_pretrained` makes a new model over a text encoder"
        return super().from_dict(merged(cls, config_dict, kwargs, [cls.model_type], remedy), **kwargs)

    def encoder_sizes(self) -> dict[str, int]:
        """By their names in other configurations."""
        sizes = {
            name: getattr(self, name, None) for name in ("hidden_size", "num_hidden_layers", "num_attention_heads")
        }
        return {name: size for name, size in sizes.items() if size is not None}

    def to_dict(self):
        """As in every configuration, with the sizes that PEFT makes prompts from."""
        return super().to_dict() | self.encoder_sizes()

    @property
    def hidden_size(self) -> int:
        """The size of the encoder's last hidden states: `hidden_size`, but for OPT, which projects them to its word embeddings' size."""
        return getattr(self.encoder_config, "word_embed_proj_dim", None) or self.get_text_config().hidden_size

    num_hidden_layers = property(lambda self: self.encoder_config.num_hidden_layers)
    num_attention_heads = property(lambda self: self.encoder_config.num_attention_heads)

    def get_text_config(self, decoder=None, encoder=None) -> PreTrainedConfig:
        """The configuration that holds the vocabulary: the encoder's."""
        return self.encoder_config


@strict
class LabelAwareBertConfig(LabelAwareFields, BertConfig):
    r"""
    Everything of [`BertConfig`] and of [`LabelAwareFields`], and `sentence_representation`, the sentence vector that goes with the
    label's vector: `"cls"` (default), the raw h₁ (paper), or `"pooler"`, BERT's tanh pooler (published code).

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
        self.problem_type = self.problem_type or "multi_label_classification"
        super().__post_init__(**kwargs)
        self.auto_map = {  # as in LabelAwareConfig
            "AutoConfig": "configuration_label_aware.LabelAwareBertConfig",
            "AutoModel": "modeling_label_aware.LabelAwareBertModel",
            "AutoModelForSequenceClassification": "modeling_label_aware.BertForLabelAwareClassification",
        }

    @classmethod
    def from_dict(cls, config_dict, **kwargs):
        remedy = "LabelAwareForSequenceClassification takes an encoder of any kind"
        return super().from_dict(merged(cls, config_dict, kwargs, BERT_TYPES, remedy), **kwargs)

    def validate_encoder_only(self):
        if self.is_decoder or self.add_cross_attention:
            raise ValueError("label-aware BERT is an encoder: `is_decoder` and `add_cross_attention` must be False.")


__all__ = ["LabelAwareBertConfig", "LabelAwareConfig"]
