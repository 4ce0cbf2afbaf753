"""Rewrite a model so that ONNX Runtime computes products of bytes exactly on every processor.

    y = MatMulInteger(a, b)   ->   y = MatMulInteger(a, uint8(b + 128), 0, 128)

This is for factors `b` of int8. It is sound: factor and zero point grow by the same 128, so `b - zero_point` does not
change. It is needed on processors that add up products of unsigned and signed bytes in pairs, in 16 bits (x86 with AVX2
and without VNNI). There ONNX Runtime's sums are cut off at 32767, and wrong. Sums of products of unsigned bytes are
right everywhere. ONNX Runtime's own remedy, `session.x64quantprecision`, is one of its optimisations, and does not
change QLinearMatMul and QLinearConv.

Operators of which the first factor is int8 too stay as they are, where ONNX Runtime has no product of int8 and uint8.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper

# Operator -> the positions of its second factor and of that factor's zero point among its inputs, to be rewritten.
FACTORS = {
    "MatMulInteger": (1, 3),
    "ConvInteger": (1, 3),
    "QLinearMatMul": (3, 5),
    "QLinearConv": (3, 5),
    "QGemm": (3, 5),
    "MatMulIntegerToFloat": (1, 5),
    "DynamicQuantizeMatMul": (1, 3),
    "DynamicQuantizeLSTM": (),
}
"""Operators that multiply bytes. DynamicQuantizeLSTM is not rewritten: it runs in one thread, since it quantises what
one thread computes, and not the whole batch."""
ALIKE = {"QLinearMatMul": 2, "QLinearConv": 2, "QGemm": 2}
"""Operators that ONNX Runtime does not have for a first factor of int8 and a second of uint8, with the position of the
zero point of the first."""


def make_products_exact(model: onnx.ModelProto) -> None:
    """Rewrite the products in the main graph whose second factor, or the zero point of that, is an int8 initialiser."""
    graph = model.graph
    signed = {tensor.name for tensor in graph.initializer if tensor.data_type == TensorProto.INT8}
    nodes: list[NodeProto] = []
    shifted: set[str] = set()
    for node in graph.node:
        places = FACTORS.get(node.op_type, ())
        first = [ALIKE[node.op_type]] if node.op_type in ALIKE else []
        if any(name in signed for name in _inputs(node, first)):
            places = ()
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
    """Return nodes that compute `name + 128` as uint8, for a value of int8. An empty name stands for 0."""
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
