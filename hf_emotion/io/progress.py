# SPDX-License-Identifier: Apache-2.0
"""Shows the progress of long work: a bar in a terminal, else a plain line now and then, for log files and pipes."""

import sys
import time
from contextlib import AbstractContextManager, nullcontext
from types import SimpleNamespace
from typing import Any


SECONDS_BETWEEN_LINES = 30.0


class Lines:
    """Prints a line on standard error every 30 seconds, and one at the end if there were others. `unit`: in the plural."""

    def __init__(self, total: int, unit: str, done: int = 0):
        self.total, self.unit, self.done, self.before = total, unit, done, done
        self.began = self.said = time.monotonic()

    def update(self, count: int = 1) -> None:
        """Count this many more units as done."""
        self.done += count
        now = time.monotonic()
        if now - self.said < SECONDS_BETWEEN_LINES and (self.said == self.began or self.done < self.total):
            return
        self.said = now
        spent, more = now - self.began, self.total - self.done
        share = f"{100 * self.done // max(self.total, 1)} %"
        line = f"{self.done} of {self.total} {self.unit} ({share}) in {duration(spent)}"
        if more and self.done > self.before:
            line += f", about {duration(spent / (self.done - self.before) * more)} left"
        print(line, file=sys.stderr, flush=True)


def progress_bar(progress: bool, total: int, unit: str) -> AbstractContextManager[Any]:
    """An object with `update(count)`: a bar if standard error is a terminal, else `Lines`; silent unless `progress`."""
    if not progress:
        # No tqdm bar: after a fork its lock may stay taken.
        return nullcontext(SimpleNamespace(update=lambda count=1: None))
    if not sys.stderr.isatty():
        return nullcontext(Lines(total, unit))
    from tqdm.auto import tqdm

    return tqdm(total=total, unit=unit, leave=False)


def duration(seconds: float) -> str:
    """A duration for people: 45 s, 12 min, 3.5 h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
