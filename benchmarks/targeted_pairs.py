# SPDX-License-Identifier: Apache-2.0
"""
All (target, aspect) pairs of the sentences of a corpus: `TargetedPredictor` against one row at a time, and against batches in
the order of the rows, padded to the longest row of the batch. One process, runs interleaved, after warm-up; median and
quartiles of the paired ratios.

    python benchmarks/targeted_pairs.py runs/sentihood_qacg_aux --data-dir DATA --rows 512
"""

import argparse
import statistics
import time

import numpy as np
import torch

from hf_emotion.data import context_names, load_dataset_for
from hf_emotion.inference.targeted import TargetedPredictor


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint")
    parser.add_argument("--dataset", default="sentihood")
    parser.add_argument("--data-dir")
    parser.add_argument("--rows", type=int, default=512, help="test rows, from the first")
    parser.add_argument("--batch-size", type=int, default=24, help="of the batches in row order (the paper's)")
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    predictor = TargetedPredictor(arguments.checkpoint)
    rows = load_dataset_for(arguments.dataset, arguments.data_dir)["test"]
    rows = rows.select(range(min(arguments.rows, len(rows))))
    _, aspects = context_names(rows)

    def in_order(batch_size: int) -> np.ndarray:
        config, parts = predictor.model.config, []
        for start in range(0, len(rows), batch_size):
            part = rows[start : start + batch_size]
            segments = [part["text"], part["auxiliary"]] if config.auxiliary_sentence else [part["text"]]
            inputs = predictor.tokenizer(*segments, padding=True, return_tensors="pt").to(predictor.model.device)
            if hasattr(config, "num_contexts"):
                inputs["context_ids"] = torch.tensor(part["context_id"], device=predictor.model.device)
            with torch.inference_mode():
                parts.append(predictor.model(**inputs).logits.softmax(-1).cpu().numpy())
        return np.concatenate(parts)

    ways = {
        "ours": lambda: predictor.row_probabilities(rows),
        "one row at a time": lambda: in_order(1),
        f"batches of {arguments.batch_size} in row order": lambda: in_order(arguments.batch_size),
        f"one batch per sentence ({len(aspects)} aspects)": lambda: in_order(len(aspects)),
    }
    expected = ways["ours"]()
    for name, way in ways.items():
        np.testing.assert_allclose(way(), expected, atol=1e-4, err_msg=name)
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(arguments.pairs):
        for name, way in ways.items():
            start = time.perf_counter()
            way()
            times[name].append(time.perf_counter() - start)
    print(f"{len(rows)} rows of {arguments.dataset}, {arguments.threads} threads, torch {torch.__version__}")
    for name, series in times.items():
        ratios = [theirs / ours for theirs, ours in zip(series, times["ours"], strict=True)]
        low, _, high = statistics.quantiles(ratios, n=4)
        print(
            f"{name}: {statistics.median(series):.2f} s, {statistics.median(ratios):.2f} times ours [{low:.2f}, {high:.2f}]"
        )


if __name__ == "__main__":
    main()
