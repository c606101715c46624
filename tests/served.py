# SPDX-License-Identifier: Apache-2.0
"""The service in a thread, for tests."""

import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from toolkit_helpers import one_thread

from hf_emotion.serving.service import build
from hf_emotion.serving.settings import Settings
from hf_emotion.serving.web import Server


@contextmanager
def running(checkpoints: Sequence[Any], max_connections: int = 1000, **options: Any) -> Iterator[tuple[str, Any]]:
    """The service of some checkpoints: its address, and the application. It closes idle connections after a second."""
    with one_thread():
        app = build(Settings(checkpoints=[str(checkpoint) for checkpoint in checkpoints], **options))
    listening = socket.create_server(("127.0.0.1", 0))
    server = Server(app, 30, max_connections)
    server.GRACE, server.IDLE = 0.1, 1.0
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}", app
    finally:
        server.should_exit = True
        thread.join()
