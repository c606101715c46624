# SPDX-License-Identifier: Apache-2.0
"""One predictor under many callers: threads, forks, and dynamic batching."""

import json
import logging
import multiprocessing
import os
import pickle
import queue
import signal
import sys
import threading
import time
from concurrent.futures import CancelledError, ThreadPoolExecutor, wait
from types import SimpleNamespace

import numpy as np
import pyarrow
import pytest
import torch
from endurance import soak
from endurance.small_model import MAX_LENGTH, draw_texts, save_small_classifier
from toolkit_helpers import torch_threads

from hf_emotion import Predictor
from hf_emotion.runtime.sharing import pause
from hf_emotion.serving import fastest, threads
from hf_emotion.serving.threads import BatchingPredictor
from hf_emotion.tasks.predictor import LabelPredictor


FORK = "fork" in multiprocessing.get_all_start_methods()
pytest_plugins = ["endurance.fixtures"]


@pytest.fixture(scope="module")
def texts(predictor) -> list[str]:
    return draw_texts(predictor, 100)


class Recorder:
    """A predictor that doubles numbers: it records its batches, waits for leave, and refuses some inputs."""

    def __init__(self):
        self.batches: list[tuple[list, dict]] = []
        self.leave, self.busy = threading.Event(), threading.Event()
        self.leave.set()

    def __call__(self, inputs, **options):
        self.batches.append((inputs, options))
        self.busy.set()
        assert self.leave.wait(30)
        if "bad" in inputs:
            raise ValueError(f"input {inputs.index('bad') + 1} of {len(inputs)} is bad")
        return [2 * number for number in inputs]


class Timed(LabelPredictor):
    """A model of two labels that needs some milliseconds."""

    model = SimpleNamespace(config=None)

    def __init__(self, milliseconds, score=0.5, units="texts"):
        self.milliseconds, self.score, self.units = milliseconds, score, units

    def probabilities(self, texts):
        time.sleep(self.milliseconds / 1000)
        return np.full((len(texts), 2), self.score, np.float32)


@pytest.mark.parametrize(("stored", "half", "chosen"), [([30, 30], [10, 10], "bfloat16"), ([30, 10], [10, 30], None)])
def test_the_fastest_number_type_is_taken_where_all_models_gain(stored, half, chosen, monkeypatch, caplog):
    found = {None: [Timed(one) for one in stored], "bfloat16": [Timed(one, 0.512) for one in half]}
    monkeypatch.setattr(fastest, "load_predictor", lambda name, dtype=None: found[dtype][int(name)])
    monkeypatch.setattr(fastest, "SECONDS", 0.1)
    assert fastest.fastest([str(i) for i in range(len(stored))]) == chosen
    assert "scores move by up to 0.012" in caplog.text and f"number type: {chosen or 'as stored'}" in caplog.text


def test_the_fastest_number_type_of_models_without_texts(monkeypatch):
    monkeypatch.setattr(fastest, "load_predictor", lambda name, dtype=None: Timed(1, units="utterances"))
    with pytest.raises(ValueError, match="choose a type"):
        fastest.fastest(["dialogues"])


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def held(recorder):
    """A batching predictor whose thread is busy with a first call, and that call."""
    with BatchingPredictor(recorder, max_batch_size=4, max_queue_size=6) as batching:
        recorder.leave.clear()
        first = batching.submit([0])
        assert recorder.busy.wait(10)
        yield batching, first
        recorder.leave.set()


