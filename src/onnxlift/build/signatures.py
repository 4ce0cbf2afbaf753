"""What a schema says of the inputs, attributes and outputs of an operator, in the form in which calls are bound."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import onnx_ir as ir
from onnx.defs import OpSchema

from .errors import BuildError, nearest
from .schemas import operators_of, schema_in_force

_OPTION = OpSchema.FormalParameterOption


@dataclass(frozen=True)
class Parameter:
    """An input of an operator. `variable` is the type variable that it shares with other inputs; empty if none.

    `only` is its element type, if there is just one."""

    name: str
    variable: str
    required: bool
    variadic: bool
    allowed: frozenset[str]

    @property
    def only(self) -> ir.DataType | None:
        return element_of(next(iter(self.allowed))) if len(self.allowed) == 1 else None


@dataclass(frozen=True)
class Signature:
    """An operator at one opset: its inputs, the types of its attributes, and the names of its outputs."""

    domain: str
    name: str
    version: int
    schema: Any
    inputs: tuple[Parameter, ...]
    attributes: Mapping[str, ir.AttributeType]
    outputs: tuple[str, ...]
    several: bool
    """Whether the last output stands for any number of them."""
    least: int

    @property
    def gives_one(self) -> bool:
        """Whether a call gives one value: no more is required of the node."""
        return not self.several and 1 in (self.least, len(self.outputs))


@cache
def signature_of(domain: str, name: str, version: int) -> Signature | None:
    """Return what the schema in force says; None if there is no such operator at this opset."""
    schema = schema_in_force(domain, name, version)
    return None if schema is None else signature_from(schema, version)


def signature_from(schema: Any, version: int) -> Signature:
    """Return what a schema says."""
    variables = {each.type_param_str for each in schema.type_constraints}
    return Signature(
        schema.domain,
        schema.name,
        version,
        schema,
        tuple(_parameter(each, variables) for each in schema.inputs),
        {key: ir.AttributeType[each.type.name] for key, each in schema.attributes.items()},
        tuple(each.name for each in schema.outputs),
        any(each.option == _OPTION.Variadic for each in schema.outputs),
        int(schema.min_output),
    )


def _parameter(formal: Any, variables: set[str]) -> Parameter:
    variadic = formal.option == _OPTION.Variadic
    shared = formal.type_str in variables and (formal.is_homogeneous or not variadic)
    return Parameter(
        formal.name,
        formal.type_str if shared else "",
        formal.option == _OPTION.Single,
        variadic,
        frozenset(formal.types),
    )


_ELEMENTS = {"float": ir.DataType.FLOAT, "double": ir.DataType.DOUBLE}


@cache
def element_of(text: str) -> ir.DataType | None:
    """Return the element type that a schema means by `tensor(int64)`."""
    if not text.startswith("tensor("):
        return None
    name = text[len("tensor(") : -1]
    return _ELEMENTS.get(name) or ir.DataType[name.upper()]


def allows(parameter: Parameter, dtype: ir.DataType) -> bool:
    """Tell whether an input may be a tensor of this element type."""
    return any(element_of(text) == dtype for text in parameter.allowed)


def signature_in_force(domain: str, name: str, version: int, called: str) -> Signature:
    """Return what the schema in force says, or raise a BuildError that tells which opset has the operator."""
    found = signature_of(domain, name, version)
    if found is not None and not found.schema.deprecated:
        return found
    title = domain or "ai.onnx"
    if found is not None:
        raise BuildError(
            f"{called}: {name} was taken out of {title} in opset {found.schema.since_version}, and opset {version} is "
            f"in force{_instead(name)}."
        )
    versions = operators_of(domain).get(name)
    if versions is None:
        raise BuildError(f"{called}: {title} has no operator {name}{nearest(name, operators_of(domain), 'op.')}")
    how = {"": f"build.opset({versions[0]})", "ai.onnx.ml": f"build.opset(ml={versions[0]})"}
    raise BuildError(
        f"{called}: {name} exists since opset {versions[0]} of {title}, and opset {version} is in force: make it "
        f"within `with {how.get(domain, 'build.opset(...)')}:`."
    )


_INSTEAD = {"Upsample": "Resize", "Scatter": "ScatterElements"}


def _instead(name: str) -> str:
    return f": use op.{_INSTEAD[name]}" if name in _INSTEAD else ""
