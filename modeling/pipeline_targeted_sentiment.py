# SPDX-License-Identifier: Apache-2.0
"""Pipeline `targeted-sentiment`: a text to the sentiment towards every aspect of every target in it."""

import re

from transformers import Pipeline

from .checked_input import check_finite, check_text


def targets_in(config, text: str) -> list[str]:
    """
    The targets of a model that occur in a text, by their names or by what the model reads for them. A placeholder, for which the
    model reads something else, is found wherever it stands; another name is found as a word ("bar", "bars", not "barn").
    """
    texts = _target_texts(config)
    names = {words: name for name, words in texts.items()} | {name: name for name in texts}
    found = {
        names[match[0]]
        for match in _forms(texts).finditer(text)
        if texts.get(match[0], match[0]) != match[0] or _is_word(text, *match.span())
    }
    return [name for name in config.targets if name in found]


def _is_word(text: str, start: int, end: int) -> bool:
    """Whether no letter or digit is glued to what stands there, but a plural's; of scripts that are written without blanks always."""
    around = (text[:start][-1:], re.sub(r"^e?s(?!\w)", "", text[end:])[:1])
    return not any(letter.isalnum() and letter < "\u0e00" for letter in around)


def _target_texts(config) -> dict[str, str]:
    """{name of a target: what the model reads for it}"""
    return dict(zip(config.targets, config.target_texts or config.targets, strict=True))


def _forms(texts: dict[str, str]) -> re.Pattern:
    """Finds names and what stands for them; of two that begin alike the longer."""
    return re.compile("|".join(re.escape(form) for form in sorted({*texts, *texts.values()}, key=len, reverse=True)))


def model_inputs(config, text: str, target: str | None, aspect: str) -> tuple[str, str | None, int]:
    """
    What a model reads for one target and aspect.

    Args:
        config: with `aspects`, `targets`, `target_texts` and `auxiliary_sentence`.
        target: one of `config.targets`, or None where the model has none.

    Returns:
        the text with what the model reads for each target, the auxiliary sentence (None for models without), the context id.

    Raises:
        ValueError: an unknown target or aspect, with the known ones.
    """
    if aspect not in config.aspects:
        raise ValueError(f"unknown aspect {aspect!r}: the model's aspects are {config.aspects}.")
    context_id = config.aspects.index(aspect)
    auxiliary = auxiliary_sentence(None, aspect)
    if config.targets is None:
        if target is not None:
            raise ValueError(
                f"the model has no targets, only the aspects {config.aspects}; got the target {target!r}."
            )
    else:
        if target not in config.targets:
            raise ValueError(f"unknown target {target!r}: the model's targets are {config.targets}.")
        texts = _target_texts(config)
        context_id += config.targets.index(target) * len(config.aspects)
        auxiliary = auxiliary_sentence(texts[target], aspect)
        text = mark_targets(text, texts)
    return text, auxiliary if config.auxiliary_sentence else None, context_id


def auxiliary_sentence(target_text: str | None, aspect: str) -> str:
    """The second segment that tells a model what is asked: "location - 1 - price", or the aspect alone without a target."""
    return aspect if target_text is None else f"{target_text} - {aspect}"


def mark_targets(text: str, texts: dict[str, str]) -> str:
    """
    A text as the model reads it, given {name of a target: what the model reads for it}. Names are found wherever they stand;
    blanks set what is written for them off from letters and digits ("xLOCATION1y" -> "x location - 1 y").
    """
    forms = _forms(texts)

    def mark(match: re.Match) -> str:
        words = texts.get(match[0], match[0])
        if words == match[0]:
            return words
        glued_before = re.match(r"\w", text[: match.start()][-1:])
        # Where another name follows, one blank is enough: it brings its own.
        following = forms.match(text, match.end())
        named = following and texts.get(following[0], following[0]) != following[0]
        glued_after = re.match(r"\w", text[match.end() :]) and not named
        return f"{' ' if glued_before else ''}{words}{' ' if glued_after else ''}"

    return forms.sub(mark, text)


def entry(target: str | None, aspect: str, labels: list[str], probabilities: list[float]) -> dict:
    """The result for one target and aspect, from the probability of each label."""
    best = max(range(len(labels)), key=probabilities.__getitem__)
    scores = dict(zip(labels, probabilities, strict=True))
    of = {} if target is None else {"target": target}
    return {**of, "aspect": aspect, "label": labels[best], "score": probabilities[best], "scores": scores}


class TargetedSentimentPipeline(Pipeline):
    r"""
    For a text (for each of several texts) a list of `{"target", "aspect", "label", "score", "scores"}`, one entry for every
    target in the text and every aspect: the most probable label, its probability, and the probabilities of all labels. All
    pairs of a text run as one batch, whatever `batch_size` says. `target` is missing where the model knows aspects only.

    Call arguments:
        targets (`list[str]`): instead of the targets that are found in the text.
        aspects (`list[str]`): instead of all the model's aspects.
    """

    _load_processor = False
    _load_image_processor = False
    _load_feature_extractor = False
    _load_tokenizer = True

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
            raise ValueError(
                f"the text names none of the model's targets {config.targets}: write one of them where the text speaks of "
                f"it, or pass `targets`. The text: {inputs!r}"
            )
        pairs = [(target, aspect) for target in targets for aspect in aspects or config.aspects]
        texts, auxiliaries, context_ids = zip(*(model_inputs(config, inputs, *pair) for pair in pairs), strict=True)
        encoded = self.tokenizer(
            list(texts),
            list(auxiliaries) if config.auxiliary_sentence else None,
            truncation="only_first",
            max_length=min(self.tokenizer.model_max_length, config.max_position_embeddings),
            padding=True,
            return_tensors="pt",
        )
        if hasattr(config, "num_contexts"):
            encoded["context_ids"] = encoded["input_ids"].new_tensor(context_ids)
        return {"pairs": pairs, "encoded": encoded}

    def _forward(self, model_inputs):
        return {"pairs": model_inputs["pairs"], "logits": self.model(**model_inputs["encoded"]).logits}

    def postprocess(self, model_outputs):
        check_finite(model_outputs["logits"])
        names = [self.model.config.id2label[i] for i in range(self.model.config.num_labels)]
        probabilities = model_outputs["logits"].float().softmax(dim=-1).tolist()
        return [entry(*pair, names, row) for pair, row in zip(model_outputs["pairs"], probabilities, strict=True)]


__all__ = ["TargetedSentimentPipeline"]
