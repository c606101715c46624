# SPDX-License-Identifier: Apache-2.0
"""
Stores the weights of an ONNX graph in fewer bytes. Unlike `quantize_graph` it changes no arithmetic: onnxruntime makes float32 numbers of
them when it opens the graph (constant folding), and of a row of embeddings when it is looked up.
"""

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np


if TYPE_CHECKING:
    import onnx

SMALLEST = 65_536  # smaller weights stay float32
BLOCK = 64  # numbers of a column that share a scale; rows of embeddings have one each


class Storage(NamedTuple):
    """Bits of a weight, 8 to 12, in tables of embeddings and in matrices; 16 is float16."""

    name: str
    embeddings: int
    matrices: int


def compact_graph(source: Path, target: Path, storage: Storage) -> None:
    """Write the graph with its weights stored so. The low bits of more than 8 stand in an array of their own, which gzip packs."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    model = onnx.load(source)
    graph = model.graph
    large = {tensor.name: tensor for tensor in graph.initializer if _is_large(tensor)}
    nodes: list[onnx.NodeProto] = []

    def constant(name: str, value: np.ndarray) -> str:
        graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def node(kind: str, name: str, *inputs: str, **attributes) -> str:
        nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def to_float(name: str, codes: dict[str, str]) -> str:
        """The numbers for codes, {"high", and maybe "low" and "scale": the name of an array}."""
        value = node("Cast", f"{name}.high.float", codes["high"], to=TensorProto.FLOAT)
        if "low" in codes:
            factor = constant(f"{name}.factor", np.float32(codes_per_high[name]))
            value = node("Mul", f"{name}.scaled", value, factor)
            low = node("Cast", f"{name}.low.float", codes["low"], to=TensorProto.FLOAT)
            value = node("Add", f"{name}.code", value, low)
        return node("Mul", f"{name}.blocks", value, codes["scale"]) if "scale" in codes else value

    codes_per_high: dict[str, int] = {}
    done: dict[str, dict[str, str]] = {}
    for original in list(graph.node):
        place = {"MatMul": 1, "Gemm": 1, "Gather": 0}.get(original.op_type, -1)
        name = original.input[place] if place >= 0 else ""
        if name in large:
            is_table = original.op_type == "Gather"
            if name not in done:
                weight = numpy_helper.to_array(large[name])
                bits = storage.embeddings if is_table else storage.matrices
                arrays, codes_per_high[name] = _stored(weight, bits, is_table)
                done[name] = {part: constant(f"{name}.{part}", value) for part, value in arrays.items()}
                if not is_table:
                    shape = constant(f"{name}.shape", np.array(weight.shape, np.int64))
                    node("Reshape", f"{name}.weight", to_float(name, done[name]), shape)
            if is_table:
                codes = {
                    part: node("Gather", f"{original.name}.{part}", array, original.input[1])
                    for part, array in done[name].items()
                }
                unique = f"{name}.of.{original.name}"
                codes_per_high[unique] = codes_per_high[name]
                node("Identity", original.output[0], to_float(unique, codes))
                continue
            original.input[place] = f"{name}.weight"
        nodes.append(original)
    used = {name for one in nodes for name in one.input}
    kept = [tensor for tensor in graph.initializer if tensor.name in used]
    for field, values in ((graph.node, nodes), (graph.initializer, kept), (graph.value_info, [])):
        del field[:]
        field.extend(values)
    onnx.save(model, target)


def _is_large(tensor: "onnx.TensorProto") -> bool:
    return len(tensor.dims) == 2 and tensor.dims[0] * tensor.dims[1] >= SMALLEST and tensor.data_type == 1


def _stored(weight: np.ndarray, bits: int, is_table: bool) -> tuple[dict[str, np.ndarray], int]:
    """The arrays for a weight, and how many codes share a high part. A matrix (K, N) is (K / BLOCK, BLOCK, N)."""
    if not is_table:
        weight = weight.reshape(-1, BLOCK if len(weight) % BLOCK == 0 else len(weight), weight.shape[1])
    if bits == 16:
        return {"high": weight.astype(np.float16)}, 1
    largest = 2 ** (bits - 1) - 1
    scale = np.abs(weight).max(axis=1, keepdims=True) / np.float32(largest)
    scale[scale == 0] = 1
    codes = np.rint(weight / scale).astype(np.int32)
    extra = bits - 8
    arrays = {"high": (codes >> extra).astype(np.int8), "scale": scale.astype(np.float32)}
    return arrays | ({"low": (codes & (2**extra - 1)).astype(np.uint8)} if extra else {}), 2**extra
