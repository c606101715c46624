# SPDX-License-Identifier: Apache-2.0
"""Finds out in one try whether the Hub answers. Needs neither torch nor transformers."""

import socket
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from huggingface_hub import constants

from ..io.names import did_you_mean
from .ready import built_models, ready_models


WAIT = 5  # seconds


@contextmanager
def asking_once(checkpoint: str | Path) -> Iterator[None]:
    """
    Read a model of the Hub only from the cache if the Hub does not answer; otherwise each file would be tried for a minute. An OSError names
    the ready model that may be meant.
    """
    here, name = Path(checkpoint).exists(), str(checkpoint)
    alone = not (here or constants.HF_HUB_OFFLINE or _answers(constants.ENDPOINT))
    constants.HF_HUB_OFFLINE |= alone
    try:
        yield
    except OSError as error:
        known = [*(model.name for model in ready_models()), *(folder.name for folder in built_models())]
        if not here and "/" not in name and (hint := did_you_mean(name, known)):
            raise OSError(f"{str(error).splitlines()[0]}{hint}") from error
        raise
    finally:
        if alone:
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
