# SPDX-License-Identifier: Apache-2.0
"""Configurations of context-guided BERT and its quasi-attention (Wu and Ong: Context-Guided BERT for Targeted Aspect-Based Sentiment Analysis)."""

import math
from typing import Literal

from huggingface_hub.dataclasses import strict
from transformers import BertConfig

from .common import BERT_TYPES, ContextFields, EncoderFields, check_least, set_auto_map


@strict
class CGBertConfig(EncoderFields, ContextFields, BertConfig):
    r"""
    Everything of [`BertConfig`] and [`ContextFields`], and the fields below. `problem_type` is `"single_label_classification"`.

    Args:
        num_contexts: number of contexts, i.e. of values that `context_ids` can take. Defaults to targets × aspects, to 1 without names.
            Context id = target index · number of aspects + aspect index.
        auxiliary_sentence: whether the model is trained on pairs: the text, and target and aspect in words as the second segment.
        gate_activation: activation g of the gates λ: tanh (eq. 3), or sigmoid (published code).
        gate_heads: one gate vector for queries and one for keys (published code), or one for each head (V^h of eqs. 3 and 7).
        context_initializer_range: standard deviation of the new weights, the context embeddings included: e⁻³ (section 3.7).
        use_pooler: classify BERT's pooled [CLS] (published code), or else the last hidden state of [CLS] (section 3.5).

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
    fitting = BERT_TYPES
    # Evaluation gathers every output of every row unless told otherwise; (N, h, L, L) would fill the memory.
    keys_to_ignore_at_inference = ["hidden_states", "attentions", "context_gates"]

    num_contexts: int | None = None
    auxiliary_sentence: bool = False
    gate_activation: Literal["tanh", "sigmoid"] = "tanh"
    gate_heads: Literal["shared", "per_head"] = "shared"
    context_initializer_range: float | int = math.exp(-3)
    use_pooler: bool = True

    def __post_init__(self, **kwargs):
        if self.num_contexts is None:
            self.num_contexts = len(self.aspects or [None]) * len(self.targets or [None])
        self.problem_type = self.problem_type or "single_label_classification"
        super().__post_init__(**kwargs)
        name = "QACGBert" if self.model_type == "qacg-bert" else "CGBert"
        set_auto_map(self, f"{name}Model", f"{name}ForSequenceClassification")

    def validate_head(self):
        if self.problem_type != "single_label_classification":
            raise ValueError(f"`problem_type` must be 'single_label_classification', got {self.problem_type!r}.")
        check_least(self, context_initializer_range=0, num_contexts=1)

    def validate_num_contexts(self):
        aspects, targets = len(self.aspects or [None]), len(self.targets or [None])
        if self.aspects is not None and self.num_contexts != aspects * targets:
            found = f"`num_contexts` is {self.num_contexts}, but there are {targets} targets × {aspects} aspects"
            raise ValueError(f"{found}: leave it unset, or pass `num_contexts=None`, to have it counted.")


@strict
class QACGBertConfig(CGBertConfig):
    r"""
    Everything of [`CGBertConfig`] (its gates are always sigmoid here), and:

    Args:
        context_heads: `"shared"`: one context query and key of size d/h for all heads (eq. 5). `"per_head"`: one for each head, with
            attention dropout on them (the later published code).
        gate_bias: a bias in each gate (the later published code).
        quasi_similarity: similarity f_ψ of eq. 6: dot product, or negative L1 distance.
        quasi_alpha, quasi_beta, quasi_gamma: α of eq. 6; β and γ of eq. 8.

    | what the paper leaves open, in addition to CG-BERT's | ours |
    |---|---|
    | biases | of Z, from 0; else as in CG-BERT |
    | what Z reads | all of C, not only one head's part |
    | position of λ_K | the query's, as for λ_Q: λ_A is the same for all keys |
    | padding keys in A_quasi | 0 |
    | sum of the weights Â | left as it is |
    | dropout | on Â, as BERT's on its attention |
    """

    model_type = "qacg-bert"
    keys_to_ignore_at_inference = [
        *CGBertConfig.keys_to_ignore_at_inference,
        "quasi_attentions",
        "combined_attentions",
    ]

    gate_activation: Literal["sigmoid"] = "sigmoid"
    context_heads: Literal["shared", "per_head"] = "shared"
    gate_bias: bool = False
    quasi_similarity: Literal["dot", "neg_l1"] = "dot"
    quasi_alpha: float | int = 1.0
    quasi_beta: float | int = 1.0
    quasi_gamma: float | int = 1.0

    @classmethod
    def from_dict(cls, config_dict, **kwargs):
        if config_dict.get("model_type") != cls.model_type:  # CG-BERT's gates may be tanh
            config_dict = {name: value for name, value in config_dict.items() if name != "gate_activation"}
        return super().from_dict(config_dict, **kwargs)


__all__ = ["CGBertConfig", "QACGBertConfig"]
