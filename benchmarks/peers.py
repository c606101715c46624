# SPDX-License-Identifier: Apache-2.0
"""
Ours beside tools that were built for speed, on the same checkpoint and the same texts. Each tool lives in an environment of its own, made when
it is first needed in build/peers, or in the folder HF_EMOTION_PEERS; so are the checkpoint, a stock BERT classifier over MiniLM with a new head,
and the pages for the browser. All Python environments share this one's torch. Both sides run in turn, each in its own process.

    python -m benchmarks.peers service --data-dir DATA --output benchmarks/peers.json

The rows go into peers.json; `python -m benchmarks.run_all --table` writes RESULTS.md from it.
"""

import asyncio
import importlib.metadata
import importlib.util
import itertools
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
import venv
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, NamedTuple
from urllib.error import URLError

import psutil
import typer
import yaml

from benchmarks.measuring import machine, ratio, recorded, result
from hf_emotion.io.files import creating, write_json


ROOT = Path(__file__).resolve().parents[1]
PLACE = Path(os.environ.get("HF_EMOTION_PEERS", ROOT / "build" / "peers")).resolve()
SAID = yaml.safe_load(Path(__file__).with_name("peers.yaml").read_text(encoding="utf-8"))
OUR_PACKAGES = Path(importlib.util.find_spec("torch").origin).parents[1]


def python_of(name: str) -> str:
    """The Python of an environment; it is made if it is not there. Raises CalledProcessError: pip failed."""
    if name == "ours":
        return sys.executable
    folder, shared = PLACE / name, PLACE / "shared"
    python = folder / "bin" / "python"
    if not (folder / "installed").is_file():
        shared.mkdir(parents=True, exist_ok=True)
        for name_of in ("torch", "torchgen", "functorch", "torch-*.dist-info"):
            for part in OUR_PACKAGES.glob(name_of):
                with suppress(FileExistsError):
                    (shared / part.name).symlink_to(part)
        (constraints := PLACE / "constraints.txt").write_text(SAID["torch"] + "\n")
        venv.create(folder, clear=True, symlinks=True)
        site = next(folder.glob("lib/*/site-packages"))
        (site / "shared.pth").write_text(str(OUR_PACKAGES if name in SAID["beside_ours"] else shared))
        pip = [sys.executable, "-m", "pip", "--python", python, *"install -q --no-compile -c".split(), constraints]
        subprocess.run([*pip, SAID["torch"], *SAID["python"][name]], check=True)
        (folder / "installed").touch()
    return str(python)


def versions(environment: str) -> str:
    """ "litserve 0.2.19, transformers 5.23.0"."""
    if environment == "playwright":  # it opens pages of transformers.js
        return SAID["node"][0]
    beside = environment in ("ours", *SAID["beside_ours"])
    places = [*[OUR_PACKAGES] * beside, *(PLACE / environment).glob("lib/*/site-packages")]
    installed = importlib.metadata.distributions(path=[str(place) for place in places])
    # What the environment has itself comes last.
    found = {one.name.lower().replace("_", "-"): one.version for one in installed}
    tool = SAID["python"].get(environment, ("",))[0].partition("==")[0].partition("[")[0]
    return ", ".join(f"{name} {found[name]}" for name in dict.fromkeys((tool, "transformers")) if name in found)


# A process that sets up `run` and then runs it once for each line it reads. Libraries may print: their stdout is stderr.
WORKER = """
import json, os, sys, time
out = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
given = json.load(open(sys.argv[1]))
globals().update(given)
{setup}
for line in sys.stdin:
    start = time.perf_counter()
    answer = run()
    print(json.dumps([time.perf_counter() - start, answer, globals().get("loaded")]), file=out, flush=True)
"""


class Side(NamedTuple):
    """
    A side of a comparison: Python that defines `run()`, which returns None or the first probabilities, and perhaps `loaded`, bytes; its own
    variables beside those that all sides have; of a peer the side of ours that it stands beside, and perhaps its own goal.
    """

    setup: str | list[str]
    own: dict[str, Any] = {}
    ours: str | None = None
    goal: dict[str, float] = {}
    environment: str = "ours"


