"""Parameters that an exporter stored once for several modules."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnxlift.ir.origin.tensors import folded_from, mark_computed
from onnxlift.rewriting.restoring import merged_parameters
from rewriting.exported import exported, reads_of

NORMS = "a = LayerNormalization(x, p0, p1) y = LayerNormalization(a, p0, p1)"
NAMES = ["block.norm1.weight", "block.norm1.bias", "block.norm2.weight", "block.norm2.bias"]
STORED = {"block.norm1.weight": np.ones(4, np.float32), "block.norm1.bias": np.zeros(4, np.float32)}
FIRST = ("block/block.norm1", "Block/LayerNorm", "layer_norm(x, p0, p1)")


def norms(second: tuple[str, str, str], names: list[str] = NAMES) -> ir.Model:
    return exported(NORMS, [FIRST, second], STORED, names)


def test_each_module_has_its_own() -> None:
    model = norms(("block/block.norm2", "Block/LayerNorm", "layer_norm_1(layer_norm, p2, p3)"))
    assert merged_parameters.run(model) == 2
    assert reads_of(model) == [["x", *NAMES[:2]], ["a", *NAMES[2:]]]
    ones, zeros = (model.graph.initializers[name].const_value for name in NAMES[2:])
    assert ones is not None and zeros is not None
    assert ones.numpy().all() and not zeros.numpy().any()


def test_a_module_that_is_called_twice_keeps_its_parameters() -> None:
    model = norms(("block/block.norm1", "Block/LayerNorm", "layer_norm_1(layer_norm, p0, p1)"))
    assert merged_parameters.run(model) == 0


def test_a_parameter_of_another_name_is_the_one_that_is_left() -> None:
    """The scale of a residual branch is ones as well, before it is trained."""
    stored = {"scale": np.ones(4, np.float32), "norm.bias": np.zeros(4, np.float32)}
    notes = [("norm", "LayerNorm", "layer_norm(x, p1, p2)"), ("", "", "mul(layer_norm, p0)")]
    names = ["scale", "norm.weight", "norm.bias"]
    model = exported("a = LayerNormalization(x, p0, p2) y = Mul(a, p0)", notes, stored, names)
    assert merged_parameters.run(model) == 1
    assert reads_of(model) == [["x", "norm.weight", "norm.bias"], ["a", "scale"]]


def test_a_tied_parameter_is_one() -> None:
    model = norms(("block/block.norm2", "Block/LayerNorm", "layer_norm_1(layer_norm, p0, p3)"))
    assert merged_parameters.run(model) == 1
    assert reads_of(model)[1] == ["a", "block.norm1.weight", "block.norm2.bias"]


def test_a_parameter_by_another_name() -> None:
    names = [*NAMES[:2], "block.gamma"]
    notes = [FIRST, ("block", "Block", "mul(layer_norm, p2)")]
    model = exported("a = LayerNormalization(x, p0, p1) y = Mul(a, p0)", notes, STORED, names)
    assert merged_parameters.run(model) == 1
    assert reads_of(model)[1] == ["a", "block.gamma"]


def test_a_node_that_names_no_parameter_reads_that_of_its_module() -> None:
    model = norms(("block/block.norm2", "Block/LayerNorm", "layer_norm_1(layer_norm, getitem, getitem_1)"))
    assert merged_parameters.run(model) == 2
    assert reads_of(model)[1] == ["a", *NAMES[2:]]
    # Unless the module has none: then it was handed to it.
    model = norms(("block/block.norm2", "Block/LayerNorm", "layer_norm_1(layer_norm, getitem, getitem_1)"), NAMES[:2])
    assert merged_parameters.run(model) == 0


def test_what_is_in_the_file_is_not_made_again() -> None:
    stored = STORED | {"block.norm2.weight": np.full(4, 2, np.float32)}
    second = ("block/block.norm2", "Block/LayerNorm", "layer_norm_1(layer_norm, p2, p3)")
    model = exported(NORMS, [FIRST, second], stored, NAMES)
    assert merged_parameters.run(model) == 1
    assert reads_of(model)[1] == ["a", "block.norm1.weight", "block.norm2.bias"]


def test_what_was_computed_from_a_parameter() -> None:
    notes = [
        ("layers.0", "Linear", "linear(x, p0)"),
        ("layers.1", "Linear", "linear_1(linear, p1)"),
        ("layers.0", "Linear", "linear_2(linear_1, p0)"),
    ]
    stored = {"val_0": np.ones((4, 4), np.float32)}
    body = "a = MatMul(x, val_0) b = MatMul(a, val_0) y = MatMul(b, val_0)"
    model = exported(body, notes, stored, ["layers.0.weight", "layers.1.weight"])
    mark_computed(model.graph.initializers["val_0"], ["layers.0.weight"])
    assert merged_parameters.run(model) == 1
    assert reads_of(model) == [["x", "val_0"], ["a", "val_1"], ["b", "val_0"]]
    assert folded_from(model.graph.initializers["val_1"]) == ["layers.1.weight"]


def test_a_layer_that_a_norm_was_folded_into_keeps_its_weight() -> None:
    """It tells of the norm, whose weight is called as its own."""
    names = ["0.conv.weight", "0.norm.weight", "0.norm.bias", "1.conv.weight", "1.norm.weight", "1.norm.bias"]
    notes = [("0/0.norm", "Block/Norm", "batch_norm(x, p1, p2)"), ("1/1.norm", "Block/Norm", "batch_norm_1(a, p4, p5)")]
    stored = {"0.conv.weight": np.ones((4, 4), np.float32)}
    model = exported("a = Gemm(x, p0) y = Gemm(a, p0)", notes, stored, names)
    assert merged_parameters.run(model) == 1
    assert reads_of(model) == [["x", "0.conv.weight"], ["a", "1.conv.weight"]]


def test_other_exporters_tell_nothing() -> None:
    model = norms(("block/block.norm2", "Block/LayerNorm", "layer_norm_1(layer_norm, p2, p3)"))
    model.graph.metadata_props.clear()
    assert merged_parameters.run(model) == 0


def test_a_parameter_that_a_caller_can_override_is_one() -> None:
    model = norms(("block/block.norm2", "Block/LayerNorm", "layer_norm_1(layer_norm, p2, p3)"))
    model.graph.inputs.append(model.graph.initializers["block.norm1.weight"])
    assert merged_parameters.run(model) == 1
    assert reads_of(model)[1] == ["a", "block.norm1.weight", "block.norm2.bias"]
