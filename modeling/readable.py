# SPDX-License-Identifier: Apache-2.0
"""What counts as a text. Needs neither torch nor transformers."""

import unicodedata
from typing import TypeGuard


def is_readable(text) -> TypeGuard[str]:
    """Whether it is a string with something to read: a character that can be seen, and no half of one, which is no text."""
    if not isinstance(text, str):
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return any(not c.isspace() and unicodedata.category(c) not in ("Cc", "Cf") for c in text)


def check_text(text) -> None:
    """ValueError unless there is something to read."""
    if not is_readable(text):
        raise ValueError(
            f"a text must be a string that is not empty, got {text!r}: write a character that can be seen, and no halves of "
            "characters."
        )


__all__ = ["check_text", "is_readable"]