@contextmanager
def running(side: Side, shared: dict[str, Any], threads: int) -> Iterator[Callable[[], list]]:
    """A process of a side. Yields what runs it once, and returns seconds, what `run` returned, and `loaded`."""
    variables = {"OMP_NUM_THREADS": str(threads), "HF_HUB_OFFLINE": "1", "WANDB_MODE": "disabled"}
    command = [python_of(side.environment), "side.py", "given.json"]
    with tempfile.TemporaryDirectory() as folder, suppress(BrokenPipeError):
        write_json(Path(folder, "given.json"), shared | side.own)
        setup = side.setup if isinstance(side.setup, str) else "\n".join(side.setup)
        Path(folder, "side.py").write_text(WORKER.replace("{setup}", setup))
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        with subprocess.Popen(command, **pipes, env={**os.environ, **variables}, cwd=folder) as process:

            def run() -> list:
                print(file=process.stdin, flush=True)
                if not (line := process.stdout.readline()):
                    raise RuntimeError(f"the process ended with {process.wait()}")
                return json.loads(line)

            yield run


FAILED: dict[str, str] = {}  # peer -> why it is not measured


@contextmanager
def failing(name: str) -> Iterator[None]:
    """What goes wrong with a peer is noted; it is left out from there on."""
    try:
        yield
    except (RuntimeError, OSError, EOFError, subprocess.CalledProcessError) as error:
        FAILED[name] = f"exit code {error.returncode}" if hasattr(error, "returncode") else str(error)


def compared(
    work: str, what: str, sides: dict[str, Side], shared: dict, pairs: int, threads: int, **goal
) -> list[dict]:
    """Rows of all peers that run."""
    rows, runs, first = [], {}, {}
    with ExitStack() as stack:
        for name, side in sides.items():
            with failing(name):
                run = stack.enter_context(running(side, shared, threads))
                _, *first[name] = run()  # which warms it up
                runs[name] = run
        times: dict[str, list[float]] = {name: [] for name in runs}
        for _, (name, run) in itertools.product(range(pairs), runs.items()):
            times[name].append(run()[0])
    for name, side in sides.items():
        if not {name, side.ours} <= runs.keys():  # one of ours stands beside none
            continue
        (answers, loaded), (our_answers, our_loaded) = first[name], first[side.ours]
        found = [ratio(work, f"{what}: {side.ours}", times[side.ours], times[name], **goal, **side.goal)]
        if answers and our_answers:
            both = zip(itertools.chain(*answers), itertools.chain(*our_answers), strict=True)
            found[0]["largest_difference"] = max(abs(a - b) for a, b in both)
        if loaded:
            visit = f"bytes of a first visit: {side.ours}"
            found.append(ratio(work, visit, [our_loaded / 1e6], [loaded / 1e6], "MB", at_most=1))
        rows += [row | {"peer": name, "versions": versions(side.environment)} for row in found]
    return rows


def made(name: str, make: Callable[[Path], object]) -> Path:
    """A folder beside the environments, which `make` fills if it is not there."""
    if not (place := PLACE / name).is_dir():
        with creating(place) as begun:
            make(begun)
    return place


def export(checkpoint: str | Path, *options: str | Path) -> None:
    subprocess.run([sys.executable, "-m", "hf_emotion", "export", checkpoint, *options], check=True, stdout=sys.stderr)


