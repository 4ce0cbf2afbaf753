"""A model whose products of bytes ONNX Runtime computes exactly on every processor.

    y = MatMulInteger(a, b)   ->   y = MatMulInteger(a, uint8(b + 128), 0, 128)

for factors `b` of int8: `b - zero_point` stays what it is. Where a processor adds up products of unsigned and signed
bytes in pairs, in 16 bits (x86 with AVX2 and without VNNI), ONNX Runtime's sums are cut at 32767, and wrong; those of
unsigned bytes are right everywhere. Its own way out, `session.x64quantprecision`, is one of its optimisations, and
leaves QLinearMatMul and QLinearConv as they are.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper

# Operator -> the places of its second factor and of that factor's zero point among its inputs.
FACTORS = {
    "MatMulInteger": (1, 3),
    "ConvInteger": (1, 3),
    "QLinearMatMul": (3, 5),
    "QLinearConv": (3, 5),
    "QGemm": (3, 5),
    "MatMulIntegerToFloat": (1, 5),
    "DynamicQuantizeMatMul": (1, 3),
}


def make_products_exact(model: onnx.ModelProto) -> None:
    """Rewrite the products of the main graph whose second factor or its zero point is a constant of int8."""
    graph = model.graph
    signed = {tensor.name for tensor in graph.initializer if tensor.data_type == TensorProto.INT8}
    nodes: list[NodeProto] = []
    shifted: set[str] = set()
    for node in graph.node:
        places = FACTORS.get(node.op_type, ())
        if any(name in signed for name in _inputs(node, places)):
            node.input.extend([""] * (max(places) + 1 - len(node.input)))
            for place in places:
                name = node.input[place]
                node.input[place] = f"{name}::unsigned"
                if name not in shifted:
                    nodes += _shift(name)
                    shifted.add(name)
        nodes.append(node)
    del graph.node[:]
    graph.node.extend(nodes)


def _inputs(node: NodeProto, places: Sequence[int]) -> list[str]:
    return [node.input[place] for place in places if place < len(node.input)]


def _shift(name: str) -> list[NodeProto]:
    """Nodes that make uint8 of a value of int8, or of no value, which is 0."""
    half = numpy_helper.from_array(np.array(128, np.uint8 if not name else np.int32))
    if not name:
        return [helper.make_node("Constant", [], ["::unsigned"], value=half)]
    wide, moved, by = (f"{name}::{step}" for step in ("wide", "moved", "by"))
    return [
        helper.make_node("Constant", [], [by], value=half),
        helper.make_node("Cast", [name], [wide], to=TensorProto.INT32),
        helper.make_node("Add", [wide, by], [moved]),
        helper.make_node("Cast", [moved], [f"{name}::unsigned"], to=TensorProto.UINT8),
    ]
