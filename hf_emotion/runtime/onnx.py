# SPDX-License-Identifier: Apache-2.0
"""Runs what `hf-emotion export` has written, with onnxruntime on the CPU. Needs neither torch nor transformers."""

import ctypes
import os
import sys
import threading
import weakref
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np

from ..io.extras import require
from .exported import read_exported_config


if TYPE_CHECKING:
    import onnxruntime


os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # onnxruntime would report the use to its makers

# A classifier is one graph; one for dialogues has another graph before it, which encodes utterances; a generator has two.
MODEL, ENCODER, DECODER = "model.onnx", "encoder.onnx", "decoder.onnx"


def is_exported(checkpoint: str | Path) -> bool:
    """Whether a folder holds an exported model."""
    return any((Path(checkpoint) / name).is_file() for name in (MODEL, DECODER))


class Session:
    """
    A graph that any thread can run. It uses as many threads as torch, or, if torch is not loaded, `OMP_NUM_THREADS` or one per
    core. A forked process opens it again, because onnxruntime's threads stay behind in the parent.
    """

    def __init__(self, path: Path):
        self.path = path
        self._lock = threading.Lock()
        self._opened: onnxruntime.InferenceSession | None = _open(path)
        _sessions.add(self)

    def __reduce__(self):
        return Session, (self.path,)

    def get(self) -> "onnxruntime.InferenceSession":
        with self._lock:
            if self._opened is None:
                self._opened = _open(self.path)
            return self._opened

    def __call__(self, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """The outputs of the graph, in its order."""
        return self.get().run(None, dict(inputs))

    def inputs(self) -> list:
        return self.get().get_inputs()

    def outputs(self) -> list[str]:
        return [value.name for value in self.get().get_outputs()]


_sessions: "weakref.WeakSet[Session]" = weakref.WeakSet()


def _leave_sessions_behind() -> None:
    for session in list(_sessions):
        session._lock = threading.Lock()
        if session._opened is not None:
            # Never freed: its destructor would wait for threads that the child does not have.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(session._opened))
            session._opened = None


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_leave_sessions_behind)


def _threads_of_openmp() -> int:
    """The first number of OMP_NUM_THREADS, which may list one for each nested level; 0, onnxruntime's own choice, without one."""
    first = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return int(first) if first.isdecimal() else 0


def _open(path: Path) -> "onnxruntime.InferenceSession":
    require("onnxruntime", f"{path.parent}, an exported model,", "onnx")
    import onnxruntime

    options = onnxruntime.SessionOptions()
    torch = sys.modules.get("torch")  # torch is not imported only for this
    options.intra_op_num_threads = _threads_of_openmp() if torch is None else torch.get_num_threads()
    options.log_severity_level = 3  # onnxruntime's severity for errors
    try:
        return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's errors share no class
        raise OSError(f"{path} cannot be read: export the model again ({error}).") from error


class OnnxClassifier:
    """
    An exported classifier as the predictors call a model: `config`, and a call that takes arrays and returns `logits`.

    Attributes:
        takes_arrays: True, which distinguishes it from a torch model, which takes tensors.
        reads, gives: names of the graph's inputs and outputs.
    """

    takes_arrays = True
    training = False
    device = SimpleNamespace(type="cpu")

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)
        self.config = read_exported_config(self.folder)
        self.session = Session(self.folder / MODEL)
        self.reads = [value.name for value in self.session.inputs()]
        self.gives = self.session.outputs()

    def eval(self) -> "OnnxClassifier":
        return self

    def __call__(self, **inputs: np.ndarray) -> SimpleNamespace:
        """The outputs of the torch model for its inputs: `logits`, float32, (B, C), for dialogues (B, U, C), and others."""
        if "pooling_mask" in self.reads:
            inputs.setdefault("pooling_mask", inputs["attention_mask"])
        return SimpleNamespace(**dict(zip(self.gives, self.session(inputs), strict=True)))