def make_checkpoint(folder: Path) -> None:
    """A stock BERT classifier with GoEmotions' labels and a new head, in model/, its graph for onnxruntime in model/onnx/, and our exports."""
    import onnx
    import torch
    from onnxruntime.quantization import quantize_dynamic
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    from benchmarks.predicting import save_untrained

    place = save_untrained(folder / "model", "minilm", None)
    tokenizer = AutoTokenizer.from_pretrained(place)
    model = AutoModelForSequenceClassification.from_pretrained(place).eval()
    inputs = dict(tokenizer(["one text", "and another one"], padding=True, return_tensors="pt"))
    (place / "onnx").mkdir()
    dynamic = {0: torch.export.Dim("rows"), 1: torch.export.Dim("tokens", max=512)}
    torch.onnx.export(
        model, kwargs=inputs, f=place / "onnx" / "model.onnx", dynamo=True, external_data=False,
        input_names=list(inputs), output_names=["logits"], dynamic_shapes=dict.fromkeys(inputs, dynamic),
    )  # fmt: skip
    graph = onnx.load(place / "onnx" / "model.onnx")
    del graph.graph.value_info[:]  # the quantizer transposes weights, and infers their shapes anew
    shutil.copytree(place, folder / "quantized", ignore=shutil.ignore_patterns("*.safetensors", "*.onnx"))
    quantize_dynamic(graph, folder / "quantized" / "onnx" / "model.onnx")
    # infinity's ONNX engine finds a local graph beside the config alone.
    shutil.copytree(place, folder / "graph", ignore=shutil.ignore_patterns("*.safetensors", "onnx"))
    (folder / "graph" / "model.onnx").symlink_to("../model/onnx/model.onnx")
    for name, options in {"exported": [], "int8": ["--quantize", "int8"]}.items():
        export(place, "--output", folder / name, *options)


def inputs_of(work: str, data_dir: Path | None, rows: int) -> dict[str, Any]:
    """What both sides read, {"texts": at most so many}, of `training` {"rows": (text, label)}."""
    from hf_emotion import load_dataset_for

    if work == "targeted":
        reviews = dict.fromkeys(load_dataset_for("reviews")["train"]["text"])
        return {"texts": [text for text in reviews if len(text.split()) >= 6][:rows]}
    if data_dir or work == "training":
        part = load_dataset_for("goemotions" if data_dir else "everyday", data_dir)["train"]
        if work == "training":
            labelled = zip(part["text"], part["labels"], strict=True)
            return {"rows": [(text, labels[0]) for text, labels in labelled if labels][:rows]}
        return {"texts": list(part["text"])[:rows]}
    parts = [part for name in ("everyday", "quickstart") for part in load_dataset_for(name).values()]
    return {"texts": list(itertools.islice(itertools.cycle(text for part in parts for text in part["text"]), rows))}


@dataclass
class Server:
    """A server whose command ends with its port, and what was measured of it in each round."""

    command: list[str | os.PathLike]
    environment: str = "ours"
    route: str = "/predict"
    body: str = '{"inputs": TEXT}'
    folder: Path | None = None  # where the command runs
    port: int = 0
    rounds: list[tuple[float, float, int]] = field(default_factory=list)
    seconds: float = 0.0  # from its start to its first answer
    process: psutil.Process | None = None

    def load(self, texts: Sequence[str], clients: int, seconds: float) -> tuple:
        """See `load`."""
        bodies = [self.body.replace("TEXT", json.dumps(text)).encode() for text in texts]
        return asyncio.run(load(self.port, self.route, bodies, clients, seconds))

    def measure(self, texts: Sequence[str], clients: int, seconds: float) -> None:
        """Seconds for a request, the 95th percentile of milliseconds, and the failures of a round."""
        latencies, failures, wall = self.load(texts, clients, seconds)
        self.rounds.append((wall / len(latencies), 1000 * statistics.quantiles(latencies, n=20)[-1], failures))


