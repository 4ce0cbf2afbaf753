"""A rotary embedding that is spelled out becomes an operator, or stays exactly as it was."""

from __future__ import annotations

import numpy as np
import pytest

from .fused import Array, fused, normal

X = {"x": normal(2, 3, 5, 8)}
NUMBERS = {"zero": [0], "half": [4], "end": [2**62], "last": [3], "one": [1], "two": [2], "back": [-1]}
HALVES = """first = Slice(x, zero, half, last) second = Slice(x, half, end, last) n = Neg(second)
    turned = Concat <axis = -1> (n, first) a = Mul(x, cos) b = Mul(turned, sin) y = Add(a, b)"""
PAIRS = """even = Slice(x, zero, end, last, two) odd = Slice(x, one, end, last, two) n = Neg(odd)
    left = Unsqueeze(n, back) right = Unsqueeze(even, back) pairs = Concat <axis = -1> (left, right)
    turned = Reshape(pairs, wide) a = Mul(x, cos) b = Mul(turned, sin) y = Add(a, b)"""
ANGLES = """e = Concat <axis = -1> (f, f) c = Cos(e) cs = Mul(c, scale) cos = Unsqueeze(cs, one) s = Sin(e)
    sin = Unsqueeze(s, one)"""
SCALE = {"scale": np.asarray(np.float32(0.5))}


def check(body: str, opset: int = 23, inputs: str = "", size: str = "b", **arrays: Array) -> list[str]:
    given = {name: array for name, array in arrays.items() if f" {name}" in inputs}
    weights = {name: array for name, array in arrays.items() if name not in given}
    weights |= {name: np.array(numbers) for name, numbers in NUMBERS.items() if f" {name}" in body}
    weights |= {"wide": np.array([0, 0, 0, -1])} if "wide" in body else {}
    text = f"(float[{size}, 3, l, 8] x{inputs}) => (float[{size}, 3, l, 8] y) {{ {body} }}"
    return fused(text.replace(" l,", " 5,") if "l]" not in inputs and ", l," not in inputs else text, opset, X | given,
                 weights=weights)  # fmt: skip


def tables(*lead: int, paired: bool = False) -> dict[str, Array]:
    """Tables in which both features of a pair have one angle."""
    found = {}
    for name in ("cos", "sin"):
        angles = normal(*lead, 5, 4)
        found[name] = np.repeat(angles, 2, -1) if paired else np.concatenate([angles, angles], -1)
    return found


@pytest.mark.parametrize("lead", [(), (1,), (1, 1), (2, 1)])
def test_tables_that_are_constants(lead: tuple[int, ...]) -> None:
    assert check(HALVES, size="2", **tables(*lead))[-1] == "RotaryEmbedding"
    assert check(PAIRS, size="2", **tables(*lead, paired=True))[-1] == "RotaryEmbedding"


def test_an_open_batch_is_told_by_an_input() -> None:
    assert check(HALVES, **tables(1, 1)) == ["Shape", "Concat", "Expand", "Expand", "RotaryEmbedding"]


def test_angles_that_are_computed_for_each_row_of_the_batch() -> None:
    left = check(f"{ANGLES} {HALVES}", inputs=", float[b, l, 4] f", f=normal(2, 5, 4), **SCALE)
    assert left == ["Concat", "Cos", "Mul", "Slice", "Sin", "Slice", "RotaryEmbedding"]


def test_angles_that_are_computed_for_all_rows_of_the_batch() -> None:
    left = check(f"{ANGLES} {HALVES}", inputs=", float[1, l, 4] f", f=normal(1, 5, 4), **SCALE)
    assert left.count("Expand") == 2 and left[-1] == "RotaryEmbedding"


def test_rows_of_a_constant_table() -> None:
    rows = """cr = Gather <axis = 0> (ct, p) cos = Unsqueeze(cr, one) sr = Gather <axis = 0> (st, p)
        sin = Unsqueeze(sr, one)"""
    angles = normal(9, 4)
    both = np.concatenate([angles, angles], -1)
    places = np.array([[0, 3, 2, 8, 1], [5, 5, 6, 7, 4]])
    left = check(f"{rows} {HALVES}", inputs=", int64[b, l] p", p=places, ct=both, st=both * 2)
    assert left == ["Gather", "Slice", "Gather", "Slice", "RotaryEmbedding"]


def test_many_layers_share_their_tables() -> None:
    again = HALVES
    for name in ("first", "second", "n", "turned", "a", "b", "y", "x"):
        again = f" {again}".replace(f" {name} ", f" {name}2 ").replace(f"({name},", f"({name}2,")
        again = again.replace(f"({name})", f"({name}2)").replace(f", {name})", f", {name}2)")
    body = f"{HALVES.replace('y =', 'x2 =')} {again.replace('y2 =', 'y =')}"
    left = check(body, **tables(1, 1))
    assert left == ["Shape", "Concat", "Expand", "Expand", "RotaryEmbedding", "RotaryEmbedding"]


def test_before_opset_23_it_stays() -> None:
    assert "RotaryEmbedding" not in check(HALVES, 22, size="2", **tables(1, 1))


@pytest.mark.parametrize(
    ("body", "lead", "paired"),
    [(HALVES, (1, 1), True), (PAIRS, (1, 1), False), (HALVES, (2, 3), False), (HALVES, (1, 3), False)],
    ids=["halves that differ", "neighbours that differ", "other angles for each head", "heads of the whole batch"],
)
def test_tables_that_say_more_than_the_operator_can_stay(body: str, lead: tuple[int, ...], paired: bool) -> None:
    assert "RotaryEmbedding" not in check(body, size="2", **tables(*lead, paired=paired))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Concat <axis = -1> (f, f)", "Concat <axis = -1> (f, g)"),
        ("Mul(c, scale)", "Mul(c, m)"),
        ("cos = Unsqueeze(cs, one)", "t = Abs(cs) cos = Unsqueeze(t, one)"),
    ],
    ids=["other angles in the second half", "a factor for each feature", "a step that nobody knows"],
)
def test_tables_of_which_nothing_is_known_stay(old: str, new: str) -> None:
    inputs = ", float[b, l, 4] f, float[b, l, 4] g, float[8] m"
    arrays = {"f": normal(2, 5, 4), "g": normal(2, 5, 4), "m": normal(8)}
    assert "RotaryEmbedding" not in check(f"{ANGLES.replace(old, new)} {HALVES}", inputs=inputs, **arrays, **SCALE)
