"""Where the axes of a tensor go: as letters, and as the numbers that ONNX Runtime has there.

An axis is written by its atoms, `-` is one without any: `b phf` is (batch, parts * heads * features).
"""

from __future__ import annotations

import math

import numpy as np
import onnx
import onnxruntime
import pytest

from onnxlift.ir.load import load
from onnxlift.rewriting.idioms.parts.moved_axes import Moved
from rewriting.idioms.recognising import parse
from rewriting.running_stages import normalise, simplify

SIZES: dict[str, int] = {"b": 2, "s": 7, "p": 3, "h": 4, "f": 5, "u": 1, "v": 1, "z": 0}


def model_of(axes: str, text: str, sizes: dict[str, int], **known: list[int] | int) -> onnx.ModelProto:
    shape = ", ".join(str(math.prod(sizes[atom] for atom in axis)) for axis in axes.replace("-", "").split(" "))
    names = {name: np.array(values, np.int64) for name, values in known.items()}
    model = parse(f"g (float[{shape}] x) => (float y) {{ {text} }}", **names)
    model.graph.output[0].type.tensor_type.ClearField("shape")
    return model


def after(model: onnx.ModelProto, axes: str, sizes: dict[str, int | str]) -> Moved | None:
    """What the nodes of a model make of a tensor with these axes."""
    graph = load(model)
    normalise(graph)
    start = Moved(tuple(tuple(axis.replace("-", "")) for axis in axes.split(" ")), sizes)
    return start.after(list(graph.graph), graph.graph.outputs[0])


def written(moved: Moved | None) -> str | None:
    return None if moved is None else " ".join("".join(axis) or "-" for axis in moved.axes)


@pytest.mark.parametrize(
    ("start", "text", "known", "end", "taken"),
    [
        ("b phf", "y = Reshape(x, s)", {"s": [2, 3, 20]}, "b p hf", {}),
        ("b p h", "y = Flatten <axis = 1> (x)", {}, "b ph", {}),
        ("b p h", "y = Transpose <perm = [2, 0, 1]> (x)", {}, "h b p", {}),
        ("b h", "y = Unsqueeze(x, a)", {"a": [0, 3]}, "- b h -", {}),
        ("u b v h", "y = Squeeze(x, a)", {"a": [0, 2]}, "ub vh", {}),
        ("u b v h", "y = Reshape(x, s)", {"s": [1, 2, 1, 4]}, "u b v h", {}),
        ("u b h", "y = Reshape(x, s)", {"s": [2, 4, 1]}, "ub h -", {}),
        ("b phf", "y = Split <axis = 1> (x, s)", {"s": [60]}, None, {}),
        ("b phf", "a, c, y = Split <axis = 1, num_outputs = 3> (x)", {}, "b hf", {"p": 2}),
        ("b phf", "a, y, c = Split <axis = -1, num_outputs = 3> (x)", {}, "b hf", {"p": 1}),
        ("b phf", "y, a = Split <axis = 1> (x, s)", {"s": [20, 40]}, "b hf", {"p": 0}),
        ("b phf", "a, y = Split <axis = 1> (x, s)", {"s": [20, 40]}, None, {}),
        ("b phf", "a, y = Split <axis = 1> (x, s)", {"s": [40, 20]}, None, {}),
        ("u b", "y = Split <axis = 0> (x, s)", {"s": [1]}, None, {}),
        ("b p h", "y = Gather <axis = 1> (x, i)", {"i": 2}, "b h", {"p": 2}),
        ("b p h", "y = Gather <axis = -2> (x, i)", {"i": -1}, "b h", {"p": 2}),
        ("b p h", "y = Gather <axis = 1> (x, i)", {"i": [2]}, None, {}),
        ("b ph", "y = Gather <axis = 1> (x, i)", {"i": 2}, None, {}),
        ("b u", "y = Gather <axis = 1> (x, i)", {"i": 0}, None, {}),
        ("b phf", "y = Slice(x, f, t, a)", {"f": [20], "t": [40], "a": [1]}, "b hf", {"p": 1}),
        ("b phf", "y = Slice(x, f, t, a)", {"f": [20], "t": [40], "a": [-1]}, "b hf", {"p": 1}),
        ("b phf", "y = Slice(x, f, t, a)", {"f": [10], "t": [30], "a": [1]}, None, {}),
        ("b phf", "y = Slice(x, f, t, a)", {"f": [0], "t": [40], "a": [1]}, None, {}),
        ("b phf", "y = Slice(x, f, t, a)", {"f": [-20], "t": [60], "a": [1]}, None, {}),
        ("b phf", "y = Slice(x, f, t, a)", {"f": [0], "t": [0], "a": [1]}, None, {}),
        ("b phf", "y = Slice(x, f, t, a, e)", {"f": [0], "t": [40], "a": [1], "e": [2]}, None, {}),
        ("b p", "y = Slice(x, f, t)", {"f": [1, 1], "t": [2, 2]}, None, {}),
        ("p h", "y = Reshape(x, s)", {"s": [4, 3]}, None, {}),
        ("z p", "y = Reshape <allowzero = 1> (x, s)", {"s": [0]}, None, {}),
        ("z p", "y = Reshape <allowzero = 1> (x, s)", {"s": [0, 3]}, "z p", {}),
    ],
)
def test_where_the_axes_go(
    start: str, text: str, known: dict[str, list[int] | int], end: str | None, taken: dict[str, int]
) -> None:
    model = model_of(start, text, SIZES, **known)
    moved = after(model, start, {**SIZES})
    assert written(moved) == end
    if moved is None or end is None:
        return
    assert moved.taken == taken
    atoms = [atom for axis in start.split(" ") for atom in axis]
    numbers = np.arange(math.prod(SIZES[atom] for atom in atoms), dtype=np.float32)
    grid = numbers.reshape([SIZES[atom] for atom in atoms])[tuple(taken.get(atom, slice(None)) for atom in atoms)]
    left = [atom for atom in atoms if atom not in taken]
    ended = [[atom for atom in axis if atom != "-"] for axis in end.split(" ")]
    order = [left.index(atom) for axis in ended for atom in axis] + [
        place for place, atom in enumerate(left) if not any(atom in axis for axis in ended)
    ]
    expected = grid.transpose(order).reshape([math.prod(SIZES[atom] for atom in axis) for axis in ended])
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    shape = [size if isinstance(size, int) else 0 for size in session.get_inputs()[0].shape]
    np.testing.assert_array_equal(session.run(["y"], {"x": numbers.reshape(shape)})[0], expected)


