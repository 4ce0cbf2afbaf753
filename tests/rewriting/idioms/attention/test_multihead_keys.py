"""What an `nn.MultiheadAttention` appends to its keys and values: a bias, a row of zeros."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import onnxlift
from onnxlift.ir.editing.edit import Edit, Names, initialiser, weight_initialiser
from onnxlift.ir.graph.walk import Region
from onnxlift.rewriting.idioms.attention.multihead import keys as multihead_keys
from onnxlift.rewriting.idioms.attention.multihead.keys import find_rows
from onnxlift.rewriting.idioms.parts.moved_axes import Appended, Moved
from rewriting.idioms.attention.multihead_graphs import K0, KEYS, LAYER, TEXT, V0, VALUES, ZEROS, appended, layer
from rewriting.idioms.recognising import found

RANDOM = np.random.default_rng(5).standard_normal((1, 2, 12)).astype(np.float32)
ROW = RANDOM[:, :1].repeat(2, 1)


def with_bias(
    k: str = "bias_k", v: str = "bias_v", more: str = "", shape: str = "float[2, 5, 12]", **other: Any
) -> onnx.ModelProto:
    """The layer with something appended to its keys and values, which have batches in an axis of their own there."""
    text = TEXT.replace("kr = Reshape(ks, rows)", f"{more} ks2 = Concat <axis = 0> (ks, {k}) kr = Reshape(ks2, rows1)")
    text = text.replace("vr = Reshape(vs, rows)", f"vs2 = Concat <axis = 0> (vs, {v}) vr = Reshape(vs2, rows1)")
    text = text.replace("v = Reshape(vt, heads)", "v = Reshape(vt, heads1)")
    sizes = {"rows1": [6, -1, 4], "heads1": [-1, 3, 6, 4], "keys": [-1, 3, 4, 6]}
    known = {name: np.array(size) for name, size in sizes.items()} | {"bias_k": ROW, "bias_v": ROW[:, :, ::-1].copy()}
    return layer(text, shape, **(known | other))


def test_bias() -> None:
    assert found(with_bias()) == [LAYER]
    lifted = onnxlift.lift(with_bias())
    assert "add_bias_kv=True" in lifted.source
    shapes = {name.rpartition(".")[2]: array.shape for name, array in lifted.state_dict.items()}
    assert shapes["bias_k"] == shapes["bias_v"] == (1, 1, 12)


@pytest.mark.parametrize(
    ("bias", "size", "is_layer"),
    [((1, 1, 12), 1, True), ((1, 1, 4), 3, False), ((12,), 1, False)],
    ids=["for all batches", "for all heads", "without axes"],
)
def test_a_bias_that_is_repeated(bias: tuple[int, ...], size: int, is_layer: bool) -> None:
    more = """shape = Shape(x) n = Gather(shape, zero) all = Concat <axis = 0> (one, n, size)
        k9 = Tile(bias_k, all) v9 = Tile(bias_v, all)"""
    if len(bias) == 1:
        more = more.replace("Tile", "Expand")
        size = 12
    known = {"one": np.array([1]), "size": np.array([size]), "bias_k": bias, "bias_v": bias}
    proto = with_bias("k9", "v9", more, "float[batch, 5, 12]", **known)
    assert (found(proto)[-1] == LAYER) is is_layer


@pytest.mark.parametrize("limit", [10, 1 << 20])
def test_large_rows_stay(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multihead_keys, "_LARGEST", limit)
    assert (found(with_bias()) == [LAYER]) is (limit > 24)


def test_a_bias_for_each_batch_stays() -> None:
    assert LAYER not in found(with_bias(bias_k=RANDOM))


@pytest.mark.parametrize(
    ("names", "zeros", "option"),
    [
        (("bias_k", "bias_v"), False, "add_bias_kv"),
        (("bias_k", "bias_v"), True, "add_bias_kv"),
        (("val_1", "val_2"), False, "add_bias_kv"),
        (("val_1", "val_2"), True, "add_zero_attn"),
    ],
)
def test_what_a_row_is(names: tuple[str, str], zeros: bool, option: str) -> None:
    """Zeros are a bias that nobody has trained, if they are named so."""
    row = np.zeros_like(ROW) if zeros else ROW
    proto = with_bias(*names, **dict.fromkeys(names, row))
    assert found(proto) == [LAYER]
    lifted = onnxlift.lift(proto)
    assert f"{option}=True" in lifted.source
    assert any(name.endswith("bias_k") for name in lifted.state_dict) == (option == "add_bias_kv")


@pytest.mark.parametrize(("name", "expected"), [("mine", "mine"), ("val_1", "bias_k")])
def test_what_a_bias_is_called(name: str, expected: str) -> None:
    """The model's own parameter stays, if it has a name and one row."""
    graph = ir.Graph([], [], nodes=[], name="g", opset_imports={"": 18})
    model = ir.Model(graph, ir_version=9)
    edit = Edit(Region(graph, {"": 18}), Names(model))
    bias = weight_initialiser(graph, name, ROW[:, :1].copy(), "a test")
    value = multihead_keys.bias_of(edit, multihead_keys.Rows(bias), "bias_k")
    assert value is not None and value.name == expected and (value is bias) is (name == "mine")


