# SPDX-License-Identifier: Apache-2.0
"""
Ours beside tools that were built for speed, on the same checkpoint and the same texts. Each tool lives in an environment of its own, made when
it is first needed in build/peers, or in the folder HF_EMOTION_PEERS; so are the checkpoint, a stock BERT classifier over MiniLM with a new head,
and the pages for the browser. All Python environments share this one's torch. Both sides run in turn, each in its own process.

    python -m benchmarks.peers service --data-dir DATA --output benchmarks/peers.json

The rows go into peers.json; `python -m benchmarks.run_all --table` writes RESULTS.md from it.
"""

import argparse
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
from typing import Any, NamedTuple
from urllib.error import URLError

import psutil
import yaml

from benchmarks.measuring import machine, ratio, recorded, result
from hf_emotion.io.files import creating, write_json


ROOT = Path(__file__).resolve().parents[1]
PLACE = Path(os.environ.get("HF_EMOTION_PEERS", ROOT / "build" / "peers")).resolve()
PACKAGES = yaml.safe_load(Path(__file__).with_name("peers.yaml").read_text(encoding="utf-8"))
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
        (constraints := PLACE / "constraints.txt").write_text(PACKAGES["torch"] + "\n")
        venv.create(folder, clear=True, symlinks=True)
        site = next(folder.glob("lib/*/site-packages"))
        (site / "shared.pth").write_text(str(OUR_PACKAGES if name in PACKAGES["beside_ours"] else shared))
        pip = [sys.executable, "-m", "pip", "--python", python, *"install -q --no-compile -c".split(), constraints]
        subprocess.run([*pip, PACKAGES["torch"], *PACKAGES["python"][name]], check=True)
        (folder / "installed").touch()
    return str(python)


