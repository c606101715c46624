# SPDX-License-Identifier: Apache-2.0
"""Guesses what somebody meant who mistyped a name."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any


def did_you_mean(name: Any, known: Iterable[str]) -> str:
    """ " Did you mean 'joy'?" if a known name is near, else nothing. Of {short name: name} the short names are compared."""
    shown = known if isinstance(known, Mapping) else {other: other for other in known}
    near = get_close_matches(str(name), shown, n=1)
    return f" Did you mean {shown[near[0]]!r}?" if near else ""
