# SPDX-License-Identifier: Apache-2.0
"""Predictions and the start of the program in other dtypes, orders and sizes, with meaningless texts and untrained models. `run_all.py` runs them."""

import itertools
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pandas
import torch
import yaml
from datasets import ClassLabel, Dataset
from torch.utils.flop_counter import FlopCounterMode
from transformers import BertConfig, BertModel

from benchmarks.measuring import interleaved, ratio, recorded, result, seconds, shares_of_peak
from hf_emotion import Predictor, load_dataset_for
from hf_emotion.inference import load_predictor
from hf_emotion.io.files import write_json
from hf_emotion.runtime.base_models import load_base_tokenizer
from hf_emotion.serving.bulk import predict_file
from hf_emotion.tasks.sequence_classification import build_classifier
from hf_emotion.tasks.targeted_sentiment import TASK
from hf_emotion.tasks.targeted_sentiment.loading import auxiliary_sentence, context_names, replace_targets
from hf_emotion.tasks.targeted_sentiment.predictor import TargetedPredictor
from hf_emotion.taxonomies import GOEMOTIONS


SAID = yaml.safe_load(Path(__file__).with_name("texts.yaml").read_text(encoding="utf-8"))
LENGTHS, WORDS = dict(enumerate(SAID["lengths"], start=3)), SAID["words"].split()


def synthetic_texts(rows: int, seed: int = 0) -> list[str]:
    """Texts with the lengths of GoEmotions."""
    draw = random.Random(seed)
    lengths = draw.choices(list(LENGTHS), weights=LENGTHS.values(), k=rows)
    return [" ".join(draw.choices(WORDS, k=length - 2)) for length in lengths]


def save_untrained(folder: Path, base_model: str, model_type: str, contexts: dict | None = None, **config) -> Path:
    """Save a checkpoint with a new head, for emotions or (with `contexts`) for targeted sentiment, if it is not there."""
    if (folder / "config.json").is_file():
        return folder
    torch.manual_seed(0)
    tokenizer = load_base_tokenizer(base_model)
    names = GOEMOTIONS if contexts is None else ["none", "positive", "negative"]
    needed = (config, tokenizer, names, contexts is None, [1] * len(names))
    for one in (build_classifier(base_model, model_type, *needed, contexts=contexts), tokenizer):
        one.save_pretrained(folder)
    return folder


def many_texts(checkpoint=None, base_model: str = "minilm", data_dir=None, rows: int = 2000, pairs: int = 3) -> list:
    """`Predictor` with all labels ranked, in float32 and bfloat16: beside each other, and its share of the machine's matrix products."""
    texts, source = synthetic_texts(rows), "synthetic texts"
    if data_dir is not None:
        texts, source = load_dataset_for("goemotions", data_dir)["train"]["text"][:rows], "texts of goemotions"
    with tempfile.TemporaryDirectory() as name:
        folder = checkpoint or save_untrained(Path(name) / "model", base_model, "label-aware-bert")
        half, full = (Predictor(folder, device="cpu", dtype=dtype) for dtype in ("bfloat16", "float32"))
    topic, config = "many texts", full.model.config
    work = f"{len(texts)} {source}, {config.model_type} over {config.num_hidden_layers} layers"
    ways = [partial(predictor, texts, top_k=len(predictor.labels)) for predictor in (half, full)]
    both = interleaved(ways, pairs, warm_up=1)
    found = [ratio(topic, f"{work}: Predictor in bfloat16 against float32", *both, at_least=1)]
    for way, dtype, goal in zip(ways[::-1], ("float32", "bfloat16"), (0.85, 0.7), strict=True):
        with FlopCounterMode(display=False) as counter:
            way()
        shares = shares_of_peak(way, counter.get_total_flops(), pairs, getattr(torch, dtype))
        peak = f"{work}: operations per second to those of a matrix product, {dtype}"
        found.append(result(topic, peak, shares, "×", at_least=goal))
    return found


TARGETS, ASPECTS = ["LOCATION1", "LOCATION2"], ["general", "price", "safety", "transit-location"]


def synthetic_pairs(count: int) -> Dataset:
    """Sentences that name one of SentiHood's targets or both, with a row for each pair of target and aspect."""
    rows = []
    for number, text in enumerate(synthetic_texts(count)):
        named = ([0], [1], [0, 1])[number % 3]
        sentence = replace_targets(" ".join([text, *(TARGETS[target] for target in named)]))
        for target, (aspect, name) in itertools.product(named, enumerate(ASPECTS)):
            asked = auxiliary_sentence(TARGETS[target], name)
            own = {"text": sentence, "target": target, "aspect": aspect, "auxiliary": asked}
            rows.append(own | {"context_id": target * 4 + aspect})
    dataset = Dataset.from_list(rows[:count])
    return dataset.cast_column("target", ClassLabel(names=TARGETS)).cast_column("aspect", ClassLabel(names=ASPECTS))


