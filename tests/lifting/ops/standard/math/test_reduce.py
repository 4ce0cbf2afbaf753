"""Reductions, positions of extremes, running totals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from lifting.ops.checking import check, check_official, official_cases

NODE = helper.make_node
KINDS = "L1 L2 LogSum LogSumExp Max Mean Min Prod Sum SumSquare"
REDUCTIONS = [f"Reduce{kind}" for kind in KINDS.split()]
AXES = [(None, 0), (None, 1), ((1,), 0), ((-1,), 1), ((0, 2), 0), ((2, -3), 1), ((0, 1, 2), 0)]


@pytest.mark.parametrize("case", official_cases(*REDUCTIONS, "ArgMax", "ArgMin", "CumSum", "CumProd", alone=True))
def test_official(case: Any) -> None:
    check_official(case)


def rand(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(shape).uniform(0.5, 4, shape).astype(dtype)


def last_line(source: str) -> str:
    return next(line.strip() for line in source.splitlines() if line.startswith("        return "))


def axes_opset(op_type: str) -> int:
    """The first opset with the axes as an input."""
    return 13 if op_type == "ReduceSum" else 18


@pytest.mark.parametrize("op_type", REDUCTIONS)
@pytest.mark.parametrize(("axes", "keepdims"), AXES)
@pytest.mark.parametrize("form", ["attribute", "constant", "input"])
def test_axes(op_type: str, axes: tuple[int, ...] | None, keepdims: int, form: str) -> None:
    inputs = {"x": rand(2, 3, 4)}
    if form == "attribute":
        attributes = {} if axes is None else {"axes": axes}
        check(NODE(op_type, ["x"], ["y"], keepdims=keepdims, **attributes), inputs, opset=11)
        return
    inputs["axes"] = np.array(axes or (), np.int64)
    node = NODE(op_type, ["x", "axes"], ["y"], keepdims=keepdims)
    check(node, inputs, opset=axes_opset(op_type), constants=["axes"] if form == "constant" else [])


@pytest.mark.parametrize("op_type", REDUCTIONS)
@pytest.mark.parametrize("form", ["constant", "input", "missing"])
def test_no_axes_may_mean_no_reduction(op_type: str, form: str) -> None:
    inputs = {"x": rand(2, 3), "axes": np.zeros(0, np.int64)}
    names = ["x"] if form == "missing" else ["x", "axes"]
    node = NODE(op_type, names, ["y"], noop_with_empty_axes=1)
    used = {name: inputs[name] for name in names}
    check(node, used, opset=18, constants=["axes"] if form == "constant" else [], reference=True)


@pytest.mark.parametrize("op_type", REDUCTIONS)
@pytest.mark.parametrize("keepdims", [0, 1])
def test_rank_unknown(op_type: str, keepdims: int) -> None:
    check(NODE(op_type, ["x"], ["y"], keepdims=keepdims), {"x": rand(2, 3, 4)}, opset=11, unranked=True)
    check(NODE(op_type, ["x"], ["y"], keepdims=keepdims, axes=[-1]), {"x": rand(2, 3)}, opset=11, unranked=True)


@pytest.mark.parametrize("op_type", REDUCTIONS)
def test_rank_zero(op_type: str) -> None:
    check(NODE(op_type, ["x"], ["y"]), {"x": np.array(2.5, np.float32)}, opset=18)


@pytest.mark.parametrize("op_type", REDUCTIONS)
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_integers(op_type: str, dtype: Any) -> None:
    x = np.random.default_rng(3).integers(-5, 9, (4, 3)).astype(dtype)
    if op_type == "ReduceLogSum":
        x = np.abs(x) + 1
    check(NODE(op_type, ["x"], ["y"], axes=[1]), {"x": x}, opset=11)
    check(NODE(op_type, ["x"], ["y"], axes=[0, 1], keepdims=0), {"x": x + 5}, opset=11)


@pytest.mark.parametrize(
    "op_type", ["ReduceSum", "ReduceProd", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceSumSquare"]
)
@pytest.mark.parametrize("dtype", [np.uint32, np.uint64])
def test_unsigned(op_type: str, dtype: Any) -> None:
    x = np.random.default_rng(3).integers(1, np.iinfo(dtype).max, (4, 6), dtype=dtype)
    function = {
        "ReduceSum": np.sum, "ReduceProd": np.prod, "ReduceMax": np.max, "ReduceMin": np.min, "ReduceL1": np.sum,
        "ReduceSumSquare": lambda x, **k: np.sum(x * x, **k),
    }[op_type]  # fmt: skip
    kwargs = {} if op_type in ("ReduceMax", "ReduceMin") else {"dtype": dtype}
    expected = function(x, axis=1, keepdims=True, **kwargs)
    check(NODE(op_type, ["x"], ["y"], axes=[1]), {"x": x}, opset=11, expected=[expected], rtol=0)


@pytest.mark.parametrize("op_type", ["ReduceMax", "ReduceMin"])
@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.bool_])
@pytest.mark.parametrize("constants", [(), ("axes",)])
def test_extremes_of_nothing(op_type: str, dtype: Any, constants: tuple[str, ...]) -> None:
    inputs = {"x": np.zeros((2, 0, 3), dtype), "axes": np.array([1])}
    limits = {"f": (-np.inf, np.inf), "i": (-(2**31), 2**31 - 1), "b": (False, True)}[np.dtype(dtype).kind]
    expected = np.full((2, 1, 3), limits[op_type == "ReduceMin"], dtype)
    check(NODE(op_type, ["x", "axes"], ["y"]), inputs, opset=20, constants=constants, expected=[expected])


@pytest.mark.parametrize(
    ("node", "code"),
    [
        (NODE("ReduceMean", ["x"], ["y"], axes=[2, 3], keepdims=0), "x.mean((2, 3))"),
        (NODE("ReduceMean", ["x"], ["y"], axes=[3]), "x.mean(-1, keepdim=True)"),
        (NODE("ReduceSum", ["x"], ["y"], keepdims=0), "x.sum()"),
        (NODE("ReduceMax", ["x"], ["y"], axes=[1], keepdims=0), "x.amax(1)"),
        (NODE("ReduceL2", ["x"], ["y"], axes=[1]), "x.norm(dim=1, keepdim=True)"),
        (NODE("ReduceLogSumExp", ["x"], ["y"], axes=[-1], keepdims=0), "x.logsumexp(-1)"),
        (NODE("ArgMax", ["x"], ["y"], axis=1, keepdims=0), "x.argmax(1)"),
    ],
)
def test_source(node: Any, code: str) -> None:
    assert last_line(check(node, {"x": rand(2, 3, 4, 5)}, opset=11)) == f"return {code}"


@pytest.mark.parametrize("op_type", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.uint64])
def test_positions_of_extremes(op_type: str, axis: int, keepdims: int, last: int, dtype: Any) -> None:
    x = np.random.default_rng(3).integers(0, 3, (4, 5, 6)).astype(dtype)  # with many that are equal
    if dtype == np.uint64:
        x[x == 2] = np.iinfo(dtype).max
    node = NODE(op_type, ["x"], ["y"], axis=axis, keepdims=keepdims, select_last_index=last)
    check(node, {"x": x}, reference=True, dynamic=True)


@pytest.mark.parametrize("op_type", ["CumSum", "CumProd"])
@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.uint32])
@pytest.mark.parametrize("constants", [(), ("axis",)])
def test_running_totals(op_type: str, exclusive: int, reverse: int, dtype: Any, constants: tuple[str, ...]) -> None:
    inputs = {"x": rand(3, 4, 2).astype(dtype), "axis": np.array(-2)}
    node = NODE(op_type, ["x", "axis"], ["y"], exclusive=exclusive, reverse=reverse)
    expected = totals(inputs["x"], 1, np.cumsum if op_type == "CumSum" else np.cumprod, exclusive, reverse)
    check(node, inputs, opset=26, constants=constants, expected=[expected])


def totals(x: np.ndarray, axis: int, function: Any, exclusive: int, reverse: int) -> np.ndarray:
    x = np.flip(x, axis) if reverse else x
    if exclusive:
        first = np.full_like(x[:, :1], 0 if function is np.cumsum else 1)
        x = np.concatenate([first, x[:, :-1]], axis)
    result = function(x, axis=axis, dtype=x.dtype)
    return np.flip(result, axis) if reverse else result


@pytest.mark.parametrize("exclusive", [0, 1])
def test_running_total_of_nothing(exclusive: int) -> None:
    x = np.zeros((2, 0), np.float32)
    node = NODE("CumSum", ["x", "axis"], ["y"], exclusive=exclusive)
    check(node, {"x": x, "axis": np.array(1)}, constants=["axis"], expected=[x])


@pytest.mark.parametrize("axes", [(), (1,), (0, -1)])
def test_mean_of_uint64(axes: tuple[int, ...]) -> None:
    """Numbers beyond those of int64, whose sum is still in uint64; the reference divides in float64."""
    x = np.random.default_rng(0).integers(0, 2**64, (3, 4, 5), np.uint64) // np.uint64(60)
    inputs = {"x": x, "axes": np.array(axes, np.int64)}
    total = x.sum(axes or None, keepdims=True)
    check(NODE("ReduceMean", list(inputs), ["y"]), inputs, expected=[total // np.uint64(x.size // total.size)])