def versions(environment: str) -> str:
    """ "litserve 0.2.19, transformers 5.23.0"."""
    beside = environment in ("ours", *PACKAGES["beside_ours"])
    places = [*[OUR_PACKAGES] * beside, *(PLACE / environment).glob("lib/*/site-packages")]
    installed = importlib.metadata.distributions(path=[str(place) for place in places])
    # What the environment has itself comes last.
    found = {one.name.lower().replace("_", "-"): one.version for one in installed}
    tool = PACKAGES["python"].get(environment, ("",))[0].partition("==")[0].partition("[")[0]
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
    variables beside those that all sides have; of a peer the side of ours that it stands beside, and its own goal.
    """

    environment: str
    setup: str
    own: dict[str, Any] = {}
    ours: str | None = None
    goal: dict[str, float] = {}


@contextmanager
def running(side: Side, shared: dict[str, Any], threads: int) -> Iterator[Callable[[], list]]:
    """A process of a side. Yields what runs it once, and returns seconds, what `run` returned, and `loaded`."""
    variables = {"OMP_NUM_THREADS": str(threads), "HF_HUB_OFFLINE": "1", "WANDB_MODE": "disabled"}
    command = [python_of(side.environment), "side.py", "given.json"]
    with tempfile.TemporaryDirectory() as folder, suppress(BrokenPipeError):
        write_json(Path(folder, "given.json"), shared | side.own)
        Path(folder, "side.py").write_text(WORKER.replace("{setup}", side.setup))
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


def compared(work: str, what: str, sides: dict[str, Side], shared: dict, arguments: Any, **goal: float) -> list[dict]:
    """Rows of all peers that run."""
    rows, runs, first = [], {}, {}
    with ExitStack() as stack:
        for name, side in sides.items():
            with failing(name):
                run = stack.enter_context(running(side, shared, arguments.threads))
                _, *first[name] = run()  # which warms it up
                runs[name] = run
        times: dict[str, list[float]] = {name: [] for name in runs}
        for _, (name, run) in itertools.product(range(arguments.pairs), runs.items()):
            times[name].append(run()[0])
    for name, (environment, _, _, ours, own_goal) in sides.items():
        if name == ours or not {name, ours} <= runs.keys():
            continue
        (answers, loaded), (our_answers, our_loaded) = first[name], first[ours]
        found = [ratio(work, f"{what}: {ours}", times[ours], times[name], **goal, **own_goal)]
        if answers and our_answers:
            both = zip(itertools.chain(*answers), itertools.chain(*our_answers), strict=True)
            found[0]["largest_difference"] = max(abs(a - b) for a, b in both)
        if loaded:
            visit = f"bytes of a first visit: {ours}"
            found.append(ratio(work, visit, [our_loaded / 1e6], [loaded / 1e6], "MB", at_most=1))
        rows += [row | {"peer": name, "versions": versions(environment)} for row in found]
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


def read_texts(arguments: argparse.Namespace) -> list[str]:
    from hf_emotion import load_dataset_for

    if arguments.data_dir:
        return list(load_dataset_for("goemotions", arguments.data_dir)["train"]["text"])[: arguments.rows]
    parts = [part for name in ("everyday", "quickstart") for part in load_dataset_for(name).values()]
    return list(itertools.islice(itertools.cycle(text for part in parts for text in part["text"]), arguments.rows))


@dataclass
class Server:
    """A server whose command ends with its port, its environment, and what was measured of it in each round."""

    environment: str
    command: list[str | os.PathLike]
    route: str = "/predict"
    body: Callable[[str], dict] = lambda text: {"inputs": text}
    folder: Path | None = None  # where the command runs
    port: int = 0
    rounds: list[tuple[float, float, int]] = field(default_factory=list)
    seconds: float = 0.0  # from its start to its first answer
    process: psutil.Process | None = None

    def measure(self, texts: Sequence[str], clients: int, seconds: float) -> None:
        """Seconds for a request, the 95th percentile of milliseconds, and the failures of a round."""
        bodies = [json.dumps(self.body(text)).encode() for text in texts]
        latencies, failures, wall = asyncio.run(load(self.port, self.route, bodies, clients, seconds))
        slow = 1000 * statistics.quantiles(latencies, n=20)[-1]
        self.rounds.append((wall / len(latencies), slow, failures))


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
        asyncio.run(load(server.port, server.route, [json.dumps(server.body("a text")).encode()], 1, 0))
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


LITSERVE = """
import sys
import litserve, torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer
class Api(litserve.LitAPI):
    def setup(self, device):
        self.tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
        self.model = AutoModelForSequenceClassification.from_pretrained(sys.argv[1]).eval()
    def decode_request(self, request):
        return request["inputs"]
    def batch(self, inputs):
        return inputs
    def predict(self, texts):
        texts = [texts] if isinstance(texts, str) else texts
        with torch.inference_mode():
            scores = self.model(**self.tokenizer(texts, padding=True, truncation=True, return_tensors="pt")).logits.sigmoid()
        return scores.tolist()
    def unbatch(self, output):
        return output
    def encode_response(self, output):
        return {"scores": output}
if __name__ == "__main__":
    api = Api(max_batch_size=64, batch_timeout=0.002)
    litserve.LitServer(api, accelerator="cpu").run(port=int(sys.argv[2]), log_level="error", generate_client_file=False)
