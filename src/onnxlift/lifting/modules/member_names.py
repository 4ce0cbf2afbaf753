"""Name layers, modules, parameters and buffers in the module that holds them, by ranked lists of rules."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import onnx_ir as ir

from onnxlift.ir.graph.types import FLOATS
from onnxlift.ir.origin.metadata import NAME_SCOPES
from onnxlift.ir.origin.names import says_nothing, unquantised
from onnxlift.ir.origin.tensors import origin_of
from onnxlift.lifting.code.identifiers import attribute
from onnxlift.lifting.code.naming import Candidate, Chosen, Rules
from onnxlift.lifting.ops.layers import Layer
from onnxlift.lifting.tree.paths import Path, flat_layer_name, owner_of_weight

from .module import DICT_METHODS, Module, Stored


@dataclass(frozen=True)
class NewLayer:
    """A layer that `module` is to hold. `relative` is its path below the module, as the model's names have it."""

    layer: Layer
    relative: Path
    module: Module

    @property
    def node(self) -> ir.Node:
        """The ONNX node that the layer comes from."""
        assert self.layer.node is not None
        return self.layer.node

    @property
    def is_counted_operation(self) -> bool:
        """Tell whether the node is an operation that is a step of a list of modules, `model.11`."""
        return bool(self.node.name) and self.relative[-1].isdigit()

    @property
    def prefix(self) -> str:
        """The module's path as a prefix of flat names."""
        return "_".join(self.module.path) + "_" if self.module.path else ""


def _path_in_names(new: NewLayer) -> Iterator[Candidate]:
    """Call a layer as the names of its weights, the scopes of its node or the exporter's notes say.

    Not what rounds: the scope is that of a layer or an activation whose result is rounded. A number is its own."""
    if new.relative and (new.layer.kind.family != "rounding" or new.is_counted_operation):
        yield Candidate(".".join(map(attribute, new.relative)), "{}", (_Source(new),))


def _flat_weight(new: NewLayer) -> Iterator[Candidate]:
    """Call a layer as a weight with a flat name says: `conv1_weight` -> conv1."""
    for role, weight in new.layer.weights.items():
        flat = None if role in new.layer.kind.steps else flat_layer_name(weight.value.name)
        if flat is not None and not says_nothing(flat):
            yield Candidate(attribute(flat.removeprefix(new.prefix)), "its weight is called `{}`", (weight.value.name,))


def _node_name(new: NewLayer) -> Iterator[Candidate]:
    """Call a layer like its node, if that has a name of its own."""
    name = (new.node.name or "").removeprefix(new.prefix).removesuffix("_quant")
    name = "" if new.layer.kind.family == "rounding" else name
    if name and not says_nothing(name) and "/" not in name and not name.startswith(new.node.op_type):
        yield Candidate(attribute(name, kind_word(new.layer)), "the ONNX node is called `{}`", (new.node.name,))


def _kind_of_layer(new: NewLayer) -> Iterator[Candidate]:
    """Call a layer by its kind."""
    yield Candidate(attribute(kind_word(new.layer)), "kind of layer: {}", (new.layer.kind.name,))


LAYERS = Rules(
    (
        _path_in_names,  # the keys of the state dict shall be the author's
        _flat_weight,  # weights keep their names when optimisers move or rename nodes
        _node_name,
        _kind_of_layer,
    )
)


class _Source(NamedTuple):
    """The source of a layer's path, made into text only when it is printed."""

    new: NewLayer

    def __format__(self, _: str) -> str:
        whole = ".".join((*self.new.module.path, *self.new.relative))
        last = self.new.relative[-1]
        for weight in self.new.layer.weights.values():
            if (weight.value.name or "").startswith(f"{whole}."):
                return f"state-dict key of the weight `{weight.value.name}`"
        node = self.new.node
        if NAME_SCOPES in node.metadata_props:
            return f"the exporter's name scopes of the ONNX node `{node.name}`"
        if re.search(rf"(^|[/.]){re.escape(last)}([/.]|$)", node.name or ""):
            return f"a scope in the name of the ONNX node `{node.name}`"
        return f"the place of the ONNX node `{node.name}` among the others"


def layer_path(layer: Layer, relative: Path, module: Module) -> Path:
    """Return the path for `layer` in `module`, by the rules of `LAYERS`. `relative` is the path that the model's names
    tell."""
    name, module.named[layer] = LAYERS.decide(NewLayer(layer, relative, module), set())
    return module.free(tuple(name.split(".")))


def module_path(child: Module, relative: Path, module: Module, is_guessed: bool) -> Path:
    """Return the path for a module in another one: from the scopes in the model's names, or from a number of our own,
    if equal runs of nodes were found (`is_guessed`)."""
    reason = "equal runs of ONNX nodes, by number" if is_guessed else "a scope in the names of the ONNX model: `{}`"
    path = tuple(attribute(part) for part in relative)
    won = Candidate(".".join(path), reason, (".".join((*module.path, *relative)),))
    module.named[child] = Chosen(won, lambda: ())
    return module.free(path)


def kind_word(member: Layer | Stored | Module) -> str:
    """Return a word for the kind of a member."""
    if not isinstance(member, Layer):
        return "block" if isinstance(member, Module) else "constant"
    return member.kind.word


def spell_numbers(module: Module) -> None:
    """Give members that are mere numbers a name that an attribute can have: `0` -> `conv_0`. Layers keep their numbers
    in a model that can be a container: one in which no member has the name of a container's method."""
    members = list(module.members.items())
    is_container = not any(path[0] in DICT_METHODS for path in module.members)
    module.members = {}
    for path, member in members:
        is_bare = isinstance(member, Stored) and len(path) == 1  # no container of modules takes a tensor
        is_spelled = path[0][0].isdigit() and (is_bare or not is_container)
        head = f"{kind_word(member)}_{path[0]}" if is_spelled else path[0]
        module.add(module.free((head, *path[1:])), member)


