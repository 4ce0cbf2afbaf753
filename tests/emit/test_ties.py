"""One weight in two places is one parameter; equal values that an exporter merged are not."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper

import onnxlift
from onnxlift.run import to_torch
from small_graphs import Graph


def tied(layout: str) -> onnx.ModelProto:
    """An embedding whose matrix is the output head's: transposed by the graph (`Transpose`), or read so (`Gemm`)."""
    g = Graph()
    table = g.weight("embed.weight", 6, 4)
    h = g.node("Tanh", g.node("Gather", table, "ids", name="/embed/Gather"), name="/Tanh")
    if layout == "Gemm":
        flat = g.node("Reshape", h, g.constant("flat", np.array([-1, 4])), name="/Reshape")
        g.node("Gemm", flat, table, transB=1, name="/head/Gemm", output="y")
    else:
        turned = g.node("Transpose", table, perm=[1, 0], name="/head/Transpose")
        g.node("MatMul", h, turned, name="/head/MatMul", output="y")
    model = g.model("y")
    model.graph.input.append(helper.make_tensor_value_info("ids", TensorProto.INT64, ["n", 3]))
    return model


@pytest.mark.parametrize("layout", ["Gemm", "Transpose"])
def test_embedding_and_head_are_one_parameter(layout: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tied(layout)
    lifted = onnxlift.lift(model, name=f"tied_{layout.lower()}")
    ids = np.array([[0, 5, 2], [1, 1, 3]])
    (expected,) = onnx.reference.ReferenceEvaluator(model).run(None, {"ids": ids})
    lifted.save(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    saved = __import__(lifted.name).load()
    for module in (lifted.module(), saved):
        assert len(list(module.parameters())) == 1, lifted.source
        (parameter,) = module.parameters()
        module(to_torch(ids)).square().sum().backward()
        assert parameter.grad is not None and parameter.grad.abs().sum(1).count_nonzero() == 6
        np.testing.assert_allclose(module(to_torch(ids)).detach().numpy(), expected, rtol=1e-5, atol=1e-6)
    assert len(lifted.state_dict) == 1
    del sys.modules[lifted.name]


def test_biases_that_the_exporter_merged_are_two_parameters() -> None:
    g = Graph()
    x = g.input("x", "n", 4)
    bias = g.weight("a.bias", 4)
    for name in ("a", "b"):
        weight = g.weight(f"{name}.weight", 4, 4)
        x = g.node("Sin", g.node("Gemm", x, weight, bias, transB=1, name=f"/{name}/Gemm"), name=f"/Sin_{name}")
    lifted = g.lift(x)
    module = lifted.module()
    assert {name for name, _ in module.named_parameters()} == {"a.weight", "a.bias", "b.weight", "b.bias"}
    assert module.a.bias is not module.b.bias and torch.equal(module.a.bias, module.b.bias)
    module.a.bias.data.zero_()
    assert module.b.bias.abs().sum() > 0  # not even memory is shared, so that training one leaves the other


def test_a_layer_that_is_called_twice_is_one_layer() -> None:
    g = Graph()
    x = g.linear(g.input("x", "n", 4), "fc")
    lifted = g.lift(g.linear(g.node("Sin", x, name="/Sin"), "fc"))
    assert list(lifted.state_dict) == ["fc.weight", "fc.bias"]
    assert lifted.source.count("nn.Linear(") == 1 and lifted.source.count("self.fc(") == 2


@pytest.mark.parametrize("kind", ["PARAMETER", "BUFFER"])
def test_a_buffer_is_what_the_exporter_says_it_is(kind: str) -> None:
    g = Graph()
    g.node("Mul", g.input("x", "n", 4), g.weight("rotary.scale", 4), name="/rotary/Mul", output="y")
    model = g.model("y")
    info = model.graph.value_info.add(name="rotary.scale")
    info.metadata_props.add(key="pkg.torch.export.graph_signature.InputSpec.kind", value=kind)
    module = onnxlift.convert(model)
    assert len(list(module.parameters())) == (kind == "PARAMETER")
    assert len(module.state_dict()) == 1
