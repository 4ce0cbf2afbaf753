"""Reading and writing by index: Gather, Slice, Scatter and their kin, with negative and open bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from onnx import helper, numpy_helper, parser

import onnxlift
from lifting.ops.checking import check, check_official, model_of, official_cases

INT32_MAX, INT64_MAX, INT64_MIN = 2**31 - 1, 2**63 - 1, -(2**63)


def rand(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    rng = np.random.default_rng(shape)
    return (rng.standard_normal(shape) * 50).astype(dtype)


def ints(*values: int, dtype: Any = np.int64) -> np.ndarray:
    return np.array(values, dtype)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    ("axis", "indices", "written"),
    [
        (0, np.array(1), "return x[1]"),
        (1, np.array(-1), "return x[:, -1]"),
        (-1, np.array(2), "return x[..., 2]"),
        (-2, ints(2, 0, -1), "return x[:, [2, 0, -1]]"),
        (1, ints(-2, -1, 0), "return x[:, [-2, -1, 0]]"),
        (1, np.array([[0, -1], [2, 1]]), "return x[:, self.indices]"),
        (0, np.zeros((0,), np.int64), "return x[self.indices]"),
    ],
)
def test_gather_constant(axis: int, indices: np.ndarray, written: str, dynamic: bool) -> None:
    node = helper.make_node("Gather", ["x", "indices"], ["y"], axis=axis)
    source = check(node, {"x": rand(2, 3, 4), "indices": indices}, constants=["indices"], dynamic=dynamic)
    assert written in source


@pytest.mark.parametrize(
    ("axis", "indices", "known", "unknown"),
    [
        (1, ints(0), "return x[:, :1]", "return x[:, [0]]"),
        (1, ints(-1), "return x[:, -1:]", "return x[:, [-1]]"),
        (2, ints(1, 2, 3), "return x[..., 1:4]", "return x.narrow(-1, 1, 3)"),
        (0, ints(-2, -1), "return x[-2:]", "return x.narrow(0, -2, 2)"),
    ],
)
def test_neighbours_are_a_slice_if_the_size_is_known(axis: int, indices: np.ndarray, known: str, unknown: str) -> None:
    node = helper.make_node("Gather", ["x", "indices"], ["y"], axis=axis)
    for dynamic, written in ((False, known), (True, unknown)):
        source = check(node, {"x": rand(2, 3, 4), "indices": indices}, constants=["indices"], dynamic=dynamic)
        assert written in source, source


@pytest.mark.parametrize("indices", [np.array(7), ints(7), ints(4, 5), ints(-6), ints(-6, -5), np.arange(20)])
def test_an_index_beyond_an_axis_of_unknown_size_is_an_error(indices: np.ndarray) -> None:
    """ONNX Runtime refuses it as well. A slice would be empty, or shorter."""
    output = "float[n]" if indices.ndim == 0 else "float[n, k]"
    text = f"g (float[n, m] x) => ({output} y) {{ y = Gather<axis = 1>(x, i) }}"
    model = parser.parse_model(f'<ir_version: 9, opset_import: ["" : 17]> {text}')
    model.graph.initializer.append(numpy_helper.from_array(indices, "i"))
    x = np.zeros((2, 5), np.float32)
    with pytest.raises(Exception, match="indices element out of data bounds"):
        onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    with pytest.raises((IndexError, RuntimeError)):
        onnxlift.convert(model)(torch.from_numpy(x))
    enough = np.arange(60, dtype=np.float32).reshape(2, 30)
    found = onnxlift.convert(model)(torch.from_numpy(enough))
    np.testing.assert_array_equal(found.numpy(), np.take(enough, indices, 1))


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("indices", [np.array(-1), ints(1, -2), np.array([[0, 1, -1]]), np.zeros((2, 0), np.int64)])
def test_gather_runtime(axis: int, indices: np.ndarray, dtype: Any) -> None:
    node = helper.make_node("Gather", ["x", "indices"], ["y"], axis=axis)
    check(node, {"x": rand(2, 3, 4), "indices": indices.astype(dtype)}, dynamic=True)


@pytest.mark.parametrize("dtype", [np.bool_, np.uint16, np.uint32, np.uint64, np.float16, np.float64, np.int8])
@pytest.mark.parametrize("op", ["Gather", "GatherElements"])
def test_element_types(op: str, dtype: Any) -> None:
    node = helper.make_node(op, ["x", "indices"], ["y"], axis=1)
    indices = np.array([[0, -1], [2, 1]])
    check(node, {"x": rand(2, 3).astype(np.int32).astype(dtype), "indices": indices}, dynamic=True)


def test_gather_strings() -> None:
    node = helper.make_node("Gather", ["x", "indices"], ["y"], axis=1)
    words = np.array([["a", "b", "ü"], ["", "e", "f"]], object)
    check(node, {"x": words, "indices": ints(2, 0)}, constants=["indices"])


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_gather_elements_of_top_k_needs_no_kernel(axis: int) -> None:
    nodes = [
        helper.make_node("TopK", ["x", "k"], ["values", "places"], axis=axis),
        helper.make_node("GatherElements", ["z", "places"], ["y"], axis=axis),
    ]
    inputs = {"x": rand(3, 4), "z": rand(3, 4) + 1, "k": ints(2)}
    source = check(nodes, inputs, constants=["k"], dynamic=True)
    assert "z.gather(" in source


def test_gather_elements_by_a_part_of_a_constant_needs_no_kernel() -> None:
    nodes = [
        helper.make_node("Slice", ["table", "start", "end", "axis"], ["places"]),
        helper.make_node("GatherElements", ["x", "places"], ["y"], axis=1),
    ]
    inputs = {"x": rand(2, 6), "table": np.array([[3, 0, 5, 1]] * 2), "start": ints(1), "end": ints(3), "axis": ints(1)}
    source = check(nodes, inputs, constants=["table", "axis"])
    assert "x.gather(1, self.table[:, start.item() : end.item()])" in source
    inputs["table"] = inputs["table"] - 1
    assert "def gather_elements" in check(nodes, inputs, constants=["table", "axis"])


@pytest.mark.parametrize("batch_dims", [0, 1, 2])
@pytest.mark.parametrize("dynamic", [False, True])
def test_gather_nd(batch_dims: int, dynamic: bool) -> None:
    x = rand(2, 3, 4, 5)
    indices = np.random.default_rng(1).integers(-2, 2, (2, 3, 2))
    node = helper.make_node("GatherND", ["x", "i"], ["y"], batch_dims=batch_dims)
    check(node, {"x": x, "i": indices}, dynamic=dynamic)


SLICES = [
    ((1,), (3,), (1,), None, "return x[:, 1:3]"),
    ((0,), (INT64_MAX,), (2,), None, "return x"),
    ((-2,), (INT32_MAX,), (-1,), None, "return x[..., -2:]"),
    ((1, 0), (100, -1), None, None, "return x[1:, :-1]"),
    ((1,), (-1,), (0,), (2,), "return x[1:-1:2]"),
    ((-1,), (INT64_MIN,), (1,), (-1,), "return x.flip(1)"),
    ((2,), (INT64_MIN,), (1,), (-1,), "return x[:, :3].flip(1)"),
    ((9,), (INT64_MIN,), (1,), (-1,), None),
    ((2,), (0,), (1,), (-1,), "return x[:, 1:3].flip(1)"),
    ((-1,), (1,), (2,), (-1,), "return x[..., 2:].flip(2)"),
    ((0,), (2,), (1,), (-1,), None),
    ((9,), (7,), (1,), (-1,), None),
    ((-3,), (INT64_MIN,), (1,), (-1,), None),
    ((-9,), (INT64_MIN,), (1,), (-1,), None),
    ((3,), (-3,), (1,), (-1,), None),
    ((-100,), (100,), (1,), None, None),
    ((3, 5), (-100, 0), (1, 2), (-2, -1), None),
    ((-100,), (-200,), (1,), (-1,), None),
    ((2,), (1,), (1,), None, None),
]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(("starts", "ends", "axes", "steps", "written"), SLICES)
def test_slice(starts: Any, ends: Any, axes: Any, steps: Any, written: str | None, dynamic: bool) -> None:
    given = {"starts": starts, "ends": ends, "axes": axes, "steps": steps}
    inputs = {name: ints(*values) for name, values in given.items() if values is not None}
    node = helper.make_node("Slice", ["x", *(name if name in inputs else "" for name in given)], ["y"])
    x = rand(5, 4, 6)
    source = check(node, {"x": x, **inputs}, constants=list(inputs), dynamic=dynamic)
    if written is not None and not (dynamic and 100 in ends):
        assert f"{written}\n" in source
    unsigned = x.astype(np.int32).astype(np.uint16)
    check(node, {"x": unsigned, **inputs}, constants=list(inputs), dynamic=dynamic, reference=steps is None)
    check(node, {"x": x, **inputs}, dynamic=dynamic)


def test_slice_runtime_bounds_of_one_axis_are_readable() -> None:
    node = helper.make_node("Slice", ["x", "start", "end", "axes"], ["y"])
    inputs = {"x": rand(3, 7), "start": ints(-5), "end": ints(6), "axes": ints(1)}
    assert "return x[:, start.item() : end.item()]" in check(node, inputs, constants=["axes"])


@pytest.mark.parametrize("opset", [1, 9])
def test_slice_by_attributes(opset: int) -> None:
    node = helper.make_node("Slice", ["x"], ["y"], axes=[1, 0], starts=[1, -2], ends=[3, INT64_MAX])
    source = check(node, {"x": rand(4, 5)}, opset=opset, dynamic=True, reference=opset < 7)
    assert "return x[-2:, 1:3]" in source


@pytest.mark.parametrize("condition", [ints(0, 1, 1), ints(1, 0), ints(0, 0, 0)])
@pytest.mark.parametrize("axis", [None, 0, -1])
@pytest.mark.parametrize("dynamic", [False, True])
def test_compress(condition: np.ndarray, axis: int | None, dynamic: bool) -> None:
    attributes = {} if axis is None else {"axis": axis}
    node = helper.make_node("Compress", ["x", "c"], ["y"], **attributes)
    check(node, {"x": rand(3, 4, 3), "c": condition.astype(bool)}, dynamic=dynamic)


@pytest.mark.parametrize("dtype", [np.float32, np.bool_, np.int64, np.uint8, np.uint32])
@pytest.mark.parametrize("shape", [(3, 4), (0, 2), ()])
def test_nonzero(dtype: Any, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(2).integers(0, 2, shape).astype(dtype)
    node = helper.make_node("NonZero", ["x"], ["y"])
    expected = np.array(np.nonzero(x)).reshape(x.ndim, -1) if shape else np.zeros((0, int(x)), np.int64)
    check(node, {"x": np.asarray(x)}, expected=[expected.astype(np.int64)], dynamic=True)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(("batch_axis", "time_axis"), [(0, 1), (1, 0)])
def test_reverse_sequence(batch_axis: int, time_axis: int, dynamic: bool) -> None:
    x = rand(4, 5, 2) if time_axis == 1 else rand(5, 4, 2)
    node = helper.make_node("ReverseSequence", ["x", "n"], ["y"], batch_axis=batch_axis, time_axis=time_axis)
    check(node, {"x": x, "n": ints(1, 5, 3, 2)}, dynamic=dynamic)


def test_an_index_out_of_range_is_never_lost_in_a_slice() -> None:
    node = helper.make_node("Gather", ["x", "indices"], ["y"])
    with pytest.raises(onnxlift.InvalidModelError, match="its index 7 is outside the 2 elements"):
        onnxlift.lift(model_of(node, {"x": rand(2, 3), "indices": ints(7)}, 21, ["indices"]))


@pytest.mark.parametrize("op", ["Gather", "Slice", "Unsqueeze", "Concat", "Pad"])
def test_an_axis_that_does_not_exist_is_refused(op: str) -> None:
    far = ints(10**9)
    given: dict[str, Any] = {
        "Gather": ({"i": np.array(0)}, {"axis": 10**9}),
        "Slice": ({"s": ints(0), "e": ints(1), "a": far}, {}),
        "Unsqueeze": ({"a": far}, {}),
        "Concat": ({"z": rand(2, 3)}, {"axis": 10**9}),
        "Pad": ({"p": ints(1, 1), "value": np.float32(0), "a": far}, {}),
    }
    inputs, attributes = given[op]
    node = helper.make_node(op, ["x", *inputs], ["y"], **attributes)
    with pytest.raises(onnxlift.InvalidModelError, match="1000000000"):
        onnxlift.lift(model_of(node, {"x": rand(2, 3), **inputs}, 21, list(inputs)))


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("constant", [False, True])
def test_scatter_elements(reduction: str, axis: int, constant: bool) -> None:
    indices = np.array([[0, 2, 1], [1, 0, 3]]) if constant else np.array([[0, -2, 1], [1, 0, -1]])
    if reduction != "none":
        indices[0, 1] = indices[0, 0]
    x, updates = rand(4, 4), rand(2, 3) + 1
    node = helper.make_node("ScatterElements", ["x", "i", "u"], ["y"], axis=axis, reduction=reduction)
    source = check(node, {"x": x, "i": indices, "u": updates}, opset=18, constants=["i"] if constant else [], rtol=1e-4)
    assert ("def scatter_elements" in source) != constant
    for dtype in (np.uint16, np.int32, np.float64):
        check(
            node,
            {"x": np.abs(x).astype(dtype), "i": indices, "u": np.abs(updates).astype(dtype)},
            opset=18,
            reference=dtype is np.uint16,
            constants=["i"] if constant else [],
        )


def test_scatter_of_opset_9() -> None:
    node = helper.make_node("Scatter", ["x", "i", "u"], ["y"], axis=1)
    check(node, {"x": rand(2, 4), "i": np.array([[1, 3]]), "u": rand(1, 2)}, opset=9)


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_scatter_nd(reduction: str, depth: int) -> None:
    x = rand(3, 4, 2)
    indices = np.array([[0, -1, 1], [2, 0, 0], [0, -1, 1]])[: 2 if reduction == "none" else 3, :depth]
    updates = rand(len(indices), *x.shape[depth:]) + 1
    node = helper.make_node("ScatterND", ["x", "i", "u"], ["y"], reduction=reduction)
    check(node, {"x": x, "i": indices, "u": updates}, opset=18, dynamic=True, rtol=1e-4)


def test_scatter_strings() -> None:
    """ONNX Runtime knows ScatterElements of strings, the reference ScatterND."""
    words, new = np.array([["a", "b"], ["c", "ü"], ["", "f"]], object), np.array([["neu", ""]], object)
    node = helper.make_node("ScatterElements", ["x", "i", "u"], ["y"])
    check(node, {"x": words, "i": np.array([[2, -3]]), "u": new}, opset=18, dynamic=True)
    node = helper.make_node("ScatterND", ["x", "i", "u"], ["y"])
    check(node, {"x": words, "i": np.array([[1]]), "u": new}, opset=18, reference=True)


def test_strings_have_no_sum() -> None:
    words = np.array(["a", "b"], object)
    node = helper.make_node("ScatterElements", ["x", "i", "u"], ["y"], reduction="add")
    with pytest.raises(onnxlift.UnsupportedError, match="reduction add is not defined for string"):
        onnxlift.lift(model_of(node, {"x": words, "i": ints(0, 1), "u": words}, 18))


@pytest.mark.parametrize(("reduction", "extreme"), [("max", np.maximum), ("min", np.minimum)])
def test_scatter_extremes_of_uint64(reduction: str, extreme: Any) -> None:
    x, new = np.array([1, 2**64 - 2, 5], np.uint64), np.array([2**63, 3, 2**63 + 1], np.uint64)
    for op_type, indices in (("ScatterElements", ints(0, 1, 2)), ("ScatterND", ints(0, 1, 2)[:, None])):
        node = helper.make_node(op_type, ["x", "i", "u"], ["y"], reduction=reduction)
        check(node, {"x": x, "i": indices, "u": new}, opset=18, expected=[extreme(x, new)])


OPERATORS = (
    "Gather",
    "GatherElements",
    "GatherND",
    "Slice",
    "Compress",
    "NonZero",
    "ReverseSequence",
    "Scatter",
    "ScatterElements",
    "ScatterND",
    "TensorScatter",
)


@pytest.mark.parametrize("case", official_cases(*OPERATORS, alone=True))
def test_official(case: Any) -> None:
    check_official(case)
