# SPDX-License-Identifier: Apache-2.0
"""Predictions and the start of the program in other dtypes, orders and sizes. `run_all.py` runs them."""

import csv
import itertools
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch
from datasets import ClassLabel, Dataset
from torch.utils.flop_counter import FlopCounterMode
from transformers import BertConfig, BertModel

from benchmarks.measuring import interleaved, ratio, result, spent
from benchmarks.texts import save_untrained, synthetic_texts
from hf_emotion import Predictor, load_dataset_for
from hf_emotion.runtime.base_models import load_base_tokenizer
from hf_emotion.tasks.targeted_sentiment import TASK
from hf_emotion.tasks.targeted_sentiment.predictor import TargetedPredictor
from hf_emotion.tasks.targeted_sentiment.rows import auxiliary_sentence, context_names, replace_targets


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
    dtype: str = "bfloat16",
    pairs: int = 3,
) -> list[dict]:
    """
    `Predictor` with all labels ranked: its share of the machine's matrix products in float32 and in another dtype, and the two beside
    each other. peers.py has the stock pipeline.
    """
    texts, source = synthetic_texts(rows), "synthetic texts"
    if data_dir is not None:
        texts = list(load_dataset_for("goemotions", data_dir)["train"]["text"])[:rows]
        source = "texts of goemotions"
    with tempfile.TemporaryDirectory() as name:
        folder = checkpoint or save_untrained(Path(name) / "model", base_model, "label-aware-bert")
        ours = {kind: Predictor(folder, device="cpu", dtype=kind) for kind in ("float32", dtype)}
        config, found, topic = ours[dtype].model.config, [], "many texts"
        work = f"{len(texts)} {source}, {config.model_type} over {config.num_hidden_layers} layers"
        ways = {kind: partial(predictor, texts, top_k=len(predictor.labels)) for kind, predictor in ours.items()}
        both = interleaved([ways[dtype], ways["float32"]], pairs, warm_up=1)
        found.append(ratio(topic, f"{work}: Predictor in {dtype} against float32", *both, at_least=1))
        for kind, goal in {"float32": 0.85, dtype: 0.7}.items():
            shares = share_of_peak(getattr(torch, kind), ways[kind], pairs)
            peak = f"{work}: operations per second to those of a matrix product, {kind}"
            found.append(result(topic, peak, shares, "×", at_least=goal))
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
