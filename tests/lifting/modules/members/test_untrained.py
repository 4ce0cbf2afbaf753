"""The warning that says what will not train."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser
from onnx import numpy_helper

import onnxlift


def model(names: list[str], *, producer: str = "tf2onnx") -> onnx.ModelProto:
    """A graph that adds a table after the other to its input, beside a linear layer."""
    body = " ".join(f"t{i + 1} = Add(t{i}, c{i})" for i in range(len(names)))
    text = f"""<ir_version: 9, opset_import: ["" : 18]> g (float[3, 4] x) => (float[3, 4] y)
        {{ t0 = MatMul(x, w) {body} y = Relu(t{len(names)}) }}"""
    proto = onnx.parser.parse_model(text)
    proto.producer_name = producer
    rng = np.random.default_rng(0)
    for node in proto.graph.node:
        node.input[:] = [names[int(name[1:])] if name.startswith("c") else name for name in node.input]
    for name in names:
        proto.graph.initializer.append(numpy_helper.from_array(rng.random((3, 4), np.float32), name))
    proto.graph.initializer.append(numpy_helper.from_array(rng.random((4, 4), np.float32), "w"))
    return proto


def test_equal_reasons_are_told_in_one_line() -> None:
    lifted = onnxlift.lift(model([f"const_fold_opt__{i}" for i in range(40)] + ["rotary.inv_freq"]))
    tables, frequencies = sorted(lifted.report.warnings, key=len, reverse=True)
    assert tables.startswith("bias, bias_* (39) will not train: it has several axes") or "(39)" in tables
    assert "inv_freq will not train: models compute what is called so once and keep it" in frequencies
    assert "will not train" in str(lifted.report)


def test_what_trains_is_not_told() -> None:
    assert onnxlift.lift(model(["positions"])).report.warnings == ()


def test_statistics_of_norms_and_integers_are_not_told() -> None:
    text = """<ir_version: 9, opset_import: ["" : 18]> g (float[N, 2, 4] x) => (float[N, 2, 4] y)
        <float[2] bn.s = {1, 2}> { y = Relu(x) }""".replace("bn.s", "s")
    proto = onnx.parser.parse_model(text)
    del proto.graph.node[:]
    names = ["bn.weight", "bn.bias", "bn.running_mean", "bn.running_var"]
    del proto.graph.initializer[:]
    for name in names:
        proto.graph.initializer.append(numpy_helper.from_array(np.ones(2, np.float32), name))
    proto.graph.initializer.append(numpy_helper.from_array(np.array([1, 0]), "val_3"))
    proto.graph.node.append(onnx.helper.make_node("BatchNormalization", ["x", *names], ["h"]))
    proto.graph.node.append(onnx.helper.make_node("Gather", ["h", "val_3"], ["y"], axis=1))
    assert onnxlift.lift(proto).report.warnings == ()
