"""A node as a call of the builder: `op.Conv(x, w, strides=[2, 2])`, or a Python operator that makes the same node."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from onnxlift.build.schemas import operators_of
from onnxlift.build.signatures import Parameter, Signature, allows, signature_of
from onnxlift.build.state import MICROSOFT, ML, PREVIEW, TRAINING
from onnxlift.build.types import dtype_text
from onnxlift.errors import OnnxLiftError, quote
from onnxlift.ir.graph.schema import default_attributes, plain
from onnxlift.ir.graph.types import FLOATS, INTEGERS
from onnxlift.ir.inference.evaluate import EVALUATED

from .code import ADD, BIT_AND, BIT_OR, BIT_XOR, COMPARE, MUL, POWER, UNARY, Code, Part, Read, joined
from .constants import Constants
from .literals import float_text, keywords, numbers_text, quoted, shape_of, text_literal, type_text, typed_text

NICKNAMES = {"": "op", MICROSOFT: "op.microsoft", ML: "op.ml", PREVIEW: "op.preview", TRAINING: "op.training"}
LONGEST_LIST = 64
"""Longer lists of numbers are read from the file of weights."""
_TYPES = frozenset({"to", "dtype", "output_dtype", "stash_type", "softmax_precision"})
_NATURAL = {ir.DataType.INT64: int, ir.DataType.FLOAT: float, ir.DataType.BOOL: bool, ir.DataType.STRING: str}

_ARITHMETIC: Mapping[str, tuple[str, int]] = {
    "Add": ("+", ADD),
    "Sub": ("-", ADD),
    "Mul": ("*", MUL),
    "Div": ("/", MUL),
    "MatMul": ("@", MUL),
    "Pow": ("**", POWER),
    "Less": ("<", COMPARE),
    "Greater": (">", COMPARE),
    "LessOrEqual": ("<=", COMPARE),
    "GreaterOrEqual": (">=", COMPARE),
    "And": ("&", BIT_AND),
    "Or": ("|", BIT_OR),
    "Xor": ("^", BIT_XOR),
}
_SINCE = {"LessOrEqual": 12, "GreaterOrEqual": 12, "MatMul": 1}


class Calls:
    """Writes the nodes of one graph region: the main graph, or the body of a function.

    `types_known` tells whether the builder knows the types that inference has found here."""

    def __init__(self, constants: Constants, store: Callable[[str, ir.TensorProtocol], str], types_known: bool) -> None:
        self.constants = constants
        self.store = store
        self.types_known = types_known

    def dtype(self, value: ir.Value | None) -> ir.DataType | None:
        """Return the element type that the builder knows of a value."""
        if value is None:
            return None
        tensor = self.constants.tensor(value)
        if tensor is not None:
            return tensor.dtype
        return value.dtype if self.types_known else None

    def call(self, node: ir.Node, version: int, bodies: Mapping[str, list[Part]]) -> tuple[Code, bool, int]:
        """Return the call, whether it gives a tuple, and how many outputs it gives. `bodies` are its graphs."""
        signature = standard_signature(node, version)
        assert signature is not None
        code = None if bodies else self._python(node, version)
        if code is not None:
            return code, False, 1
        inputs = _without_end(node.inputs)
        arguments = [self._operand(index, inputs, signature) for index in range(len(inputs))]
        arguments += [[text] for text in self.attributes(node, version, signature)]
        arguments += [[f"{name}=", *parts] for name, parts in bodies.items()]
        count = _outputs(node, signature)
        natural = 1 if signature.gives_one else len(signature.outputs)
        unpacks = signature.several or count > 1 or count != natural or not signature.gives_one
        if signature.several or count != natural:
            arguments.append([f"outputs={count}"])
        called = f"{NICKNAMES[node.domain]}.{node.op_type}"
        return Code((f"{called}(", *joined(arguments), ")")), unpacks, count

    def operand(self, value: ir.Value | None, wanted: ir.DataType | None = None) -> list[Part]:
        """Return an operand of something that is no operator: constants become `wanted`, else their natural type."""
        if value is None:
            return ["None"]
        tensor = self.constants.tensor(value)
        if tensor is None or not self.constants.is_inline(value):
            return [Read(value)]
        return [_literal(tensor, wanted)]

    def _operand(self, index: int, inputs: list[ir.Value | None], signature: Signature) -> list[Part]:
        value = inputs[index]
        if value is None:
            return ["None"]
        tensor = self.constants.tensor(value)
        if tensor is None or not self.constants.is_inline(value):
            return [Read(value)]
        return [_literal(tensor, self._wanted(index, inputs, signature))]

    def _wanted(self, index: int, inputs: list[ir.Value | None], signature: Signature) -> ir.DataType | None:
        """Return the type that the builder gives to a number at this place; None if that is its natural one."""
        formal = signature.inputs
        if not formal:
            return ir.DataType.UNDEFINED
        parameter = formal[min(index, len(formal) - 1)]
        own = parameter.variable
        beside = [
            value
            for place, value in enumerate(inputs)
            if value is not None and own and formal[min(place, len(formal) - 1)].variable == own
        ]
        known = [self.dtype(value) for value in beside if not self._is_literal(value)]
        if any(each is not None for each in known):
            return next(each for each in known if each is not None)
        if known and own:
            return ir.DataType.UNDEFINED  # the builder may know a type that we do not
        literals = {self.dtype(value) for value in beside}
        if len(literals) > 1:
            return ir.DataType.UNDEFINED
        return parameter.only or self._natural(parameter, inputs[index])

    def _natural(self, parameter: Parameter, value: ir.Value | None) -> ir.DataType | None:
        """Return None if a number of the natural type stays what it is, else no type."""
        tensor = self.constants.tensor(value)
        assert tensor is not None
        if tensor.dtype in _NATURAL and allows(parameter, tensor.dtype):
            return None
        return ir.DataType.UNDEFINED

    def _is_literal(self, value: ir.Value) -> bool:
        return self.constants.is_constant(value) and self.constants.is_inline(value)

    def _python(self, node: ir.Node, version: int) -> Code | None:
        """Return Python's own operator for a node, if the builder makes exactly this node of it."""
        if node.domain or version < 7 or node.attributes or len(node.outputs) != 1:
            return None
        inputs = list(node.inputs)
        if any(value is None for value in inputs) or all(self.constants.is_constant(value) for value in inputs):
            return None
        first = next(self.dtype(value) for value in inputs if value is not None and not self._is_literal(value))
        if len(inputs) == 1 and node.op_type in ("Neg", "Not", "Abs"):
            return self._unary(node, first)
        if node.op_type == "Mod" and len(inputs) == 2 and first in INTEGERS:
            return self._binary(node, "%", MUL, version)
        if node.op_type not in _ARITHMETIC or len(inputs) != 2 or version < _SINCE.get(node.op_type, 7):
            return None
        if node.op_type == "Div" and first not in FLOATS:
            return None
        if node.op_type in ("And", "Or", "Xor") and first != ir.DataType.BOOL:
            return None
        symbol, strength = _ARITHMETIC[node.op_type]
        return self._binary(node, symbol, strength, version)

    def _unary(self, node: ir.Node, dtype: ir.DataType | None) -> Code | None:
        value = node.inputs[0]
        assert value is not None
        if node.op_type == "Abs":
            return Code(("abs(", Read(value), ")"))
        if node.op_type == "Not" and dtype != ir.DataType.BOOL:
            return None
        return Code(("-" if node.op_type == "Neg" else "~", Read(value, UNARY)), UNARY)

    def _binary(self, node: ir.Node, symbol: str, strength: int, version: int) -> Code:
        signature = standard_signature(node, version)
        assert signature is not None
        sides: list[list[Part]] = []
        least = (strength + 1, UNARY) if strength in (COMPARE, POWER) else (strength, strength + 1)
        for index, value in enumerate(node.inputs):
            assert value is not None
            operand = self._operand(index, list(node.inputs), signature)
            if isinstance(operand[0], str) and operand[0].startswith("-") and least[index] > UNARY:
                operand = ["(", *operand, ")"]
            sides.append([Read(value, least[index])] if isinstance(operand[0], Read) else operand)
        return Code((*sides[0], f" {symbol} ", *sides[1]), strength)

    # attributes

    def attributes(self, node: ir.Node, version: int, signature: Signature | None) -> list[str]:
        """Return the attributes that are not at their defaults, as arguments by name."""
        defaults = default_attributes(node.domain, node.op_type, version)
        named: list[tuple[str, str]] = []
        for name, attribute in node.attributes.items():
            if attribute.is_ref():
                named.append((name, self.reference(attribute.ref_attr_name or "")))
            elif attribute.type in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS):
                continue
            elif defaults.get(name) is None or not _is_default(attribute, defaults[name]):
                named.append((name, self.attribute(node, name, attribute)))
        return keywords(named)

    def reference(self, name: str) -> str:
        """Return what stands for an attribute of the function around."""
        raise OnnxLiftError(f"attribute {quote(name)} refers to a function, and there is none around.")

    def attribute(self, node: ir.Node, name: str, attribute: ir.Attr) -> str:
        """Return the value of an attribute as a literal."""
        kind, value = attribute.type, attribute.value
        kinds = ir.AttributeType
        match kind:
            case kinds.INT:
                return _int(name, int(value), node)
            case kinds.FLOAT:
                return float_text(float(value))
            case kinds.STRING:
                return text_literal(value)
            case kinds.INTS | kinds.FLOATS:
                return self._numbers(node, name, value, kind)
            case kinds.STRINGS:
                return f"[{', '.join(map(text_literal, value))}]"
            case kinds.TENSOR:
                return self._tensor(node, name, value)
            case kinds.TENSORS:
                return f"[{', '.join(self._tensor(node, name, each) for each in value)}]"
            case kinds.TYPE_PROTO:
                return _type(value)
            case kinds.TYPE_PROTOS:
                return f"[{', '.join(map(_type, value))}]"
        raise OnnxLiftError(
            f"node {quote(node.name or '')} ({node.op_type}) has an attribute {quote(name)} of kind {kind.name}, which "
            "the builder has no way to write."
        )

    def _numbers(self, node: ir.Node, name: str, value: Any, kind: ir.AttributeType) -> str:
        if len(value) > LONGEST_LIST:
            dtype = np.int64 if kind is ir.AttributeType.INTS else np.float32
            array = np.array(list(value), dtype)
            return f"weights.array({quoted(self.store(f'{_stem(node)}.{name}', ir.tensor(array)))})"
        texts = [str(int(each)) if kind is ir.AttributeType.INTS else float_text(float(each)) for each in value]
        return f"[{', '.join(texts)}]"

    def _tensor(self, node: ir.Node, name: str, tensor: ir.TensorProtocol) -> str:
        if tensor.dtype == ir.DataType.STRING or (tensor.dtype in _WRITTEN and tensor.size <= LONGEST_LIST):
            text = typed_text(tensor)
            return text if not text.startswith("build.") else self._stored(node, name, tensor)
        return self._stored(node, name, tensor)

    def _stored(self, node: ir.Node, name: str, tensor: ir.TensorProtocol) -> str:
        return f"weights.tensor({quoted(self.store(f'{_stem(node)}.{name}', tensor))})"


