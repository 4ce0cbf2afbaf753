"""What a layer, a parameter or a buffer is called in its module."""

from __future__ import annotations

import re

import onnx_ir as ir

from onnxlift.ir.graph.types import FLOATS
from onnxlift.ir.origin.metadata import FOLDED_FROM
from onnxlift.lifting.code.identifiers import attribute, is_generated, is_nameless
from onnxlift.lifting.ops.layers import STEPS, Layer
from onnxlift.lifting.tree.paths import Path, flat_layer_name, owner_of
from onnxlift.lifting.tree.weights import WEIGHT

from .module import DICT_METHODS, Module, Stored

_BY_KIND = {
    "Conv": "conv",
    "ConvTranspose": "deconv",
    "BatchNorm": "bn",
    "LayerNorm": "norm",
    "RMSNorm": "norm",
    "GroupNorm": "norm",
    "InstanceNorm": "norm",
    "Linear": "linear",
    "Embedding": "embedding",
    "MaxPool": "pool",
    "AvgPool": "pool",
    "AdaptiveAvgPool": "pool",
    "PReLU": "act",
    "QuantizedLinear": "linear",
    "DynamicQuantizedLinear": "linear",
    "BlockQuantizedLinear": "linear",
    "QuantizedConv": "conv",
    "DynamicQuantizedConv": "conv",
    "QuantizedEmbedding": "embedding",
}


def layer_path(layer: Layer, relative: Path, module: Module) -> Path:
    """Where `layer` goes in `module`: `relative` is what the exporter's names say; then the weights' flat names, the
    node's name, and last the kind of layer."""
    if relative:
        return module.free(tuple(attribute(part) for part in relative))
    assert layer.node is not None
    own = "_".join(module.path) + "_" if module.path else ""
    for role, weight in layer.weights.items():
        flat = None if role in STEPS else flat_layer_name(weight.value.name)
        if flat is not None and not is_generated(flat):
            return module.free((attribute(flat.removeprefix(own)),))
    name = (layer.node.name or "").removeprefix(own)
    generic = kind_word(layer)
    if name and not is_generated(name) and "/" not in name and not name.startswith(layer.node.op_type):
        return module.free((attribute(name, generic),))
    return module.free((attribute(generic),))


def kind_word(member: Layer | Stored | Module) -> str:
    """What a member is, in a word."""
    if not isinstance(member, Layer):
        return "block" if isinstance(member, Module) else "constant"
    kind = re.sub(r"\d?d?$", "", member.kind)
    return _BY_KIND.get(kind, kind.lower())


def spell_numbers(module: Module) -> None:
    """Give members that are mere numbers a name that an attribute can have: `0` -> `conv_0`. Layers of a model that can
    be a container keep theirs, since nothing in it has the name of a container's method."""
    members = list(module.members.items())
    is_container = not any(path[0] in DICT_METHODS for path in module.members)
    module.members = {}
    for path, member in members:
        is_spelled = path[0][0].isdigit() and (isinstance(member, Stored) or not is_container)
        head = f"{kind_word(member)}_{path[0]}" if is_spelled else path[0]
        module.add(module.free((head, *path[1:])), member)


MOST_MEMBERS = 1000  # of a module that is searched for those that would share a container

_BUFFER_WORDS = {ir.DataType.BOOL: "mask"}
_INTEGER_WEIGHTS = ("MatMulInteger", "ConvInteger", "QLinearMatMul", "QLinearConv", "DequantizeLinear")
_BY_USE = {
    "Add": "bias",
    "Sub": "shift",
    "Mul": "scale",
    "Div": "divisor",
    "MatMul": "weight",
    "Gather": "table",
    "GatherElements": "table",
    "Attention": "attn_bias",
}
_BY_PLACE = {
    ("WindowMask", 0): "attn_mask",
    ("WindowMask", 2): "attn_bias",
    ("Rotary", 1): "cos",
    ("Rotary", 2): "sin",
}


def stored_path(value: ir.Value, module: Module, is_parameter: bool) -> Path:
    """The name of a parameter or buffer that `module` holds itself, or that a layer holds which is never called."""
    name = (value.name or "").removesuffix("_quantized")
    if WEIGHT in value.meta and not name.endswith(f".{value.meta[WEIGHT]}"):
        return module.free((str(value.meta[WEIGHT]),))
    owner = owner_of(name)
    if owner is not None:
        relative = (*owner, name.rpartition(".")[2])
        if relative[: len(module.path)] == module.path:
            relative = relative[len(module.path) :]
            path = tuple(attribute(part) for part in relative)
            if len(relative) == 1 or (is_parameter and _holds_only_parameters(module, path[:-1])):
                return module.free(path)
        return module.free((attribute(relative[-1]),))
    if not is_nameless(value) and FOLDED_FROM not in value.metadata_props:  # which is called by an operation
        return module.free((attribute(name.rpartition("/")[2] or name, "constant"),))
    user = _first_user(value)
    word = _BUFFER_WORDS.get(value.dtype or ir.DataType.UNDEFINED)
    if is_integer_weight(value):
        word = "weight"
    if word is None and value.dtype in FLOATS:
        word = "inv_freq" if _gives_angles(user) else _by_place(value) or _BY_USE.get(user.op_type if user else "")
        word = word or "constant"
    return module.free((word or "index",))


def is_integer_weight(value: ir.Value) -> bool:
    """Whether a constant is the matrix or kernel of a quantised layer."""
    user = _first_user(value)
    return user is not None and user.op_type in _INTEGER_WEIGHTS and len(value.shape or ()) > 1


def _by_place(value: ir.Value) -> str | None:
    """What it is for a user to whom several constants are different things."""
    return next((_BY_PLACE.get((node.op_type, place)) for node, place in value.uses()), None)


def _first_user(value: ir.Value) -> ir.Node | None:
    return next((node for node, _ in value.uses()), None)


def _gives_angles(node: ir.Node | None) -> bool:
    """Whether cosines and sines are taken of a product, itself or joined with itself, as for a rotary embedding."""
    if node is None or node.op_type not in ("Mul", "MatMul"):
        return False
    (product,) = node.outputs
    users = {user for user, _ in product.uses()}
    joined = [user.outputs[0] for user in users if user.op_type == "Concat" and set(user.inputs) == {product}]
    operations = {user.op_type for angles in (product, *joined) for user, _ in angles.uses()}
    return {"Cos", "Sin"} <= operations


def _holds_only_parameters(module: Module, container: Path) -> bool:
    """Whether nothing but parameters would be in a container, nor it in a container of parameters:
    `self.positions.weight` of an embedding that is read as a whole, and never called."""
    if len(module.members) > MOST_MEMBERS:
        return False
    depth = len(container)
    for path, member in module.members.items():
        inside = path[:depth] == container
        if inside and not (isinstance(member, Stored) and member.is_parameter and len(path) == depth + 1):
            return False
        if not inside and isinstance(member, Stored) and len(path) > 1 and path[:-1] == container[: len(path) - 1]:
            return False
    return True
