"""Layers that were exported by themselves."""

from __future__ import annotations

import onnx
import pytest

import onnxlift
from rewriting.idioms.recognising import assert_same_numbers, parse

CONV = 'y = Conv(x, "weight", "bias")'
TWICE = 'a = Conv <pads = [1, 1]> (x, "weight") b = Conv <pads = [2, 2], dilations = [2]> (x, "weight") y = Add(a, b)'


def lifted(text: str, producer: str = "pytorch", **shapes: tuple[int, ...]) -> onnxlift.Lifted:
    model: onnx.ModelProto = parse(
        f"g (float[batch, 4, 9] x) => (float[batch, 4, length] y) {{ {text} }}",
        **{name.replace("__", "."): shape for name, shape in shapes.items()},
    )
    model.producer_name = producer
    for number, node in enumerate(model.graph.node):
        node.name = f"/{node.op_type}_{number}"
    assert_same_numbers(model)
    return onnxlift.lift(model)


def test_the_model_is_the_layer() -> None:
    found = lifted(CONV, weight=(4, 4, 3), bias=(4,))
    assert "(nn.Conv1d):" in found.source
    assert "super().__init__(4, 4, 3)" in found.source
    assert "return super().forward(x)" in found.source
    assert sorted(found.state_dict) == ["bias", "weight"]


def test_what_else_it_does_is_around_the_layer() -> None:
    found = lifted(f"a = Relu(x) {CONV.replace('x', 'a')}", weight=(4, 4, 3), bias=(4,))
    assert "super().forward(F.relu(x))" in found.source


def test_other_members_stay() -> None:
    found = lifted('a = Conv(x, "weight") y = Mul(a, shift)', weight=(4, 4, 3), shift=(4, 1))
    assert "(nn.Conv1d):" in found.source
    assert "* self.shift" in found.source
    assert sorted(found.state_dict) == ["shift", "weight"]


@pytest.mark.parametrize(
    ("text", "producer", "shapes"),
    [
        (CONV, "other", {"weight": (4, 4, 3), "bias": (4,)}),
        (CONV.replace('"bias"', "stride"), "pytorch", {"weight": (4, 4, 3), "stride": (4,)}),
        ('y = Conv(x, "inner.weight")', "pytorch", {"inner__weight": (4, 4, 3)}),
        # Two layers cannot both be the model.
        (TWICE, "pytorch", {"weight": (4, 4, 3)}),
        # `stride` is what the layer calls something else.
        ('a = Conv(x, "weight") y = Mul(a, "stride")', "pytorch", {"weight": (4, 4, 3), "stride": (4, 1)}),
    ],
    ids=["of another producer", "by another name", "of a module", "two", "a name that is taken"],
)
def test_other_models_have_layers(text: str, producer: str, shapes: dict[str, tuple[int, ...]]) -> None:
    assert "super().forward" not in lifted(text, producer, **shapes).source


NAMELESS = 'y = MatMul(x, "onnx::MatMul_7")'


def nameless(text: str, name: str) -> str:
    model = parse(f"g (float[batch, 5, 6] x) => (float[batch, 5, 4] y) {{ {text} }}", **{"onnx::MatMul_7": (6, 4)})
    model.producer_name = "pytorch"
    for number, node in enumerate(model.graph.node):
        node.name = f"{name}_{number}"
    assert_same_numbers(model)
    return onnxlift.lift(model).source


def test_a_layer_whose_weights_have_no_name() -> None:
    assert "(nn.Linear):" in nameless(NAMELESS, "/MatMul")


@pytest.mark.parametrize(
    ("text", "name"),
    [(NAMELESS, "/inner/MatMul"), (NAMELESS, "n3"), (f"{NAMELESS.replace('y =', 'a =')} y = Relu(a)", "/MatMul")],
    ids=["of a module", "nowhere", "and more"],
)
def test_other_layers_without_names_are_members(text: str, name: str) -> None:
    assert "super().forward" not in nameless(text, name)
