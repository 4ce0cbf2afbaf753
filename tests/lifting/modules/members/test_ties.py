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
from onnxlift.executing import to_torch
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


def holders(names: tuple[str, str], *, is_shared: bool) -> onnxlift.Lifted:
    """Two modules with a layer of their own, and a block in each: the same one, or blocks that differ in a matrix."""
    g = Graph()
    x, one = g.input("x", "n", 4), g.weight("one", 4)
    for index, name in enumerate(names):
        scope = f"/{name}/block"
        h = g.linear(x, f"{name}.pre")
        for layer in ("up", "down"):  # as the exporters write a linear layer: its transpose is a nameless constant
            own = layer == "down" and not is_shared
            matrix = g.weight(f"onnx::MatMul_{index if own else layer}", 4, 4)
            h = g.node("MatMul", h, matrix, name=f"{scope}/{layer}/MatMul")
            bias = g.weight(f"{names[0]}.block.{layer}.bias", 4)
            h = g.node("Add", h, bias, name=f"{scope}/{layer}/Add")
        weight, bias = (g.weight(f"{names[0]}.block.norm.{part}", 4) for part in ("weight", "bias"))
        h = g.node("LayerNormalization", h, weight, bias, name=f"{scope}/norm/LayerNormalization")
        x = g.node("Mul", h, one, name=f"/{name}/Mul")
    return g.lift(g.node("Cos", x, name="/Cos"))


def test_a_block_that_two_modules_hold_is_one() -> None:
    lifted = holders(("left", "right"), is_shared=True)
    module = lifted.module()
    for name, parameter in module.left.block.named_parameters():
        assert module.right.block.get_parameter(name) is parameter, name
    assert module.left.pre.bias is not module.right.pre.bias
    assert not any(key.startswith("right.block") for key in lifted.state_dict)


def test_blocks_that_share_a_part_have_norms_of_their_own() -> None:
    module = holders(("left", "right"), is_shared=False).module()
    assert module.left.block.norm.weight is not module.right.block.norm.weight
    assert module.left.block.down.weight is not module.right.block.down.weight


def test_blocks_of_a_list_that_have_one_weight_are_tied() -> None:
    module = holders(("layers.0", "layers.1"), is_shared=True).module()
    assert module.layers[0].block.up.weight is module.layers[1].block.up.weight
    assert module.layers[0].block.norm.bias is module.layers[1].block.norm.bias
    assert module.layers[0].pre.weight is not module.layers[1].pre.weight


@pytest.mark.parametrize(
    ("names", "numbers", "count"),
    [
        (("a", "b"), "random", 1),
        (("layers.0.fc", "layers.1.fc"), "random", 2),  # copies of a block
        (("layers.0.fc", "layers.1.fc", "head"), "random", 3),
        (("a", "b"), "ones", 2),
    ],
)
def test_matrices_that_the_older_exporter_stores_once(names: tuple[str, ...], numbers: str, count: int) -> None:
    g = Graph()
    x = g.input("x", "n", 4)
    matrix = np.ones((4, 4), np.float32) if numbers == "ones" else None
    weight = g.weight("onnx::MatMul_0", 4, 4) if matrix is None else g.constant("onnx::MatMul_0", matrix)
    for number, name in enumerate(names):
        own = g.node("Identity", weight, output=f"onnx::MatMul_{number + 1}") if number else weight
        x = g.node("Sin", g.node("MatMul", x, own, name=f"/{name.replace('.', '/', 1)}/MatMul"), name=f"/Sin_{number}")
    model = g.model(x)
    model.producer_name = "pytorch"
    module = onnxlift.convert(model)
    assert len(module.state_dict()) == len(names)
    assert len(list(module.parameters())) == count


@pytest.mark.parametrize("count", [2, 5])
def test_saved_ties_are_loaded(count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few are written one by one, many in a loop."""
    g = Graph()
    x = g.input("x", "n", 4)
    for number in range(count):
        x = g.linear(x, f"blocks.{number}.own")
        matrix, bias = g.weight("blocks.0.ff.weight", 4, 4), g.weight("blocks.0.ff.bias", 4)
        x = g.node("Gemm", x, matrix, bias, transB=1, name=f"/blocks.{number}/ff/Gemm")
    lifted = onnxlift.lift(g.model(g.node("Cos", x, name="/Cos")), name=f"ties_of_{count}")
    lifted.save(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    saved = __import__(lifted.name).load()
    del sys.modules[lifted.name]
    assert all(block.ff.weight is saved.blocks[0].ff.weight for block in saved.blocks)
    assert len(list(saved.parameters())) == 2 * count + 2
    for key, tensor in lifted.module().state_dict().items():
        assert torch.equal(saved.state_dict()[key], tensor)
