# SPDX-License-Identifier: Apache-2.0
"""Configurations of label-aware attention (Wu, Wang and Liu: Label-Aware Attention for Fine-Grained Emotion Detection)."""

from dataclasses import dataclass, field
from typing import Any, Literal

from huggingface_hub.dataclasses import strict
from transformers import AutoConfig, BertConfig, PreTrainedConfig

from .common import (
    BERT_TYPES,
    CheckpointFields,
    ClassifierFields,
    ContextFields,
    EncoderFields,
    check_least,
    nested_config,
    set_auto_map,
)


@dataclass(kw_only=True)
class LabelAwareFields(ClassifierFields, ContextFields):
    r"""
    The fields of [`ClassifierFields`] and [`ContextFields`], and:

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
        problem_type: `"multi_label_classification"` (default), `"single_label_classification"` (with `aspects`), or `"regression"`: a
            value for each label.
        aspects: names of A aspects, for each of which a text has one label. A label vector then stands for an aspect and a label ("price
            positive"); the label "none", for an aspect that the text does not name, has no vector: its logit is the constant 0.
        target_words: what the model reads for the target that is asked about, and for every other one.
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
    target_words: list[str] = field(default_factory=lambda: ["this one", "another one"])

    @property
    def vector_names(self):
        """Strings: what the label vectors stand for: the labels, or with `aspects` each aspect with each label but "none"."""
        names = [self.id2label[i] for i in range(self.num_labels)]
        if self.aspects is None:
            return names
        return [f"{aspect} {name}" for aspect in self.aspects for i, name in enumerate(names) if i != self.none_id]

    @property
    def none_id(self):
        """The id of the label "none", in any case; None if there is no such label."""
        return next((i for i in range(self.num_labels) if self.id2label[i].casefold() == "none"), None)

    def start_problem_type(self):
        kind = "multi_label_classification" if self.aspects is None else "single_label_classification"
        self.problem_type = self.problem_type or kind

    def validate_aspects(self):
        if self.aspects is not None and self.problem_type != "single_label_classification":
            wanted = "must be 'single_label_classification' with `aspects`, each of which has one label"
            raise ValueError(f"`problem_type` {wanted}; got {self.problem_type!r}.")
        if len(self.target_words) != 2:
            raise ValueError(f"`target_words` needs two texts, got {self.target_words}.")

    def validate_sizes(self):
        if self.label_texts is not None:
            self.check_count("label_texts", len(self.vector_names))
        check_least(self, label_embedding_size=1, head_hidden_size=1, leam_radius=0)
        if self.label_attention != "leam":
            return
        if self.label_embedding_size != self.hidden_size:
            wanted, found = f"equal `hidden_size` ({self.hidden_size})", self.label_embedding_size
            raise ValueError(
                f"`label_embedding_size` must {wanted}, because LEAM compares label vectors with hidden states; got {found}."
            )
        for name in ("tie_head", "head_hidden_size", "sentence_representation"):
            if getattr(self, name) != getattr(type(self), name):
                raise ValueError(f"`{name}` must stay at its default: LEAM has one linear layer at its end.")


@strict
class LabelAwareConfig(CheckpointFields, LabelAwareFields, PreTrainedConfig):
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
    remedy = "`from_encoder_pretrained` makes a new model over a text encoder"
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
        self.start_problem_type()
        super().__post_init__(**kwargs)
        set_auto_map(self, "LabelAwareModel", "LabelAwareForSequenceClassification")

    def encoder_sizes(self) -> dict[str, int]:
        """By their names in other configurations."""
        names = ("hidden_size", "num_hidden_layers", "num_attention_heads")
        sizes = {name: getattr(self, name, None) for name in names}
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
class LabelAwareBertConfig(EncoderFields, LabelAwareFields, BertConfig):
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
    fitting = BERT_TYPES
    sentence_representation: Literal["cls", "pooler"] = "cls"

    def __post_init__(self, **kwargs):
        if self.label_embedding_size is None:
            self.label_embedding_size = self.hidden_size
        self.start_problem_type()
        super().__post_init__(**kwargs)
        set_auto_map(self, "LabelAwareBertModel", "BertForLabelAwareClassification")


__all__ = ["LabelAwareBertConfig", "LabelAwareConfig"]