"""


def service(place: Path, arguments: argparse.Namespace) -> list[dict]:
    """One text a request. Tried: batches of up to 64, litserve's wait of 2 ms, infinity's two engines."""
    texts = read_texts(arguments)
    flags = "--device cpu --batch-size 64 --served-model-name model --no-model-warmup --model-id"
    infinity = [Path(python_of("infinity")).with_name("infinity_emb"), "v2", *flags.split(), ".", "--engine"]
    asked = {"route": "/classify", "body": lambda text: {"model": "model", "input": [text]}}
    (place / "lit.py").write_text(LITSERVE)
    ours, end = [sys.executable, "-m", "hf_emotion", "serve"], ["--log", "errors", "--port"]
    lit = [python_of("litserve"), place / "lit.py", place / "model"]
    servers = {
        "ours, torch": Server("ours", [*ours, place / "model", *end]),
        "ours, ONNX": Server("ours", [*ours, place / "exported", *end]),
        "infinity, torch": Server("infinity", [*infinity, "torch", "--port"], **asked, folder=place / "model"),
        "infinity, ONNX": Server("infinity", [*infinity, "optimum", "--port"], **asked, folder=place / "graph"),
        "litserve": Server("litserve", lit),
    }
    rows = []
    with ExitStack() as stack:
        for name, server in servers.items():
            with failing(name):
                stack.enter_context(started(server, arguments.threads))
                server.measure(texts, 8, 2)
        alive = {name: server for name, server in servers.items() if name not in FAILED}
        for clients in arguments.clients:
            for server in alive.values():
                server.rounds = []
            for _, server in itertools.product(range(arguments.pairs), alive.values()):
                server.measure(texts, clients, arguments.seconds)
            for name, peer in alive.items():
                if name.startswith("ours"):
                    request, slow, _ = zip(*peer.rounds, strict=True)
                    about, rate = {"peer": "none", "versions": versions("ours")}, [1 / one for one in request]
                    rows.append(
                        result("service", f"{clients} clients: requests per second of {name}", rate, "1/s") | about
                    )
                    rows.append(result("service", f"{clients} clients: 95th percentile of {name}", slow, "ms") | about)
                    continue
                own = servers["ours, ONNX" if "ONNX" in name else "ours, torch"]
                rounds = (zip(*server.rounds, strict=True) for server in (own, peer))
                (request, slow, _), (theirs, their_slow, failures) = rounds
                more = {"peer": name, "versions": versions(peer.environment), "failures": sum(failures)}
                rate, wait = (
                    f"{clients} clients: {what} beside {name}" for what in ("requests per second", "95th percentile")
                )
                rows.append(ratio("service", rate, request, theirs, at_least=1.2) | more)
                rows.append(ratio("service", wait, slow, their_slow, "ms", at_most=1) | more)
        for name, server in alive.items():
            family = [server.process, *server.process.children(recursive=True)]
            about = {"peer": "none", "versions": versions(server.environment)}
            memory = sum(one.memory_info().rss for one in family) / 2**20
            rows += [
                result("service", f"memory of {name}", [memory], "MiB") | about,
                result("service", f"start to first answer of {name}", [server.seconds], "s") | about,
            ]
    return rows


OURS = """
from hf_emotion import Predictor
predictor = Predictor(model, device="cpu", **options)
def run():
    return predictor.probabilities(texts)[:64].tolist()
"""
CROSS_ENCODER = """
import torch
from sentence_transformers import CrossEncoder
encoder = CrossEncoder(model, device="cpu", backend=backend, model_kwargs=options)
pairs = [(text, "") for text in texts]  # it reads pairs alone
def run():
    return encoder.predict(pairs, batch_size=32, activation_fn=torch.nn.Sigmoid(), show_progress_bar=False)[:64].tolist()
"""
PIPELINE = """
import torch
from transformers import pipeline
classify = pipeline("text-classification", model, device="cpu", dtype=getattr(torch, options.get("dtype", "float32")))
if compiled:
    classify.model = torch.compile(classify.model, dynamic=True)
order = sorted(range(len(texts)), key=lambda row: len(texts[row]))
labels = [classify.model.config.id2label[i] for i in range(classify.model.config.num_labels)]
def run():
    found = [None] * len(texts)
    for row, answer in zip(order, classify([texts[row] for row in order], batch_size=32, top_k=None, truncation=True)):
        found[row] = {one["label"]: one["score"] for one in answer}
    return [[one[label] for label in labels] for one in found[:64]]
