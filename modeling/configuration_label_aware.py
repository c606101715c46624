# SPDX-License-Identifier: Apache-2.0
"""Configuration of label-aware attention over any text encoder."""

from typing import Any, Literal

from huggingface_hub.dataclasses import strict
from transformers import AutoConfig, PreTrainedConfig

from .fitting_checkpoints import refuse_other_checkpoints
from .label_aware_fields import LabelAwareFields
from .nested_encoder import NestedSizes, nested_config, output_size


@strict
class LabelAwareConfig(LabelAwareFields, NestedSizes, PreTrainedConfig):
    r"""
    The fields of [`LabelAwareFields`], and:

    Args:
        encoder_config (`PreTrainedConfig` or `dict`, defaults to BERT-base's):
            Configuration of the encoder: any model of transformers that reads token ids and is no encoder-decoder.
        sentence_representation (`"mean"`, `"first"` or `"last"`, defaults to `"mean"`):
            The sentence vector s beside the label's vector: the mean of the hidden states, the state of the first token ([CLS] in
            BERT and similar models), or of the last token (decoder-only models).
        classifier_dropout (`float`, defaults to 0.1):
            Dropout on the head's input.
        initializer_range (`float`, defaults to 0.02):
            Standard deviation of weights that start at random.

    `problem_type` defaults to `"multi_label_classification"`. Starts and loss are as in [`LabelAwareBertConfig`].
    """

    model_type = "label-aware"
    sub_configs = {"encoder_config": AutoConfig}
    hidden_act = "gelu"  # activation of the head's hidden layer

    encoder_config: dict[str, Any] | PreTrainedConfig | None = None
    sentence_representation: Literal["mean", "first", "last"] = "mean"
    classifier_dropout: float | int = 0.1
    initializer_range: float = 0.02

    def __post_init__(self, **kwargs):
        self.encoder_config = nested_config(self.encoder_config or {"model_type": "bert"})
        if self.label_embedding_size is None:
            self.label_embedding_size = self.hidden_size
            if self.label_embedding_init == "words" and self.label_attention != "leam":
                words = (
                    getattr(self.encoder_config, name, None) for name in ("embedding_size", "input_embedding_size")
                )
                self.label_embedding_size = next(filter(None, words), self.hidden_size)
        super().__post_init__(**kwargs)
        # The code lies beside the weights. Set here and not read from a loaded config, whose entries carry the name of
        # the repository they came from and would tie a fine-tuned copy to it.
        self.auto_map = {
            "AutoConfig": "configuration_label_aware.LabelAwareConfig",
            "AutoModel": "modeling_label_aware.LabelAwareModel",
            "AutoModelForSequenceClassification": "modeling_label_aware.LabelAwareForSequenceClassification",
        }

    @classmethod
    def check_checkpoint(cls, config_dict):
        refuse_other_checkpoints(
            config_dict, [cls.model_type], "`from_encoder_pretrained` makes a new model over a text encoder"
        )

    @property
    def hidden_size(self) -> int:
        """The size of the encoder's last hidden states."""
        return output_size(self.encoder_config)

    def get_text_config(self, decoder=None, encoder=None) -> PreTrainedConfig:
        """The configuration that holds the vocabulary: the encoder's."""
        return self.encoder_config


__all__ = ["LabelAwareConfig"]
