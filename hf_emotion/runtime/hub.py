# SPDX-License-Identifier: Apache-2.0
"""Finds out in one try whether the Hub answers. Needs neither torch nor transformers."""

import socket
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from huggingface_hub import constants


WAIT = 5  # seconds


@contextmanager
def asking_once(checkpoint: str | Path) -> Iterator[None]:
    """Read a model of the Hub from the cache alone if the Hub does not answer; each file would be asked for again for a minute."""
    if Path(checkpoint).exists() or constants.HF_HUB_OFFLINE or _answers(constants.ENDPOINT):
        yield
        return
    constants.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = False


def _answers(address: str) -> bool:
    if urllib.request.getproxies():  # a proxy may reach what this machine does not
        return True
    parts = urlsplit(address)
    try:
        socket.create_connection((parts.hostname, parts.port or (80 if parts.scheme == "http" else 443)), WAIT).close()
    except OSError:
        return False
    return True