class TestBatches:
    def test_calls_that_wait_go_together_up_to_the_limit(self, recorder, held):
        batching, first = held
        futures = [batching.submit(inputs) for inputs in ([1], [2, 3], [4], [5])]
        recorder.leave.set()
        assert first.result(10) == [0]
        assert [future.result(10) for future in futures] == [[2], [4, 6], [8], [10]]
        assert batching([*range(9)], timeout=10) == [*range(0, 18, 2)]  # stays whole
        assert [inputs for inputs, _ in recorder.batches] == [[0], [1, 2, 3, 4], [5], [*range(9)]]

    def test_only_calls_with_the_same_options(self, recorder, held):
        batching, _ = held
        futures = [batching.submit([n], top_k=n % 2) for n in range(1, 5)]
        recorder.leave.set()
        assert [future.result(10) for future in futures] == [[2], [4], [6], [8]]
        assert recorder.batches[1:] == [([1, 3], {"top_k": 1}), ([2, 4], {"top_k": 0})]

    def test_waits_for_more(self, recorder):
        with BatchingPredictor(recorder, max_batch_size=3, batch_wait_timeout=20) as batching:
            futures = [batching.submit([n]) for n in range(3)]  # full: no longer wait
            assert [future.result(10) for future in futures] == [[0], [2], [4]]
        assert [inputs for inputs, _ in recorder.batches] == [[0, 1, 2]]

    def test_waits_a_moment_for_the_callers_of_the_last_batch(self):
        batches = []

        def slow(inputs):
            batches.append(inputs)
            time.sleep(0.4)
            return inputs

        with BatchingPredictor(slow) as batching:
            for numbers, pause_between in (([1, 2, 3], 0.15), ([4, 5], 0.02), ([6], 0), ([7, 8], 0.25)):
                futures = []
                for number in numbers:
                    futures.append(batching.submit([number]))
                    time.sleep(pause_between)
                wait(futures)
        assert batches == [[1], [2, 3], [4, 5], [6], [7], [8]]

    def test_how_long_the_queue_takes_at_the_pace_of_the_last_batch(self):
        def slowly(texts):
            time.sleep(0.1 * len(texts))
            return texts

        with BatchingPredictor(slowly, max_batch_size=2) as predict:
            assert predict.seconds_waiting == 0
            predict(["a", "b"])
            futures = [predict.submit([str(i)] * 2) for i in range(5)]
            assert 0.6 < predict.seconds_waiting < 1.5
            for future in futures:
                future.cancel()
            assert predict.seconds_waiting == 0

    def test_a_single_string_and_nothing(self, recorder):
        with BatchingPredictor(recorder) as batching:
            assert batching("ab") == ["abab"]
            assert batching([]) == []
        with BatchingPredictor(lambda inputs: inputs[1:]) as losing:
            with pytest.raises(RuntimeError, match="0 results for 1"):
                losing([1])

    def test_a_full_queue_and_cancelled_calls_which_leave_their_places_to_others(self, recorder, held):
        batching, _ = held
        gone = [batching.submit([n, n]) for n in range(3)]
        with pytest.raises(queue.Full, match=r"6 inputs wait already and 1 more came, at most 6 may wait"):
            batching.submit([1])
        assert all(future.cancel() for future in gone) and batching.waiting == 0
        assert wait(gone, timeout=0).done == set(gone)
        taken = batching.submit([1, 2, 3, 4, 5, 6])
        recorder.leave.set()
        assert taken.result(10) == [2, 4, 6, 8, 10, 12] and batching([3]) == [6]

    def test_all_calls_cancelled_while_it_waits_for_more(self, recorder):
        with BatchingPredictor(recorder, max_batch_size=2, batch_wait_timeout=0.3) as batching:
            batching.submit([1]).cancel()
            assert batching.waiting == 0
            time.sleep(0.5)
            assert batching([2], timeout=10) == [4]


