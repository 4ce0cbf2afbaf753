"""Call an operator: bind inputs and attributes by the schema in force, and make the node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxlift.ir.graph.types import type_of

from . import state
from .attributes import AttributeOfFunction, GraphMaker, attribute_from
from .errors import BuildError, at_the_users_line, nearest
from .mistaken import UnknownNameError
from .nodes import Custom, make, snake
from .schemas import operators_of
from .signatures import Parameter, Signature, allows, signature_in_force, signature_of
from .tensors import constant_value, goes, tensor_from
from .value import Value

_NICKNAMES = {
    "": "op",
    state.MICROSOFT: "op.microsoft",
    state.ML: "op.ml",
    state.PREVIEW: "op.preview",
    state.TRAINING: "op.training",
}


class UnknownOperatorError(UnknownNameError):
    """No opset of the domain has an operator of this name."""


class Operator:
    """An operator that can be called with values: `op.Conv(x, w, strides=[2, 2])`."""

    def __init__(self, domain: str, name: str) -> None:
        self.domain = domain
        self.__name__ = self.name = name

    def __repr__(self) -> str:
        return f"<operator {self._called}>"

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        """The document of the operator at the opset that is in force."""
        version = state.opsets().get(self.domain, 1)
        return str(signature_in_force(self.domain, self.name, version, self._called).schema.doc)

    @property
    def _called(self) -> str:
        return f"{_NICKNAMES[self.domain]}.{self.name}"

    @at_the_users_line
    def __call__(self, *inputs: Any, outputs: int | None = None, name: str | None = None, **given: Any) -> Any:
        """Make a node of this operator, and return its output or a tuple of its outputs.

        Inputs are values, numbers and arrays, in the schema's order or by its names; attributes go by name. `outputs`
        is the number of outputs, where it is open or the optional ones are wanted: the result is a tuple then. `name`
        is what the node is called in its module."""
        version = state.opsets().get(self.domain, 1)
        signature = signature_in_force(self.domain, self.name, version, self._called)
        return call(signature, self._called, inputs, given, outputs, name)


def operator(domain: str, name: str) -> Operator:
    """Return the operator, or raise an error that is also an AttributeError."""
    if name not in operators_of(domain):
        prefix = f"{_NICKNAMES[domain]}."
        raise UnknownOperatorError(
            f"{prefix}{name}: {domain or 'ai.onnx'} has no operator {name}{nearest(name, operators_of(domain), prefix)}"
        )
    return Operator(domain, name)


def call(
    signature: Signature,
    called: str,
    inputs: Sequence[Any],
    given: Mapping[str, Any],
    outputs: int | None,
    name: str | None,
    operator: Custom | None = None,
) -> Any:
    """Bind a call, make the node, and return its output or a tuple of outputs."""

    def title() -> str:
        shown = [type_shown(each) for each in (*inputs, *(each for each in given.values() if isinstance(each, Value)))]
        return f"{called}({', '.join(shown)})"

    operands, attributes = _sorted(signature, inputs, given, title)
    for key, value in attributes.items():
        if signature.attributes[key] is ir.AttributeType.GRAPH and not isinstance(value, ir.Graph | GraphMaker):
            instead = _BY_FUNCTIONS.get(signature.name, "build.if_, build.loop or build.scan")
            raise BuildError(f"{title()}: its attribute {key} is a graph: use {instead}, which takes functions.")
    bodies = [each for value in attributes.values() for each in _bodies(value)]
    values = _values(signature, operands, title)
    count, as_tuple = _count(signature, attributes, values, outputs, title)
    if name is not None and (not isinstance(name, str) or not name):
        raise BuildError(f"{title()}: its name is {name!r}, and must be a text that is not empty.")
    made = make(
        signature.domain,
        signature.name,
        signature.version,
        values,
        [
            attribute_from(key, signature.attributes[key], value, title)
            for key, value in attributes.items()
            if value is not None
        ],
        [_suffix(signature, index, count) for index in range(count)],
        title,
        schema=signature.schema,
        name=name,
        captures=tuple(dict.fromkeys(value for body in bodies for value in body.captures)),
        functions=tuple(dict.fromkeys(each for body in bodies for each in body.functions)),
        operator=operator,
    )
    handles = tuple(map(Value, made))
    return handles if as_tuple else handles[0]


def _bodies(value: Any) -> list[GraphMaker]:
    return [each for each in (value if isinstance(value, list | tuple) else [value]) if isinstance(each, GraphMaker)]


_BY_FUNCTIONS: Mapping[str, str] = {"If": "build.if_", "Loop": "build.loop", "Scan": "build.scan"}


def type_shown(given: Any) -> str:
    """Write what was given for a message: the type of a value, or a number."""
    if isinstance(given, Value):
        return str(type_of(given._value))
    if isinstance(given, np.ndarray):
        return f"array of {given.dtype} {given.shape}"
    text = repr(given)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _sorted(
    signature: Signature, inputs: Sequence[Any], given: Mapping[str, Any], title: Any
) -> tuple[list[Any], dict[str, Any]]:
    """Tell inputs and attributes apart. What is given by name goes to its place among the inputs."""
    operands = list(inputs)
    attributes: dict[str, Any] = {}
    places = {each.name: index for index, each in enumerate(signature.inputs)}
    lower: dict[str, str] = {}
    for each in places:
        lower[each.lower()] = "" if each.lower() in lower else each
    formal = signature.inputs
    if len(operands) > len(formal) and not (formal and formal[-1].variadic):
        told = _moved_input(signature, len(formal))
        raise BuildError(f"{title()}: it has {_counted(len(operands), 'input')}, and takes {_takes(signature)}{told}.")
    for key, value in given.items():
        found = key if key in places else lower.get(key.lower())
        if key in signature.attributes:
            attributes[key] = value
        elif found:
            place = places[found]
            if place < len(inputs):
                raise BuildError(f"{title()}: its input {found} is given twice, by its place and by its name.")
            operands += [None] * (place + 1 - len(operands))
            if formal[place].variadic and isinstance(value, list | tuple):
                operands[place:] = value
            else:
                operands[place] = value
        else:
            raise BuildError(f"{title()}: {_unknown(signature, key)}")
    for index, parameter in enumerate(formal):
        missing = index >= len(operands) or operands[index] is None
        if parameter.required and missing:
            raise BuildError(f"{title()}: its input {parameter.name} is missing; it takes {_takes(signature)}.")
    return operands, attributes


def _moved_input(signature: Signature, place: int) -> str:
    """Say of an input that is one input too many that it is an attribute at this opset."""
    for version in operators_of(signature.domain).get(signature.name, ()):
        other = signature_of(signature.domain, signature.name, version)
        if other is not None and place < len(other.inputs) and other.inputs[place].name in signature.attributes:
            name = other.inputs[place].name
            return f"; {name} is an attribute at opset {signature.version}: give it by name"
    return ""


def _unknown(signature: Signature, key: str) -> str:
    """Say of a name that it is none of an attribute or an input, and which was meant."""
    known = [*signature.attributes, *(each.name for each in signature.inputs)]
    has = f"its attributes are {', '.join(sorted(signature.attributes))}" if signature.attributes else "it has none"
    hint = nearest(key, known) or f"; {has}."
    versions = operators_of(signature.domain).get(signature.name, ())
    for version in versions:
        other = signature_of(signature.domain, signature.name, version)
        if other is not None and (key in other.attributes or any(each.name == key for each in other.inputs)):
            hint = f"; opset {version} has it." if version > signature.version else f"; opset {version} had it{hint}"
            break
    return f"{signature.name} has no attribute or input {key} at opset {signature.version}{hint}"


def _takes(signature: Signature) -> str:
    if not signature.inputs:
        return "none"
    names = [
        f"*{each.name}" if each.variadic else each.name if each.required else f"[{each.name}]"
        for each in signature.inputs
    ]
    return ", ".join(names)


def _counted(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def _values(signature: Signature, operands: Sequence[Any], title: Any) -> list[ir.Value | None]:
    """Return the inputs as values: numbers and arrays become constants of the type that the other inputs have."""
    formal = signature.inputs
    known: dict[str, ir.DataType] = {}
    places: list[tuple[Any, Parameter]] = []
    for index, given in enumerate(operands):
        parameter = formal[min(index, len(formal) - 1)]
        places.append((given, parameter))
        if isinstance(given, Value) and parameter.variable and given.dtype is not None:
            known.setdefault(parameter.variable, given.dtype)
    for variable in {parameter.variable for given, parameter in places if _is_plain(given)} - {"", *known}:
        numbers = [given for given, parameter in places if parameter.variable == variable and _is_plain(given)]
        if any(isinstance(each, float) for each in numbers):
            known[variable] = ir.DataType.FLOAT
    values: list[ir.Value | None] = []
    for given, parameter in places:
        if given is None:
            values.append(None)
        elif isinstance(given, Value):
            values.append(given._value)
        else:
            value = _constant(signature, parameter, given, known.get(parameter.variable), title)
            if parameter.variable and value.dtype is not None:
                known.setdefault(parameter.variable, value.dtype)
            values.append(value)
    return values


def _is_plain(given: Any) -> bool:
    """Tell whether this is one of Python's own numbers, which have no element type yet."""
    return isinstance(given, int | float) and not isinstance(given, bool | np.generic)


