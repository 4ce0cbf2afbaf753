import sys

import numpy as np
import pytest

import onnxlift
from onnxlift import build
from onnxlift.build import nn, op

WEIGHT = np.random.default_rng(0).standard_normal((10, 784)).astype(np.float32)


def network():
    x = build.input("x", "float32", ["batch", 784])
    with build.scope("", "Net"):
        with build.scope("fc1", "Linear"):
            weight = build.parameter("weight", WEIGHT.shape, make=lambda: WEIGHT)
            bias = build.parameter("bias", (10,), make=lambda: np.zeros(10, np.float32))
            y = op.Gemm(x, weight, bias, transB=1)
        return x, op.Softmax(y * 2 + 1, axis=-1)


def test_a_model_computes_what_was_written():
    x, y = network()
    array = np.random.default_rng(1).standard_normal((3, 784)).astype(np.float32)
    result = build.model([x], {"probs": y})(x=array)
    logits = (array @ WEIGHT.T) * 2 + 1
    expected = np.exp(logits - logits.max(-1, keepdims=True))
    np.testing.assert_allclose(result["probs"], expected / expected.sum(-1, keepdims=True), rtol=1e-4, atol=1e-6)


def test_types_and_sizes_are_known_at_once():
    x, y = network()
    assert (x.shape, y.shape, y.dtype.name, y.rank) == (("batch", 784), ("batch", 10), "FLOAT", 2)


def test_what_is_built_lifts_to_its_modules():
    lifted = onnxlift.lift(build.model(*network()))
    assert "class Net(nn.Module)" in lifted.source
    assert "self.fc1 = nn.Linear(784, 10)" in lifted.source
    assert set(lifted.state_dict) == {"fc1.weight", "fc1.bias"}


def test_names_are_readable_and_unique():
    x = build.input("x", "float32", [4])
    model = build.model([x], {"y": op.Relu(op.Relu(op.Relu(x)))}).model
    assert [node.name for node in model.graph] == ["relu", "relu_2", "relu_3"]
    assert [node.outputs[0].name for node in model.graph] == ["relu", "relu_2", "y"]


@pytest.mark.parametrize("wanted", [7, 9, 13, 18, 21])
def test_a_model_goes_to_the_opset_that_is_wanted(wanted):
    x = build.input("x", "float32", ["n", 6])
    first, second = op.Split(x, outputs=2, axis=1)
    model = build.model([x], {"y": first + second}, opset=wanted)
    assert model.model.opset_imports == {"": wanted}
    np.testing.assert_array_equal(model(np.ones((2, 6), np.float32))["y"], np.full((2, 3), 2, np.float32))


def test_parameters_may_change_after_the_model_was_built():
    held = {"w": np.ones(3, np.float32)}
    x = build.input("x", "float32", [3])
    model = build.model([x], {"y": x * build.parameter("w", (3,), make=lambda: held["w"])})
    held["w"] = np.full(3, 5, np.float32)
    np.testing.assert_array_equal(model(np.ones(3, np.float32))["y"], held["w"])
    held["w"][0] = 7
    np.testing.assert_array_equal(model(np.ones(3, np.float32))["y"], [7, 5, 5])


def test_a_model_runs_with_the_numbers_of_now():
    x = build.input("x", "float32", ["n", 3])
    layer = nn.Linear(3, 2)
    model = build.model([x], {"y": layer(x)})
    ones, first = np.ones((1, 3), np.float32), layer.weight.numpy().sum(1) + layer.bias.numpy()
    np.testing.assert_allclose(model(ones)["y"][0], first, rtol=1e-5)
    session = model._session[1]
    model(ones)
    assert model._session[1] is session  # which is made anew only for other numbers
    layer.load_state_dict({"weight": np.zeros((2, 3), np.float32), "bias": np.array([1, 2], np.float32)})
    np.testing.assert_array_equal(model(ones)["y"], [[1, 2]])
    layer.bias.data[1] = 5
    np.testing.assert_array_equal(model(ones)["y"], [[1, 5]])
    layer.initialise(seed=3)
    second = layer.weight.numpy().sum(1) + layer.bias.numpy()
    assert (abs(first - second) > 1e-3).all()
    np.testing.assert_allclose(model(ones)["y"][0], second, rtol=1e-5)


def test_custom_operators_and_the_reference_run_with_the_numbers_of_now(monkeypatch):
    double = build.custom(
        "Double", domain="com.acme", inputs={"x": "float32"}, outputs={"y": "float32"}, run=lambda x: 2 * x
    )
    x = build.input("x", "float32", [2])
    weight = nn.Parameter(np.ones(2, np.float32), name="w")
    ours, plain = build.model([x], {"y": double(x * weight)}), build.model([x], {"y": x * weight})
    ones = np.ones(2, np.float32)
    assert ours(ones)["y"].tolist() == [2, 2]
    weight.data = np.array([3, 4], np.float32)
    assert ours(ones)["y"].tolist() == [6, 8]
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    assert plain(ones)["y"].tolist() == [3, 4]
    weight.data = np.array([5, 6], np.float32)
    assert plain(ones)["y"].tolist() == [5, 6]
