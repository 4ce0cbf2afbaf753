"""Arithmetic on parameters that an exporter has done ahead of time."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
import torch
from onnx import numpy_helper
from torch import Tensor, nn

import onnxlift
from onnxlift.ir.load import load
from onnxlift.ir.origin.tensors import mark_computed
from onnxlift.rewriting.restoring import folded_parameters
from onnxlift.rewriting.restoring.numbers.stored_parameters import MOST_ALIKE
from rewriting.exported import exported
from rewriting.idioms.attention.multihead_layers import exported as export

MIX = np.array([0.1416, 0.7183, -0.4142, 0.5772], np.float32)
ONE = np.float32(1)


def mixed(
    folded: np.ndarray, stored: dict[str, np.ndarray] | None = None, module: str = "/mixer", name: str = "onnx::Mul_7"
) -> ir.Model:
    """x * mixer.mix + x * `folded`, the second product in `module`."""
    stored = {"mixer.mix": MIX} if stored is None else stored
    nodes = [onnx.helper.make_node("Mul", ["x", name], ["b"], f"{module}/Mul_1")]
    for place, parameter in enumerate(stored):
        nodes.append(onnx.helper.make_node("Mul", ["x", parameter], [f"a{place}"], f"/mixer/Mul_{place + 2}"))
    nodes.append(onnx.helper.make_node("Sum", ["b", *(f"a{place}" for place in range(len(stored)))], ["y"], "/Sum"))
    values = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in ("x", "y")]
    tensors = [numpy_helper.from_array(array, key) for key, array in {**stored, name: folded}.items()]
    graph = onnx.helper.make_graph(nodes, "g", values[:1], values[1:], tensors)
    return load(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=9))


def test_one_minus_a_parameter() -> None:
    model = mixed(ONE - MIX)
    assert folded_parameters.run(model) == 1
    difference, product, *_ = model.graph
    assert [difference.op_type, product.op_type] == ["Sub", "Mul"]
    assert product.inputs[1] is difference.outputs[0]
    one, mix = difference.inputs
    assert one is not None and one.const_value is not None and one.const_value.numpy() == 1
    assert mix is not None and mix.name == "mixer.mix"


FEW = np.array([0.1416, 0.7183, -0.1416, 0.1416, 0.1416], np.float32)


@pytest.mark.parametrize(
    "model",
    [
        mixed(np.nextafter(ONE - MIX, ONE)),
        mixed(ONE - MIX, module="/other"),
        mixed(ONE - MIX, name="mixer.other"),
        mixed(MIX),
        mixed((ONE - MIX).reshape(2, 2)),
        mixed((1 - MIX).astype(np.float64)),
        mixed(ONE - MIX, {"mixer.mix": MIX, "mixer.same": MIX}),
        mixed(ONE - FEW, {"mixer.mix": FEW}),
        mixed(ONE - np.zeros(4, np.float32), {"mixer.mix": np.zeros(4, np.float32)}),
        mixed(np.array([0.75], np.float32), {"mixer.mix": np.array([0.25], np.float32)}),
        mixed(np.array([0.3717], np.float32), {"mixer.mix": np.array([0.2544413], np.float32)}),
        mixed((MIX * 3) ** 2),
    ],
    ids=(
        "bits|another module|a name|a copy|shape|type|two|few numbers|untrained|a round number|a factor"
        "|other arithmetic"
    ).split("|"),
)
def test_other_constants_stay(model: ir.Model) -> None:
    assert folded_parameters.run(model) == 0


def test_a_single_number_that_was_trained() -> None:
    number = np.array([0.2544413], np.float32)
    assert folded_parameters.run(mixed(1 - number, {"mixer.mix": number})) == 1


def test_the_parameter_that_the_exporter_notes_is_the_one() -> None:
    for noted, times in (("a.mix", 1), ("b.mix", 1), ("c.mix", 0)):
        notes = [("a", "A", "mul(x, p0)"), ("b", "B", "mul_1(mul, p1)"), ("b", "B", "mul_2(mul_1, sub)")]
        body = "m = Mul(x, p0) n = Mul(m, p1) y = Mul(n, sub)"
        stored = {"a.mix": MIX, "b.mix": MIX, "sub": ONE - MIX}
        model = exported(body, notes, stored, ["a.mix", "b.mix", "c.mix"])
        mark_computed(model.graph.initializers["sub"], [noted])
        assert folded_parameters.run(model) == times
        reads = [value.name for node in model.graph if node.op_type == "Sub" for value in node.inputs if value]
        assert reads[1:] == [noted] * times


class Mixer(nn.Module):
    """Each parameter as it is, and in some arithmetic besides."""

    def __init__(self) -> None:
        super().__init__()
        for name, shape in {
            "a": (6,),
            "b": (),
            "c": (1,),
            "d": (5,),
            "e": (6,),
            "f": (6,),
            "g": (6,),
            "h": (6,),
        }.items():
            self.register_parameter(name, nn.Parameter(torch.empty(shape)))

    def forward(self, x: Tensor) -> Tensor:
        x = x * self.a + x.flip(-1) * (1 - self.a)
        x = x * self.b + x.tanh() * (1 - self.b)
        x = x * self.c + x.cos() * (1 + self.c)
        x = x + ((x.unsqueeze(-1) * self.d).sin() * -self.d.view(1, -1)).sum(-1)
        x = x * self.e + x.sin() * self.e.exp()
        x = x * self.f + x.sin() * -self.f.exp()
        x = x * self.g + x.sin() * self.g.sigmoid()
        return x * self.h + x.sin() * (self.h / 6**0.5) + x.cos() * (self.h * 0.3)


@pytest.mark.parametrize("exporter", ["script", "dynamo"])
def test_all_uses_of_a_parameter_train_it(exporter: str) -> None:
    original = nn.Sequential(Mixer(), Mixer())
    lifted = onnxlift.lift(export(original, (torch.randn(3, 6),), exporter))
    for part in (
        "x.flip(1) * (1 - self.a)",
        "x.tanh() * (1 - self.b)",
        "* -self.d.unsqueeze(0)",
        "x.sin() * self.e.exp()",
        "x.sin() * -self.f.exp()",
        "x.sin() * self.g.sigmoid()",
        "(self.h / math.sqrt(6))",
        "(self.h * 0.3)",
    ):
        assert part in lifted.source, lifted.source
    module = lifted.module()
    assert module.state_dict().keys() == original.state_dict().keys()
    x, weight = torch.randn(3, 6), torch.randn(3, 6)
    torch.testing.assert_close(module(x), original(x))
    for each in (module, original):
        (each(x) * weight).sum().backward()
    for (name, parameter), other in zip(module.named_parameters(), original.parameters(), strict=True):
        torch.testing.assert_close(parameter.grad, other.grad, msg=name)


class Mixed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(6)
        self.mix = nn.Parameter(torch.empty(6))

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x) * self.mix + x * (1 - self.mix)


@pytest.mark.parametrize("exporter", ["script", "dynamo"])
def test_the_nearest_parameter_is_found_at_any_depth(exporter: str) -> None:
    depth = 2 * MOST_ALIKE
    original = nn.Sequential(*(Mixed() for _ in range(depth)))
    lifted = onnxlift.lift(export(original, (torch.randn(3, 6),), exporter))
    assert lifted.source.count("(1 - self.mix)") == 1, lifted.source
    assert lifted.module().state_dict().keys() == original.state_dict().keys()
