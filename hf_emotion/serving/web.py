# SPDX-License-Identifier: Apache-2.0
"""What stands between HTTP and the routes: connections, the key, the size of bodies, counters, the log, and how the server ends."""

import asyncio
import hmac
import json
import logging
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib.resources import files
from typing import Any
from urllib.parse import quote

import h11
import uvicorn
from fastapi import HTTPException, Response
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from uvicorn.protocols.http.h11_impl import H11Protocol

from .policy import policy
from .settings import Settings


logger = logging.getLogger("hf_emotion.serve")

OPEN = frozenset({"/", "/health", "/ready"})  # GET without a key: a page without data, and what a load balancer asks
BACKLOG = 2048  # connections that wait to be accepted
AT_ONCE = 8  # of these are accepted in one turn of the event loop
MAX_CONNECTIONS = 1000
CLOSE = b"connection", b"close"
READ_ON, MOST_READ_ON = 5.0, 2**26  # seconds and bytes
MOST_OF_A_PATH = 100  # characters in the log
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
PAGE = files("hf_emotion.serving").joinpath("page.html").read_text(encoding="utf-8")
POLICY = policy(PAGE)


def problem(
    status: int, message: str, detail: Sequence[dict[str, Any]] = (), headers: Mapping[str, str] | None = None
) -> Response:
    """An answer that tells an error, and in `detail` the fields that are wrong."""
    # In ASCII: a message may quote invalid Unicode.
    content = json.dumps({"error": message, "detail": list(detail)})
    return Response(content, status, headers, "application/json")