"""


def bulk(place: Path, arguments: argparse.Namespace) -> list[dict]:
    """Many texts in batches of 32. Tried: texts sorted by length, torch.compile, bfloat16, ONNX, int8."""
    texts = read_texts(arguments)
    full, half, int8 = "ours, float32", "ours, bfloat16", "ours, int8"
    cross, onnx, bf16 = "sentence-transformers", "sentence-transformers-onnx", {"options": {"dtype": "bfloat16"}}
    graph = {"backend": "onnx", "options": {"file_name": "onnx/model.onnx"}}
    sides = {
        full: Side("ours", OURS),
        half: Side("ours", OURS, bf16),
        int8: Side("ours", OURS, {"model": str(place / "int8")}),
        "CrossEncoder": Side(cross, CROSS_ENCODER, {}, full),
        "CrossEncoder, bfloat16": Side(cross, CROSS_ENCODER, bf16, half),
        "CrossEncoder, ONNX": Side(onnx, CROSS_ENCODER, graph, full),
        "CrossEncoder, ONNX int8": Side(onnx, CROSS_ENCODER, graph | {"model": str(place / "quantized")}, int8),
        "pipeline, sorted": Side("ours", PIPELINE, {}, full),
        "pipeline, sorted, bfloat16": Side("ours", PIPELINE, bf16, half),
        "pipeline, sorted, torch.compile": Side("ours", PIPELINE, {"compiled": True}, full),
    }
    shared = {"texts": texts, "model": str(place / "model"), "backend": "torch", "options": {}, "compiled": False}
    return compared("bulk", f"{len(texts):,} texts", sides, shared, arguments, at_least=1.1)


BARE = """
import sys
import numpy, onnxruntime
from tokenizers import Tokenizer
ids = Tokenizer.from_file(sys.argv[1] + "/tokenizer.json").encode(sys.argv[2])
session = onnxruntime.InferenceSession(sys.argv[1] + "/onnx/model.onnx")
values = {"input_ids": ids.ids, "attention_mask": ids.attention_mask, "token_type_ids": ids.type_ids}
inputs = {one.name: numpy.array([values[one.name]], dtype=numpy.int64) for one in session.get_inputs()}
print((1 / (1 + numpy.exp(-session.run(None, inputs)[0]))).tolist())
"""
PYSENTIMIENTO = """
import sys
from pysentimiento.analyzer import AnalyzerForSequenceClassification
print(AnalyzerForSequenceClassification.from_model_name(sys.argv[1], task="emotion", lang="en").predict(sys.argv[2]))
"""
TWEETNLP = """
import sys
from tweetnlp import Classifier
print(Classifier(sys.argv[1]).predict(sys.argv[2]))
"""


COMMAND = """
import subprocess
def run():
    subprocess.run([sys.executable, *command], check=True, stdout=subprocess.DEVNULL)
"""


def start(place: Path, arguments: argparse.Namespace) -> list[dict]:
    """Seconds of a whole command that answers for one text, with cached bytecode."""
    text = "I am so happy that you are here today."
    whole, exported = [str(place / "model"), text], [str(place / "exported"), text]

    def side(environment: str, *command: str, ours: str | None = None, at_most: float = 1) -> Side:
        return Side(environment, COMMAND, {"command": command}, ours, {"at_most": at_most})

    predict = ("-m", "hf_emotion", "predict")
    sides = {
        "ours, checkpoint": side("ours", *predict, *whole),
        "ours, exported": side("ours", *predict, *exported),
        "bare onnxruntime": side("onnxruntime", "-c", BARE, *whole, ours="ours, exported", at_most=1.3),
        "pysentimiento": side("pysentimiento", "-c", PYSENTIMIENTO, *whole, ours="ours, checkpoint", at_most=0.5),
        "tweetnlp": side("tweetnlp", "-c", TWEETNLP, *whole, ours="ours, checkpoint", at_most=0.5),
    }
    return compared("start", "one text", sides, {}, arguments)


# One epoch over `rows`, (text, label) each, in batches of 32, without checkpoints, and without evaluation where that can be set.
OUR_TRAINER = """
from pathlib import Path
from datasets import ClassLabel, Dataset, DatasetDict, Features, Value
from hf_emotion import load_recipe
from hf_emotion.tasks import task_of_rows
from hf_emotion.training.seeds import fit_model
features = Features({"id": Value("string"), "text": Value("string"), "labels": ClassLabel(num_classes=28)})
whole = Dataset.from_list([{"id": str(i), "text": t, "labels": y} for i, (t, y) in enumerate(rows)], features=features)
splits = DatasetDict(train=whole, validation=whole.select(range(min(64, len(whole)))))
settings = ["num_train_epochs=1", "per_device_train_batch_size=32", "disable_tqdm=true", "use_cpu=true"]
recipe = load_recipe("goemotions/baseline", [f"base_model={model}", *settings])
def train(place):
    fit_model(task_of_rows(whole), recipe, 0, Path(place, "runs"), splits, False, recipe_file=Path(place, "recipe.yaml"))
