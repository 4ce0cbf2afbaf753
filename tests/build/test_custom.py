import numpy as np
import pytest

import onnxlift
from onnxlift import build
from onnxlift.build import op

X = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)

scaled = build.custom(
    "Scaled",
    domain="com.acme",
    inputs={"x": "T", "shift?": "T"},
    outputs={"y": "T", "count": "int64"},
    types={"T": ["float32", "float64"]},
    attributes={"factor": 2.0, "mode": str},
    shape=lambda x, shift, *, factor, mode: (x.shape, []),
    run=lambda x, shift=None, *, factor, mode: (
        x * np.float32(factor) + (0 if shift is None else shift),
        np.int64(x.size),
    ),
)


def test_an_operator_of_your_own_is_called_checked_and_run():
    x = build.input("x", "float32", ["n", 4])
    y, count = scaled(op.Relu(x), mode="a", factor=3.0)
    assert (y.dtype.name, y.shape, count.dtype.name, count.shape) == ("FLOAT", ("n", 4), "INT64", ())
    model = build.model([x], {"y": op.Neg(y), "count": count})
    assert model.model.opset_imports["com.acme"] == 1
    found = model(X)
    np.testing.assert_allclose(found["y"], -3 * np.maximum(X, 0))
    assert found["count"] == 12


def test_its_types_are_in_the_file():
    x = build.input("x", "float32", ["n", 4])
    y, _ = scaled(x, mode="a")
    proto = build.model([x], {"y": op.Softmax(y)}).proto()
    assert [info.name for info in proto.graph.value_info][:1] == ["scaled"]
    assert proto.graph.output[0].type.tensor_type.shape.dim[0].dim_param == "n"


def test_it_runs_inside_of_a_branch():
    x = build.input("x", "float32", [3, 4])
    y = build.if_(op.ReduceSum(x, keepdims=0) > -1e9, lambda: scaled(x, x, mode="b")[0], lambda: x)
    np.testing.assert_allclose(build.model([x], {"y": y})(X)["y"], 3 * X, rtol=1e-6)


def test_it_is_lifted_by_an_operator_function():
    x = build.input("x", "float32", ["n", 4])
    double = build.custom(
        "Double", domain="com.acme.lifted", inputs={"x": "float32"}, outputs={"y": "float32"}, shape=lambda x: x.shape
    )

    @onnxlift.op("Double", domain="com.acme.lifted")
    def Double(n, x):
        return x * 2

    assert "x * 2" in onnxlift.lift(build.model([x], {"y": double(x)})).source


@pytest.mark.parametrize(
    "call, told",
    [
        (lambda x: scaled(x), "it has no attribute mode, which Scaled requires"),
        (lambda x: scaled(x, mode=1), "its attribute mode is 1, and must be a text"),
        (lambda x: scaled(mode="a"), "its input x is missing; it takes x, [shift]"),
        (lambda x: scaled(x, mod="a"), "did you mean mode?"),
        (
            lambda x: scaled(op.Cast(x, to="float16"), mode="a"),
            "its input x is float16, and Scaled takes double or float",
        ),
    ],
)
def test_wrong_calls_are_told(call, told):
    with pytest.raises(build.BuildError) as error:
        call(build.input("x", "float32", ["n", 4]))
    assert told in str(error.value) and "test_custom.py" in str(error.value)
