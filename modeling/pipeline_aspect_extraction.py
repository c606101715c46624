# SPDX-License-Identifier: Apache-2.0
"""Pipeline `aspect-extraction`: from a text to the terms that it speaks of, their places, and the sentiment towards each."""

import torch
from transformers import AutoModelForTokenClassification, Pipeline

from .common import TextPipeline
from .text_processing import (
    OUTSIDE,
    check_finite,
    check_text,
    find_terms,
    special_borders,
    split_row,
    tag_labels,
    temperature_of,
    term_entries,
    term_words,
    usable_positions,
    words_read,
)


class AspectExtractionPipeline(TextPipeline, Pipeline):
    r"""
    Returns for a text (or for each of several) a list of `{"term", "start", "end", "label", "score"}`, in the order of the text: the words,
    their place (`text[start:end]`), the sentiment towards them and its probability. A text that is longer than the model reads is read in
    overlapping windows.
    """

    task_name, model_classes = "aspect-extraction", (AutoModelForTokenClassification,)

    def _sanitize_parameters(self, **kwargs):
        if kwargs:
            raise TypeError(f"unknown arguments {sorted(kwargs)}: the pipeline takes none.")
        return {}, {}, {}

    def preprocess(self, inputs):
        tags = [self.model.config.id2label[i] for i in range(self.model.config.num_labels)]
        if not tag_labels(tags):
            fault = "it was not trained for aspect extraction"
            raise ValueError(f"the model's labels are {tags}, and no tags of terms: {fault}.")
        check_text(inputs)
        size = min(self.tokenizer.model_max_length, usable_positions(self.model.config))
        encoded = self.tokenizer(
            [inputs],
            return_offsets_mapping=True,
            return_token_type_ids=False,
            return_attention_mask=False,
            verbose=False,
        )
        row = {name: values[0] for name, values in encoded.items()}
        windows = [{**row, "pooling_mask": [1] * len(row["input_ids"])}]
        if len(row["input_ids"]) > size:  # then all windows have this length
            windows, _ = split_row(row, special_borders(self.tokenizer, encoded, 0), size, size // 4, None)
        words = term_words(inputs)
        read = [words_read(words, window["offset_mapping"], window["pooling_mask"]) for window in windows]
        ids = torch.tensor([window["input_ids"] for window in windows])
        return {"text": inputs, "words": words, "read": read, "tags": tags, "input_ids": ids}

    def _forward(self, model_inputs):
        return {**model_inputs, "logits": self.model(input_ids=model_inputs.pop("input_ids"), return_dict=True).logits}

    def postprocess(self, model_outputs):
        logits, tags, words = model_outputs["logits"].float(), model_outputs["tags"], model_outputs["words"]
        check_finite(bool(logits.isfinite().all()))
        probabilities = (logits / temperature_of(self.model.config)).softmax(dim=-1).tolist()
        rows = [[float(tag == OUTSIDE) for tag in tags] for _ in words]  # of words without a token
        for window, read in zip(probabilities, model_outputs["read"], strict=True):
            for word, token in read:
                rows[word] = window[token]
        return term_entries(model_outputs["text"], words, find_terms(rows, tags))


__all__ = ["AspectExtractionPipeline"]