"""
CROSS_ENCODER_TRAINER = """
from datasets import Dataset
from sentence_transformers import CrossEncoder
from sentence_transformers.cross_encoder import CrossEncoderTrainer, CrossEncoderTrainingArguments
from sentence_transformers.cross_encoder.losses import CrossEntropyLoss
pairs = Dataset.from_dict({"text": [t for t, _ in rows], "pair": [""] * len(rows), "label": [y for _, y in rows]})
def train(place):  # its losses read pairs of texts: the second one is empty
    encoder = CrossEncoder(model, num_labels=28, device="cpu", max_length=50)
    options = {"num_train_epochs": 1, "per_device_train_batch_size": 32, "use_cpu": True, "save_strategy": "no"}
    arguments = CrossEncoderTrainingArguments(place, **options, report_to="none", disable_tqdm=True)
    CrossEncoderTrainer(model=encoder, args=arguments, train_dataset=pairs, loss=CrossEntropyLoss(encoder)).train()
"""
SETFIT = """
from datasets import Dataset
from setfit import SetFitModel, Trainer, TrainingArguments
def train(place):
    options = {"batch_size": 32, "num_epochs": 1, "num_iterations": 1, "save_strategy": "no", "report_to": "none"}
    arguments = TrainingArguments(output_dir=place, **options, show_progress_bar=False)
    data = Dataset.from_dict({"text": [t for t, _ in rows], "label": [y for _, y in rows]})
    Trainer(model=SetFitModel.from_pretrained(model, device="cpu"), args=arguments, train_dataset=data).train()
"""
SIMPLETRANSFORMERS = """
import pandas
from simpletransformers.classification import ClassificationModel
def train(place):
    options = {"num_train_epochs": 1, "train_batch_size": 32, "max_seq_length": 50, "no_save": True, "silent": True,
        "use_multiprocessing": False, "overwrite_output_dir": True, "output_dir": place, "reprocess_input_data": True,
        "config": {"problem_type": "single_label_classification"}}
    classifier = ClassificationModel("bert", model, num_labels=28, use_cuda=False, args=options)
    classifier.train_model(pandas.DataFrame(rows, columns=["text", "labels"]))
"""
RUN_TRAINER = """
import tempfile
def run():
    with tempfile.TemporaryDirectory() as place:
        train(place)
"""


def training(place: Path, arguments: argparse.Namespace) -> list[dict]:
    """One epoch, the first label of each text alone. Tried: at most 50 tokens, no checkpoints, no evaluation, no progress bars."""
    from hf_emotion import load_dataset_for

    name, data_dir = ("goemotions", arguments.data_dir) if arguments.data_dir else ("everyday", None)
    part = load_dataset_for(name, data_dir)["train"]
    labelled = zip(part["text"], part["labels"], strict=True)
    rows = [(text, labels[0]) for text, labels in labelled if labels][: arguments.rows]
    sides = {
        "ours": Side("ours", OUR_TRAINER + RUN_TRAINER),
        "CrossEncoderTrainer": Side("sentence-transformers", CROSS_ENCODER_TRAINER + RUN_TRAINER, ours="ours"),
        "SetFit, two pairs for a text": Side("setfit", SETFIT + RUN_TRAINER, ours="ours"),
        "simpletransformers": Side("simpletransformers", SIMPLETRANSFORMERS + RUN_TRAINER, ours="ours"),
    }
    shared = {"model": str(place / "model"), "rows": rows}
    return compared("training", f"an epoch of {len(rows):,} texts", sides, shared, arguments, at_most=0.9)


OUR_PAIRS = """
from transformers import AutoModelForSequenceClassification, AutoTokenizer
from hf_emotion.tasks.targeted_sentiment.predictor import TargetedPredictor
labels = {"num_labels": 3, "problem_type": "single_label_classification"}
net = AutoModelForSequenceClassification.from_pretrained(model, ignore_mismatched_sizes=True, **labels)
aspects = ["price", "quality", "service", "location", "comfort", "speed"]
net.config.update({"aspects": aspects, "targets": None, "target_texts": None, "auxiliary_sentence": True})
predictor = TargetedPredictor(net, AutoTokenizer.from_pretrained(model), device="cpu")
def run():
    assert len(predictor.probabilities(texts)) == 6 * len(texts)
