"""Operators that change shapes, and the arithmetic on sizes around them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import onnxlift
from lifting.ops.checking import check, check_official, official_cases


def rand(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    rng = np.random.default_rng(shape)
    return (rng.standard_normal(shape) * 50).astype(dtype)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def lifted(nodes: list[onnx.NodeProto], inputs: dict[str, tuple[Any, ...]], **constants: Any) -> str:
    """The last line of `forward`, for float inputs with the given sizes (names or numbers)."""
    infos = [helper.make_tensor_value_info(name, 1, shape) for name, shape in inputs.items()]
    outputs = [onnx.ValueInfoProto(name=name) for name in nodes[-1].output]
    initialisers = [onnx.numpy_helper.from_array(np.array(value), name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "g", infos, outputs, initialisers)
    source = onnxlift.lift(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])).source
    return next(line.strip() for line in source.splitlines() if line.startswith("        return "))


RESHAPES = [
    (("batch", 10, 64), (-1, 10, 4, 16), "return x.unflatten(-1, (4, 16))"),
    (("batch", 10, 64), (0, 0, 4, 16), "return x.unflatten(-1, (4, 16))"),
    (("batch", 10, 64), (0, 0, 4, -1), "return x.unflatten(-1, (4, 16))"),
    (("batch", 10, 4, 16), (-1, 10, 64), "return x.flatten(2)"),
    (("batch", 10, 4, 16), (0, 0, -1), "return x.flatten(2)"),
    (("batch", "seq", 64), (-1, 64), "return x.flatten(0, 1)"),
    (("batch", 2048, 1, 1), (0, -1), "return x.flatten(1)"),
    (("batch", 2048, 1, 1), (-1, 2048), "return x.flatten(1)"),
    (("batch", 3, 8, 8), (0, 3, 64), "return x.flatten(2)"),
    (("batch", 8, 8, 3), (0, 64, 3), "return x.flatten(1, 2)"),
    (("batch", 64, 3), (0, 8, 8, 3), "return x.unflatten(1, (8, 8))"),
    (("batch", 10), (0, 1, 10), "return x.unsqueeze(1)"),
    (("batch", 10), (0, 10, 1, 1), "return x[:, :, None, None]"),
    (("batch", 1, 10), (-1, 10), "return x.flatten(1)"),
    (("batch", 4, 1, 10), (-1, 4, 10), "return x.squeeze(2)"),
    (("batch", 10), (-1, 10), "return x"),
    (("batch", 10), (-1,), "return x.flatten()"),
    (("batch", 49, 8), (0, 7, 56), "return x.reshape(-1, 7, 56)"),
    (("batch", 56, 56, 96), (-1, 8, 7, 8, 7, 96), "return x.reshape(-1, 8, 7, 8, 7, 96)"),
    (("batch", 12), (-1, 3, 2), "return x.reshape(-1, 3, 2)"),
    (("a", "b", 6), (0, -1, 3), "return x.reshape(x.shape[0], -1, 3)"),
    ((1,), (), "return x.squeeze(0)"),
]


@pytest.mark.parametrize(("before", "target", "written"), RESHAPES)
def test_reshape_is_written_as_what_it_does(before: Any, target: Any, written: str) -> None:
    node = helper.make_node("Reshape", ["x", "s"], ["y"])
    assert lifted([node], {"x": before}, s=ints(*target)) == written


@pytest.mark.parametrize(("before", "target", "written"), RESHAPES)
@pytest.mark.parametrize("options", [{}, {"dynamic": True}, {"unranked": True}])
def test_reshape_numbers(before: Any, target: Any, written: str, options: Any) -> None:
    sizes = tuple(size if isinstance(size, int) else 3 for size in before)
    node = helper.make_node("Reshape", ["x", "s"], ["y"])
    check(node, {"x": rand(*sizes), "s": ints(*target)}, constants=["s"], **options)


@pytest.mark.parametrize(
    ("before", "after", "target"), [((0, 12), (0, 3, 2), (-1, 3, 2)), ((0, 4), (0, 2, 2), (0, 2, 2))]
)
def test_reshape_of_nothing(before: Any, after: Any, target: Any) -> None:
    node = helper.make_node("Reshape", ["x", "s"], ["y"])
    for dynamic in (False, True):
        inputs = {"x": rand(*before), "s": ints(*target)}
        check(node, inputs, constants=["s"], dynamic=dynamic, expected=[rand(*after)])


def test_reshape_runtime_shape() -> None:
    node = helper.make_node("Reshape", ["x", "s"], ["y"])
    check(node, {"x": rand(2, 3, 4), "s": ints(0, -1)}, dynamic=True)
    check(node, {"x": rand(2, 3, 4), "s": ints(-1)}, dynamic=True)
    node = helper.make_node("Reshape", ["x", "s"], ["y"], allowzero=1)
    check(node, {"x": rand(0, 3), "s": ints(4, 0)}, dynamic=True)
    check(node, {"x": rand(0, 3), "s": ints(4, 0)}, constants=["s"])


@pytest.mark.parametrize("opset", [1, 5, 13])
def test_reshape_opsets(opset: int) -> None:
    if opset == 1:
        node = helper.make_node("Reshape", ["x"], ["y"], shape=[0, -1])
        check(node, {"x": rand(2, 3, 4)}, opset=1, expected=[rand(2, 3, 4).reshape(2, 12)])
    else:
        node = helper.make_node("Reshape", ["x", "s"], ["y"])
        check(node, {"x": rand(2, 3, 4), "s": ints(0, -1)}, opset=opset, constants=["s"])


def test_sizes_stay_python_numbers() -> None:
    """The classic export of `x.view(x.size(0), x.size(1), 4, -1)`."""
    nodes = [
        helper.make_node("Shape", ["x"], ["shape0"]),
        helper.make_node("Gather", ["shape0", "zero"], ["b"]),
        helper.make_node("Shape", ["x"], ["shape1"]),
        helper.make_node("Gather", ["shape1", "one"], ["s"]),
        helper.make_node("Unsqueeze", ["b", "axis"], ["b1"]),
        helper.make_node("Unsqueeze", ["s", "axis"], ["s1"]),
        helper.make_node("Concat", ["b1", "s1", "four", "rest"], ["target"], axis=0),
        helper.make_node("Reshape", ["x", "target"], ["y"]),
    ]
    written = lifted(nodes, {"x": ("batch", "seq", 64)}, zero=0, one=1, axis=[0], four=[4], rest=[-1])
    assert written == "return x.unflatten(-1, (4, 16))"


@pytest.mark.parametrize(("op_type", "written"), [("Mod", "-3 % x.shape[0]"), ("Div", "12 // x.shape[0]")])
def test_a_number_divided_by_a_size(op_type: str, written: str) -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"], end=1),
        helper.make_node(op_type, ["n", "shape"], ["end"]),
        helper.make_node("Slice", ["x", "zero", "end"], ["y"]),
    ]
    assert lifted(nodes, {"x": ("batch",)}, zero=[0], n=[-3 if op_type == "Mod" else 12]) == f"return x[: {written}]"


def test_shape_as_a_result_is_a_tensor() -> None:
    for attributes, wanted in [({}, (2, 3, 4)), ({"start": 1}, (3, 4)), ({"start": -2, "end": -1}, (3,))]:
        node = helper.make_node("Shape", ["x"], ["y"], **attributes)
        for options in ({}, {"dynamic": True}, {"unranked": True}):
            check(node, {"x": rand(2, 3, 4)}, expected=[ints(*wanted)], **options)
    for options in ({}, {"dynamic": True}, {"unranked": True}):
        check(helper.make_node("Size", ["x"], ["y"]), {"x": rand(2, 3, 4)}, **options)


@pytest.mark.parametrize("axis", [-3, -2, -1, 0, 1, 2, 3])
@pytest.mark.parametrize("shape", [(2, 3, 4), (0, 3, 4)])
@pytest.mark.parametrize("options", [{}, {"dynamic": True}, {"unranked": True}])
def test_flatten(axis: int, shape: Any, options: Any) -> None:
    check(helper.make_node("Flatten", ["x"], ["y"], axis=axis), {"x": rand(*shape)}, **options)


def test_flatten_of_vector_and_scalar() -> None:
    check(helper.make_node("Flatten", ["x"], ["y"]), {"x": rand(5)})
    check(helper.make_node("Flatten", ["x"], ["y"], axis=0), {"x": rand(5)})
    check(helper.make_node("Flatten", ["x"], ["y"], axis=0), {"x": rand()})


PERMUTATIONS = [
    ((1, 0), "return x.T"),
    ((0, 2, 1), "return x.transpose(1, 2)"),
    ((0, 1, 3, 2), "return x.mT"),
    ((0, 2, 1, 3), "return x.transpose(1, 2)"),
    ((0, 2, 3, 1), "return x.permute(0, 2, 3, 1)"),
    ((0, 1), "return x"),
    (None, "return x.permute(3, 2, 1, 0)"),
]


@pytest.mark.parametrize(("perm", "written"), PERMUTATIONS)
def test_transpose(perm: Any, written: str) -> None:
    x = rand(*(2, 3, 4, 5)[: len(perm or range(4))])
    node = helper.make_node("Transpose", ["x"], ["y"], **({} if perm is None else {"perm": perm}))
    for options in ({}, {"dynamic": True}, {"unranked": True}):
        source = check(node, {"x": x}, **options)
        assert f"{written}\n" in source or (options == {"unranked": True} and perm is None)


@pytest.mark.parametrize("axes", [(0,), (-1,), (1, 2), (0, 3), (-1, 1), (-1, -2), (4, 0, -2)])
@pytest.mark.parametrize("options", [{}, {"dynamic": True}, {"unranked": True}])
@pytest.mark.parametrize("constants", [["axes"], []])
def test_unsqueeze_and_squeeze(axes: Any, options: Any, constants: list[str]) -> None:
    x = rand(2, 3)
    node = helper.make_node("Unsqueeze", ["x", "axes"], ["y"])
    check(node, {"x": x, "axes": ints(*axes)}, constants=constants, **options)
    node = helper.make_node("Squeeze", ["x", "axes"], ["y"])
    expanded = np.expand_dims(x, axes)
    check(node, {"x": expanded, "axes": ints(*axes)}, constants=constants, **options)


def test_squeeze_everything_and_attributes() -> None:
    for options in ({}, {"dynamic": True}, {"unranked": True}):
        check(helper.make_node("Squeeze", ["x"], ["y"]), {"x": rand(1, 3, 1)}, **options)
        check(helper.make_node("Squeeze", ["x"], ["y"], axes=[2]), {"x": rand(1, 3, 1)}, opset=11, **options)
        check(helper.make_node("Unsqueeze", ["x"], ["y"], axes=[2, 0]), {"x": rand(1, 3, 1)}, opset=11, **options)


EXPANSIONS = [
    ((3, 1), (2, 1, 6)),
    ((3, 4), (1,)),
    ((3, 4), (1, 1)),
    ((1, 4), (3, 1)),
    ((), (2, 3)),
    ((1,), (0,)),
    ((2, 3), ()),
    ((5, 1, 3), (1, 4, 1)),
]


@pytest.mark.parametrize(("before", "target"), EXPANSIONS)
@pytest.mark.parametrize("options", [{}, {"dynamic": True}, {"unranked": True}])
def test_expand(before: Any, target: Any, options: Any) -> None:
    node = helper.make_node("Expand", ["x", "s"], ["y"])
    check(node, {"x": rand(*before), "s": ints(*target)}, constants=["s"], **options)
    check(node, {"x": rand(*before), "s": ints(*target)}, **options)


def test_expand_to_the_shape_of_another() -> None:
    nodes = [helper.make_node("Shape", ["z"], ["s"]), helper.make_node("Expand", ["x", "s"], ["y"])]
    assert lifted(nodes, {"x": (1, 8), "z": ("batch", 8)}) == "return x.expand(z.shape[0], -1)"
    check(nodes, {"x": rand(4, 1), "z": rand(1, 3)}, dynamic=True)


def test_a_single_integer_that_is_expanded_is_a_literal() -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["s"], start=0, end=1),
        helper.make_node("Concat", ["s", "one"], ["t"], axis=0),
        helper.make_node("Expand", ["index", "t"], ["y"]),
    ]
    inputs = {"x": rand(2, 3), "one": ints(1), "index": ints(4)}
    source = check(nodes, inputs, constants=["one", "index"], dynamic=True)
    assert "torch.full((x.shape[0], 1), 4, dtype=torch.int64, device=x.device)" in " ".join(source.split())


def test_expand_of_a_table_cut_to_the_length_of_the_input() -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Slice", ["shape", "one", "two", "zero"], ["length"]),
        helper.make_node("Slice", ["table", "zero", "length", "one"], ["cut"]),
        helper.make_node("Expand", ["cut", "shape"], ["y"]),
    ]
    inputs = {"x": rand(2, 5), "table": rand(1, 8), "zero": ints(0), "one": ints(1), "two": ints(2)}
    source = check(nodes, inputs, constants=["table", "zero", "one", "two"], dynamic=True)
    assert "n, m = x.shape\n" in source and ".expand(n, m)" in source


@pytest.mark.parametrize("repeats", [(1, 1), (2, 1), (3, 0), (1, 4)])
@pytest.mark.parametrize("constants", [["r"], []])
def test_tile(repeats: Any, constants: list[str]) -> None:
    node = helper.make_node("Tile", ["x", "r"], ["y"])
    for dtype in (np.float32, np.uint32, np.bool_):
        expected = [np.tile(rand(2, 3).astype(dtype), repeats)]
        check(node, {"x": rand(2, 3).astype(dtype), "r": ints(*repeats)}, constants=constants, expected=expected)


def test_tile_of_opset_1() -> None:
    node = helper.make_node("Tile", ["x", "tiles", "axis"], ["y"])
    inputs = {"x": rand(2, 3), "tiles": np.array([3], np.float32), "axis": np.array([1], np.float32)}
    check(node, inputs, opset=1, constants=["tiles", "axis"], expected=[np.tile(rand(2, 3), (1, 3))])


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_concat(axis: int) -> None:
    parts = {"a": rand(2, 3, 4), "b": rand(2, 3, 4) + 1, "c": rand(2, 3, 4) * 2}
    check(helper.make_node("Concat", list(parts), ["y"], axis=axis), parts, dynamic=True)
    check(helper.make_node("Concat", ["a", "a"], ["y"], axis=axis), {"a": parts["a"].astype(np.uint16)}, reference=True)


def test_concat_defaults_to_axis_1_in_opset_1() -> None:
    x = rand(2, 3)
    check(helper.make_node("Concat", ["x", "x"], ["y"]), {"x": x}, opset=1, expected=[np.concatenate([x, x], 1)])


SPLITS: list[Any] = [
    ({}, None, 2, 6, "x.chunk(2, 1)"),
    ({"num_outputs": 3}, None, 3, 6, "x.chunk(3, 1)"),
    ({"num_outputs": 3}, None, 3, 7, "x.split(3, 1)"),
    ({}, (3, 3), 2, 6, "x.chunk(2, 1)"),
    ({}, (4, 2), 2, 6, "x.split(4, 1)"),
    ({}, (1, 3, 2), 3, 6, "x.split([1, 3, 2], 1)"),
    ({}, (0, 6), 2, 6, "x.split([0, 6], 1)"),
]


@pytest.mark.parametrize(("attributes", "split", "count", "size", "written"), SPLITS)
def test_split(attributes: Any, split: Any, count: int, size: int, written: str) -> None:
    names = [f"y{i}" for i in range(count)]
    inputs: dict[str, np.ndarray] = {"x": rand(2, size)}
    if split is not None:
        inputs["split"] = ints(*split)
    node = helper.make_node("Split", list(inputs), names, axis=1, **attributes)
    opset = 13 if split is None and not attributes else 21
    constants = ["split"] if split is not None else []
    assert written in check(node, inputs, opset=opset, constants=constants)
    check(node, inputs, opset=opset, constants=constants, dynamic=True)
    check(node, inputs, opset=opset, dynamic=True)
    if split is not None:
        old = helper.make_node("Split", ["x"], names, axis=-1, split=split)
        check(old, {"x": rand(2, size)}, opset=11)


@pytest.mark.parametrize(
    ("op", "attributes", "constants"),
    [
        ("Reshape", {}, {"s": ints(3, 2)}),
        ("Transpose", {}, {}),
        ("Unsqueeze", {}, {"a": ints(1)}),
        ("Slice", {}, {"a": ints(-1), "b": ints(-5), "c": ints(1), "d": ints(-1)}),
        ("Expand", {}, {"s": ints(2, 2, 3)}),
        ("Tile", {}, {"s": ints(2, 1)}),
        ("Flatten", {"axis": 0}, {}),
        ("Identity", {}, {}),
    ],
)
def test_strings_move_too(op: str, attributes: Any, constants: Any) -> None:
    words = np.array([["a", "", "ü"], ["x y", "e", "f"]], object)
    node = helper.make_node(op, ["x", *constants], ["y"], **attributes)
    check(node, {"x": words, **constants}, constants=list(constants), reference=True)
    check(helper.make_node("Split", ["x"], ["p", "q"], num_outputs=2), {"x": words}, reference=True)


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect"])
def test_strings_are_padded_with_empty_ones(mode: str) -> None:
    words = np.array([["a", "", "ü"], ["x y", "e", "f"]], object)
    node = helper.make_node("Pad", ["x", "pads"], ["y"], mode=mode)
    pads, fill = ((1, 0), (-1, 2)), {"constant_values": ""} if mode == "constant" else {}
    expected = np.pad(words[:, 1:], np.maximum(pads, 0), mode, **fill)
    check(node, {"x": words, "pads": ints(1, -1, 0, 2)}, expected=[expected])
    check(node, {"x": words, "pads": ints(1, -1, 0, 2)}, constants=["pads"], unranked=True, expected=[expected])


PADS: list[Any] = [
    ((2, 3), (0, 1, 0, 2)),
    ((2, 3, 4), (0, 0, 1, 0, 0, 2)),
    ((1, 2, 5, 6), (0, 0, 1, 2, 0, 0, 3, 0)),
    ((1, 2, 5, 6), (0, 0, 0, 2, 0, 0, 0, 1)),
    ((2, 4), (0, -1, 0, 2)),
    ((3, 4), (2, 1, 0, 3)),
    ((2, 4, 4), (1, 0, 0, 1, 0, 0)),
    ((2, 3, 2, 4, 5), (0, 0, 0, 1, 1, 0, 0, 0, 1, 2)),
]


@pytest.mark.parametrize(("shape", "pads"), PADS)
@pytest.mark.parametrize("mode", ["constant", "reflect", "edge", "wrap"])
@pytest.mark.parametrize("options", [{}, {"dynamic": True}])
def test_pad(shape: Any, pads: Any, mode: str, options: Any) -> None:
    node = helper.make_node("Pad", ["x", "pads"], ["y"], mode=mode)
    inputs = {"x": rand(*shape), "pads": ints(*pads)}
    if options:
        check(node, inputs, constants=["pads"], **options)
    else:
        check(node, {**inputs, "x": rand(*shape).astype(np.int64)}, constants=["pads"])
        check(node, inputs)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_reflection_goes_back_and_forth(size: int) -> None:
    node = helper.make_node("Pad", ["x", "pads"], ["y"], mode="reflect")
    check(node, {"x": rand(2, size), "pads": ints(0, 7, 0, 5)}, constants=["pads"], reference=True)


def test_pad_value_and_axes() -> None:
    node = helper.make_node("Pad", ["x", "pads", "value", "axes"], ["y"])
    inputs = {"x": rand(2, 3, 4), "pads": ints(1, 2, 0, 3), "value": np.float32(1.5), "axes": ints(-1, 0)}
    assert "F.pad(x, (1, 0, 0, 0, 2, 3), value=1.5)" in check(node, inputs, constants=["pads", "value", "axes"])
    check(node, inputs, constants=["pads", "axes"], dynamic=True)
    check(node, inputs, dynamic=True)
    booleans = {**inputs, "x": rand(2, 3, 4) > 0, "value": np.array(True)}
    check(node, booleans, constants=["pads", "value", "axes"])
    check(node, booleans)


def test_pad_by_attributes() -> None:
    node = helper.make_node("Pad", ["x"], ["y"], pads=[0, 1, 0, 2], value=2.5)
    check(node, {"x": rand(2, 3)}, opset=2)
    node = helper.make_node("Pad", ["x"], ["y"], paddings=[0, 1, 0, 2], value=2.5)
    check(node, {"x": rand(2, 3)}, opset=1, expected=[np.pad(rand(2, 3), ((0, 0), (1, 2)), constant_values=2.5)])


OPERATORS = (
    "Shape",
    "Size",
    "Reshape",
    "Flatten",
    "Squeeze",
    "Unsqueeze",
    "Transpose",
    "Expand",
    "Tile",
    "Concat",
    "Split",
    "Pad",
    "Identity",
)


@pytest.mark.parametrize("case", official_cases(*OPERATORS, alone=True))
def test_official(case: Any) -> None:
    check_official(case)


@pytest.mark.parametrize(
    ("rows", "written"), [("4*batch", "x.unflatten(0, (-1, 4))"), ("rows", "x.unflatten(0, (y.shape[0], 4))")]
)
def test_a_size_that_follows_from_the_others_is_not_read(rows: str, written: str) -> None:
    """But where it may not follow, a wrong one must not go unnoticed."""
    nodes = [
        helper.make_node("Shape", ["y"], ["b"], start=0, end=1),
        helper.make_node("Shape", ["x"], ["s"], start=1),
        helper.make_node("Concat", ["b", "four", "s"], ["target"], axis=0),
        helper.make_node("Reshape", ["x", "target"], ["z"]),
        helper.make_node("Mul", ["z", "y"], ["out"]),
    ]
    shapes = {"x": (rows, "seq", "width"), "y": ("batch", 1, 1, 1)}
    assert lifted(nodes, shapes, four=[4]) == f"return {written} * y"
