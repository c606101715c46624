# SPDX-License-Identifier: Apache-2.0
"""The service in a thread, for tests."""

import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import uvicorn
from toolkit_helpers import one_thread

from hf_emotion.serving.service import build
from hf_emotion.serving.settings import Settings
from hf_emotion.serving.web import Server


@contextmanager
def running(checkpoints: Sequence[Any], **options: Any) -> Iterator[tuple[str, Any]]:
    """The service of some checkpoints: its address, and the application."""
    with one_thread():
        app = build(Settings(checkpoints=[str(checkpoint) for checkpoint in checkpoints], **options))
    listening = socket.create_server(("127.0.0.1", 0))
    server = Server(uvicorn.Config(app, log_level="warning", access_log=False))
    server.GRACE = 0.1
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}", app
    finally:
        server.should_exit = True
        thread.join()
