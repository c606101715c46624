# SPDX-License-Identifier: Apache-2.0
"""Pipeline `targeted-sentiment`: from a text to the sentiment towards every aspect of every target in it."""

from transformers import AutoModelForSequenceClassification, Pipeline

from .common import TextPipeline
from .text_processing import (
    all_aspects_at_once,
    check_finite,
    check_text,
    model_inputs,
    target_entry,
    targets_in,
    temperature_of,
    usable_positions,
)


class TargetedSentimentPipeline(TextPipeline, Pipeline):
    r"""
    Returns for a text (or for each of several) a list of `{"target", "aspect", "label", "score", "scores"}`, one entry for every
    target in the text and every aspect: the most probable label, its probability, and the probabilities of all labels. All
    pairs of a text run as one batch; `batch_size` has no effect. `target` is missing if the model has only aspects.

    Call arguments:
        targets (`list[str]`): targets to ask for instead of those found in the text.
        aspects (`list[str]`): aspects to ask for instead of all of the model's.
    """

    task_name, model_classes = "targeted-sentiment", (AutoModelForSequenceClassification,)

    def save_pretrained(self, save_directory, **kwargs):
        config = self.model.config
        stock = not hasattr(config, "num_contexts") and getattr(config, "auxiliary_sentence", False)
        if stock or all_aspects_at_once(config):
            self.replace_stock()  # which would answer without any aspect, or fail
        super().save_pretrained(save_directory, **kwargs)

    def _sanitize_parameters(self, targets=None, aspects=None, **kwargs):
        if kwargs:
            raise TypeError(f"unknown arguments {sorted(kwargs)}: the pipeline takes `targets` and `aspects`.")
        for name, value in (("targets", targets), ("aspects", aspects)):
            if isinstance(value, str) or (value is not None and not value):
                hint = f": pass [{value!r}]" if value else ""
                raise ValueError(f"`{name}` must be a list of names, at least one; got {value!r}{hint}.")
        given = {name: value for name, value in (("targets", targets), ("aspects", aspects)) if value is not None}
        return given, {}, {}

    def __call__(self, inputs, batch_size=None, **kwargs):
        return super().__call__(inputs, batch_size=1, **kwargs)

    def preprocess(self, inputs, targets=None, aspects=None):
        config = self.model.config
        if getattr(config, "aspects", None) is None:
            raise ValueError("the model's config names no `aspects`: it was not trained for targeted sentiment.")
        check_text(inputs)
        if targets is None:
            targets = [None] if config.targets is None else targets_in(config, inputs)
        if not targets:
            names = f"the text names none of the model's targets {config.targets}"
            raise ValueError(f"{names}: write one of them, or pass `targets`. The text: {inputs!r}")
        pairwise = bool(getattr(config, "auxiliary_sentence", False))
        pairs = [(target, aspect) for target in targets for aspect in aspects or config.aspects]
        read = [model_inputs(config, inputs, *pair) for pair in pairs]
        if all_aspects_at_once(config):  # a row for each target
            read = read[:: len(read) // len(targets)]
        texts, auxiliaries, context_ids = zip(*read, strict=True)
        encoded = self.tokenizer(
            list(texts),
            list(auxiliaries) if pairwise else None,
            truncation="only_first",
            max_length=min(self.tokenizer.model_max_length, usable_positions(config)),
            padding=True,
            # As in training: a model that takes them reads other numbers without them, and some tokenizers leave them out.
            return_token_type_ids=pairwise,
            return_tensors="pt",
        )
        if hasattr(config, "num_contexts"):
            encoded["context_ids"] = encoded["input_ids"].new_tensor(context_ids)
        return {"pairs": pairs, "encoded": encoded}

    def _forward(self, model_inputs):
        logits = self.model(**model_inputs["encoded"], return_dict=True).logits
        pairs = model_inputs["pairs"]
        if logits.dim() == 3:  # (targets, A, C)
            asked = [self.model.config.aspects.index(aspect) for _, aspect in pairs]
            logits = logits[:, asked[: len(pairs) // len(logits)]].flatten(0, 1)
        return {"pairs": pairs, "logits": logits}

    def postprocess(self, model_outputs):
        check_finite(bool(model_outputs["logits"].isfinite().all()))
        names = [self.model.config.id2label[i] for i in range(self.model.config.num_labels)]
        probabilities = (model_outputs["logits"].float() / temperature_of(self.model.config)).softmax(dim=-1)
        rows = zip(model_outputs["pairs"], probabilities.tolist(), strict=True)
        return [target_entry(*pair, names, row) for pair, row in rows]


__all__ = ["TargetedSentimentPipeline"]
