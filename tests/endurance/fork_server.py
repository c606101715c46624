# SPDX-License-Identifier: Apache-2.0
"""Processes of `hf-emotion` that start at once: a process that has imported everything forks them."""

import gc
import os
import sys
from multiprocessing import get_context
from pathlib import Path

import datasets
import torch
from accelerate.utils.other import get_free_port

from hf_emotion import cli
from hf_emotion.reports import classification, figures


IMPORTED = ["matplotlib.pyplot", "hf_emotion.cli", "hf_emotion.runs.train"]
IMPORTED += [f"hf_emotion.reports.{name}" for name in ("card", "classification", "figures", "html_report")]


class ForkServer:
    """
    Starts commands of `hf-emotion`. `cache` is the folder for what `datasets` keeps; nothing is asked of the Hub. Without
    `plots`, trainings draw nothing, which takes longer than a small training.
    """

    def __init__(self, cache: Path, plots: bool = True):
        os.environ |= {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
        self.cache, self.plots, self.processes = cache, plots, {}
        self.context = get_context("forkserver")
        self.context.set_forkserver_preload(IMPORTED)
        first = self.context.Process(target=int)
        first.start()
        first.join()  # until all is imported, which would count as time of a training

    def start(self, arguments: list[str], log: Path, **variables: str) -> int:
        """Start `hf-emotion ARGUMENTS`, what it prints appended to `log`; returns its process id."""
        process = self.context.Process(target=_run, args=(arguments, log, variables, self.cache, self.plots))
        process.start()
        self.processes[process.pid] = process
        return process.pid

    def wait(self, process_id: int) -> int:
        """Wait for a started process; returns its exit status, negative for the signal that killed it."""
        process = self.processes.pop(process_id)
        process.join()
        return process.exitcode

    def run(self, arguments: list[str], log: Path, **variables: str) -> int:
        return self.wait(self.start(arguments, log, **variables))

    def start_distributed(self, arguments: list[str], log: Path, processes: int = 2) -> list[int]:
        """Start the processes that torchrun would start on one machine; their logs are `log` with .0, .1 at the end."""
        common = {"WORLD_SIZE": str(processes), "LOCAL_WORLD_SIZE": str(processes)}
        common |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(get_free_port())}
        return [
            self.start(arguments, log.with_name(f"{log.name}.{rank}"), RANK=str(rank), LOCAL_RANK=str(rank), **common)
            for rank in range(processes)
        ]

    def run_distributed(self, arguments: list[str], log: Path, processes: int = 2) -> list[int]:
        return [self.wait(process_id) for process_id in self.start_distributed(arguments, log, processes)]

    def close(self) -> None:
        for process in self.processes.values():
            process.kill()


def _run(arguments: list[str], log: Path, variables: dict[str, str], cache: Path, plots: bool) -> None:
    gc.freeze()  # it need not look through all that is imported
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    for name in [name for name in os.environ if name.startswith(("HF_", "PYTEST"))]:
        del os.environ[name]
    os.environ |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", **variables}
    torch.set_num_threads(1)
    datasets.config.HF_DATASETS_CACHE = cache
    if not plots:
        figures.write_plots = classification.write_reports = lambda *arguments: None
    sys.argv = ["hf-emotion", *arguments]
    cli.main()
