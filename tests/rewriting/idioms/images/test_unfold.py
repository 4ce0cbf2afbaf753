"""Windows that are cut out by tables of indices: a case for each condition."""

from __future__ import annotations

import numpy as np
import pytest

import onnxlift
from onnxlift.ir.load import load
from onnxlift.rewriting.idioms.images import unfold
from rewriting.idioms.recognising import Array, assert_same_numbers, parse
from rewriting.running_stages import normalise


def table(rows: int, columns: int, down: int, across: int) -> Array:
    return np.arange(rows)[:, None] * down + np.arange(columns) * across


def operators(text: str, inputs: str, axes: int, outputs: str = "", opset: int = 18, **given: Array) -> list[str]:
    """The operators after this idiom alone, in a model that the lifted module agrees with."""
    dtype = inputs.partition("[")[0]
    used = {name: array for name, array in given.items() if name in text}
    result = f"{dtype}[{', '.join('abcdefg'[:axes])}] y{outputs}"
    model = parse(f"g ({inputs}) => ({result}) {{ {text} }}", opset, **used)
    assert_same_numbers(model)
    graph = load(model)
    normalise(graph)
    unfold.run(graph)
    return [node.op_type for node in graph.graph]


WINDOWS = "y = Gather <axis = 2> (x, i)"
X = "float[batch, seq, 8] x"


@pytest.mark.parametrize("axis", [2, -1])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_windows(axis: int, dtype: type) -> None:
    text = WINDOWS.replace("2", str(axis))
    assert operators(text, X, 4, i=table(3, 4, 2, 1).astype(dtype)) == ["Windows"]


def test_all_of_an_axis_is_one_window() -> None:
    assert operators(WINDOWS, X, 4, i=table(1, 8, 1, 1)) == ["Windows"]


@pytest.mark.parametrize(
    "indices",
    [
        pytest.param(table(3, 4, 0, 1), id="no-step"),
        pytest.param(table(3, 3, 2, 0), id="one-place-again-and-again"),
        pytest.param(table(2, 2, 4, 2), id="every-second-place"),
        pytest.param(table(4, 1, 2, 1), id="of-one-place"),
        pytest.param(table(2, 4, 2, 1), id="too-few"),
        pytest.param(table(3, 4, 2, 1) + 1, id="from-the-second-on"),
        pytest.param(np.where(table(3, 4, 2, 1) == 5, 0, table(3, 4, 2, 1)), id="one-place-is-another"),
        pytest.param(table(3, 4, 2, 1)[:0], id="none"),
        pytest.param(table(3, 4, 2, 1)[:, :0], id="of-nothing"),
    ],
)
def test_other_tables(indices: Array) -> None:
    assert operators(WINDOWS, X, 4, i=np.minimum(indices, 7)) == ["Gather"]


@pytest.mark.parametrize("shape", [(), (6,), (2, 3, 4)])
def test_tables_of_other_axes(shape: tuple[int, ...]) -> None:
    indices = np.random.default_rng(3).integers(0, 8, shape)
    assert operators(WINDOWS, X, 2 + len(shape), i=indices) == ["Gather"]


def test_windows_of_another_axis() -> None:
    assert operators(WINDOWS.replace("2", "1"), "float[batch, 8, 8] x", 4, i=table(3, 4, 2, 1)) == ["Gather"]


def test_windows_of_a_tensor_of_which_no_axes_are_known() -> None:
    text = f"""shape = Shape(all) size = Abs(k) given = GreaterOrEqual(size, zero)
        some = Compress <axis = 0> (shape, given) x = Reshape(all, some) {WINDOWS}"""
    zero = np.array(0, np.float32)
    assert "Gather" in operators(text, "float[batch, seq, 8] all, float[3] k", 4, i=table(3, 4, 2, 1), zero=zero)


def test_a_table_that_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unfold, "_LARGEST", 12)
    assert operators(WINDOWS, X, 4, i=table(3, 4, 2, 1)) == ["Windows"]
    monkeypatch.setattr(unfold, "_LARGEST", 11)
    assert operators(WINDOWS, X, 4, i=table(3, 4, 2, 1)) == ["Gather"]