MOST_MEMBERS = 1000  # a module with more is not searched for members that would share a container

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


@dataclass(frozen=True)
class NewConstant:
    """A parameter or buffer that `module` holds itself, or that belongs to a layer which is never called."""

    value: ir.Value
    module: Module
    is_parameter: bool

    @property
    def name(self) -> str:
        """The name of the constant in the model."""
        return unquantised(self.value.name or "")


def _told_by_idiom(new: NewConstant) -> Iterator[Candidate]:
    """Call a constant by the word of the idiom that found out that it is trained."""
    told = origin_of(new.value).word
    if told is not None and not new.name.endswith(f".{told}"):
        yield Candidate(told, "an idiom knows it as a {}", (told,))


def _state_key(new: NewConstant) -> Iterator[Candidate]:
    """Call a constant by its key in the state dict. Take the whole key below the module, if its container would hold
    nothing else; otherwise take the last part."""
    owner = owner_of_weight(new.value)
    if owner is None:
        return
    relative, above = (*owner, new.name.rpartition(".")[2]), new.module.path
    if relative[: len(above)] == above:
        relative = relative[len(above) :]
        path = tuple(attribute(part) for part in relative)
        if len(relative) == 1 or (new.is_parameter and _holds_only_parameters(new.module, path[:-1])):
            yield Candidate(".".join(path), "state-dict key `{}`", (new.name,))
    yield Candidate(attribute(relative[-1]), "state-dict key `{}`", (new.name,))


def _own_name(new: NewConstant) -> Iterator[Candidate]:
    """Call a constant by its name, unless an exporter made the name up, or an operation computed the constant."""
    origin = origin_of(new.value)
    if not origin.is_nameless and not origin.is_computed:
        name = new.name.rpartition("/")[2] or new.name
        if "/" in new.name and says_nothing(name):  # what is left of a scope is TensorFlow's operation: ReadVariableOp
            return
        yield Candidate(attribute(name, "constant"), "the ONNX initialiser is called `{}`", (new.value.name,))


def _weight_of_integers(new: NewConstant) -> Iterator[Candidate]:
    """Call the matrix or kernel of a quantised layer a weight."""
    if is_integer_weight(new.value):
        yield Candidate("weight", "the weight of a quantised layer")


def _table_of_type(new: NewConstant) -> Iterator[Candidate]:
    """Call booleans a mask and integers an index."""
    word = _BUFFER_WORDS.get(new.value.dtype or ir.DataType.UNDEFINED)
    word = word or (None if new.value.dtype in FLOATS else "index")
    if word is not None:
        yield Candidate(word, "a table of {}", ("booleans" if word == "mask" else "integers",))


def _use(new: NewConstant) -> Iterator[Candidate]:
    """Call a constant by what is done with it."""
    user = _first_user(new.value)
    word = "inv_freq" if _gives_angles(user) else _by_place(new.value) or _BY_USE.get(user.op_type if user else "")
    if word is not None:
        yield Candidate(word, "a {} takes it", (user.op_type if user else "",))


def _constant(new: NewConstant) -> Iterator[Candidate]:
    """Call the constant `constant`."""
    yield Candidate("constant", "nothing says what it is")


CONSTANTS = Rules(
    (
        _told_by_idiom,
        _state_key,  # the keys of the state dict shall be the author's
        _own_name,
        _weight_of_integers,
        _table_of_type,  # before its use: integers that are added are no bias
        _use,
        _constant,
    )
)


def stored_path(value: ir.Value, module: Module, is_parameter: bool) -> Path:
    """Return the path of a parameter or buffer that `module` holds itself, or that belongs to a layer which is never
    called. `CONSTANTS` has the rules."""
    name, module.named[value] = CONSTANTS.decide(NewConstant(value, module, is_parameter), set())
    return module.free(tuple(name.split(".")))


def is_integer_weight(value: ir.Value) -> bool:
    """Tell whether a constant is the matrix or kernel of a quantised layer."""
    user = _first_user(value)
    return user is not None and user.op_type in _INTEGER_WEIGHTS and len(value.shape or ()) > 1


def _by_place(value: ir.Value) -> str | None:
    """Return the word for a constant at its place among the inputs of a node, if that place tells: `cos` and `sin` of a
    rotary embedding."""
    return next((_BY_PLACE.get((node.op_type, place)) for node, place in value.uses()), None)


def _first_user(value: ir.Value) -> ir.Node | None:
    return next((node for node, _ in value.uses()), None)


def _gives_angles(node: ir.Node | None) -> bool:
    """Tell whether a product is turned into cosines and sines, as for a rotary embedding: itself, or joined with
    itself."""
    if node is None or node.op_type not in ("Mul", "MatMul"):
        return False
    (product,) = node.outputs
    users = {user for user, _ in product.uses()}
    joined = [user.outputs[0] for user in users if user.op_type == "Concat" and set(user.inputs) == {product}]
    operations = {user.op_type for angles in (product, *joined) for user, _ in angles.uses()}
    return {"Cos", "Sin"} <= operations


def _holds_only_parameters(module: Module, container: Path) -> bool:
    """Tell whether a container would hold nothing but parameters, and would not lie in a container of parameters
    itself. An example is `self.positions.weight` of an embedding that is read as a whole, and never called."""
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
