# SPDX-License-Identifier: Apache-2.0
"""Predictions and the start of the program in other dtypes, orders and sizes. `run_all.py` runs them."""

import contextlib
import csv
import itertools
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from datasets import ClassLabel, Dataset
from measuring import Spent, interleaved, ratio, result, spent
from texts import save_untrained, synthetic_texts
from torch.utils.flop_counter import FlopCounterMode
from transformers import BertConfig, BertModel

from hf_emotion import Predictor, load_dataset_for
from hf_emotion.publishing.export import export_onnx
from hf_emotion.runtime.base_models import load_base_tokenizer
from hf_emotion.tasks.targeted_sentiment import TASK
from hf_emotion.tasks.targeted_sentiment.predictor import TargetedPredictor
from hf_emotion.tasks.targeted_sentiment.rows import auxiliary_sentence, context_names, replace_targets


@contextlib.contextmanager
def model_of(checkpoint: str | None, base_model: str, exported: bool = False) -> Iterator[tuple[str, str]]:
    """A checkpoint (default: an untrained label-aware model over the base model) and, on request, the folder it is exported to."""
    with tempfile.TemporaryDirectory() as name:
        folder = checkpoint or str(save_untrained(Path(name) / "model", base_model, "label-aware-bert"))
        if exported:
            command = [sys.executable, "-m", "hf_emotion", "export", folder, "--output", f"{name}/exported"]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        yield folder, f"{name}/exported"


def share_of_peak(dtype: torch.dtype, predict: Callable[[], object], pairs: int) -> list[float]:
    """Operations per second of the predictions (matrix products and attention), to those of one large matrix product."""
    edge = 2048
    with FlopCounterMode(display=False) as counter:
        predict()
    left, right = (torch.randn(edge, edge).to(dtype) for _ in range(2))
    both = interleaved([predict, lambda: left @ right], pairs, warm_up=1)
    return [counter.get_total_flops() / whole / (2 * edge**3 / product) for whole, product in zip(*both, strict=True)]


def many_texts(
    checkpoint: str | None = None,
    base_model: str = "minilm",
    data_dir=None,
    rows: int = 2000,
    dtype: str | None = None,
    onnx: bool = True,
    pairs: int = 3,
) -> list[dict]:
    """
    `Predictor` with all labels ranked: its share of the machine's matrix products; half precision and int8 against float32, with the
    loss of macro-F1 of a given checkpoint and corpus. (Against the stock pipeline: peers.py.)
    """
    texts, source = synthetic_texts(rows), "synthetic texts"
    if data_dir is not None:
        texts = list(load_dataset_for("goemotions", data_dir)["train"]["text"])[:rows]
        source = "texts of goemotions"
    found, topic = [], "many texts"
    with model_of(checkpoint, base_model) as (folder, exported):
        predictor = Predictor(folder, device="cpu")
        labels, config = len(predictor.labels), predictor.model.config
        work = f"{len(texts)} {source}, {config.model_type} over {config.num_hidden_layers} layers"

        def compare(ours, theirs, what: str, at_least: float) -> None:
            both = interleaved([lambda: ours(texts, top_k=labels), theirs], pairs, warm_up=1)
            found.append(ratio(topic, f"{work}: {what}", *both, at_least=at_least))

        def plain() -> object:
            return predictor(texts, top_k=labels)

        peak = f"{work}: operations per second to those of a matrix product"
        found.append(result(topic, f"{peak}, float32", share_of_peak(torch.float32, plain, pairs), "×", at_least=0.85))
        if dtype is not None:
            half = Predictor(folder, device="cpu", dtype=dtype)
            compare(half, plain, f"Predictor in {dtype} against float32", 1)
            shares = share_of_peak(getattr(torch, dtype), lambda: half(texts, top_k=labels), pairs)
            found.append(result(topic, f"{peak}, {dtype}", shares, "×", at_least=0.7))
        if onnx:
            measured = None not in (checkpoint, data_dir)
            corpus = {"dataset": "goemotions", "data_dir": data_dir} if measured else {"texts": texts[:1000]}
            report = export_onnx(folder, exported, quantize="int8", **corpus)
            compare(Predictor(exported), plain, "ONNX int8 against fp32", 2)
            for name, metric in report.get("metrics", {}).items():
                if name.endswith("/macro_f1"):
                    lost = f"{name} lost with int8 on the test part of goemotions (fp32: {metric['torch']:.4f})"
                    found.append(result(topic, lost, [metric["torch"] - metric["int8"]], "points", at_most=0.005))
    return found


