# SPDX-License-Identifier: Apache-2.0
"""Pipeline `emotion-classification`: from texts to the emotions whose probability passes the label's own threshold."""

import inspect
from numbers import Integral

import torch
from transformers import AutoModelForSequenceClassification, TextClassificationPipeline
from transformers.pipelines.base import ChunkPipeline

from .common import TextPipeline
from .text_processing import (
    ABSTAINED,
    RULES,
    TfidfGate,
    check_finite,
    check_text,
    composed,
    load_gate,
    special_borders,
    split_row,
    temperature_of,
    threshold_of,
    usable_positions,
    value_of,
    window_overlap,
)


class EmotionClassificationPipeline(TextPipeline, ChunkPipeline, TextClassificationPipeline):
    r"""
    Returns for a text (or for each of several) a list of `{"label", "score"}`, most probable first: the labels whose probability is
    greater than their decision threshold (`config.thresholds`, else 0.5), maybe none. A single-label model gives its most probable
    label. A model with `config.abstention` gives the one label "abstained" to a text that it is not sure enough about, with the largest
    probability as score; one with `config.prediction_sets` gives the labels of the set. A regression gives each name its value
    in `config.value_range` as score, in the model's order; `top_k` the k highest. A text longer than the tokenizer's
    `model_max_length` is read in overlapping windows. Label attention attends over all windows at once; for other models the logits are
    the mean over the windows. A model with `tfidf_gating` gets texts through the gate beside its weights, or through `gate`.

    Call arguments besides those of [`TextClassificationPipeline`]:
        threshold: one threshold for all labels instead of the stored ones and of prediction sets (multi-label models).
        top_k: the k most probable labels (`None`: all), whatever the thresholds and without an abstention.
        max_length: tokens of a window; default: the tokenizer's `model_max_length`, at most the model's positions.
        stride: number of tokens that two windows share; default: a quarter of a window.
        max_windows: maximum number of windows per text, the rest is cut; default: no limit. `truncation=True` cuts at `max_length`.
        aggregation_strategy: how windows are combined: `"average"`, as above (default), or, for multi-label models, `"max"`, by the
            largest logit of each label: every emotion that occurs somewhere.

    Logits are divided by `config.calibration_temperature`, if there is one; `function_to_apply="none"` gives them as the model computes
    them. Thresholds apply to sigmoid scores: with another `function_to_apply` also give `top_k`.
    """

    task_name, model_classes = "emotion-classification", (AutoModelForSequenceClassification,)

    def __init__(self, *args, gate: TfidfGate | None = None, **kwargs):
        super().__init__(*args, **kwargs)
        self.gate = gate or load_gate(self.model.config)

    def save_pretrained(self, save_directory, **kwargs):
        stock = type(self.model).__module__.startswith("transformers.")
        if stock and getattr(self.model.config, "tfidf_gating", None) == "filter":
            self.replace_stock()  # which would read the words that the gate removes
        super().save_pretrained(save_directory, **kwargs)
        if self.gate is not None:
            self.gate.save_pretrained(save_directory)

    def _sanitize_parameters(
        self, threshold=None, top_k="", stride=None, max_windows=None, aggregation_strategy=None, **kwargs
    ):
        if threshold is not None and not 0 <= threshold <= 1:
            raise ValueError(f"`threshold` is a probability and must lie in [0, 1], got {threshold}.")
        self._check_arguments(threshold, top_k, kwargs)
        preprocess, forward, postprocess = super()._sanitize_parameters(top_k=top_k, **kwargs)
        if threshold is not None:
            # A call with a threshold goes before a pipeline that was made with `top_k`.
            postprocess |= {"threshold": threshold, "_legacy": True}
        windows = {"stride": stride, "max_windows": max_windows}
        preprocess |= {name: value for name, value in windows.items() if value is not None}
        if aggregation_strategy is not None:
            preprocess["aggregation_strategy"] = postprocess["aggregation_strategy"] = aggregation_strategy
        return preprocess, forward, postprocess

    @property
    def _multi_label(self) -> bool:
        return self.model.config.problem_type == "multi_label_classification"

    @property
    def _regression(self) -> bool:
        """Whether the model gives values in a known range."""
        config = self.model.config
        return config.problem_type == "regression" and getattr(config, "value_range", None) is not None

    def _check_arguments(self, threshold, top_k, others):
        multi_label = self._multi_label
        if self._regression and (threshold is not None or others.get("function_to_apply") is not None):
            raise ValueError("a model that gives values takes neither `threshold` nor `function_to_apply`.")
        if threshold is not None and not multi_label:
            raise ValueError(f"`threshold` {threshold} is for multi-label models: this one always gives one label.")
        if threshold is not None and top_k != "":
            raise ValueError(f"`threshold` and `top_k` exclude each other, got {threshold} and {top_k}.")
        if top_k not in ("", None) and (not isinstance(top_k, Integral) or isinstance(top_k, bool) or top_k < 1):
            raise ValueError(f"`top_k` must be a whole number of at least 1, or None for all labels, got {top_k!r}.")
        name = others.get("function_to_apply")
        if isinstance(name, str) and name.lower() not in ("sigmoid", "softmax", "none"):
            raise ValueError(f"`function_to_apply` must be 'sigmoid', 'softmax' or 'none', got {name!r}.")
        if name is not None and multi_label and top_k == "" and "sigmoid" not in str(name).lower():
            why = "the labels are chosen by thresholds of sigmoid scores"
            raise ValueError(f"{why}, got `function_to_apply` {name!r}: leave it out, or name `top_k` (None: all).")
        rules = [rule for rule in RULES if threshold_of(self.model.config, rule) is not None]
        if rules and name is not None and top_k == "" and not multi_label and "softmax" not in str(name).lower():
            why = f"`config.{rules[0]}` is for softmax scores"
            raise ValueError(f"{why}, got `function_to_apply` {name!r}: leave it out, or name `top_k` (None: all).")
        # The tokenizer would silently accept any other argument.
        known = {"function_to_apply", *inspect.signature(type(self.tokenizer).__call__).parameters}
        for argument in others.keys() - known:
            raise TypeError(f"unknown argument `{argument}`: it is neither the pipeline's nor the tokenizer's.")

    def __call__(self, inputs, **kwargs):
        result = super().__call__(inputs, **kwargs)
        # The stock class wraps the one result of a string once more if `top_k` is not given.
        return result[0] if isinstance(inputs, str) and "top_k" not in kwargs else result

    def preprocess(self, inputs, stride=None, max_windows=None, aggregation_strategy="average", **tokenizer_kwargs):
        """Yield one window after the other."""
        limit = min(self.tokenizer.model_max_length, usable_positions(self.model.config))
        size = min(tokenizer_kwargs.pop("max_length", None) or limit, limit)
        shared = window_overlap(size, stride, max_windows, aggregation_strategy, self._multi_label)
        if not isinstance(inputs, (dict, list)):  # the stock class's inputs: a pair of texts
            check_text(inputs)
        if isinstance(inputs, str):
            inputs = composed(inputs)
        if self.gate is not None and not isinstance(inputs, str):
            raise ValueError(f"a model with TF-IDF gating takes texts as strings, got {inputs!r}.")
        tokenizer_kwargs.pop("padding", None)  # a single text needs no padding, and windows must not hold any
        cut = max_windows == 1 or not isinstance(inputs, str)
        tokenizer_kwargs = {"truncation": cut, "verbose": False, **tokenizer_kwargs}
        if tokenizer_kwargs["truncation"]:
            tokenizer_kwargs["max_length"] = size
        scaled = self.gate is not None and self.model.config.tfidf_gating == "scale"
        text = inputs if self.gate is None or scaled else self.gate.filter(inputs)
        encoded = super().preprocess(text, **({"return_offsets_mapping": True} if scaled else {}), **tokenizer_kwargs)
        row = {name: values[0].tolist() for name, values in encoded.items()}
        if scaled:
            row["token_gates"] = self.gate.token_gates(inputs, row.pop("offset_mapping"))
        windows = [{**row, "pooling_mask": row["attention_mask"]}]
        if len(row["input_ids"]) > size and not tokenizer_kwargs["truncation"]:
            windows, _ = split_row(row, special_borders(self.tokenizer, encoded, 0), size, shared, max_windows)
        for number, window in enumerate(windows, 1):
            yield {
                **{name: torch.tensor([values]) for name, values in window.items()},
                "is_last": number == len(windows),
            }

    def _forward(self, model_inputs):
        is_last = model_inputs.pop("is_last")
        labels_attend = hasattr(self.model.config, "label_attention")
        counted = model_inputs["pooling_mask"] if labels_attend else model_inputs.pop("pooling_mask")
        outputs = super()._forward(model_inputs)
        lse = outputs.label_attention_lse if labels_attend else counted.sum(dim=1, keepdim=True).log()
        return {"logits": outputs.logits, "lse": lse, "is_last": is_last}

    def postprocess(
        self,
        model_outputs,
        function_to_apply=None,
        top_k=None,
        _legacy=True,
        threshold=None,
        aggregation_strategy="average",
    ):
        logits, lse = (torch.cat([window[name].float() for window in model_outputs]) for name in ("logits", "lse"))
        check_finite(bool(logits.isfinite().all()))
        if aggregation_strategy == "max":
            logits = logits.amax(dim=0, keepdim=True)
        elif len(logits) > 1:
            # An attention over the tokens of all windows is the attention within each window times one over the windows.
            logits = (lse.softmax(dim=0) * logits).sum(dim=0, keepdim=True)
        if self._regression:
            names, config = self.model.config.id2label, self.model.config
            scores = [{"label": names[i], "score": value_of(v, config)} for i, v in enumerate(logits[0].tolist())]
            return scores if _legacy or not top_k else sorted(scores, key=lambda item: -item["score"])[:top_k]
        if str(function_to_apply).lower().rpartition(".")[2] != "none" or function_to_apply is None:
            logits = logits / temperature_of(self.model.config)
        scores = super().postprocess(
            {"logits": logits}, function_to_apply=function_to_apply, top_k=None, _legacy=False
        )
        if not _legacy:  # the caller named `top_k`
            return scores[:top_k]
        config = self.model.config
        least = threshold_of(config, "abstention")
        if least is not None and scores[0]["score"] < least:
            return [{"label": ABSTAINED, "score": scores[0]["score"]}]
        in_set = threshold_of(config, "prediction_sets") if threshold is None else None
        if in_set is not None:
            # A set of a single-label model is never empty.
            return [item for item in scores if item["score"] >= in_set] or ([] if self._multi_label else scores[:1])
        if not self._multi_label:
            return scores[:1]
        stored = getattr(config, "thresholds", None) or [0.5] * config.num_labels
        limits = {config.id2label[i]: stored[i] if threshold is None else threshold for i in range(config.num_labels)}
        return [item for item in scores if item["score"] > limits[item["label"]]]


__all__ = ["EmotionClassificationPipeline"]
