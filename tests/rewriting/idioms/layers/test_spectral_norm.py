"""What is a weight divided by its singular value, and what only looks like one."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import onnxlift
from onnxlift.ir.load import load
from onnxlift.rewriting.idioms.layers import spectral_norm
from rewriting.idioms.layers.test_computed_weights import LINEAR, SINGULAR, SPECTRAL, singular, written
from rewriting.idioms.recognising import Data, assert_same_numbers, parse
from rewriting.running_stages import normalise

W = '"fc.weight_orig"'
KERNEL = SINGULAR.replace(f"p = MatMul({W},", f"t = Transpose <perm = ORDER> ({W}) m = Reshape(t, rows) p = MatMul(m,")


def without(model: onnx.ModelProto) -> bool:
    """Whether a model, whose numbers are right, has its parts as they were."""
    assert_same_numbers(model)
    lifted = onnxlift.lift(model)
    return "spectral_norm" not in lifted.source and "fc.weight" not in lifted.state_dict


def conv(order: str, rows: tuple[int, int], kernel: tuple[int, ...] = (4, 3, 2)) -> onnx.ModelProto:
    """A convolution whose weight is divided by the singular value of a matrix that is made of it like this."""
    known: dict[str, Data] = {"fc.weight_orig": kernel, "fc.weight_u": rows[:1], "fc.weight_v": rows[1:]}
    text = KERNEL.replace("ORDER", order)
    shapes = f"(float[batch, {kernel[1]}, 9] x) => (float[batch, {kernel[0]}, m] y)"
    return parse(f"g {shapes} {{ {text} y = Conv(x, w) }}", rows=np.array(rows), **known)


@pytest.mark.parametrize(
    ("order", "rows", "arguments"),
    [("[0, 1, 2]", (4, 6), ""), ("[1, 0, 2]", (3, 8), ", dim=1"), ("[2, 0, 1]", (2, 12), ", dim=2")],
)
def test_any_axis_in_front(order: str, rows: tuple[int, int], arguments: str) -> None:
    layer = "nn.Conv1d(3, 4, 2, bias=False)"
    assert written(conv(order, rows)) == f"self.fc = nn.utils.spectral_norm({layer}{arguments})"


@pytest.mark.parametrize(
    ("order", "rows"),
    [("[0, 2, 1]", (4, 6)), ("[1, 2, 0]", (3, 8)), ("[0, 1, 2]", (2, 12)), ("[1, 0, 2]", (6, 4))],
    ids=["columns in another order", "columns of rows", "fewer rows", "rows of two axes"],
)
def test_another_matrix(order: str, rows: tuple[int, int]) -> None:
    assert without(conv(order, rows))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (f"p = MatMul({W},", f"e = Exp({W}) p = MatMul(e,"),
        ("w =", "y2 = Identity(p) w ="),
        ("w =", "y2 = Identity(s) w ="),
    ],
    ids=["of another tensor", "the product is read", "the value is read"],
)
def test_values_in_between(old: str, new: str) -> None:
    assert SINGULAR.count(old) == 1
    model = singular(f"{SINGULAR.replace(old, new)} {LINEAR}")
    if "y2" in new:
        shape = [4] if "(p)" in new else []
        model.graph.output.append(onnx.helper.make_tensor_value_info("y2", onnx.TensorProto.FLOAT, shape))
    assert without(model)


@pytest.mark.parametrize("changed", [{"fc.weight_u": (1, 4)}, {"fc.weight_v": (6, 1)}], ids=str)
def test_vectors_of_two_axes(changed: dict[str, Data]) -> None:
    assert without(singular(**changed))


@pytest.mark.parametrize("name", SPECTRAL)
def test_a_part_that_is_no_parameter(name: str) -> None:
    model = singular()
    (part,) = [tensor for tensor in model.graph.initializer if tensor.name == name]
    model.graph.initializer.remove(part)
    model.graph.input.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, part.dims))
    assert without(model)


def test_a_weight_that_is_not_a_number() -> None:
    """It is known by where it is read, and not by its numbers."""
    weight = np.random.default_rng(4).standard_normal((4, 6)).astype(np.float32)
    weight[1, 2] = np.nan
    assert written(singular(**{"fc.weight_orig": weight})) == "self.fc = nn.utils.spectral_norm(nn.Linear(6, 4))"


@pytest.mark.parametrize(("u", "is_norm"), [("fc.weight_u", True), ("fc.other", False), ("left", True)])
def test_names_of_the_vectors(u: str, is_norm: bool) -> None:
    known: dict[str, Data] = {"fc.bias": (4,), "fc.weight_orig": (4, 6), u: (4,), "fc.weight_v": (6,)}
    text = f"{SINGULAR} {LINEAR}".replace("fc.weight_u", u)
    assert without(parse(f"g (float[batch, 6] x) => (float[batch, 4] y) {{ {text} }}", **known)) != is_norm


@pytest.mark.parametrize(("order", "rows"), [("[0, 1, 2]", (4, 6)), ("[1, 0, 2]", (3, 8))])
def test_the_numbers_of_the_weight(order: str, rows: tuple[int, int]) -> None:
    """For whoever reads them: a layer that is wrapped does not."""
    model = conv(order, rows)
    graph = load(model)
    normalise(graph)
    assert spectral_norm.run(graph) == 1
    tensors = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    held, u, v = (tensors[name] for name in SPECTRAL)
    weight = graph.graph.initializers["fc.weight"].const_value
    assert weight is not None
    matrix = held.transpose([int(axis) for axis in order[1:-1].split(", ")]).reshape(rows)
    np.testing.assert_allclose(weight.numpy(), held / (u @ (matrix @ v)), rtol=1e-5)
