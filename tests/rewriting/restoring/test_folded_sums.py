"""Weights of norms that an exporter has added one to."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
import torch
from torch import Tensor, nn

import onnxlift
from onnxlift.ir.origin.metadata import string_list
from onnxlift.ir.origin.tensors import mark_computed
from onnxlift.rewriting.restoring import folded_sums
from rewriting.exported import exported, reads_of
from rewriting.idioms.attention.multihead_layers import exported as export

SUM = np.array([1.0625, 0.75, 3.5, 1.0], np.float32)
NAMES = ["norm.weight", "norm.bias"]


def scaled(
    total: np.ndarray = SUM, sources: str = "['norm.weight', 'val_6']", name: str = "add_3", names: list[str] = NAMES
) -> ir.Model:
    """A product with the constant `name`, which was computed from `sources`."""
    notes = [("norm", "Norm", f"mul(x, {name})")]
    model = exported(f"y = Mul(x, {name})", notes, {name: total}, names)
    mark_computed(model.graph.initializers[name], string_list(sources) or [])
    return model


@pytest.mark.parametrize("number", ["'val_6'", "'scalar_tensor_default', 'val_4'"])
def test_the_weight_is_itself(number: str) -> None:
    model = scaled(sources=f"['norm.weight', {number}]")
    assert folded_sums.run(model) == 1
    add, scale = model.graph
    assert [add.op_type, scale.op_type] == ["Add", "Mul"]
    assert scale.inputs[1] is add.outputs[0]
    weight, one = (model.graph.initializers[name].const_value for name in reads_of(model)[0])
    assert weight is not None and one is not None and reads_of(model)[0][0] == "norm.weight"
    assert weight.numpy().tolist() == [0.0625, -0.25, 2.5, 0.0] and one.numpy() == 1


@pytest.mark.parametrize(
    "model",
    [
        scaled(np.array([1.5, 1e-12, 1.0, 1.0], np.float32)),
        scaled(np.stack([SUM, SUM])),
        scaled(SUM.astype(np.float64)),
        scaled(sources="['norm.weight', 'exp', 'val_6']"),
        scaled(sources="['norm.weight', 'val_5', 'val_6']"),
        scaled(sources="['norm.weight', 'norm.bias']"),
        scaled(sources="['norm.weight']"),
        scaled(sources="['norm.bias', 'val_6']"),
        scaled(name="mul_3"),
        scaled(names=["weight", "bias"]),
    ],
    ids=["bits", "axes", "type", "another step", "two numbers", "two", "alone", "a bias", "a product", "unknown"],
)
def test_other_constants_stay(model: ir.Model) -> None:
    assert folded_sums.run(model) == 0


def test_a_weight_that_is_in_the_file_has_its_own_numbers() -> None:
    model = scaled()
    model.graph.register_initializer(
        ir.Value(name="norm.weight", const_value=ir.Tensor(SUM), type=ir.TensorType(ir.DataType.FLOAT))
    )
    assert folded_sums.run(model) == 0


class Norm(nn.Module):
    """As Gemma has it."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(6))

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * (1.0 + self.weight)


def test_the_checkpoint_of_the_original_loads() -> None:
    original = nn.Sequential(nn.Linear(6, 6), Norm(), nn.Linear(6, 6), Norm())
    x = torch.randn(3, 6)
    lifted = onnxlift.lift(export(original, (x,), "dynamo", trained=False)).module()
    state = original.state_dict()
    for name, tensor in lifted.state_dict().items():
        torch.testing.assert_close(tensor, state[name], rtol=0, atol=2e-7)
    lifted.load_state_dict(state)
    torch.testing.assert_close(lifted(x), original(x))
