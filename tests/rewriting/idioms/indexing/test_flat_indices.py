from __future__ import annotations

import numpy as np
import onnx
import pytest

import onnxlift
from rewriting.idioms.recognising import found, parse, simplified

INPUTS = "float[batch, 7, 4] x, float[batch, 7] t, int64[batch] i"
COLUMN = "j = ArgMax <axis = -1, keepdims = 0> (t)"
PICK = "f = Flatten <axis = 2> (x) r = Mul(i, width) k = Add(j, r) y = Gather(f, k)"


def model(body: str, outputs: str = "float[batch, 4] y", width: object = 7, **constants: object) -> onnx.ModelProto:
    known = {"width": np.array(width), **constants}
    used = {name: value for name, value in known.items() if name in body}
    text = f"g ({INPUTS.replace('batch', '5')}) => ({outputs.replace('batch', '5')}) {{ {body} }}"
    return parse(text, 18, **used)


@pytest.mark.parametrize("column", [COLUMN, "j = Mod(i, width)"])
@pytest.mark.parametrize("width", [7, [7]])
def test_rows_and_columns(column: str, width: object) -> None:
    proto = model(f"{column} {PICK}", width=width)
    assert found(proto)[-1] == "onnxlift.Index"
    assert ".flatten(" not in onnxlift.lift(proto).source


def test_rows_that_were_folded() -> None:
    body = f"{COLUMN} f = Flatten <axis = 2> (x) k = Add(j, val_1) y = Gather(f, k)"
    assert found(model(body, val_1=np.arange(5) * 7))[-1] == "onnxlift.Index"
    assert found(model(body, val_1=np.arange(5) * 6))[-1] == "Gather"


@pytest.mark.parametrize(
    "body",
    [
        f"j = Identity(i) {PICK}",
        f"j = ArgMax <axis = 0, keepdims = 0> (x) {PICK.replace('j, r', 'i, r')} z = Identity(j)",
        f"{COLUMN} {PICK.replace('Mul(i, width)', 'Mul(i, six)')}",
        f"j = Mod(i, six) {PICK}",
    ],
)
def test_not_if_a_column_may_be_out_of_range_or_the_width_is_another(body: str) -> None:
    proto = model(body, "float[batch, 4] y" + (", int64[7, 4] z" if " z = " in body else ""), six=np.array(6))
    assert "onnxlift.Index" not in found(proto)


def test_constants_for_axes_that_were_brought_to_the_front() -> None:
    body = """a = Transpose <perm = [1, 2, 0]> (x) f = Flatten <axis = 2> (a) p = Gather(f, val_1)
        y = Transpose <perm = [1, 0]> (p)"""
    proto = model(body, "float[batch, 3] y", val_1=np.array([4, 13, 9]))
    assert found(proto) == ["onnxlift.Index"]
    proto = model(body, "float[batch, 3] y", named=np.array([4, 13, 9]), val_1=np.array([4, -1, 9]))
    assert "onnxlift.Index" not in found(proto)


def test_constant_for_merged_axes_alone_is_left() -> None:
    body = "f = Flatten <axis = 2> (x) y = Gather(f, val_1)"
    assert "onnxlift.Index" not in found(model(body, "float[3, 4] y", val_1=np.array([4, 13, 9])))


def test_another_axis_of_what_was_merged() -> None:
    text = "f = Flatten <axis = 2> (x) r = Mul(i, width) k = Add(j, r) y = Gather <axis = 1> (f, k)"
    proto = parse(f"g (float[5, 7, 40] x, int64[5] i, float[5, 7] t) => (y) {{ {COLUMN} {text} }}", width=np.array(7))
    assert found(proto)[-1] == "Gather"


