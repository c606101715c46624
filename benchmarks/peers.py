# SPDX-License-Identifier: Apache-2.0
"""
Ours beside tools that were built for speed, on the same checkpoint and the same texts. Each tool lives in an environment of its own, made when
it is first needed in build/peers, or in the folder HF_EMOTION_PEERS; so are the checkpoint, a stock BERT classifier over MiniLM with a new head,
and the pages for the browser. All Python environments share this one's torch. Both sides run in turn, each in its own process.

    python -m benchmarks.peers service --data-dir DATA --output benchmarks/peers.json

The rows go into peers.json; `python -m benchmarks.run_all --table` writes RESULTS.md from it.
"""

import argparse
import importlib.util
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from benchmarks.measuring import machine, ratio, recorded, spent
from hf_emotion.io.files import write_json


ROOT = Path(__file__).resolve().parents[1]
PLACE = Path(os.environ.get("HF_EMOTION_PEERS", ROOT / "build" / "peers")).resolve()
NODE_PACKAGES = ("@huggingface/transformers@4.3.2", "onnxruntime-web@1.30.0", "@huggingface/tokenizers@0.2.0")
TORCH = "torch==2.13.0"  # an exact pin also keeps pip from builds with CUDA packages
# Environment -> what pip installs there, the tool itself first.
ENVIRONMENTS = {
    "infinity": ("infinity-emb[server,torch,optimum]==0.0.78",),
    "litserve": ("litserve==0.2.19",),
    "sentence-transformers": ("sentence-transformers[train]==6.2.0",),
    "sentence-transformers-onnx": ("sentence-transformers[onnx]==5.1.2", "transformers<5"),  # optimum-onnx needs it
    "setfit": ("setfit==1.2.0", "transformers<5"),
    "simpletransformers": ("simpletransformers==0.70.8",),
    "pysentimiento": ("pysentimiento==0.7.3",),
    "tweetnlp": ("tweetnlp==0.4.5", "transformers<5"),
    "onnxruntime": ("onnxruntime==1.31.1",),
    "playwright": ("playwright==1.65.2",),
    "pyabsa": ("pyabsa==2.4.2", "transformers<5", "update_checker<1"),
}
# These run beside our versions of all else. The others need older ones, and share torch alone.
BESIDE_OURS = ("litserve", "sentence-transformers", "onnxruntime", "playwright")


def python_of(name: str) -> str:
    """The Python of an environment; it is made if it is not there. Raises CalledProcessError: pip failed."""
    if name == "ours":
        return sys.executable
    folder, shared = PLACE / name, PLACE / "shared"
    if not (folder / "installed").is_file():
        here = Path(importlib.util.find_spec("torch").origin).parents[1]
        shared.mkdir(parents=True, exist_ok=True)
        for part in (here / "torch", here / "torchgen", here / "functorch", *here.glob("torch-*.dist-info")):
            if part.exists() and not (shared / part.name).is_symlink():
                (shared / part.name).symlink_to(part)
        (constraints := PLACE / "constraints.txt").write_text(TORCH + "\n")
        venv.create(folder, clear=True, symlinks=True)
        site = next(folder.glob("lib/*/site-packages"))
        (site / "shared.pth").write_text(str(here if name in BESIDE_OURS else shared))
        python = folder / "bin" / "python"
        pip = [sys.executable, "-m", "pip", "--python", python, *"install -q --no-compile -c".split(), constraints]
        subprocess.run([*pip, TORCH, *ENVIRONMENTS[name]], check=True)
        (folder / "installed").touch()
    return str(folder / "bin" / "python")


VERSIONS = """
import importlib.metadata as metadata, sys
found = {one.name.lower(): one.version for one in reversed(list(metadata.distributions()))}
print(", ".join(f"{name} {found[name]}" for name in sys.argv[1:] if name in found))
"""


def versions(environment: str) -> str:
    """ "litserve 0.2.19, transformers 5.23.0"."""
    tool = ENVIRONMENTS.get(environment, ("",))[0].partition("==")[0].partition("[")[0]
    command = [python_of(environment), "-c", VERSIONS, *filter(None, dict.fromkeys((tool, "transformers")))]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


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


