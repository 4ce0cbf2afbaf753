"""What a file says of a model's interface, kept beside the graph so that it can be written as ONNX again.

A graph does not hold all of it: inference replaces the declared types of outputs, onnx-ir knows no maps, and an input
with a default value would be taken for a constant.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import onnx
import onnx_ir as ir

INTERFACE = "interface"
"""Key in `Model.meta` of the interface of a model that is to be written as ONNX again."""


@dataclass(frozen=True)
class Interface:
    """The interface of a model as its file declares it.

    `types` are the types of inputs and outputs by name. `defaults` are the values of inputs that a caller may leave
    out. `described` are the names of values inside the model whose types are to be written, and `told` are the types
    that the file tells of values: they are written as they are, unless inference knows that they are wrong. The types
    of the inputs and outputs in `exact` are written as they are even then."""

    types: Mapping[str, onnx.TypeProto] = field(default_factory=dict)
    defaults: Mapping[str, ir.TensorProtocol] = field(default_factory=dict)
    described: frozenset[str] = frozenset()
    told: Mapping[str, onnx.TypeProto] = field(default_factory=dict)
    exact: frozenset[str] = frozenset()


def contradict(inferred: onnx.TypeProto, declared: onnx.TypeProto) -> bool:
    """Tell whether two types of a value cannot both be right: other elements, another rank, or another known size."""
    if inferred.WhichOneof("value") != "tensor_type" or declared.WhichOneof("value") != "tensor_type":
        return False
    mine, theirs = inferred.tensor_type, declared.tensor_type
    if mine.elem_type and theirs.elem_type and mine.elem_type != theirs.elem_type:
        return True
    if not mine.HasField("shape") or not theirs.HasField("shape"):
        return False
    sizes = list(zip(mine.shape.dim, theirs.shape.dim, strict=False))
    return len(mine.shape.dim) != len(theirs.shape.dim) or any(
        a.HasField("dim_value") and b.HasField("dim_value") and a.dim_value != b.dim_value for a, b in sizes
    )


def interface_of(model: ir.Model) -> Interface:
    """Return what the file said of the model's interface; an empty one if the model does not come from a file."""
    found = model.meta.get(INTERFACE)
    return found if isinstance(found, Interface) else Interface()
