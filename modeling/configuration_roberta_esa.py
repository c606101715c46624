# SPDX-License-Identifier: Apache-2.0
"""Configuration of RoBERTa with emotion-specific attention (Scientific Reports 15, s41598-025-99515-6) and TF-IDF gating."""

from typing import Literal

from huggingface_hub.dataclasses import strict
from transformers import RobertaConfig

from .common import ClassifierFields, EncoderFields, check_least, set_auto_map


@strict
class RobertaESAConfig(EncoderFields, ClassifierFields, RobertaConfig):
    r"""
    Everything of [`RobertaConfig`] and [`ClassifierFields`], and the fields below. Takes checkpoints of RoBERTa, XLM-RoBERTa and CamemBERT.
    `problem_type` defaults to `"single_label_classification"`.

    Args:
        esa_position_embedding: P, which is added before and after the attention: a learned table, sines and cosines, or nothing.
        esa_num_attention_heads: heads of the attention, as many as RoBERTa's if None; the article has one.
        esa_bias, esa_output_projection: whether the attention's projections have biases, and whether it has an output projection. Both:
            equal to `torch.nn.MultiheadAttention`. Neither, and one head: the article's first form.
        esa_pooling: the sentence vector: mean over the real tokens, the first token, or both side by side.
        head_hidden_size: size of a hidden layer (tanh) in the head; None: a single linear layer.
        classifier_dropout: dropout of the head.
        tfidf_gating: `"filter"`: words of low tf·idf are removed before tokenisation, by the pipeline and by `predict`. `"scale"`: word
            embeddings are multiplied by `token_gates`.

    | what the article leaves open | ours |
    |---|---|
    | starts | S 1; P N(0, 0.02²); projections and head N(0, `initializer_range`²), their biases 0 |
    | dropout of the attention | RoBERTa's: `attention_probs_dropout_prob` |
    | heads of the attention | as many as RoBERTa's; scores divided by √(d/h) |
    | residual connection and norm around the attention | none |
    | position of a token | its number among the real tokens, wherever padding stands |
    | sentence vector and head | mean over the real tokens, dropout, one linear layer |
    """

    model_type = "roberta-esa"
    fitting = ("roberta", "xlm-roberta", "camembert", "roberta-esa")
    # Evaluation gathers every output of every row unless told otherwise; (N, h, L, L) would fill the memory.
    keys_to_ignore_at_inference = ["hidden_states", "attentions", "esa_attentions", "esa_scale"]

    esa_position_embedding: Literal["learned", "sinusoidal", "none"] = "learned"
    esa_num_attention_heads: int | None = None
    esa_bias: bool = True
    esa_output_projection: bool = True
    esa_pooling: Literal["mean", "cls", "cls_mean"] = "mean"
    head_hidden_size: int | None = None
    classifier_dropout: float | int | None = 0.3
    tfidf_gating: Literal["none", "filter", "scale"] = "none"

    def __post_init__(self, **kwargs):
        if self.esa_num_attention_heads is None:
            self.esa_num_attention_heads = self.num_attention_heads
        self.problem_type = self.problem_type or "single_label_classification"
        super().__post_init__(**kwargs)
        set_auto_map(self, "RobertaWithESA", "RobertaWithESAForSequenceClassification")

    @classmethod
    def from_dict(cls, config_dict, **kwargs):
        if config_dict.get("model_type") != cls.model_type and config_dict.get("classifier_dropout") is None:
            # RoBERTa's config has null if nobody chose a value; then our default applies.
            config_dict = {name: value for name, value in config_dict.items() if name != "classifier_dropout"}
        return super().from_dict(config_dict, **kwargs)

    def validate_esa(self):
        heads = self.esa_num_attention_heads
        if heads < 1 or self.hidden_size % heads:
            raise ValueError(f"`esa_num_attention_heads` must divide `hidden_size` ({self.hidden_size}), got {heads}.")
        check_least(self, head_hidden_size=1)


__all__ = ["RobertaESAConfig"]
