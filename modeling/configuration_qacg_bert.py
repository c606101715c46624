# SPDX-License-Identifier: Apache-2.0
"""Configuration of quasi-attention context-guided BERT (Wu and Ong, section 3.4)."""

from typing import Literal

from huggingface_hub.dataclasses import strict

from .configuration_cg_bert import CGBertConfig


@strict
class QACGBertConfig(CGBertConfig):
    r"""
    Everything of [`CGBertConfig`] (its gates are always sigmoid here), and:

    Args:
        context_heads (`"shared"` or `"per_head"`, defaults to `"shared"`):
            `"shared"`: one context query and key of size d/h for all heads (eq. 5). `"per_head"`: one for each head, with
            attention dropout on them (the later published code).
        gate_bias (`bool`, defaults to `False`):
            A bias in each gate (the later published code).
        quasi_similarity (`"dot"` or `"neg_l1"`, defaults to `"dot"`):
            Similarity f_ψ of eq. 6: dot product, or negative L1 distance.
        quasi_alpha, quasi_beta, quasi_gamma (`float`, default to 1):
            α of eq. 6; β and γ of eq. 8.

    | what the paper leaves open, beside CG-BERT's | ours |
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
        "hidden_states",
        "attentions",
        "quasi_attentions",
        "context_gates",
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

    def __post_init__(self, **kwargs):
        super().__post_init__(**kwargs)
        self.auto_map = {
            "AutoConfig": "configuration_qacg_bert.QACGBertConfig",
            "AutoModel": "modeling_qacg_bert.QACGBertModel",
            "AutoModelForSequenceClassification": "modeling_qacg_bert.QACGBertForSequenceClassification",
        }


__all__ = ["QACGBertConfig"]
