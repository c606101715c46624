# SPDX-License-Identifier: Apache-2.0
"""Servers and their clients, for peers.py."""

import asyncio
import contextlib
import itertools
import json
import os
import signal
import socket
import statistics
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Server:
    """A server whose command ends with its port, and what was measured of it in each round."""

    command: list[str | os.PathLike]
    route: str = "/predict"
    body: Callable[[str], dict] = lambda text: {"inputs": text}
    folder: Path | None = None  # where the command runs
    port: int = 0
    per_request: list[float] = field(default_factory=list)
    slow: list[float] = field(default_factory=list)  # 95th percentile
    failures: int = 0

    def measure(self, texts: Sequence[str], clients: int, seconds: float) -> None:
        bodies = [json.dumps(self.body(text)).encode() for text in texts]
        latencies, failures, wall = asyncio.run(load(self.port, self.route, bodies, clients, seconds))
        self.per_request.append(wall / len(latencies))
        self.slow.append(1000 * statistics.quantiles(latencies, n=20)[-1])
        self.failures += failures


@contextlib.contextmanager
def started(server: Server, threads: int) -> Iterator[None]:
    """A server that answers at /health, on a free port. Raises RuntimeError: it ended."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        server.port = free.getsockname()[1]
    variables = {**os.environ, "OMP_NUM_THREADS": str(threads), "HF_HUB_OFFLINE": "1", "DO_NOT_TRACK": "1"}
    command = [*server.command, str(server.port)]
    process = subprocess.Popen(
        command, env=variables, cwd=server.folder, stdout=subprocess.DEVNULL, start_new_session=True
    )
    try:
        while True:
            with contextlib.suppress(urllib.error.URLError, ConnectionError):
                urllib.request.urlopen(f"http://127.0.0.1:{server.port}/health").close()
                break
            if process.poll() is not None:
                raise RuntimeError(f"the server ended with {process.returncode}")
            time.sleep(0.02)
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)  # litserve leaves children
        process.wait()


async def load(port: int, route: str, bodies: Sequence[bytes], clients: int, seconds: float) -> tuple:
    """Clients that send one request after the other on open connections: seconds of each, number of failures, seconds of all."""
    end, waiting = time.perf_counter() + seconds, itertools.cycle(bodies)
    latencies: list[float] = []
    failures = 0

    async def client() -> None:
        nonlocal failures
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while (start := time.perf_counter()) < end:
            body = next(waiting)
            head = f"POST {route} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
            writer.write(head.encode() + body)
            answer = await reader.readuntil(b"\r\n\r\n")
            length = next(line for line in answer.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            await reader.readexactly(int(length.partition(b":")[2]))
            failures += not answer.startswith(b"HTTP/1.1 200")
            latencies.append(time.perf_counter() - start)
        writer.close()
        await writer.wait_closed()

    start = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(clients)))
    return latencies, failures, time.perf_counter() - start
