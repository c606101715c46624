# SPDX-License-Identifier: Apache-2.0
"""Pipeline `aspect-extraction`: from a text to the terms that it speaks of, their places, and the sentiment towards each."""

from transformers import AutoModelForTokenClassification, Pipeline

from .text_processing import (
    OUTSIDE,
    check_finite,
    check_text,
    find_terms,
    tag_labels,
    temperature_of,
    term_entries,
    term_words,
    usable_positions,
    word_tokens,
)


class AspectExtractionPipeline(Pipeline):
    r"""
    Returns for a text (or for each of several) a list of `{"term", "start", "end", "label", "score"}`, in the order of the text: the words,
    their place (`text[start:end]`), the sentiment towards them and its probability. A text that is longer than the model reads is cut.
    """

    _load_processor = False
    _load_image_processor = False
    _load_feature_extractor = False
    _load_tokenizer = True

    def _sanitize_parameters(self, **kwargs):
        if kwargs:
            raise TypeError(f"unknown arguments {sorted(kwargs)}: the pipeline takes none.")
        return {}, {}, {}

    def preprocess(self, inputs):
        tags = [self.model.config.id2label[i] for i in range(self.model.config.num_labels)]
        if not tag_labels(tags):
            raise ValueError(
                f"the model's labels are {tags}, and no tags of terms: it was not trained for aspect extraction."
            )
        check_text(inputs)
        encoded = self.tokenizer(
            inputs,
            truncation=True,
            max_length=min(self.tokenizer.model_max_length, usable_positions(self.model.config)),
            return_offsets_mapping=True,
            return_token_type_ids=False,
            return_tensors="pt",
        )
        words = term_words(inputs)
        tokens = word_tokens(words, encoded.pop("offset_mapping")[0].tolist())
        return {"text": inputs, "words": words, "tokens": tokens, "tags": tags, "encoded": encoded}

    def _forward(self, model_inputs):
        return {**model_inputs, "logits": self.model(**model_inputs.pop("encoded"), return_dict=True).logits}

    def postprocess(self, model_outputs):
        logits, tags = model_outputs["logits"][0].float(), model_outputs["tags"]
        check_finite(bool(logits.isfinite().all()))
        probabilities = (logits / temperature_of(self.model.config)).softmax(dim=-1).tolist()
        cut = [float(tag == OUTSIDE) for tag in tags]  # a word that the model did not read
        rows = [probabilities[token] if token >= 0 else cut for token in model_outputs["tokens"]]
        return term_entries(model_outputs["text"], model_outputs["words"], find_terms(rows, tags))


# As the registry of transformers notes it: so a pipeline of code from the Hub saves its code, too.
AspectExtractionPipeline._registered_impl = {
    "aspect-extraction": {
        "impl": AspectExtractionPipeline,
        "pt": (AutoModelForTokenClassification,),
        "type": "text",
    }
}

__all__ = ["AspectExtractionPipeline"]