"""
OUR_TERMS = """
from transformers import AutoModelForTokenClassification, AutoTokenizer
from hf_emotion.tasks.aspect_extraction.predictor import AspectPredictor
tags = dict(enumerate(["O", *(f"{part}-{label}" for label in ("positive", "negative", "neutral") for part in "BI")]))
net = AutoModelForTokenClassification.from_pretrained(
    model, ignore_mismatched_sizes=True, id2label=tags, label2id={name: i for i, name in tags.items()})
predictor = AspectPredictor(net, AutoTokenizer.from_pretrained(model), device="cpu")
def run():
    assert len(predictor(texts)) == len(texts)
"""
# PyABSA reads aspects that stand in the text. It asks for a model of spaCy, which these two do not use.
PYABSA = """
import pathlib, spacy
from transformers import AutoModel, AutoTokenizer
from pyabsa import AspectPolarityClassification as Sentiment, AspectTermExtraction as Extraction
from pyabsa.framework.tokenizer_class.tokenizer_class import PretrainedTokenizer
spacy.blank("en").to_disk("blank")
tags, labels = ["B-ASP", "I-ASP", "O", "[CLS]", "[SEP]"], ["Negative", "Neutral", "Positive"]
def build(config, kind, tokenizer_of):
    own = dict(model=kind, pretrained_bert=model, spacy_model="blank", device="cpu", hidden_dim=384, embed_dim=384,
        output_dim=3, inputs_cols=getattr(kind, "inputs", []), model_name="bert", label_list=tags, num_labels=len(tags) + 1,
        index_to_label=dict(enumerate(labels)), label_to_index={name: i for i, name in enumerate(labels)},
        index_to_IOB_label=dict(enumerate(tags, 1)), IOB_label_to_index={name: i for i, name in enumerate(tags, 1)})
    for name, value in own.items():
        setattr(config, name, value)
    tokenizer = config.tokenizer = tokenizer_of(config)
    tokenizer.bos_token, tokenizer.eos_token = tokenizer.cls_token, tokenizer.sep_token
    config.sep_indices = tokenizer.sep_token_id
    return kind(AutoModel.from_pretrained(model), config).eval(), config, tokenizer
quiet = {"print_result": False, "eval_batch_size": 32}
"""
THEIR_PAIRS = """
config = Sentiment.APCConfigManager.get_apc_config_english()
classifier = Sentiment.SentimentClassifier(build(config, Sentiment.APCModelList.BERT_SPC, PretrainedTokenizer))
words = [text.replace("[", "").split() for text in texts]
marked = [" ".join([*own[:i], f"[B-ASP]{own[i]}[E-ASP]", *own[i + 1 :]]) for own in words for i in range(6)]
def run():
    assert len(classifier.predict(marked, ignore_error=False, merge_results=False, **quiet)) == 6 * len(texts)
"""
THEIR_TERMS = """
config = Extraction.ATEPCConfigManager.get_atepc_config_english()
tokenizer_of = lambda config: AutoTokenizer.from_pretrained(config.pretrained_bert)
extractor = Extraction.AspectExtractor(build(config, Extraction.ATEPCModelList.BERT_BASE_ATEPC, tokenizer_of))
def run():
    extractor.predict(texts, save_result=False, pred_sentiment=False, **quiet)  # which leaves out texts without terms
"""


def targeted(place: Path, arguments: argparse.Namespace) -> list[dict]:
    """
    Sentences with six aspects each, and terms found in sentences. Tried for PyABSA: its models with the least work beside the encoder, batches
    of 32, and terms without their sentiment, which ours give, too.
    """
    from hf_emotion import load_dataset_for

    reviews = dict.fromkeys(load_dataset_for("reviews")["train"]["text"])
    texts = [text for text in reviews if len(text.split()) >= 6][: arguments.rows]
    pairs, terms = "ours, six aspects", "ours, terms"
    sides = {
        pairs: Side("ours", OUR_PAIRS),
        terms: Side("ours", OUR_TERMS),
        "PyABSA, six aspects": Side("pyabsa", PYABSA + THEIR_PAIRS, ours=pairs),
        "PyABSA, terms": Side("pyabsa", PYABSA + THEIR_TERMS, ours=terms),
    }
    shared = {"texts": texts, "model": str(place / "model")}
    return compared("targeted", f"{len(texts):,} sentences", sides, shared, arguments, at_least=1.5)


# A browser with a page of pages/, whose `answer` gives all labels of texts with their scores, and a server that packs programs as hosts do.
BROWSER = """
sys.path.insert(0, root)
from playwright.sync_api import sync_playwright
from benchmarks.browser import Handler, opened
Handler.packed = (".html", ".js", ".mjs", ".json", ".wasm")
_, tab, address = opened(sync_playwright().start(), web)
for event in ("console", "pageerror"):
    tab.on(event, print)