def test_two_rows_of_zeros_stay() -> None:
    sizes = {"keys": np.array([2, 3, 4, 7]), "heads1": np.array([2, 3, 7, 4])}
    assert LAYER not in found(appended(KEYS.format(K0), VALUES.format(V0), z=ZEROS.repeat(2, 1), **sizes))


def test_zeros_after_zeros_stay() -> None:
    """One row before there are heads, one after."""
    model = with_bias("val_1", "val_1", val_1=np.zeros_like(ROW))
    text = TEXT.replace("kr = Reshape(ks, rows)", "ks2 = Concat <axis = 0> (ks, val_1) kr = Reshape(ks2, rows1)")
    text = text.replace("vr = Reshape(vs, rows)", "vs2 = Concat <axis = 0> (vs, val_1) vr = Reshape(vs2, rows1)")
    sizes = {"keys": np.array([2, 3, 4, 7]), "heads1": np.array([2, 3, 7, 4]), "rows1": np.array([6, 6, 4])}
    twice = appended(KEYS.format(K0), VALUES.format(V0), text, z=ZEROS, val_1=np.zeros_like(ROW), **sizes)
    assert found(model) == [LAYER]
    assert LAYER not in found(twice)


def test_the_same_row_for_each_head_stays() -> None:
    text = TEXT.replace("kt =", "kr2 = Concat <axis = 0> (kr, n) kt =").replace("(kr) k =", "(kr2) k =")
    text = text.replace("vt =", "vr2 = Concat <axis = 0> (vr, n) vt =").replace("(vr) v =", "(vr2) v =")
    text = text.replace("v = Reshape(vt, heads)", "v = Reshape(vt, heads1)")
    sizes = {"rows": [5, 6, 4], "heads1": [-1, 3, 6, 4], "keys": [-1, 3, 4, 6]}
    known = {name: np.array(size) for name, size in sizes.items()}
    row = np.ascontiguousarray(RANDOM[:, :1, :4].repeat(6, 1))
    assert LAYER not in found(layer(text, "float[2, 5, 12]", n=row, **known))


@pytest.mark.parametrize(("atom", "is_row"), [("seq", True), ("batch", False)])
def test_where_rows_are_appended(atom: str, is_row: bool) -> None:
    graph = ir.Graph([], [], nodes=[], name="g", opset_imports={"": 18})
    edit = Edit(Region(graph, {"": 18}), Names(ir.Model(graph, ir_version=9)))
    moved = Moved((("batch", "head"), ("seq",), ("feature",)), {"batch": 2, "head": 3, "seq": 5, "feature": 4})
    part = Appended(initialiser(graph, "z", ZEROS), atom, 1, moved)
    rows = find_rows(edit, Moved(moved.axes, moved.sizes, appended=(part,)))
    assert (rows is not None and rows.has_zeros) is is_row
