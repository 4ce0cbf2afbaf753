"""Elements that are written at constant or counted positions are assigned to a part of a tensor."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from torch import Tensor, nn

import onnxlift
from models.network import EXPORTERS, Exporter
from rewriting.idioms.recognising import found, parse, simplified


class Assigning(nn.Module):
    def __init__(self, assign: Callable[[Tensor, Tensor], None]) -> None:
        super().__init__()
        self.assign = assign

    def forward(self, x: Tensor) -> Tensor:
        y = x.exp()
        self.assign(y, x)
        return y.sin()


def _first(y: Tensor, x: Tensor) -> None:
    y[:, 0] = x[:, 1]


def _last(y: Tensor, x: Tensor) -> None:
    y[..., -1] = x[..., 0]


def _slice(y: Tensor, x: Tensor) -> None:
    y[..., 1:3] = x[..., :2] * 2


def _from(y: Tensor, x: Tensor) -> None:
    y[:, 1:] = x[:, :-1]


def _steps(y: Tensor, x: Tensor) -> None:
    y[..., ::2] = x[..., :3]


def _both(y: Tensor, x: Tensor) -> None:
    y[:, 1:, 2] = x[:, :-1, 0]


def _twice(y: Tensor, x: Tensor) -> None:
    y[..., :2] = x[..., :2].tanh()
    y[..., 2:4] = x[..., 2:4].cos()


def exported(assign: Callable[[Tensor, Tensor], None], exporter: Exporter) -> bytes:
    x, module = torch.randn(2, 4, 5), Assigning(assign)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if exporter == "dynamo":
            free = ({0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC},)
            program = torch.onnx.export(module, (x,), input_names=["x"], dynamic_shapes=free, verbose=False)
            return program.model_proto.SerializeToString()
        file = io.BytesIO()
        axes = {"x": {0: "n", 1: "m"}}
        torch.onnx.export(module, (x,), file, dynamo=False, input_names=["x"], dynamic_axes=axes)
        return file.getvalue()


@pytest.mark.parametrize("exporter", EXPORTERS)
@pytest.mark.parametrize(
    ("assign", "text"),
    [
        (_first, "x.exp().select_scatter(x[:, 1], dim=1, index=0)"),
        (_last, "x.exp().select_scatter(x[..., 0], dim=-1, index=-1)"),
        (_slice, "x.exp().slice_scatter(y, dim=-1, start=1, end=3)"),
        (_from, "x.exp().slice_scatter(x[:, :-1], dim=1, start=1)"),
        (_steps, "x.exp().slice_scatter(x[..., :3], dim=-1, step=2)"),
        (_both, "y[:, 1:].select_scatter(x, dim=-1, index=2)"),
        (_twice, "slice_scatter(x[..., 2:4].cos(), dim=-1, start=2, end=4)"),
    ],
    ids=["first", "last", "slice", "from", "steps", "two axes", "twice"],
)
def test_assignments_of_both_exporters(assign: Callable[[Tensor, Tensor], None], text: str, exporter: Exporter) -> None:
    data = exported(assign, exporter)
    lifted = onnxlift.lift(data)
    assert text in lifted.source, lifted.source
    assert "index_put" not in lifted.source and "transpose" not in lifted.source and not lifted.constants
    array = np.random.default_rng(0).standard_normal((3, 6, 5)).astype(np.float32)
    (expected,) = onnxruntime.InferenceSession(data).run(None, {"x": array})
    np.testing.assert_allclose(lifted.module()(torch.from_numpy(array)), expected, atol=1e-6)


BOX = np.stack(np.meshgrid(np.arange(4), [1, 2], indexing="ij"), -1)  # all rows of x, two columns


def written(
    indices: np.ndarray, body: str = "y = ScatterND(x, indices, u)", updates: str = "float[4, 2, 3] u"
) -> onnx.ModelProto:
    return parse(f"g (float[4, 5, 3] x, {updates}) => (y) {{ {body} }}", indices=indices)


@pytest.mark.parametrize(
    ("indices", "updates", "operators"),
    [
        (BOX, "float[4, 2, 3] u", ["onnxlift.SliceScatter"]),
        (BOX[:, :1], "float[4, 1, 3] u", ["Squeeze", "onnxlift.SelectScatter"]),
        (np.array([[1], [3]]), "float[2, 5, 3] u", ["onnxlift.SliceScatter"]),
        (np.array([[-1]]), "float[1, 5, 3] u", ["Squeeze", "onnxlift.SelectScatter"]),
        (BOX[1:3], "float[2, 2, 3] u", ["Slice", "onnxlift.SliceScatter", "onnxlift.SliceScatter"]),
        (BOX[2:3], "float[1, 2, 3] u", ["Squeeze", "Gather", "onnxlift.SliceScatter", "onnxlift.SelectScatter"]),
    ],
    ids=["slice", "single", "step", "negative", "two slices", "single and slice"],
)
def test_a_box_is_a_part(indices: np.ndarray, updates: str, operators: list[str]) -> None:
    proto = written(indices, updates=updates)
    assert sorted(found(proto)) == sorted(operators)


@pytest.mark.parametrize(
    ("indices", "updates"),
    [
        (BOX[::-1], "float[4, 2, 3] u"),
        (BOX.transpose(1, 0, 2), "float[2, 4, 3] u"),
        (BOX[:, [0, 0]], "float[4, 2, 3] u"),
        (np.array([[0], [1], [3]]), "float[3, 5, 3] u"),
        (np.array([[-2], [-1]]), "float[2, 5, 3] u"),
        (np.array([[0, 1], [1, 2]]), "float[2, 3] u"),
        (np.array([[[0, 0], [0, 1]], [[1, 1], [1, 2]]]), "float[2, 2, 3] u"),
        (np.array([[[1]], [[2]]]), "float[2, 1, 5, 3] u"),
        (np.arange(4)[:, None], "float[4, 5, 3] u"),
    ],
    ids=[
        "backwards",
        "another order",
        "twice",
        "uneven",
        "negative",
        "pairs",
        "diagonal",
        "one more axis",
        "everything",
    ],
)
def test_other_indices_stay(indices: np.ndarray, updates: str) -> None:
    proto = written(indices, updates=updates)
    assert [node.op_type for node in simplified(proto).graph] == ["ScatterND"]


def test_a_reduction_stays() -> None:
    proto = written(BOX, 'y = ScatterND <reduction = "add"> (x, indices, u)')
    assert found(proto) == ["ScatterND"]


@pytest.mark.parametrize("kind", ["uint16", "string"])
def test_types_that_torch_lacks_stay(kind: str) -> None:
    text = f"g ({kind}[4, 5, 3] x, {kind}[4, 2, 3] u) => (y) {{ y = ScatterND(x, indices, u) }}"
    assert [node.op_type for node in simplified(parse(text, indices=BOX)).graph] == ["ScatterND"]


TRANSPOSED = """a = Transpose <perm = [1, 0, 2]> (x) b = Transpose <perm = [1, 0, 2]> (u)
    c = ScatterND(a, indices, b) y = Transpose <perm = [1, 0, 2]> (c)"""
ROWS = np.array([[1], [2]])


def test_a_part_between_transposes_is_one_along_another_axis() -> None:
    proto = written(ROWS, TRANSPOSED)
    assert found(proto) == ["onnxlift.SliceScatter"]


@pytest.mark.parametrize(
    ("old", "new", "updates"),
    [
        ("(u)", "(v)", "float[2, 4, 3] w"),
        ("y = Transpose <perm = [1, 0, 2]> (c)", "y = Transpose <perm = [2, 1, 0]> (c)", "float[4, 2, 3] u"),
        ("b = Transpose <perm = [1, 0, 2]>", "b = Transpose <perm = [2, 1, 0]>", "float[3, 4, 2] u"),
    ],
    ids=["other updates", "another order behind", "updates in another order"],
)
def test_other_transposes_stay(old: str, new: str, updates: str) -> None:
    body = TRANSPOSED.replace(old, new).replace("Transpose <perm = [1, 0, 2]> (v)", "Exp(w)")
    proto = written(ROWS, body, updates)
    assert "Transpose" in found(proto)


def test_a_part_along_two_axes_between_transposes() -> None:
    box = np.stack(np.meshgrid([1, 2], [3], indexing="ij"), -1)
    proto = written(box, TRANSPOSED, "float[1, 2, 3] u")
    assert "Transpose" not in found(proto)


def test_a_parameter_that_is_assigned_stays_one() -> None:
    proto = parse("g (float[4, 5] x) => (y) { y = ScatterND(x, i, token) }", i=np.array([[0]]), token=(1, 5))
    assert found(proto) == ["Squeeze", "onnxlift.SelectScatter"]
    squeeze = simplified(proto).graph[0]
    assert squeeze.outputs[0].shape is not None and squeeze.outputs[0].shape.numpy() == (5,)
    assert "token" in dict(onnxlift.lift(proto).module().named_parameters())


def test_an_axis_of_one_element_is_written_whole() -> None:
    proto = parse("g (float[1, 5] x, float[1, 1] u) => (y) { y = ScatterND(x, i, u) }", i=np.array([[[0, 3]]]))
    assert found(proto) == ["Squeeze", "onnxlift.SelectScatter"]


COUNTED = """s = Shape <start = 0, end = 1> (x) n = Squeeze(s) all = Range(zero, n, one) rows = Slice(all, {bounds})
    i = Unsqueeze(rows, last) c = Shape <start = 0, end = 1> (rows) e = Concat <axis = 0> (c, five) u = Expand(v, e)
    y = ScatterND(x, i, u)"""


@pytest.mark.parametrize(
    ("bounds", "is_part"),
    [("begin, end, axis", True), ("begin, three, axis", False), ("begin, end, axis, two", False)],
    ids=["to the end", "to a place", "in steps"],
)
def test_counted_places_are_a_part_if_they_go_to_the_end(bounds: str, is_part: bool) -> None:
    numbers = {"begin": [1], "end": [2**63 - 1], "three": [3], "axis": [0], "two": [2], "five": [5], "last": [1]}
    numbers |= {"zero": 0, "one": 1}
    arrays = {name: np.array(number, np.int64) for name, number in numbers.items()}
    proto = parse(f"g (float[seq, 5] x, float[1, 5] v) => (y) {{ {COUNTED.format(bounds=bounds)} }}", **arrays)
    assert ("onnxlift.SliceScatter" in found(proto)) is is_part


def test_coordinates_that_are_joined_in_pairs_stay() -> None:
    text = """g (float[batch, batch, 5] x, float[batch, 2] u) => (y) {
        s = Shape <start = 0, end = 1> (x) n = Squeeze(s) all = Range(zero, n, one) rows = Unsqueeze(all, axes)
        wide = Concat <axis = 0> (s, pair) pairs = Expand(rows, wide) more = Concat <axis = 0> (s, single)
        columns = Expand(two, more) i = Concat <axis = -1> (pairs, columns) y = ScatterND(x, i, u)
    }"""
    numbers = {"zero": 0, "one": 1, "axes": [1, 2], "pair": [2, 2], "single": [2, 1], "two": [[[0], [1]]]}
    arrays = {name: np.array(number, np.int64) for name, number in numbers.items()}
    assert "ScatterND" in found(parse(text, **arrays))


def test_a_transpose_that_others_read_stays() -> None:
    proto = written(
        ROWS, TRANSPOSED.replace("y =", "d =") + " e = Neg(c) f = Transpose <perm = [1, 0, 2]> (e) y = Add(d, f)"
    )
    assert found(proto).count("Transpose") == 2


ELEMENTS = "s = Shape(u) i = Expand(one, s) y = ScatterElements <axis = {axis}> (x, i, u)"


@pytest.mark.parametrize("axis", [1, -2])
def test_one_index_for_all_elements_is_a_place(axis: int) -> None:
    text = f"g (float[batch, seq, 3] x, float[batch, 1, 3] u) => (y) {{ {ELEMENTS.format(axis=axis)} }}"
    proto = parse(text, one=np.array(1))
    assert "onnxlift.SelectScatter" in found(proto)


@pytest.mark.parametrize(
    ("updates", "body"),
    [
        ("float[2, 1, 3] u", ELEMENTS.format(axis=1)),
        ("float[batch, 2, 3] u", ELEMENTS.format(axis=1)),
        ("float[batch, 1, 3] u", ELEMENTS.format(axis=1).replace("<axis", '<reduction = "add", axis')),
        ("float[batch, 1, 3] u", ELEMENTS.format(axis=1).replace("Expand(one, s)", "Cast <to = 7> (u)")),
        ("float[4, 1, 3] u, float[4, seq, 3] x", ELEMENTS.format(axis=1).replace("Expand(one, s)", "Neg(several)")),
    ],
    ids=["fewer rows", "two places", "reduction", "computed", "several"],
)
def test_other_indices_of_elements_stay(updates: str, body: str) -> None:
    several = np.arange(12).reshape(4, 1, 3) % 2
    inputs = updates if "x" in updates else f"float[batch, seq, 3] x, {updates}"
    proto = parse(f"g ({inputs}) => (y) {{ {body} }}", one=np.array(1), several=several)
    assert "SelectScatter" not in [node.op_type for node in simplified(proto).graph]


def test_an_axis_that_was_added_elsewhere_stays() -> None:
    text = "g (float[1, 3, 4] x, float[3, 1] v) => (y) { u = Unsqueeze(v, first) y = ScatterND(x, i, u) }"
    places = np.stack(np.meshgrid([0], [0, 1, 2], [2], indexing="ij"), -1)
    assert found(parse(text, i=places, first=np.array([0])))[-1] == "onnxlift.SelectScatter"
