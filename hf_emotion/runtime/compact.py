# SPDX-License-Identifier: Apache-2.0
"""Stores the weights of an ONNX graph in fewer bytes."""

import platform
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np


WEIGHTS = {"MatMul": 1, "Gemm": 1, "Gather": 0}  # which input of a node is the weight
PARTS = 8  # codes of more than 8 bits that share a high part
SMALLEST = 65_536  # smaller weights stay float32
BLOCK = 64  # numbers of a column that share a scale; rows of embeddings have one each
LEAST_RANGE = 1e-8  # of a row, which is divided by it


class Storage(NamedTuple):
    """Bits of a weight, 8 to 11, in tables of embeddings and in matrices; 16 is float16."""

    name: str
    embeddings: int
    matrices: int


class _Rewriting:
    """A graph whose nodes are written again, in order, into `nodes`."""

    def __init__(self, path: Path):
        import onnx
        from onnx import numpy_helper

        self.model = onnx.load(path)
        self.graph = self.model.graph
        self.old = list(self.graph.node)
        self.nodes: list[Any] = []
        self.matrices = {
            tensor.name: numpy_helper.to_array(tensor)
            for tensor in self.graph.initializer
            if len(tensor.dims) == 2 and tensor.data_type == onnx.TensorProto.FLOAT
        }

    def add(self, kind: str, name: str, *inputs: str, **attributes) -> str:
        from onnx import helper

        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def constant(self, name: str, value: np.ndarray) -> str:
        from onnx import numpy_helper

        self.graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def save(self, path: Path) -> None:
        """Write the graph, without the constants that no node reads any more and without the notes of shapes, some of which are wrong."""
        import onnx

        used = {name for node in self.nodes for name in node.input}
        kept = [tensor for tensor in self.graph.initializer if tensor.name in used]
        for field, values in (
            (self.graph.node, self.nodes),
            (self.graph.initializer, kept),
            (self.graph.value_info, []),
        ):
            del field[:]
            field.extend(values)
        onnx.save(self.model, path)


def compact_graph(source: Path, target: Path, storage: Storage) -> None:
    """
    Write the graph with its weights stored so. No arithmetic changes: onnxruntime makes float32 numbers of them when it opens the graph
    (constant folding), and of a row of embeddings when it is looked up. The low bits of more than 8 stand in an array of their own, which
    gzip packs.
    """
    from onnx import TensorProto

    new_graph = _Rewriting(source)
    add, constant = new_graph.add, new_graph.constant
    large = {name: weight for name, weight in new_graph.matrices.items() if weight.size >= SMALLEST}

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
    for node in new_graph.old:
        is_table, place = node.op_type == "Gather", WEIGHTS.get(node.op_type)
        name = "" if place is None else node.input[place]
        if name not in large or any(one.name == "axis" and one.i for one in node.attribute):
            new_graph.nodes.append(node)
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
        new_graph.nodes.append(node)
    new_graph.save(target)


def _stored(weight: np.ndarray, bits: int, is_table: bool) -> dict[str, np.ndarray]:
    """The arrays for a weight. A matrix (K, N) is (K / BLOCK, BLOCK, N)."""
    if not is_table:
        weight = weight.reshape(-1, BLOCK if len(weight) % BLOCK == 0 else len(weight), weight.shape[1])
    if bits == 16:
        return {"high": weight.astype(np.float16)}
    codes, scale = _codes(weight, 2 ** (bits - 1) - 1)
    if bits == 8:
        return {"high": codes.astype(np.int8), "scale": scale}
    return {"high": (codes // PARTS).astype(np.int8), "low": (codes % PARTS).astype(np.uint8), "scale": scale}


def _codes(weight: np.ndarray, largest: int, axis: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Whole numbers up to `largest`, int16, and the scale of each column (or row) by which they give the weight."""
    scale = np.abs(weight).max(axis=axis, keepdims=True) / np.float32(largest)
    scale[scale == 0] = 1
    return np.rint(weight / scale).astype(np.int16), scale


def saturates() -> bool:
    """Whether this is an x86 processor without VNNI, whose 8-bit sums saturate, as far as Linux tells."""
    flags = Path("/proc/cpuinfo")
    return platform.machine() == "x86_64" and flags.is_file() and "_vnni" not in flags.read_text()


def quantize_graph(path: Path, quantize: Literal["int8", "uint8"]) -> None:
    """
    Multiply 8-bit integers wherever a graph multiplies by a constant matrix W (K, N), which has a scale for each column. The other factor
    gets its codes when the graph runs, each row x from its own least and largest number, so that no row depends on the rows beside it. With
    x ≈ least + step * codes is x W ≈ step * (codes W) + least * (sums of W's columns).
    """
    from onnx import TensorProto, helper

    new_graph = _Rewriting(path)
    add, constant = new_graph.add, new_graph.constant
    one, most = (
        constant("quantized.one", np.array(1, np.float32)),
        constant("quantized.most", np.array(255, np.float32)),
    )
    least_range = constant("quantized.least_range", np.array(LEAST_RANGE, np.float32))
    last = constant("quantized.last", np.array([-1], np.int64))
    zero = constant("quantized.zero", np.array(0, np.uint8))
    # "uint8" stores the codes of W 128 higher: without VNNI, products with signed ones saturate.
    signed = quantize == "int8"
    middle = constant("quantized.middle", np.array(0, np.int8) if signed else np.array(128, np.uint8))
    done: dict[str, tuple[str, str, str]] = {}

    def codes_of(x: str) -> tuple[str, str, str]:
        """Codes, step and least number of the rows of x, which several matrices may multiply."""
        if x not in done:
            least, largest = (add(f"Reduce{name}", f"{x}.{name}", x, last, keepdims=1) for name in ("Min", "Max"))
            spread = add("Max", f"{x}.spread", add("Sub", f"{x}.range", largest, least), least_range)
            step = add("Div", f"{x}.step", spread, most)
            steps = add("Div", f"{x}.steps", add("Sub", f"{x}.above", x, least), step)
            done[x] = add("QuantizeLinear", f"{x}.codes", steps, one, zero), step, least
        return done[x]

    for node in new_graph.old:
        settings = {one.name: helper.get_attribute_value(one) for one in node.attribute}
        transposed = settings.pop("transB", 0)
        plain = settings.pop("transA", 0) == 0 and all(value == 1 for value in settings.values())
        if node.op_type not in ("MatMul", "Gemm") or not plain or node.input[1] not in new_graph.matrices:
            new_graph.nodes.append(node)
            continue
        weight, name = new_graph.matrices[node.input[1]], node.output[0]
        weight, scale = _codes(weight.T if transposed else weight, 127, axis=0)
        stored = weight.astype(np.int8) if signed else (weight + 128).astype(np.uint8)
        codes, step, least = codes_of(node.input[0])
        whole = add("MatMulInteger", f"{name}.whole", codes, constant(f"{name}.weight", stored), zero, middle)
        product = add("Mul", f"{name}.product", add("Cast", f"{name}.floats", whole, to=TensorProto.FLOAT), step)
        sums = constant(f"{name}.sums", weight.sum(axis=0, dtype=np.float32))
        shifted = add("Add", f"{name}.shifted", product, add("Mul", f"{name}.least", least, sums))
        scaled = [shifted, constant(f"{name}.scale", scale[0])]
        bias = node.input[2:]
        add("Mul", f"{name}.scaled" if bias else name, *scaled)
        if bias:
            add("Add", name, f"{name}.scaled", *bias)
    new_graph.save(path)