def targets_and_aspects(
    targeted=None, base_model: str = "minilm", data_dir=None, rows: int = 512, pairs: int = 7
) -> list:
    """All pairs of sentences with `TargetedPredictor` against batches in the order of the rows: of one, of 24 (the paper's), of a sentence."""
    if targeted is None:
        data, source = synthetic_pairs(rows), "synthetic rows"
        with tempfile.TemporaryDirectory() as folder:
            save_untrained(Path(folder), base_model, "qacg-bert", TASK.contexts(data), auxiliary_sentence=True)
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

    ways = [("one row at a time", 1, 3), ("batches of 24 in row order", 24, 1.3)]
    ways += [(f"one batch per sentence ({aspects} aspects)", aspects, 1)]
    actions = [partial(predictor.of_rows, data), *(partial(in_order, size) for _, size, _ in ways)]
    expected, *others = [action() for action in actions]
    for (name, *_), other in zip(ways, others, strict=True):
        np.testing.assert_allclose(other, expected, atol=1e-4, err_msg=name)
    ours, *theirs = interleaved(actions, pairs, warm_up=0)
    topic, work = "targets and aspects", f"{len(data)} {source}: TargetedPredictor against"
    both = zip(ways, theirs, strict=True)
    return [ratio(topic, f"{work} {name}", ours, own, at_least=goal) for (name, _, goal), own in both]


def write_texts(path: Path, rows: int) -> Path:
    texts = synthetic_texts(min(rows, 10_000))
    numbered = [f"{texts[row % len(texts)]} {row}" for row in range(rows)]
    pandas.DataFrame({"id": range(rows), "text": numbered}).to_parquet(path)
    return path


def small_model(folder: Path) -> Path:
    """An untrained model of one small layer, with which files of a million rows take minutes."""
    tokenizer = load_base_tokenizer("minilm")
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
    BertModel(BertConfig(vocab_size=len(tokenizer), **sizes)).save_pretrained(folder / "base")
    tokenizer.save_pretrained(folder / "base")
    return save_untrained(folder / "checkpoint", str(folder / "base"), "label-aware-bert")


def predict_timed(checkpoint: str, source: str, output: str, record: str) -> None:
    """Predict a file; the record has the seconds of all, those of the forward passes alone, and the largest resident memory, MiB (Linux)."""
    predictor, passes = load_predictor(checkpoint), []
    name = "forward" if isinstance(predictor.model, torch.nn.Module) else "session"
    run = getattr(predictor.model, name)

    def timed(*args, **more):
        start = time.perf_counter()
        found = run(*args, **more)
        passes.append(time.perf_counter() - start)
        return found

    setattr(predictor.model, name, timed)
    whole = seconds(lambda: predict_file(predictor, source, output, progress=False))
    status = Path("/proc/self/status").read_text()  # getrusage has the peak of the process that started this one
    peak = int(re.search(r"VmHWM:\s*(\d+)", status)[1]) / 1024
    write_json(Path(record), {"whole": whole, "passes": sum(passes), "peak": peak})


def long_file(rows: Sequence[int] = (2000, 50_000), pairs: int = 1, checkpoint: str | None = None) -> list[dict]:
    """
    `predict --input` from Parquet to Parquet, of a short file and of a long one: peak memory, which must not grow with the rows, rows per second,
    and the time of all beside that of the forward passes, which has a goal for a model of `checkpoint`, such as goemotions; the default is small.
    """
    found: dict[int, list[dict]] = {count: [] for count in rows}
    with tempfile.TemporaryDirectory() as name:
        folder, model = Path(name), checkpoint or small_model(Path(name))
        for number, count in itertools.product(range(pairs), rows):
            source, output = write_texts(folder / f"{count}.parquet", count), folder / f"{count}-{number}.parquet"
            words = [model, source, output, folder / "record"]
            subprocess.run([sys.executable, "-m", "benchmarks.predicting", *words], check=True)
            assert pandas.read_parquet(output, columns=["predicted_labels"]).notna().all().iloc[0]
            found[count].append(recorded(folder / "record"))
    (short, first), (long, last) = found.items()
    topic, of = "a long file", f"predict --input, {long:,} rows" + (f", {checkpoint}" if checkpoint else "")
    memory, more = "peak memory of predict --input", [b["peak"] - a["peak"] for a, b in zip(first, last, strict=True)]
    ratios = [one["whole"] / one["passes"] for one in last]
    seconds_more = [one["whole"] - one["passes"] for one in last]
    return [
        result(topic, f"{memory}, {short:,} rows", [one["peak"] for one in first], "MiB"),
        result(topic, f"{memory}, {long:,} rows less {short:,} rows", more, "MiB", at_most=200),
        result(topic, f"rows per second of {of}", [long / one["whole"] for one in last], "1/s"),
        result(topic, f"{of}: all to the forward passes", ratios, "×", at_most=1.15 if checkpoint else None),
        result(topic, f"{of}: seconds beside the forward passes", seconds_more, "s"),
    ]


STARTS = {
    'python -c "import hf_emotion"': (["-c", "import hf_emotion"], 0.3),
    "hf-emotion --help": (["-m", "hf_emotion", "--help"], 0.6),
    'python -c ""': (["-c", ""], None),
}


def start_of_the_program(pairs: int = 11) -> list[dict]:
    """Seconds from start to end of two commands and of Python alone."""
    run = partial(subprocess.run, check=True, stdout=subprocess.DEVNULL)
    times = interleaved([partial(run, [sys.executable, *words]) for words, _ in STARTS.values()], pairs)
    goals = [(name, at_most) for name, (_, at_most) in STARTS.items()]
    topic = "start of the program"
    return [result(topic, name, own, "s", at_most=goal) for (name, goal), own in zip(goals, times, strict=True)]


if __name__ == "__main__":
    predict_timed(*sys.argv[1:])
