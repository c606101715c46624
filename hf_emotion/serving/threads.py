# SPDX-License-Identifier: Apache-2.0
"""Dynamic batching: what many threads ask for at once goes through the model together."""

import atexit
import os
import queue
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from ..runtime.batching import as_list
from ..runtime.sharing import NotWanted, shared


SHARED = 16_384  # characters of inputs that share a batch: a call with more is computed alone, and others go between its batches
PATIENCE = 0.1  # seconds that a call has the model for itself; also the most that a batch waits for the callers of the last one


Answer = TypeVar("Answer")


@dataclass
class _Call:
    inputs: list[Any]
    options: dict[str, Any]
    deadline: float | None
    characters: int
    future: Future[list[Any]] = field(default_factory=Future)
    ended: bool = False

    def expired(self) -> bool:
        return self.deadline is not None and time.monotonic() >= self.deadline

    def wanted(self) -> bool:
        return not self.future.cancelled() and not self.expired()

    def same_options(self, other: "_Call") -> bool:
        try:
            return bool(self.options == other.options)
        except Exception:  # arrays have no truth
            return False

    def end(self) -> bool:
        """Whether the future takes a result or an error: once, and not if it was cancelled."""
        if self.ended:
            return False
        self.ended = True
        return self.future.set_running_or_notify_cancel()  # else `concurrent.futures.wait` would wait for ever

    def fail(self, error: BaseException) -> None:
        if self.end():
            self.future.set_exception(error)


