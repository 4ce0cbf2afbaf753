"""`inspect`: the graph as text, weights with statistics, metadata, and one module."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser
from typer.testing import CliRunner

import onnxlift
from onnxlift.cli.app import app
from workbench.models import branches

BRANCHES = """<ir_version: 9, opset_import: ["": 17, "me": 1], metadata_props: ["license": "MIT"]>
g (float[n, 4] x, bool c) => (float[n, 4] y)
<float[4, 4] w = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1}, float[2] scale = {2, 4}>
{
    h = MatMul(x, w)
    two = Constant<value_float = 2.0>()
    y = If(c) <
        then_branch = a () => (float[n, 4] p) { p = Mul(h, two) },
        else_branch = b () => (float[n, 4] q) { r = Cast<to = 10>(h) q = Cast<to = 1>(r) }
    >
}
<domain: "me", opset_import: ["": 17]> Twice (a) => (b) { b = Add(a, a) }
"""


def scoped() -> onnx.ModelProto:
    """Two layers whose nodes tell their modules, as PyTorch's exporter writes them."""
    model = parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17]> g (float[n, 2] x) => (float[n, 2] y)
        <float[2, 2] first = {1, 2, 3, 4}, float[2] bias = {1, 1}, float[2, 2] second = {0, 0, 0, 1}>
        { a = MatMul(x, first) b = Add(a, bias) c = Relu(b) y = MatMul(c, second) }"""
    )
    names = ["/net/layer.0/lin/MatMul", "/net/layer.0/lin/Add", "/net/layer.0/Relu", "/net/layer.1/MatMul"]
    for node, name in zip(model.graph.node, names, strict=True):
        node.name = name
    return model


def test_types_of_inputs_stand_below_each_other() -> None:
    lines = str(onnxlift.inspect(branches())).splitlines()
    assert [line[15:] for line in lines if line.startswith(("  inputs", "   "))][:3] == [
        "x      float32  (n, 4)",
        "go     bool     ()",
        "trips  int64    ()",
    ]


def test_the_graph_is_text_with_graphs_inside_it() -> None:
    text = str(onnxlift.inspect(parser.parse_model(BRANCHES), nodes=True))
    assert text == "\n".join(
        [
            "g",
            "  graph (x: float32 (n, 4), c: bool ())",
            "    h = MatMul(x, w) -> float32 (n, 4)",
            "    y = If(c) -> float32 (n, 4)",
            "      then_branch ()",
            "        p = Mul(h, 2) -> float32 (n, 4)",
            "        return p",
            "      else_branch ()",
            "        r = Cast(h, to=float16) -> float16 (n, 4)",
            "        q = Cast(r, to=float32) -> float32 (n, 4)",
            "        return q",
            "    return y",
            "  function me::Twice (a: ? (?))",
            "    b = Add(a, a) -> ? (?)",
            "    return b",
        ]
    )


def test_weights_have_the_statistics_of_numpy() -> None:
    generator = np.random.default_rng(0)
    arrays = {
        "plain": generator.normal(3, 2, (700, 700)).astype(np.float32),  # more than one piece
        "half": generator.normal(0, 1, 50).astype(np.float16),
        "wrong": np.array([1, np.nan, np.inf, 3], np.float32),
        "whole": np.array([[0, 5], [-7, 0]], np.int64),
        "flags": np.array([True, False]),
        "empty": np.zeros((0, 3), np.float32),
        "texts": np.array(["a", "b"], object),
    }
    model = onnx.helper.make_model(
        onnx.helper.make_graph(
            [onnx.helper.make_node("Relu", ["plain"], ["y"])],
            "g",
            [],
            [onnx.helper.make_tensor_value_info("y", 1, [700, 700])],
            [numpy_helper.from_array(array, name) for name, array in arrays.items()],
        ),
        opset_imports=[onnx.helper.make_opsetid("", 17)],
        ir_version=8,
    )
    found = {weight.name: weight for weight in onnxlift.inspect(model, weights=True).weights or ()}
    assert list(found) == list(arrays)
    for name in ("plain", "half", "whole", "flags"):
        weight, array = found[name], arrays[name].astype(np.float64)
        told = (weight.min, weight.max, weight.mean, weight.std)
        np.testing.assert_allclose(told, (array.min(), array.max(), array.mean(), array.std()), rtol=1e-9, atol=1e-12)
        assert weight.zeros == (array == 0).sum() and weight.not_finite == 0
    assert (found["wrong"].mean, found["wrong"].max, found["wrong"].not_finite) == (2.0, 3.0, 2)
    assert found["empty"].mean is None and found["texts"].min is None


def test_metadata() -> None:
    found = onnxlift.inspect(parser.parse_model(BRANCHES), metadata=True)
    assert found.metadata is not None
    assert found.metadata.properties == {"license": "MIT"} and found.metadata.functions == ("me::Twice",)
    assert "license  MIT" in str(found)


def test_one_module() -> None:
    found = onnxlift.inspect(scoped(), module="net.layer.0", nodes=True, weights=True)
    module = found.module
    assert module is not None
    assert (module.nodes, module.parameters) == (3, 6)
    assert [value["name"] for value in module.inputs] == ["x"]
    assert [value["name"] for value in module.outputs] == ["c"]
    assert [(child.name, child.nodes, child.parameters) for child in module.children] == [("lin", 2, 6)]
    assert [weight.name for weight in found.weights or ()] == ["first", "bias"]
    assert "# net.layer.0.lin" in str(found) and "second" not in str(found)


def test_a_module_that_is_not_there() -> None:
    with pytest.raises(onnxlift.OnnxLiftError, match=r"did you mean 'net\.layer\.1'"):
        onnxlift.inspect(scoped(), module="net.layer.7")
    with pytest.raises(onnxlift.OnnxLiftError, match=r"do not tell which modules they are in\.$"):
        onnxlift.inspect(parser.parse_model(BRANCHES), module="net")


def test_only_weights_needs_external_data(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    model = scoped()
    for tensor in model.graph.initializer:  # only raw bytes can go to a file
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor), tensor.name))
    onnx.save(model, path, save_as_external_data=True, location="m.data", size_threshold=0)
    (tmp_path / "m.data").unlink()
    run = CliRunner().invoke
    for option in ("--nodes", "--metadata", "--module=net"):
        assert run(app, ["inspect", str(path), option]).exit_code == 0, option
    result = run(app, ["inspect", str(path), "--weights"])
    assert result.exit_code == 2 and "m.data" in result.output


def test_many_models_and_a_pipe(tmp_path: Path) -> None:
    for name in ("a", "b"):
        onnx.save(scoped(), tmp_path / f"{name}.onnx")
    run = CliRunner().invoke
    lines = run(app, ["inspect", str(tmp_path / "*.onnx"), "--json", "--nodes"]).output.splitlines()
    assert [Path(json.loads(line)["model"]).name for line in lines] == ["a.onnx", "b.onnx"]
    assert json.loads(lines[0])["data"]["graphs"][0]["nodes"][0]["operator"] == "MatMul"
    result = run(app, ["inspect", "-", "--weights", "--json"], input=scoped().SerializeToString())
    assert [weight["max"] for weight in json.loads(result.output)["data"]["weights"]] == [4, 1, 1]


def test_hostile_names_print_no_escapes() -> None:
    model = scoped()
    model.graph.node[0].name = "/a\x1b[31m/b\n"
    model.graph.node[0].output[0] = model.graph.node[1].input[0] = "\x1b]0;evil\x07" + "x" * 5000
    text = str(onnxlift.inspect(model, nodes=True, weights=True, metadata=True))
    assert "\x1b" not in text and "\x07" not in text and len(text) < 10_000
