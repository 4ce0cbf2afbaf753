"""Pools over all of an image, and what they were before axes were moved or added."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import onnxlift
from onnxlift.ir.load import load
from onnxlift.rewriting.idioms.images import global_mean
from rewriting.idioms.recognising import Data, assert_same_numbers, found, parse
from rewriting.running_stages import normalise

IMAGE = "float[batch, 3, 5, seq] x"
SIGNAL = "float[batch, 3, seq] x"


def pooled(body: str, output: str = "float[batch, 3] y", opset: int = 18) -> onnx.ModelProto:
    numbers = {"space": np.array([2, 3]), "width": np.array([3]), "flat": np.array([0, 3]), "pair": np.array([0, -1])}
    return parse(f"g ({IMAGE}) => ({output}) {{ {body} }}", opset, **numbers)


@pytest.mark.parametrize("after", ["Flatten(p)", "Squeeze(p, space)", "Reshape(p, flat)"])
@pytest.mark.parametrize("pool", ["GlobalAveragePool(x)", "ReduceMean(x, space)"])
def test_pool_and_flatten(pool: str, after: str) -> None:
    assert found(pooled(f"p = {pool} y = {after}")) == ["onnxlift.SpatialMean"]


def test_axes_as_an_attribute() -> None:
    assert found(pooled("p = ReduceMean <axes = [-1, -2]> (x) y = Flatten(p)", opset=13)) == ["onnxlift.SpatialMean"]


def test_a_pool_that_is_read_elsewhere_stays() -> None:
    both = "float[batch, 3] y, float[batch, 3, 1, 1] p"
    assert found(pooled("p = GlobalAveragePool(x) y = Flatten(p)", both)) == ["GlobalAveragePool", "Flatten"]


def test_a_mean_over_one_axis_is_no_global_mean() -> None:
    body = "p = ReduceMean(x, width) y = Reshape(p, pair)"
    assert found(pooled(body, "float[batch, n] y")) == ["ReduceMean", "Reshape"]


def sequence(body: str, output: str = "float[batch, 3] y", **numbers: np.ndarray) -> onnx.ModelProto:
    return parse(f"g (float[batch, seq, 3] x) => ({output}) {{ {body} }}", **numbers)


TURNED = "t = Transpose <perm = [0, 2, 1]> (x)"
AXIS = np.array([2])


def test_a_pool_of_what_was_transposed() -> None:
    proto = sequence(f"{TURNED} p = GlobalAveragePool(t) y = Flatten(p)")
    assert found(proto) == ["onnxlift.SpatialMean"]
    assert "return x.mean(1)" in onnxlift.lift(proto).source


def test_a_pool_with_a_new_axis() -> None:
    proto = sequence(f"{TURNED} u = Unsqueeze(t, axis) p = GlobalAveragePool(u) y = Flatten(p)", axis=AXIS)
    assert found(proto) == ["onnxlift.SpatialMean"]
    assert "return x.mean(1)" in onnxlift.lift(proto).source


def test_axes_that_stay_keep_their_order() -> None:
    body = "t = Transpose <perm = [2, 0, 1]> (x) p = GlobalAveragePool(t) y = Flatten(p)"
    assert found(sequence(body, "float[3, batch] y")) == ["Transpose", "onnxlift.SpatialMean"]


def test_a_new_axis_that_stays_does() -> None:
    body = "u = Unsqueeze(x, axis) p = GlobalAveragePool(u) y = Flatten(p)"
    assert found(sequence(body, "float[batch, 1] y", axis=np.array([1]))) == ["Unsqueeze", "onnxlift.SpatialMean"]


def test_new_axes_that_are_all_of_the_space_stay() -> None:
    proto = parse(
        "g (float[batch, 3] x) => (float[batch, 3] y) { u = Unsqueeze(x, axis) p = GlobalAveragePool(u) "
        "y = Flatten(p) }",
        axis=np.array([2, 3]),
    )
    assert found(proto) == ["Unsqueeze", "onnxlift.SpatialMean"]


def test_what_was_transposed_and_is_read_elsewhere_stays() -> None:
    body = f"{TURNED} p = GlobalAveragePool(t) y = Flatten(p)"
    assert "Transpose" in found(sequence(body, "float[batch, 3] y, float[batch, 3, seq] t"))


RAISED = "t = Unsqueeze(x, axis) p = ReduceMean(t, both) y = Squeeze(p, axis)"


def raised(body: str = RAISED, output: str = "float[batch, 3, 1] y", axis: int = -2, last: int = -1) -> onnx.ModelProto:
    numbers = {
        "axis": np.array([axis]),
        "both": np.array([last, axis]),
        "one": np.array([last]),
        "front": np.array([0]),
    }
    return parse(f"g (float[batch, 3, seq] x) => ({output}) {{ {body} }}", **numbers)


@pytest.mark.parametrize(("axis", "last"), [(-2, -1), (2, 3), (3, 2), (-1, 2)])
def test_a_signal_that_is_an_image_for_a_while(axis: int, last: int) -> None:
    proto = raised(axis=axis, last=last)
    assert found(proto) == ["ReduceMean"]
    assert "return x.mean(-1, keepdim=True)" in onnxlift.lift(proto).source


def test_a_signal_that_stays_an_image() -> None:
    all_of_it = ["Unsqueeze", "ReduceMean", "Squeeze"]
    only = RAISED.replace("both", "one")
    assert "Unsqueeze" in found(raised(only))
    other = "t = Unsqueeze(x, axis) p = ReduceMean(t, both) y = Squeeze(p, one)"
    assert found(raised(other)) == all_of_it
    output = "float[batch, 3, 1] y, float[batch, 3, 1, seq] t"
    assert found(raised(output=output)) == all_of_it
    output = "float[batch, 3, 1] y, float[batch, 3, 1, 1] p"
    assert found(raised(output=output)) == all_of_it
    alone = "t = Unsqueeze(x, axis) p = ReduceMean(t, axis) y = Squeeze(p, axis)"
    assert found(raised(alone, "float[batch, 3, seq] y"))[-1:] != ["ReduceMean"]


def applied(inputs: str, body: str, output: str, opset: int = 18, **numbers: Data) -> list[str]:
    """The operators after this idiom alone, in a model that the lifted module agrees with."""
    model = parse(f"g ({inputs}) => ({output}) {{ {body} }}", opset, **numbers)
    assert_same_numbers(model)
    graph = load(model)
    normalise(graph)
    global_mean.run(graph)
    return [node.op_type for node in graph.graph]


SPACE = {"space": np.array([2, 3])}


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_integers_have_a_mean_of_their_own(dtype: str) -> None:
    body = "p = ReduceMean(x, space) y = Flatten(p)"
    assert applied(f"{dtype}[batch, 3, 5, seq] x", body, f"{dtype}[batch, 3] y", **SPACE) == ["ReduceMean", "Flatten"]


def test_what_else_drops_axes_is_computed() -> None:
    body = "p = GlobalAveragePool(x) y = ReduceL1 <keepdims = 0> (p, space)"
    assert applied(IMAGE, body, "float[batch, 3] y", **SPACE) == ["GlobalAveragePool", "ReduceL1"]


def test_a_mean_over_another_axis_of_the_same_size() -> None:
    body = "p = ReduceMean(x, one) y = Reshape(p, flat)"
    given = {"one": np.array([1]), "flat": np.array([0, 3])}
    assert applied("float[batch, 3, 3, 1] x", body, "float[batch, 3] y", **given) == ["ReduceMean", "Reshape"]


def test_a_mean_over_no_axes() -> None:
    body = "p = ReduceMean <noop_with_empty_axes = 1> (x, none) y = Reshape(p, flat)"
    given = {"none": np.zeros(0, np.int64), "flat": np.array([-1, 3])}
    assert applied("float[batch, 3] x", body, "float[batch, 3] y", **given) == ["ReduceMean", "Reshape"]


def test_a_new_axis_at_a_place_that_is_not_known() -> None:
    body = "least = Min(k, two) axis = Max(least, two) u = Unsqueeze(x, axis) p = GlobalAveragePool(u) y = Flatten(p)"
    model = parse(
        f"g ({SIGNAL}, int64[1] k) => (float[batch, 3] y) <float[batch, 3, 1, seq] u> {{ {body} }}", two=np.array([2])
    )
    assert "Unsqueeze" in found(model)


@pytest.mark.parametrize(
    ("inputs", "body", "output", "given"),
    [
        pytest.param(
            "float[2, seq] x",
            "t = Unsqueeze(x, axis) p = ReduceMean(t, both) y = Reshape(p, axis)",
            "float[2] y",
            {"axis": np.array([2]), "both": np.array([1, 2])},
            id="a-shape-is-no-axis",
        ),
        pytest.param(
            SIGNAL,
            "t = Unsqueeze(x, new) p = ReduceMean(t, all) y = Squeeze(p, new)",
            "float[batch, 3, 1] y",
            {"new": np.array([2, 3]), "all": np.array([2, 3, 4])},
            id="two-new-axes",
        ),
        pytest.param(
            "float[batch, 1, seq] x",
            "t = Unsqueeze(x, axis) p = ReduceMean <keepdims = 0> (t, both) y = Squeeze(p, axis)",
            "float[batch] y",
            {"axis": np.array([1]), "both": np.array([1, 3])},
            id="no-axes-are-kept",
        ),
        pytest.param(
            SIGNAL,
            "t = Unsqueeze(x, axis) p = ReduceMean(t, axis) y = Squeeze(p, axis)",
            "float[batch, 3, seq] y",
            {"axis": np.array([2])},
            id="nothing-but-the-new-axis",
        ),
        pytest.param(
            IMAGE,
            "t = Unsqueeze(x, axis) p = ReduceMean(t, last) y = Squeeze(p, axis)",
            "float[batch, 3, 1, 1] y",
            {"axis": np.array([2]), "last": np.array([3, 4])},
            id="not-over-the-new-axis",
        ),
    ],
)
def test_no_signal_that_is_an_image_for_a_while(inputs: str, body: str, output: str, given: dict[str, Data]) -> None:
    operators = applied(inputs, body, output, **given)
    assert operators[:2] == ["Unsqueeze", "ReduceMean"] and len(operators) == 3


def test_a_signal_whose_axes_are_an_attribute() -> None:
    body = "t = Unsqueeze(x, axis) p = ReduceMean <axes = [2, 3]> (t) y = Squeeze(p, axis)"
    given = {"axis": np.array([2])}
    operators = applied(SIGNAL, body, "float[batch, 3, 1] y", 13, **given)
    assert operators == ["Unsqueeze", "ReduceMean", "Squeeze"]


def test_nodes_without_inputs_are_passed_by() -> None:
    body = "e = SequenceEmpty() s = SequenceInsert(e, x) y = ConcatFromSequence <axis = 0, new_axis = 1> (s)"
    assert len(applied("float[batch, 3] x", body, "float[1, batch, 3] y")) == 3


def test_what_is_there_anyway_is_averaged() -> None:
    proto = sequence(f"{TURNED} p = GlobalAveragePool(t) y = Flatten(p)", "float[batch, 3] y, float[batch, 3, seq] t")
    assert found(proto) == ["Transpose", "onnxlift.SpatialMean"]
    assert ".mean(2)" in onnxlift.lift(proto).source
