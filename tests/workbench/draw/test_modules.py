"""Pictures of modules: what lifting finds, rows drawn once, depth, one module, branches and loops."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import onnxlift
from models import Example
from models.every import EXAMPLES
from models.handmade import tiny_resnet
from onnxlift.errors import LoadError, OnnxLiftError
from onnxlift.workbench.draw import Drawing, draw
from onnxlift.workbench.draw.picture import BORDER, INPUT, LAYER, OUTPUT, Box, Picture
from workbench.models import branches, parsed

GOLDEN = {example.name: example for example in EXAMPLES}


def titles(picture: Picture) -> list[str]:
    return [box.title for box in picture.boxes]


def named(picture: Picture, name: str) -> Box:
    return next(box for box in picture.walk() if box.name == name)


def stacked(blocks: int, *, mask: bool = True, taps: tuple[int, ...] = ()) -> onnx.ModelProto:
    """Blocks in a row, as PyTorch names them, that may all read one mask. The results of `taps` are outputs as well."""
    nodes, weights, outputs = [], [], []
    x = "x"
    for block in range(blocks):
        for name in ("fc1", "fc2"):
            key = f"blocks.{block}.{name}.weight"
            array = np.random.default_rng(block).standard_normal((4, 4), np.float32)
            weights.append(numpy_helper.from_array(array, key))
        scope = f"/blocks.{block}"
        nodes.append(
            helper.make_node("MatMul", [x, f"blocks.{block}.fc1.weight"], [f"a{block}"], f"{scope}/fc1/MatMul")
        )
        nodes.append(helper.make_node("Relu", [f"a{block}"], [f"b{block}"], f"{scope}/act/Relu"))
        nodes.append(
            helper.make_node(
                "MatMul", [f"b{block}", f"blocks.{block}.fc2.weight"], [f"c{block}"], f"{scope}/fc2/MatMul"
            )
        )
        other = "mask" if mask else f"b{block}"
        nodes.append(helper.make_node("Mul", [f"c{block}", other], [f"d{block}"], f"{scope}/Mul"))
        nodes.append(helper.make_node("Add", [f"d{block}", x], [f"x{block}"], f"{scope}/Add"))
        x = f"x{block}"
        outputs += [x] if block in taps or block == blocks - 1 else []
    inputs = ["x", "mask"] if mask else ["x"]
    infos = [
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", 4]) for n in names] for names in (inputs, outputs)
    ]
    graph = helper.make_graph(nodes, "stacked", infos[0], infos[1], weights)
    opset = helper.make_opsetid("", 17)
    return helper.make_model(
        graph, opset_imports=[opset], ir_version=9, producer_name="pytorch", producer_version="2.6"
    )


@pytest.fixture(scope="module")
def bert(model_file: Callable[[Example], Path]) -> Path:
    return model_file(GOLDEN["bert_script"])


def test_modules_have_the_classes_and_members_of_the_source(bert: Path) -> None:
    drawing, source = draw(bert, depth=9), onnxlift.lift(bert).source
    layer = named(drawing.picture, "layer.0 … 1")
    assert (layer.title, layer.times, layer.path) == ("EncoderLayer", 2, "encoder.layer.0")
    assert "class EncoderLayer(nn.Module):" in source
    query = named(drawing.picture, "query")
    assert (query.kind, query.title, query.path) == (LAYER, "nn.Linear(32, 32)", "encoder.layer.0.attention.self.query")
    assert "self.query = nn.Linear(32, 32)" in source
    assert [port.label for port in query.outputs] == ["(batch, sequence, 32)"]
    for box in drawing.picture.walk():
        if box.kind == LAYER:
            assert box.title.partition("(")[0] in source


def test_inputs_and_outputs_have_names_and_types(bert: Path) -> None:
    boxes = draw(bert, depth=1).picture.boxes
    ends = [(box.kind, box.title, box.lines) for box in boxes if box.kind in (INPUT, OUTPUT)]
    assert ends == [
        (INPUT, "input_ids", ("int64 (batch, sequence)",)),
        (INPUT, "attention_mask", ("int64 (batch, sequence)",)),
        (OUTPUT, "last_hidden_state", ("float32 (batch, sequence, 32)",)),
    ]


def test_depth_limits_what_is_inside(bert: Path) -> None:
    shallow, deep = draw(bert, depth=1), draw(bert, depth=99)
    assert (shallow.depth, shallow.deepest, deep.depth) == (1, 5, 5)
    encoder = named(shallow.picture, "encoder")
    inside = named(deep.picture, "encoder").inside
    assert inside is not None
    assert encoder.inside is None and encoder.hidden == inside.count()[0] > 10
    assert all(box.hidden == 0 for box in deep.picture.walk())
    with pytest.raises(OnnxLiftError, match="1 or more"):
        draw(bert, depth=0)


def test_one_module_is_drawn_with_what_goes_in_and_out(bert: Path) -> None:
    picture = draw(bert, module="encoder.layer.1.output").picture
    assert [box.kind for box in picture.boxes] == [INPUT, INPUT, LAYER, "call", LAYER, OUTPUT]
    assert titles(picture)[2:5] == ["nn.Linear(48, 32)", "+", "nn.LayerNorm(32, eps=1e-12)"]
    assert picture.boxes[0].lines == ("(batch, sequence, 48)",)
    layer = draw(bert, module="encoder/layer.1/output/dense").picture
    assert titles(layer)[1] == "nn.Linear(48, 32)" and len(layer.edges) == 2


def test_a_module_that_is_not_there_is_an_error_with_others(bert: Path) -> None:
    with pytest.raises(OnnxLiftError, match=r"no module 'encoder.layers.1'.*encoder.layer.1"):
        draw(bert, module="encoder.layers.1")
    with pytest.raises(OnnxLiftError, match="has no modules"):
        draw(parsed("g (float[n] x) => (float[n] y) { y = Relu(x) }"), module="encoder")


def test_equal_blocks_are_drawn_once_and_read_the_mask_once() -> None:
    picture = draw(stacked(12)).picture
    (row,) = (box for box in picture.walk() if box.times > 1)
    assert (row.name, row.times) == ("blocks.0 … 11", 12)
    assert len(picture.boxes) == 4 and len(picture.edges) == 3  # x and mask go in, and y comes out


def test_a_block_whose_result_others_read_ends_a_row() -> None:
    picture = draw(stacked(12, taps=(3,))).picture
    rows = [(box.name, box.times) for box in picture.boxes if box.kind == "module"]
    assert rows == [("blocks.0 … 3", 4), ("blocks.4 … 11", 8)]
    readers = [edge.target for edge in picture.edges if edge.source == 2]
    assert len(readers) == 2  # the next row, and the output


def test_inputs_that_each_block_has_for_itself_are_one() -> None:
    model = stacked(3)
    (mask,) = (value for value in model.graph.input if value.name == "mask")
    model.graph.input.remove(mask)
    for block, node in enumerate(node for node in model.graph.node if node.op_type == "Mul"):
        node.input[1] = f"cache.{block}"
        model.graph.input.add(name=f"cache.{block}", type=mask.type)
    picture = draw(model).picture
    assert [(box.title, box.times) for box in picture.boxes if box.kind == INPUT] == [("x", 1), ("cache.0 … 2", 3)]
    assert [(box.name, box.times) for box in picture.boxes if box.kind == "module"] == [("blocks.0 … 2", 3)]
    assert len(picture.edges) == 3


def test_edges_stay_in_their_picture_and_lead_forward(bert: Path) -> None:
    def check(picture: Picture, inputs: int, outputs: int) -> None:
        for edge in picture.edges:
            assert edge.source == BORDER or edge.source_port < len(picture.boxes[edge.source].outputs)
            assert edge.target == BORDER or edge.target_port < len(picture.boxes[edge.target].inputs)
            assert edge.source != BORDER or edge.source_port < inputs
            assert edge.target != BORDER or edge.target_port < outputs
            assert BORDER in (edge.source, edge.target) or edge.source < edge.target
        for box in picture.boxes:
            if box.inside is not None:
                check(box.inside, len(box.inputs), len(box.outputs))

    for model in (bert, branches(), tiny_resnet(), stacked(5, taps=(1,))):
        check(draw(model, depth=99).picture, 0, 0)
        check(draw(model, depth=99, flat=True).picture, 0, 0)


def test_branches_and_loops_are_boxes_with_the_code_inside() -> None:
    control = [box for box in draw(branches(), depth=9).picture.walk() if box.kind == "control"]
    assert control[0].title.startswith("if") and control[0].inside is not None
    assert titles(control[0].inside) == ["then", "else"]
    loop = next(box.inside for box in control if box.title.startswith("for each of"))
    assert loop is not None and titles(loop) == ["+"]
    assert [edge.target for edge in loop.edges] == [0, 0, BORDER]


def test_both_branches_read_what_was_there_before() -> None:
    text = """g (float[n, 4] x, bool go) => (float[n, 4] y) {
        a = Exp(x)
        b = If (go) <
            then_branch = t () => (float[n, 4] t1) { t1 = Sin(a) },
            else_branch = e () => (float[n, 4] e1) { e1 = Cos(a) }
        >
        y = Neg(b) }"""
    box = next(box for box in draw(parsed(text), depth=9).picture.boxes if box.kind == "control")
    assert box.inside is not None
    assert sorted((edge.source, edge.target) for edge in box.inside.edges) == [(-1, 0), (-1, 1), (0, -1), (1, -1)]


def test_sizes_get_no_boxes() -> None:
    text = """g (float[n, c, 4] x) => (float[n, k] y) {
        shape = Shape(x)
        zero = Constant <value_ints = [0]> ()
        first = Gather(shape, zero)
        rest = Constant <value_ints = [-1]> ()
        target = Concat <axis = 0> (first, rest)
        e = Exp(x)
        y = Reshape(e, target) }"""
    assert titles(draw(parsed(text)).picture) == ["x", "exp", "flatten(1)", "y"]


def test_what_cannot_be_lifted_is_drawn_by_nodes_with_a_note() -> None:
    head = '<ir_version: 10, opset_import: ["" : 20, "acme" : 1]>'
    drawing = draw(parsed("g (float[n] x) => (float[n] y) { a = acme.Odd(x) y = Relu(a) }", head))
    assert titles(drawing.picture) == ["x", "acme::Odd", "Relu", "y"]
    assert drawing.notes == ("drawn node by node: acme::Odd cannot be lifted",)
    assert "drawn node by node" in str(drawing)


def test_bad_input_is_an_error() -> None:
    for source in (b"no model", b""):
        for flat in (False, True):
            with pytest.raises(LoadError):
                draw(source, flat=flat)


def test_the_report_is_readable_and_plain_data(bert: Path) -> None:
    drawing = draw(bert, depth=2)
    assert isinstance(drawing, Drawing) and drawing.passed
    assert str(drawing).splitlines()[0] == "bert_script.onnx"
    assert "2 of 5; --depth 5 shows all" in str(drawing)
    facts = drawing.to_dict()
    assert facts["boxes"][0]["title"] == "input_ids"
    assert facts["edges"][0] == {"from": 0, "from_port": 0, "to": 2, "to_port": 0}
    assert drawing._repr_svg_() == drawing.svg()


def test_a_layer_of_which_one_result_is_taken_is_a_layer(model_file: Callable[[Example], Path]) -> None:
    attention = named(draw(model_file(GOLDEN["vit_script"])).picture, "attn")
    assert attention.kind == LAYER and attention.title.startswith("nn.MultiheadAttention(")
