"""Parameters that an exporter has put through functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import onnxlift
from onnxlift.ir.origin.tensors import mark_computed
from onnxlift.rewriting.restoring import folded_functions, merged_parameters
from rewriting.exported import exported
from rewriting.idioms.attention.multihead_layers import exported as export

P = np.array([0.1416, -0.7183, 1.4142, -0.5772], np.float32)


def computed(array: Any, name: str, *sources: str, parameters: tuple[str, ...] = ("mixer.p",)) -> ir.Model:
    """A product with the constant `name`, which was computed from `sources`."""
    stored = {name: np.asarray(array)}
    model = exported(f"y = Mul(x, {name})", [("mixer", "Mixer", f"mul(x, {name})")], stored, parameters)
    mark_computed(model.graph.initializers[name], sources)
    return model


@pytest.mark.parametrize(
    ("array", "name", "steps"),
    [
        (np.exp(P), "exp", []),
        (-P, "neg_2", []),
        (np.log(P + 2), "log", []),
        (1 / (1 + np.exp(-P)), "sigmoid_1", []),
        (np.tanh(P), "tanh", []),
        (-np.exp(P), "neg", ["exp_3"]),
        (np.exp(-np.exp(P)), "exp_1", ["exp", "neg"]),
        (np.exp(np.exp(-P)), "exp_1", ["exp", "neg"]),
    ],
)
def test_functions_are_undone(array: Any, name: str, steps: list[str]) -> None:
    model = computed(array, name, "mixer.p", *steps)
    assert folded_functions.run(model) == 1
    (*functions, product) = model.graph
    assert len(functions) == 1 + len(steps)
    assert product.inputs[1] is functions[-1].outputs[0]
    parameter = model.graph.initializers["mixer.p"].const_value
    assert parameter is not None
    np.testing.assert_allclose(parameter.numpy(), P + 2 if name == "log" else P, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize(
    "model",
    [
        computed(np.exp(P), "exp", "mixer.p", "mul"),
        computed(np.exp(P), "mul", "mixer.p"),
        computed(np.exp(P), "exp2", "mixer.p"),
        computed(np.exp(P), "exp", "mixer.p", "mixer.q", parameters=("mixer.p", "mixer.q")),
        computed(np.exp(P), "exp", "mixer.r"),
        computed(P, "exp", "mixer.p"),
        computed(np.exp(P).astype(np.float64), "exp", "mixer.p"),
        computed(np.float32([0.5, 1, 0.25, 0.1]), "sigmoid", "mixer.p"),
        computed(np.float32([0.5, 0.9999997, 0.25, 0.1]), "sigmoid", "mixer.p"),
        computed(-P, "neg", "mixer.p", "neg_1", "exp", "log"),
        computed(np.exp(np.exp(-P)), "neg", "tanh", "neg_1", "mixer.p"),
    ],
    ids=(
        "another step|another result|another function|two parameters|unknown|domain|type|flat|nearly flat"
        "|many steps|two orders"
    ).split("|"),
)
def test_other_constants_stay(model: ir.Model) -> None:
    assert folded_functions.run(model) == 0


def test_a_parameter_that_is_in_the_file_has_its_own_numbers() -> None:
    model = computed(np.exp(P), "exp", "mixer.p")
    kept = ir.Value(name="mixer.p", const_value=ir.Tensor(P), type=ir.TensorType(ir.DataType.FLOAT))
    model.graph.register_initializer(kept)
    assert folded_functions.run(model) == 0


def test_what_layers_share_is_undone_for_each_by_all_steps() -> None:
    notes = [("0", "Mixer", "mul(x, neg)"), ("1", "Mixer", "mul_1(mul, neg_1)")]
    model = exported("a = Mul(x, neg) y = Mul(a, neg)", notes, {"neg": -np.exp(P)}, ["0.p", "1.p"])
    mark_computed(model.graph.initializers["neg"], ["0.p", "exp"])
    assert merged_parameters.run(model) == 1
    assert folded_functions.run(model) == 2
    for name in ("0.p", "1.p"):
        parameter = model.graph.initializers[name].const_value
        assert parameter is not None
        np.testing.assert_allclose(parameter.numpy(), P, rtol=1e-6)


class Mixer(nn.Module):
    """Some of Mamba, RWKV and CLIP."""

    def __init__(self) -> None:
        super().__init__()
        self.A_log = nn.Parameter(torch.arange(1.0, 7).log())
        self.time_decay = nn.Parameter(torch.linspace(-3, 1, 6))
        self.gate = nn.Parameter(torch.linspace(-2, 2, 6))
        self.logit_scale = nn.Parameter(torch.tensor(1.3))
        self.layer = nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        x = x + torch.exp(F.softplus(self.layer(x)) * -torch.exp(self.A_log)) * torch.exp(-torch.exp(self.time_decay))
        gate = self.gate.sigmoid()
        return gate * x * self.logit_scale.exp() + (1 - gate) * x.flip(-1)


@pytest.mark.parametrize("trained", [True, False])
def test_the_checkpoint_of_the_original_loads(trained: bool) -> None:
    original = nn.Sequential(Mixer(), Mixer())
    x, weight = torch.randn(3, 6), torch.randn(3, 6)
    lifted = onnxlift.lift(export(original, (x,), "dynamo", trained=trained))
    module = lifted.module()
    state = original.state_dict()
    assert module.state_dict().keys() == state.keys()
    assert not list(module.buffers())
    for name, tensor in module.state_dict().items():
        torch.testing.assert_close(tensor, state[name], msg=name)
    module.load_state_dict(state)
    torch.testing.assert_close(module(x), original(x))
    for each in (module, original):
        (each(x) * weight).sum().backward()
    gradients = {name: parameter.grad for name, parameter in original.named_parameters()}
    for name, parameter in module.named_parameters():
        torch.testing.assert_close(parameter.grad, gradients[name], msg=name)
