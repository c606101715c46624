# SPDX-License-Identifier: Apache-2.0
"""The page of `label`: one table, one person, this machine. Needs no web framework."""

import json
import secrets
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Any

from ..tasks.labelled_columns import CANNOT_TELL
from .labelling import OF_ONE, Table
from .policy import policy


PAGE = files("hf_emotion.serving").joinpath("label.html").read_text(encoding="utf-8")
MOST_BYTES = 2**16  # of a request


class LabelServer(ThreadingHTTPServer):
    """Serves a table at an address that nobody can guess; ends with the process. OSError: the port is not free."""

    daemon_threads = True

    def __init__(self, table: Table, text_column: str, several: bool, port: int = 0):
        super().__init__(("127.0.0.1", port), _Handler)
        self.table, self.text_column, self.several = table, text_column, several
        self.writing = threading.Lock()
        self.place = f"/{secrets.token_urlsafe(16)}/"
        self.hosts = [f"{name}:{self.server_port}" for name in ("127.0.0.1", "localhost")]
        self.url = f"http://{self.hosts[0]}{self.place}"

    def about(self) -> dict[str, Any]:
        """What the page is told: all texts and their answers."""
        table = self.table
        others = [name for name in table.columns if name.startswith(OF_ONE)]
        return {
            "file": table.path.name,
            "labels": list(table.form.labels),
            "nothing": table.form.nothing,
            "several": self.several,
            "texts": ["" if row[self.text_column] is None else str(row[self.text_column]) for row in table.rows],
            "answers": table.answers,
            "others": [{name.removeprefix(OF_ONE): row[name] for name in others if row[name]} for row in table.rows],
        }

    def answer(self, body: Any) -> None:
        """Write an answer into the file; ValueError for a body that holds none."""
        number, answer = (body.get(name) for name in ("row", "answer")) if isinstance(body, dict) else (None, None)
        known, most = self.table.form.labels, None if self.several else 1
        labels = isinstance(answer, list) and answer == [name for name in known if name in answer][:most]
        if (
            type(number) is not int
            or not 0 <= number < len(self.table.rows)
            or not (labels or answer in (None, CANNOT_TELL))
        ):
            raise ValueError(
                "`row` must be the number of a row, and `answer` a list of labels in their order, ? or null."
            )
        with self.writing:
            self.table.save(number, answer)


class _Handler(BaseHTTPRequestHandler):
    server: LabelServer
    protocol_version = "HTTP/1.1"
    timeout = 60  # seconds that a connection may be idle

    def log_message(self, *_: Any) -> None:
        """Nothing: the texts of a table are nobody else's."""

    def do_GET(self) -> None:
        kind, content = "text/html; charset=utf-8", PAGE
        if self.path == self.server.place + "table":
            kind, content = "application/json", json.dumps(self.server.about())
        elif self.path != self.server.place:
            return self._send(404, "no such page")
        self._send(200, content, kind)

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > MOST_BYTES:
            self.close_connection = True  # its body stays unread
            return self._send(413, "too large")
        content = self.rfile.read(int(length))
        if self.path != self.server.place + "answer":
            return self._send(404, "no such page")
        try:
            self.server.answer(json.loads(content))
            self._send(200, "saved")
        except (ValueError, RecursionError, OSError) as error:
            self._send(422, str(error))

    def parse_request(self) -> bool:
        """Refuse what another site's page sends, also by a name of its own that leads here."""
        if not super().parse_request():
            return False
        origin, own = self.headers.get("Origin"), [f"http://{host}" for host in self.server.hosts]
        if self.headers.get("Host") in self.server.hosts and (origin is None or origin in own):
            return True
        self.close_connection = True
        self._send(403, "only this machine may open this page")
        return False

    def _send(self, status: int, text: str, kind: str = "text/plain; charset=utf-8") -> None:
        content = text.encode("utf-8", "backslashreplace")
        self.send_response_only(status)
        headers = {"Content-Type": kind, "Content-Length": len(content), "Content-Security-Policy": policy(PAGE)}
        headers |= {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}
        for name, value in headers.items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(content)


def run(server: LabelServer, show: Callable[[str], Any] | None = None) -> None:
    """Serve until Ctrl+C. `show` gets the address."""
    print(f"{server.url} (Ctrl+C ends it)", flush=True)
    if show is not None:
        threading.Thread(target=show, args=(server.url,), daemon=True).start()
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        print()
    finally:
        server.server_close()