def test_nodes_without_inputs_are_passed_by() -> None:
    text = "e = SequenceEmpty() s = SequenceInsert(e, x) y = ConcatFromSequence <axis = 0, new_axis = 1> (s)"
    assert len(operators(text, "float[batch, 3] x", 3)) == 3


IMAGE = """a = Pad(x, pads) b = Gather <axis = 2> (a, down) c = Gather <axis = 4> (b, across)
    t = Transpose <perm = [0, 1, 2, 4, 3, 5]> (c) y = Reshape(t, shape)"""
BARE = IMAGE.replace("a = Pad(x, pads)", "").replace("(a,", "(x,")
PIXELS = "float[batch, 4, 5, 7] x"
# Windows of 3 by 2 pixels at every second row and every third column.
KNOWN = {
    "down": table(3, 3, 1, 2),
    "across": table(2, 4, 1, 3),
    "shape": np.array([-1, 24, 12]),
    "pads": np.array([0, 0, 1, 2, 0, 0, 1, 2]),
    "zero": np.array(0, np.float32),
    "five": np.array(5, np.float32),
}


@pytest.mark.parametrize(
    ("old", "new"),
    [("", ""), ("(x, pads)", "(x, pads, zero)"), ("axis = 4", "axis = -1"), ("(x, pads)", '(x, pads, "")')],
)
def test_columns_of_an_image(old: str, new: str) -> None:
    assert operators(IMAGE.replace(old, new), PIXELS, 3, **KNOWN) == ["Unfold"]


@pytest.mark.parametrize(
    ("pad", "pads"),
    [
        pytest.param("Pad(x, pads, five)", [0, 0, 1, 2, 0, 0, 1, 2], id="another-number"),
        pytest.param('Pad <mode = "reflect"> (x, pads)', [0, 0, 1, 2, 0, 0, 1, 2], id="reflected"),
        pytest.param("Pad(x, pads)", [0, 0, 0, 1, 0, 0, 2, 3], id="not-the-same-on-both-sides"),
        pytest.param("Pad(x, pads, , order)", [0, 0, 2, 1, 0, 0, 2, 1], id="axes-of-its-own"),
    ],
)
def test_pads_that_stay(pad: str, pads: list[int]) -> None:
    order = np.array([0, 1, 3, 2])
    found = operators(IMAGE.replace("Pad(x, pads)", pad), PIXELS, 3, order=order, **KNOWN | {"pads": np.array(pads)})
    assert found == ["Pad", "Unfold"]


def test_pads_of_channels_and_pads_that_cut_stay() -> None:
    channels = {"pads": np.array([0, 1, 1, 2, 0, 1, 1, 2]), "shape": np.array([-1, 36, 12])}
    assert operators(IMAGE, PIXELS, 3, **KNOWN | channels) == ["Pad", "Unfold"]
    cut = {"pads": np.array([0, 0, -1, -1, 0, 0, -1, -1]), "across": table(2, 2, 1, 3), "down": table(3, 1, 1, 1)}
    shape = {"shape": np.array([-1, 24, 2])}
    assert operators(IMAGE, PIXELS, 3, **KNOWN | cut | shape) == ["Pad", "Unfold"]


def test_pads_that_somebody_else_reads_stay() -> None:
    found = operators(f"{IMAGE} z = Exp(a)", PIXELS, 3, ", float[a, b, c, d] z", **KNOWN)
    assert found == ["Pad", "Unfold", "Exp"]
    given = {name: array for name, array in KNOWN.items() if name in IMAGE}
    both = "float[batch, 24, 12] y, float[a, b, c, d] z"
    source = onnxlift.lift(parse(f"g ({PIXELS}) => ({both}) {{ {IMAGE} z = Exp(a) }}", **given)).source
    assert "F.unfold(" in source and "padding" not in source


def test_pads_that_are_an_attribute_stay() -> None:
    text = IMAGE.replace("Pad(x, pads)", "Pad <pads = [0, 0, 1, 2, 0, 0, 1, 2]> (x)")
    assert operators(text, PIXELS, 3, opset=10, **KNOWN) == ["Pad", "Unfold"]


