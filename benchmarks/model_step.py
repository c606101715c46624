# SPDX-License-Identifier: Apache-2.0
"""
Forward pass and train step (with AdamW) of our models against the stock BERT (RoBERTa) classifier: one process, runs interleaved
(A B A B ...), after warm-up; median and quartiles of the paired ratios.

    python benchmarks/model_step.py --model qacg-bert --size base --shape 8x64 --shape 4x128
"""

import argparse
import json
import platform
import resource
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import hf_emotion.modeling  # noqa: F401 - registers the Auto classes
import torch
import transformers
from transformers import AutoConfig, AutoModelForSequenceClassification, BertConfig, RobertaConfig


SIZES = {
    "base": {},
    "minilm": {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536},
    "tiny": {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 128},
}
EXTRA = {
    "label-aware-bert": {"num_labels": 28},
    "cg-bert": {"num_labels": 3, "num_contexts": 8},
    "qacg-bert": {"num_labels": 3, "num_contexts": 8},
    "roberta-esa": {"num_labels": 6},
}
STOCK = {"roberta-esa": RobertaConfig}  # BERT elsewhere


def inputs_for(config, batch_size: int, length: int) -> dict[str, torch.Tensor]:
    """Random rows whose last quarter ends in padding of different lengths."""
    generator = torch.Generator().manual_seed(0)
    lengths = length - torch.arange(batch_size) * (length // 4) // batch_size
    mask = (torch.arange(length) < lengths[:, None]).long()
    inputs = {
        "input_ids": torch.randint(1000, config.vocab_size, (batch_size, length), generator=generator).where(
            mask.bool(), config.pad_token_id
        ),
        "attention_mask": mask,
    }
    if config.problem_type == "multi_label_classification":
        inputs["labels"] = torch.randint(0, 2, (batch_size, config.num_labels), generator=generator).float()
    else:
        inputs["labels"] = torch.randint(0, config.num_labels, (batch_size,), generator=generator)
    if hasattr(config, "num_contexts"):
        inputs["context_ids"] = torch.arange(batch_size) % config.num_contexts
    return inputs


def step_of(model, inputs, kind: str) -> Callable[[], None]:
    """What is timed: "forward" (no gradients, eval), "backward" (forward and backward) or "step" (with AdamW)."""
    if kind == "forward":
        model.eval()

        def forward() -> None:
            with torch.no_grad():
                model(**inputs)

        return forward
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
    model.train()

    def train() -> None:
        model(**inputs).loss.backward()
        if kind == "step":
            optimizer.step()
        optimizer.zero_grad(set_to_none=kind == "step")

    return train


def seconds(action: Callable[[], None]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def measure(model_type: str, size: str, shape: tuple[int, int], kind: str, pairs: int, overrides: dict) -> dict:
    ours = AutoConfig.for_model(model_type, **SIZES[size], **EXTRA[model_type], **overrides)
    stock = STOCK.get(model_type, BertConfig)(
        **SIZES[size], num_labels=ours.num_labels, problem_type=ours.problem_type
    )
    actions = []
    for config in (stock, ours):
        torch.manual_seed(0)
        model = AutoModelForSequenceClassification.from_config(config)
        actions.append(step_of(model, inputs_for(config, *shape), kind))
    for action in actions * 2:
        action()
    times = [[seconds(action) for action in actions] for _ in range(pairs)]
    ratios = [second / first for first, second in times]
    quartiles = statistics.quantiles(ratios, n=4)
    return {
        "model": model_type,
        "options": overrides,
        "size": size,
        "shape": "x".join(map(str, shape)),
        "kind": kind,
        "stock_seconds": statistics.median(first for first, _ in times),
        "ours_seconds": statistics.median(second for _, second in times),
        "ratio": statistics.median(ratios),
        "quartiles": [quartiles[0], quartiles[2]],
        "pairs": pairs,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", action="append", choices=EXTRA, help="default: all")
    parser.add_argument("--size", default="base", choices=SIZES)
    parser.add_argument("--shape", action="append", help="BATCHxLENGTH; default: 8x64 and 4x128")
    parser.add_argument("--kind", action="append", choices=["forward", "backward", "step"])
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--options", type=json.loads, default={}, help="JSON: fields of our configuration")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--output", type=Path, help="JSON file")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    print(
        f"{platform.machine()}, {arguments.threads} threads, torch {torch.__version__}, "
        f"transformers {transformers.__version__}, float32, {arguments.pairs} pairs"
    )
    rows = []
    for model_type in arguments.model or EXTRA:
        for shape in arguments.shape or ["8x64", "4x128"]:
            for kind in arguments.kind or ["forward", "backward", "step"]:
                sizes = tuple(int(part) for part in shape.split("x"))
                row = measure(model_type, arguments.size, sizes, kind, arguments.pairs, arguments.options)
                rows.append(row)
                print(
                    f"{model_type} {arguments.size} {shape} {kind}: ratio {row['ratio']:.3f} "
                    f"[{row['quartiles'][0]:.3f}, {row['quartiles'][1]:.3f}], stock {row['stock_seconds']:.3f} s, "
                    f"ours {row['ours_seconds']:.3f} s",
                    flush=True,
                )
    print(f"peak memory of the process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")
    if arguments.output is not None:
        arguments.output.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