tab.goto(f"{address}{page}.html")
tab.wait_for_function("Boolean(globalThis.answer)")
def run():
    global loaded
    found = tab.evaluate("(texts) => answer(texts)", texts)[:64]
    loaded = Handler.sent
    return [[score for _, score in sorted((one["label"], one["score"]) for one in labels)] for labels in found]
"""


def make_pages(folder: Path) -> None:
    """Our page of the ready model goemotions, and what transformers.js needs: its graph without the attention, and that with 8-bit products."""
    import gzip

    import onnx
    from onnxruntime.quantization import quantize_dynamic

    from hf_emotion.runtime.onnx import MODEL
    from hf_emotion.runtime.ready import for_prediction

    install = ["npm", "install", "--ignore-scripts", "--prefix", folder]
    subprocess.run([*install, *PACKAGES["node"]], check=True, stdout=sys.stderr)
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
    shutil.copy(pages / "ours.html", folder)
    shutil.rmtree(modules)


def browser(_: Path, arguments: argparse.Namespace) -> list[dict]:
    """
    The ready model goemotions in headless Chromium, one thread. Tried for transformers.js: our graph without
    the attention; 8-bit products, its default; texts sorted, in batches of 16.
    """
    texts = read_texts(arguments)
    pages = {"ours": "ours", "transformers.js, our graph": "same", "transformers.js, int8": "int8"}
    sides = {name: Side("playwright", BROWSER, {"page": page}, "ours") for name, page in pages.items()}
    shared = {"texts": texts, "web": str(made("web", make_pages)), "root": str(ROOT)}
    rows = compared("browser", f"{len(texts)} texts", sides, shared, arguments, at_least=1.1)
    return [row | {"versions": PACKAGES["node"][0]} for row in rows]


# Work -> what measures it, texts, pairs: about 25 minutes for all on two cores.
WORKS = {
    "service": (service, 2000, 3),
    "bulk": (bulk, 3000, 3),
    "start": (start, 1, 5),
    "targeted": (targeted, 500, 3),
    "training": (training, 800, 3),
    "browser": (browser, 150, 3),
}


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("works", nargs="+", choices=WORKS, metavar="WORK")
    parser.add_argument("--data-dir", help="folder with GoEmotions; default: packaged texts")
    parser.add_argument("--rows", type=int, help="texts at most; default: what takes some minutes")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 32, 128], help="of the service")
    parser.add_argument("--seconds", type=float, default=5, help="of each server in each round")
    parser.add_argument("--pairs", type=int, help="measurements of each side")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--output", type=Path, default=ROOT / "benchmarks" / "peers.json")
    arguments = parser.parse_args(argv)
    found = {"works": {}, "not measured": {}, **recorded(arguments.output)}
    for work in arguments.works:
        FAILED.clear()
        measure, rows, pairs = WORKS[work]
        sizes = {"rows": arguments.rows or rows, "pairs": arguments.pairs or pairs}
        own = argparse.Namespace(**vars(arguments) | sizes)
        rows = measure(made("checkpoint", make_checkpoint), own)
        settings = {name: getattr(own, name) for name in ("rows", "clients", "seconds", "pairs", "threads")}
        command = f"python -m benchmarks.peers {work}" + " --data-dir DATA" * bool(arguments.data_dir)
        record = {"command": command, "settings": settings, "machine": machine(arguments.threads), "rows": rows}
        found["works"][work] = record | {"tried": " ".join(measure.__doc__.split())}
        kept = {name: why for name, why in found["not measured"].items() if not name.startswith(f"{work}: ")}
        found["not measured"] = kept | {f"{work}: {name}": why for name, why in FAILED.items()}
        write_json(arguments.output, found)
    for name, why in found["not measured"].items():
        print(f"not measured: {name} ({why})")


if __name__ == "__main__":
    main()
