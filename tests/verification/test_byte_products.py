"""Products of bytes are made exact only where ONNX Runtime has a kernel for that."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from onnxlift.verification.byte_products import make_products_exact
from workbench.running import outputs_of

TEXT = """<ir_version: 9, opset_import: ["" : 17]> g (TYPE[1, 1, 4, 4] x) => (TYPE[1, 1, 3, 3] y) {
    y = QLinearConv(x, scale, zero, w, scale, none, scale, zero) }"""


@pytest.mark.parametrize(("kind", "dtype", "changed"), [("int8", np.int8, False), ("uint8", np.uint8, True)])
def test_a_convolution_of_int8_by_int8_stays(kind: str, dtype: type, changed: bool) -> None:
    model = onnx.parser.parse_model(TEXT.replace("TYPE", kind))
    weight = np.array([[[[3, -2], [1, 4]]]], np.int8)
    arrays = {"scale": np.float32(0.1), "zero": dtype(0), "none": np.int8(0), "w": weight}
    model.graph.initializer.extend(numpy_helper.from_array(np.asarray(a), name) for name, a in arrays.items())
    exact = onnx.ModelProto()
    exact.CopyFrom(model)
    make_products_exact(exact)
    assert (exact != model) is changed
    feeds = {"x": np.arange(16, dtype=dtype).reshape(1, 1, 4, 4)}
    for ours, theirs in zip(outputs_of(exact, feeds), outputs_of(model, feeds), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_product_of_int8_matrices_is_made_exact() -> None:
    node = helper.make_node("MatMulInteger", ["x", "w"], ["y"])
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.UINT8, [1, 2])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.INT32, [1, 2])],
        [numpy_helper.from_array(np.array([[1, -2], [3, 4]], np.int8), "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    make_products_exact(model)
    (y,) = outputs_of(model, {"x": np.array([[200, 100]], np.uint8)})
    np.testing.assert_array_equal(y, [[500, 0]])
