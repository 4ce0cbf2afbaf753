"""Biases that an exporter has dropped because they are zero."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from onnxlift.rewriting.restoring import dropped_biases
from rewriting.exported import exported, reads_of

WEIGHT = np.ones((4, 4), np.float32)


@pytest.mark.parametrize(
    ("body", "operation"),
    [("y = Gemm <transB = 1> (x, p0)", "linear(x, p0, p1)"), ("y = Gemm(x, p0)", "addmm(p1, x, p0)")],
)
def test_a_layer_has_its_bias_again(body: str, operation: str) -> None:
    model = exported(body, [("fc", "Linear", operation)], {"fc.weight": WEIGHT}, ["fc.weight", "fc.bias"])
    assert dropped_biases.run(model) == 1
    assert reads_of(model) == [["x", "fc.weight", "fc.bias"]]
    tensor = model.graph.initializers["fc.bias"].const_value
    assert tensor is not None and tensor.numpy().shape == (4,) and not tensor.numpy().any()


def test_a_layer_without_a_bias_has_none() -> None:
    model = exported("y = Gemm(x, p0)", [("fc", "Linear", "linear(x, p0)")], {"fc.weight": WEIGHT}, ["fc.weight"])
    assert dropped_biases.run(model) == 0


def test_a_bias_that_is_in_the_file_is_added_elsewhere() -> None:
    notes = [("fc", "Linear", "linear(x, p0, p1)")] * 2
    stored = {"fc.weight": WEIGHT, "fc.bias": np.ones(4, np.float32)}
    model = exported("a = Gemm(x, p0) y = Add(a, p1)", notes, stored, ["fc.weight", "fc.bias"])
    assert dropped_biases.run(model) == 0


def test_what_is_added_by_another_name_is_no_bias() -> None:
    notes = [("", "", "addmm(p1, x, p0)")]
    model = exported("y = Gemm(x, p0)", notes, {"w": WEIGHT}, ["w", "table"])
    assert dropped_biases.run(model) == 0


def test_the_shift_of_a_norm_that_was_folded_into_a_layer() -> None:
    names = ["fc.weight", "norm.weight", "norm.bias"]
    notes = [("norm", "BatchNorm1d", "batch_norm(linear, p1, p2)")]
    model = exported("y = Gemm(x, p0)", notes, {"fc.weight": WEIGHT}, names)
    assert dropped_biases.run(model) == 1
    assert reads_of(model) == [["x", "fc.weight", "fc.bias"]]


def test_a_weight_that_is_no_constant_has_no_size_to_rely_on() -> None:
    model = exported("y = Gemm(x, z)", [("fc", "Linear", "linear(x, p0, p1)")], {}, ["w", "fc.bias"], inputs="x z")
    model.graph.inputs[1].shape = ir.Shape((4, 1 << 60))
    assert dropped_biases.run(model) == 0


def test_more_groups_than_channels() -> None:
    weight = np.ones((4, 1, 1, 1), np.float32)
    body = f"y = ConvTranspose <group = {1 << 60}> (x, p0)"
    notes = [("up", "ConvTranspose2d", "convolution(x, p0, p1)")]
    assert dropped_biases.run(exported(body, notes, {"up.weight": weight}, ["up.weight", "up.bias"])) == 0
