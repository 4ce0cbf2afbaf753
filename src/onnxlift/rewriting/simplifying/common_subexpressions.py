"""Compute equal expressions once: all of those inside one module, and masks and positions across modules.

    y = Op(a, b); z = Op(a, b)   ->   z is y

Two nodes are equal if they have the same operator, inputs, attributes (compared bit by bit) and number of outputs.
Constant inputs are compared by value, the bounds of a Range by the names of sizes, the axes of a reduction as counted
from the front.

Some nodes are never merged: nodes that draw random numbers, even if only in training (two dropout masks are two masks);
nodes that hold graphs; calls of functions and operators of other domains, about which nothing is known; and nodes of
different graphs.

Nodes of different modules (told by the scope in their names or the exporter's metadata) are merged only if they are
beside the flow of the model: integers and booleans, the results of a Where, and numbers that are computed from these
alone. The tree puts them above the modules that need them (`tree/build.py`). PyTorch's newer exporter merges them
before we see them, and so does a person who writes `mask = mask[:, None, None]` in front of a loop. Anything else (an
activation of one tensor in two modules, a product with a parameter) would have to be handed from one module to another,
which nobody would write. Sizes are read where they are needed. If the graph is not written as source, but for a
runtime, modules do not count.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping

import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, Names
from onnxlift.ir.graph.axes import axes_of
from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.shapes import elements_of, shape_of
from onnxlift.ir.graph.types import INTEGERS
from onnxlift.ir.graph.walk import regions
from onnxlift.ir.inference.positions import counted
from onnxlift.ir.origin.module_paths import module_of
from onnxlift.ir.origin.tensors import may_be_trained
from onnxlift.stages import step

_RANDOM = frozenset(
    {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli", "Dropout"}
)
_EXACT = INTEGERS | {ir.DataType.BOOL}
_PLAIN = frozenset("Abs Add Cast Clip Div Expand Max Min Mul Neg Reshape Squeeze Sub Transpose Trilu Unsqueeze".split())
_MAX_CONSTANT_BYTES = 1024


@step(
    "common-subexpressions",
    after={
        "expands": "a repetition that is merged with another has more readers, and one of them may need it",
        "reshapes": "what several nodes read cannot be merged with what comes after it",
        "split-sequences": "it asks that nobody else reads the sequence",
        "tables": "it asks that nobody else reads what is looked up",
        "transposed-axes": "it asks that nobody else reads what is transposed",
    },
    repeats=True,
)
def run(model: ir.Model, *, for_runtime: bool = False) -> int:
    """Merge equal nodes; return how many were removed."""
    changes = 0
    names = Names(model)
    for region in list(regions(model)):
        edit = Edit(region, names)
        counts, beside = counted(region.graph), set[ir.Value]()
        equal: dict[ir.Value, ir.Value] = {}  # value -> the first value that equals it, in any module
        seen: dict[Hashable, ir.Node] = {}
        for node in region.graph:
            key = _key(model, node, equal)
            is_beside = _is_beside(node, beside)
            if is_beside:
                beside.update(node.outputs)
            if key is None:
                continue
            if is_beside:
                equal.update(zip(node.outputs, seen.setdefault(key, node).outputs, strict=True))
            is_local = not is_beside or any(o in counts or elements_of(o) is not None for o in node.outputs)
            is_local = is_local and not for_runtime
            first = seen.setdefault((key, module_of(node)) if is_local else key, node)
            if first is not node:
                _merge(edit, first, node)
        changes += edit.finish()
    return changes


def _merge(edit: Edit, first: ir.Node, second: ir.Node) -> None:
    pairs = list(zip(first.outputs, second.outputs, strict=True))
    if all(edit.can_redirect(old, new) for new, old in pairs):
        for new, old in pairs:
            edit.redirect(old, new)
        edit.drop(second)
        edit.changes += 1


def _is_beside(node: ir.Node, beside: Collection[ir.Value]) -> bool:
    """Tell whether a node computes something beside the flow of the model. `beside` holds the results of earlier nodes
    of this kind."""
    read = [value for value in node.inputs if value is not None]
    if any(may_be_trained(value) for value in read):
        return False
    if node.op_type == "Where" or all(output.dtype in _EXACT for output in node.outputs):
        return True
    return node.op_type in _PLAIN and all(
        value in beside or value.dtype in _EXACT or constant(value) is not None for value in read
    )


def _key(model: ir.Model, node: ir.Node, equal: Mapping[ir.Value, ir.Value]) -> Hashable | None:
    """Return what two nodes must have in common to be merged; None if the node must not be merged."""
    if node.domain not in ("", "ai.onnx.ml") or node.op_type in _RANDOM:
        return None
    if node.op_identifier() in model.functions or not node.inputs:
        return None
    attributes = []
    for name in sorted(node.attributes):
        attribute = node.attributes[name]
        value = _attribute_key(attribute)
        if value is None:
            return None
        attributes.append((name, attribute.type, value))
    used = tuple(bool(output.name) for output in node.outputs)
    key_of = _bound_key if node.op_type == "Range" else _input_key
    inputs = tuple(None if value is None else key_of(equal.get(value, value)) for value in node.inputs)
    axes, shape = axes_of(node) if node.op_type.startswith("Reduce") else None, shape_of(node.inputs[0])
    if axes is not None and shape is not None and len(inputs) == 2:
        inputs = (inputs[0], frozenset(axis % len(shape) for axis in axes))
    return node.domain, node.op_type, node.version, inputs, tuple(attributes), used


def _attribute_key(attribute: ir.Attr) -> Hashable | None:
    if attribute.is_ref():
        return "reference", attribute.ref_attr_name
    if attribute.type in (ir.AttributeType.INT, ir.AttributeType.INTS):
        return attribute.value if isinstance(attribute.value, int) else tuple(attribute.value)
    if attribute.type == ir.AttributeType.TENSOR:
        return _tensor_key(attribute.as_tensor())
    if attribute.type in (ir.AttributeType.FLOAT, ir.AttributeType.FLOATS):
        return repr(attribute.value)  # distinguishes -0.0 from 0.0, and makes NaN equal to itself
    if attribute.type in (ir.AttributeType.STRING, ir.AttributeType.STRINGS):
        return repr(attribute.value)
    return None


def _input_key(value: ir.Value) -> Hashable:
    """Return what two inputs must have in common to be equal: the contents for a small constant, otherwise the value
    itself."""
    tensor = constant(value)
    if tensor is None or may_be_trained(value):
        return value
    return _tensor_key(tensor) or value


def _bound_key(value: ir.Value) -> Hashable:
    """Return the same for a bound of a Range. Sizes of the same name are equal, wherever they are read."""
    elements = elements_of(value)
    return _input_key(value) if elements is None or None in elements else (value.dtype, elements)


def _tensor_key(tensor: ir.TensorProtocol) -> Hashable | None:
    if tensor.dtype == ir.DataType.STRING or tensor.nbytes > _MAX_CONSTANT_BYTES:
        return None
    return tensor.dtype, tuple(tensor.shape.numpy()), tensor.tobytes()
