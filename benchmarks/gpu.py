# SPDX-License-Identifier: Apache-2.0
"""
P12: train steps on a GPU (bf16 autocast, torch.compile, fused AdamW) at base size and length 128: floating point operations of
forward and backward per second, as a share of what a bf16 matrix product reaches on the same card in the same run.

    python benchmarks/gpu.py --batch-size 128
"""

import argparse
from collections.abc import Callable, Sequence

import torch
from measuring import parse, result, save
from model_step import EXTRA, SIZES, build, inputs_for
from torch.utils.flop_counter import FlopCounterMode


AT_LEAST = {"label-aware-bert": 0.45, "qacg-bert": 0.40}
MATRIX = 8192
REPEATS = 10


def seconds_on_gpu(action: Callable[[], object]) -> float:
    """Mean seconds of some calls, measured by CUDA events."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(REPEATS):
        action()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) / 1000 / REPEATS


def train_step(side: str, model_type: str, size: str, batch_size: int, length: int) -> tuple[Callable[[], None], int]:
    """A compiled step, and the operations of its forward and backward passes (matrix products and attention)."""
    model = build(side, model_type, size, {}).cuda().train()
    inputs = {name: value.cuda() for name, value in inputs_for(model.config, batch_size, length).items()}
    compiled = torch.compile(model, fullgraph=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)

    def passes(module) -> None:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = module(**inputs).loss
        loss.backward()

    with FlopCounterMode(display=False) as counter:
        passes(model)
    optimizer.zero_grad()

    def step() -> None:
        passes(compiled)
        optimizer.step()
        optimizer.zero_grad()

    return step, counter.get_total_flops()


def main(argv: Sequence[str] | None = None) -> list[dict]:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", action="append", choices=EXTRA, help="default: all")
    parser.add_argument("--size", default="base", choices=SIZES)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--length", type=int, default=128)
    arguments = parse(parser, argv, pairs=9)
    if not torch.cuda.is_available():
        print("no CUDA device: nothing measured")
        save(arguments, [])
        return []
    left, right = (torch.randn(MATRIX, MATRIX, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    rows = []
    for model_type in arguments.model or EXTRA:
        steps = {
            side: train_step(side, model_type, arguments.size, arguments.batch_size, arguments.length)
            for side in ("stock", "ours")
        }
        for _ in range(2):  # compiles, and warms up
            for step, _ in steps.values():
                seconds_on_gpu(step)
            seconds_on_gpu(lambda: left @ right)
        shares: dict[str, list[float]] = {side: [] for side in steps}
        for _ in range(arguments.pairs):
            peak = 2 * MATRIX**3 / seconds_on_gpu(lambda: left @ right)
            for side, (step, operations) in steps.items():
                shares[side].append(operations / seconds_on_gpu(step) / peak)
        for side, values in shares.items():
            name = model_type if side == "ours" else f"the stock peer of {model_type}"
            work = f"train step of {name}, {arguments.size}, {arguments.batch_size}x{arguments.length}, bf16, compiled"
            work += f", {torch.cuda.get_device_name()}: share of the measured {peak / 1e12:.0f} TFLOP/s"
            at_least = AT_LEAST.get(model_type) if side == "ours" else None
            rows.append(result("P12", work, values, "×", at_least=at_least))
    save(arguments, rows)
    return rows


if __name__ == "__main__":
    main()
