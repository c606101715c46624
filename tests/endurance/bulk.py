# SPDX-License-Identifier: Apache-2.0
"""
Bulk prediction under SIGKILL: a long CSV file through `hf-emotion predict`, killed at random moments and started again until it
ends by itself; then every row of the output is compared with the input and with predictions made one by one.
`python -m tests.endurance.bulk --rows 1000000 --kills 10`
"""

import csv
import itertools
import json
import logging
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import psutil
from accelerate import PartialState
from accelerate.utils.other import get_free_port

from hf_emotion import Predictor
from hf_emotion.cli.predict import _processes
from hf_emotion.serving.bulk import ROWS_PER_PART, predict_file

from .small_model import draw_texts, end, options_of, save_small_classifier
from .soak import resident_mib, same


def write_source(path: Path, texts: list[str], rows: int) -> Path:
    """`rows` rows with a number, one of the texts, and a column that needs quotes; every 1,000th row has no text."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "text", "note"])
        writer.writerows([i, "" if i % 1000 == 999 else texts[i % len(texts)], f'"{i}",\n'] for i in range(rows))
    return path


def check_output(path: Path, texts: list[str], rows: int, expected: list[list[dict]]) -> dict[str, int]:
    """Rows that are missing, double, out of order, or have other contents or predictions than expected."""
    numbers, different = [], 0
    with path.open(encoding="utf-8") as file:
        for row in map(json.loads, file):
            numbers.append(number := int(row["id"]))
            which, labels, scores = number % len(texts), row["predicted_labels"], row["predicted_scores"]
            if number % 1000 == 999:
                right = (row["text"], labels, scores) == ("", None, None)
            else:
                found = [{"label": label, "score": score} for label, score in zip(labels, scores, strict=True)]
                right = row["text"] == texts[which] and same([found], [expected[which]])
            different += not (right and row["note"] == f'"{number}",\n')
    found = len(set(numbers))
    disordered = sum(number != before + 1 for before, number in itertools.pairwise([-1, *numbers]))
    return {"lost": rows - found, "double": len(numbers) - found, "disordered": disordered, "different": different}


class Command:
    """`hf-emotion predict`, started by torchrun where there are several processes."""

    def __init__(self, checkpoint: Path, source: Path, output: Path, processes: int = 1):
        command = [sys.executable, "-m", "hf_emotion", "predict", checkpoint, "--on-bad-rows", "skip"]
        command += ["--input", source, "--output", output]
        if processes > 1:
            command[1:1] = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", processes]
        alone = os.environ | {"OMP_NUM_THREADS": "1"}
        self.process = psutil.Popen([str(part) for part in command], env=alone, stdout=subprocess.DEVNULL)
        self.pid, self.code = self.process.pid, self.process.poll

    def kill(self) -> None:
        """All of them at once."""
        for process in [*self.process.children(recursive=True), self.process]:
            process.kill()
        self.process.wait()


class Forked:
    """The same in forked processes, which need not load anything."""

    def __init__(self, predictor: Predictor, source: Path, output: Path, processes: int = 1):
        arguments = (predictor, source, output, processes, get_free_port())
        context = get_context("fork")
        self.processes = [context.Process(target=_predict, args=(rank, *arguments)) for rank in range(processes)]
        for process in self.processes:
            process.start()
        self.pid = self.processes[0].pid

    def code(self) -> int | None:
        codes = [process.exitcode for process in self.processes]
        return None if None in codes else max(codes, key=abs)

    def kill(self) -> None:
        """One of them: the others must end by themselves."""
        random.choice(self.processes).kill()
        for process in self.processes:
            process.join(60)
            if process.exitcode is None:
                raise TimeoutError("a process outlives by a minute the one that was killed")


def _predict(rank: int, predictor: Predictor, source: Path, output: Path, processes: int, port: int) -> None:
    PartialState._reset_state()  # of a training in the process that forked
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(processes)}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    logging.disable(logging.WARNING)
    sys.stderr = open(os.devnull, "w")  # the others report the connection that ends
    predict_file(predictor, source, output, on_bad_rows="skip", progress=False, state=_processes())


def run(rows: int, kills: int, processes: int | Sequence[int] = 1, forked: bool = False, seed: int = 0) -> dict:
    """
    Kills fall after a drawn number of new parts and a drawn time, the last one while the parts are joined. `processes` are those of
    each start in turn. `forked`: started by a fork instead of by the command.
    """
    draw, killed, peak = random.Random(seed), [], 0.0
    processes = itertools.cycle([processes] if isinstance(processes, int) else processes)
    step = -(-rows // ROWS_PER_PART) // (kills + 1)  # parts between two kills
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        checkpoint = save_small_classifier(folder / "model")
        predictor = Predictor(checkpoint, device="cpu")
        texts = draw_texts(predictor, 199)
        expected = [predictor([text])[0] for text in texts]
        source, output = write_source(folder / "in.csv", texts, rows), folder / "out.jsonl"
        parts, code, began = folder / "out.jsonl.parts", None, time.perf_counter()
        # Other processes may end the work while one of them is killed.
        while code is None and not (output.exists() and not parts.exists()):
            joining = len(killed) == kills - 1
            wanted = len(list(parts.glob("[0-9]*.parquet"))) + draw.randint(0, max(1, step))
            way, model = (Forked, predictor) if forked else (Command, checkpoint)
            process = way(model, source, output, next(processes))
            while (code := process.code()) is None:
                peak = max(peak, resident_mib(process.pid))
                done = len(list(parts.glob("[0-9]*.parquet")))
                ready = any(parts.glob("joined.*")) if joining else parts.exists() and done >= wanted
                if len(killed) < kills and ready:
                    time.sleep(draw.random() * (0.1 if forked or joining else 1.0))
                    if process.code() is None:
                        process.kill()
                        killed.append("joining" if any(parts.glob("joined.*")) else f"{done} parts")
                        break
                time.sleep(0.01 if joining else 0.05)
        seconds = time.perf_counter() - began
        found: dict[str, Any] = {"rows": rows, "kills": killed, "exit_code": code or 0}
        if not code:
            left = sorted(path.name for path in folder.iterdir() if path.name not in ("model", "in.csv", "out.jsonl"))
            found |= {**check_output(output, texts, rows, expected), "files_left": left}
    speed = {"seconds": round(seconds, 1), "rows_per_second": round(rows / seconds)}
    return found | speed | {"peak_memory_mib": round(peak)}


def main(argv: Sequence[str] | None = None) -> None:
    logging.getLogger("hf_emotion").setLevel(logging.ERROR)  # not of each text that is cut
    found = run(**options_of(argv, rows=1_000_000, kills=10, processes=1, seed=0))
    end(found, any(found.get(name) for name in ("exit_code", "lost", "double", "disordered", "different")))


if __name__ == "__main__":
    main()