_WRITTEN = FLOATS | INTEGERS | {ir.DataType.BOOL}


def standard_signature(node: ir.Node, version: int) -> Signature | None:
    """Return the signature by which `op.NAME` is called; None if the operator has to be declared."""
    if node.domain not in NICKNAMES or node.op_type not in operators_of(node.domain):
        return None
    found = signature_of(node.domain, node.op_type, version)
    return None if found is None or found.schema.deprecated else found


def is_folded(node: ir.Node, constants: Constants) -> bool:
    """Tell whether the builder would compute this node at once if its constants had no names."""
    inputs = [value for value in node.inputs if value is not None]
    return bool(
        inputs
        and not node.domain
        and node.op_type in EVALUATED
        and all(constants.is_constant(value) for value in inputs)
    )


def _literal(tensor: ir.TensorProtocol, wanted: ir.DataType | None) -> str:
    """Return a constant as a plain literal, if the builder makes this tensor of it; else with its type."""
    dtype = tensor.dtype
    fits = dtype == wanted or (wanted is None and dtype in _NATURAL)
    if dtype == ir.DataType.STRING:
        return numbers_text(tensor) if fits and _is_harmless(tensor) else typed_text(tensor)
    if fits and dtype in _WRITTEN and (tensor.size or (shape_of(tensor) == (0,) and wanted is not None)):
        return numbers_text(tensor)
    return typed_text(tensor)


