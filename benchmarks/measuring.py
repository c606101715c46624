# SPDX-License-Identifier: Apache-2.0
"""
What the benchmarks share: interleaved runs (A B A B ...) after a warm-up, the median of the paired ratios with its quartiles, the
machine, and what a process used.
"""

import contextlib
import datetime
import importlib.metadata
import json
import os
import platform
import re
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hf_emotion.io.files import write_json


PACKAGES = ("torch", "transformers", "tokenizers", "onnxruntime")


def recorded(path: Path | None) -> Any:
    """What a benchmark wrote into its JSON file before; {} if there is none."""
    return json.loads(path.read_text(encoding="utf-8")) if path is not None and path.is_file() else {}


def put(path: Path | None, name: str, found: Any) -> None:
    """Print what was measured, and put it into a JSON file, whose other entries stay."""
    print(name, json.dumps(found, indent=1), flush=True)
    if path is not None:
        write_json(path, {**recorded(path), name: found})


def keep(found: dict[str, Any], command: str, own: dict[str, Any]) -> None:
    """Put what a command measured, {"machine", "rows"}, beside the rest; rows with the same `work`, by which pages name them, go."""
    works = {row["work"] for row in own["rows"]}
    for other, measured in list(found.items()):
        measured["rows"] = [row for row in measured["rows"] if row["work"] not in works]
        if not measured["rows"]:
            del found[other]
    found[command] = own


def machine(threads: int) -> dict[str, str]:
    """Hardware, versions and date."""
    facts = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").is_file() else ""
    names = re.findall(r"^model name\s*: (.*)", facts, re.MULTILINE)
    processor = names[0].strip() if names else platform.processor() or platform.machine()
    return {
        "machine": f"{processor} ({os.cpu_count()} CPUs, {threads} threads, load {os.getloadavg()[0]:.1f})",
        "Python": platform.python_version(),
        **{one.name: one.version for one in importlib.metadata.distributions() if one.name in PACKAGES},
        "date": datetime.date.today().isoformat(),
    }


def seconds(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def interleaved(actions: Sequence[Callable], pairs: int, warm_up: int = 2, keep_memory=False) -> list[list[float]]:
    """Seconds of each action in each round, [actions][pairs]. `keep_memory`: the process keeps freed memory, as in a training."""
    from hf_emotion.training.fit import freed_memory_kept

    with freed_memory_kept() if keep_memory else contextlib.nullcontext():
        for action in list(actions) * warm_up:
            action()
        rounds = [[seconds(action) for action in actions] for _ in range(pairs)]
    return [list(series) for series in zip(*rounds, strict=True)]


def ratio(topic: str, work: str, ours: Sequence[float], peer: Sequence[float], unit: str = "s", **goal) -> dict:
    """A row: ours / peer with the goal `at_most` or without one; peer / ours, the speed-up, with the goal `at_least`."""
    ratios = [b / a if "at_least" in goal else a / b for a, b in zip(ours, peer, strict=True)]
    both = {"ours": statistics.median(ours), "peer": statistics.median(peer), "unit_of_both": unit}
    return result(topic, work, ratios, "×", **goal, **both)


def beside(
    topic: str, work: str, actions: Sequence[Callable], pairs: int, warm_up=2, keep_memory=False, **goal
) -> dict:
    """The row of an action of ours beside the peer's."""
    return ratio(topic, work, *interleaved(actions, pairs, warm_up, keep_memory), **goal)


def result(topic: str, work: str, values: Sequence[float], unit: str, at_most=None, at_least=None, **details) -> dict:
    """Make and print one row: the median of some values, and the goal if there is one."""
    low, median, high = np.quantile(values, (0.25, 0.5, 0.75)).tolist()
    goal, met = "", None
    if at_least is not None:
        goal, met = f"≥ {at_least:g}", bool(median >= at_least)
    elif at_most is not None:
        goal, met = f"≤ {at_most:g}", bool(median <= at_most)
    row = {"topic": topic, "work": work, "target": goal, "median": median, "quartiles": [low, high], "unit": unit}
    row |= {"pairs": len(values), "met": met, **details}
    both = f", ours {row['ours']:.3g}, peer {row['peer']:.3g} {row['unit_of_both']}" if "ours" in row else ""
    verdict = "" if met is None else f", goal {goal}: {'met' if met else 'missed'}"
    print(f"{topic}, {work}: {figure(row)}{both}{verdict}", flush=True)
    return row


def figure(row: dict) -> str:
    """Median and quartiles, as text."""
    low, high = row["quartiles"]
    digits = 3 if row["unit"] in ("×", "s") and row["median"] < 10 else 1
    unit = row["unit"] if row["unit"] == "×" else f" {row['unit']}"
    quartiles = "" if row["pairs"] == 1 else f" [{low:.{digits}f}, {high:.{digits}f}]"
    return f"{row['median']:.{digits}f}{unit}{quartiles}"


def shares_of_peak(
    action: Callable, operations: float, pairs: int, dtype: Any, device="cpu", edge=2048
) -> list[float]:
    """Operations per second of an action of so many, to those of one large matrix product."""
    import torch

    def whole(action: Callable) -> Callable[[], None]:
        return lambda: (action(), torch.cuda.synchronize() if device == "cuda" else None)

    left, right = (torch.randn(edge, edge, device=device).to(dtype) for _ in range(2))
    both = interleaved([whole(action), whole(lambda: left @ right)], pairs, warm_up=1)
    return [operations / taken / (2 * edge**3 / product) for taken, product in zip(*both, strict=True)]
