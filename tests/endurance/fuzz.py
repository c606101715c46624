# SPDX-License-Identifier: Apache-2.0
"""Thousands of cases at every entry point, and each kind of crash once: `python -m tests.endurance.fuzz --cases 5000 --seed 0`."""

import argparse
import logging
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path


sys.path.insert(0, str(Path(__file__).parents[1]))  # as pytest does: the tests import each other by name

import conftest  # noqa: F401 - no Hub
import hypothesis
import torch
from fuzzing import EntryPoint, entry_points

from .small_model import end


def throw(point: EntryPoint, cases: int, seed: int, folder: Path) -> tuple[dict[str, float], dict[str, str]]:
    """Run that many cases; every kind of problem is kept once, with the first case that has it."""
    problems: dict[str, str] = {}
    counts = {"cases": 0, "crashes": 0}
    start = time.perf_counter()

    @hypothesis.seed(seed)
    @hypothesis.settings(
        **{"max_examples": cases, "deadline": None, "database": None, "phases": [hypothesis.Phase.generate]},
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(point.cases)
    def one(case) -> None:
        counts["cases"] += 1
        if problem := point.problem(case, folder):
            counts["crashes"] += 1
            problems.setdefault(problem[:60], f"{problem}\n    {case!r}"[:3000])

    one()
    return {**counts, "seconds": round(time.perf_counter() - start, 1)}, problems


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, default=5000, help="for each entry point")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", action="append", help="an entry point, may be repeated; default: all")
    options = parser.parse_args(argv)
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    found = {}
    with tempfile.TemporaryDirectory(prefix="hf-emotion-fuzz-") as root:
        points = entry_points(Path(root))
        for name in options.only or points:
            folder = Path(root) / "cases" / name.replace(" ", "-")
            folder.mkdir(parents=True)
            found[name], problems = throw(points[name], options.cases, options.seed, folder)
            for problem in (*problems.values(), found[name]):
                print(f"{name}: {problem}", file=sys.stderr, flush=True)
    end({"seed": options.seed, "entry points": found}, any(one["crashes"] for one in found.values()))


if __name__ == "__main__":
    main()
