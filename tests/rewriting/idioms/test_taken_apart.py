"""Tensors that are taken apart: all entries of an axis, or all pieces."""

from __future__ import annotations

import numpy as np
import pytest

import onnxlift
from rewriting.idioms.recognising import Data, found, parse

OUTPUTS = "(float[a, b] p, float[a, b] q, float[a, b] r)"
INDICES = {"i": np.array(0), "j": np.array(1), "k": np.array(2)}


def entries(text: str, x: str = "float[batch, 3, 4] x", **constants: Data) -> list[str]:
    rest = "p = Exp(a) q = Sin(b) r = Cos(c)"
    return found(parse(f"g ({x}) => {OUTPUTS} {{ y = Neg(x) {text} {rest} }}", **constants))


THREE = "a = Gather <axis = 1> (y, i) b = Gather <axis = -2> (y, j) c = Gather <axis = 1> (y, k)"


def test_entries_by_index() -> None:
    assert "onnxlift.Unbind" in entries(THREE, **INDICES)
    text = f"g (float[2, 3, 4] x) => {OUTPUTS} {{ y = Neg(x) {THREE} p = Exp(a) q = Sin(b) r = Cos(c) }}"
    assert ".unbind(1)" in onnxlift.lift(parse(text, **INDICES)).source


def test_entries_counted_from_the_end_and_out_of_order() -> None:
    text = "c = Gather <axis = 1> (y, k) a = Gather <axis = 1> (y, i) b = Gather <axis = 1> (y, j)"
    assert entries(text, i=np.array(-3), j=np.array(1), k=np.array(-1)).count("onnxlift.Unbind") == 1


def test_entries_of_a_split() -> None:
    text = """s, t, u = Split <axis = 1, num_outputs = 3> (y)
        a = Squeeze(s, one) b = Squeeze(t, one) c = Squeeze(u, minus)"""
    assert entries(text, one=np.array([1]), minus=np.array([-2]))[1] == "onnxlift.Unbind"


def test_entries_of_slices() -> None:
    text = """s = Slice(y, n0, n1, n1) t = Slice(y, n1, n2, n1) u = Slice(y, minus, n9, n1)
        a = Squeeze(s, n1) b = Squeeze(t, n1) c = Squeeze(u, n1)"""
    numbers = {f"n{i}": np.array([i]) for i in (0, 1, 2, 9)}
    assert entries(text, minus=np.array([-1]), **numbers)[1] == "onnxlift.Unbind"


def test_entries_by_reshape() -> None:
    text = """s, t, u = Split <axis = 1, num_outputs = 3> (y)
        a = Reshape(s, flat) b = Reshape(t, flat) c = Reshape(u, flat)"""
    assert entries(text, flat=np.array([-1, 4]))[1] == "onnxlift.Unbind"
    assert "onnxlift.Unbind" not in entries(text, flat=np.array([-1, 2]))


@pytest.mark.parametrize(
    ("text", "constants"),
    [
        (THREE, {**INDICES, "k": np.array(1)}),  # an entry is missing
        (THREE.replace("axis = -2", "axis = 2"), INDICES),  # of another axis
        (THREE, {**INDICES, "j": np.array([1])}),  # which keeps the axis
    ],
    ids=["missing", "axis", "list"],
)
def test_other_entries_stay(text: str, constants: dict[str, Data]) -> None:
    shape = "float[batch, 3, 4] x" if "axis = 2" not in text else "float[3, 3, 3] x"
    proto = f"g ({shape}) => (p, q, r) {{ y = Neg(x) {text} p = Exp(a) q = Sin(b) r = Cos(c) }}"
    assert "onnxlift.Unbind" not in found(parse(proto, **constants))


def test_entries_of_a_longer_axis_stay() -> None:
    assert "onnxlift.Unbind" not in entries(THREE, x="float[batch, 4, 4] x", **INDICES)


def test_a_piece_that_somebody_else_reads_stays() -> None:
    text = """s, t, u = Split <axis = 1, num_outputs = 3> (y)
        a = Squeeze(s, one) b = Squeeze(t, one) c = Squeeze(u, one)
        p = Exp(a) q = Sin(b) r = Cos(c) o = Tan(s)"""
    outputs = "(float[a, b] p, float[a, b] q, float[a, b] r, float[a, 1, b] o)"
    operators = found(parse(f"g (float[batch, 3, 4] x) => {outputs} {{ y = Neg(x) {text} }}", one=np.array([1])))
    assert "onnxlift.Unbind" not in operators and operators.count("Squeeze") == 1


def test_sizes_are_not_unbound() -> None:
    text = """s = Shape(x) i = Gather(s, n0) j = Gather(s, n1) k = Gather(s, n2) one = Constant <value_ints = [1]> ()
        u = Reshape(k, one) v = Reshape(j, one) w = Reshape(i, one) t = Concat <axis = 0> (u, v, w) y = Reshape(x, t)"""
    numbers = {f"n{i}": np.array(i) for i in range(3)}
    proto = parse(f"g (float[batch, seq, keys] x) => (float[a, b, c] y) {{ {text} }}", **numbers)
    assert "onnxlift.Unbind" not in found(proto)
    assert "torch.tensor" not in onnxlift.lift(proto).source


