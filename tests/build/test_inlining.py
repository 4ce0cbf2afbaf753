import numpy as np
import onnx
import pytest
from onnx import parser

import onnxlift
from onnxlift import build
from onnxlift.build import op

X = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)

MODEL = """<ir_version: 8, opset_import: ["" : 17, "local" : 1]>
net (float[n, 4] x, float[4] b) => (float[n, 4] y, int64[2] s)
<float[4] w = {1.0, 2.0, 3.0, 4.0}> { a = Mul(x, w) y = local.Shift(a, b) s = Shape(a) }
<domain: "local", opset_import: ["" : 17]> Shift (x, b) => (y) { z = Add(x, b) y = Relu(z) }"""

BRANCH = """<ir_version: 8, opset_import: ["" : 17]> net (float[n, 4] x) => (float[n, m] y) {
    total = ReduceSum <keepdims = 0> (x)
    zero = Constant <value_float = 0.0> ()
    more = Greater(total, zero)
    y = If(more) <
        then_branch = t () => (float[n, 4] a) { a = Exp(x) },
        else_branch = e () => (float[n, 4] b) { b = Neg(x) }>
}"""

W = np.array([1, 2, 3, 4], np.float32)


def test_a_model_is_used_inside_of_another():
    net = build.inline(parser.parse_model(MODEL))
    assert (net.inputs, net.outputs) == (("x", "b"), ("y", "s"))
    x = build.input("x", "float32", ["batch", 4])
    first, _ = net(op.Neg(x), [1.0, 1.0, 1.0, 1.0])
    second, size = net(first, b=W)
    assert (first.dtype.name, second.shape) == ("FLOAT", ("batch", 4))
    model = build.model([x], {"y": second, "size": size})
    assert model.model.opset_imports[""] == build.DEFAULT_OPSET
    once = np.maximum(-X * W + 1, 0)
    np.testing.assert_allclose(model(X)["y"], np.maximum(once * W + W, 0), rtol=1e-6)
    assert model(X)["size"].tolist() == [3, 4]
    assert [name for name in model.model.graph.initializers if name.startswith("w")] == ["w"]
    onnx.checker.check_model(model.proto(), full_check=True)
    assert onnxlift.verify(model)


def test_bodies_are_made_again():
    x = build.input("x", "float32", ["k", 4])
    y = build.inline(parser.parse_model(BRANCH))(x + 1) * 2
    assert y.shape == ("k", 4)
    model = build.model([x], {"y": y})
    for array in (np.abs(X), -np.abs(X) - 2):
        expected = np.exp(array + 1) if (array + 1).sum() > 0 else -(array + 1)
        np.testing.assert_allclose(model(array)["y"], expected * 2, rtol=1e-6)


@pytest.mark.parametrize("opset", [13, 17, 21])
def test_its_nodes_go_to_the_opset_in_force(opset):
    with build.opset(opset):
        x = build.input("x", "float32", [3, 4])
        y = build.inline(parser.parse_model(BRANCH))(x)
    assert build.model([x], y).model.opset_imports == {"": opset}


def test_its_modules_lie_below_those_around():
    inner = build.input("x", "float32", ["n", 4])
    with build.scope("", "Inner"), build.scope("fc", "Linear"):
        weight = build.parameter("weight", (4, 4), make=lambda: np.eye(4, dtype=np.float32))
        net = build.model([inner], {"y": op.Gemm(inner, weight, transB=1)})
    x = build.input("x", "float32", ["n", 4])
    with build.scope("", "Outer"), build.scope("backbone", "Backbone"):
        y = build.inline(net)(x)
    lifted = onnxlift.lift(build.model([x], {"y": op.Relu(y)}))
    assert set(lifted.state_dict) == {"backbone.fc.weight"}


@pytest.mark.parametrize(
    "call, told",
    [
        (lambda net, x: net(x), "its input b is missing; it takes x, b"),
        (lambda net, x: net(x, x, x), "it has 3 inputs, and takes x, b"),
        (lambda net, x: net(x, c=1), "it has no input c"),
        (lambda net, x: net(op.Cast(x, to="int64"), W), "its input x is int64, and must be float32 (n, 4)"),
        (lambda net, x: net(x[0], W), "its input x is float32 (4), and must be float32 (n, 4)"),
        (lambda net, x: net(x, x=x), "its input x is given twice"),
    ],
)
def test_wrong_calls_are_told(call, told):
    net = build.inline(parser.parse_model(MODEL))
    with pytest.raises(build.BuildError) as error:
        call(net, build.input("x", "float32", ["batch", 4]))
    assert told in str(error.value) and "test_inlining.py" in str(error.value)


def test_what_is_no_model_is_told():
    with pytest.raises(build.BuildError, match=r"test_inlining.py:\d+: build.inline: .*is not an ONNX model"):
        build.inline(b"no model")