class TestErrors:
    def test_reach_only_the_caller_whose_input_is_bad(self, recorder, held):
        batching, _ = held
        futures = [batching.submit([1]), batching.submit([2, "bad"]), batching.submit([3])]
        recorder.leave.set()
        assert futures[0].result(10) == [2] and futures[2].result(10) == [6]
        with pytest.raises(ValueError, match="input 2 of 2 is bad"):  # its own numbers
            futures[1].result(10)
        assert batching([7]) == [14]

    def test_a_timeout_drops_the_call(self, recorder, held):
        batching, first = held
        with pytest.raises(TimeoutError, match="no answer within 0.05 s"):
            batching([1], timeout=0.05)
        expired = batching.submit([2], timeout=0.05)
        time.sleep(0.1)
        recorder.leave.set()
        with pytest.raises(TimeoutError, match="waited longer"):
            expired.result(10)
        assert first.result(10) == [0] and batching([3]) == [6]
        assert [inputs for inputs, _ in recorder.batches] == [[0], [3]]

    @pytest.mark.parametrize("cancel", [False, True])
    def test_close_answers_or_cancels_what_waits(self, recorder, held, cancel):
        batching, first = held
        waiting = batching.submit([1])
        threading.Timer(0.05, recorder.leave.set).start()
        batching.close(cancel_futures=cancel)
        assert first.result(0) == [0] and waiting.cancelled() is cancel
        assert cancel or waiting.result(0) == [2]
        with pytest.raises(RuntimeError, match="closed"):
            batching([2])
        batching.close()

    def test_options_that_cannot_be_compared(self, recorder, held):
        batching, first = held
        futures = [batching.submit([n], top_k=np.array([1, 2]) + n) for n in (1, 2)]
        recorder.leave.set()
        assert first.result(10) == [0] and [future.result(10) for future in futures] == [[2], [4]]
        assert batching([3], timeout=10) == [6]

    @pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
    def test_a_thread_that_ends_tells_who_waits_and_begins_anew(self, recorder, held, monkeypatch):
        batching, first = held
        waiting = batching.submit([1])
        with monkeypatch.context() as patch:
            patch.setattr(batching, "_next_batch", lambda: 1 / 0)
            recorder.leave.set()
            with pytest.raises(ZeroDivisionError):
                waiting.result(10)
            batching._thread.join(10)
            assert first.result(10) == [0] and not batching.alive
        assert batching([2], timeout=10) == [4] and batching.alive

    def test_wrong_settings(self, recorder):
        for name, value in (("max_batch_size", 0), ("batch_wait_timeout", -1), ("max_queue_size", 0)):
            with pytest.raises(ValueError, match=f"`{name}`.* at least"):
                BatchingPredictor(recorder, **{name: value})

    @pytest.mark.parametrize("inputs", [{"a", "b"}, b"ab", pyarrow.table({"text": ["a"]})])
    def test_what_is_no_list(self, recorder, inputs):
        """Iterating over a table would predict the names of its columns."""
        with BatchingPredictor(recorder) as batching, pytest.raises(TypeError, match="must be a string or a list"):
            batching(inputs)
        assert recorder.batches == []


class TestLongCalls:
    LONG = "a" * (threads.SHARED + 1)

    @pytest.fixture
    def slow(self, monkeypatch):
        """A predictor that reads long texts in a hundred batches, and a list of what it did."""
        monkeypatch.setattr(threads, "PATIENCE", 0)
        self.did = []

        def predict(inputs, **options):
            for _ in range(100 if self.LONG in inputs else 1):
                pause()
                self.did.append(len(inputs))
                time.sleep(0.02)
            return list(map(len, inputs))

        with BatchingPredictor(predict) as batching:
            yield batching

    def test_calls_that_share_a_batch_are_not_interrupted(self, monkeypatch):
        monkeypatch.setattr(threads, "PATIENCE", 0)
        ended = []

        def predict(inputs):
            for _ in range(20):
                time.sleep(0.01)
                pause()
            ended.append(inputs)
            return inputs

        with BatchingPredictor(predict, max_batch_size=2, batch_wait_timeout=10) as batching:
            first = [batching.submit([1]), batching.submit([2])]
            time.sleep(0.1)
            wait([*first, batching.submit([3]), batching.submit([4])])
        assert ended == [[1, 2], [3, 4]]

    @pytest.mark.parametrize("how", ["cancelled", "expired"])
    def test_it_ends_when_nobody_waits_for_it(self, slow, how):
        long = slow.submit([self.LONG], timeout=0.3 if how == "expired" else None)
        assert slow(["so"], timeout=10) == [2]
        assert how == "expired" or long.cancel()
        with pytest.raises(TimeoutError if how == "expired" else CancelledError):
            long.result(10)
        assert slow(["happy"], timeout=10) == [5] and len(self.did) < 60