def _constant(
    signature: Signature, parameter: Parameter, given: Any, wanted: ir.DataType | None, title: Any
) -> ir.Value:
    what = f"{title()}: its input {parameter.name}"
    if isinstance(given, AttributeOfFunction):
        return _of_attribute(given, wanted or parameter.only, what)
    if isinstance(given, list | tuple) and any(isinstance(each, Value) for each in given):
        if parameter.variadic:
            raise BuildError(f"{what} is a list: give its values one by one, with a star before the list.")
        several = "several values: take one of them" if isinstance(given, tuple) else "a list with values in it"
        raise BuildError(f"{what} is {several}{', or' if isinstance(given, tuple) else ':'} join them with op.Concat.")
    tensor = tensor_from(given, wanted or parameter.only, what, beside=wanted is not None)
    if wanted is None and not allows(parameter, tensor.dtype):
        fitting = ir.DataType.INT64 if allows(parameter, ir.DataType.INT64) else ir.DataType.FLOAT
        if allows(parameter, fitting) and goes(tensor.dtype, fitting):
            tensor = tensor_from(given, fitting, what)
    scopes = state.scopes()
    hint = f"{snake(signature.name)}_{parameter.name}"
    return constant_value(tensor, f"{scopes.path}.{hint}" if scopes.path else hint)


