"""Blocks of pixels that become channels: a case for each condition."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser
import pytest

from onnxlift.ir.load import load
from onnxlift.rewriting.idioms.images import pixel_unshuffle
from rewriting.idioms.recognising import assert_same_numbers, parse
from rewriting.running_stages import normalise

TEXT = "split = Reshape(x, blocks) turned = Transpose <perm = [0, 1, 3, 5, 2, 4]> (split) y = Reshape(turned, shape)"


def operators(
    text: str = TEXT,
    inputs: str = "float[2, 3, 8, 6] x",
    blocks: tuple[int, ...] = (2, 3, 4, 2, 3, 2),
    shape: tuple[int, ...] = (2, 12, 4, 3),
    more: str = "",
) -> list[str]:
    """The operators after this idiom alone, in a model that the lifted module agrees with."""
    result = f"float[{', '.join(map(str, shape))}] y{more}"
    given = {"blocks": np.array(blocks), "shape": np.array(shape), "start": np.array([0]), "axis": np.array([2])}
    used = {name: array for name, array in given.items() if name in text}
    model = parse(f"g ({inputs}) => ({result}) {{ {text} }}", **used)
    assert_same_numbers(model)
    graph = load(model)
    normalise(graph)
    pixel_unshuffle.run(graph)
    return [node.op_type for node in graph.graph]


def test_blocks() -> None:
    assert operators() == ["PixelUnshuffle"]


@pytest.mark.parametrize(
    ("inputs", "blocks", "shape"),
    [
        pytest.param("float[6, 8, 6] x", (2, 3, 4, 2, 3, 2), (2, 12, 4, 3), id="three-axes"),
        pytest.param("float[1, 2, 3, 8, 6] x", (2, 3, 4, 2, 3, 2), (2, 12, 4, 3), id="five-axes"),
        pytest.param("float[2, 3, 8, 6] x", (2, 3, 8, 1, 6, 1), (2, 3, 8, 6), id="of-one-pixel"),
        pytest.param("float[2, 3, 8, 6] x", (2, 3, 3, 2, 4, 2), (2, 12, 3, 4), id="of-other-rows"),
        pytest.param("float[2, 3, 8, 6] x", (2, 3, 4, 2, 3, 2), (2, 3, 16, 3), id="another-result"),
        pytest.param("float[2, 3, 8, 6] x", (2, 6, 2, 2, 3, 2), (2, 12, 4, 3), id="channels-that-are-split"),
    ],
)
def test_other_sizes(inputs: str, blocks: tuple[int, ...], shape: tuple[int, ...]) -> None:
    assert operators(TEXT, inputs, blocks, shape) == ["Reshape", "Transpose", "Reshape"]


def test_blocks_of_no_pixels() -> None:
    text = f"x = Slice(all, start, start, axis) {TEXT}".replace("Reshape(", "Reshape <allowzero = 1> (")
    assert "PixelUnshuffle" not in operators(text, "float[2, 3, 8, 6] all", (2, 3, 4, 0, 3, 0), (2, 0, 4, 3))


def test_another_order_of_axes() -> None:
    text = TEXT.replace("[0, 1, 3, 5, 2, 4]", "[0, 1, 5, 3, 2, 4]")
    assert operators(text) == ["Reshape", "Transpose", "Reshape"]


@pytest.mark.parametrize("value", ["split", "turned"])
def test_a_value_that_somebody_else_reads(value: str) -> None:
    assert "PixelUnshuffle" not in operators(f"{TEXT} z = Exp({value})", more=", float[a, b, c, d, e, f] z")


def test_nodes_without_inputs_are_passed_by() -> None:
    text = "e = SequenceEmpty() s = SequenceInsert(e, x) y = ConcatFromSequence <axis = 0, new_axis = 1> (s)"
    assert len(operators(text, "float[2, 12, 4] x", shape=(1, 2, 12, 4))) == 3


def test_an_order_that_is_known_only_to_the_caller_of_a_function() -> None:
    """The body of a function stays where the user has an operator for it."""
    model = onnx.parser.parse_model(f"""<ir_version: 9, opset_import: ["" : 18, "own" : 1]>
        g (float[2, 3, 8, 6] x, int64[6] blocks, int64[4] shape) => (float[2, 12, 4, 3] y) {{
            y = own.Unshuffle <order = [0, 1, 3, 5, 2, 4]> (x, blocks, shape)
        }}
        <domain: "own", opset_import: ["" : 18]>
        Unshuffle <order> (x, blocks, shape) => (y) {{ {TEXT.replace("[0, 1, 3, 5, 2, 4]", "@order")} }}
    """)
    model.functions[0].node[1].attribute[0].type = onnx.AttributeProto.INTS
    graph = load(model)
    normalise(graph, keep=lambda domain, name: domain == "own")
    assert pixel_unshuffle.run(graph) == 0
    assert [node.op_type for node in graph.graph] == ["Unshuffle"]
