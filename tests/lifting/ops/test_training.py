"""What is written can be called with gradients on, and what has a derivative gives it."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
import torch

import onnxlift
from lifting.ops.checking import check
from lifting.ops.training import train

RNG = np.random.default_rng(2)


def rand(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.uniform(0.5, 1.5, shape).astype(np.float32)


def model(heads: str, body: str, **constants: np.ndarray[Any, Any]) -> onnx.ModelProto:
    proto = onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["" : 21]> g ({heads}) => (float[N] y) {{ {body} }}'
    )
    del proto.graph.output[0].type.tensor_type.shape.dim[:]
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    for name, array in constants.items():
        proto.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    return proto


COMPUTED_STATISTICS = """m = ReduceMean <keepdims = 0> (x, axes) v = Exp(m)
    y = BatchNormalization <epsilon = 0.01> (x, scale, shift, m, v)"""


@pytest.mark.parametrize("shape", [(4, 3), (2, 3, 5), (2, 3, 4, 5)], ids=str)
def test_a_batch_norm_of_computed_statistics_trains(shape: tuple[int, ...]) -> None:
    axes = np.array([0, *range(2, len(shape))])
    sizes = ", ".join(map(str, shape))
    proto = model(f"float[{sizes}] x", COMPUTED_STATISTICS, axes=axes, scale=rand(3), shift=rand(3))
    x = rand(*shape)
    check(proto, {"x": x})
    (called,) = train(onnxlift.lift(proto), [torch.from_numpy(x)])
    # The sum of a channel depends on its mean m as scale * size * d/dm ((m - m) / sqrt(exp(m) + eps)) = 0.
    assert called.grad is not None
    np.testing.assert_allclose(called.grad.sum(), 0, atol=1e-4)


def test_statistics_from_outside_may_have_gradients() -> None:
    names = ["x", "scale", "b", "mean", "var"]
    node = onnx.helper.make_node("BatchNormalization", names, ["y"])
    inputs = {"x": rand(2, 3, 4), **{name: rand(3) for name in names[1:]}}
    check(node, inputs)
    heads = "float[2, 3, 4] x, float[3] scale, float[3] b, float[3] mean, float[3] var"
    lifted = onnxlift.lift(model(heads, f"y = BatchNormalization({', '.join(names)})"))
    called = train(lifted, [torch.from_numpy(array) for array in inputs.values()])
    assert all(each.grad is not None and each.grad.abs().max() > 0 for each in called)


def test_statistics_that_are_read_elsewhere_too_may_be_trained() -> None:
    body = "h = Mul(x, stem.mean) s = Sigmoid(t) y = BatchNormalization(h, s, t, stem.mean, stem.var)"
    constants = {"stem.mean": rand(3), "stem.var": rand(3)}
    proto = model(
        "float[5, 3] x, float[3] t",
        body.replace("stem.", "stem_"),
        **{name.replace(".", "_"): array for name, array in constants.items()},
    )
    inputs = {"x": rand(5, 3), "t": rand(3)}
    check(proto, inputs)
    train(onnxlift.lift(proto), [torch.from_numpy(array) for array in inputs.values()])


@pytest.mark.parametrize("op", ["NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"])
@pytest.mark.parametrize("places", ["", ", 4", ", 4, 2"], ids=["rows", "lines", "planes"])
def test_computed_weights_of_classes_are_taken_as_they_are(op: str, places: str) -> None:
    proto = model(f"float[3, 5{places}] x, int64[3{places}] t, float[5] w", f"c = Exp(w) y = {op}(x, t, c)")
    sizes = [int(size) for size in places.split(",")[1:]]
    inputs = {"x": rand(3, 5, *sizes), "t": RNG.integers(0, 5, (3, *sizes)), "w": rand(5)}
    assert "weight=weight.exp().detach()" in check(proto, inputs).replace("w.exp", "weight.exp")
    x, _, w = train(onnxlift.lift(proto), [torch.from_numpy(array) for array in inputs.values()])
    assert x.grad is not None and x.grad.abs().max() > 0
    assert w.grad is None


def test_a_loss_of_transposed_scores_has_a_gradient() -> None:
    body = "s = Transpose <perm = [0, 1, 3, 2]> (x) y = NegativeLogLikelihoodLoss(s, t)"
    proto = model("float[2, 5, 3, 4] x, int64[2, 4, 3] t", body)
    inputs = {"x": rand(2, 5, 3, 4), "t": RNG.integers(0, 5, (2, 4, 3))}
    check(proto, inputs)
    x, _ = train(onnxlift.lift(proto), [torch.from_numpy(array) for array in inputs.values()])
    assert x.grad is not None and x.grad.sum() == pytest.approx(-1)


@pytest.mark.parametrize("attributes", ["", "<sorted = 0>", "<axis = 1>", "<axis = 0, sorted = 0>"])
def test_distinct_elements_have_the_gradients_of_their_first_places(attributes: str) -> None:
    x = np.array([[3, 1, 3], [3, 1, 3]], np.float32)
    proto = model("float[2, 3] x", f"y, first = Unique {attributes} (x)")
    check(proto, {"x": x})
    (called,) = train(onnxlift.lift(proto), [torch.from_numpy(x)])
    taken = {"<axis = 1>": [[1, 1, 0], [1, 1, 0]], "<axis = 0, sorted = 0>": [[1, 1, 1], [0, 0, 0]]}
    assert called.grad is not None
    assert called.grad.tolist() == taken.get(attributes, [[1, 1, 0], [0, 0, 0]])
