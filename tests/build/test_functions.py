import numpy as np
import pytest

import onnxlift
from onnxlift import build
from onnxlift.build import op

X = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)


@build.function(domain="com.myarch")
def Gate(x, shift=None, *, alpha: float = 0.5, axis: int):
    y = op.Softmax(x, axis=axis) * alpha + np.float32(1)
    return y if shift is None else y + shift


def softmax(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def test_a_function_is_called_like_an_operator():
    x = build.input("x", "float32", ["n", 4])
    model = build.model([x], {"y": Gate(Gate(x, axis=1), axis=0, alpha=2.0)})
    assert [node.op_type for node in model.model.graph] == ["Gate", "Gate"]
    assert len(model.model.functions) == 1
    expected = softmax(softmax(X, 1) * 0.5 + 1, 0) * 2 + 1
    np.testing.assert_allclose(model(X)["y"], expected, rtol=1e-5)
    assert onnxlift.verify(model)


def test_its_types_are_known_at_once():
    x = build.input("x", "float32", ["n", 4])
    assert Gate(x, axis=1).shape == ("n", 4)


def test_calls_that_make_other_nodes_have_a_function_of_their_own():
    x = build.input("x", "float32", ["n", 4])
    model = build.model([x], {"y": Gate(Gate(x, axis=1), x, axis=1)})
    assert sorted(name for _, name, _ in model.model.functions) == ["Gate", "Gate_2"]
    inner = softmax(X, 1) * 0.5 + 1
    np.testing.assert_allclose(model(X)["y"], softmax(inner, 1) * 0.5 + 1 + X, rtol=1e-5)


def test_functions_call_functions_and_give_several_values():
    @build.function(domain="com.myarch", version=2)
    def Both(x, *, scale: float = 1.0):
        inner = Gate(x, axis=-1, alpha=scale)
        return inner, build.if_(op.ReduceSum(x, keepdims=0) > 0, lambda: inner * 2, lambda: inner)

    x = build.input("x", "float32", [3, 4])
    a, b = Both(x, scale=3.0)
    model = build.model([x], {"a": a, "b": b})
    found = model(np.abs(X))
    np.testing.assert_allclose(found["a"], softmax(np.abs(X), -1) * 3 + 1, rtol=1e-5)
    np.testing.assert_allclose(found["b"], found["a"] * 2, rtol=1e-5)
    assert model.model.opset_imports["com.myarch"] == 2


@pytest.mark.parametrize("wanted", [13, 17, 23])
def test_functions_go_to_another_opset(wanted):
    x = build.input("x", "float32", ["n", 4])
    model = build.model([x], {"y": Gate(x, axis=1)}, opset=wanted)
    np.testing.assert_allclose(model(X)["y"], softmax(X, 1) * 0.5 + 1, rtol=1e-5)


def test_a_function_gives_constants():
    table = build.constant(np.arange(3, dtype=np.float32), name="table")

    @build.function(domain="com.myarch")
    def Tables(x):
        return op.Relu(x), table, 2.0

    x = build.input("x", "float32", ["n", 4])
    y, first, second = Tables(x)
    model = build.model([x], {"y": y, "first": first, "second": second})
    assert [node.op_type for node in next(iter(model.model.functions.values()))] == ["Relu", "Constant", "Constant"]
    found = model(X)
    assert (found["first"].tolist(), found["second"].tolist()) == ([0, 1, 2], 2)


def test_a_function_reads_nothing_from_outside():
    x, z = build.input("x", "float32", [4]), build.input("z", "float32", [4])

    @build.function(domain="com.myarch")
    def Leaky(x):
        return x + z

    with pytest.raises(build.BuildError, match=r"z was made outside of function com.myarch.Leaky.*pass it as"):
        Leaky(x)

    @build.function(domain="com.myarch")
    def Weighted(x):
        return x, build.parameter("w", (4,), make=lambda: np.ones(4, np.float32))

    with pytest.raises(build.BuildError, match=r"w was made outside of function com.myarch.Weighted.*pass it as"):
        Weighted(x)