def test_what_was_merged_otherwise() -> None:
    flat = "r = Mul(i, width) k = Add(j, r) f = Reshape(x, shape) y = Gather(f, k)"
    proto = model(f"{COLUMN} {flat}", "float[batch, 2, 2] y", shape=np.array([35, 2, 2]))
    assert "onnxlift.Index" not in found(proto)
    one = parse(
        f"g (float[140] x, int64[5] i, float[5, 7] t) => (y) {{ {COLUMN} {flat} }}",
        shape=np.array([35, 4]),
        width=np.array(7),
    )
    assert "onnxlift.Index" not in found(one)


def test_joined_indices_that_others_read() -> None:
    assert found(model(f"{COLUMN} {PICK}", "float[batch, 4] y, int64[batch] k"))[-1] == "Gather"


@pytest.mark.parametrize(
    ("columns", "op_type"),
    [([0, 6, 3, 1, 2], "onnxlift.Index"), ([0, 7, 3, 1, 2], "Gather"), ([0, -1, 3, 1, 2], "Gather")],
    ids=["in range", "above", "below"],
)
def test_columns_that_are_constant(columns: list[int], op_type: str) -> None:
    text = "f = Flatten <axis = 2> (x) r = Mul(i, width) k = Add(val_1, r) y = Gather(f, k)"
    known = {"val_1": np.array(columns), "width": np.array(7)}
    assert found(parse(f"g (float[8, 7, 4] x, int64[5] i) => (y) {{ {text} }}", **known))[-1] == op_type


def test_no_columns() -> None:
    text = "f = Flatten <axis = 2> (x) r = Mul(i, width) k = Add(val_1, r) y = Gather(f, k)"
    known = {"val_1": np.array([], np.int64), "width": np.array(7)}
    assert found(parse(f"g (float[5, 7, 4] x, int64[1] i) => (y) {{ {text} }}", **known))[-1] == "Gather"


def test_a_place_among_more_elements() -> None:
    proto = parse(f"g (float[8, 7, 4] x, int64[5] i, float[5, 9] t) => (y) {{ {COLUMN} {PICK} }}", width=np.array(7))
    assert found(proto)[-1] == "Gather"


def test_remainders_that_may_be_negative() -> None:
    body = f"j = Mod <fmod = 1> (i, width) {PICK}"
    assert found(model(body))[-1] == "Gather"


PICKED = """a = Transpose <perm = [1, 2, 0]> (x) f = Flatten <axis = 2> (a) p = Gather(f, LIST)
    y = Transpose (p)"""


@pytest.mark.parametrize(
    ("name", "numbers", "is_found"),
    [
        ("val_1", [4, 13, 9], True),
        ("named", [4, 13, 9], False),
        ("val_1", [4, -1, 9], False),
        ("val_1", [], False),
        ("val_1", 4, False),
    ],
    ids=["found", "named", "negative", "empty", "single"],
)
def test_constants(name: str, numbers: object, is_found: bool) -> None:
    body = PICKED.replace("LIST", name)
    proto = parse(f"g (float[5, 7, 4] x) => (y) {{ {body} }}", **{name: np.array(numbers, np.int64)})
    assert ("onnxlift.Index" in found(proto)) is is_found


def test_constants_of_a_node() -> None:
    body = PICKED.replace("a =", "rows = Constant <value_ints = [4, 13, 9]> () a =").replace("LIST", "rows")
    assert "onnxlift.Index" in found(parse(f"g (float[5, 7, 4] x) => (y) {{ {body} }}"))


def test_an_axis_that_there_is_not() -> None:
    """How many axes there are is known only once constants are folded: no rule on the file can tell."""
    body = f"""count = Cast <to = 7> (val_1) sizes = Slice(val_2, begin, count) u = Reshape(t, sizes)
        j = ArgMax <axis = 2, keepdims = 0> (u) {PICK}"""
    known = {"begin": np.array([0]), "val_1": np.array([2], np.float32), "val_2": np.array([5, 7, 7])}
    assert [node.op_type for node in simplified(model(body, "y", **known)).graph][-1] == "Gather"
