"""Matrices that an exporter has turned, or cut out of others, ahead of time."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import pytest

from onnxlift.ir.load import load
from onnxlift.ir.origin.metadata import string_list
from onnxlift.ir.origin.tensors import mark_computed
from onnxlift.rewriting.restoring import folded_parameters
from rewriting.graphs import Array, operators, proto_of, random, run, with_tensors

HEAD = "g (int64[n] i) => (float[n, k] y) { e = Gather(table, i) y = MatMul(e, val_3) }"
GEMM = HEAD.replace("MatMul(e, val_3)", "Gemm<transB=TURNED>(e, val_3, b)")
TABLE = random(7, 4)
TYPES = {np.float64: "double", np.float16: "float16", ml_dtypes.bfloat16: "bfloat16"}


def changes(proto: onnx.ModelProto, feeds: dict[str, Array], notes: dict[str, str] | None = None) -> list[str] | None:
    """The operators that the graph has afterwards, with equal results; None if nothing was found."""
    model = load(proto)
    for name, note in (notes or {}).items():
        mark_computed(model.graph.initializers[name], string_list(note) or [])
    found = folded_parameters.run(model)
    if not found:
        return None
    np.testing.assert_array_equal(run(proto_of(model), feeds)[0], run(proto, feeds)[0])
    return operators(model)


def head(matrix: Array, text: str = HEAD, name: str = "val_3", **tensors: Array) -> list[str] | None:
    proto = with_tensors(text.replace("val_3", name), table=TABLE, **{name: np.ascontiguousarray(matrix)}, **tensors)
    return changes(proto, {"i": np.array([3, 0, 6])})


def test_a_transposed_copy_is_the_parameter() -> None:
    assert head(TABLE.T) == ["Gather", "Transpose", "MatMul"]
    assert head(TABLE.T, GEMM.replace("TURNED", "0"), b=random(7)) == ["Gather", "Gemm"]


@pytest.mark.parametrize("start", [0, 2, 4])
def test_rows_of_a_parameter_are_taken_from_it(start: int) -> None:
    rows = TABLE[start : start + 3]
    assert head(rows.T) == ["Gather", "Slice", "Transpose", "MatMul"]
    assert head(rows, GEMM.replace("TURNED", "1"), b=random(3)) == ["Gather", "Slice", "Gemm"]
    assert head(rows.T, GEMM.replace("TURNED", "0"), b=random(3)) == ["Gather", "Slice", "Gemm"]


def test_other_matrices_stay() -> None:
    other = TABLE.T.copy()
    other[-1, -1] += 1
    assert head(other) is None
    assert head(other[:, 3:]) is None
    assert head(TABLE.T, name="w") is None  # it has a name of its own
    assert head(TABLE[::2].T) is None  # there is nothing to tell that these rows are not a layer's
    ones = np.ones((7, 4), np.float32)
    assert changes(with_tensors(HEAD, table=ones, val_3=ones[:3].T.copy()), {"i": np.array([3, 0, 6])}) is None


def test_what_the_exporter_notes_may_be_any_part() -> None:
    feeds = {"i": np.array([3, 0, 6])}
    for part, expected in (
        (TABLE.T, ["Gather", "Transpose", "MatMul"]),
        (TABLE[::2].T, ["Gather", "Slice", "Transpose", "MatMul"]),
        (TABLE[::-1].T, ["Gather", "Slice", "Transpose", "MatMul"]),
        (TABLE[[4, 0, 5]].T, ["Gather", "Gather", "Transpose", "MatMul"]),
        (TABLE[1:5, ::-1].T, ["Gather", "Slice", "Transpose", "MatMul"]),
        (TABLE[:4], ["Gather", "Slice", "MatMul"]),
        (-TABLE.T, ["Gather", "Neg", "Transpose", "MatMul"]),
        (TABLE.T * np.float32(0.3), ["Gather", "Mul", "Transpose", "MatMul"]),
    ):
        proto = with_tensors(HEAD.replace("val_3", "c"), table=TABLE, c=np.ascontiguousarray(part))
        assert changes(proto, feeds) is None
        assert changes(proto, feeds, {"c": "['table', 'slice_1']"}) == expected


@pytest.mark.parametrize("dtype", [np.float64, np.float16, ml_dtypes.bfloat16])
def test_other_types(dtype: type) -> None:
    matrix = random(4, 6).astype(dtype)
    tensors = {"fc_w": matrix, "val_2": np.ascontiguousarray(matrix[1:, :5].T)}
    model = with_tensors(
        "g (T[n, 6] x) => (T[n, 3] y) { h = MatMul(x, t) y = MatMul(h, val_2) }".replace("T", TYPES[dtype]), **tensors
    )
    model.graph.initializer[0].name = "block.fc.weight"
    turn = onnx.helper.make_node("Transpose", ["block.fc.weight"], ["t"], "/block/fc/Transpose", perm=[1, 0])
    model.graph.node.insert(0, turn)
    model.graph.node[1].name, model.graph.node[2].name = "/block/fc/MatMul", "/block/MatMul"
    assert folded_parameters.run(load(model)) == 1


def test_padding_does_not_hide_the_numbers_of_an_embedding() -> None:
    table = random(7, 80)
    table[0] = 0
    text = "g (int64[n] i) => (float[n, 7] y) { e = Gather(table, i) y = Gemm<transB=1>(e, val_3) }"
    proto = with_tensors(text, table=table, val_3=table[:5].copy())
    assert changes(proto, {"i": np.array([3, 0, 6])}) == ["Gather", "Slice", "Gemm"]


def test_operators_that_take_bounds_as_attributes_are_not_written() -> None:
    rows = np.ascontiguousarray(TABLE[2:5].T)
    for opset, expected in ((9, ["Gather", "MatMul"]), (10, ["Gather", "Slice", "Transpose", "MatMul"])):
        proto = with_tensors(HEAD, table=TABLE, val_3=rows)
        proto.opset_import[0].version = opset
        model = load(proto)
        folded_parameters.run(model)
        assert operators(model) == expected


TURNED_TWICE = "g (float[n, 4] x) => (float[n, 4] y) { h = MatMul(x, val_0) y = MatMul(h, val_1) }"


def test_a_parameter_that_was_transposed_twice_has_its_name_again() -> None:
    ones = np.ones((4, 3), np.float32)
    for matrix, other, is_found in (
        (random(4, 3), random(4, 3).T.copy(), True),
        (random(4, 3), random(4, 3).T + 2, False),
        (ones, ones.T.copy(), False),  # by chance: it may have been computed in any way
    ):
        proto, notes = with_tensors(TURNED_TWICE, val_0=matrix, val_1=other), {"val_0": "['fc.weight']"}
        found = changes(proto, {"x": random(3, 4)}, {**notes, "val_1": "['fc.weight', 't']"})
        assert found == (["Transpose", "MatMul", "MatMul"] if is_found else None)


LAYER = "g (float[n, 4] x) => (float[n, k] y) { h = MatMul(x, val_1) k = MatMul(h, val_2) y = Mul(k, norm) }"


def layer(names: tuple[str, str], matrix: Array, other: Array | None = None) -> ir.Model:
    """Two products by the names of nodes, with one matrix or with two; and a norm in the module `dec`."""
    tensors = {"val_1": matrix, "norm": random(1)} | ({"val_2": other} if other is not None else {})
    model = with_tensors(LAYER if other is not None else LAYER.replace("val_2", "val_1"), **tensors)
    for node, name in zip(model.graph.node, names, strict=False):
        node.name = name
    model.graph.node[-1].input[1] = model.graph.initializer[1].name = "dec.norm.weight"
    return load(model)


@pytest.mark.parametrize(
    ("names", "numbers", "expected"),
    [
        (("/block/fc/MatMul", "/block/MatMul"), random(4, 4), True),
        (("/MatMul", "/block/fc/MatMul"), random(4, 4), True),
        (("/enc/fc/MatMul", "/dec/MatMul"), random(4, 4), True),  # `dec` has a norm, and so is no layer
        (("/enc/fc/MatMul", "/head/MatMul"), random(4, 4), False),
        (("/block/fc/MatMul", "/block/MatMul"), np.ones((4, 4), np.float32), False),
    ],
)
def test_a_function_reads_the_matrix_of_a_layer(names: tuple[str, str], numbers: Array, expected: bool) -> None:
    key = next(name for name in names if "fc" in name).removeprefix("/").removesuffix("/MatMul").replace("/", ".")
    for other in (None, numbers):
        model = layer(names, numbers, other)
        assert (folded_parameters.run(model) > 0) == expected
        assert (f"{key}.weight" in model.graph.initializers) == expected
        if expected:
            transposes = [node for node in model.graph if node.op_type == "Transpose"]
            assert [node.inputs[0].name for node in transposes if node.inputs[0]] == [f"{key}.weight"] * 2


@pytest.mark.parametrize(("name", "expected"), [("/block/MatMul", 1), ("/MatMul", 1), ("/head/MatMul", 0)])
def test_a_function_reads_columns_of_a_layers_rows(name: str, expected: int) -> None:
    """Only code in a module that is no layer does."""
    matrix = random(4, 6)
    model = layer(("/block/fc/MatMul", name), matrix, np.ascontiguousarray(matrix[1:, :5].T))
    assert folded_parameters.run(model) == expected


@pytest.mark.parametrize("fill", [None, 0.0])
@pytest.mark.parametrize(("start", "is_same"), [(1, True), (0, False)])
def test_the_bias_follows_the_rows(fill: float | None, start: int, is_same: bool) -> None:
    """Even if nobody has trained it: then its numbers are those of all biases."""
    weight, bias = random(6, 4), random(6) if fill is None else np.full(6, fill, np.float32)
    text = "g (float[n, 4] x) => (float[n, 3] y) { a = Gemm<transB=1>(x, w, b) s = ReduceMax(a) z = Add(x, s)"
    text += " y = Gemm<transB=1>(z, val_1, val_2) }"
    part = bias[start : start + 3].copy()
    proto = with_tensors(text, w=weight, b=bias, val_1=weight[1:4].copy(), val_2=part)
    for node in proto.graph.node:
        node.input[:] = [{"w": "fc.weight", "b": "fc.bias"}.get(name, name) for name in node.input]
    for tensor, name in zip(proto.graph.initializer, ("fc.weight", "fc.bias"), strict=False):
        tensor.name = name
    expected = ["Slice", "Slice"] if is_same or fill is not None else ["Slice"]
    found = changes(proto, {"x": random(3, 4)})
    assert found is not None and [name for name in found if name == "Slice"] == expected


def test_zeros_follow_only_where_the_rows_are() -> None:
    """The newer exporter stores equal constants once: what is added elsewhere is not this layer's."""
    zeros, weight = np.zeros(6, np.float32), random(6, 4)
    text = "g (float[n, 4] x) => (float[n, 3] y) { a = Gemm<transB=1>(x, w, b) s = ReduceMax(a) z = Add(x, s)"
    text += " h = Gemm<transB=1>(z, val_1, val_2) y = Add(h, val_2) }"
    proto = with_tensors(text, w=weight, b=zeros, val_1=weight[1:4].copy(), val_2=zeros[:3])
    for tensor, name in zip(proto.graph.initializer, ("fc.weight", "fc.bias"), strict=False):
        tensor.name = name
    proto.graph.node[0].input[1:] = ["fc.weight", "fc.bias"]
    found = changes(proto, {"x": random(3, 4)})
    assert found == ["Gemm", "ReduceMax", "Add", "Slice", "Slice", "Gemm", "Add"]
