"""Adaptive pools whose windows are not all of one size, as PyTorch's newer exporter writes them: with tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import onnxlift
from onnxlift.ir.load import load
from onnxlift.rewriting.idioms.images import adaptive_pool
from rewriting.idioms.recognising import Array, assert_same_numbers, parse
from rewriting.running_stages import normalise

WINDOWS = """f = Transpose <perm = [2, 3, 0, 1]> (x) g = GatherND(f, table)
    w = Transpose <perm = [4, 5, 0, 1, 2, 3]> (g) """
MEAN = WINDOWS + "y = ReduceMean <keepdims = 0> (w, axes)"
AXES = np.array([-3, -1])


def spans(size: int, count: int) -> list[tuple[int, int]]:
    return [(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]


def tables(sizes: tuple[int, int], counts: tuple[int, int]) -> dict[str, Array]:
    """The places of all windows, which of them are none, and how many are."""
    axes = [spans(size, count) for size, count in zip(sizes, counts, strict=True)]
    lengths = [np.array([end - start for start, end in axis]) for axis in axes]
    places = [
        np.minimum(np.array([start for start, _ in axis])[:, None] + np.arange(length.max()), size - 1)
        for axis, length, size in zip(axes, lengths, sizes, strict=True)
    ]
    down, across = (np.arange(length.max()) >= length[:, None] for length in lengths)
    grid = np.broadcast_arrays(places[0][:, :, None, None], places[1])
    counted = lengths[0][:, None] * lengths[1]
    return {
        "table": np.stack(grid, -1),
        "down": down[:, :, None, None],
        "across": across,
        "divisor": counted.astype(np.float32),
        "zero": np.zeros((), np.float32),
    }


def summed(height: int, width: int) -> str:
    """The text that adds the places of windows of this size and divides by the counts."""
    lines = [WINDOWS, "v = Where(down, zero, w) u = Where(across, zero, v)"]
    total = ""
    for i in range(height):
        lines.append(f"i{i} = Constant <value_int = {i}> () r{i} = Gather <axis = 3> (u, i{i})")
        for j in range(width):
            lines.append(f"j{i}_{j} = Constant <value_int = {j}> () t{i}_{j} = Gather <axis = -1> (r{i}, j{i}_{j})")
            if total:
                lines.append(f"s{i}_{j} = Add({total}, t{i}_{j})")
            total = f"s{i}_{j}" if total else "t0_0"
    return "\n".join([*lines, f"y = Div({total}, divisor)"])


def source(text: str, sizes: tuple[int, int], counts: tuple[int, int], outputs: str = "", **given: Any) -> str:
    used = {name: array for name, array in given.items() if name in text}
    rows, columns = counts
    head = f"float[batch, 3, {sizes[0]}, {sizes[1]}] x"
    model = parse(f"g ({head}) => (float[batch, 3, {rows}, {columns}] y{outputs}) {{ {text} }}", **used)
    assert_same_numbers(model)
    return onnxlift.lift(model).source


@pytest.mark.parametrize(
    ("sizes", "counts", "written"),
    [
        ((7, 11), (3, 5), "nn.AdaptiveAvgPool2d((3, 5))"),
        ((6, 11), (3, 5), "nn.AdaptiveAvgPool2d((3, 5))"),
        ((5, 10), (1, 4), "nn.AdaptiveAvgPool2d((1, 4))"),
        ((4, 3), (4, 6), "nn.AdaptiveAvgPool2d((4, 6))"),
    ],
)
def test_windows_of_one_size(sizes: tuple[int, int], counts: tuple[int, int], written: str) -> None:
    assert written in source(MEAN, sizes, counts, axes=AXES, **tables(sizes, counts))


@pytest.mark.parametrize(
    ("sizes", "counts", "written"),
    [
        ((10, 10), (7, 7), "nn.AdaptiveAvgPool2d(7)"),
        ((5, 6), (7, 8), "nn.AdaptiveAvgPool2d((7, 8))"),
        ((10, 12), (7, 3), "nn.AdaptiveAvgPool2d((7, 3))"),
        ((2, 31), (1, 3), "nn.AdaptiveAvgPool2d((1, 3))"),
    ],
)
def test_windows_of_different_sizes(sizes: tuple[int, int], counts: tuple[int, int], written: str) -> None:
    given = tables(sizes, counts)
    _, height, _, width, _ = given["table"].shape
    assert written in source(summed(height, width), sizes, counts, **given)


def test_a_pool_of_one_image_or_along_one_axis() -> None:
    given = tables((7, 11), (3, 5)) | {"axes": AXES}
    text = MEAN.replace("[2, 3, 0, 1]", "[1, 2, 0]").replace("[4, 5, 0, 1, 2, 3]", "[4, 0, 1, 2, 3]")
    model = parse(
        f"g (float[channels, 7, 11] x) => (float[channels, 3, 5] y) {{ {text} }}", table=given["table"], axes=AXES
    )
    assert "nn.AdaptiveAvgPool2d((3, 5))" in onnxlift.lift(model).source
    for above, written in ((-2, "nn.AdaptiveAvgPool1d(5)"), (2, "nn.AdaptiveAvgPool1d(5)")):
        given = tables((1, 11), (1, 5)) | {"axes": AXES, "above": np.array([above])}
        text = MEAN.replace("(x)", "(x2)").replace("y =", "y2 =")
        text = f"x2 = Unsqueeze(x, above) {text} y = Squeeze(y2, above)"
        used = {name: array for name, array in given.items() if name in text}
        model = parse(f"g (float[batch, 3, 11] x) => (float[batch, 3, 5] y) {{ {text} }}", **used)
        assert_same_numbers(model)
        assert written in onnxlift.lift(model).source


@pytest.mark.parametrize(
    "change",
    [
        {"table": lambda a: a[::-1]},
        {"table": lambda a: a[:, ::-1]},
        {"table": lambda a: np.minimum(a + 1, 6)},
        {"table": lambda a: a[..., ::-1] % 7},
        {"axes": lambda a: np.array([-4, -2]) + 0 * a},
    ],
)
def test_other_windows(change: dict[str, Any]) -> None:
    given = tables((7, 7), (3, 3)) | {"axes": AXES}
    (name,) = change
    given[name] = np.ascontiguousarray(change[name](given[name]))
    assert "AdaptiveAvgPool" not in source(MEAN, (7, 7), (3, 3), **given)


@pytest.mark.parametrize(
    ("name", "place", "value"),
    [
        ("table", (0, 0, 0, 0, 0), 1),
        ("table", (3, 1, 3, 1, 1), 3),
        ("down", (0, 1, 0, 0), True),
        ("down", (0, 2, 0, 0), False),
        ("across", (0, 2), False),
        ("divisor", (1, 2), 5.0),
        ("zero", (), 1e-3),
    ],
)
def test_other_numbers(name: str, place: tuple[int, ...], value: float) -> None:
    given = tables((10, 10), (7, 7))
    assert given[name][place] != value
    given[name][place] = value
    assert "AdaptiveAvgPool" not in source(summed(3, 3), (10, 10), (7, 7), **given)


def test_windows_that_lack_an_element() -> None:
    """The last element of the longest windows is not there, and still counted."""
    given = tables((10, 10), (7, 7))
    short = {**given, "table": given["table"][:, :2], "down": given["down"][:, :2]}
    assert "AdaptiveAvgPool" not in source(summed(2, 3), (10, 10), (7, 7), **short)
    narrow = {**given, "table": given["table"][:, :, :, :2], "across": given["across"][:, :2]}
    assert "AdaptiveAvgPool" not in source(summed(3, 2), (10, 10), (7, 7), **narrow)


def test_what_is_masked_may_be_anything() -> None:
    given = tables((10, 10), (7, 7))
    given["table"][0, 2, :, :, 0] = 9
    assert "AdaptiveAvgPool" in source(summed(3, 3), (10, 10), (7, 7), **given)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Add(s1_0, t1_1)", "Add(s1_0, t1_0)"),
        ("Add(s1_0, t1_1)", "Add(s1_0, s1_0)"),
        ("Add(s1_0, t1_1)", "Sub(s1_0, t1_1)"),
        ("Add(s1_0, t1_1)", "Identity(s1_0)"),
        ("Gather <axis = 3> (u, i1)", "Gather <axis = 3> (v, i1)"),
        ("Where(across, zero, v)", "Where(across, v, zero)"),
    ],
)
def test_other_sums(old: str, new: str) -> None:
    text = summed(3, 3)
    assert old in text
    assert "AdaptiveAvgPool" not in source(text.replace(old, new), (10, 10), (7, 7), **tables((10, 10), (7, 7)))


@pytest.mark.parametrize("value", ["w", "v", "u", "r1", "t1_1", "s1_1", "g"])
def test_a_value_that_is_read_elsewhere(value: str) -> None:
    text = f"{summed(3, 3)} o = Identity({value})"
    given = tables((10, 10), (7, 7))
    rank = {"r1": 5, "t1_1": 4, "s1_1": 4}.get(value, 6)
    output = ", ".join("abcdef"[:rank])
    assert "AdaptiveAvgPool" not in source(text, (10, 10), (7, 7), f", float[{output}] o", **given)


def test_a_mean_that_keeps_its_axes_or_goes_to_somebody_else() -> None:
    given = tables((7, 11), (3, 5)) | {"axes": AXES}
    both = MEAN + " o = Identity(w)"
    assert "AdaptiveAvgPool" not in source(both, (7, 11), (3, 5), ", float[batch, 3, 3, 3, 5, 3] o", **given)
    kept = MEAN.replace("y =", "k =").replace("keepdims = 0", "keepdims = 1") + " y = Squeeze(k, axes)"
    source(kept, (7, 11), (3, 5), **given)


def test_an_image_of_unknown_size() -> None:
    table = tables((4, 5), (3, 3))["table"]
    model = parse(f"g (float[batch, 3, seq, keys] x) => (float[batch, 3, 3, 3] y) {{ {MEAN} }}", table=table, axes=AXES)
    assert_same_numbers(model)
    assert "AdaptiveAvgPool" not in onnxlift.lift(model).source


def test_integers_are_no_image() -> None:
    given = tables((10, 10), (7, 7))
    used = {**given, "divisor": given["divisor"].astype(np.int64), "zero": np.zeros((), np.int64)}
    model = parse(f"g (int64[batch, 3, 10, 10] x) => (int64[batch, 3, 7, 7] y) {{ {summed(3, 3)} }}", **used)
    assert_same_numbers(model)
    assert "AdaptiveAvgPool" not in onnxlift.lift(model).source


def test_nodes_without_inputs_are_passed_by() -> None:
    model = parse(
        "g (float[batch, 3] x) => (float[1, batch, 3] y) { e = SequenceEmpty() s = SequenceInsert(e, x) "
        "y = ConcatFromSequence <axis = 0, new_axis = 1> (s) }"
    )
    assert_same_numbers(model)


# One condition each. These are shown to the idiom as they are, since simplifying changes some of them.


def pools(text: str, inputs: str = "float[2, 3, 10, 10] x", outputs: str = "y", **given: Any) -> list[str]:
    """The operators after this idiom alone, the constants aside, in a model that the lifted module agrees with."""
    used = {name: array for name, array in given.items() if name in text}
    declared = ", ".join(f"float[{', '.join('abcdefg'[: RANKS.get(name, 4)])}] {name}" for name in outputs.split())
    model = parse(f"g ({inputs}) => ({declared}) {{ {text} }}", **used)
    assert_same_numbers(model)
    graph = load(model)
    normalise(graph)
    adaptive_pool.run(graph)
    return [node.op_type for node in graph.graph]


RANKS = {"w": 6, "v": 6, "u": 6, "o": 6, "five": 5}
MASKED = tables((10, 10), (7, 7))
EVEN = tables((7, 7), (3, 3))
SUM = summed(3, 3)


def test_sums_are_shown_to_the_idiom() -> None:
    assert pools(SUM, **MASKED) == ["AdaptiveAvgPool"]
    assert pools(SUM, "float[2, 3, 7, 7] x", **EVEN) == ["AdaptiveAvgPool"]


@pytest.mark.parametrize(
    ("output", "changed"),
    [
        pytest.param("five", {"divisor": np.tile(MASKED["divisor"], (4, 1, 1, 1, 1))}, id="more-axes"),
        pytest.param("five", {"zero": np.zeros((1,) * 7, np.float32)}, id="more-axes-by-the-zero"),
        pytest.param("y", {"down": np.tile(MASKED["down"], (3, 1, 1, 1, 1))}, id="a-mask-for-each-channel"),
    ],
)
def test_constants_with_more_axes(output: str, changed: dict[str, Array]) -> None:
    text = SUM.replace("y =", f"{output} =").replace("axis = 3", "axis = -3")
    assert "AdaptiveAvgPool" not in pools(text, outputs=output, **MASKED | changed)


def test_constants_that_make_an_axis_longer() -> None:
    one = tables((6, 6), (1, 1))
    assert pools(summed(6, 6), "float[2, 3, 6, 6] x", **one) == ["AdaptiveAvgPool"]
    longer = one | {"divisor": np.full((4, 1), 36.0, np.float32)}
    assert "AdaptiveAvgPool" not in pools(summed(6, 6), "float[2, 3, 6, 6] x", **longer)
    each = tables((5, 5), (5, 5))
    longer = each | {"down": np.zeros((5, 2, 1, 1), bool)}
    assert "AdaptiveAvgPool" not in pools(summed(1, 1), "float[2, 3, 5, 5] x", **longer)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("[2, 3, 0, 1]> (x)", "[3, 2, 0, 1]> (x)", id="columns-first"),
        pytest.param("[4, 5, 0, 1, 2, 3]> (g)", "[4, 5, 2, 1, 0, 3]> (g)", id="rows-and-columns-change-places"),
        pytest.param("r1 = Gather <axis = 3>", "r1 = Gather <axis = 2>", id="another-row"),
        pytest.param("t1_1 = Gather <axis = -1>", "t1_1 = Gather <axis = -2>", id="another-column"),
        pytest.param(
            "r2 = Gather <axis = 3> (u, i2)",
            "e = Exp(u) k = Exp(u) o = Add(e, k) r2 = Gather <axis = 3> (e, i2)",
            id="a-row-of-another",
        ),
        pytest.param("t0_0 = Gather <axis = -1> (r0, j0_0)", "t0_0 = Exp(x1)", id="no-row"),
        pytest.param("t0_0 = Gather <axis = -1> (r0,", "t0_0 = Gather <axis = -1> (x2,", id="a-place-of-no-row"),
    ],
)
def test_other_axes_and_rows(old: str, new: str) -> None:
    assert old in SUM
    text = SUM.replace(old, new)
    more = ", float[2, 3, 3, 3] x1" * ("x1" in text) + ", float[2, 3, 3, 3, 3] x2" * ("x2" in text)
    outputs = "y o" if "o =" in text else "y"
    assert "AdaptiveAvgPool" not in pools(text, f"float[2, 3, 7, 7] x{more}", outputs, **EVEN)


def test_a_quotient_of_what_is_in_no_windows() -> None:
    text = "i = Constant <value_int = 1> () t = Gather <axis = -1> (x, i) y = Div(t, divisor)"
    model = parse(f"g (float[2, 3, 4, 5] x) => (float[2, 3, 4] y) {{ {text} }}", divisor=(4,))
    assert_same_numbers(model)
    assert "AdaptiveAvgPool" not in onnxlift.lift(model).source


def test_rows_that_stay_axes() -> None:
    text = SUM
    for row in range(3):
        text = text.replace(f"i{row} = Constant <value_int = {row}>", f"i{row} = Constant <value_ints = [{row}]>")
    assert "AdaptiveAvgPool" not in pools(text.replace("y =", "five ="), "float[2, 3, 7, 7] x", "five", **EVEN)


@pytest.mark.parametrize("value", ["u", "r1"])
def test_places_that_somebody_else_reads(value: str) -> None:
    output = "o" if value == "u" else "five"
    assert "AdaptiveAvgPool" not in pools(f"{SUM} {output} = Exp({value})", outputs=f"y {output}", **MASKED)


@pytest.mark.parametrize("shape", [(3, 3, 3, 3, 2, 3), (3, 3, 3, 1)], ids=["of-a-batch", "of-rows"])
def test_tables_of_other_axes(shape: tuple[int, ...]) -> None:
    """Places of pixels of an image of the batch, and of whole rows: as many axes as windows have."""
    places = np.random.default_rng(5).integers(0, 2, shape)
    model = parse(f"g (float[2, 3, 7, 7] x) => (float[a, b, c, d] y) {{ {MEAN} }}", table=places, axes=np.array([3, 5]))
    assert_same_numbers(model)
    assert "AdaptiveAvgPool" not in onnxlift.lift(model).source


def test_an_image_with_more_axes() -> None:
    text = MEAN.replace("[2, 3, 0, 1]", "[3, 4, 0, 1, 2]").replace("[4, 5, 0, 1, 2, 3]", "[4, 5, 6, 0, 1, 2, 3]")
    given = tables((7, 7), (3, 3))
    operators = pools(text.replace("y =", "five ="), "float[2, 3, 4, 7, 7] x", "five", **given, axes=AXES)
    assert operators[-1] == "ReduceMean"


def test_windows_of_which_there_are_none() -> None:
    """ONNX Runtime gives a result of another shape, so nothing is compared."""
    model = parse(f"g (float[2, 3, 7, 7] x) => (float[2, 3, 0, 3] y) {{ {MEAN} }}", table=EVEN["table"][:0], axes=AXES)
    assert "AdaptiveAvgPool" not in onnxlift.lift(model).source


def test_tables_that_are_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adaptive_pool, "_LARGEST", EVEN["table"].size)
    assert pools(MEAN, "float[2, 3, 7, 7] x", **EVEN, axes=AXES) == ["AdaptiveAvgPool"]
    monkeypatch.setattr(adaptive_pool, "_LARGEST", EVEN["table"].size - 1)
    assert pools(MEAN, "float[2, 3, 7, 7] x", **EVEN, axes=AXES)[-1] == "ReduceMean"


SIGNAL = f"x2 = Unsqueeze(x, above) {MEAN.replace('(x)', '(x2)').replace('y =', 'y2 =')} y = Squeeze(y2, above)"


@pytest.mark.parametrize(
    ("old", "new", "inputs", "counts"),
    [
        pytest.param("Squeeze(y2", "ReduceL1 <keepdims = 0> (y2", "float[2, 3, 11] x", (1, 5), id="absolute"),
        pytest.param("Unsqueeze(x, above)", "Unsqueeze(x, front)", "float[2, 3, 11] x", (1, 5), id="another-new-axis"),
        pytest.param("Squeeze(y2, above)", "Squeeze(y2, front)", "float[2, 1, 11] x", (3, 5), id="another-axis-goes"),
    ],
)
def test_signals_of_other_axes(old: str, new: str, inputs: str, counts: tuple[int, int]) -> None:
    height = 3 if "Unsqueeze(x" in old else 1
    given = {"axes": AXES, "above": np.array([-2]), "front": np.array([-3]), **tables((height, 11), counts)}
    text = SIGNAL.replace(old, new)
    used = {name: array for name, array in given.items() if name in text}
    model = parse(f"g ({inputs}) => (float[a, b, c] y) {{ {text} }}", **used)
    assert_same_numbers(model)
    assert "AdaptiveAvgPool1d" not in onnxlift.lift(model).source


def test_an_image_of_one_row_that_somebody_else_reads() -> None:
    given = {"axes": AXES, "above": np.array([-2]), "table": tables((1, 11), (1, 5))["table"]}
    outputs = "float[2, 3, 5] y, float[2, 3, 1, 5] z"
    model = parse(f"g (float[2, 3, 11] x) => ({outputs}) {{ {SIGNAL} z = Exp(y2) }}", **given)
    assert_same_numbers(model)
    assert "AdaptiveAvgPool1d" not in onnxlift.lift(model).source
