# SPDX-License-Identifier: Apache-2.0
"""
Processes of `hf-emotion` that start in milliseconds: a process that has imported everything forks them, and each runs the command
line as any other does. Run as a script, this file is that process: one JSON job per line in, one answer per line out.
"""

import gc
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any


class ForkServer:
    """
    Starts commands of `hf-emotion`. `cache` is the folder for what `datasets` keeps; nothing is asked of the Hub. Without
    `plots`, trainings draw nothing, which takes longer than a small training.
    """

    def __init__(self, cache: Path, plots: bool = True):
        variables = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "PYTEST"))}
        variables |= {"HF_HOME": str(cache), "HF_HUB_OFFLINE": "1"}
        variables |= {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
        command = [sys.executable, "-P", __file__, *([] if plots else ["--no-plots"])]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen(command, env=variables, **pipes)
        self._answer()

    def start(self, arguments: list[str], log: Path, **variables: str) -> int:
        """Start `hf-emotion ARGUMENTS`, what it prints appended to `log`; returns its process id."""
        return self._ask({"arguments": arguments, "log": str(log), "variables": variables})

    def wait(self, process_id: int) -> int:
        """Wait for a started process; returns its exit status, negative for the signal that killed it."""
        return self._ask({"wait": process_id})

    def run(self, arguments: list[str], log: Path, **variables: str) -> int:
        return self.wait(self.start(arguments, log, **variables))

    def start_distributed(self, arguments: list[str], log: Path, processes: int = 2) -> list[int]:
        """Start the processes that torchrun would start on one machine; their logs are `log` with .0, .1 at the end."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        common = {"WORLD_SIZE": str(processes), "LOCAL_WORLD_SIZE": str(processes)}
        common |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        return [
            self.start(arguments, log.with_name(f"{log.name}.{rank}"), RANK=str(rank), LOCAL_RANK=str(rank), **common)
            for rank in range(processes)
        ]

    def run_distributed(self, arguments: list[str], log: Path, processes: int = 2) -> list[int]:
        return [self.wait(process_id) for process_id in self.start_distributed(arguments, log, processes)]

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()

    def _ask(self, job: dict[str, Any]) -> int:
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        return self._answer()

    def _answer(self) -> int:
        line = self.process.stdout.readline()
        assert line, "the fork server has ended"
        return json.loads(line)


def serve() -> None:
    # What a training imports on its way.
    import matplotlib.pyplot  # noqa: F401
    import torch

    import hf_emotion.cli
    import hf_emotion.reports.card
    import hf_emotion.reports.classification
    import hf_emotion.reports.figures
    import hf_emotion.reports.html_report
    import hf_emotion.runs.train

    torch.set_num_threads(1)
    if "--no-plots" in sys.argv:
        for module, name in ((hf_emotion.reports.figures, "plots"), (hf_emotion.reports.classification, "reports")):
            setattr(module, f"write_{name}", lambda *arguments: None)
    gc.freeze()  # the children need not look through all that is imported
    print(0, flush=True)
    for line in sys.stdin:
        job = json.loads(line)
        if "wait" in job:
            answer = os.waitstatus_to_exitcode(os.waitpid(job["wait"], 0)[1])
        else:
            answer = os.fork()
            if answer == 0:
                _become(job)
        print(answer, flush=True)


def _become(job: dict[str, Any]) -> None:
    """Run the command in this new process and end it."""
    from hf_emotion.cli import main

    log = os.open(job["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.environ |= job["variables"]
    sys.argv = ["hf-emotion", *job["arguments"]]
    status = 0
    try:
        main()
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    serve()