@pytest.mark.parametrize("value", ["t", "b", "c"])
def test_a_value_that_somebody_else_reads(value: str) -> None:
    rank = "a, b, c, d, e" if value == "b" else "a, b, c, d, e, f"
    assert "Unfold" not in operators(f"{IMAGE} z = Exp({value})", PIXELS, 3, f", float[{rank}] z", **KNOWN)


def test_an_image_of_integers() -> None:
    given = KNOWN | {"across": table(2, 2, 1, 3), "down": table(3, 2, 1, 2), "shape": np.array([-1, 24, 4])}
    assert "Unfold" in operators(BARE, "float[batch, 4, 5, 5] x", 3, **given)
    assert "Unfold" not in operators(BARE, "int64[batch, 4, 5, 5] x", 3, **given)


def test_an_image_without_channels() -> None:
    text = f"x = Slice(all, start, start, axis) {IMAGE.replace('Reshape(', 'Reshape <allowzero = 1> (')}"
    given = KNOWN | {"start": np.array([0]), "axis": np.array([1]), "shape": np.array([3, 0, 12])}
    assert "Unfold" not in operators(text, "float[3, 4, 5, 7] all", 3, **given)


@pytest.mark.parametrize(
    ("changed", "columns"),
    [
        pytest.param({"down": table(3, 4, 0, 2)}, 8, id="one-row-again-and-again"),
        pytest.param({"down": table(3, 3, 1, 0)}, 6, id="one-window-again-and-again"),
        pytest.param({"down": table(3, 2, 1, 2)}, 4, id="too-few"),
        pytest.param({"across": table(2, 2, 1, 3)[::-1].copy()}, 4, id="backwards"),
    ],
)
def test_what_are_no_columns_of_an_image(changed: dict[str, Array], columns: int) -> None:
    given = KNOWN | {"down": table(3, 2, 1, 2), "across": table(2, 2, 1, 3)} | changed
    given["shape"] = np.array([-1, 24, given["down"].shape[1] * given["across"].shape[1]])
    assert given["shape"][2] == columns
    assert "Unfold" not in operators(BARE, "float[batch, 4, 7, 5] x", 3, **given)


def test_places_of_other_axes() -> None:
    """Each table is right for its axis, but is used along another one of the same size."""
    square = {"down": table(3, 2, 1, 2), "across": table(2, 2, 1, 3), "shape": np.array([-1, 30, 4])}
    assert "Unfold" in operators(BARE, "float[batch, 5, 5, 5] x", 3, **square)
    assert "Unfold" not in operators(BARE.replace("axis = 2", "axis = 1"), "float[batch, 5, 5, 5] x", 3, **square)
    small = {"down": table(3, 3, 1, 1), "across": table(2, 2, 1, 1), "shape": np.array([-1, 24, 6])}
    assert "Unfold" in operators(BARE, "float[batch, 4, 5, 3] x", 3, **small)
    assert "Unfold" not in operators(BARE.replace("axis = 4", "axis = 3"), "float[batch, 4, 5, 3] x", 3, **small)


def test_other_results_and_orders() -> None:
    assert "Unfold" not in operators(IMAGE, PIXELS, 3, **KNOWN | {"shape": np.array([-1, 12, 24])})
    assert "Unfold" not in operators(IMAGE.replace("[0, 1, 2, 4, 3, 5]", "[0, 1, 4, 2, 3, 5]"), PIXELS, 3, **KNOWN)


def test_what_is_not_reshaped() -> None:
    text = IMAGE.replace("Reshape(t, shape)", "Exp(t)")
    assert "Unfold" not in operators(text, PIXELS, 6, **KNOWN)


def test_how_it_is_written() -> None:
    given = {name: array for name, array in KNOWN.items() if name in IMAGE}
    source = onnxlift.lift(parse(f"g ({PIXELS}) => (float[batch, 24, 12] y) {{ {IMAGE} }}", **given)).source
    assert "F.unfold(x, (3, 2), padding=(1, 2), stride=(2, 3))" in source
