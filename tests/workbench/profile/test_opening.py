"""Sizes become symbols that formulas can be written with, and those that inference does not find are looked for."""

from __future__ import annotations

import io

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

import onnxlift
from onnxlift.errors import OnnxLiftError
from workbench.models import chain, parsed


def relu(*shape: int | str | None, name: str = "x") -> onnx.ModelProto:
    x = helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([helper.make_node("Relu", [name], ["y"], "relu")], "g", [x], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


@pytest.mark.parametrize(
    ("shape", "formula"),
    [
        (("batch", 3), "3*batch"),
        ((None, 3), "3*x_0"),
        (("?", "-1"), "x_0*x_1"),
        (("unk__7", 3), "3*x_0"),
        (("batch-size", "batch-size"), "batch_size^2"),
        (("p2o.Dim.0", "p2o.Dim.1"), "p2o_Dim_0*p2o_Dim_1"),
        (("b + 1", "b"), "b*(b + 1)"),
        (("x_0", None), "x_0*x_1"),
        ((None, "x_0"), "x_0*x_0_2"),
        (("héight", "1st"), "h_ight*n_1st"),
    ],
)
def test_open_sizes_become_symbols(shape: tuple[int | str | None, ...], formula: str) -> None:
    assert onnxlift.profile(relu(*shape)).total.costs.flops.plain() == formula


def test_sizes_of_an_input_with_a_long_name_are_short() -> None:
    model = relu(None, None, name="serving_default_input_2:0")
    assert onnxlift.profile(model).total.costs.flops.plain() == "n*n_2"


def test_a_size_can_be_fixed_by_the_name_of_the_model_or_by_ours() -> None:
    for name in ("batch-size", "batch_size"):
        assert onnxlift.profile(relu("batch-size", 3), dims={name: 5}).total.costs.flops.plain() == 15
    assert onnxlift.profile(relu(None, 3), dims={"x_0": 5}).total.costs.flops.plain() == 15
    assert onnxlift.profile(relu(None, 3), shapes={"x": (5, 3)}).total.costs.flops.plain() == 15
    with pytest.raises(OnnxLiftError, match="no input has a dimension named seq; they are batch_size"):
        onnxlift.profile(relu("batch-size", 3), dims={"seq": 5})


def test_it_says_what_a_symbol_is() -> None:
    report = onnxlift.profile(relu("batch-size", None))
    assert report.dimensions == {
        "batch_size": "axis 0 of input 'x', which the model calls 'batch-size'",
        "x_1": "axis 1 of input 'x'",
    }


def test_a_model_comes_in_many_forms() -> None:
    data = chain().SerializeToString()
    forms = [data, io.BytesIO(data), chain(), onnxlift.infer(chain()), onnxlift.infer(chain()).model]
    assert {onnxlift.profile(form).total.costs.flops.plain() for form in forms} == {"20*n"}


def test_sizes_that_went_through_a_matrix_are_found() -> None:
    """As PyTorch's older exporter writes the widths of F.pad."""
    text = """<ir_version: 8, opset_import: ["" : 17]> g (float[1, 3, h] x) => (float[a, b, c] y) {
        s = Shape<start = 2>(x) four = Constant <value_ints = [4]> () rest = Mod(s, four)
        zero = Constant <value_ints = [0]> () pair = Constant <value_ints = [-1, 2]> ()
        list = Concat<axis = 0>(zero, rest, zero, zero, zero, zero) m = Reshape(list, pair)
        starts = Constant <value_ints = [-1]> () ends = Constant <value_ints = [-9223372036854775807]> ()
        f = Slice(m, starts, ends, zero, starts) t = Transpose<perm = [1, 0]>(f) flat = Constant <value_ints = [-1]> ()
        p = Reshape(t, flat) q = Cast<to = 7>(p) y = Pad(x, q) }"""
    report = onnxlift.profile(parser.parse_model(text), dims={"h": 6})
    assert not report.unknown and report.nodes[-1].output == "float32 (1, 3, 8)"


def test_pieces_of_a_sequence_have_their_sizes() -> None:
    text = """g (float[n, 6] x) => (float[n, 2] y, float[n, 4] z) {
        s = SplitToSequence<axis = 1>(x, parts) a = SequenceAt(s, i) b = SequenceAt(s, j) y = Neg(a) z = Neg(b) }"""
    model = parsed(text)
    for name, value in (("parts", [2, 4]), ("i", 0), ("j", 1)):
        model.graph.initializer.append(numpy_helper.from_array(np.array(value), name))
    report = onnxlift.profile(model)
    assert report.total.costs.flops.plain() == "6*n" and not report.unknown


def test_the_callers_model_is_not_changed() -> None:
    model = relu("batch-size", None)
    before = model.SerializeToString()
    onnxlift.profile(model, dims={"batch-size": 2})
    assert model.SerializeToString() == before


@pytest.mark.parametrize("garbage", [b"", b"\x08\x08:\xff\xff garbage", b"onnx"])
def test_what_is_no_model_is_an_error(garbage: bytes) -> None:
    with pytest.raises(OnnxLiftError):
        onnxlift.profile(garbage)
