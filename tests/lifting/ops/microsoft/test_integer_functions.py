"""Functions of integers are layers that hold the steps of both ends, if the model fixes these.

What they compute is compared with ONNX Runtime, whose kernels fold scales into one factor: a half may go the other way.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

import onnxlift
from lifting.ops.checking import check, model_of
from lifting.ops.microsoft.operators import Array, node

RANDOM = np.random.default_rng(8)
ONE_STEP = {"rtol": 0.0, "atol": 1.0}
SCALES = {"xs": 0.03, "ys": 0.02, "as": 0.03, "bs": 0.07, "cs": 0.11}
POINTS = {"xz": 7, "yz": 4, "az": 7, "bz": 3, "cz": 5}
UNARY, BINARY = "x xs xz ys yz", "a as az b bs bz cs cz"
WINDOW = {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 1, 1, 1]}
CASES = [
    ("QLinearAdd", BINARY, {}, "QLinearAdd("),
    ("QLinearMul", BINARY, {}, "QLinearMul("),
    ("QLinearWhere", f"k {BINARY}", {}, "QLinearWhere("),
    ("QLinearConcat", "cs cz a as az b bs bz", {"axis": 1}, "QLinearConcat(2, 1"),
    ("QLinearSigmoid", UNARY, {}, "QLinearSigmoid("),
    ("QLinearLeakyRelu", UNARY, {"alpha": 0.3}, "QLinearLeakyReLU(0.3"),
    ("QLinearSoftmax", UNARY, {"axis": 1, "opset": 13}, "QLinearSoftmax(1"),
    ("QLinearGlobalAveragePool", UNARY, {}, "QLinearGlobalAvgPool("),
    ("QLinearAveragePool", UNARY, WINDOW, "QLinearAvgPool2d((3, 2), (2, 1), padding=1, count_include_pad=False"),
]


def inputs_of(names: str, dtype: type) -> dict[str, Array]:
    info = np.iinfo(dtype)
    fed: dict[str, Array] = {}
    for name in names.split():
        if name in SCALES:
            fed[name] = np.array(SCALES[name], np.float32)
        elif name in POINTS:
            fed[name] = np.array(POINTS[name], dtype)
        else:
            fed[name] = RANDOM.integers(info.min, info.max + 1, (2, 3, 7, 6)).astype(dtype)
    return fed | ({"k": RANDOM.random((2, 3, 7, 6)) < 0.5} if "k" in fed else {})


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize(("op_type", "names", "options", "made"), CASES, ids=[case[0] for case in CASES])
def test_a_layer_holds_the_steps(op_type: str, names: str, options: dict[str, Any], made: str, dtype: type) -> None:
    inputs = inputs_of(names, dtype)
    constants = [name for name in inputs if name in SCALES or name in POINTS]
    nodes = [node(op_type, names, "h", **options), helper.make_node("Transpose", ["h"], ["y"], perm=[1, 0, 2, 3])]
    source = check(nodes, inputs, opset=17, constants=constants, **ONE_STEP)
    assert f" = {made}" in source
    assert ("signed=True)" in source) is (dtype == np.int8)


@pytest.mark.parametrize("given", ["bs", "cz"])
def test_steps_that_are_computed_are_no_layer(given: str) -> None:
    inputs = inputs_of(BINARY, np.uint8)
    constants = [name for name in inputs if name in SCALES.keys() | POINTS.keys() and name != given]
    source = check(node("QLinearAdd", BINARY), inputs, opset=17, constants=constants, **ONE_STEP)
    assert "QLinearAdd(" not in source and "dequantize(" in source


def test_channels_that_are_last_are_no_layer() -> None:
    inputs = inputs_of(UNARY, np.uint8)
    pool = node("QLinearGlobalAveragePool", UNARY, channels_last=1)
    assert "QLinearGlobalAvgPool(" not in check(pool, inputs, opset=17, constants=["xs", "xz", "ys", "yz"], **ONE_STEP)


def test_one_number_is_written_where_it_is_added() -> None:
    inputs = inputs_of(BINARY, np.uint8) | {"b": np.array(200, np.uint8)}
    constants = [name for name in inputs if name != "a"]
    assert "self.add(a, 200)" in check(node("QLinearAdd", BINARY), inputs, opset=17, constants=constants, **ONE_STEP)


def test_layers_that_share_constants_in_the_file_have_their_own() -> None:
    inputs = inputs_of(UNARY, np.uint8)
    again = helper.make_node("QLinearSigmoid", ["h", "ys", "yz", "xs", "xz"], ["y"], domain="com.microsoft")
    nodes = [node("QLinearSigmoid", UNARY, "h"), again]
    lifted = onnxlift.lift(model_of(nodes, inputs, 17, ["xs", "xz", "ys", "yz"], False, False))
    keys = lifted.state_dict
    assert len(keys) == 8 and keys["sigmoid.output_scale"] == keys["sigmoid_1.input_scale"][0]
    assert lifted.source.count(" = QLinearSigmoid()") == 2 and "scale =" not in lifted.source.partition("class G(")[2]
