# SPDX-License-Identifier: Apache-2.0
"""
One predictor under many threads: half of them call it, half a `BatchingPredictor` over it, some with calls that must fail, and
now and then the process forks. Every answer is compared with that of a call alone: `python -m tests.endurance.soak --minutes 10`.
"""

import contextlib
import faulthandler
import logging
import os
import random
import statistics
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import psutil
import torch

from hf_emotion import Predictor
from hf_emotion.serving.threads import BatchingPredictor

from .small_model import draw_texts, end, options_of, save_small_classifier


STUCK_SECONDS = 30


class Load:
    """Threads that count what `call(number, draw)` says, "wrong" where it raises, until `stop` is set or it says None."""

    def __init__(self, call: Callable[[int, random.Random], str | None], threads: int, seed: int):
        self.call, self.seed, self.stop, self.lock = call, seed, threading.Event(), threading.Lock()
        self.counts: Counter = Counter()
        self.errors: list[str] = []
        self.memory: list[float] = []
        self.began = time.monotonic()
        self.progress = [self.began] * threads
        self.workers = [threading.Thread(target=self._work, args=(n,), daemon=True) for n in range(threads)]
        for worker in self.workers:
            worker.start()

    def _work(self, number: int) -> None:
        draw = random.Random(self.seed * 1000 + number)
        while not self.stop.is_set():
            try:
                kind = self.call(number, draw)
            except Exception as error:
                kind = "wrong"
                self.errors.append(repr(error))
            if kind is None:
                return
            with self.lock:
                self.counts[kind] += 1
            self.progress[number] = time.monotonic()

    def during(self, seconds: float, process: int | None = None) -> Iterator[float]:
        """The seconds that have passed, now and then; the memory of the process is noted."""
        while (passed := time.monotonic() - self.began) < seconds:
            time.sleep(min(1.0, seconds / 40))
            if passed > seconds / 4:  # the allocator has seen all there is
                self.memory.append(resident_mib(process))
            yield passed

    def join(self, seconds: float) -> None:
        for worker in self.workers:
            worker.join(seconds)

    def found(self) -> dict[str, Any]:
        """How fast it was, and the memory in MiB at the end and its growth: medians of the last and the first tenth."""
        wall, tenth = time.monotonic() - self.began, max(1, len(self.memory) // 10)
        last, first = statistics.median(self.memory[-tenth:]), statistics.median(self.memory[:tenth])
        speed = {"answers_per_second": round(self.counts["answers"] / wall), "memory_mib": round(last, 1)}
        return {**speed, "memory_growth_mib": round(last - first, 1), "errors": self.errors[:5]}


def resident_mib(process: int | None = None) -> float:
    """Memory of a process, default: this one; 0 when it has ended."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(process).memory_info().rss / 2**20
    return 0.0


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

    def ask_in_child() -> None:
        faulthandler.dump_traceback_later(STUCK_SECONDS, exit=True)
        own = [expected[None][text] for text in texts[:9]]
        os._exit(not all(same(predict(texts[:9]), own) for predict in (predictor, batching)))

    load, children = Load(call, threads, seed), []
    for passed in load.during(seconds):
        if len(children) < forks and passed > seconds * (len(children) + 1) / (forks + 1):
            children.append(get_context("fork").Process(target=ask_in_child))
            children[-1].start()
            children[-1].join()
        if time.monotonic() - min(load.progress) > STUCK_SECONDS:
            faulthandler.dump_traceback(all_threads=True)
            break
    load.stop.set()
    load.join(STUCK_SECONDS)
    batching.close()
    counts = {name: load.counts[name] for name in ("answers", "refused", "wrong")}
    counts |= {"stuck_threads": sum(worker.is_alive() for worker in load.workers)}
    counts |= {"forks": len(children), "failed_forks": sum(child.exitcode != 0 for child in children)}
    return {"seconds": round(time.monotonic() - load.began, 1), "threads": threads, **counts, **load.found()}


def main(argv: Sequence[str] | None = None) -> None:
    options = options_of(argv, minutes=10.0, threads=16, forks=20, seed=0)
    logging.getLogger("hf_emotion").setLevel(logging.ERROR)  # not of each text that is cut
    found = run(60 * options.pop("minutes"), **options)
    faults = any(found[name] for name in ("wrong", "stuck_threads", "failed_forks"))
    end(found, faults or found["memory_growth_mib"] > 20)


if __name__ == "__main__":
    main()
