# SPDX-License-Identifier: Apache-2.0
"""
What the benchmarks share. Times are compared in one process with interleaved runs (A B A B ...) after a warm-up. The result is the
median of the paired ratios, with quartiles.
"""

import argparse
import contextlib
import datetime
import importlib.metadata
import importlib.util
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from hf_emotion.io.files import write_json
from hf_emotion.training.memory import freed_memory_kept


PACKAGES = ("torch", "transformers", "tokenizers", "onnxruntime")


def parse(parser: argparse.ArgumentParser, argv: Sequence[str] | None = None, pairs: int = 7) -> argparse.Namespace:
    """Parse the arguments, including those that every benchmark has, and print the machine."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--pairs", type=int, default=pairs, help="measurements of each side (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=2, help="threads of torch (default: %(default)s)")
    parser.add_argument("--output", type=Path, help="JSON file for the results")
    arguments = parser.parse_args(argv)
    if arguments.pairs < 1:
        parser.error(f"--pairs must be at least 1, got {arguments.pairs}")
    torch.set_num_threads(arguments.threads)
    print(", ".join(f"{name} {value}" for name, value in machine(arguments.threads).items()), flush=True)
    return arguments


def recorded(path: Path | None) -> Any:
    """What a benchmark wrote into its JSON file before; {} if there is none."""
    return json.loads(path.read_text(encoding="utf-8")) if path is not None and path.is_file() else {}


def machine(threads: int) -> dict[str, str]:
    """Hardware, versions and date."""
    processor = platform.processor() or platform.machine()
    if Path("/proc/cpuinfo").is_file():
        names = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
        processor = names[0].partition(":")[2].strip() if names else processor
    installed = {name for name in PACKAGES if importlib.util.find_spec(name) is not None}
    return {
        "machine": f"{processor} ({os.cpu_count()} CPUs, {threads} threads, load {os.getloadavg()[0]:.1f})",
        "Python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in PACKAGES if name in installed},
        "date": datetime.date.today().isoformat(),
    }


def seconds(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def interleaved(
    actions: Sequence[Callable[[], object]], pairs: int, warm_up: int = 2, keep_memory: bool = False
) -> list[list[float]]:
    """
    Seconds of each action, [actions][pairs]; every round runs all actions once. With `keep_memory` the process keeps freed memory,
    as it does in a training.
    """
    with freed_memory_kept() if keep_memory else contextlib.nullcontext():
        for action in list(actions) * warm_up:
            action()
        rounds = [[seconds(action) for action in actions] for _ in range(pairs)]
    return [list(series) for series in zip(*rounds, strict=True)]


def spread(values: Sequence[float]) -> tuple[float, float, float]:
    """Lower quartile, median, upper quartile."""
    if len(values) == 1:
        return (values[0],) * 3
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, median, high


def ratio(
    question: str,
    work: str,
    ours: Sequence[float],
    peer: Sequence[float],
    at_most: float | None = None,
    at_least: float | None = None,
    unit: str = "s",
) -> dict:
    """
    A result: ours / peer with the target `at_most` or without one; peer / ours, the speed-up, with the target `at_least`.
    """
    ratios = [b / a if at_least is not None else a / b for a, b in zip(ours, peer, strict=True)]
    values = {"ours": statistics.median(ours), "peer": statistics.median(peer), "unit_of_both": unit}
    return result(question, work, ratios, "×", at_most, at_least, **values)


def result(
    question: str,
    work: str,
    values: Sequence[float],
    unit: str,
    at_most: float | None = None,
    at_least: float | None = None,
    **details,
) -> dict:
    """Make and print one row of the table: the median of some values, and the target if there is one."""
    low, median, high = spread(values)
    row = {
        "question": question,
        "work": work,
        "target": "" if at_most is at_least is None else f"≤ {at_most:g}" if at_least is None else f"≥ {at_least:g}",
        "median": median,
        "quartiles": [low, high],
        "unit": unit,
        "pairs": len(values),
        "met": None
        if at_most is at_least is None
        else bool(median <= at_most if at_least is None else median >= at_least),
        **details,
    }
    both = f", ours {row['ours']:.3g}, peer {row['peer']:.3g} {row['unit_of_both']}" if "ours" in row else ""
    print(f"{question} {work}: {figure(row)}{both}{verdict(row)}", flush=True)
    return row


def figure(row: dict) -> str:
    low, high = row["quartiles"]
    unit = row["unit"] if row["unit"] == "×" else f" {row['unit']}"
    if row["pairs"] == 1:
        return f"{row['median']:.3g}{unit} (one measurement)"
    digits = 3 if row["unit"] in ("×", "s") and row["median"] < 10 else 1
    return f"{row['median']:.{digits}f}{unit} [{low:.{digits}f}, {high:.{digits}f}]"


def verdict(row: dict) -> str:
    return "" if row["met"] is None else f", target {row['target']}: {'met' if row['met'] else 'missed'}"


def save(arguments: argparse.Namespace, rows: list[dict]) -> None:
    """Write the rows, and what they were measured with, to `--output`."""
    if arguments.output is not None:
        write_json(arguments.output, {"machine": machine(arguments.threads), "rows": rows})


# A process inherits the peak memory of its parent, so a small process must stand between.
_STARTER = """
import json, resource, subprocess, sys, time
start = time.perf_counter()
code = subprocess.call(sys.argv[1:], stdout=subprocess.DEVNULL)
wall, used = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([used.ru_utime + used.ru_stime, wall, used.ru_maxrss]))
sys.exit(code)
"""


@dataclass(frozen=True)
class Spent:
    """What a command used from start to end: processor seconds, wall-clock seconds, largest resident memory in MiB."""

    processor: float
    wall: float
    memory: float


def spent(command: Sequence[str | os.PathLike], **variables: str) -> Spent:
    """
    Run a command, with further environment variables.

    Raises:
        subprocess.CalledProcessError: the command failed; its stderr has been shown.
    """
    starter = [sys.executable, "-I", "-S", "-c", _STARTER]
    environment = {**os.environ, **variables}
    done = subprocess.run(
        [*starter, *map(str, command)], check=True, stdout=subprocess.PIPE, text=True, env=environment
    )
    processor, wall, memory = json.loads(done.stdout)
    return Spent(
        processor, wall, memory / (2**20 if sys.platform == "darwin" else 2**10)
    )  # bytes on macOS, KiB elsewhere


def peak_memory(command: Sequence[str | os.PathLike]) -> float:
    """Largest resident memory of a command in MiB; raises what `spent` does."""
    return spent(command).memory