class Counters:
    """What `/metrics` tells."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        where: dict[str, Any] = {"registry": self.registry, "namespace": "hf_emotion"}
        self.requests = Counter("requests", "Requests", ["route", "status"], **where)
        self.seconds = Histogram(
            "request_seconds", "Seconds to the answer", ["route", "status"], buckets=SECONDS, **where
        )
        self.queue = Gauge("queue_inputs", "Inputs that wait for the model", ["model"], **where)
        powers = [2**n for n in range(11)]
        self.sizes = Histogram(
            "batch_inputs", "Inputs that the model read together", ["model"], buckets=powers, **where
        )
        self.batch_seconds = Histogram("batch_seconds", "Seconds per batch", ["model"], buckets=SECONDS, **where)
        self.truncated = Counter("truncated_texts", "Texts that were cut", ["model"], **where)

    def batches(self, model: str, run: Callable[..., Sequence[Any]]) -> Callable[..., Sequence[Any]]:
        """`run`, with its calls counted."""
        sizes, seconds = self.sizes.labels(model), self.batch_seconds.labels(model)

        def counted(inputs: list[Any], **options: Any) -> Sequence[Any]:
            sizes.observe(len(inputs))
            with seconds.time():
                return run(inputs, **options)

        return counted

    def text(self) -> bytes:
        return generate_latest(self.registry)


class Guard:
    """Refuses requests without the key and bodies that are too large; counts and logs the others, too."""

    def __init__(self, app: Any, settings: Settings, counters: Counters):
        self.app, self.settings, self.counters = app, settings, counters
        self.key = None if settings.api_key is None else f"Bearer {settings.api_key}".encode()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        if scope["method"] == "HEAD":  # the server leaves the body out
            scope = {**scope, "method": "GET"}
        start, status, read = time.perf_counter(), 500, bytearray()
        most, got, whole = self.settings.max_body_bytes, 0, False
        too_large = f"the body is larger than {most} bytes: send several requests"

        async def limited() -> Any:
            nonlocal got, whole
            try:  # once the body is there, a message tells that the client has gone
                rest = None if whole else start + self.settings.timeout - time.perf_counter()
                message = await asyncio.wait_for(receive(), rest)
            except TimeoutError:
                raise HTTPException(
                    408,
                    f"the body did not come within {self.settings.timeout:g} s: send it at once",
                    {"connection": "close"},
                ) from None
            whole = not message.get("more_body", False)
            body = message.get("body", b"")
            got += len(body)
            if got > most:
                if not whole:
                    await _read_on(receive)
                raise HTTPException(413, too_large)
            if self.settings.log == "texts":
                read.extend(body)
            return message

        async def counted(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], (b"content-security-policy", POLICY.encode())]
                if not scope["app"].state.ready:  # let go of this connection, so that none is cut when the server ends
                    message["headers"].append(CLOSE)
            await send(message)

        headers = dict(scope["headers"])
        refusal = None
        try:
            if not self._allowed(scope, headers):
                message = "the key is missing or wrong: send the header Authorization: Bearer KEY"
                refusal = problem(401, message, headers={"WWW-Authenticate": "Bearer"})
            elif int(headers.get(b"content-length", b"0")) > most:
                refusal = problem(413, too_large)
            elif headers.get(b"content-encoding", b"identity").lower() != b"identity":
                refusal = problem(415, "the body is compressed: send it as it is, without the header Content-Encoding")
            if refusal is None:
                await self.app(scope, limited, counted)
            else:
                if b"expect" not in headers:  # else the client sends the body only if it is told to
                    await _read_on(receive)
                refusal.headers["connection"] = "close"  # the rest of the body may still come
                await refusal(scope, receive, counted)
        finally:
            route = getattr(scope.get("route"), "path", "other")
            seconds = time.perf_counter() - start
            self.counters.requests.labels(route, status).inc()
            self.counters.seconds.labels(route, status).observe(seconds)
            if self.settings.log != "errors":
                # A counter for each path that somebody makes up would fill the memory; the log may name it.
                asked = {"method": scope["method"], "path": quote(scope["path"])[:MOST_OF_A_PATH], "status": status}
                asked |= {"milliseconds": round(seconds * 1000, 1)}
                shown = f" {bytes(read).decode(errors='replace')!r}" if read else ""
                text = {"body": bytes(read).decode(errors="replace")} if read else {}
                logger.info("%s %s %d %.1f ms%s", *asked.values(), shown, extra={"asked": asked | text})

    def _allowed(self, scope: Any, headers: dict[bytes, bytes]) -> bool:
        if self.key is None or (scope["method"] in ("GET", "HEAD") and scope["path"] in OPEN):
            return True
        return hmac.compare_digest(headers.get(b"authorization", b""), self.key)


async def _read_on(receive: Any) -> None:
    """Read the rest of a body, within limits: many clients hear no answer before they have sent all."""
    left = MOST_READ_ON
    with suppress(TimeoutError):
        async with asyncio.timeout(READ_ON):
            while left > 0:
                message = await receive()
                left -= len(message.get("body", b""))
                if not message.get("more_body", False):
                    return


class Connection(H11Protocol):
    """A connection that gives its place to another one where there are too many."""

    MORE = 8  # connections over the limit, which may ask whether the process lives
    PROBE = 0.05  # seconds
    sends_no_more = False

    def connection_made(self, transport: Any) -> None:
        self.idle_since = time.monotonic()
        super().connection_made(transport)
        most = self.config.app.state.max_connections  # type: ignore[union-attr]
        others: list[Any] = [one for one in self.connections if one is not self and not one.transport.is_closing()]
        if len(others) < most:
            return
        if idle := [one for one in others if one.idle]:
            min(idle, key=lambda one: one.idle_since).transport.close()
        elif len(others) < most + self.MORE:
            self.app = self._only_whether_it_lives
        else:
            transport.close()

    @property
    def idle(self) -> bool:
        """Whether there is no request, or only the beginning of one."""
        return self.cycle is None or self.cycle.response_complete

    def on_response_complete(self) -> None:
        self.idle_since = time.monotonic()
        super().on_response_complete()  # which begins with the next request, if it is there
        if self.sends_no_more and self.idle:
            self.transport.close()

    def eof_received(self) -> bool | None:  # type: ignore[override]
        """Whether the connection stays open: a client may close its side once its requests are sent, and still read the answer."""
        if self.idle or self.cycle.more_body:
            return None
        self.sends_no_more = True
        self.loop.call_later(self.PROBE, self._probe, self.cycle, True)
        return True

    def _probe(self, cycle: Any, first: bool) -> None:
        """Find out whether a client that sends no more still reads. The system of one that has gone answers what is sent with a reset."""
        if cycle.response_started or cycle.disconnected or self.transport.is_closing():
            return
        if first and cycle.scope["http_version"] == "1.1":  # others know no interim answers
            self.transport.write(self.conn.send(h11.InformationalResponse(status_code=100, headers=[])) or b"")
        elif self.transport.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self.transport.abort()
            return
        self.loop.call_later(self.PROBE, self._probe, cycle, False)

    def send_400_response(self, msg: str) -> None:
        content = bytes(problem(400, f"no valid HTTP request: {sys.exception() or msg}").body)
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode()), CLOSE]
        response = h11.Response(status_code=400, headers=headers, reason=b"Bad Request")
        for event in (response, h11.Data(data=content), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    async def _only_whether_it_lives(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] in OPEN - {"/"}:
            await self.config.loaded_app(scope, receive, send)
            return
        headers = {"Retry-After": "1", "Connection": "close"}
        await problem(503, "too many connections: try again later", headers=headers)(scope, receive, send)


class Server(uvicorn.Server):
    """
    Closes connections on which nothing is asked for `IDLE` seconds. Ends without losing a request: for `GRACE` seconds after SIGTERM it
    listens on, and every answer closes its connection. Then it stops to listen, and the connections that it has by then get as long to
    send what they have to send.
    """

    GRACE = 1.0
    IDLE = 10.0

    def __init__(self, app: Any, timeout: float, max_connections: int):
        app.state.max_connections = max_connections
        config = uvicorn.Config(
            app,
            loop="asyncio",
            http=Connection,
            ws="none",
            backlog=AT_ONCE,
            timeout_graceful_shutdown=int(timeout) + 1,
            log_config=None,  # its lines are ours, with the time
            log_level="warning",
            access_log=False,
            server_header=False,
        )
        super().__init__(config)

    async def startup(self, sockets: list[Any] | None = None) -> None:
        await super().startup(sockets)
        for listening in sockets or []:
            listening.listen(BACKLOG)  # who comes while others are accepted waits

    async def on_tick(self, counter: int) -> bool:
        if counter % 10 == 0:
            connections: list[Any] = list(self.server_state.connections)
            for one in connections:
                waited = time.monotonic() - one.idle_since if one.idle else 0
                if waited > 2 * self.IDLE:  # it does not read what is left to send
                    one.transport.abort()
                elif waited > self.IDLE:
                    one.transport.close()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[Any] | None = None) -> None:
        self.config.app.state.ready = False  # type: ignore[union-attr]
        connections: list[Any] = list(self.server_state.connections)
        logger.info("ending: %d requests in flight", sum(not one.idle for one in connections))
        await self._wait_until(lambda: not self.server_state.connections, 0.02)
        # A connection that waits to be accepted when its socket closes is reset. A timer runs after all that was accepted before it.
        await self._wait_until(lambda: not select.select(sockets or [], [], [], 0)[0], 0.001)
        for server in self.servers:
            server.close()
        await self._wait_until(lambda: not self.server_state.connections, 0.02)
        await super().shutdown(sockets)
        logger.info("ended")

    async def _wait_until(self, done: Callable[[], bool], pause: float) -> None:
        end = time.monotonic() + self.GRACE
        while not (done() or self.force_exit) and time.monotonic() < end:
            await asyncio.sleep(pause)


class JsonFormatter(logging.Formatter):
    """A line of the log as a JSON object: time, level and message; for a request, method, path, status and milliseconds."""

    def format(self, record: logging.LogRecord) -> str:
        line = {"time": self.formatTime(record, self.datefmt) + f".{record.msecs:03.0f}Z", "level": record.levelname}
        line |= getattr(record, "asked", None) or {"message": record.getMessage()}
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line)


def log_with_time(log_format: str) -> None:
    """Begin every line of the log with the time: ISO 8601, UTC; "json": every line is an object."""
    kind = JsonFormatter if log_format == "json" else logging.Formatter
    formatter = kind("%(asctime)s.%(msecs)03dZ %(message)s", "%Y-%m-%dT%H:%M:%S")
    formatter.converter = time.gmtime
    for handler in logging.getLogger().handlers:
        handler.setFormatter(formatter)


def allowed_connections(most: int) -> int:
    """At most as many as the process can hold, with some files left for other uses."""
    try:
        import resource
    except ModuleNotFoundError:  # Windows
        return most
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if files == resource.RLIM_INFINITY:
        return most
    # Up to four times AT_ONCE are accepted before the first of them is closed.
    return min(most, max(8, files - 32 - 4 * AT_ONCE))


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens. OSError: the port is not free."""
    try:
        server = socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=BACKLOG
        )
        # asyncio sets it only on its own sockets. Without it a response waits up to 40 ms for the client to acknowledge its head.
        server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return server
    except OSError as error:
        why = str(error.strerror).partition(" (while")[0]  # what follows repeats the address
        raise OSError(f"{host}:{port} cannot be served ({why}): choose another --port or --host.") from error


def url_of(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def run(
    app: Any,
    host: str,
    port: int,
    timeout: float,
    log_format: str = "text",
    max_connections: int | None = None,
    show: Callable[[str], Any] | None = None,
) -> None:
    """Serve an application until SIGINT or SIGTERM. `show` gets the address, in a thread of its own. OSError: the port is not free."""
    log_with_time(log_format)
    listening = listen(host, port)
    url = url_of(host, listening.getsockname()[1])
    server = Server(app, timeout, allowed_connections(max_connections or MAX_CONNECTIONS))
    # Uvicorn sets the same handler, but later, and a signal may come as soon as the address is told. Once all is done, it raises the signal
    # again that it got: that is not a failure.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, server.handle_exit)
    print(f"{url} (Ctrl+C ends it)", flush=True)
    if show is not None:
        threading.Thread(target=show, args=(url,), daemon=True).start()
    server.run([listening])
