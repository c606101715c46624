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

WEIGHTS = {"MatMul": 1, "Gemm": 1, "Gather": 0}  # which input of a node is the weight
PARTS = 8  # codes of more than 8 bits that share a high part
SMALLEST = 65_536  # smaller weights stay float32
BLOCK = 64  # numbers of a column that share a scale; rows of embeddings have one each


class Storage(NamedTuple):
    """Bits of a weight, 8 to 11, in tables of embeddings and in matrices; 16 is float16."""

    name: str
    embeddings: int
    matrices: int


def compact_graph(source: Path, target: Path, storage: Storage) -> None:
    """Write the graph with its weights stored so. The low bits of more than 8 stand in an array of their own, which gzip packs."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    model = onnx.load(source)
    graph = model.graph
    large = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer if _is_large(tensor)}
    nodes: list[onnx.NodeProto] = []

    def add(kind: str, name: str, *inputs: str, **attributes) -> str:
        nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def constant(name: str, value: np.ndarray) -> str:
        graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def to_float(name: str, parts: dict[str, str]) -> str:
        """(8 high + low) scale, or, of float16, high."""
        value, *low = (
            add("Cast", f"{name}.{part}", parts[part], to=TensorProto.FLOAT) for part in parts if part != "scale"
        )
        if low:
            value = add("Add", f"{name}.codes", add("Mul", f"{name}.times", value, eight), *low)
        return add("Mul", f"{name}.floats", value, parts["scale"]) if "scale" in parts else value

    eight = constant("codes.per.high", np.array(PARTS, np.float32))
    done: dict[str, dict[str, str]] = {}
    for node in list(graph.node):
        is_table, place = node.op_type == "Gather", WEIGHTS.get(node.op_type)
        name = "" if place is None else node.input[place]
        if name not in large or any(one.name == "axis" and one.i for one in node.attribute):
            nodes.append(node)
            continue
        own = f"{name}.{'rows' if is_table else 'whole'}"
        new = own not in done
        if new:
            arrays = _stored(large[name], storage.embeddings if is_table else storage.matrices, is_table)
            done[own] = {part: constant(f"{own}.{part}.stored", value) for part, value in arrays.items()}
        if is_table:  # only the rows that are looked up become float32
            output, ids = node.output[0], node.input[1]
            rows = {part: add("Gather", f"{output}.{part}.rows", array, ids) for part, array in done[own].items()}
            add("Identity", output, to_float(output, rows))
            continue
        if new:
            add(
                "Reshape",
                own,
                to_float(own, done[own]),
                constant(f"{own}.shape", np.array(large[name].shape, np.int64)),
            )
        node.input[place] = own
        nodes.append(node)
    used = {name for node in nodes for name in node.input}
    kept = [tensor for tensor in graph.initializer if tensor.name in used]
    for field, values in ((graph.node, nodes), (graph.initializer, kept), (graph.value_info, [])):
        del field[:]
        field.extend(values)
    onnx.save(model, target)


def _is_large(tensor: "onnx.TensorProto") -> bool:
    return len(tensor.dims) == 2 and tensor.dims[0] * tensor.dims[1] >= SMALLEST and tensor.data_type == 1


def _stored(weight: np.ndarray, bits: int, is_table: bool) -> dict[str, np.ndarray]:
    """The arrays for a weight. A matrix (K, N) is (K / BLOCK, BLOCK, N)."""
    if not is_table:
        weight = weight.reshape(-1, BLOCK if len(weight) % BLOCK == 0 else len(weight), weight.shape[1])
    if bits == 16:
        return {"high": weight.astype(np.float16)}
    scale = np.abs(weight).max(axis=1, keepdims=True) / np.float32(2 ** (bits - 1) - 1)
    scale[scale == 0] = 1
    codes = np.rint(weight / scale).astype(np.int16)
    if bits == 8:
        return {"high": codes.astype(np.int8), "scale": scale}
    return {"high": (codes // PARTS).astype(np.int8), "low": (codes % PARTS).astype(np.uint8), "scale": scale}
