# SPDX-License-Identifier: Apache-2.0
"""
P14: the service. Clients that each ask for the emotions of one text after the other, on connections that stay open: of `hf-emotion serve`
with the checkpoint and with its exported folder, of the same service without batches, and of the same checkpoint behind FastAPI and the stock
pipeline, one request at a time. All servers are up, and take turns. Also: seconds until a server answers, its memory, and how far answers are
from those of the predictor alone.

    python benchmarks/service.py --checkpoint runs/goemotions_laa_ce --data-dir DATA
"""

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from measuring import parse, ratio, result, save
from texts import save_untrained, synthetic_texts

from hf_emotion import Predictor, load_dataset_for


# The shortest way to put a pipeline behind HTTP. The lock: pipelines are not made for several threads.
STOCK = """
import sys, threading
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel
from transformers import pipeline
classify = pipeline("text-classification", sys.argv[1], trust_remote_code=True, top_k=None, truncation=True)
app, lock = FastAPI(), threading.Lock()
class Body(BaseModel):
    inputs: str
@app.get("/health")
def health():
    return {}
@app.post("/predict")
def predict(body: Body):
    with lock:
        return classify(body.inputs)
uvicorn.run(app, port=int(sys.argv[2]), log_level="warning", access_log=False)
"""
ROUTE = "/predict"


@dataclass
class Side:
    """A server, and what was measured of it in each round."""

    command: list[str]
    port: int = 0
    per_request: list[float] = field(default_factory=list)
    median: list[float] = field(default_factory=list)
    slow: list[float] = field(default_factory=list)  # 95th percentile
    failures: int = 0
    ready: float = 0.0
    process: subprocess.Popen | None = None

    def memory(self) -> float:
        """Largest resident memory so far, MiB."""
        assert self.process is not None
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def sides(checkpoint: str, exported: str, int8: str | None) -> dict[str, Side]:
    ours = [sys.executable, "-m", "hf_emotion", "serve"]
    quiet = ["--log", "errors", "--port"]
    found = {
        "the stock pipeline": Side([sys.executable, "-c", STOCK, checkpoint]),
        "the service, torch": Side([*ours, checkpoint, *quiet]),
        "the service, ONNX": Side([*ours, exported, *quiet]),
        "the service without batches, torch": Side([*ours, checkpoint, "--max-batch-size", "1", *quiet]),
        "the service without batches, ONNX": Side([*ours, exported, "--max-batch-size", "1", *quiet]),
    }
    if int8 is not None:
        found["the service, ONNX int8"] = Side([*ours, int8, *quiet])
    return found


@contextlib.contextmanager
def started(found: dict[str, Side], threads: int) -> Iterator[None]:
    """All servers, one after the other."""
    with contextlib.ExitStack() as stack:
        for side in found.values():
            with socket.create_server(("127.0.0.1", 0)) as free:
                side.port = free.getsockname()[1]
            start = time.perf_counter()
            environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
            process = subprocess.Popen([*side.command, str(side.port)], env=environment, stdout=subprocess.DEVNULL)
            side.process = process
            stack.callback(process.wait)
            stack.callback(process.terminate)
            while True:
                try:
                    urllib.request.urlopen(f"http://127.0.0.1:{side.port}/health").close()
                    break
                except urllib.error.URLError:
                    if process.poll() is not None:
                        raise RuntimeError(f"the server ended: {' '.join(side.command[:5])}") from None
                    time.sleep(0.02)
            side.ready = time.perf_counter() - start
        yield


async def load(port: int, texts: Sequence[str], clients: int, seconds: float) -> tuple[list[float], int, float]:
    """Seconds of each request, how many failed, and the seconds of all."""
    end = time.perf_counter() + seconds
    waiting = itertools.cycle(texts)
    latencies: list[float] = []
    failures = 0

    async def client() -> None:
        nonlocal failures
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while (start := time.perf_counter()) < end:
            body = json.dumps({"inputs": next(waiting)}).encode()
            head = f"POST {ROUTE} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
            writer.write(head.encode() + body)
            answer = await reader.readuntil(b"\r\n\r\n")
            length = next(line for line in answer.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            await reader.readexactly(int(length.partition(b":")[2]))
            failures += not answer.startswith(b"HTTP/1.1 200")
            latencies.append(time.perf_counter() - start)
        writer.close()

    start = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(clients)))
    return latencies, failures, time.perf_counter() - start


