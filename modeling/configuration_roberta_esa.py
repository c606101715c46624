# SPDX-License-Identifier: Apache-2.0
"""Configuration of RoBERTa with emotion-specific attention (Scientific Reports 15, s41598-025-99515-6) and TF-IDF gating."""

import math
from collections.abc import Sequence
from typing import Any, Literal

from huggingface_hub.dataclasses import strict
from transformers import RobertaConfig
from transformers.utils import logging


logger = logging.get_logger(__name__)

# Types of checkpoints with an encoder that has the architecture and the weight names of RoBERTa.
ROBERTA_TYPES = ("roberta", "xlm-roberta", "camembert", "roberta-esa")

# Copied from configuration_label_aware.LABEL_FIELDS
LABEL_FIELDS = (
    *("class_counts", "class_weights", "thresholds", "label_texts"),
    *("calibration_temperature", "abstention", "prediction_sets", "value_range"),
)


# Copied from configuration_label_aware.merged
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


# Copied from configuration_label_aware.check_labels
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


@strict
class RobertaESAConfig(RobertaConfig):
    r"""
    Everything of [`RobertaConfig`], and the fields below. Takes checkpoints of RoBERTa, XLM-RoBERTa and CamemBERT. `problem_type`
    defaults to `"single_label_classification"`.

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
        class_balanced_beta, class_balanced_normalize, class_counts, thresholds: as in label-aware BERT: class-balanced loss, and decision
            thresholds of multi-label models.
        value_range, regression_loss, ordinal_slope: as in label-aware BERT, for `problem_type="regression"`.

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
    class_balanced_beta: float | int | None = None
    class_balanced_normalize: bool = False
    class_counts: list[int] | None = None
    thresholds: list[float | int] | None = None
    value_range: list[float | int] | None = None
    regression_loss: Literal["mse", "ordinal"] = "mse"
    ordinal_slope: float | int = 3.0

    def __post_init__(self, **kwargs):
        if self.esa_num_attention_heads is None:
            self.esa_num_attention_heads = self.num_attention_heads
        self.problem_type = self.problem_type or "single_label_classification"
        super().__post_init__(**kwargs)
        # Not read from a loaded config, whose entries name the repository they came from and would tie a fine-tuned copy to it.
        self.auto_map = {
            "AutoConfig": "configuration_roberta_esa.RobertaESAConfig",
            "AutoModel": "modeling_roberta_esa.RobertaWithESA",
            "AutoModelForSequenceClassification": "modeling_roberta_esa.RobertaWithESAForSequenceClassification",
        }

    @classmethod
    def from_dict(cls, config_dict, **kwargs):
        if config_dict.get("model_type") != cls.model_type and config_dict.get("classifier_dropout") is None:
            # RoBERTa's config has null if nobody chose a value; then our default applies.
            config_dict = {name: value for name, value in config_dict.items() if name != "classifier_dropout"}
        remedy = "LabelAwareForSequenceClassification takes an encoder of any kind"
        return super().from_dict(merged(cls, config_dict, kwargs, ROBERTA_TYPES, remedy), **kwargs)

    def validate_esa(self):
        check_labels(self)
        if self.is_decoder or self.add_cross_attention:
            raise ValueError("RoBERTa with ESA is an encoder: `is_decoder` and `add_cross_attention` must be False.")
        heads = self.esa_num_attention_heads
        if heads < 1 or self.hidden_size % heads:
            raise ValueError(f"`esa_num_attention_heads` must divide `hidden_size` ({self.hidden_size}), got {heads}.")
        if self.head_hidden_size is not None and self.head_hidden_size < 1:
            raise ValueError(f"`head_hidden_size` must be at least 1, got {self.head_hidden_size}.")


__all__ = ["RobertaESAConfig"]
