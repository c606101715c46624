# SPDX-License-Identifier: Apache-2.0
"""Writes targets and aspects as a model of targeted sentiment reads them. Needs neither torch nor transformers."""

import re
import unicodedata
from collections.abc import Iterable

from .readable import composed


def targets_in(config, text: str) -> list[str]:
    """
    The model's targets that occur in a text, by name or by the text that the model reads for them. A placeholder, for which
    the model reads another text, is found anywhere; any other name only as a word ("bar", "bars", not "barn").
    """
    texts = _target_texts(config)
    text = composed(text)
    names = {composed(words): name for name, words in texts.items()} | {composed(name): name for name in texts}
    placeholders = {composed(name) for name, words in texts.items() if words != name}
    forms = _longest_first(names)
    found, free = set(), 0  # where the last match ends
    for place in re.finditer(f"(?={'|'.join(map(re.escape, forms))})", text):
        start = place.start()
        # A name that is no word here leaves its place to a shorter one: in "iPhone 11" stands no "iPhone 1", but an "iPhone".
        for form in forms if start >= free else ():
            end = start + len(form)
            if text.startswith(form, start) and (form in placeholders or _is_word(text, start, end)):
                found.add(names[form])
                free = end
                break
    return [name for name in config.targets if name in found]


def _is_word(text: str, start: int, end: int) -> bool:
    """
    Whether no letter, digit or mark on a letter touches the match, except a plural ending; always True in scripts written without
    blanks.
    """
    around = (text[:start][-1:], re.sub(r"^e?s(?!\w)", "", text[end : end + 3])[:1])
    return not any((c.isalnum() or unicodedata.category(c) in ("Mn", "Mc")) and c < "\u0e00" for c in around if c)


def _target_texts(config) -> dict[str, str]:
    """{name of a target: the text that the model reads for it}"""
    return dict(zip(config.targets, config.target_texts or config.targets, strict=True))


def _forms(texts: dict[str, str]) -> re.Pattern:
    """A pattern that finds names and the texts for them; if two begin alike, the longer one."""
    return re.compile("|".join(map(re.escape, _longest_first({*texts, *texts.values()}))))


def _longest_first(forms: Iterable[str]) -> list[str]:
    return sorted(forms, key=len, reverse=True)


def model_inputs(config, text: str, target: str | None, aspect: str) -> tuple[str, str | None, int]:
    """
    The model's input for one target and aspect.

    Args:
        config: with `aspects`, `targets`, `target_texts` and `auxiliary_sentence`.
        target: one of `config.targets`, or None if the model has no targets.

    Returns:
        the text in which each target is replaced by its own text, the auxiliary sentence (None for models without), the
        context id.

    Raises:
        ValueError: an unknown target or aspect; the message names the known ones.
    """
    if aspect not in config.aspects:
        raise ValueError(f"unknown aspect {aspect!r}: the model's aspects are {config.aspects}.")
    text, context_id = composed(text), config.aspects.index(aspect)
    auxiliary = auxiliary_sentence(None, aspect)
    check_target(config, target)
    if target is not None:
        texts = _target_texts(config)
        context_id += config.targets.index(target) * len(config.aspects)
        auxiliary = auxiliary_sentence(texts[target], aspect)
        text = mark_targets(text, texts)
    return text, auxiliary if config.auxiliary_sentence else None, context_id


def check_target(config, target: str | None) -> None:
    """ValueError for a target that is not one of `config.targets`; None is right for a model without targets, and for it alone."""
    if config.targets is None and target is not None:
        raise ValueError(f"the model has no targets, only the aspects {config.aspects}; got the target {target!r}.")
    if config.targets is not None and target not in config.targets:
        raise ValueError(f"unknown target {target!r}: the model's targets are {config.targets}.")


def auxiliary_sentence(target_text: str | None, aspect: str) -> str:
    """The second segment that tells a model what is asked: "location - 1 - price", or the aspect alone without a target."""
    return aspect if target_text is None else f"{target_text} - {aspect}"


def mark_targets(text: str, texts: dict[str, str]) -> str:
    """
    Replace the names of targets in a text, given {name of a target: the text that the model reads for it}. Names are found
    anywhere; blanks separate the new text from letters and digits ("xLOCATION1y" -> "x location - 1 y").
    """
    forms = _forms(texts)

    def mark(match: re.Match) -> str:
        words = texts.get(match[0], match[0])
        if words == match[0]:
            return words
        glued_before = re.match(r"\w", text[: match.start()][-1:])
        # If another name follows, it brings its own blank.
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


__all__ = ["auxiliary_sentence", "entry", "mark_targets", "model_inputs", "targets_in"]
