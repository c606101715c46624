# SPDX-License-Identifier: Apache-2.0
"""What a service is told when it starts. Needs no web framework."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Settings:
    """
    The options of `hf-emotion serve`.

    Attributes:
        loading: arguments of `load_predictor`; each model gets those that its task takes.
        max_windows: a text with more windows gets 422, unless `loading` has `max_windows`, at which texts are cut.
        max_tokens: a request with more tokens to read or to write gets 422; at least as many as `max_windows` of `loading` reads of a text.
    """

    checkpoints: Sequence[str]
    loading: dict[str, Any] = field(default_factory=dict)
    max_batch_size: int = 64
    batch_wait_timeout: float = 0.0
    max_queue_size: int = 1024
    timeout: float = 30.0
    max_body_bytes: int = 2**18
    max_inputs: int = 256
    max_windows: int = 128
    max_tokens: int = 2**15
    api_key: str | None = field(default=None, repr=False)
    cors_origins: Sequence[str] = ()
    log: str = "requests"
    log_format: str = "text"

    def __post_init__(self) -> None:
        for origin in self.cors_origins:
            if origin != "*" and not re.fullmatch(r"[a-z][a-z0-9+.-]*://[^/?#\sA-Z]+", origin):
                raise ValueError(f"`cors_origins` must be as browsers send them, https://a.org, or *; got {origin!r}.")


def names_of(checkpoints: Sequence[str | Path]) -> list[str]:
    """Short names of checkpoints: the names of their folders, or what was given where two are equal. ValueError for a name given twice."""
    paths = [str(checkpoint) for checkpoint in checkpoints]
    if not paths or len(set(paths)) < len(paths):
        raise ValueError(f"`checkpoints` must name at least one checkpoint, and each once; got {paths}.")
    names = [Path(path).resolve().name for path in paths]
    return names if len(set(names)) == len(names) else paths
