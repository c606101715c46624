# SPDX-License-Identifier: Apache-2.0
"""
A checkpoint in float32 and bfloat16 beside its exports: processor time on one thread (the runs alternate), figures on a corpus, size, and how
far a score of a text moves between the text alone and beside others.

    python -m benchmarks.exports goemotions --dataset goemotions --data-dir DATA --output benchmarks/exports.json
"""

import logging
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
import typer

from benchmarks.measuring import machine, put
from hf_emotion.inference import load_predictor
from hf_emotion.publishing.export import export_onnx
from hf_emotion.runs.evaluate import evaluate
from hf_emotion.runtime.onnx import MODEL
from hf_emotion.runtime.ready import with_weights
from hf_emotion.tasks.loading import load_split


ALONE, TIMED, ROUNDS = 300, 300, 7  # texts, texts, rounds


def main(model: str, dataset: str = "goemotions", data_dir: Path | None = None, output: Path | None = None) -> None:
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    texts = list(load_split(dataset, "test", data_dir)["text"])[:TIMED]
    found: dict = {"timed_texts": TIMED, "alone_texts": ALONE, "rounds": ROUNDS, **machine(1), "exports": {}}
    with tempfile.TemporaryDirectory() as temporary:
        folders = {name: Path(temporary, name) for name in ("float32", "int8", "uint8")}
        for name, folder in folders.items():
            export_onnx(model, folder, None if name == "float32" else name, texts[:64])  # type: ignore[arg-type]
        weights = with_weights(model)
        predictors = {"torch": load_predictor(weights), "bfloat16": load_predictor(weights, dtype="bfloat16")}
        predictors |= {name: load_predictor(folder) for name, folder in folders.items()}
        encoded = {name: predictor.encode(texts) for name, predictor in predictors.items()}
        seconds: dict[str, list[float]] = {name: [] for name in predictors}
        for _ in range(ROUNDS + 1):  # the first warms up
            for name, predictor in predictors.items():
                start = time.process_time()
                predictor.probabilities(encoded[name])
                seconds[name].append(time.process_time() - start)
        for name, predictor in predictors.items():
            together = predictor.probabilities(texts[:ALONE])
            alone = np.concatenate([predictor.probabilities([text]) for text in texts[:ALONE]])
            metrics = evaluate(predictor, dataset, "test", data_dir)["metrics"]
            both = {other: zip(seconds[name][1:], seconds[other][1:], strict=True) for other in ("torch", "float32")}
            ratios = {other: [b / a for a, b in pairs] for other, pairs in both.items()}
            took = statistics.median(seconds[name][1:])
            found["exports"][name] = {
                "seconds": took,
                "texts_per_second": TIMED / took,
                "times_as_fast_as": {other: statistics.median(values) for other, values in ratios.items()},
                "quartiles": {other: statistics.quantiles(values, n=4)[::2] for other, values in ratios.items()},
                "max_score_change": float(np.abs(together - alone).max()),
                "macro_f1": {decision: values["macro_f1"] for decision, values in metrics.items()},
                "megabytes": (folders[name] / MODEL).stat().st_size / 1e6 if name in folders else 0.0,
            }
    put(output, f"{model}, {dataset}", found)


if __name__ == "__main__":
    typer.run(main)
