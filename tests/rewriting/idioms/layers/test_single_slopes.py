"""A PReLU with one slope for all channels reads it as it is stored."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import onnxlift
from rewriting.idioms.recognising import found, parse

ACT = "s = Constant <value_ints = [1, 1, 1]> () r = Reshape(slope, s) y = PRelu(x, r)"


def model(body: str = ACT, slope: object = (0.25,), x: str = "float[batch, 4, 3] x") -> onnx.ModelProto:
    return parse(f"g ({x}) => (y) {{ {body} }}", slope=np.array(slope, np.float32))


@pytest.mark.parametrize("body", [ACT, "a = Constant <value_ints = [0, 1]> () r = Unsqueeze(slope, a) y = PRelu(x, r)"])
def test_a_single_slope_is_that_of_a_layer(body: str) -> None:
    proto = model(body)
    assert found(proto) == ["PRelu"]
    proto.graph.initializer[0].name = "act.weight"
    for node in proto.graph.node:
        node.input[:] = ["act.weight" if name == "slope" else name for name in node.input]
    lifted = onnxlift.lift(proto)
    assert "self.act = nn.PReLU()" in lifted.source
    assert [name for name, _ in lifted.module().named_parameters()] == ["act.weight"]


def test_several_slopes_keep_their_axes() -> None:
    body = ACT.replace("[1, 1, 1]", "[4, 1]")
    assert "Unsqueeze" in found(model(body, (0.1, 0.2, 0.3, 0.4)))


def test_a_slope_with_more_axes_than_the_input_keeps_its_shape() -> None:
    body = "a = Constant <value_ints = [0, 1]> () r = Squeeze(slope, a) y = PRelu(x, r)"
    assert "Squeeze" in found(model(body, [[[0.25]]], "float[batch, 4] x"))


def test_a_computed_slope_stays_computed() -> None:
    body = ACT.replace("Reshape(slope, s)", "Reshape(e, s)")
    assert "Unsqueeze" in found(parse(f"g (float[batch, 4, 3] x, float[1] e) => (y) {{ {body} }}"))


def test_a_slope_as_it_is_stored_stays() -> None:
    assert "single-slopes" not in onnxlift.lift(model("y = PRelu(x, slope)")).report.steps.get("idioms", {})
