"""A bias and the mask of shifted windows, added ahead of time, are two constants again."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import onnxlift
from onnxlift.ir.origin.metadata import FOLDED_FROM
from onnxlift.rewriting.idioms.attention import window_biases
from rewriting.idioms.attention.test_relative_positions import a_table, bias_of
from rewriting.idioms.recognising import parse, simplified

RANDOM = np.random.default_rng(5)
WINDOWS, HEADS, LENGTH = 4, 3, 8
NOTE = ["add_3", "index", "attn.attn_mask", "attn.table", "attn.positions_index", "permute_2", "val_3"]
BODY = """images = Shape <start = 0, end = 1> (x) times = Concat <axis = 0> (images, ones) q = Reshape(x, into)
    k = Transpose <perm = [0, 1, 3, 2]> (q) scores = MatMul(q, k) tiled = Tile(val_7, times) y = Add(scores, tiled)"""
TILE_READ_TWICE = "z = Add(scores, tiled) y = Mul(z, tiled)"
SCALED = "most = ReduceMax <keepdims = 0> (x) tiled = Mul(val_7, most)"
NO_SCORES = "z = Sin(scores) y = Add(z, tiled)"
READ_TWICE = "z = Add(scores, tiled) more = Sin(val_7) most = ReduceMax <keepdims = 0> (more) y = Mul(z, most)"


def a_mask(number: float = -100) -> np.ndarray:
    mask = np.where(RANDOM.random((WINDOWS, 1, LENGTH, LENGTH)) < 0.3, number, 0).astype(np.float32)
    mask[0] = 0
    return mask


def model(total: np.ndarray, body: str = BODY, note: list[str] | None = None, name: str = "val_7") -> onnx.ModelProto:
    sizes = total.shape[1:-1]
    known = {"ones": np.ones(len(sizes) + 1, np.int64), "into": np.array((-1, *sizes, 5)), "val_7": total}
    kind = "int32" if total.dtype == np.int32 else "float"
    inner = ", ".join(map(str, sizes))
    inputs, outputs = f"{kind}[batch, {WINDOWS}, {inner}, 5] x", f"{kind}[n, {inner}, {LENGTH}] y"
    body = body if total.ndim == 4 else body.replace("0, 1, 3, 2", "0, 2, 1")
    proto = parse(f"g ({inputs}) => ({outputs}) {{ {body.replace('val_7', name)} }}", **known)
    proto.graph.initializer[2].name = name
    if note is not None:
        proto.graph.value_info.add(name=name).metadata_props.add(key=FOLDED_FROM, value=repr(note))
    return proto


def shapes(proto: onnx.ModelProto) -> set[tuple[int, ...]]:
    """The shapes of the constants that are no lists, if relative positions are not looked for."""
    graph = simplified(proto, "relative-positions").graph
    values = (value for node in graph for value in node.inputs if value is not None and value.const_value is not None)
    return {tuple(value.shape) for value in values if value.shape is not None and len(value.shape) > 1}


APART = {(HEADS, LENGTH, LENGTH), (WINDOWS, 1, LENGTH, LENGTH)}


@pytest.mark.parametrize("number", [-100, -1e9, float(np.finfo(np.float32).min), -np.inf])
def test_the_sum_is_the_same_number_by_number(number: float) -> None:
    bias, mask = RANDOM.standard_normal((HEADS, LENGTH, LENGTH)).astype(np.float32), a_mask(number)
    assert shapes(model(bias + mask)) == APART
    lifted = onnxlift.lift(model(bias + mask))
    found = {array.shape: np.asarray(array) for array in lifted.state_dict.values()}
    np.testing.assert_array_equal(found[bias.shape] + found[mask.shape], bias + mask)
    np.testing.assert_array_equal(found[mask.shape], mask)


def test_the_bias_is_a_table_of_offsets() -> None:
    table, mask = a_table(), a_mask()
    lifted = onnxlift.lift(model(bias_of(table) + mask, note=NOTE))
    np.testing.assert_array_equal(lifted.state_dict["attn.table"], table)
    np.testing.assert_array_equal(lifted.constants["attn.attn_mask"], mask)
    assert {*lifted.constants} == {"attn.attn_mask", "attn.positions_index"}


def test_names_where_the_exporter_notes_none() -> None:
    lifted = onnxlift.lift(model(bias_of(a_table()) + a_mask()))
    assert {*lifted.state_dict} == {"relative_position_bias_table"}
    assert {*lifted.constants} == {"attn_mask", "relative_position_index"}


def almost(total: np.ndarray) -> np.ndarray:
    total[2, 1, 3, 4] = np.nextafter(total[2, 1, 3, 4], np.float32(9))
    return total


@pytest.mark.parametrize(
    "proto",
    [
        model(almost(bias_of(a_table()) + a_mask())),
        model(RANDOM.standard_normal((WINDOWS, HEADS, LENGTH, LENGTH)).astype(np.float32)),
        model(bias_of(a_table()) + np.zeros_like(a_mask())),
        model(bias_of(a_table()) + a_mask(), name="bias_of_windows"),
        model(bias_of(a_table()) + a_mask(), BODY.replace("Add(scores, tiled)", "Mul(scores, tiled)")),
        model(bias_of(a_table()) + a_mask(), BODY.replace("y = Add(scores, tiled)", READ_TWICE)),
        model(bias_of(a_table()) + a_mask(), BODY.replace("y = Add(scores, tiled)", TILE_READ_TWICE)),
        model(bias_of(a_table()) + a_mask(), BODY.replace("y = Add(scores, tiled)", NO_SCORES)),
        model((99 * bias_of(a_table())).astype(np.int32) + a_mask().astype(np.int32)),
        model(bias_of(a_table())[0] + a_mask()[:, 0]),
        model((bias_of(a_table()) + a_mask())[:0]),
        model(bias_of(a_table()) + a_mask(), BODY.replace("tiled = Tile(val_7, times)", SCALED)),
    ],
    ids=[
        *("a number that differs", "any numbers", "nothing hidden", "a parameter", "a factor", "read by others"),
        *(
            "read by others when it is repeated",
            "not added to scores",
            "integers",
            "no heads",
            "no windows",
            "not repeated",
        ),
    ],
)
def test_what_is_no_such_sum_stays(proto: onnx.ModelProto) -> None:
    assert (WINDOWS, 1, LENGTH, LENGTH) not in shapes(proto)


def test_a_constant_of_any_name() -> None:
    proto = model(bias_of(a_table()) + a_mask(), name="total")
    value = proto.graph.initializer.pop()
    proto.graph.node.insert(0, onnx.helper.make_node("Constant", [], ["total"], value=value))
    assert shapes(proto) == APART


@pytest.mark.parametrize("kind", [np.float16, np.float64, ml_dtypes.bfloat16])
def test_other_floats(kind: type) -> None:
    bias = (8 * bias_of(a_table())).astype(np.int32)
    total = numpy_helper.from_array((bias + a_mask()).astype(kind), "val_7")
    proto = model((bias + a_mask()).astype(np.float32))
    proto.graph.initializer[2].CopyFrom(total)
    for value in (*proto.graph.input, *proto.graph.output):
        value.type.tensor_type.elem_type = total.data_type
    assert shapes(proto) == APART


def test_a_huge_total_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    total = bias_of(a_table()) + a_mask()
    monkeypatch.setattr(window_biases, "LARGEST", total.size)
    assert shapes(model(total)) == APART
    monkeypatch.setattr(window_biases, "LARGEST", total.size - 1)
    assert shapes(model(total)) == {total.shape}


def test_a_sum_that_the_exporter_notes_under_the_name_of_an_operation() -> None:
    assert shapes(model(bias_of(a_table()) + a_mask(), note=NOTE, name="attention_total")) == APART
