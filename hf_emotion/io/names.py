# SPDX-License-Identifier: Apache-2.0
"""Names in messages (what somebody meant who mistyped one, and lists of them), and arguments by name."""

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any


def visible(text: str) -> str:
    """The text with its control characters written out, but for line ends and tabs: a terminal would obey them."""
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", lambda match: f"\\x{ord(match[0]):02x}", text)


def did_you_mean(name: Any, known: Iterable[str]) -> str:
    """ " Did you mean 'joy'?" if a known name is near, else nothing. In {short name: name} the short names are compared."""
    shown = known if isinstance(known, Mapping) else {other: other for other in known}
    near = get_close_matches(str(name), shown, n=1)
    return f" Did you mean {shown[near[0]]!r}?" if near else ""


def listed(names: Iterable[str], most: int = 30) -> str:
    """The names, sorted; if there are many, the first ones and how many more there are."""
    first, rest = sorted(names)[:most], len(set(names)) - most
    return f"{first} and {rest:,} more" if rest > 0 else str(first)


def given(**arguments: Any) -> dict[str, Any]:
    """Those of the arguments that are not None."""
    return {name: value for name, value in arguments.items() if value is not None}
