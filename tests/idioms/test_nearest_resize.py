"""Images that change their size by the nearest pixel, as PyTorch's newer exporter writes that: with a table."""

from __future__ import annotations

import numpy as np
import pytest

import onnxlift

from .recognising import Array, assert_same_numbers, parse

FRONT = {1: [2, 0, 1], 2: [2, 3, 0, 1], 3: [2, 3, 4, 0, 1]}
BACK = {1: [1, 2, 0], 2: [2, 3, 0, 1], 3: [3, 4, 0, 1, 2]}
Sizes = tuple[int, ...]


def table(old: Sizes, new: Sizes) -> Array:
    """The places of all elements, one row for each."""
    places = [(np.arange(k) + 0.5) * (size / k) for size, k in zip(old, new, strict=True)]
    grid = np.meshgrid(*(np.floor(place).astype(np.int64) for place in places), indexing="ij")
    return np.stack(grid, -1)


def text(space: int) -> str:
    return f"f = Transpose <perm = {FRONT[space]}> (x) g = GatherND(f, t) y = Transpose <perm = {BACK[space]}> (g)"


def source(old: Sizes, new: Sizes, places: Array, body: str = "", outputs: str = "", dtype: str = "float") -> str:
    before, after = (", ".join(map(str, ("batch", 3, *sizes))) for sizes in (old, new))
    body = body or text(len(old))
    model = parse(f"g ({dtype}[{before}] x) => ({dtype}[{after}] y{outputs}) {{ {body} }}", t=places)
    assert_same_numbers(model)
    return onnxlift.lift(model).source


@pytest.mark.parametrize(
    ("old", "new", "written"),
    [
        ((5, 7), (8, 11), "size=(8, 11)"),
        ((5, 7), (3, 5), "size=(3, 5)"),
        ((5, 7), (9, 9), "size=9"),
        ((5, 7), (10, 14), "scale_factor=2"),
        ((5, 7), (10, 21), "size=(10, 21)"),
        ((7,), (11,), "size=11"),
        ((7,), (21,), "scale_factor=3"),
        ((4, 5, 6), (6, 3, 11), "size=(6, 3, 11)"),
    ],
)
def test_images(old: Sizes, new: Sizes, written: str) -> None:
    assert f'F.interpolate(x, {written}, mode="nearest-exact")' in source(old, new, table(old, new))


def test_a_signal_that_becomes_shorter_may_be_a_slice() -> None:
    assert "interpolate" not in source((8,), (4,), table((8,), (4,)))


@pytest.mark.parametrize("place", [(0, 0, 0), (7, 10, 1), (3, 4, 1)])
def test_other_places(place: Sizes) -> None:
    places = table((5, 7), (8, 11))
    places[place] = (places[place] + 1) % 5
    assert "interpolate" not in source((5, 7), (8, 11), places)


def test_places_counted_from_the_corner() -> None:
    corner = [np.arange(k) * size // k for size, k in ((5, 8), (7, 11))]
    places = np.stack(np.meshgrid(*corner, indexing="ij"), -1)
    assert "interpolate" not in source((5, 7), (8, 11), places)


def test_places_at_which_rounding_decides() -> None:
    """For some sizes float32 and double do not give the same elements."""
    for old in range(2, 60):
        for new in range(2, 60):
            places = (np.arange(new) + 0.5) * (old / new)
            single = (np.arange(new) + 0.5).astype(np.float32) * (np.float32(old) / np.float32(new))
            if not np.array_equal(np.floor(places), np.floor(single)):
                assert "interpolate" not in source((old, 1), (new, 1), table((old, 1), (new, 1)))
                return
    pytest.fail("there is no such size")


@pytest.mark.parametrize(
    ("old", "new"), [("[2, 3, 0, 1]> (x)", "[3, 2, 0, 1]> (x)"), ("[2, 3, 0, 1]> (g)", "[3, 2, 0, 1]> (g)")]
)
def test_axes_in_another_order(old: str, new: str) -> None:
    body = text(2).replace(old, new)
    given = table((5, 5), (8, 8))
    before, after = "5, 3, 5, 5", "a, b, c, d"
    model = parse(f"g (float[{before}] x) => (float[{after}] y) {{ {body} }}", t=given)
    assert_same_numbers(model)
    assert "interpolate" not in onnxlift.lift(model).source


def test_a_value_that_is_read_elsewhere() -> None:
    body = text(2) + " o = Identity(g)"
    assert "interpolate" not in source((5, 7), (8, 11), table((5, 7), (8, 11)), body, ", float[8, 11, batch, 3] o")


def test_integers_and_unknown_sizes() -> None:
    assert "interpolate" not in source((5, 7), (8, 11), table((5, 7), (8, 11)), dtype="int64")
    model = parse(
        f"g (float[batch, 3, seq, keys] x) => (float[batch, 3, 6, 7] y) {{ {text(2)} }}", t=table((4, 5), (6, 7))
    )
    assert_same_numbers(model)
    assert "interpolate" not in onnxlift.lift(model).source
