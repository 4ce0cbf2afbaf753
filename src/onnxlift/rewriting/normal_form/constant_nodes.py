"""Make every Constant node an initialiser of its graph.

    y = Constant(value=t)        ->  initialiser y = t
    y = Constant(value_ints=..)  ->  initialiser y, likewise for value_int, value_float(s), value_string(s)

It does not apply if the value is a reference to an attribute of the enclosing function, which differs from call to
call. A Constant that is a graph output becomes an initialiser that is a graph output.

The initialiser is marked as a constant of the code, not a parameter: exporters store weights as initialisers and write
Constant nodes for the rest. There is one exception. Paddle's exporter stores no initialisers at all. So if no
initialiser is a weight, and the weight of a layer is a Constant, then all arrays with names of their own are weights.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.graph.nodes import is_standard
from onnxlift.ir.origin.tensors import mark_restored, may_be_trained, origin_of
from onnxlift.stages import step

_LAYERS = ("Conv", "ConvTranspose", "Gemm", "MatMul")


@step(
    "constant-nodes",
    after={
        "inline-functions": "a constant may be an attribute of a function, which the call tells",
        "gradients": "a Gradient names values, and must find them as they are in the file",
    },
    optional=False,
)
def run(model: ir.Model) -> int:
    """Replace all Constant nodes; return how many."""
    weights = [value for value in model.graph.initializers.values() if may_be_trained(value)]
    count = sweep(model, {"Constant": _visit})
    arrays = [] if weights else [value for value in model.graph.initializers.values() if value.shape]
    found = [value for value in arrays if not origin_of(value).has_made_up_name]
    if any(_is_weight(value) for value in found):
        for value in found:
            mark_restored(value, "it stood in a node, as the weights of all layers do in this file")
    return count


def _is_weight(value: ir.Value) -> bool:
    """Tell whether `value` is the matrix or kernel of a layer."""
    is_array = value.shape is not None and len(value.shape) > 1
    return is_array and any(place == 1 and is_standard(user, *_LAYERS) for user, place in value.uses())


def _visit(edit: Edit, node: ir.Node) -> None:
    tensor = tensor_of(node)
    if tensor is not None:
        edit.fold(node, [tensor], "it stood in a node, and not among the initialisers")


def tensor_of(node: ir.Node) -> ir.TensorProtocol | None:
    """Return the tensor that a Constant node gives; None if an attribute of the function around it tells."""
    for name, attribute in node.attributes.items():
        if attribute.is_ref():
            return None
        output = node.outputs[0].name
        match name:
            case "value":
                tensor: ir.TensorProtocol = attribute.value
                return tensor
            case "value_int":
                return ir.Tensor(np.array(attribute.as_int(), np.int64), name=output)
            case "value_ints":
                return ir.Tensor(np.array(attribute.as_ints(), np.int64), name=output)
            case "value_float":
                return ir.Tensor(np.array(attribute.as_float(), np.float32), name=output)
            case "value_floats":
                return ir.Tensor(np.array(attribute.as_floats(), np.float32), name=output)
            case "value_string":
                return _strings([attribute.value], (), output)
            case "value_strings":
                return _strings(list(attribute.value), (len(attribute.value),), output)
    return None


def _strings(values: list[str | bytes], shape: tuple[int, ...], name: str | None) -> ir.TensorProtocol:
    encoded = [value.encode() if isinstance(value, str) else value for value in values]
    return ir.StringTensor(np.array(encoded, dtype=object).reshape(shape), shape=ir.Shape(shape), name=name)