def measure(side: Side, texts: Sequence[str], clients: int, seconds: float, keep: bool = True) -> None:
    latencies, failures, wall = asyncio.run(load(side.port, texts, clients, seconds))
    if keep:
        side.per_request.append(wall / len(latencies))
        side.median.append(1000 * statistics.median(latencies))
        side.slow.append(1000 * statistics.quantiles(latencies, n=20)[-1])
        side.failures += failures


def distance(side: Side, texts: Sequence[str], expected: Sequence[dict[str, float]]) -> float:
    """The largest difference of a probability to that of the predictor alone, while 32 requests run at the same time."""
    from concurrent.futures import ThreadPoolExecutor

    def ask(text: str) -> dict[str, float]:
        body = json.dumps({"inputs": text}).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{side.port}{ROUTE}", body, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request) as answer:
            return {item["label"]: item["score"] for item in json.load(answer)}

    with ThreadPoolExecutor(32) as pool:
        found = list(pool.map(ask, texts))
    return max(
        abs(one[label] - score) for one, own in zip(found, expected, strict=True) for label, score in own.items()
    )


def main(argv: Sequence[str] | None = None) -> list[dict]:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint", help="a classifier of texts; default: an untrained one over --base-model")
    parser.add_argument("--exported", help="its exported folder; default: it is exported here")
    parser.add_argument("--int8", help="its exported folder with 8-bit weights; default: it is not measured")
    parser.add_argument("--base-model", default="minilm")
    parser.add_argument(
        "--data-dir", help="folder with GoEmotions, whose test texts are sent; default: synthetic texts"
    )
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=15, help="of each server in each of the --pairs rounds")
    arguments = parse(parser, argv, pairs=4)
    texts = synthetic_texts(2000)
    if arguments.data_dir:
        texts = load_dataset_for("goemotions", arguments.data_dir)["test"]["text"][:2000]
    with tempfile.TemporaryDirectory() as name:
        checkpoint, exported = arguments.checkpoint, arguments.exported
        if checkpoint is None:
            checkpoint = str(save_untrained(Path(name) / "model", arguments.base_model, "label-aware-bert"))
        if exported is None:
            exported = f"{name}/exported"
            command = [sys.executable, "-m", "hf_emotion", "export", checkpoint, "--output", exported]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        found = sides(checkpoint, exported, arguments.int8)
        with started(found, arguments.threads):
            for side in found.values():
                measure(side, texts, arguments.clients, min(2.0, arguments.seconds), keep=False)
            for _ in range(arguments.pairs):
                for side in found.values():
                    measure(side, texts, arguments.clients, arguments.seconds)
            rows = compare(found, checkpoint, texts[:256])
    save(arguments, rows)
    return rows


def compare(found: dict[str, Side], checkpoint: str, texts: Sequence[str]) -> list[dict]:
    predictor = Predictor(checkpoint)
    expected = [
        dict(zip(predictor.labels, row, strict=True))
        for text in texts
        for row in predictor.probabilities(text).tolist()
    ]
    stock = found["the stock pipeline"]
    rows = []
    for name, side in found.items():
        rate = [1 / seconds for seconds in side.per_request]
        rows.append(result("P14", f"requests per second, {name}", rate, "1/s", failures=side.failures))
        rows.append(result("P14", f"median, {name}", side.median, "ms"))
        rows.append(result("P14", f"95th percentile, {name}", side.slow, "ms"))
        rows.append(result("P14", f"start to first answer, {name}", [side.ready], "s"))
        rows.append(result("P14", f"memory, {name}", [side.memory()], "MiB"))
        if side is not stock:
            exact = None if "int8" in name else 1e-5
            far = distance(side, texts, expected)
            rows.append(result("P14", f"largest difference to the predictor alone, {name}", [far], "", at_most=exact))
    for name in ("the service, torch", "the service, ONNX"):
        side, alone = found[name], found[name.replace("service", "service without batches")]
        work = f"requests per second, {name}, to those of"
        rows.append(ratio("P14", f"{work} the stock pipeline", side.per_request, stock.per_request, at_least=3))
        rows.append(
            ratio("P14", f"{work} the service without batches", side.per_request, alone.per_request, at_least=1)
        )
        work = f"95th percentile, {name}, to that of the stock pipeline"
        rows.append(ratio("P14", work, side.slow, stock.slow, at_most=1, unit="ms"))
    return rows


if __name__ == "__main__":
    main()
