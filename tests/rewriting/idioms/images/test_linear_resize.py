"""Interpolation of signals, which has no operator of its own in what PyTorch's newer exporter writes."""

from __future__ import annotations

import numpy as np
import pytest

import onnxlift
from onnxlift.ir.load import load
from onnxlift.rewriting.idioms.images import linear_resize
from rewriting.idioms.recognising import Array, assert_same_numbers, parse
from rewriting.running_stages import normalise

TEXT = """f = Transpose <perm = [2, 0, 1]> (x)
    g = GatherND(f, low) a = Transpose <perm = [1, 2, 0]> (g)
    h = GatherND(f, high) b = Transpose <perm = [1, 2, 0]> (h)
    d = Sub(b, a) m = Mul(d, t) y = Add(a, m)"""


def tables(size: int, target: int, corners: bool) -> dict[str, np.ndarray]:
    """Rows and shares as PyTorch computes them."""
    steps = np.arange(target, dtype=np.float32)
    half = np.maximum((steps + 0.5) * (size / target) - 0.5, 0)
    place = (steps * ((size - 1) / max(target - 1, 1)) if corners else half).astype(np.float32)
    low = np.floor(place).astype(np.int64)
    high = np.minimum(low + 1, size - 1)
    return {"low": low[:, None], "high": high[:, None], "t": np.clip(place - low, 0, 1).astype(np.float32)}


def source(text: str, target: int, outputs: str = "", **given: np.ndarray) -> str:
    model = parse(f"g (float[batch, 3, 6] x) => (float[batch, 3, {target}] y{outputs}) {{ {text} }}", **given)
    assert_same_numbers(model)
    return onnxlift.lift(model).source


@pytest.mark.parametrize(
    ("target", "corners", "written"),
    [
        (9, False, 'F.interpolate(x, size=9, mode="linear")'),
        (4, False, 'F.interpolate(x, size=4, mode="linear")'),
        (9, True, 'F.interpolate(x, size=9, mode="linear", align_corners=True)'),
        (12, False, 'F.interpolate(x, scale_factor=2, mode="linear")'),
        (12, True, 'F.interpolate(x, scale_factor=2, mode="linear", align_corners=True)'),
    ],
)
def test_signals(target: int, corners: bool, written: str) -> None:
    assert written in source(TEXT, target, **tables(6, target, corners))
    swapped = TEXT.replace("Mul(d, t)", "Mul(t, d)").replace("Add(a, m)", "Add(m, a)")
    assert written in source(swapped, target, **tables(6, target, corners))


@pytest.mark.parametrize("name", ["low", "high", "t"])
def test_other_tables(name: str) -> None:
    given = tables(6, 9, False)
    given[name] = given[name][::-1].copy()
    assert "interpolate" not in source(TEXT, 9, **given)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Sub(b, a)", "Sub(a, b)"),
        ("Add(a, m)", "Add(b, m)"),
        ("GatherND(f, high)", "GatherND(e, high)"),
        ("Sub(b, a)", "Add(b, a)"),
    ],
)
def test_other_arithmetic(old: str, new: str) -> None:
    text = "e = Exp(f) g =".join(TEXT.replace(old, new).split("g =", 1))
    assert "interpolate" not in source(text, 9, **tables(6, 9, False))


@pytest.mark.parametrize("value", ["a", "b", "d", "m"])
def test_a_value_that_is_read_elsewhere(value: str) -> None:
    text = f"{TEXT} o = Identity({value})"
    assert "interpolate" not in source(text, 9, ", float[batch, 3, 9] o", **tables(6, 9, False))


def test_before_a_resize_had_axes() -> None:
    model = parse(f"g (float[batch, 3, 6] x) => (float[batch, 3, 9] y) {{ {TEXT} }}", 17, **tables(6, 9, False))
    assert_same_numbers(model)
    assert "interpolate" not in onnxlift.lift(model).source


# One condition each, with Gather. These are shown to the idiom as they are.

ROWS = """f = Transpose <perm = [2, 0, 1]> (x)
    taken = Gather <axis = 0> (f, low) a = Transpose <perm = [1, 2, 0]> (taken)
    next = Gather <axis = 0> (f, high) b = Transpose <perm = [1, 2, 0]> (next)
    d = Sub(b, a) m = Mul(d, t) y = Add(a, m)"""
X = "float[batch, 3, 5] x"


def rows(size: int, count: int, corners: bool = False) -> dict[str, Array]:
    """Both rows and the shares of an interpolation."""
    steps = np.arange(count)
    half = np.maximum((steps + 0.5) * (size / count) - 0.5, 0)
    position = steps * ((size - 1) / max(count - 1, 1)) if corners else half
    low = np.floor(position + 1e-9).astype(np.int64)
    return {"low": low, "high": np.minimum(low + 1, size - 1), "t": (position - low).astype(np.float32)}


def operators(
    text: str, inputs: str = X, outputs: str = "", axes: int = 3, opset: int = 18, **given: Array
) -> list[str]:
    """The operators after this idiom alone, in a model that the lifted module agrees with."""
    dtype = inputs.partition("[")[0]
    result = f"{dtype}[{', '.join('abcde'[:axes])}] y"
    model = parse(f"g ({inputs}) => ({result}{outputs}) {{ {text} }}", opset, **given)
    assert_same_numbers(model)
    graph = load(model)
    normalise(graph)
    linear_resize.run(graph)
    return [node.op_type for node in graph.graph]