class Worker:
    """A side of a comparison: `setup` is Python that defines `run()`, which returns None or the first probabilities, and perhaps `loaded`, bytes."""

    def __init__(self, environment: str, setup: str, given: Path, threads: int):
        script = given.with_name(f"{len(list(given.parent.iterdir()))}.py")
        script.write_text(WORKER.replace("{setup}", setup))
        variables = {"OMP_NUM_THREADS": str(threads), "HF_HUB_OFFLINE": "1", "WANDB_MODE": "disabled"}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        command = [python_of(environment), script, given]
        self.process = subprocess.Popen(command, **pipes, env={**os.environ, **variables}, cwd=given.parent)

    def run(self) -> tuple[float, Any, int | None]:
        """Seconds, what `run` returned, and `loaded`."""
        print(file=self.process.stdin, flush=True)
        if not (line := self.process.stdout.readline()):
            raise RuntimeError(f"the process ended with {self.process.wait()}")
        return tuple(json.loads(line))

    def close(self) -> None:
        with suppress(OSError):
            self.process.stdin.close()
        self.process.wait()


FAILED: dict[str, str] = {}  # peer -> why it is not measured


@contextmanager
def failing(name: str) -> Iterator[None]:
    """What goes wrong with a peer is noted; it is left out from there on."""
    try:
        yield
    except (RuntimeError, OSError, EOFError, subprocess.CalledProcessError) as error:
        FAILED[name] = f"exit code {error.returncode}" if hasattr(error, "returncode") else str(error)


def compared(
    work: str,
    sides: dict[str, tuple[str, str]],
    against: dict[str, str],
    given: dict[str, Any],
    arguments: argparse.Namespace,
    **goal: float,
) -> list[dict]:
    """Rows of all peers that run, each against the side of ours that `against` names; `sides`: name -> environment, `setup`."""
    rows, workers, answers, loaded = [], {}, {}, {}
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        data = Path(name) / "given.json"
        write_json(data, given)
        for side, (environment, setup) in sides.items():
            with failing(side):
                worker = Worker(environment, setup, data, arguments.threads)
                stack.callback(worker.close)
                _, answers[side], loaded[side] = worker.run()  # which warms it up
                workers[side] = worker
        times: dict[str, list[float]] = {side: [] for side in workers}
        for _ in range(arguments.pairs):
            for side, worker in workers.items():
                times[side].append(worker.run()[0])
    for peer, ours in against.items():
        if peer in workers:
            row = ratio(work, f"{given['what']}: {ours}", times[ours], times[peer], **goal)
            if answers[peer] and answers[ours]:
                both = zip(itertools.chain(*answers[peer]), itertools.chain(*answers[ours]), strict=True)
                row["largest_difference"] = max(abs(a - b) for a, b in both)
            found = [row]
            if loaded[peer]:
                sizes = ([loaded[side] / 1e6] for side in (ours, peer))
                found.append(ratio(work, f"bytes of a first visit: {ours}", *sizes, "MB", at_most=1))
            rows += [one | {"peer": peer, "versions": versions(sides[peer][0])} for one in found]
    return rows


def made(name: str, make: Callable[[Path], object]) -> Path:
    """A folder beside the environments, which `make` fills if it is not there."""
    if not (place := PLACE / name).is_dir():
        shutil.rmtree(begun := PLACE / f"{name}.part", ignore_errors=True)
        begun.mkdir(parents=True)
        make(begun)
        begun.rename(place)
    return place


def export(checkpoint: str | Path, *options: str | Path) -> None:
    subprocess.run([sys.executable, "-m", "hf_emotion", "export", checkpoint, *options], check=True, stdout=sys.stderr)


