# SPDX-License-Identifier: Apache-2.0
"""Decides what counts as a text, and in which form it is read. Needs neither torch nor transformers."""

import re
import unicodedata
from typing import TypeGuard


WINDOWS_CHARACTER = re.compile("[\x80\x82-\x8c\x8e\x91-\x9c\x9e\x9f]")  # those that Windows-1252 has


def is_unicode(text: str) -> bool:
    """Whether a text is valid Unicode: JSON may hold halves of surrogate pairs, which no tokenizer takes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_readable(text) -> TypeGuard[str]:
    """Whether `text` is a string with at least one visible character and without halves of characters."""
    if not isinstance(text, str) or not is_unicode(text):
        return False
    return any(not c.isspace() and unicodedata.category(c) not in ("Cc", "Cf") for c in text)


def check_text(text) -> None:
    """ValueError unless `text` is readable, see `is_readable`."""
    if not is_readable(text):
        raise ValueError(
            f"a text must be a string that is not empty, got {text!r}: write a character that can be seen, and no halves of "
            "characters."
        )


def has_windows_characters(text: str) -> bool:
    """Whether a text holds control characters that come from reading Windows-1252 as another encoding."""
    return WINDOWS_CHARACTER.search(text) is not None


def composed(text: str) -> str:
    """
    A text in composed characters (NFC), as models read it in training and in prediction. Control characters from U+0080 to U+009F
    become the characters that their numbers have in Windows-1252, as in HTML.
    """
    if has_windows_characters(text):
        text = WINDOWS_CHARACTER.sub(lambda found: found[0].encode("latin-1").decode("cp1252"), text)
    return unicodedata.normalize("NFC", text)


def normalized(text: str) -> str:
    """A name or a text of a file in the form that it has in training: composed characters, and no white space around."""
    return composed(text).strip()


__all__ = ["check_text", "composed", "has_windows_characters", "is_readable", "is_unicode", "normalized"]