TARGETS = ["LOCATION1", "LOCATION2"]
ASPECTS = ["general", "price", "safety", "transit-location"]


def synthetic_pairs(count: int) -> Dataset:
    """Sentences that name one of SentiHood's targets or both, with a row for each pair of target and aspect."""
    rows = []
    for number, text in enumerate(synthetic_texts(count)):
        named = ([0], [1], [0, 1])[number % 3]
        sentence = replace_targets(" ".join([text, *(TARGETS[target] for target in named)]))
        for target, (aspect, name) in itertools.product(named, enumerate(ASPECTS)):
            asked = auxiliary_sentence(TARGETS[target], name)
            own = {"text": sentence, "target": target, "aspect": aspect}
            rows.append({**own, "auxiliary": asked, "context_id": target * 4 + aspect})
    dataset = Dataset.from_list(rows[:count])
    return dataset.cast_column("target", ClassLabel(names=TARGETS)).cast_column("aspect", ClassLabel(names=ASPECTS))


def targets_and_aspects(
    targeted: str | None = None, base_model: str = "minilm", data_dir=None, rows: int = 512, pairs: int = 7
) -> list[dict]:
    """
    All (target, aspect) pairs of sentences: `TargetedPredictor` against one row at a time, batches of 24 (the paper's) in the order of
    the rows, and one batch for each sentence. Default: an untrained QACG-BERT and synthetic sentences.
    """
    if targeted is None:
        data, source = synthetic_pairs(rows), "synthetic rows"
        with tempfile.TemporaryDirectory() as folder:
            save_untrained(folder, base_model, "qacg-bert", TASK.contexts(data), auxiliary_sentence=True)
            predictor = TargetedPredictor(folder)
    else:
        data, source = load_dataset_for("sentihood", data_dir)["test"], "test rows of sentihood"
        data, predictor = data.select(range(min(rows, len(data)))), TargetedPredictor(targeted)
    aspects = len(context_names(data)[1])

    def in_order(batch_size: int) -> np.ndarray:
        config, parts = predictor.model.config, []
        for start in range(0, len(data), batch_size):
            part = data[start : start + batch_size]
            segments = [part["text"], part["auxiliary"]] if config.auxiliary_sentence else [part["text"]]
            inputs = predictor.tokenizer(*segments, padding=True, return_tensors="pt").to(predictor.model.device)
            if hasattr(config, "num_contexts"):
                inputs["context_ids"] = torch.tensor(part["context_id"], device=predictor.model.device)
            with torch.inference_mode():
                parts.append(predictor.model(**inputs).logits.softmax(-1).cpu().numpy())
        return np.concatenate(parts)

    ways = {
        "one row at a time": (1, 3),
        "batches of 24 in row order": (24, 1.3),
        f"one batch per sentence ({aspects} aspects)": (aspects, 1),
    }
    actions = [lambda: predictor.of_rows(data), *(lambda size=size: in_order(size) for size, _ in ways.values())]
    expected = actions[0]()
    for name, action in zip(ways, actions[1:], strict=True):
        np.testing.assert_allclose(action(), expected, atol=1e-4, err_msg=name)
    ours, *others = interleaved(actions, pairs, warm_up=0)
    work = f"{len(data)} {source}: TargetedPredictor against"
    return [
        ratio("targets and aspects", f"{work} {name}", ours, series, at_least=at_least)
        for (name, (_, at_least)), series in zip(ways.items(), others, strict=True)
    ]


def write_texts(path: Path, rows: int) -> Path:
    texts = synthetic_texts(min(rows, 10_000))
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "text"])
        writer.writerows([row, f"{texts[row % len(texts)]} {row}"] for row in range(rows))
    return path


def small_model(folder: Path, tokenizer_of: str = "minilm") -> Path:
    """An untrained model of one small layer, with which files of a million rows take minutes."""
    tokenizer = load_base_tokenizer(tokenizer_of)
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
    BertModel(BertConfig(vocab_size=len(tokenizer), **sizes)).save_pretrained(folder / "base")
    tokenizer.save_pretrained(folder / "base")
    return save_untrained(folder / "checkpoint", str(folder / "base"), "label-aware-bert")


