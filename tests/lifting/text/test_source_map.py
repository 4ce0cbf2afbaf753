"""The source map: from a line to its ONNX nodes and back, through formatting, shared classes and nested blocks."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

import onnxlift
from models.handmade import beam_step, tiny_resnet
from onnxlift.errors import OnnxLiftError
from onnxlift.lifting.text.forward_statements import forward_statements


def line_with(lifted: onnxlift.Lifted, text: str) -> int:
    (line,) = (i for i, line in enumerate(lifted.source.splitlines(), 1) if text in line)
    return line


def two_blocks() -> onnx.ModelProto:
    proto = parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 17]> g (float[n, 4] x) => (float[n, 4] y) { '
        "a = MatMul(x, weight_0) b = Add(a, bias_0) c = Sin(b) d = Mul(c, c) "
        "e = MatMul(d, weight_1) f = Add(e, bias_1) g = Sin(f) y = Mul(g, g) }"
    )
    random = np.random.default_rng(0)
    for i, node in enumerate(proto.graph.node):
        node.name = f"/blocks.{i // 4}/{'fc/' if i % 4 < 2 else ''}{node.op_type}"
        node.input[:] = [f"blocks.{i // 4}.fc.{name[:-2]}" if "_" in name else name for name in node.input]
    for i in range(2):
        for name, shape in {"weight": (4, 4), "bias": (4,)}.items():
            array = random.standard_normal(shape).astype(np.float32)
            proto.graph.initializer.append(numpy_helper.from_array(array, f"blocks.{i}.fc.{name}"))
    return proto


def test_every_node_of_a_plain_model_has_its_line() -> None:
    proto = tiny_resnet()
    source_map = onnxlift.lift(proto).source_map
    for node in proto.graph.node:
        assert source_map.lines_of(node.name), node.name
        for line in source_map.lines_of(node.name):
            assert node.name in source_map.nodes_at(line)


def test_lines_outside_of_forward_have_no_nodes() -> None:
    lifted = onnxlift.lift(tiny_resnet(), name="tiny")
    assert lifted.source_map.nodes_at(1) == ()
    assert lifted.source_map.nodes_at(line_with(lifted, "def load(")) == ()


def test_asking_for_what_is_not_there_is_an_error() -> None:
    lifted = onnxlift.lift(tiny_resnet(), name="tiny")
    for line in (0, 10**6):
        with pytest.raises(OnnxLiftError, match=rf"no line {line}: its lines are 1 to \d+"):
            lifted.source_map.nodes_at(line)
    with pytest.raises(OnnxLiftError, match=r"no node 'no such node'. It has \d+ nodes, such as '"):
        lifted.source_map.lines_of("no such node")


def test_a_map_and_a_lifted_model_say_what_they_hold() -> None:
    lifted = onnxlift.lift(tiny_resnet(), name="tiny")
    assert re.fullmatch(r"SourceMap\(\d+ lines, \d+ statements, \d+ nodes\)", repr(lifted.source_map))
    assert re.fullmatch(r"Lifted\('tiny': \d+ nodes, [\d,]+ parameters, \d+ lines\)", repr(lifted))


def test_a_shared_class_stands_for_the_nodes_of_all_its_instances() -> None:
    lifted = onnxlift.lift(two_blocks(), name="two")
    (statement,) = (s for s in lifted.source_map.statements if "/blocks.0/Mul" in s.nodes and len(s.values) == 2)
    assert "/blocks.1/Mul" in statement.nodes
    assert statement.values == {"blocks.0": ("d",), "blocks.1": ("y",)}


def test_statements_inside_branches_and_loops() -> None:
    lifted = onnxlift.lift(beam_step(), name="beam_step")
    assert lifted.source_map.nodes_at(line_with(lifted, "if x.sum()")) == ("sum_all", "compare", "choose_start")
    assert "negate" in lifted.source_map.nodes_at(line_with(lifted, "= -x"))
    assert "halve" in lifted.source_map.nodes_at(line_with(lifted, "* 0.5"))


def test_statements_with_gradients_turned_on() -> None:
    lifted = onnxlift.lift(
        parser.parse_model(
            """<ir_version: 7, opset_import: ["" : 12, "ai.onnx.preview.training" : 1]>
            g (float a, float b) => (float c, float da, float db) {
                [add] c = Add(a, b)
                [gradient] da, db = ai.onnx.preview.training.Gradient <xs = ["a", "b"], y = "c"> (a, b) }"""
        )
    )
    assert "gradient" in lifted.source_map.nodes_at(line_with(lifted, "torch.autograd.grad"))


def test_statements_are_mapped_one_to_one() -> None:
    lifted = onnxlift.lift(beam_step(), name="beam_step")
    statements = list(forward_statements(ast.parse(lifted.source)))
    assert [s.lineno for s in statements] == [s.first_line for s in lifted.source_map.statements]


def test_saved_map(tmp_path: Path) -> None:
    lifted = onnxlift.lift(two_blocks(), name="two")
    path = lifted.save(tmp_path)[-1]
    saved = json.loads(path.read_text())
    assert (saved["version"], saved["source"]) == (2, "two.py")
    first = lifted.source_map.statements[0]
    assert saved["statements"][0] == {"lines": [first.first_line, first.last_line], "nodes": list(first.nodes)}
    assert {"kind": "class", "where": "", "name": "Block", "why": "it stands at `blocks.0`"} in saved["names"]


def test_lines_of_our_own_layers_are_of_no_node() -> None:
    proto = parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 17]> g (float[n, 4] x) => (float[n, 4] y) '
        "{ d = DequantizeLinear(w, s) h = MatMul(x, d) y = Sin(h) }"
    )
    weights = {"w": np.arange(16, dtype=np.int8).reshape(4, 4), "s": np.asarray(0.5, np.float32)}
    proto.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in weights.items())
    lifted = onnxlift.lift(proto)
    assert "class QuantizedLinear" in lifted.source
    (statement,) = lifted.source_map.statements
    assert statement.first_line == line_with(lifted, "return self.linear(x).sin()")
