# SPDX-License-Identifier: Apache-2.0
"""
Generators of replies side by side: how often judges hear the emotion that was asked for (Hits@k), how varied the replies are, and the
perplexity per token of the human replies. Each generator replies to the same contexts in every emotion, with several seeds; the standard
errors are those over the contexts, of the mean over the seeds.

    python benchmarks/replies.py modulated=RUN lora=RUN prompt=RUN --judge JUDGE --data-dir DATA --output benchmarks/replies.json
"""

import argparse
import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from measuring import machine, recorded

from hf_emotion import ReplyGenerator, load_dataset_for
from hf_emotion.io.files import write_json
from hf_emotion.tasks.emotional_response.evaluating import evaluate_replies, sample_rows


def measure(name: str, folder: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """The figures of one generator."""
    options = {"train_part": "generator"} if arguments.dataset == "empathetic_dialogues" else {}
    exact = ReplyGenerator(folder)
    rows = sample_rows(
        load_dataset_for(arguments.dataset, arguments.data_dir, **options)[arguments.split], arguments.perplexity_rows
    )
    emotions = [{exact.emotions[label]: arguments.intensity} for label in rows["labels"]]
    losses = exact.token_losses(rows["context"], rows["reply"], emotions, batch_size=16, progress=True)
    found: dict[str, Any] = {
        "intensity": arguments.intensity,
        "perplexity": math.exp(losses.mean()),
        "perplexity_se": math.exp(losses.mean()) * float(losses.std(ddof=1)) / math.sqrt(len(losses)),
        "perplexity_tokens": len(losses),
    }
    del exact
    generator = ReplyGenerator(folder, dtype=arguments.dtype)
    start, hits, shapes = time.monotonic(), {}, []
    for seed in range(arguments.samplings):
        result = evaluate_replies(
            generator,
            arguments.dataset,
            data_dir=arguments.data_dir,
            judges=arguments.judge,
            contexts=arguments.contexts,
            split=arguments.split,
            options=options,
            seed=seed,
            intensity=arguments.intensity,
        )
        own = result["rows"]["model"]
        shapes.append(
            {key: own[key] for key in ("ttr_1", "ttr_2", "repetition_rate", "average_length", "identical_share")}
        )
        for judge, by in own["judges"].items():
            hits.setdefault(Path(judge).name, []).append(by["all_emotions"])
        for judge, by in result["rows"]["human"]["judges"].items():
            found.setdefault("human", {})[Path(judge).name] = {k: by["gold"][k] for k in ("hits@1", "hits@3")}
        print(name, seed, shapes[-1], {judge: each[-1]["hits@1"] for judge, each in hits.items()}, flush=True)
    found["seconds"] = time.monotonic() - start
    found |= {key: float(np.mean([shape[key] for shape in shapes])) for key in shapes[0]}
    found["judges"] = {}
    for judge, each in hits.items():
        by_context = np.mean([one["hits@1_per_context"] for one in each], axis=0)
        found["judges"][judge] = {
            "hits@1": float(by_context.mean()),
            "hits@1_se": float(by_context.std(ddof=1) / math.sqrt(len(by_context))),
            "hits@1_of_samplings": [one["hits@1"] for one in each],
            "hits@3": float(np.mean([one["hits@3"] for one in each])),
        }
    return found


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("generators", nargs="+", help="NAME=RUN")
    parser.add_argument("--judge", action="append", default=[], help="classifier that tells the emotion of a reply")
    parser.add_argument("--dataset", default="empathetic_dialogues")
    parser.add_argument("--data-dir")
    parser.add_argument("--split", default="test")
    parser.add_argument("--intensity", type=float, default=1.0, help="weight of the emotion (default: %(default)s)")
    parser.add_argument("--contexts", type=int, default=60)
    parser.add_argument("--samplings", type=int, default=3)
    parser.add_argument("--perplexity-rows", type=int, default=512)
    parser.add_argument("--dtype", default="bfloat16", help="dtype of generation (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--output", type=Path, required=True, help="JSON file; entries of other names stay")
    arguments = parser.parse_args(argv)
    torch.set_num_threads(arguments.threads)
    record = recorded(arguments.output) or {"systems": {}}
    settings = ("dataset", "split", "contexts", "samplings", "perplexity_rows", "dtype")
    record["settings"] = {name: getattr(arguments, name) for name in settings}
    for given in arguments.generators:
        name, _, folder = given.partition("=")
        record["systems"][name] = measure(name, folder, arguments)
        record["machine"] = machine(arguments.threads)
        write_json(arguments.output, record)


if __name__ == "__main__":
    main()
