"""Compute in float16 or bfloat16, except where numbers would not fit.

    Conv(x, W)   ->   Conv(Cast(x), W16)            inputs are cast when they are read, outputs at the end

A node stays in float32 if it reads or writes a value that is larger on some sample than the type can hold, if it has
such a weight, or if its operator does not take the type at the model's opset. Weights are converted when they are
written, one after the other.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np
import onnx_ir as ir

from onnxlift.ir.editing.names import name_apart
from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.interface import INTERFACE, interface_of
from onnxlift.ir.inference.infer import infer
from onnxlift.rewriting.element_type import DTYPES, LARGEST, Replacement, change_type_in_file

from ..report import open_model
from .recipe import QuantizeError


def overflowing(model: ir.Model, mode: str, ranges: Mapping[str, Sequence[float]]) -> list[str]:
    """Return the nodes of the main graph that read or write a number which the type cannot hold."""
    most = LARGEST[DTYPES[mode]]
    wide = {name for name, bounds in ranges.items() if not max(map(abs, bounds)) <= most}
    for value in model.graph.initializers.values():
        tensor = constant(value)
        if tensor is not None and tensor.dtype == ir.DataType.FLOAT and tensor.size and value.name:
            array = tensor.numpy()
            if float(np.abs(array[np.isfinite(array)]).max(initial=0)) > most:
                wide.add(value.name)
    return [
        node.name or ""
        for node in model.graph
        if any(value is not None and value.name in wide for value in (*node.inputs, *node.outputs))
    ]


def convert_precision(model: ir.Model, mode: str, keep: Collection[str]) -> ir.Model:
    """Return a copy of the model in another precision, except for the nodes to `keep`."""
    copy = open_model(model)
    infer(copy)
    kept = [node for node in copy.graph if node.name in keep]
    if not change_type_in_file(copy, DTYPES[mode], kept):
        raise QuantizeError(
            f"no node of the main graph computes in float32 and can do so in {mode}; nodes that hold graphs (If, Loop) "
            "stay as they are."
        )
    name_apart(copy)
    copy.meta[INTERFACE] = replace(interface_of(copy), told={})  # these are the types of before
    return copy


def emulated(model: ir.Model) -> ir.Model:
    """Return a copy of a model that computes the same in float32, and rounds each value to bfloat16.

    ONNX Runtime has no bfloat16 on a processor. Devices that have it add up in float32 and round the results."""
    low, wide = ir.DataType.BFLOAT16, ir.DataType.FLOAT
    copy = open_model(model)
    infer(copy)
    rounded = [value for node in copy.graph for value in node.outputs if value.dtype == low]
    Replacement(low, wide).everywhere(copy)
    for value in rounded:
        node = value.producer()
        assert node is not None
        uses = list(value.uses())
        name, value.name = value.name, f"{value.name}::exact"
        down = ir.Node("", "Cast", [value], [ir.AttrInt64("to", int(low))], name=f"{name}::down")
        down.outputs[0].name, down.outputs[0].type = f"{name}::rounded", ir.TensorType(low)
        up = ir.Node("", "Cast", [down.outputs[0]], [ir.AttrInt64("to", int(wide))], name=f"{name}::up")
        up.outputs[0].name, up.outputs[0].type, up.outputs[0].shape = name, ir.TensorType(wide), value.shape
        copy.graph.insert_after(node, [down, up])
        for user, place in uses:
            user.replace_input_with(place, up.outputs[0])
    return copy
