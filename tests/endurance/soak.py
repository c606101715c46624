# SPDX-License-Identifier: Apache-2.0
"""
One predictor under many threads: half of them call it, half a `BatchingPredictor` over it, some with calls that must fail, and
now and then the process forks. Every answer is compared with that of a call alone.

    python -m tests.endurance.soak --minutes 10 --threads 16
"""

import argparse
import faulthandler
import json
import logging
import os
import random
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from hf_emotion import Predictor
from hf_emotion.serving.threads import BatchingPredictor

from .small_model import draw_texts, save_small_classifier


STUCK_SECONDS = 30


def resident_mib(process: int | str = "self") -> float:
    """Memory of a process, default: this one; 0 where the system does not tell."""
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    except OSError:
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def memory_summary(memory: Sequence[float]) -> dict[str, float]:
    """MiB at the end, and the growth since the beginning: medians of the last and the first tenth."""
    tenth = max(1, len(memory) // 10)
    last, first = statistics.median(memory[-tenth:]), statistics.median(memory[:tenth])
    return {"memory_mib": round(last, 1), "memory_growth_mib": round(last - first, 1)}


def same(found: list[list[dict]], expected: list[list[dict]]) -> bool:
    """The same labels, and scores equal but for rounding."""
    return len(found) == len(expected) and all(
        [item["label"] for item in a] == [item["label"] for item in b]
        and all(abs(x["score"] - y["score"]) < 1e-5 for x, y in zip(a, b, strict=True))
        for a, b in zip(found, expected, strict=True)
    )


def run(seconds: float, threads: int = 16, forks: int = 2, seed: int = 0) -> dict[str, Any]:
    """Returns counts of answers, wrong answers, threads that got stuck, and the growth of memory."""
    torch.set_num_threads(1)  # of each call; the calls run beside one another
    with tempfile.TemporaryDirectory() as folder:
        predictor = Predictor(save_small_classifier(Path(folder) / "model"), device="cpu")
    texts = draw_texts(predictor, 200)
    expected = {k: {text: predictor([text], top_k=k)[0] for text in texts} for k in (None, 2)}
    counts = {"answers": 0, "refused": 0, "wrong": 0}
    errors: list[str] = []
    progress = [time.monotonic()] * threads
    stop, lock = threading.Event(), threading.Lock()
    batching = BatchingPredictor(predictor, max_batch_size=32)

    def call(number: int, draw: random.Random) -> str:
        predict = batching if number % 2 else predictor
        asked, top_k = draw.choices(texts, k=draw.randint(1, 8)), draw.choice((None, 2))
        if draw.random() < 0.05:
            try:
                predict([*asked, " "], top_k=top_k)
            except ValueError as error:
                place = f"text {len(asked) + 1} of {len(asked) + 1} "
                return "refused" if str(error).startswith(place) else "wrong"
            return "wrong"
        return "answers" if same(predict(asked, top_k=top_k), [expected[top_k][text] for text in asked]) else "wrong"

    def work(number: int) -> None:
        draw = random.Random(seed * 1000 + number)
        while not stop.is_set():
            try:
                kind = call(number, draw)
            except Exception as error:
                kind = "wrong"
                errors.append(f"{type(error).__name__}: {error}")
            with lock:
                counts[kind] += 1
            progress[number] = time.monotonic()

    def fork() -> int:
        """The exit code of a child that asks both predictors."""
        child = os.fork()
        if child == 0:
            try:
                faulthandler.dump_traceback_later(STUCK_SECONDS, exit=True)
                right = [
                    same(predict(texts[:9]), [expected[None][t] for t in texts[:9]])
                    for predict in (predictor, batching)
                ]
                os._exit(0 if all(right) else 1)
            finally:
                os._exit(2)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    workers = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(threads)]
    began = time.monotonic()
    for worker in workers:
        worker.start()
    memory: list[float] = []
    children: list[int] = []
    while (passed := time.monotonic() - began) < seconds:
        time.sleep(min(1.0, seconds / 40))
        if passed > seconds / 4:  # the allocator has seen all there is
            memory.append(resident_mib())
        if len(children) < forks and passed > seconds * (len(children) + 1) / (forks + 1):
            children.append(fork())
        if time.monotonic() - min(progress) > STUCK_SECONDS:
            faulthandler.dump_traceback(all_threads=True)
            break
    stop.set()
    for worker in workers:
        worker.join(STUCK_SECONDS)
    batching.close()
    return {
        "seconds": round(time.monotonic() - began, 1),
        "threads": threads,
        **counts,
        "answers_per_second": round(counts["answers"] / (time.monotonic() - began)),
        "stuck_threads": sum(worker.is_alive() for worker in workers),
        "forks": len(children),
        "failed_forks": sum(code != 0 for code in children),
        **memory_summary(memory),
        "errors": errors[:5],
    }


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--threads", type=int, default=16)
    parser.add_argument("--forks", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args(argv)
    logging.getLogger("hf_emotion").setLevel(logging.ERROR)  # not of each text that is cut
    summary = run(60 * arguments.minutes, arguments.threads, arguments.forks, arguments.seed)
    print(json.dumps(summary))
    faults = (
        summary["wrong"] or summary["stuck_threads"] or summary["failed_forks"] or summary["memory_growth_mib"] > 20
    )
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