@pytest.mark.parametrize(
    ("size", "count", "corners", "written"),
    [
        (5, 8, False, 'F.interpolate(x, size=8, mode="linear")'),
        (5, 3, False, 'F.interpolate(x, size=3, mode="linear")'),
        (5, 10, False, 'F.interpolate(x, scale_factor=2, mode="linear")'),
        (5, 8, True, 'F.interpolate(x, size=8, mode="linear", align_corners=True)'),
        (5, 1, True, 'F.interpolate(x, size=1, mode="linear", align_corners=True)'),
    ],
)
def test_signals_by_rows(size: int, count: int, corners: bool, written: str) -> None:
    given = rows(size, count, corners)
    assert operators(ROWS, **given) == ["Resize"]
    assert written in onnxlift.lift(parse(f"g ({X}) => (float[batch, 3, n] y) {{ {ROWS} }}", **given)).source


@pytest.mark.parametrize(("old", "new"), [("Add(a, m)", "Add(m, a)"), ("Mul(d, t)", "Mul(t, d)")])
def test_operands_in_either_order(old: str, new: str) -> None:
    assert operators(ROWS.replace(old, new), **rows(5, 8)) == ["Resize"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("y = Add(a, m)", "y = Sub(a, m)", id="subtracted"),
        pytest.param("Sub(b, a)", "Sub(a, b)", id="the-other-difference"),
        pytest.param("Gather <axis = 0> (f, high)", "Gather <axis = 0> (h, high)", id="rows-of-another"),
        pytest.param("f = Transpose <perm = [2, 0, 1]>", "f = Transpose <perm = [2, 1, 0]>", id="axes-of-the-rows"),
        pytest.param("[1, 2, 0]", "[2, 1, 0]", id="axes-of-the-result"),
    ],
)
def test_other_rows(old: str, new: str) -> None:
    assert old in ROWS
    text = f"h = Transpose <perm = [2, 0, 1]> (other) {ROWS.replace(old, new)}"
    assert "Resize" not in operators(text, f"{X}, float[batch, 3, 5] other", **rows(5, 8))


def test_the_difference_from_another_row() -> None:
    """The first row has two readers, as it should, but the difference is none of them."""
    text = ROWS.replace("Sub(b, a)", "Sub(b, other)") + " z = Exp(a)"
    inputs = f"{X}, float[batch, 3, 8] other"
    assert "Resize" not in operators(text, inputs, ", float[batch, 3, 8] z", **rows(5, 8))


def test_rows_along_another_axis() -> None:
    assert "Resize" not in operators(ROWS.replace("axis = 0", "axis = 1"), "float[5, 3, 5] x", **rows(5, 1))


@pytest.mark.parametrize("value", ["a", "b", "d", "m"])
def test_a_value_that_somebody_else_reads(value: str) -> None:
    assert "Resize" not in operators(f"{ROWS} z = Exp({value})", X, ", float[batch, 3, 8] z", **rows(5, 8))


def test_shares_with_more_axes() -> None:
    given = rows(5, 8)
    assert "Resize" not in operators(ROWS, axes=4, **given | {"t": given["t"].reshape(1, 1, 1, 8)})


def test_one_row_and_three_others() -> None:
    given = {"low": np.array([0]), "high": np.array([1, 1, 1]), "t": np.array([0.5], np.float32)}
    assert "Resize" not in operators(ROWS, "float[batch, 3, 2] x", **given)


def test_rows_that_are_no_neighbours() -> None:
    """The positions are right, but the elements around them are not the next ones."""
    given = rows(5, 8)
    further = given["low"] <= 2
    high = np.where(further, given["low"] + 2, given["high"])
    shares = np.where(further, given["t"] / 2, given["t"])
    assert "Resize" not in operators(ROWS, **given | {"high": high, "t": shares.astype(np.float32)})


def test_other_positions() -> None:
    given = rows(5, 8)
    assert "Resize" not in operators(ROWS, **given | {"t": given["t"] * np.float32(0.9)})
    assert "Resize" not in operators(ROWS, **given | {"low": given["low"][::-1].copy()})


def test_integers() -> None:
    given = {"low": np.array([0, 2, 4]), "high": np.array([1, 3, 4]), "t": np.array([0, 0, 0])}
    assert "Resize" not in operators(ROWS, "int64[batch, 3, 5] x", **given)
    assert operators(ROWS, **given | {"t": given["t"].astype(np.float32)}) == ["Resize"]


def test_signals_without_channels_or_elements() -> None:
    text = f"x = Slice(all, start, start, axis) {ROWS}"
    cut = {"start": np.array([0]), "axis": np.array([1])}
    assert "Resize" not in operators(text, X.replace("x", "all"), **rows(5, 8), **cut)
    none = {"low": np.zeros(0, np.int64), "high": np.zeros(0, np.int32), "t": np.zeros(0, np.float32)}
    assert "Resize" not in operators(ROWS, **none)


def test_signals_of_unknown_length() -> None:
    assert "Resize" not in operators(ROWS, "float[batch, 3, seq] x", **rows(4, 8))


def test_before_a_resize_had_axes_by_rows() -> None:
    assert "Resize" not in operators(ROWS, opset=17, **rows(5, 8))