def make_checkpoint(folder: Path) -> None:
    """A stock BERT classifier with GoEmotions' labels and a new head, in model/, its graph for onnxruntime in model/onnx/, and our exports."""
    import onnx
    import torch
    from onnxruntime.quantization import quantize_dynamic
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    from benchmarks.texts import save_untrained

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
    from benchmarks.servers import Server, started

    texts = read_texts(arguments)
    flags = "--device cpu --batch-size 64 --served-model-name model --no-model-warmup --model-id"
    infinity = [Path(python_of("infinity")).with_name("infinity_emb"), "v2", *flags.split(), "."]
    asked = {"route": "/classify", "body": lambda text: {"model": "model", "input": [text]}}
    torch, onnx = asked | {"folder": place / "model"}, asked | {"folder": place / "graph"}
    (place / "lit.py").write_text(LITSERVE)
    ours = [sys.executable, "-m", "hf_emotion", "serve"]
    servers = {  # name -> environment and server
        "ours, torch": ("ours", Server([*ours, place / "model", "--log", "errors", "--port"])),
        "ours, ONNX": ("ours", Server([*ours, place / "exported", "--log", "errors", "--port"])),
        "infinity, torch": ("infinity", Server([*infinity, "--engine", "torch", "--port"], **torch)),
        "infinity, ONNX": ("infinity", Server([*infinity, "--engine", "optimum", "--port"], **onnx)),
        "litserve": ("litserve", Server([python_of("litserve"), place / "lit.py", place / "model"])),
    }
    rows = []
    with ExitStack() as stack:
        for name, (_, server) in servers.items():
            with failing(name):
                stack.enter_context(started(server, arguments.threads))
                server.measure(texts, 8, 2)
        servers = {name: side for name, side in servers.items() if name not in FAILED}
        for clients in arguments.clients:
            for _, server in servers.values():
                server.per_request, server.slow, server.failures = [], [], 0
            for _ in range(arguments.pairs):
                for _, server in servers.values():
                    server.measure(texts, clients, arguments.seconds)
            for name, (environment, peer) in servers.items():
                if name.startswith("ours"):
                    continue
                own = servers["ours, ONNX" if "ONNX" in name else "ours, torch"][1]
                both = (
                    ratio("service", "requests per second", own.per_request, peer.per_request, at_least=1.2),
                    ratio("service", "95th percentile", own.slow, peer.slow, "ms", at_most=1),
                )
                more = {"peer": name, "versions": versions(environment), "failures": peer.failures}
                rows += [row | more | {"work": f"{clients} clients: {row['work']}"} for row in both]
    return rows


OURS = """
from hf_emotion import Predictor
predictor = Predictor({folder}, device="cpu", **{options})
def run():
    return predictor.probabilities(texts)[:64].tolist()
"""
CROSS_ENCODER = """
import torch
from sentence_transformers import CrossEncoder
encoder = CrossEncoder({folder}, device="cpu", backend={backend!r}, model_kwargs={options})
pairs = [(text, "") for text in texts]  # it reads pairs alone
def run():
    return encoder.predict(pairs, batch_size=32, activation_fn=torch.nn.Sigmoid(), show_progress_bar=False)[:64].tolist()
"""
PIPELINE = """
import torch
from transformers import pipeline
classify = pipeline("text-classification", model, device="cpu", dtype={dtype})
if {compiled}:
    classify.model = torch.compile(classify.model, dynamic=True)
order = sorted(range(len(texts)), key=lambda row: len(texts[row]))
labels = [classify.model.config.id2label[i] for i in range(classify.model.config.num_labels)]
def run():
    found = [None] * len(texts)
    for row, answer in zip(order, classify([texts[row] for row in order], batch_size=32, top_k=None, truncation=True)):
        found[row] = {{one["label"]: one["score"] for one in answer}}
    return [[one[label] for label in labels] for one in found[:64]]
"""


def bulk(place: Path, arguments: argparse.Namespace) -> list[dict]:
    """Many texts in batches of 32. Tried: texts sorted by length, torch.compile, bfloat16, ONNX, int8."""
    texts = read_texts(arguments)
    cross, onnx, bf16 = "sentence-transformers", "sentence-transformers-onnx", "{'dtype': 'bfloat16'}"
    graph = CROSS_ENCODER.format(folder="FOLDER", backend="onnx", options="{'file_name': 'onnx/model.onnx'}")
    sides = {
        "ours, float32": ("ours", OURS.format(folder="model", options="{}")),
        "ours, bfloat16": ("ours", OURS.format(folder="model", options=bf16)),
        "ours, int8": ("ours", OURS.format(folder="exported", options="{}")),
        "CrossEncoder": (cross, CROSS_ENCODER.format(folder="model", backend="torch", options="{}")),
        "CrossEncoder, bfloat16": (cross, CROSS_ENCODER.format(folder="model", backend="torch", options=bf16)),
        "CrossEncoder, ONNX": (onnx, graph.replace("FOLDER", "model")),
        "CrossEncoder, ONNX int8": (onnx, graph.replace("FOLDER", "quantized")),
        "pipeline, sorted": ("ours", PIPELINE.format(dtype="torch.float32", compiled=False)),
        "pipeline, sorted, bfloat16": ("ours", PIPELINE.format(dtype="torch.bfloat16", compiled=False)),
        "pipeline, sorted, torch.compile": ("ours", PIPELINE.format(dtype="torch.float32", compiled=True)),
    }
    kinds = ("bfloat16", "int8", "")  # each peer stands beside ours of the same kind
    against = {name: f"ours, {next(kind for kind in kinds if kind in name) or 'float32'}" for name in sides}
    against = {name: ours for name, ours in against.items() if not name.startswith("ours")}
    folders = {"model": str(place / "model"), "exported": str(place / "int8"), "quantized": str(place / "quantized")}
    given = {"texts": texts, **folders, "what": f"{len(texts):,} texts"}
    return compared("bulk", sides, against, given, arguments, at_least=1.1)


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


