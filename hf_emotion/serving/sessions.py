# SPDX-License-Identifier: Apache-2.0
"""What a service keeps between requests: conversations that go on, each by its id, for a while."""

import secrets
import time
from typing import Any


MOST = 1024  # sessions of a model
SECONDS = 900.0  # after its last turn a session is forgotten


class Sessions:
    """At most `MOST` states by their ids; one that nobody asked for within `SECONDS` is forgotten."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[float, Any]] = {}  # the one that was asked for last at the end

    def find(self, session: str) -> Any:
        """The state of a session, which is kept from now on anew; None if there is none."""
        self._forget()
        _, state = self._kept.pop(session, (0.0, None))
        if state is not None:
            self._kept[session] = time.monotonic(), state
        return state

    def full(self) -> bool:
        self._forget()
        return len(self._kept) >= MOST

    def keep(self, state: Any) -> str:
        """The id of a new session, which nobody can guess."""
        session = secrets.token_urlsafe(16)
        self._kept[session] = time.monotonic(), state
        return session

    def _forget(self) -> None:
        oldest = time.monotonic() - SECONDS
        while self._kept and (first := next(iter(self._kept))) and self._kept[first][0] < oldest:
            del self._kept[first]