NUMBERS = {"n0": np.array([0]), "n1": np.array([1]), "n3": np.array([3]), "n6": np.array([6]), "n9": np.array([99])}
PIECES = "a = Slice(y, n0, n3, n1) b = Slice(y, n3, n6, n1) c = Slice(y, n6, n9, n1)"


def test_pieces() -> None:
    operators = entries(PIECES, x="float[batch, 8] x", **NUMBERS)
    assert "Split" in operators and "Slice" not in operators


def test_equal_pieces_are_chunks() -> None:
    proto = parse(
        f"g (float[batch, 9] x) => {OUTPUTS} {{ y = Neg(x) {PIECES} p = Exp(a) q = Sin(b) r = Cos(c) }}", **NUMBERS
    )
    assert ".chunk(3, 1)" in onnxlift.lift(proto).source


@pytest.mark.parametrize(
    "text",
    [
        PIECES.replace("n3, n6", "n1, n6"),
        PIECES.replace("n6, n9", "n3, n9"),
        PIECES.replace("n6, n9, n1", "n6, n9, n1, n3"),
    ],
    ids=["overlap", "overlap at the end", "steps"],
)
def test_other_pieces_stay(text: str) -> None:
    assert "Split" not in entries(text, x="float[batch, 8] x", **NUMBERS)


def test_pieces_that_leave_something_out_stay() -> None:
    assert "Split" not in entries(
        PIECES.replace("c = Slice(y, n6, n9, n1)", "c = Sin(y)"), x="float[batch, 8] x", **NUMBERS
    )


def test_two_pieces_that_one_node_reads_stay() -> None:
    text = "a = Slice(y, n0, n3, n1) b = Slice(y, n3, n9, n1) z = Concat <axis = 1> (b, a)"
    one = found(parse(f"g (float[batch, 8] x) => (float[a, b] z) {{ y = Neg(x) {text} }}", **NUMBERS))
    assert "Split" not in one
    text = "a = Slice(y, n0, n3, n1) b = Slice(y, n3, n9, n1) c = Exp(b) z = Concat <axis = 1> (c, a)"
    assert "Split" in found(parse(f"g (float[batch, 8] x) => (float[a, b] z) {{ y = Neg(x) {text} }}", **NUMBERS))


def rolled(text: str, x: str = "float[batch, 5, 7] x") -> list[str]:
    numbers = {f"n{i}": np.array([i]) for i in (0, 1, 2, 3, 4, 9)} | {"minus": np.array([-2])}
    used = {name: value for name, value in numbers.items() if name in text}
    return found(parse(f"g ({x}) => (float[a, b, c] y) {{ {text} }}", **used))


ROLL = "a = Slice(x, n2, n9, n1) b = Slice(x, n0, n2, n1) y = Concat <axis = 1> (a, b)"


def test_roll() -> None:
    assert rolled(ROLL) == ["onnxlift.Roll"]
    assert rolled(ROLL.replace("n2, n9", "minus, n9").replace("n0, n2", "n0, n3")) == ["onnxlift.Roll"]


def test_a_roll_of_two_axes_is_one() -> None:
    second = "c = Slice(u, n4, n9, n2) d = Slice(u, n0, n4, n2) y = Concat <axis = -1> (c, d)"
    text = f"{ROLL.replace('y =', 'u =')} {second}"
    assert rolled(text) == ["onnxlift.Roll"]
    numbers = {name: np.array([int(name[1:])]) for name in ("n0", "n1", "n2", "n4", "n9")}
    proto = parse(f"g (float[batch, 5, 7] x) => (float[a, b, c] y) {{ {text} }}", **numbers)
    assert "x.roll((-2, 3), (1, 2))" in onnxlift.lift(proto).source


@pytest.mark.parametrize(
    "text",
    [
        ROLL.replace("(a, b)", "(b, a)"),
        ROLL.replace("n2, n9", "n3, n9"),
        ROLL.replace("n2, n9", "n2, n4"),
        ROLL.replace("n0, n2", "n1, n2"),
        ROLL.replace("(a, b)", "(a, b, b)"),
    ],
    ids=["order", "gap", "end", "start", "more"],
)
def test_other_pieces_are_no_roll(text: str) -> None:
    assert "onnxlift.Roll" not in rolled(text)


def test_pieces_joined_along_another_axis_are_no_roll() -> None:
    text = ROLL.replace("n2, n9", "n3, n9").replace("n0, n2", "n0, n3").replace("axis = 1", "axis = 2")
    assert "onnxlift.Roll" not in rolled(text, x="float[batch, 6, 6] x")


def test_an_axis_of_unknown_size_is_no_roll() -> None:
    assert "onnxlift.Roll" not in rolled(ROLL, x="float[batch, seq, 7] x")


def test_pieces_of_two_tensors_are_no_roll() -> None:
    assert "onnxlift.Roll" not in rolled(f"z = Neg(x) {ROLL.replace('Slice(x, n0', 'Slice(z, n0')}")
