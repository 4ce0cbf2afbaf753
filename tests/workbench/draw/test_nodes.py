"""Pictures of nodes: operators, attributes, weights, subgraphs, functions, and weights that are not there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

from models.handmade import tiny_resnet
from onnxlift.errors import OnnxLiftError
from onnxlift.workbench.draw import draw
from onnxlift.workbench.draw.nodes import MOST_LINES
from onnxlift.workbench.draw.picture import FUNCTION, INPUT, OUTPUT
from workbench.models import branches, chain, parsed


def test_nodes_have_their_names_attributes_and_the_shapes_of_weights() -> None:
    boxes = {box.name: box for box in draw(tiny_resnet(), flat=True).picture.boxes}
    conv = boxes["stem_out_conv"]
    assert (conv.title, conv.family) == ("Conv", "weighted")
    assert conv.lines == (
        "kernel_shape = [7, 7]",
        "pads = [3, 3, 3, 3]",
        "strides = [2, 2]",
        "W (64, 3, 7, 7)",
        "B (64)",
    )
    assert conv.outputs[0].label == "(batch, 64, 112, 112)"
    assert boxes["stem_out_bn"].lines == ("scale (64)", "B (64)", "input_mean (64)", "input_var (64)")


def test_a_node_with_the_name_of_its_operator_says_it_once() -> None:
    model = parsed("g (float[n, 4] x) => (float[n, 4] y) { a = Relu(x) y = Exp(a) }")
    model.graph.node[0].name, model.graph.node[1].name = "Relu", "exp"
    boxes = draw(model, flat=True).picture.boxes
    assert [(box.title, box.name) for box in boxes[1:3]] == [("Relu", ""), ("Exp", "exp")]


def test_small_constants_are_written_out_under_the_names_of_their_parameters() -> None:
    text = """g (float[n, 4] x) => (float[n, 2] y) {
        axes = Constant <value_ints = [1]> ()
        starts = Constant <value_ints = [0]> ()
        ends = Constant <value_ints = [2]> ()
        a = Slice(x, starts, ends, axes)
        b = Cast <to = 7> (a)
        y = Cast <to = 1> (b) }"""
    boxes = draw(parsed(text), flat=True).picture.boxes
    assert [box.title for box in boxes] == ["x", "Slice", "Cast", "Cast", "y"]
    assert boxes[1].lines == ("starts = [0]", "ends = [2]", "axes = [1]")
    assert [box.lines for box in boxes[2:4]] == [("to = INT64",), ("to = FLOAT",)]


def test_subgraphs_are_inside_their_nodes_and_read_from_outside() -> None:
    picture = draw(branches(), flat=True).picture
    choice, loop = (box for box in picture.boxes if box.kind == "control")
    assert choice.inside is not None and loop.inside is not None
    assert [box.title for box in choice.inside.boxes] == ["then_branch", "else_branch"]
    then = choice.inside.boxes[0].inside
    assert then is not None
    assert [box.title for box in then.boxes] == ["Relu", "Add", "t2"]
    assert len(choice.inputs) == 3  # the condition, a, and k
    body = loop.inside.boxes[0].inside
    assert body is not None
    assert [box.title for box in body.boxes if box.kind == INPUT] == ["i", "c", "s"]


def test_each_function_is_drawn_once_below() -> None:
    text = """<ir_version: 10, opset_import: ["" : 20, "acme" : 1]>
    g (float[n] x) => (float[n] y) { a = acme.twice(x) y = acme.twice(a) }
    <domain: "acme", opset_import: ["" : 20]> twice (v) => (w) { w = Add(v, v) }"""
    boxes = draw(parser.parse_model(text), flat=True).picture.boxes
    assert [(box.kind, box.title) for box in boxes[1:]] == [
        ("node", "acme::twice"),
        ("node", "acme::twice"),
        (OUTPUT, "y"),
        (FUNCTION, "acme::twice"),
    ]
    assert boxes[-1].inside is not None
    assert [box.title for box in boxes[-1].inside.boxes] == ["v", "Add", "w"]


def test_many_attributes_are_cut() -> None:
    node = onnx.helper.make_node("Odd", ["x"], ["y"], domain="acme", **{f"a{i}": i for i in range(50)})
    model = parsed("g (float[n] x) => (float[n] y) { y = Relu(x) }")
    model.graph.node[0].CopyFrom(node)
    model.opset_import.add(domain="acme", version=1)
    lines = draw(model, flat=True).picture.boxes[1].lines
    assert len(lines) == MOST_LINES + 1 and lines[-1] == f"and {50 - MOST_LINES} more"


def test_the_nodes_of_a_module_are_drawn_with_what_goes_in_and_out() -> None:
    model = chain()
    for node, name in zip(model.graph.node, ("/a/Mul", "/a/Add", "/a/act/Relu", "/Add", "/Neg"), strict=True):
        node.name = name
    picture = draw(model, flat=True, module="a").picture
    ends = [(box.kind, box.title) for box in picture.boxes if box.kind in (INPUT, OUTPUT)]
    assert ends == [(INPUT, "x"), (OUTPUT, "a"), (OUTPUT, "c")]
    with pytest.raises(OnnxLiftError, match="no node is in a module 'b'"):
        draw(model, flat=True, module="b")
    with pytest.raises(OnnxLiftError, match="do not tell their modules"):
        draw(chain(), flat=True, module="a")


def test_weights_in_a_file_that_is_not_there_do_not_matter(tmp_path: Path) -> None:
    model = chain()
    for tensor in model.graph.initializer:
        tensor.raw_data = numpy_helper.to_array(tensor).astype(np.float32).tobytes()
        tensor.ClearField("float_data")
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    with_data = draw(tmp_path / "m.onnx", flat=True)
    assert with_data.picture.boxes[1].lines == ("B = [1, 2, 3, 4]",) and not with_data.notes
    (tmp_path / "m.data").unlink()
    for flat in (True, False):
        drawing = draw(tmp_path / "m.onnx", flat=flat)
        assert drawing.picture.boxes[1].lines == ("B (4)",)
        assert any("m.data" in note for note in drawing.notes)
