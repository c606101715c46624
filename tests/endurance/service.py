# SPDX-License-Identifier: Apache-2.0
"""
A service under many clients: most ask well, some send what is malformed, are refused for a wrong field, or go before their answer comes; first
come bodies that are far too large, and in the end SIGTERM under load.
Every answer is compared with that of the predictor alone: `python -m tests.endurance.service --minutes 10`.
"""

import contextlib
import itertools
import json
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

import torch

from hf_emotion import Predictor

from .small_model import draw_texts, end, options_of, save_small_classifier
from .soak import Load, resident_mib, same


ROUTES = (f"/v1/{Predictor.task.name}", "/predict", "/", "/page/table")
TOO_LARGE = 100 * 2**20  # bytes
HEAD = {"Content-Type": "application/json"}


def malformed(draw: random.Random) -> bytes:
    """A body that no route understands, though it may be JSON."""
    good = json.dumps({"inputs": ["so happy", "so sad"], "top_k": 2, "thresholds": {"joy": 0.5}})
    changed = list(good)
    for _ in range(draw.randint(1, 8)):
        changed[draw.randrange(len(changed))] = chr(draw.choice((draw.randrange(32, 127), draw.randrange(0x3000))))
    values: list[Any] = [None, True, -1, 1e308, 10**400, "", "\ud800", "x" * 5000, [], {}, [[]], ["so", 1], {"a": {}}]
    fields = ("inputs", "top_k", "taxonomy", "thresholds", "all_scores", "model", "parameters", "x")
    drawn = {name: draw.choice(values) for name in draw.sample(fields, draw.randint(0, 4))}
    deep = ('{"inputs":' + draw.choice(("[", '{"a":')) * draw.randrange(1, 50_000))[:200_000]
    bodies = (good[: draw.randrange(len(good))], "".join(changed), deep, json.dumps(drawn), json.dumps(drawn))
    return draw.choice((draw.randbytes(draw.randrange(200)), *(body.encode() for body in bodies)))


def send(connection: HTTPConnection, path: str, body: bytes) -> tuple[int, Any]:
    connection.request("POST", path, body, HEAD)
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read())


def send_too_much(port: int, chunked: bool) -> int:
    """The status for 100 MB; 413 also where the service closes before all of it has come."""
    parts = itertools.repeat(b"x" * 2**16, TOO_LARGE // 2**16)
    with contextlib.closing(HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        with contextlib.suppress(OSError):  # it has seen enough
            connection.request(
                "POST", "/predict", parts, HEAD if chunked else HEAD | {"Content-Length": str(TOO_LARGE)}
            )
        try:
            return connection.getresponse().status
        except (OSError, HTTPException):
            return 413


def run(seconds: float, clients: int = 16, seed: int = 0) -> dict[str, Any]:
    """Returns counts of answers by kind, wrong ones, and the growth of memory."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = save_small_classifier(Path(folder) / "model")
        predictor = Predictor(checkpoint, device="cpu")
        texts = draw_texts(predictor, 200)
        expected = {k: {text: predictor([text], top_k=k)[0] for text in texts} for k in (None, 2)}
        command = [sys.executable, "-m", "hf_emotion", "serve", str(checkpoint), "--port", "0", "--log", "errors"]
        process = subprocess.Popen([*command, "--max-queue-size", str(4 * clients)], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        port = int(process.stdout.readline().split()[0].rpartition(":")[2])
        connections = [HTTPConnection("127.0.0.1", port, timeout=60) for _ in range(clients)]

        def ask(connection: HTTPConnection, draw: random.Random) -> str:
            kind = draw.random()
            if kind < 0.1:
                status, _ = send(connection, draw.choice(ROUTES), malformed(draw))
                return "malformed" if status in (200, 400, 413, 422) else f"status {status}"
            if kind < 0.15:
                other = HTTPConnection("127.0.0.1", port, timeout=60)
                other.request("POST", "/predict", json.dumps({"inputs": draw.choices(texts, k=20)}), HEAD)
                other.close()
                return "gone"
            asked, top_k = draw.choices(texts, k=draw.randint(1, 8)), draw.choice((None, 2))
            if kind < 0.2:
                status, found = send(connection, ROUTES[0], json.dumps({"inputs": [*asked, " "]}).encode())
                place = ["body", "inputs", len(asked)]
                return "refused" if status == 422 and found["detail"][0]["loc"] == place else "wrong"
            status, found = send(connection, ROUTES[0], json.dumps({"inputs": asked, "top_k": top_k}).encode())
            if status == 429:
                return "busy"
            labels = [one["labels"] for one in found["results"]]
            return "answers" if same(labels, [expected[top_k][text] for text in asked]) else "wrong"

        def call(number: int, draw: random.Random) -> str | None:
            if process.poll() is not None:
                return None
            try:
                return ask(connections[number], draw)
            except ConnectionRefusedError:
                return None  # it has ended
            except Exception as error:
                connections[number].close()
                if ending.is_set() and isinstance(error, OSError):
                    return "lost_at_the_end"
                raise

        try:
            before, ending = resident_mib(process.pid), threading.Event()
            refused = [send_too_much(port, chunked) for chunked in (False, True)]
            large_body_mib = resident_mib(process.pid) - before
            load = Load(call, clients, seed)
            load.counts["too_large"] = refused.count(413)
            for _ in load.during(seconds, process.pid):
                if process.poll() is not None:
                    break
            ending.set()
            process.send_signal(signal.SIGTERM)
            code = process.wait(60)
            load.join(60)
        finally:
            process.kill()
            process.wait()
    counts, kinds = load.counts, ("answers", "wrong", "refused", "malformed", "gone", "busy", "too_large")
    return {
        **{"seconds": round(time.monotonic() - load.began, 1), "clients": clients},
        **{name: counts[name] for name in kinds},
        "failures": {name: count for name, count in counts.items() if name.startswith("status")},
        **{"lost_at_the_end": counts["lost_at_the_end"], "exit_code": code},
        **{"large_body_mib": round(large_body_mib, 1), **load.found()},
    }


def main(argv: Sequence[str] | None = None) -> None:
    options = options_of(argv, minutes=10.0, clients=16, seed=0)
    found = run(60 * options.pop("minutes"), **options)
    faults = any(found[name] for name in ("wrong", "failures", "lost_at_the_end", "exit_code"))
    end(found, faults or found["too_large"] < 2 or found["memory_growth_mib"] > 20)


if __name__ == "__main__":
    main()