def long_file(rows: Sequence[int] = (2000, 50_000), pairs: int = 1) -> list[dict]:
    """Peak memory of `hf-emotion predict --input` on a short and on a long file: it must not grow with the rows."""
    peaks: dict[int, list[float]] = {count: [] for count in rows}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        command = [sys.executable, "-m", "hf_emotion", "predict", small_model(folder), "--input"]
        files = {count: write_texts(folder / f"{count}.csv", count) for count in rows}
        for number, (count, source) in itertools.product(range(pairs), files.items()):
            output = folder / f"{count}-{number}.jsonl"
            peaks[count].append(spent([*command, source, "--output", output]).memory)
            with output.open(encoding="utf-8") as lines:
                assert sum(1 for _ in lines) == count
    short, long = rows
    more = [b - a for a, b in zip(*peaks.values(), strict=True)]
    work, topic = "peak memory of predict --input,", "a long file"
    return [
        result(topic, f"{work} {short:,} rows", peaks[short], "MiB"),
        result(topic, f"{work} {long:,} rows less {short:,} rows", more, "MiB", at_most=200),
    ]


STARTS = {
    'python -c "import hf_emotion"': (["-c", "import hf_emotion"], 0.3),
    "hf-emotion --help": (["-m", "hf_emotion", "--help"], 0.6),
    'python -c ""': (["-c", ""], None),
}


def start_of_the_program(pairs: int = 11) -> list[dict]:
    """Seconds from start to end of two commands and of Python alone."""
    actions = [
        lambda words=words: subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL)
        for words, _ in STARTS.values()
    ]
    return [
        result("start of the program", name, series, "s", at_most=at_most)
        for (name, (_, at_most)), series in zip(STARTS.items(), interleaved(actions, pairs), strict=True)
    ]


TEXT = "I am so happy that you are here today."
# The least that an answer with torch needs. The checkpoint's own code replaces `hf_emotion.modeling`.
FLOOR = """
import sys
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer
checkpoint, text = sys.argv[1:]
model = AutoModelForSequenceClassification.from_pretrained(checkpoint, trust_remote_code=True).eval()
tokenizer = AutoTokenizer.from_pretrained(checkpoint)
with torch.inference_mode():
    print(model(**tokenizer(text, return_tensors="pt")).logits.sigmoid().tolist())
"""


def first_answer(checkpoint: str | None = None, base_model: str = "minilm", pairs: int = 7) -> list[dict]:
    """
    Processor seconds and memory of `hf-emotion predict MODEL TEXT` for a checkpoint and its exported folder, against a program that
    only imports torch, loads the checkpoint and runs it; each in its own process, with cached bytecode.
    """
    with model_of(checkpoint, base_model, exported=True) as (folder, exported):
        sides = {
            "the program": ["-c", FLOOR, folder, TEXT],
            "the checkpoint": ["-m", "hf_emotion", "predict", folder, TEXT],
            "the exported folder": ["-m", "hf_emotion", "predict", exported, TEXT],
        }
        runs: dict[str, list[Spent]] = {name: [] for name in sides}
        for _ in range(1 + pairs):  # the first of each writes bytecode
            for name, command in sides.items():
                runs[name].append(spent([sys.executable, *command], OMP_NUM_THREADS=str(torch.get_num_threads())))
    runs = {name: series[1:] for name, series in runs.items()}
    processor = {name: [run.processor for run in series] for name, series in runs.items()}
    rows, topic = [], "first answer"
    for name, at_most in (("the checkpoint", 1.05), ("the exported folder", 0.3)):
        work = f"processor time of predict with {name}, to that of torch and the model alone"
        rows.append(ratio(topic, work, processor[name], processor["the program"], at_most=at_most))
    wall = [run.wall for run in runs["the exported folder"]]
    rows.append(result(topic, "predict with the exported folder, wall time", wall, "s", at_most=1.5))
    for name, series in runs.items():
        rows.append(result(topic, f"memory of {name}", [run.memory for run in series], "MiB"))
    return rows
