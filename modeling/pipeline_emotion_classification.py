# SPDX-License-Identifier: Apache-2.0
"""Pipeline `emotion-classification`: texts to the emotions whose probability passes the label's own threshold."""

from transformers import TextClassificationPipeline


class EmotionClassificationPipeline(TextClassificationPipeline):
    r"""
    For a text (for each of several texts) the list of `{"label", "score"}` whose probability is greater than the label's decision threshold
    (`config.thresholds`; 0.5 where the config has none), most probable first. The list is empty where no label passes.
    A single-label model gives its most probable label. Texts are cut to the model's positions.

    Call arguments beside those of [`TextClassificationPipeline`]:
        threshold (`float`): one threshold for all labels instead of the stored ones.
        top_k (`int` or `None`): the k most probable labels (`None`: all), whatever the thresholds.
    """

    def _sanitize_parameters(self, threshold=None, top_k="", **kwargs):
        if threshold is not None and not 0 <= threshold <= 1:
            raise ValueError(f"`threshold` is a probability and must lie in [0, 1], got {threshold}.")
        preprocess, forward, postprocess = super()._sanitize_parameters(top_k=top_k, **kwargs)
        if threshold is not None:
            postprocess["threshold"] = threshold
        return preprocess, forward, postprocess

    def __call__(self, inputs, **kwargs):
        result = super().__call__(inputs, **kwargs)
        # The stock class wraps the one result of a string once more where `top_k` is not named.
        return result[0] if isinstance(inputs, str) and "top_k" not in kwargs else result

    def preprocess(self, inputs, **tokenizer_kwargs):
        limit = min(self.tokenizer.model_max_length, self.model.config.max_position_embeddings)
        return super().preprocess(inputs, **{"truncation": True, "max_length": limit, **tokenizer_kwargs})

    def postprocess(self, model_outputs, function_to_apply=None, top_k=None, _legacy=True, threshold=None):
        scores = super().postprocess(model_outputs, function_to_apply=function_to_apply, top_k=None, _legacy=False)
        if not _legacy:  # the caller named `top_k`
            return scores[:top_k]
        config = self.model.config
        if config.problem_type != "multi_label_classification":
            return scores[:1]
        stored = getattr(config, "thresholds", None) or [0.5] * config.num_labels
        limits = {config.id2label[i]: stored[i] if threshold is None else threshold for i in range(config.num_labels)}
        return [item for item in scores if item["score"] > limits[item["label"]]]


__all__ = ["EmotionClassificationPipeline"]