def test_an_atom_of_size_1_may_stand_anywhere() -> None:
    moved = Moved((("b", "u"), ("h",)), SIZES)
    assert moved.is_at([("b",), ("u", "h")]) and not moved.is_at([("h",), ("b",)])
    assert moved.shape([("b", "h"), ("u",)]) == (8, 1)


@pytest.mark.parametrize(
    ("sizes", "shape", "size"),
    [
        ({"b": "batch", "h": 4}, [2, 2, 2], None),  # 4 as 2 x 2
        ({"b": "batch", "h": 4}, [2, 4, 1], 2),
        ({"b": "batch", "h": "heads"}, [8, 1], None),  # which of both?
        ({"b": "batch", "h": 0}, [0, 2], None),  # any
    ],
)
def test_a_number_for_a_size_that_was_open(sizes: dict[str, int | str], shape: list[int], size: int | None) -> None:
    numbers = {"b": 2, "h": sizes["h"] if isinstance(sizes["h"], int) else 4}
    model = model_of("b h", "y = Reshape <allowzero = 1> (x, s)", numbers, s=shape)
    moved = after(model, "b h", sizes)
    assert (None if moved is None else moved.sizes["b"]) == size


@pytest.mark.parametrize(("parts", "end"), [(2, "b -"), ("heads", None)])
def test_an_open_number_of_parts(parts: int | str, end: str | None) -> None:
    model = model_of("b h", "a, y = Split <axis = 1, num_outputs = 2> (x)", {"b": 2, "h": 2})
    assert written(after(model, "b h", {"b": 2, "h": parts})) == end


@pytest.mark.parametrize(
    ("start", "axis", "others", "size"),
    [
        ("b s", 1, "k", 10),
        ("b s", -1, "k", 10),
        ("b ph", 1, "k", None),
        ("b -", 1, "k", None),
        ("b s", 1, "k, k", None),
    ],
)
def test_what_is_appended(start: str, axis: int, others: str, size: int | None) -> None:
    model = model_of(start, f"y = Concat <axis = {axis}> (x, {others})", SIZES)
    numbers = np.random.default_rng(3).standard_normal((2, 3)).astype(np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(numbers, "k"))
    moved = after(model, start, {**SIZES})
    assert (None if moved is None else moved.sizes["s"]) == size
    if moved is not None:
        (appended,) = moved.appended
        assert (appended.value.name, appended.atom, appended.length) == ("k", "s", 3)
        assert appended.to.sizes["s"] == 7


def test_an_index_that_is_not_there() -> None:
    """It is known only once constants are folded: no rule on the file can tell."""
    graph = load(
        model_of("b p", "f = Constant <value_float = 3.0> () i = Cast <to = 7> (f) y = Gather <axis = 1> (x, i)", SIZES)
    )
    normalise(graph)
    simplify(graph)
    assert Moved((("b",), ("p",)), SIZES).after(list(graph.graph), graph.graph.outputs[0]) is None
