# SPDX-License-Identifier: Apache-2.0
"""
Measures how well a classifier reads long texts: documents made of several labelled rows of a corpus, read in windows, and cut.

    python -m benchmarks.study long-texts RUN --data-dir DATA --output long_texts.json
"""

import time
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset
from hf_emotion.modeling.text_processing import usable_positions

from hf_emotion import metrics
from hf_emotion.data.splits import label_names, multi_hot
from hf_emotion.inference import load_predictor
from hf_emotion.metrics.multi_label import tune_thresholds
from hf_emotion.runtime.loading import read_config
from hf_emotion.tasks.base import Table
from hf_emotion.tasks.loading import load_split


FEWEST, MOST = 5, 40  # number of rows in a document
# Way of reading -> arguments of the predictor. Default length: as in training. 512 tokens, or the model's positions if fewer.
WAYS: dict[str, dict[str, Any]] = {
    "windows": {},
    "windows, maximum": {"aggregation_strategy": "max"},
    "windows of 512": {"max_length": 512},
    "cut": {"max_windows": 1},
    "cut at 512": {"max_length": 512, "max_windows": 1},
}


def documents(rows: Dataset, count: int, seed: int) -> tuple[list[str], np.ndarray]:
    """
    Make `count` documents of 5 to 40 rows (no row twice in one), and (count, C) bool: the labels that at least one row of
    each has.
    """
    generator = np.random.default_rng(seed)
    gold = multi_hot(rows["labels"], len(label_names(rows))).astype(bool)
    texts, found, labels = rows["text"], [], []
    for _ in range(count):
        chosen = generator.choice(len(texts), generator.integers(FEWEST, MOST + 1), replace=False)
        found.append(" ".join(texts[int(row)] for row in chosen))
        labels.append(gold[chosen].any(axis=0))
    return found, np.array(labels)


def measure_long_texts(
    checkpoint: str | Path,
    dataset: str = "goemotions",
    data_dir: str | Path | None = None,
    count: int = 200,
    seed: int = 0,
) -> dict[str, Any]:
    """
    Measure a multi-label classifier on `count` documents made of the test part of a corpus. For each way of reading,
    thresholds are tuned on as many documents made of the validation part; "macro_f1_stored" is at the model's own thresholds.

    Returns:
        {"documents", "tokens": (fewest, mean, most), "ways": {way: {"macro_f1", "micro_f1", "macro_average_precision",
        "macro_f1_stored", "truncated", "seconds_per_1000_tokens"}}}; "truncated": share of the documents that are not read whole.

    Raises:
        ValueError: the model or the corpus is of another kind.
    """
    parts = {split: load_split(dataset, split, data_dir) for split in ("validation", "test")}
    texts, gold = {}, {}
    for number, (split, rows) in enumerate(parts.items()):
        texts[split], gold[split] = documents(rows, count, seed + number)
    ways, positions = {}, usable_positions(read_config(checkpoint))
    for way, arguments in WAYS.items():
        at_once = {name: min(value, positions) for name, value in arguments.items() if name == "max_length"}
        predictor = load_predictor(checkpoint, **{**arguments, **at_once})
        if not getattr(predictor, "multi_label", False) or predictor.labels != label_names(parts["test"]):
            raise ValueError(
                f"{checkpoint} has other labels than {dataset}: long texts are made of the model's own corpus."
            )
        tuned = tune_thresholds(
            gold["validation"].astype(int), predictor.probabilities(texts["validation"], progress=True)
        )
        start = time.perf_counter()
        encoded = predictor.encode(texts["test"])
        probabilities = predictor.probabilities(encoded)
        seconds = time.perf_counter() - start
        counted = encoded.inputs.get("pooling_mask", encoded.inputs["input_ids"])
        read = sum(sum(map(bool, row)) if "pooling_mask" in encoded.inputs else len(row) for row in counted)
        figures = metrics.goemotions(gold["test"].astype(int), probabilities, tuned, predictor.labels)
        own = metrics.goemotions(gold["test"].astype(int), probabilities, list(predictor.thresholds), predictor.labels)
        ways[way] = {
            "macro_f1_stored": own["macro_f1"],
            **{name: figures[name] for name in ("macro_f1", "micro_f1", "macro_average_precision")},
            "truncated": float(encoded.unread.truncated.mean()),
            "seconds_per_1000_tokens": 1000 * seconds / read,
        }
    lengths = [len(ids) for ids in predictor.tokenizer(texts["test"], verbose=False)["input_ids"]]
    return {"documents": count, "tokens": [min(lengths), float(np.mean(lengths)), max(lengths)], "ways": ways}


def table(result: dict[str, Any]) -> Table:
    """A row for each way of reading."""
    header = [
        "read",
        "macro-F1",
        "micro-F1",
        "average precision",
        "macro-F1, own thresholds",
        "not read whole",
        "s per 1,000 tokens",
    ]
    rows = [
        [
            way,
            *(f"{found[name]:.3f}" for name in ("macro_f1", "micro_f1", "macro_average_precision", "macro_f1_stored")),
            f"{found['truncated']:.0%}",
            f"{found['seconds_per_1000_tokens']:.3f}",
        ]
        for way, found in result["ways"].items()
    ]
    return Table(header, rows)
