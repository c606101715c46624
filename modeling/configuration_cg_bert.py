# SPDX-License-Identifier: Apache-2.0
"""Configuration of context-guided BERT (Wu and Ong: Context-Guided BERT for Targeted Aspect-Based Sentiment Analysis)."""

import math
from typing import Literal

from huggingface_hub.dataclasses import strict
from transformers import BertConfig

from .classifier_fields import ClassifierFields
from .fitting_checkpoints import BERT_TYPES, refuse_other_encoders


@strict
class CGBertConfig(ClassifierFields, BertConfig):
    r"""
    Everything of [`BertConfig`], and:

    Args:
        num_contexts (`int`, *optional*):
            Number of contexts, i.e. of values that `context_ids` can take. Defaults to targets × aspects if `aspects` are
            given, else to 1.
        aspects (`list[str]`, *optional*):
            Names of the aspects, e.g. `["price", "safety"]`. Context id = target index · number of aspects + aspect index.
        targets (`list[str]`, *optional*):
            Names of the targets, as a text writes them. `None`: the context is only the aspect.
        target_texts (`list[str]`, *optional*):
            The text that the model reads for each target, in its text and in the auxiliary sentence; defaults to the names.
        auxiliary_sentence (`bool`, defaults to `False`):
            Whether the model is trained on pairs: the text, and target and aspect in words as the second segment.
        gate_activation (`"tanh"` or `"sigmoid"`, defaults to `"tanh"`):
            Activation g of the gates λ: tanh (eq. 3), or sigmoid (published code).
        gate_heads (`"shared"` or `"per_head"`, defaults to `"shared"`):
            One gate vector for queries and one for keys (published code), or one for each head (V^h of eqs. 3 and 7).
        context_initializer_range (`float`, defaults to e⁻³):
            Standard deviation of the new weights, the context embeddings included (section 3.7).
        use_pooler (`bool`, defaults to `True`):
            Classify BERT's pooled [CLS] (published code), or else the last hidden state of [CLS] (section 3.5).

    `problem_type` is `"single_label_classification"`.

    | what the paper leaves open | ours |
    |---|---|
    | biases | of W_c, U and the classifier, from 0; the gates have none |
    | residual connection of the context matrix | adds E_c: C = W_c [E_c ‖ X] + b + E_c; no activation, norm or dropout |
    | what the heads share | U and V^C; C^h is the h-th part of C |
    | what the layers share | the context embedding, which none of them changes; W_c, U and V are each layer's own |
    | start of the context embeddings | as the other new weights |
    | dropout before the classifier | `classifier_dropout`, else `hidden_dropout_prob` |
    """

    model_type = "cg-bert"
    # Evaluation gathers every output of every row unless told otherwise; (N, h, L, L) would fill the memory.
    keys_to_ignore_at_inference = ["hidden_states", "attentions", "context_gates"]
    problem_types = ("single_label_classification",)

    num_contexts: int | None = None
    aspects: list[str] | None = None
    targets: list[str] | None = None
    target_texts: list[str] | None = None
    auxiliary_sentence: bool = False
    gate_activation: Literal["tanh", "sigmoid"] = "tanh"
    gate_heads: Literal["shared", "per_head"] = "shared"
    context_initializer_range: float | int = math.exp(-3)
    use_pooler: bool = True

    def __post_init__(self, **kwargs):
        if self.num_contexts is None:
            self.num_contexts = len(self.aspects or [None]) * len(self.targets or [None])
        if self.problem_type is None:
            self.problem_type = "single_label_classification"
        super().__post_init__(**kwargs)
        # The code lies beside the weights. Set here and not read from a loaded config, whose entries carry the name of
        # the repository they came from and would tie a fine-tuned copy to it.
        self.auto_map = {
            "AutoConfig": "configuration_cg_bert.CGBertConfig",
            "AutoModel": "modeling_cg_bert.CGBertModel",
            "AutoModelForSequenceClassification": "modeling_cg_bert.CGBertForSequenceClassification",
        }
        self.custom_pipelines = {
            "targeted-sentiment": {
                "impl": "pipeline_targeted_sentiment.TargetedSentimentPipeline",
                "pt": ["AutoModelForSequenceClassification"],
            }
        }

    @classmethod
    def check_checkpoint(cls, config_dict):
        refuse_other_encoders(config_dict, BERT_TYPES)

    def validate_encoder_only(self):
        if self.is_decoder or self.add_cross_attention:
            raise ValueError(
                "context-guided BERT is an encoder: `is_decoder` and `add_cross_attention` must be False."
            )

    def validate_contexts(self):
        if self.num_contexts < 1:
            raise ValueError(f"`num_contexts` must be at least 1, got {self.num_contexts}.")
        for name in ("aspects", "targets", "target_texts"):
            values = getattr(self, name)
            if values is not None and (not values or len(set(values)) != len(values)):
                raise ValueError(f"`{name}` must be different names, at least one, or None; got {values}.")
        if self.aspects is None:
            if self.targets is not None:
                raise ValueError("`targets` need `aspects`: a context is a target and an aspect.")
        elif self.num_contexts != len(self.aspects) * len(self.targets or [None]):
            raise ValueError(
                f"`num_contexts` is {self.num_contexts}, but there are {len(self.targets or [None])} targets × "
                f"{len(self.aspects)} aspects: leave it unset, or pass `num_contexts=None`, to have it counted."
            )
        if self.target_texts is not None and len(self.target_texts) != len(self.targets or []):
            raise ValueError(
                f"`target_texts` needs one text for each of `targets` ({self.targets}), got {self.target_texts}."
            )

    def validate_context_initializer_range(self):
        if self.context_initializer_range < 0:
            raise ValueError(
                f"`context_initializer_range` must not be negative, got {self.context_initializer_range}."
            )


__all__ = ["CGBertConfig"]
