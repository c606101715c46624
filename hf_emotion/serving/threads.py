# SPDX-License-Identifier: Apache-2.0
"""Dynamic batching: what many threads ask for at once goes through the model together."""

import atexit
import os
import queue
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from ..runtime.batching import as_list


@dataclass
class _Call:
    inputs: list
    options: dict[str, Any]
    deadline: float | None
    future: Future = field(default_factory=Future)

    def expired(self) -> bool:
        return self.deadline is not None and time.monotonic() >= self.deadline


class BatchingPredictor:
    """
    Batches concurrent calls of a predictor: one thread runs the model over what has come in while it was busy.

    It is called as the predictor is, and answers as it does. Calls may come from any thread; `submit` gives a future, which
    `asyncio.wrap_future` makes awaitable. A call whose input the predictor refuses gets the error alone. After a fork the child
    begins with an empty queue.

    >>> with BatchingPredictor(Predictor("runs/quickstart")) as predict:  # doctest: +SKIP
    ...     predict(["What a day!"], timeout=1)
    [[{'label': 'joy', 'score': 0.62}]]
    """

    def __init__(
        self,
        predictor: Callable[..., Sequence],
        max_batch_size: int = 64,
        batch_wait_timeout: float = 0.0,
        max_queue_size: int = 1024,
    ):
        """
        Args:
            predictor: `Predictor`, `TargetedPredictor` or `DialoguePredictor`: a list of inputs -> a result for each.
            max_batch_size: inputs (texts, dialogues) in one call of the predictor; a larger call stays whole.
            batch_wait_timeout: seconds to wait for more inputs before a batch that is not full runs.
            max_queue_size: inputs that may wait.
        """
        for name, value, least in (
            ("max_batch_size", max_batch_size, 1),
            ("batch_wait_timeout", batch_wait_timeout, 0),
            ("max_queue_size", max_queue_size, 1),
        ):
            if not value >= least:
                raise ValueError(f"`{name}` must be at least {least}, got {value}.")
        self.predictor = predictor
        self.max_batch_size = max_batch_size
        self.batch_wait_timeout = batch_wait_timeout
        self.max_queue_size = max_queue_size
        self._closed = False
        self._start_empty()
        _predictors.add(self)

    def _start_empty(self) -> None:
        self._changed = threading.Condition()
        self._waiting: deque[_Call] = deque()
        self._size = 0  # inputs in `_waiting`
        self._thread: threading.Thread | None = None

    def __call__(self, inputs: Sequence | str, timeout: float | None = None, **options: Any) -> list:
        """
        The predictor's result for each input.

        Args:
            inputs: as the predictor takes them; a string counts as a list of one.
            timeout: seconds until the answer is of no use any more: a call that still waits is dropped.
            options: options of the predictor's call, e.g. `top_k`. Calls with the same options share a batch.

        Raises:
            TimeoutError: no answer within `timeout`.
            queue.Full: too many inputs wait already; try again later (in HTTP: 429).
            RuntimeError: it is closed.
            TypeError: a table, a dictionary, a set or bytes.
            ValueError: whatever the predictor refuses.
        """
        future = self.submit(inputs, timeout, **options)
        try:
            return future.result(timeout)
        except TimeoutError:
            future.cancel()
            raise TimeoutError(f"no answer within {timeout} s") from None

    def submit(self, inputs: Sequence | str, timeout: float | None = None, **options: Any) -> Future:
        """As a call, but at once: a future of its result, which may be cancelled as long as it waits."""
        if timeout is not None and not timeout > 0:
            raise ValueError(f"`timeout` must be greater than 0, got {timeout}.")
        deadline = None if timeout is None else time.monotonic() + timeout
        call = _Call(as_list(inputs), options, deadline)
        with self._changed:
            if self._closed:
                raise RuntimeError("the predictor is closed.")
            if self._size + len(call.inputs) > self.max_queue_size:
                self._drop_cancelled()
            # A call larger than the queue goes through when nothing else waits.
            if self._waiting and self._size + len(call.inputs) > self.max_queue_size:
                raise queue.Full(
                    f"{self._size} inputs wait already, of at most {self.max_queue_size}: try again later."
                )
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="BatchingPredictor", daemon=True)
                self._thread.start()
            self._waiting.append(call)
            self._size += len(call.inputs)
            self._changed.notify()
        return call.future

    def _drop_cancelled(self) -> None:
        """Give the places of cancelled calls to others."""
        kept: deque[_Call] = deque()
        for call in self._waiting:
            if call.future.cancelled():
                call.future.set_running_or_notify_cancel()  # `concurrent.futures.wait` would wait for ever
            else:
                kept.append(call)
        self._waiting = kept
        self._size = sum(len(call.inputs) for call in self._waiting)

    @property
    def waiting(self) -> int:
        """Inputs that wait."""
        with self._changed:
            self._drop_cancelled()
        return self._size

    def close(self, cancel_futures: bool = False) -> None:
        """Take no more calls, answer those that wait (or cancel them: `CancelledError`), and end the thread."""
        with self._changed:
            self._closed = True
            if cancel_futures:
                for call in self._waiting:
                    call.future.cancel()
            self._changed.notify()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def __enter__(self) -> "BatchingPredictor":
        return self

    def __exit__(self, *error) -> None:
        self.close()

    def _work(self) -> None:
        while calls := self._next_batch():
            groups: list[list[_Call]] = []
            for call in calls:
                if not call.future.set_running_or_notify_cancel():
                    continue
                if call.expired():
                    call.future.set_exception(TimeoutError("the call waited longer than its timeout."))
                    continue
                group = next((group for group in groups if group[0].options == call.options), None)
                groups.append([call]) if group is None else group.append(call)
            for group in groups:
                self._run(group)

    def _next_batch(self) -> list[_Call]:
        """Calls with at most `max_batch_size` inputs, at least one call; none when it is closed and all is done."""
        with self._changed:
            while True:
                while not self._waiting and not self._closed:
                    self._changed.wait()
                end = time.monotonic() + self.batch_wait_timeout
                while self._size < self.max_batch_size and not self._closed and (rest := end - time.monotonic()) > 0:
                    self._changed.wait(rest)
                if self._waiting or self._closed:  # else all calls were cancelled meanwhile
                    break
            calls: list[_Call] = []
            size = 0
            while self._waiting and (not calls or size + len(self._waiting[0].inputs) <= self.max_batch_size):
                calls.append(self._waiting.popleft())
                size += len(calls[-1].inputs)
            self._size -= size
            return calls

    def _run(self, calls: list[_Call]) -> None:
        try:
            inputs = [one for call in calls for one in call.inputs]
            results = list(self.predictor(inputs, **calls[0].options))
            if len(results) != len(inputs):
                raise RuntimeError(f"the predictor gave {len(results)} results for {len(inputs)} inputs.")
        except BaseException as error:  # whatever the error is, the thread must live on
            if len(calls) == 1:
                calls[0].future.set_exception(error)
                return
            for call in calls:  # each call alone: the error goes to the call that caused it, and counts its own inputs
                self._run([call])
            return
        start = 0
        for call in calls:
            call.future.set_result(results[start : start + len(call.inputs)])
            start += len(call.inputs)


_predictors: "weakref.WeakSet[BatchingPredictor]" = weakref.WeakSet()


def _start_all_empty() -> None:
    for predictor in list(_predictors):
        predictor._start_empty()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_start_all_empty)


@atexit.register
def _close_all() -> None:
    """No thread may run torch while the interpreter ends."""
    for predictor in list(_predictors):
        predictor.close(cancel_futures=True)
