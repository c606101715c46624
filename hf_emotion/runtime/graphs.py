# SPDX-License-Identifier: Apache-2.0
"""Writes a torch module as an ONNX graph; records the calls of a model and their results."""

import logging
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import nn


class _Recorder:
    """Takes the place of a model in its predictor and keeps inputs and logits of every call."""

    def __init__(self, model):
        self.model, self.calls = model, []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)

    def __call__(self, **inputs):
        outputs = self.model(**inputs)
        tensors = {name: torch.as_tensor(value) for name, value in inputs.items()}
        self.calls.append((tensors, torch.as_tensor(outputs.logits)))
        return outputs


@contextmanager
def recording(predictor) -> Iterator[list[tuple[dict[str, torch.Tensor], torch.Tensor]]]:
    recorder = _Recorder(predictor.model)
    predictor.model = recorder
    try:
        yield recorder.calls
    finally:
        predictor.model = recorder.model


class _Named(nn.Module):
    """A function of named tensors as a module with positional arguments, to which torch.export gives the names it is told."""

    def __init__(self, owner: nn.Module, names: Sequence[str], function: Callable[[dict[str, torch.Tensor]], Any]):
        super().__init__()
        self.owner, self.names, self.function = owner, list(names), function

    def forward(self, *tensors):
        return self.function(dict(zip(self.names, tensors, strict=True)))


def write_graph(
    path: Path,
    owner: nn.Module,
    function: Callable[[dict[str, torch.Tensor]], Any],
    example: Mapping[str, torch.Tensor],
    outputs: Sequence[str],
    dynamic: Callable[[str], tuple[int, ...]] = lambda name: (0, 1),
) -> Path:
    """Write `function` (inputs by name -> outputs) of `owner` as a graph; `dynamic`: the dimensions of an input that may have any size."""
    from onnx_ir.passes.common import ClearMetadataAndDocStringPass

    example = {name: tensor.clone() for name, tensor in example.items()}  # no graph can be made in inference mode
    shapes = tuple(
        {i: torch.export.Dim.DYNAMIC for i in dynamic(name) if i < tensor.dim()} for name, tensor in example.items()
    )
    with _quiet(), torch.no_grad(), mock.patch.object(nn.LSTM, "forward", _lstm_forward):
        program = torch.export.export(
            _Named(owner, list(example), function), tuple(example.values()), dynamic_shapes=(shapes,), strict=False
        )
        exported = torch.onnx.export(
            program,
            dynamo=True,
            input_names=list(example),
            output_names=list(outputs),
            verbose=False,
            custom_translation_table={
                torch.ops.aten._cdist_forward.default: _l1_distances,
                torch.ops.hf_emotion.lstm.default: _lstm_node,
            },
        )
        # Notes which lines of which local files led to each node: private, and most of a small file's size.
        ClearMetadataAndDocStringPass()(exported.model)
        exported.save(path)
    return path


# torch.export would unroll an LSTM for one length. Ours have one layer, `batch_first`, and no initial states.
torch.library.define(
    "hf_emotion::lstm", "(Tensor states, Tensor input_weight, Tensor hidden_weight, Tensor bias) -> Tensor"
)


@torch.library.register_fake("hf_emotion::lstm")
def _(states, input_weight, hidden_weight, bias):
    return states.new_empty(*states.shape[:2], hidden_weight.shape[-1])


def _lstm_forward(module: nn.LSTM, states: torch.Tensor) -> tuple[torch.Tensor, None]:
    """(B, T, I) -> (B, T, H). torch orders the gates i, f, c, o; ONNX orders them i, o, f, c."""

    def ordered(weight: torch.Tensor) -> torch.Tensor:
        i, f, c, o = weight.chunk(4)
        return torch.cat([i, o, f, c])

    bias = torch.cat([ordered(module.bias_ih_l0), ordered(module.bias_hh_l0)])
    weights = (ordered(module.weight_ih_l0)[None], ordered(module.weight_hh_l0)[None], bias[None])
    return torch.ops.hf_emotion.lstm(states, *weights), None


def _lstm_node(states, input_weight, hidden_weight, bias):
    from onnxscript import opset18 as op

    turned = op.Transpose(states, perm=[1, 0, 2])
    output, _, _ = op.LSTM(turned, input_weight, hidden_weight, bias, hidden_size=hidden_weight.shape[-1])
    return op.Transpose(op.Squeeze(output, [1]), perm=[1, 0, 2])  # from (T, 1, B, H)


def _l1_distances(first, second, p, compute_mode=None):
    """`torch.cdist(p=1)`, which the exporter does not know: (N, L, d), (N, M, d) -> (N, L, M)."""
    from onnxscript import opset18 as op

    differences = op.Sub(op.Unsqueeze(first, [-2]), op.Unsqueeze(second, [-3]))
    return op.ReduceSum(op.Abs(differences), [-1], keepdims=0)


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the exporters' logs and warnings, which are about options that this machine lacks and deprecated uses of torch."""
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)
