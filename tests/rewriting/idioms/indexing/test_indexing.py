from __future__ import annotations

import numpy as np
import onnx
import pytest

import onnxlift
from rewriting.idioms.recognising import found, parse

NUMBERS = {"last": np.array([-1]), "zero": np.int64(0), "one": np.int64(1), "second": np.array([1])}
ARRAYS = """s = Shape(x) b = Gather(s, zero) t = Gather(s, one)
    i = Range(zero, b, one) rows = Unsqueeze(i, second) columns = Range(zero, t, one)"""
JOINED = """size = Max(rows, columns) shape = Shape(size)
    r = Expand(rows, shape) c = Expand(columns, shape) ru = Unsqueeze(r, last) cu = Unsqueeze(c, last)"""


def indexing(end: str, outputs: str = "float[batch, seq] y") -> onnx.ModelProto:
    return parse(f"g (float[batch, seq] x) => ({outputs}) {{ {ARRAYS} {JOINED} {end} }}", 18, **NUMBERS)


def test_arrays_that_were_joined_to_index_with_them() -> None:
    model = indexing("both = Concat <axis = -1> (ru, cu) y = GatherND(x, both)")
    assert found(model)[-1] == "onnxlift.Index"
    assert "torch.cat" not in onnxlift.lift(model).source


def test_joined_indices_that_are_read_elsewhere_stay() -> None:
    end = "both = Concat <axis = -1> (ru, cu) y = GatherND(x, both) z = Identity(both)"
    assert "GatherND" in found(indexing(end, "float[batch, seq] y, int64[batch, seq, 2] z"))


def test_batch_dimensions_are_another_thing() -> None:
    end = "y = GatherND <batch_dims = 1> (x, cu)"
    assert "GatherND" in found(indexing(end))


def test_arrays_that_broadcast_to_less_than_they_were_expanded_to() -> None:
    end = "both = Concat <axis = -1> (ru, ru) y = GatherND(x, both)"
    model = indexing(end)
    assert "GatherND" in found(model)


PAIRS = np.array([[0, 2], [3, 1], [4, 0]])


def test_columns_of_a_constant_are_arrays() -> None:
    model = parse("g (float[5, 3] x) => (float[3] y) { y = GatherND(x, val_3) }", 18, val_3=PAIRS)
    assert found(model) == ["onnxlift.Index"]
    assert "x[self.index, self.index_1]" in onnxlift.lift(model).source


def test_constant_with_a_name_stays_whole() -> None:
    model = parse("g (float[5, 3] x) => (float[3] y) { y = GatherND(x, pairs) }", 18, pairs=PAIRS)
    assert found(model) == ["GatherND"]


def test_constant_that_is_read_elsewhere_stays_whole() -> None:
    body = "y = GatherND(x, val_3) z = Add(i, val_3)"
    text = f"g (float[5, 3] x, int64 i) => (float[3] y, int64[3, 2] z) {{ {body} }}"
    assert "GatherND" in found(parse(text, 18, val_3=PAIRS))


def test_constant_beside_an_array() -> None:
    body = "iu = Unsqueeze(i, last) both = Concat <axis = 1> (val_3, iu) y = GatherND(x, both)"
    text = f"g (float[5, 6, 7] x, int64[3] i) => (float[3] y) {{ {body} }}"
    assert found(parse(text, 18, val_3=PAIRS, last=np.array([-1])))[-1] == "onnxlift.Index"


LOOKUP = "g (float[6, 3] x, int64[seq, 2] i) => (float[a, b, c] y)"


def test_one_index_array_is_a_gather() -> None:
    model = parse(f"{LOOKUP} {{ j = Unsqueeze(i, last) y = GatherND(x, j) }}", 18, last=np.array([-1]))
    assert found(model) == ["Gather"]


def test_pairs_of_indices_are_no_gather() -> None:
    text = LOOKUP.replace("float[a, b, c]", "float[a, b]").replace("seq, 2", "2")
    model = parse(f"{text} {{ k = Sub(i, i) j = Unsqueeze(k, first) y = GatherND(x, j) }}", 18, first=np.array([0]))
    assert "GatherND" in found(model)


WRAPPED = """low = Less(i, zero) shifted = Add(i, n) w = Where(low, shifted, i)
    y = GatherElements <axis = 1> (x, w)"""


def wrapped(body: str = WRAPPED, n: int = 6) -> list[str]:
    inputs = "float[batch, 6] x, int64[batch, 4] i"
    return found(parse(f"g ({inputs}) => (float[batch, 4] y) {{ {body} }}", zero=np.array(0), n=np.array(n)))


@pytest.mark.parametrize("shifted", ["Add(i, n)", "Add(n, i)"])
def test_indices_that_count_from_the_end(shifted: str) -> None:
    assert wrapped(WRAPPED.replace("Add(i, n)", shifted)) == ["GatherElements"]


def test_indices_that_count_from_the_end_of_a_size_that_is_not_known() -> None:
    text = """g (float[batch, keys] x, int64[batch, 4] i) => (float[batch, 4] y) {
        shape = Shape(x) size = Gather(shape, one) """
    body = WRAPPED.replace("Add(i, n)", "Add(i, size)")
    assert found(parse(f"{text} {body} }}", zero=np.array(0), one=np.array(1))) == ["GatherElements"]


@pytest.mark.parametrize(
    ("old", "new", "n"),
    [
        ("", "", 5),
        ("Less(i, zero)", "Less(i, n)", 1),
        ("Less(i, zero)", "Greater(i, zero)", 0),
        ("Where(low, shifted, i)", "Where(low, i, shifted)", 0),
        ("shifted = Add(i, n)", "shifted = Sub(i, n)", -6),
    ],
)
def test_other_indices_stay(old: str, new: str, n: int) -> None:
    body = WRAPPED.replace(old, new)
    if n == 0:  # indices up to 4 stay in range
        body = body.replace("Add(i, n)", "Add(i, zero)")
    assert "Where" in wrapped(body, n)


ROWS = "g (float[{sizes}] x, int64[seq] i) => (float[a, b, c] y) {{ u = Unsqueeze(i, outer) {wide} {end} }}"
TILED = "w = Tile(u, times)"
GATHERED = "y = GatherElements <axis = 1> (x, w)"


@pytest.mark.parametrize(
    ("sizes", "wide", "op_type"),
    [
        ("1, 6, 4", TILED, "Gather"),
        ("1, 6, 4", "w = Expand(u, times)", "Gather"),
        ("1, 6, 5", TILED, "GatherElements"),  # the last column is left out
        ("2, 6, 4", TILED, "GatherElements"),
        ("1, 6, seq", TILED, "GatherElements"),
    ],
)
def test_whole_slices_that_are_gathered_element_by_element(sizes: str, wide: str, op_type: str) -> None:
    tensors = {"outer": np.array([0, 2]), "times": np.array([1, 1, 4])}
    assert found(parse(ROWS.format(sizes=sizes, wide=wide, end=GATHERED), 18, **tensors))[-1] == op_type


def test_slices_along_another_axis_stay() -> None:
    text = ROWS.format(sizes="6, 9, 4", wide=TILED, end="y = GatherElements <axis = 0> (x, w)")
    assert found(parse(text, 18, outer=np.array([0, 2]), times=np.array([1, 1, 4])))[-1] == "GatherElements"
