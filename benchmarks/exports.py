# SPDX-License-Identifier: Apache-2.0
"""
A checkpoint in float32 and bfloat16 beside its exports: processor time on one thread (the runs alternate), figures on a corpus, size, and how
far a score of a text moves between the text alone and beside others.

    python -m benchmarks.exports goemotions --dataset goemotions --data-dir DATA --output benchmarks/exports.json
"""

import argparse
import logging
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from benchmarks.measuring import machine, recorded


ALONE, TIMED, ROUNDS = 300, 300, 7  # texts, texts, rounds


def main() -> None:
    from hf_emotion.inference import load_predictor
    from hf_emotion.io.files import write_json
    from hf_emotion.publishing.export import export_onnx
    from hf_emotion.runs.evaluate import evaluate
    from hf_emotion.runtime.onnx import MODEL
    from hf_emotion.runtime.ready import with_weights
    from hf_emotion.tasks.loading import load_split

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--dataset", default="goemotions")
    parser.add_argument("--split", default="test")
    parser.add_argument("--data-dir")
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    texts = list(load_split(arguments.dataset, arguments.split, arguments.data_dir)["text"])[:TIMED]
    found: dict = {"timed_texts": TIMED, "alone_texts": ALONE, "rounds": ROUNDS, **machine(1), "exports": {}}
    with tempfile.TemporaryDirectory() as temporary:
        folders = {name: Path(temporary, name) for name in ("float32", "int8", "uint8")}
        for name, folder in folders.items():
            export_onnx(arguments.model, folder, None if name == "float32" else name, texts[:64])  # type: ignore[arg-type]
        weights = with_weights(arguments.model)
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
            metrics = evaluate(predictor, arguments.dataset, arguments.split, arguments.data_dir)["metrics"]
            ratios = {
                other: [b / a for a, b in zip(seconds[name][1:], seconds[other][1:], strict=True)]
                for other in ("torch", "float32")
            }
            found["exports"][name] = {
                "seconds": statistics.median(seconds[name][1:]),
                "texts_per_second": TIMED / statistics.median(seconds[name][1:]),
                "times_as_fast_as": {other: statistics.median(values) for other, values in ratios.items()},
                "quartiles": {other: statistics.quantiles(values, n=4)[::2] for other, values in ratios.items()},
                "max_score_change": float(np.abs(together - alone).max()),
                "macro_f1": {decision: values["macro_f1"] for decision, values in metrics.items()},
                "megabytes": (folders[name] / MODEL).stat().st_size / 1e6 if name in folders else 0.0,
            }
            print(name, found["exports"][name], flush=True)
    if arguments.output:
        write_json(arguments.output, recorded(arguments.output) | {f"{arguments.model}, {arguments.dataset}": found})


if __name__ == "__main__":
    main()