def _characters(value: Any) -> int:
    """How much there is to read in an input: a text, a turn, a dialogue."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, Mapping):
        value = list(value.values())
    return sum(map(_characters, value)) if isinstance(value, list | tuple) else 0


class BatchingPredictor(Generic[Answer]):
    """
    Batches concurrent calls of a predictor: one thread runs the model over what has come in while it was busy.

    It is called as the predictor is, and answers as it does. Calls may come from any thread; `submit` gives a future, which
    `asyncio.wrap_future` makes awaitable. Only the call whose input the predictor refuses gets the error. While a long call is computed,
    short ones go between its batches, and it ends early when nobody waits for it any more. After a fork the child begins with an
    empty queue.

    >>> with BatchingPredictor(Predictor("runs/quickstart")) as predict:  # doctest: +SKIP
    ...     predict(["What a day!"], timeout=1)
    [[{'label': 'joy', 'score': 0.62}]]
    """

    def __init__(
        self,
        predictor: Callable[..., Sequence[Answer]],
        max_batch_size: int = 64,
        batch_wait_timeout: float = 0.0,
        max_queue_size: int = 1024,
    ):
        """
        Args:
            predictor: `Predictor`, `TargetedPredictor` or `DialoguePredictor`: a list of inputs -> a result for each.
            max_batch_size: inputs (texts, dialogues) in one call of the predictor; a larger call stays whole.
            batch_wait_timeout: seconds to wait for more inputs before a batch that is not full runs. A batch with fewer calls than the
                last one waits a quarter of that one's time, at most 0.1 s.
            max_queue_size: inputs that may wait.
        """
        if min(max_batch_size, max_queue_size) < 1 or batch_wait_timeout < 0:
            raise ValueError("`max_batch_size`, `max_queue_size` must be at least 1, `batch_wait_timeout` at least 0.")
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
        self._pace = 0.0  # seconds per input, in the last batch
        self._last, self._patience = 0, 0.0  # calls in the last batch, seconds in which they may come back
        self._thread: threading.Thread | None = None
        self.alive = True  # until the thread ends by an error; the next call begins a new one

    def __call__(self, inputs: Sequence[Any] | str, timeout: float | None = None, **options: Any) -> list[Answer]:
        """
        The predictor's result for each input.

        Args:
            inputs: as the predictor takes them; a string counts as a list of one.
            timeout: seconds until the answer is of no use any more. options: options of the predictor's call, e.g.
            `top_k`. Calls with the same options share a batch.

        Raises:
            TimeoutError: no answer within `timeout`.
            queue.Full: too many inputs wait already.
            RuntimeError: it is closed.
        """
        future = self.submit(inputs, timeout, **options)
        try:
            return future.result(timeout)
        except TimeoutError:
            future.cancel()
            raise TimeoutError(f"no answer within {timeout} s") from None

    def submit(
        self, inputs: Sequence[Any] | str, timeout: float | None = None, **options: Any
    ) -> Future[list[Answer]]:
        """As a call, but at once: a future of its result, which may be cancelled until it has come."""
        deadline = None if timeout is None else time.monotonic() + timeout
        listed = as_list(inputs)
        call = _Call(listed, options, deadline, _characters(listed))
        with self._changed:
            if self._closed:
                raise RuntimeError("the predictor is closed.")
            if self._size + len(call.inputs) > self.max_queue_size:
                self._drop_cancelled()
            # A call larger than the queue goes through when nothing else waits.
            if self._waiting and self._size + len(call.inputs) > self.max_queue_size:
                raise queue.Full(
                    f"{self._size} inputs wait already and {len(call.inputs)} more came, at most {self.max_queue_size} may wait: try again later."
                )
            if self._thread is None or not self.alive:
                self.alive = True
                self._thread = threading.Thread(target=self._work, name="BatchingPredictor", daemon=True)
                self._thread.start()
            self._waiting.append(call)
            self._size += len(call.inputs)
            self._changed.notify()
        return call.future

    def _drop_cancelled(self) -> None:
        """Give the places of cancelled calls to others."""
        for call in self._waiting:
            if call.future.cancelled():
                call.end()
        self._waiting = deque(call for call in self._waiting if not call.ended)
        self._size = sum(len(call.inputs) for call in self._waiting)

    @property
    def waiting(self) -> int:
        """Inputs that wait."""
        with self._changed:
            self._drop_cancelled()
        return self._size

    @property
    def seconds_waiting(self) -> float:
        """Seconds that what waits now needs, at the pace of the last batch; 0 before the first one."""
        return self.waiting * self._pace

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

    def __enter__(self) -> "BatchingPredictor[Answer]":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _work(self) -> None:
        try:
            while calls := self._next_batch():
                begin = time.monotonic()
                self._answer(calls)
                # Who has an answer often asks again at once. If the next batch did not wait for them, two halves of the callers
                # would take turns, each in half a batch.
                self._last, self._patience = len(calls), min(PATIENCE, (time.monotonic() - begin) / 4)
        except BaseException as error:
            with self._changed:
                self.alive = False
                calls, self._waiting, self._size = list(self._waiting), deque(), 0
            for call in calls:
                call.fail(error)
            raise

    def _answer(self, calls: list[_Call], between: bool = False) -> None:
        try:
            groups: list[list[_Call]] = []
            for call in calls:
                if call.expired():
                    call.fail(TimeoutError("the call waited longer than its timeout."))
                elif not call.wanted():
                    call.end()
                else:
                    group = next((group for group in groups if group[0].same_options(call)), None)
                    groups.append([call]) if group is None else group.append(call)
            for group in groups:
                self._run(group, between)
        except BaseException as error:  # whatever the error is, the thread must live on
            for call in calls:
                call.fail(error)

    def _next_batch(self) -> list[_Call]:
        """Calls with at most `max_batch_size` inputs, at least one call; none when it is closed and all is done."""
        with self._changed:
            while True:
                while not self._waiting and not self._closed:
                    self._changed.wait()
                begin = time.monotonic()
                while self._size < self.max_batch_size and not self._closed:
                    patience = self._patience if len(self._waiting) < self._last else 0.0
                    if (rest := begin + max(self.batch_wait_timeout, patience) - time.monotonic()) <= 0:
                        break
                    self._changed.wait(rest)
                if self._waiting or self._closed:  # else all calls were cancelled meanwhile
                    break
            return self._take()

    def _take(self, short: bool = False) -> list[_Call]:
        """The calls that wait for a batch, at least one of them; `short`: only calls that may share one, maybe none."""
        calls: list[_Call] = []
        left: deque[_Call] = deque()
        size = characters = 0
        for call in self._waiting:
            room = size + len(call.inputs) <= self.max_batch_size and characters + call.characters <= SHARED
            if (room or not (calls or short)) and (short or not left):
                calls.append(call)
                size, characters = size + len(call.inputs), characters + call.characters
            else:
                left.append(call)
        self._waiting, self._size = left, self._size - size
        return calls

    def _run(self, calls: list[_Call], between: bool) -> None:
        begin = time.monotonic()
        # Calls that share a batch are short: others that went before their end would make them wait longer than those that come last.
        alone = len(calls) == 1 and not between

        def pause(for_others: bool) -> None:
            if not any(call.wanted() for call in calls):
                raise NotWanted
            if for_others and alone and time.monotonic() - begin > PATIENCE:
                with self._changed:
                    others = self._take(short=True)
                self._answer(others, between=True)

        try:
            inputs = [one for call in calls for one in call.inputs]
            with shared(pause):
                results = list(self.predictor(inputs, **calls[0].options))
            if len(results) != len(inputs):
                raise RuntimeError(f"the predictor gave {len(results)} results for {len(inputs)} inputs.")
        except NotWanted:
            for call in calls:
                call.fail(TimeoutError("the call took longer than its timeout."))
            return
        except BaseException as error:  # whatever the error is, the thread must live on
            if len(calls) == 1:
                calls[0].fail(error)
                return
            # Each call by itself: the error goes to the call that caused it, and counts its own inputs.
            for call in calls:
                self._run([call], between)
            return
        self._pace = (time.monotonic() - begin) / max(1, len(inputs))
        start = 0
        for call in calls:
            if call.end():
                call.future.set_result(results[start : start + len(call.inputs)])
            start += len(call.inputs)


_predictors: "weakref.WeakSet[BatchingPredictor[Any]]" = weakref.WeakSet()


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
