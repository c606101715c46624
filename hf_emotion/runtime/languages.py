# SPDX-License-Identifier: Apache-2.0
"""Finds texts in languages that a model does not read. Needs neither torch nor transformers, and py3langid only where it is in doubt."""

import re
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from .sharing import free_after_forks


# Shorter texts say too little: names, sighs. With 3 words there are 8 times as many false alarms.
WORDS, LETTERS = 4, 10
ENGLISH_SHARE = 0.1
SURE = 0.5
CHARACTERS = 2000  # of a text that are looked at

_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")
# Scripts without spaces have few words. These are letters that are not Latin.
_OTHER_LETTER = re.compile(r"[^\W\d_\u0000-\u024f\u1e00-\u1eff]")
# Words that hardly any other language in Latin script has: no "in", "was", "me", "do", "to" or "i".
ENGLISH = frozenset(
    "the and but are were be been you she it they your its our their this that these those not does did don't doesn't have has had "
    "will won't would can can't could with from if what who how why when just it's that's you're i'm didn't isn't there here than too "
    "very more some out down get like know think good really time people because about him them".split()
)

_identifier: Any = None
_loading = free_after_forks(threading.Lock())


def identifier() -> Any:
    """py3langid's model of all languages with an ISO 639-1 code, and of "zxx": no language. The first call takes about a second."""
    global _identifier
    with _loading:
        if _identifier is None:
            from py3langid.langid import MODEL_FILE, LanguageIdentifier

            loaded = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
            loaded.set_languages([code for code in loaded.labels if len(code) == 2 or code == "zxx"])
            _identifier = loaded
        return _identifier


def check_languages(languages: Sequence[str]) -> None:
    """ValueError unless it is the ISO 639-1 code of a language that `foreign_languages` can find."""
    if set(languages) <= {"en"}:
        return
    known = sorted(set(identifier().labels) - {"zxx"})
    for code in languages:
        if code not in known:
            raise ValueError(
                f"`languages` takes ISO 639-1 codes, as in [en, de], got {code!r}: known are {', '.join(known)}."
            )


def languages_of(config: Any) -> list[str]:
    """The languages that a model reads, from its configuration; empty if it names none."""
    named = getattr(config, "languages", None)
    # X-MOD has a field of the same name, with names like "en_XX".
    return [code for code in named if isinstance(code, str) and len(code) == 2] if isinstance(named, list) else []


def set_languages(config: Any, languages: Sequence[str]) -> None:
    """Keep the languages in a model's configuration, unless the model has a field of that name for something else."""
    if not hasattr(type(config), "languages") and (languages or languages_of(config)):  # of the base model
        config.languages = list(languages)


def foreign_languages(texts: Sequence[str], languages: Sequence[str]) -> np.ndarray:
    """(N,) object: the ISO 639-1 code of the language of each text if it is surely none of `languages`, else None."""
    found = np.full(len(texts), None, object)
    if languages:
        of_text = {text: _foreign(text[:CHARACTERS], languages) for text in set(texts)}
        found[:] = [of_text[text] for text in texts]
    return found


def languages_in(texts: Sequence[str]) -> list[str | None]:
    """The ISO 639-1 code of the language of each text; None where that is in doubt."""
    return [_foreign(text[:CHARACTERS], []) for text in texts]


def _foreign(text: str, languages: Sequence[str]) -> str | None:
    words = _WORD.findall(text)
    if len(words) < WORDS and len(_OTHER_LETTER.findall(text)) < LETTERS:
        return None
    if "en" in languages:  # what most texts of such a model are in
        known = sum(word.lower().replace("’", "'") in ENGLISH for word in words)
        if known >= ENGLISH_SHARE * len(words):
            return None
    code, probability = identifier().classify(text)
    return None if code in languages or code == "zxx" or probability <= SURE else code
