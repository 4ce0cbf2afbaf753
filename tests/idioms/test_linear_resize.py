"""Interpolation of signals, which has no operator of its own in what PyTorch's newer exporter writes."""

from __future__ import annotations

import numpy as np
import pytest

import onnxlift

from .recognising import assert_same_numbers, parse

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
