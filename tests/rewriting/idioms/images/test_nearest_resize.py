"""Images that change their size by the nearest pixel, as PyTorch's newer exporter writes that: with a table."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import onnxlift
from onnxlift.rewriting.idioms.images import nearest_resize
from rewriting.idioms.recognising import Array, assert_same_numbers, parse

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


def lifted(inputs: str, body: str, axes: int = 4, dtype: str = "float", **given: Array) -> str:
    """The source of a model that the lifted module agrees with."""
    model = parse(f"g ({inputs}) => ({dtype}[{', '.join('abcdefg'[:axes])}] y) {{ {body} }}", **given)
    assert_same_numbers(model)
    return onnxlift.lift(model).source


def test_a_lookup_along_the_images_of_a_batch_as_well() -> None:
    """The places are those of a change of size, in images of which each row of the table names one."""
    places = np.broadcast_to(table((5, 7), (8, 11))[:, :, None], (8, 11, 2, 2))
    other = np.broadcast_to(np.array([1, 0])[:, None], (8, 11, 2, 1))
    given = np.concatenate([places, other], -1)
    assert "interpolate" not in lifted("float[2, 3, 5, 7] x", text(2), t=given)


def test_a_lookup_of_whole_rows() -> None:
    assert "interpolate" not in lifted("float[2, 3, 5, 7] x", text(2), t=table((5,), (8,)))


@pytest.mark.parametrize("axis", [1, 2])
def test_a_lookup_along_another_axis_of_a_signal(axis: int) -> None:
    body = text(1).replace("GatherND(f, t)", f"Gather <axis = {axis}> (f, t)")
    assert "interpolate" not in lifted("float[5, 5, 5] x", body, 3, t=table((5,), (7,))[:, 0])
    assert "interpolate" not in lifted("float[5, 5, 5] x", body, 3, t=np.arange(5))


def test_a_lookup_of_each_row_of_its_own() -> None:
    body = text(2).replace("GatherND", "GatherND <batch_dims = 1>")
    given = table((5, 7), (8, 11))[:5, :, None].repeat(3, 2) % 3
    assert "interpolate" not in lifted("float[3, 4, 5, 7] x", body, t=given)


def test_an_image_with_more_axes_than_there_are_functions_for() -> None:
    body = (
        "f = Transpose <perm = [2, 3, 4, 5, 0, 1]> (x) g = GatherND(f, t) y = Transpose <perm = [4, 5, 0, 1, 2, 3]> (g)"
    )
    places = table((2, 3, 2, 3), (3, 4, 3, 4))
    assert "interpolate" not in lifted("float[2, 3, 2, 3, 2, 3] x", body, 6, t=places)


def test_an_image_without_channels_or_elements() -> None:
    """ONNX Runtime does not run a lookup of nothing."""
    none = {"start": np.array([0]), "axis": np.array([1]), "t": table((5, 7), (8, 11))}
    cut = f"x = Slice(all, start, start, axis) {text(2)}"
    assert "interpolate" not in lifted("float[batch, 3, 5, 7] all", cut, **none)
    model = parse(f"g (float[2, 3, 5, 7] x) => (float[2, 3, 0, 8] y) {{ {text(2)} }}", t=np.zeros((0, 8, 2), np.int64))
    assert onnxlift.lift(model).module()(torch.randn(2, 3, 5, 7)).shape == (2, 3, 0, 8)


def test_a_table_that_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    places = table((5, 7), (8, 11))
    monkeypatch.setattr(nearest_resize, "_LARGEST", places.size)
    assert "interpolate" in lifted("float[2, 3, 5, 7] x", text(2), t=places)
    monkeypatch.setattr(nearest_resize, "_LARGEST", places.size - 1)
    assert "interpolate" not in lifted("float[2, 3, 5, 7] x", text(2), t=places)


def test_nodes_without_inputs_are_passed_by() -> None:
    body = "e = SequenceEmpty() s = SequenceInsert(e, x) y = ConcatFromSequence <axis = 0, new_axis = 1> (s)"
    assert "interpolate" not in lifted("float[batch, 3] x", body, 3)