@contextmanager
def started(server: Server, threads: int) -> Iterator[None]:
    """A server that answers at /health, on a free port. Raises RuntimeError: it ended."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        server.port = free.getsockname()[1]
    variables = {**os.environ, "OMP_NUM_THREADS": str(threads), "HF_HUB_OFFLINE": "1", "DO_NOT_TRACK": "1"}
    command = [*server.command, str(server.port)]
    place = {"env": variables, "cwd": server.folder, "stdout": subprocess.DEVNULL}
    start = time.perf_counter()
    process = subprocess.Popen(command, **place, start_new_session=True)
    server.process = psutil.Process(process.pid)
    try:
        address = f"http://127.0.0.1:{server.port}/health"
        while True:
            with suppress(URLError, ConnectionError), urllib.request.urlopen(address):
                break
            if process.poll() is not None:
                raise RuntimeError(f"the server ended with {process.returncode}")
            time.sleep(0.02)
        server.load(["a text"], 1, 0)
        server.seconds = time.perf_counter() - start
        yield
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)  # litserve leaves children
        process.wait()


async def load(port: int, route: str, bodies: Sequence[bytes], clients: int, seconds: float) -> tuple:
    """
    Clients that send one request after the other on open connections, without `seconds` until each body is sent once: seconds of each, number of
    failures, seconds of all.
    """
    end, waiting = time.perf_counter() + seconds, itertools.cycle(bodies) if seconds else iter(bodies)
    latencies: list[float] = []
    failures = 0

    async def client() -> None:
        nonlocal failures
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for number, body in enumerate(waiting):
            if seconds and number and time.perf_counter() >= end:
                break
            start = time.perf_counter()
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


CLIENTS = (1, 8, 32, 128)
OUR_OTHERS = {"ours, --dtype fastest": "fastest", "ours, ONNX": "exported"}  # which litserve stands beside, too


def service(place: Path, texts: list[str], seconds: float, pairs: int, threads: int) -> list[dict]:
    """One text a request. Tried: batches of up to 64, litserve's wait of 2 ms, infinity's two engines."""
    (place / "lit.py").write_text(SAID["scripts"]["litserve"])
    servers = {}
    for name, said in SAID["servers"].items():
        python = Path(python_of(said.get("environment", "ours")))
        words = said["command"].format(python=python, bin=python.parent, place=place).split()
        servers[name] = Server(**said | {"command": words, "folder": place / said.get("folder", "")})
    rows: list[dict] = []

    def add(row: dict, server: Server, peer: str = "none", **more) -> None:
        rows.append(row | {"peer": peer, "versions": versions(server.environment), **more})

    with ExitStack() as stack:
        for name, server in servers.items():
            with failing(name):
                stack.enter_context(started(server, threads))
                server.measure(texts, 8, 2)
        alive = {name: server for name, server in servers.items() if name not in FAILED}
        for clients in CLIENTS:
            for server in alive.values():
                server.rounds = []
            for _, server in itertools.product(range(pairs), alive.values()):
                server.measure(texts, clients, seconds)
            for name, server in alive.items():
                request, slow, failures = zip(*server.rounds, strict=True)
                rate, wait = (f"{clients} clients: {what}" for what in ("requests per second", "95th percentile"))
                if server.environment == "ours":
                    add(result("service", f"{rate} of {name}", [1 / one for one in request], "1/s"), server)
                    add(result("service", f"{wait} of {name}", slow, "ms"), server)
                    continue
                mine = {"ours, ONNX" if "ONNX" in name else "ours, torch": name}
                mine |= {own: f"{name}; {short}" for own, short in OUR_OTHERS.items() if name == "litserve"}
                for our_name, peer in mine.items():
                    if our_name not in alive:
                        continue
                    our_request, our_slow, _ = zip(*servers[our_name].rounds, strict=True)
                    more = {"peer": peer, "failures": sum(failures)}
                    add(ratio("service", f"{rate} beside {peer}", our_request, request, at_least=1.2), server, **more)
                    add(ratio("service", f"{wait} beside {peer}", our_slow, slow, "ms", at_most=1), server, **more)
        for name, server in alive.items():
            family = [server.process, *server.process.children(recursive=True)]
            memory = sum(one.memory_info().rss for one in family) / 2**20
            add(result("service", f"memory of {name}", [memory], "MiB"), server)
            add(result("service", f"start to first answer of {name}", [server.seconds], "s"), server)
    return rows


def make_pages(folder: Path) -> None:
    """Our page of the ready model goemotions, and what transformers.js needs: its graph without the attention, and that with 8-bit products."""
    import gzip

    import onnx
    from onnxruntime.quantization import quantize_dynamic

    from hf_emotion.runtime.onnx import MODEL
    from hf_emotion.runtime.ready import for_prediction

    install = ["npm", "install", "--ignore-scripts", "--prefix", folder]
    subprocess.run([*install, *SAID["node"]], check=True, stdout=sys.stderr)
    modules, pages = folder / "node_modules", Path(__file__).with_name("pages")
    export("goemotions", "--web", folder / "site", "--vendor", modules)
    programs = modules / "@huggingface" / "transformers"
    shutil.copy(programs / "dist" / "transformers.min.js", folder)
    runtime = next(one for one in (programs / "node_modules", modules) if (one / "onnxruntime-web").is_dir())
    unused = shutil.ignore_patterns("*.map", "ort.*")
    shutil.copytree(runtime / "onnxruntime-web" / "dist", folder / "ort", ignore=unused)
    ready = for_prediction("goemotions")
    for name in ("same", "int8"):
        place = folder / name
        (place / "onnx").mkdir(parents=True)
        for file in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(Path(ready, file), place)
        config = json.loads(Path(ready, "config.json").read_text(encoding="utf-8"))
        write_json(place / "config.json", config | {"model_type": "bert"})  # the nearest one that it knows
        packed = (folder / "site" / "model.onnx.gz").read_bytes()
        graph = onnx.load_from_string(gzip.decompress(packed)) if name == "same" else onnx.load(Path(ready, MODEL))
        for output in [one for one in graph.graph.output if one.name != "logits"]:
            graph.graph.output.remove(output)
        del graph.graph.value_info[:]
        write = onnx.save if name == "same" else quantize_dynamic
        write(graph, place / "onnx" / "model.onnx")
        (folder / f"{name}.html").write_text((pages / "theirs.html").read_text().replace("NAME", name))
    shutil.rmtree(modules)


def measure(work: str, place: Path, given: dict[str, Any], pairs: int, threads: int) -> list[dict]:
    """The rows of a work of peers.yaml."""
    said = SAID["works"][work]
    sides = {name: Side(**side) for name, side in said["sides"].items()}
    for name, side in sides.items():
        sides[name] = side._replace(own=side.own | {"model": str(place / side.own.get("model", "model"))})
    if work == "browser":
        given |= {"web": str(made("web", make_pages)), "root": str(ROOT)}
    what = said["work"].format(len(given.get("rows") or given["texts"]))
    return compared(work, what, sides, given | said["given"], pairs, threads, **said["goal"])


def main(
    works: Annotated[list[str], typer.Argument(help=f"service {' '.join(SAID['works'])}; 25 minutes for all")],
    data_dir: Annotated[Path | None, typer.Option(help="folder with GoEmotions; default: packaged texts")] = None,
    rows: Annotated[int | None, typer.Option(help="texts at most; default: what takes some minutes")] = None,
    seconds: Annotated[float, typer.Option(help="of each server in each round")] = 5,
    pairs: Annotated[int | None, typer.Option(help="measurements of each side")] = None,
    threads: int = 2,
    output: Path = ROOT / "benchmarks" / "peers.json",
) -> None:
    found = {"works": {}, "not measured": {}, **recorded(output)}
    for work in works:
        FAILED.clear()
        said = {"rows": 2000, "pairs": 3, "tried": service.__doc__, **SAID["works"].get(work, {})}
        settings = {"rows": rows or said["rows"], "pairs": pairs or said["pairs"], "threads": threads}
        place, given = made("checkpoint", make_checkpoint), inputs_of(work, data_dir, settings["rows"])
        if work == "service":
            settings |= {"clients": CLIENTS, "seconds": seconds}
            measured = service(place, given["texts"], seconds, settings["pairs"], threads)
        else:
            measured = measure(work, place, given, settings["pairs"], threads)
        command = (
            f"python -m benchmarks.peers {work}" + f" --rows {rows}" * bool(rows) + " --data-dir DATA" * bool(data_dir)
        )
        record = {"command": command, "settings": settings, "machine": machine(threads), "rows": measured}
        found["works"][work] = record | {"tried": said["tried"]}
        kept = {name: why for name, why in found["not measured"].items() if not name.startswith(f"{work}: ")}
        found["not measured"] = kept | {f"{work}: {name}": why for name, why in FAILED.items()}
        write_json(output, found)
    for name, why in found["not measured"].items():
        print(f"not measured: {name} ({why})")


if __name__ == "__main__":
    typer.run(main)
