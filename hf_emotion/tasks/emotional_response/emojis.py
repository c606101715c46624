# SPDX-License-Identifier: Apache-2.0
"""Emojis in texts."""

import functools
import re
from collections.abc import Iterable


VARIANTS = "\ufe0e\ufe0f\U0001f3fb-\U0001f3ff"  # variation selectors and skin tones
PICTOGRAPHS = f"\u2190-\u2bff\U0001f000-\U0001faff{VARIANTS}"  # the parts of joined emojis


def bare(emoji: str) -> str:
    return re.sub(f"[{VARIANTS}]", "", emoji)


def strip_emojis(text: str, emojis: Iterable[str]) -> str:
    """
    Remove these emojis, with their variation selectors and skin tones. The blanks around them become one, and none stays at
    the ends of the text. All other characters stay as they are.

    The man's or woman's variant of one of the emojis (the emoji, U+200D and ♂ or ♀) is removed too; other emojis joined by U+200D,
    such as the heart on fire, are emojis of their own and stay. ValueError without an emoji, or for an empty one.
    """
    return _emoji_run(tuple(emojis)).sub(_gap, text).strip()


def _gap(found: re.Match) -> str:
    before, after = found.string[: found.start()][-1:], found.string[found.end() :][:1]
    if not before or not after:
        return ""
    return " " if re.search(r"\s", found[0]) or (before.isalnum() and after.isalnum()) else ""


@functools.lru_cache(maxsize=8)
def _emoji_run(emojis: tuple[str, ...]) -> re.Pattern:
    """Matches a run of the emojis, with the blanks around and between them."""
    names = sorted({bare(emoji) for emoji in emojis}, key=len, reverse=True)
    if not names or not all(names):  # would match between all characters
        raise ValueError(f"`emojis` must be at least one, none of them empty, got {list(emojis)}.")
    # Possessive, so that no shorter match is tried inside a joined emoji that must stay.
    one = f"(?:{'|'.join(map(re.escape, names))})[{VARIANTS}]*+"
    joined = (
        f"(?<![{PICTOGRAPHS}]\u200d){one}(?:\u200d(?:{one}|[♀♂][{VARIANTS}]*+))*+(?!\u200d[{PICTOGRAPHS}])\u200d*+"
    )
    return re.compile(rf"\s*(?:{joined}\s*+)+")