def start(place: Path, arguments: argparse.Namespace) -> list[dict]:
    """Seconds of a whole command that answers for one text, with cached bytecode."""
    text = "I am so happy that you are here today."
    whole, exported = [place / "model", text], [place / "exported", text]
    predict = ["-m", "hf_emotion", "predict"]
    sides = {  # name -> environment, command, the side of ours, the goal
        "ours, checkpoint": ("ours", [*predict, *whole], None, None),
        "ours, exported": ("ours", [*predict, *exported], None, None),
        "bare onnxruntime": ("onnxruntime", ["-c", BARE, *whole], "ours, exported", 1.3),
        "pysentimiento": ("pysentimiento", ["-c", PYSENTIMIENTO, *whole], "ours, checkpoint", 0.5),
        "tweetnlp": ("tweetnlp", ["-c", TWEETNLP, *whole], "ours, checkpoint", 0.5),
    }
    times: dict[str, list[float]] = {name: [] for name in sides}
    variables = {"OMP_NUM_THREADS": str(arguments.threads), "HF_HUB_OFFLINE": "1"}
    for number, (name, side) in itertools.product(range(1 + arguments.pairs), sides.items()):
        if name in FAILED:
            continue
        with failing(name):
            wall = spent([python_of(side[0]), *side[1]], **variables).wall
            times[name] += [wall] * (number > 0)
    return [
        ratio("start", f"one text: {ours}", times[ours], times[name], at_most=goal)
        | {"peer": name, "versions": versions(environment)}
        for name, (environment, _, ours, goal) in sides.items()
        if ours is not None and name not in FAILED
    ]


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
    rows = [(text, labels[0]) for text, labels in zip(part["text"], part["labels"], strict=True) if labels]
    rows = rows[: arguments.rows]
    sides = {
        "ours": ("ours", OUR_TRAINER),
        "CrossEncoderTrainer": ("sentence-transformers", CROSS_ENCODER_TRAINER),
        "SetFit, two pairs for a text": ("setfit", SETFIT),
        "simpletransformers": ("simpletransformers", SIMPLETRANSFORMERS),
    }
    sides = {name: (environment, code + RUN_TRAINER) for name, (environment, code) in sides.items()}
    given = {"model": str(place / "model"), "rows": rows, "what": f"an epoch of {len(rows):,} texts"}
    return compared("training", sides, dict.fromkeys([*sides][1:], "ours"), given, arguments, at_most=0.9)


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
THEIR_PAIRS = (
    PYABSA
    + """
config = Sentiment.APCConfigManager.get_apc_config_english()
classifier = Sentiment.SentimentClassifier(build(config, Sentiment.APCModelList.BERT_SPC, PretrainedTokenizer))
words = [text.replace("[", "").split() for text in texts]
marked = [" ".join([*own[:i], f"[B-ASP]{own[i]}[E-ASP]", *own[i + 1 :]]) for own in words for i in range(6)]
def run():
    assert len(classifier.predict(marked, ignore_error=False, merge_results=False, **quiet)) == 6 * len(texts)
"""
)
THEIR_TERMS = (
    PYABSA
    + """
config = Extraction.ATEPCConfigManager.get_atepc_config_english()
tokenizer_of = lambda config: AutoTokenizer.from_pretrained(config.pretrained_bert)
extractor = Extraction.AspectExtractor(build(config, Extraction.ATEPCModelList.BERT_BASE_ATEPC, tokenizer_of))
def run():
    extractor.predict(texts, save_result=False, pred_sentiment=False, **quiet)  # which leaves out texts without terms
"""
)