_AS_CONSTANT: Mapping[ir.AttributeType, str] = {
    ir.AttributeType.FLOAT: "value_float",
    ir.AttributeType.FLOATS: "value_floats",
    ir.AttributeType.INT: "value_int",
    ir.AttributeType.INTS: "value_ints",
    ir.AttributeType.STRING: "value_string",
    ir.AttributeType.STRINGS: "value_strings",
    ir.AttributeType.TENSOR: "value",
}

_ELEMENTS: Mapping[str, tuple[ir.DataType, int]] = {
    "value_float": (ir.DataType.FLOAT, 0),
    "value_floats": (ir.DataType.FLOAT, 1),
    "value_int": (ir.DataType.INT64, 0),
    "value_ints": (ir.DataType.INT64, 1),
    "value_string": (ir.DataType.STRING, 0),
    "value_strings": (ir.DataType.STRING, 1),
}
"""The element type and the number of axes of such a constant."""


def _of_attribute(given: AttributeOfFunction, wanted: ir.DataType | None, what: str) -> ir.Value:
    """Return an attribute of the function around as a tensor."""
    key = _AS_CONSTANT.get(given.kind)
    if key is None or (key != "value" and state.opsets()[""] < 12):
        raise BuildError(f"{what} is the attribute {given.name}, which can be a tensor since opset 12 only.")
    attribute: dict[str, Any] = {key: given}
    value: Value = operator("", "Constant")(**attribute)
    if key in _ELEMENTS:
        dtype, axes = _ELEMENTS[key]
        value._value.type = ir.TensorType(dtype)
        value._value.shape = ir.Shape([state.fresh_size() for _ in range(axes)])
    if wanted is not None and value.dtype != wanted:
        value = operator("", "Cast")(value, to=wanted)
    return value._value


_COUNTED_BY: Mapping[str, tuple[str, ...]] = {"Split": ("num_outputs", "split")}
"""Attributes and inputs that tell how many outputs an operator has."""


def _count(
    signature: Signature,
    attributes: dict[str, Any],
    values: Sequence[ir.Value | None],
    outputs: int | None,
    title: Any,
) -> tuple[int, bool]:
    """Return the number of outputs, and whether they are given as a tuple."""
    if outputs is not None:
        if isinstance(outputs, bool) or not isinstance(outputs, int) or outputs < 1:
            raise BuildError(f"{title()}: outputs is {outputs!r}, and must be a number from 1.")
        if outputs > len(signature.outputs) and not signature.several:
            raise BuildError(
                f"{title()}: outputs={outputs} was asked for, and it gives {', '.join(signature.outputs)}."
            )
        if outputs < signature.least:
            raise BuildError(f"{title()}: outputs={outputs} was asked for, and it gives {signature.least} or more.")
        split = len(values) > 1 or "split" in attributes
        if signature.name == "Split" and "num_outputs" in signature.attributes and not split:
            attributes.setdefault("num_outputs", outputs)
        return outputs, True
    if not signature.several:
        return (1, False) if signature.gives_one else (len(signature.outputs), True)
    found = _told_count(signature, attributes, values)
    if found is None:
        raise BuildError(f"{title()}: it gives any number of outputs: say how many, `outputs=2`.")
    return found, True


def _told_count(signature: Signature, attributes: Mapping[str, Any], values: Sequence[ir.Value | None]) -> int | None:
    for key in _COUNTED_BY.get(signature.name, ()):
        given = attributes.get(key)
        if isinstance(given, int):
            return given
        if isinstance(given, list | tuple):
            return len(given)
        for value, parameter in zip(values, signature.inputs, strict=False):
            if parameter.name == key and value is not None and value.shape is not None and len(value.shape) == 1:
                size = value.shape[0]
                return size if isinstance(size, int) else None
    return None


def _suffix(signature: Signature, index: int, count: int) -> str:
    """Return what is added to the name of a node for the name of its output."""
    if signature.several and index >= len(signature.outputs) - 1:
        return f"_{index}" if count > 1 else ""
    return "" if index == 0 else f"_{signature.outputs[index]}"
