import numpy as np
import pytest

import onnxlift
from onnxlift import build
from onnxlift.build import op

X = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)


def test_a_branch_is_taken_when_the_model_runs():
    x = build.input("x", "float32", ["n", 4])
    y = build.if_(op.ReduceSum(x, keepdims=0) > 0, lambda: x * 2, lambda: op.Exp(x))
    model = build.model([x], {"y": y})
    assert y.shape == ("n", 4)
    np.testing.assert_array_equal(model(np.abs(X))["y"], np.abs(X) * 2)
    np.testing.assert_allclose(model(-np.abs(X))["y"], np.exp(-np.abs(X)), rtol=1e-6)


def test_branches_give_several_values_and_nest():
    x = build.input("x", "float32", [3, 4])
    outside = x + 1

    def positive():
        inner = build.if_(op.ReduceMax(x, keepdims=0) > 100, lambda: outside, lambda: outside * 3)
        return inner, x

    a, b = build.if_(op.ReduceSum(x, keepdims=0) > 0, positive, lambda: (x, 1.5 * op.Relu(outside)))
    model = build.model([x], {"a": a, "b": b})
    found = model(np.abs(X))
    np.testing.assert_allclose(found["a"], (np.abs(X) + 1) * 3, rtol=1e-6)
    np.testing.assert_array_equal(found["b"], np.abs(X))
    found = model(-np.abs(X) - 1)
    np.testing.assert_array_equal(found["a"], -np.abs(X) - 1)
    assert onnxlift.verify(model)


def test_a_loop_has_state_and_collects():
    x = build.input("x", "float32", [4])
    total, squares = build.loop(5, None, lambda i, total: (total + x, op.Cast(i, to="float32") * 2.0), op.Identity(x))
    assert (total.shape, squares.shape) == ((4,), (5,))
    found = build.model([x], {"total": total, "squares": squares})(X[0])
    np.testing.assert_allclose(found["total"], X[0] * 6, rtol=1e-5)
    np.testing.assert_array_equal(found["squares"], np.arange(5, dtype=np.float32) * 2)


def test_a_loop_ends_by_its_condition():
    x = build.input("x", "float32", [])
    y = build.loop(None, True, lambda i, y: (y * 2 < 100, y * 2), x)
    assert build.model([x], {"y": y})(np.float32(3))["y"] == 192


def test_a_loop_may_change_sizes():
    x = build.input("x", "float32", [1, 4])
    y = build.loop(3, None, lambda i, y: op.Concat(y, x, axis=0), x)
    assert y.shape[1:] == (4,) and isinstance(y.shape[0], str)
    assert build.model([x], {"y": y})(X[:1])["y"].shape == (4, 4)


def test_loops_nest():
    x = build.input("x", "int64", [])
    y = build.loop(3, None, lambda i, t: build.loop(i, None, lambda j, s: s + i * j + x, t), 0)
    expected = sum(i * j + 7 for i in range(3) for j in range(i))
    assert build.model([x], {"y": y})(np.int64(7))["y"] == expected


def test_a_scan_goes_through_an_axis():
    x = build.input("x", "float32", ["time", 4])
    last, sums = build.scan(lambda s, e: (s + e, s), build.constant(np.zeros(4, np.float32)), x)
    assert (last.shape, sums.shape) == ((4,), ("time", 4))
    found = build.model([x], {"last": last, "sums": sums})(X)
    np.testing.assert_allclose(found["last"], X.sum(0), rtol=1e-5)
    np.testing.assert_allclose(found["sums"], np.cumsum(X, 0) - X, rtol=1e-5, atol=1e-6)


def test_a_scan_goes_backwards_along_another_axis():
    x = build.input("x", "float32", [3, "time"])
    sums = build.scan(
        lambda s, e: (s + e, s + e), [np.zeros(3, np.float32)], [x], axes=[1], directions=["reverse"], output_axes=[1]
    )[1]
    found = build.model([x], {"y": sums})(X)["y"]
    np.testing.assert_allclose(found, np.cumsum(X[:, ::-1], 1), rtol=1e-5)


@pytest.mark.parametrize("opset", [9, 11, 13, 16, 21])
def test_control_flow_is_there_in_each_opset(opset):
    with build.opset(opset):
        x = build.input("x", "float32", [4])
        c = build.input("c", "bool", [])
        y = build.if_(c, lambda: op.Neg(x), lambda: build.loop(2, None, lambda i, s: s + x, x))
        z = build.scan(lambda s, e: s + e, build.constant(np.float32(0)), y)
    model = build.model([x, c], {"z": z})
    np.testing.assert_allclose(model(X[0], np.array(False))["z"], 3 * X[0].sum(), rtol=1e-5)