def targeted(place: Path, arguments: argparse.Namespace) -> list[dict]:
    """
    Sentences with six aspects each, and terms found in sentences. Tried for PyABSA: its models with the least work beside the encoder, batches
    of 32, and terms without their sentiment, which ours give, too.
    """
    from hf_emotion import load_dataset_for

    reviews = dict.fromkeys(load_dataset_for("reviews")["train"]["text"])
    texts = [text for text in reviews if len(text.split()) >= 6][: arguments.rows]
    given = {"texts": texts, "model": str(place / "model"), "what": f"{len(texts):,} sentences"}
    sides = {
        "ours, six aspects": ("ours", OUR_PAIRS),
        "ours, terms": ("ours", OUR_TERMS),
        "PyABSA, six aspects": ("pyabsa", THEIR_PAIRS),
        "PyABSA, terms": ("pyabsa", THEIR_TERMS),
    }
    against = {"PyABSA, six aspects": "ours, six aspects", "PyABSA, terms": "ours, terms"}
    return compared("targeted", sides, against, given, arguments, at_least=1.5)


# A browser with a page of pages/, whose `answer` gives all labels of texts with their scores, and a server that packs programs as hosts do.
BROWSER = """
import gzip, http.server, pathlib, shutil, threading
from playwright.sync_api import sync_playwright
loaded = 0
KINDS = {".html": "text/html", ".js": "text/javascript", ".mjs": "text/javascript", ".json": "application/json", ".wasm": "application/wasm"}
class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass
    def do_GET(self):
        global loaded
        file = pathlib.Path(web, self.path.lstrip("/").partition("?")[0])
        content = file.read_bytes() if file.is_file() else b""
        self.send_response(200 if file.is_file() else 404)
        if kind := KINDS.get(file.suffix):
            content = gzip.compress(content)
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Type", kind or "application/octet-stream")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
        loaded += len(content)
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
browser = sync_playwright().start().chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
tab = browser.new_page()
tab.on("console", lambda message: print(message.text))
tab.on("pageerror", lambda error: print(error))
tab.set_default_timeout(300_000)
tab.goto(f"http://127.0.0.1:{server.server_port}/PAGE.html")
tab.wait_for_function("Boolean(globalThis.answer)")
def run():
    found = tab.evaluate("(texts) => answer(texts)", texts)[:64]
    return [[score for _, score in sorted((one["label"], one["score"]) for one in labels)] for labels in found]
"""


def make_pages(folder: Path) -> None:
    """Our page of the ready model goemotions, and what transformers.js needs: its graph without the attention, and that with 8-bit products."""
    import gzip

    import onnx
    from onnxruntime.quantization import quantize_dynamic

    from hf_emotion.runtime.onnx import MODEL
    from hf_emotion.runtime.ready import for_prediction

    subprocess.run(
        ["npm", "install", "--ignore-scripts", "--prefix", folder, *NODE_PACKAGES], check=True, stdout=sys.stderr
    )
    modules, pages = folder / "node_modules", Path(__file__).with_name("pages")
    export("goemotions", "--web", folder / "site", "--vendor", modules)
    programs = modules / "@huggingface" / "transformers"
    shutil.copy(programs / "dist" / "transformers.min.js", folder)
    runtime = next(one for one in (programs / "node_modules", modules) if (one / "onnxruntime-web").is_dir())
    shutil.copytree(
        runtime / "onnxruntime-web" / "dist", folder / "ort", ignore=shutil.ignore_patterns("*.map", "ort.*")
    )
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
    names = {"ours": "ours", "transformers.js, our graph": "same", "transformers.js, int8": "int8"}
    sides = {name: ("playwright", BROWSER.replace("PAGE", page)) for name, page in names.items()}
    given = {"texts": texts, "web": str(made("web", make_pages)), "what": f"{len(texts)} texts"}
    rows = compared("browser", sides, dict.fromkeys([*sides][1:], "ours"), given, arguments, at_least=1.1)
    return [row | {"versions": NODE_PACKAGES[0]} for row in rows]


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
        own = argparse.Namespace(
            **vars(arguments) | {"rows": arguments.rows or rows, "pairs": arguments.pairs or pairs}
        )
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