def _is_harmless(tensor: ir.TensorProtocol) -> bool:
    """Tell whether numpy keeps these texts as they are: it cuts off zeros at the end."""
    texts = [each if isinstance(each, bytes) else str(each).encode() for each in tensor.numpy().reshape(-1)]
    return bool(texts) and all(b"\0" not in text and _is_utf8(text) for text in texts)


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _without_end(inputs: Any) -> list[ir.Value | None]:
    found = list(inputs)
    while found and found[-1] is None:
        found.pop()
    return found


def _outputs(node: ir.Node, signature: Signature) -> int:
    """Return the number of outputs up to the last one that is used, at least as many as the operator has.

    `diff` knows by ONNX's schemas which outputs may be left out; of other operators all that have a name stay."""
    count = len(node.outputs)
    if signature.several:
        return count
    if not onnx.defs.has(node.op_type, node.domain):
        while count > max(signature.least, 1) and not node.outputs[count - 1].name:
            count -= 1
        return count
    while count > max(signature.least, 1) and not _is_used(node.outputs[count - 1]):
        count -= 1
    return count


def _is_used(value: ir.Value) -> bool:
    return bool(value.uses()) or value.is_graph_output()


def _is_default(attribute: ir.Attr, default: Any) -> bool:
    value = plain(attribute.value)
    if isinstance(value, ir.TensorProtocol):
        return False
    return type(value) is type(default) and bool(value == default)


def _int(name: str, value: int, node: ir.Node) -> str:
    if name in _TYPES and node.domain in NICKNAMES and value in {each.value for each in ir.DataType if each.value}:
        return quoted(dtype_text(ir.DataType(value)))
    return str(value)


def _type(value: ir.TypeAndShape) -> str:
    proto = onnx.TypeProto() if value.type is None else ir.serde.serialize_type(value.type)
    if value.shape is not None:
        inner = proto
        while (kind := inner.WhichOneof("value")) in ("sequence_type", "optional_type"):
            inner = getattr(inner, kind).elem_type
        ir.serde.serialize_shape_into(inner, value.shape)
    return type_text(proto)


def _stem(node: ir.Node) -> str:
    return node.op_type