class TestThreads:
    def test_cut_and_short_texts_at_once(self, predictor):
        """Truncation is a setting of the tokenizer, which one thread would change under another."""
        long, short = "happy " * (2 * MAX_LENGTH), "sad day"
        expected = {text: predictor.label_probabilities([text] * 4) for text in (long, short)}

        def work(text: str) -> bool:
            return all(np.allclose(predictor.label_probabilities([text] * 4), expected[text]) for _ in range(10))

        interval = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        try:
            with ThreadPoolExecutor(8) as pool:
                assert all(pool.map(work, [long, short] * 4))
        finally:
            sys.setswitchinterval(interval)

    @pytest.mark.slow
    def test_soak(self, caplog, capfd):
        caplog.set_level(logging.ERROR, "hf_emotion")
        with torch_threads(2), pytest.raises(SystemExit) as end:
            soak.main(["--minutes", "0.1", "--forks", "1" if FORK else "0"])
        found = json.loads(capfd.readouterr().out)
        # Within seconds the allocator is still taking what it will keep: more than the command allows.
        assert found["memory_growth_mib"] < 30 and bool(end.value.code) is (found["memory_growth_mib"] > 20)
        assert found["threads"] == 16 and found["forks"] == int(FORK)
        assert found["errors"] == [] and found["wrong"] == found["stuck_threads"] == found["failed_forks"] == 0
        assert found["answers"] > 100 and found["refused"] > 0


@pytest.mark.skipif(not FORK, reason="no fork on this system")
class TestForks:
    def ask(self, predictor, inputs, expected, answer) -> None:
        answer.put(soak.same(predictor(inputs), expected))

    def in_a_child(self, predictor, inputs, expected) -> bool:
        context = multiprocessing.get_context("fork")
        answer = context.Queue()
        child = context.Process(target=self.ask, args=(predictor, inputs, expected, answer), daemon=True)
        child.start()
        try:
            return answer.get(timeout=60)
        finally:
            child.kill()

    def test_after_the_parent_has_predicted_with_many_threads(self, tmp_path):
        """GNU's OpenMP never comes back from a parallel region in such a child."""
        torch.manual_seed(0)
        predictor = Predictor(save_small_classifier(tmp_path / "model", hidden_size=256), device="cpu")
        texts = ["happy sad day night " * 6] * 64
        with torch_threads(2):
            expected = predictor(texts)
            assert self.in_a_child(predictor, texts, expected)
            with BatchingPredictor(predictor) as batching:
                assert soak.same(batching(texts), expected)
                assert self.in_a_child(batching, texts, expected)
                assert soak.same(batching(texts), expected)

    def test_while_another_thread_tokenizes(self, predictor, texts):
        stop, expected = threading.Event(), predictor(texts[:9])

        def work():
            while not stop.is_set():
                predictor(texts)

        with ThreadPoolExecutor(4) as pool:
            for _ in range(4):
                pool.submit(work)
            try:
                assert all(self.in_a_child(predictor, texts[:9], expected) for _ in range(5))
            finally:
                stop.set()

    def test_a_graph_of_onnxruntime(self, tmp_path):
        """Its threads stay in the parent, and its destructor waits for them: at the child's end too."""
        onnx = pytest.importorskip("onnx")
        from hf_emotion.runtime.onnx import Session

        a, b, c = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, (512, 512)) for name in "abc")
        graph = onnx.helper.make_graph([onnx.helper.make_node("MatMul", ["a", "b"], ["c"])], "product", [a, b], [c])
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9)
        onnx.save(model, tmp_path / "product.onnx")
        draw = np.random.default_rng(0)
        inputs = {name: draw.integers(-3, 4, (512, 512)).astype(np.float32) for name in "ab"}
        with torch_threads(2):
            session = Session(tmp_path / "product.onnx")
        expected = inputs["a"] @ inputs["b"]
        assert np.array_equal(session(inputs)[0], expected)
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            try:
                code = 0 if np.array_equal(session(inputs)[0], expected) else 1
                del session
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        with ThreadPoolExecutor(4) as pool:
            assert all(np.array_equal(found[0], expected) for found in pool.map(session, [inputs] * 8))
        assert np.array_equal(pickle.loads(pickle.dumps(session))(inputs)[0], expected)
