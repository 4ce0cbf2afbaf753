"""Entries that are not all of an axis, or not to be said so. What is: `test_taken_apart.py`."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from rewriting.idioms import unsimplified
from rewriting.idioms.recognising import found, parse, simplified

INDICES = {name: np.array(i) for i, name in enumerate("ijk")}
THREE = "a = Gather <axis = 1> (y, i) b = Gather <axis = 1> (y, j) c = Gather <axis = 1> (y, k)"
REST = "p = Exp(a) q = Sin(b) r = Cos(c)"


def model(entries: str = THREE, x: str = "float[batch, 3, 4] x", rest: str = REST, **more: object) -> onnx.ModelProto:
    return parse(f"g ({x}) => (p, q, r) {{ y = Neg(x) {entries} {rest} }}", **(INDICES | more))


def test_entries() -> None:
    assert found(model()) == ["Neg", "onnxlift.Unbind", "Exp", "Sin", "Cos"]


@pytest.mark.parametrize(
    ("entries", "more"),
    [
        (THREE.replace("axis = 1> (y, k)", "axis = 2> (y, k)"), {}),
        (THREE, {"k": np.array([2])}),
        (THREE, {"k": np.array(1)}),
        (
            THREE.replace("Gather <axis = 1> (y, k)", "Slice(y, n1, n9, n2)"),
            {"n1": np.array([1]), "n2": np.array([2]), "n9": np.array([9])},
        ),
    ],
    ids=["axis", "list", "missing", "slice"],
)
def test_other_entries(entries: str, more: dict[str, object]) -> None:
    assert "onnxlift.Unbind" not in found(model(entries, "float[3, 3, 3] x", **more))


def test_entries_of_two_are_readable() -> None:
    assert "onnxlift.Unbind" not in found(model(THREE.replace("k)", "j)"), "float[batch, 2, 4] x"))


def test_entries_in_two_modules() -> None:
    proto = model()
    for node in proto.graph.node:
        node.name = f"/{'first' if node.output[0] == 'a' else 'second'}/{node.output[0]}"
    assert "onnxlift.Unbind" not in found(proto)


def test_entries_beside_many_other_readers() -> None:
    more = " ".join(f"d{n} = Add(y, {name})" for n, name in enumerate(("x", "e0", "e1", "e2", "e3", "e4")))
    others = " ".join(f"e{n} = {op}(x)" for n, op in enumerate(("Exp", "Sin", "Cos", "Abs", "Tanh")))
    text = f"y = Neg(x) {others} {THREE} {more} {REST} s = Sum(d0, d1, d2, d3, d4, d5)"
    assert "onnxlift.Unbind" not in found(parse(f"g (float[batch, 3, 4] x) => (p, q, r, s) {{ {text} }}", **INDICES))


def test_entries_of_text_and_of_lists_stay() -> None:
    entries = THREE.replace("axis = 1", "axis = 0")
    text = f"g (string[12] x) => (a, b, c) {{ y = Reshape(x, rows) {entries} }}"
    graph = simplified(parse(text, rows=np.array([3, 4]), **INDICES))
    assert "Unbind" not in [node.op_type for node in graph.graph]
    assert "onnxlift.Unbind" not in found(model(entries, "float[3] x"))


def test_an_entry_in_a_branch() -> None:
    text = """g (float[batch, 3, 4] x, float s) => (p, q, o) { y = Neg(x) t = IsNaN(s)
        a = Gather <axis = 1> (y, i) b = Gather <axis = 1> (y, j) p = Exp(a) q = Sin(b)
        o = If (t) <
            then_branch = d () => (float[m, n] u) { u = Gather <axis = 1> (y, k) },
            else_branch = e () => (float[m, n] v) { v = Gather <axis = 1> (x, k) }
        >
    }"""
    assert "onnxlift.Unbind" not in found(parse(text, **INDICES))


NUMBERS = {f"n{i}": np.array([i]) for i in (0, 1, 2, 3)}


def index(text: str, x: str = "float[batch, 3, 4] x", outputs: str = "y", **more: object) -> list[str]:
    return found(parse(f"g ({x}) => ({outputs}) {{ {text} }}", **(NUMBERS | more)))


@pytest.mark.parametrize("last", ["Squeeze(s, n1)", "Squeeze(s, minus)", "Reshape(s, flat)"])
def test_a_piece_without_its_axis_is_an_entry(last: str) -> None:
    used = {"minus": np.array([-2]), "flat": np.array([-1, 4])}
    assert index(f"s = Slice(x, n1, n2, n1) y = {last}", **used) == ["Gather"]


@pytest.mark.parametrize(
    ("text", "x"),
    [
        ("s = Slice(x, n1, n2, n1) y = ReduceL1 <keepdims = 0> (s, n1)", "float[batch, 3, 4] x"),
        ("s = Slice(x, n1, n3, n1) y = Reshape(s, flat)", "float[batch, 3, 4] x"),
        ("s = Slice(x, n1, n2, n1) y = Reshape(s, flat)", "float[batch, 3, 4] x"),
    ],
    ids=["length", "two entries", "another shape"],
)
def test_what_is_no_entry(text: str, x: str) -> None:
    assert "Gather" not in index(text, x, flat=np.array([-1, 2]))


def test_a_piece_that_others_read() -> None:
    assert "Gather" not in index("s = Slice(x, n1, n2, n1) y = Squeeze(s, n1)", outputs="y, s")


def test_an_empty_piece_without_its_axis() -> None:
    text = "e = Slice(x, n0, n0, n2) s = Slice(e, n3, n3, n1) y = Reshape <allowzero = 1> (s, none)"
    proto = parse(f"g (float[2, 3, 4] x) => (y) {{ {text} }}", none=np.array([2, 0]), **NUMBERS)
    assert "Gather" not in unsimplified.found(proto)


def test_an_entry_that_there_is_not() -> None:
    """It is known only once constants are folded: no rule on the file can tell."""
    entries = THREE.replace("(y, k)", "(y, far)")
    numbers = {"i": np.array(2), "j": np.array(1), "val_1": np.array(3, np.float32)}
    graph = simplified(
        parse(
            f"g (float[batch, 3, 4] x) => (a, b, c) {{ y = Neg(x) far = Cast <to = 7> (val_1) {entries} }}", **numbers
        )
    )
    assert "Unbind" not in [node.op_type for node in graph.graph]
