# SPDX-License-Identifier: Apache-2.0
"""
A service under many clients: most ask well, some send what is malformed, are refused for a wrong field, or go before their answer comes; first
come bodies that are far too large, and in the end SIGTERM under load. Every answer is compared with that of the predictor alone.

    python -m tests.endurance.service --minutes 10 --clients 16
"""

import argparse
import json
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import torch

from hf_emotion import Predictor

from .small_model import draw_texts, save_small_classifier
from .soak import memory_summary, resident_mib, same


TASK = Predictor.task.name
TOO_LARGE = 100 * 2**20  # bytes
HEAD = {"Content-Type": "application/json"}


def malformed(draw: random.Random) -> bytes:
    """A body that no route understands, though it may be JSON."""
    good = json.dumps({"inputs": ["so happy", "so sad"], "top_k": 2, "thresholds": {"joy": 0.5}})
    kind = draw.randrange(6)
    if kind == 0:
        return draw.randbytes(draw.randrange(200))
    if kind == 1:
        return good[: draw.randrange(len(good))].encode()
    if kind == 2:  # some characters are others
        changed = list(good)
        for _ in range(draw.randint(1, 8)):
            changed[draw.randrange(len(changed))] = chr(draw.choice((draw.randrange(32, 127), draw.randrange(0x3000))))
        return "".join(changed).encode()
    if kind == 3:
        return (b'{"inputs":' + draw.choice((b"[", b'{"a":')) * draw.randrange(1, 50_000))[:200_000]
    values: list[Any] = [None, True, -1, 1e308, 10**400, "", "\ud800", "x" * 5000, [], {}, [[]], ["so", 1], {"a": {}}]
    fields = ("inputs", "top_k", "taxonomy", "thresholds", "all_scores", "model", "parameters", "x")
    return json.dumps({name: draw.choice(values) for name in draw.sample(fields, draw.randint(0, 4))}).encode()


def send(connection: HTTPConnection, path: str, body: bytes) -> tuple[int, Any]:
    connection.request("POST", path, body, HEAD)
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read())


def send_too_much(port: int, chunked: bool) -> int:
    """The status for 100 MB; 413 also where the service closes before all of it has come."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        how = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {TOO_LARGE}"
        connection.sendall(
            f"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n{how}\r\n\r\n".encode()
        )
        part = b"x" * 2**16
        try:
            for _ in range(TOO_LARGE // len(part)):
                connection.sendall(b"%x\r\n%s\r\n" % (len(part), part) if chunked else part)
        except OSError:
            pass  # it has seen enough
        try:
            return int(connection.recv(100).split()[1])
        except (OSError, IndexError):
            return 413


def run(seconds: float, clients: int = 16, seed: int = 0) -> dict[str, Any]:
    """Returns counts of answers by kind, wrong ones, and the growth of memory."""
    torch.set_num_threads(1)
    counts: Counter = Counter()
    errors: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = save_small_classifier(Path(folder) / "model")
        predictor = Predictor(checkpoint, device="cpu")
        texts = draw_texts(predictor, 200)
        expected = {k: {text: predictor([text], top_k=k)[0] for text in texts} for k in (None, 2)}
        command = [sys.executable, "-m", "hf_emotion", "serve", str(checkpoint), "--port", "0", "--log", "errors"]
        process = subprocess.Popen([*command, "--max-queue-size", str(4 * clients)], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        port = int(process.stdout.readline().split()[0].rpartition(":")[2])
        try:
            before = resident_mib(process.pid)
            refused = [send_too_much(port, chunked) for chunked in (False, True)]
            counts["too_large"] = refused.count(413)
            large_body_mib = resident_mib(process.pid) - before
            ending, lock = threading.Event(), threading.Lock()

            def ask(connection: HTTPConnection, draw: random.Random) -> str:
                kind = draw.random()
                if kind < 0.1:
                    status, _ = send(
                        connection, draw.choice((f"/v1/{TASK}", "/predict", "/", "/page/table")), malformed(draw)
                    )
                    return "malformed" if status in (200, 400, 413, 422) else f"status {status}"
                if kind < 0.15:
                    with socket.create_connection(("127.0.0.1", port), timeout=60) as other:
                        body = json.dumps({"inputs": draw.choices(texts, k=20)})
                        other.sendall(
                            f"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
                        )
                    return "gone"
                asked, top_k = draw.choices(texts, k=draw.randint(1, 8)), draw.choice((None, 2))
                if kind < 0.2:
                    status, found = send(connection, f"/v1/{TASK}", json.dumps({"inputs": [*asked, " "]}).encode())
                    place = ["body", "inputs", len(asked)]
                    return "refused" if status == 422 and found["detail"][0]["loc"] == place else "wrong"
                status, found = send(connection, f"/v1/{TASK}", json.dumps({"inputs": asked, "top_k": top_k}).encode())
                if status == 429:
                    return "busy"
                labels = [one["labels"] for one in found["results"]]
                return "answers" if same(labels, [expected[top_k][text] for text in asked]) else "wrong"

            def work(number: int) -> None:
                draw = random.Random(seed * 1000 + number)
                connection = HTTPConnection("127.0.0.1", port, timeout=60)
                while process.poll() is None:
                    try:
                        kind = ask(connection, draw)
                    except ConnectionRefusedError:
                        return  # it has ended
                    except Exception as error:
                        if ending.is_set() and isinstance(error, OSError):
                            kind = "lost_at_the_end"
                        else:
                            kind = "wrong"
                            errors.append(f"{type(error).__name__}: {error}")
                        connection.close()
                    with lock:
                        counts[kind] += 1

            workers = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(clients)]
            began = time.monotonic()
            for worker in workers:
                worker.start()
            memory: list[float] = []
            while (passed := time.monotonic() - began) < seconds and process.poll() is None:
                time.sleep(min(1.0, seconds / 40))
                if passed > seconds / 4:  # the allocator has seen all there is
                    memory.append(resident_mib(process.pid))
            ending.set()
            process.send_signal(signal.SIGTERM)
            code = process.wait(60)
            for worker in workers:
                worker.join(60)
        finally:
            process.kill()
            process.wait()
    wall = time.monotonic() - began
    return {
        "seconds": round(wall, 1),
        "clients": clients,
        **{name: counts[name] for name in ("answers", "wrong", "refused", "malformed", "gone", "busy", "too_large")},
        "failures": {name: count for name, count in counts.items() if name.startswith("status")},
        "lost_at_the_end": counts["lost_at_the_end"],
        "exit_code": code,
        "answers_per_second": round(counts["answers"] / wall),
        "large_body_mib": round(large_body_mib, 1),
        **memory_summary(memory),
        "errors": errors[:5],
    }


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args(argv)
    found = run(60 * arguments.minutes, arguments.clients, arguments.seed)
    print(json.dumps(found))
    right = found["too_large"] == 2 and found["exit_code"] == 0 and found["memory_growth_mib"] <= 20
    sys.exit(0 if right and not (found["wrong"] or found["failures"] or found["lost_at_the_end"]) else 1)


if __name__ == "__main__":
    main()
