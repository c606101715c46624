# SPDX-License-Identifier: Apache-2.0
"""The key of a service, as the service and its clients read it."""

import os
from pathlib import Path


KEY = "HF_EMOTION_API_KEY"


def read_key(path: Path | None = None) -> str | None:
    """The key in a file, else in the environment, if it is set there; ValueError unless it is one line that a header can hold."""
    source = f"${KEY}" if path is None else str(path)
    key = os.environ.get(KEY) if path is None else path.read_text(encoding="utf-8")
    if key is None:
        return None
    key = key.strip()
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise ValueError(f"{source} must hold one key: printable ASCII characters without spaces.")
    return key
