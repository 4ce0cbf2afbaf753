"""Operators of your own: declared once, then called and checked like those of ONNX.

mel_bank = build.custom(
    "MelBank", domain="com.acme",
    inputs={"x": "T", "bands": "int64"}, outputs={"y": "T"}, types={"T": ["float32", "float64"]},
    attributes={"rate": 16000},
    shape=lambda x, bands, *, rate: [x.shape[0], None],
    run=lambda x, bands, *, rate: ...,
)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx.helper
import onnx_ir as ir
from onnx.defs import OpSchema

from onnxlift.ir.graph.nodes import attribute as attribute_of
from onnxlift.ir.graph.schema import plain

from . import state
from .attributes import attribute_from
from .errors import BuildError, at_the_users_line
from .operators import call
from .schemas import Formal, make_schema, operators_of
from .signatures import signature_from
from .types import Dtype, data_type, shape_from
from .value import Value

Types = Dtype | Sequence[Dtype] | None
_KINDS: Mapping[object, str] = {
    int: "INT",
    float: "FLOAT",
    str: "STRING",
    bool: "INT",
    np.ndarray: "TENSOR",
    list[int]: "INTS",
    list[float]: "FLOATS",
    list[str]: "STRINGS",
}


@at_the_users_line
def custom(
    name: str,
    *,
    domain: str,
    version: int = 1,
    inputs: Mapping[str, Types],
    outputs: Mapping[str, Types],
    types: Mapping[str, Sequence[Dtype]] | None = None,
    attributes: Mapping[str, Any] | None = None,
    shape: Callable[..., Any] | None = None,
    run: Callable[..., Any] | None = None,
    doc: str = "",
) -> CustomOperator:
    """Return an operator that ONNX does not have.

    `inputs` and `outputs` map names to element types: one, several, None for any, or the name of one of `types`, which
    stands for the same type in all places. `x?` is an input that may be left out, `*x` the last one, of which there may
    be several. `attributes` map names to default values, or to a type (int, float, str, list[int], ...) if there is
    none; `rate?` is one that may be left out.

    `shape` is called with the inputs (values) and the attributes by name, and gives the sizes of the output, or a tuple
    of such lists for several. `run` computes the outputs from arrays, so that a model with this operator can be called.
    """
    if not isinstance(domain, str) or domain in ("", "ai.onnx") or name in operators_of(domain):
        raise BuildError(f"the domain of {name} is {domain!r}, and must be one of your own, such as com.acme.")
    if not isinstance(name, str) or not name.isprintable() or not name.strip() or " " in name:
        raise BuildError(f"{name!r} cannot be the name of an operator.")
    state.check_opset(domain, version)
    for what, given in (("inputs", inputs), ("outputs", outputs)):
        if not isinstance(given, Mapping):
            raise BuildError(f'{name}: {what} is {given!r}, and must be a dict of types, such as {{"x": "float32"}}.')
    for key, allowed in (types or {}).items():
        if isinstance(allowed, str):
            raise BuildError(f"{name}: the types of {key} are {allowed!r}, and must be a list: [{allowed!r}].")
    variables = {key: list(map(data_type, allowed)) for key, allowed in (types or {}).items()}
    formal = [_formal(key, each, variables, name) for key, each in inputs.items()]
    results = [_formal(key, each, variables, name) for key, each in outputs.items()]
    constraints = {key: [_text(each) for each in allowed] or _ANY for key, allowed in variables.items()}
    described = [_attribute(key, each, name) for key, each in (attributes or {}).items()]
    schema = make_schema(domain, name, version, formal, results, constraints, described, doc)
    return CustomOperator(schema, version, shape, run)


class CustomOperator:
    """An operator of the user's own, which is called like those of ONNX."""

    def __init__(
        self, schema: Any, version: int, shape: Callable[..., Any] | None, run: Callable[..., Any] | None
    ) -> None:
        self.domain, self.name = schema.domain, schema.name
        self.__name__, self.__doc__ = schema.name, schema.doc
        self.run = run
        self._shape = shape
        self._signature = signature_from(schema, version)
        self.defaults = {
            key: plain(onnx.helper.get_attribute_value(each.default_value)) if each.default_value.name else None
            for key, each in schema.attributes.items()
        }

    def __repr__(self) -> str:
        return f"<operator {self._called}>"

    @property
    def _called(self) -> str:
        return f"{self.domain}.{self.name}"

    @at_the_users_line
    def __call__(self, *inputs: Any, outputs: int | None = None, name: str | None = None, **given: Any) -> Any:
        """Make a node of this operator, and return its output or a tuple of its outputs."""
        return call(self._signature, self._called, inputs, given, outputs, name, operator=self)

    def infer(self, node: ir.Node) -> None:
        """Set the sizes of the outputs, as the rule says."""
        if self._shape is None:
            return
        inputs = [None if value is None else Value(value) for value in node.inputs]
        inputs += [None] * (len(self._signature.inputs) - len(inputs))
        attributes = {key: plain(attribute_of(node, key, default)) for key, default in self.defaults.items()}
        try:
            found = self._shape(*inputs, **attributes)
        except (ValueError, TypeError, IndexError) as error:
            raise BuildError(f"{self._called}: its rule for the shape fails: {type(error).__name__}: {error}") from None
        if len(self._signature.outputs) == 1 and not self._signature.several:
            found = (found,)
        elif isinstance(found, tuple) and len(found) == len(self._signature.outputs):
            found = found[: len(node.outputs)]
        if not isinstance(found, tuple) or len(found) != len(node.outputs):
            raise BuildError(
                f"{self._called}: its rule for the shape gives {found!r}, and it has {len(node.outputs)} outputs: "
                "let it give a tuple with the sizes of each."
            )
        for value, sizes in zip(node.outputs, found, strict=True):
            shape = shape_from(sizes, f"the output {value.name} of {self._called}")
            value.shape = shape and ir.Shape([state.fresh_size() if _is_open(size) else size for size in shape])


def _is_open(size: int | ir.SymbolicDim) -> bool:
    return not isinstance(size, int) and size.value is None


def _formal(key: str, given: Types, variables: dict[str, list[ir.DataType]], operator: str) -> Formal:
    option = "Variadic" if key.startswith("*") else "Optional" if key.endswith("?") else "Single"
    plain_name = key.strip("*?")
    if not plain_name.isidentifier():
        raise BuildError(f"{operator}: {key!r} cannot be the name of an input or output.")
    if isinstance(given, str) and given in variables:
        return plain_name, given, option
    variable = f"T_{plain_name}"
    if given is None:
        variables[variable] = []
        return plain_name, variable, option
    allowed = [given] if isinstance(given, str | type | np.dtype | ir.DataType) else list(given)
    variables[variable] = [data_type(each) for each in allowed]
    return plain_name, variable, option


def _text(dtype: ir.DataType) -> str:
    name = {ir.DataType.FLOAT: "float", ir.DataType.DOUBLE: "double"}.get(dtype, dtype.name.lower())
    return f"tensor({name})"


_TENSORS = [_text(each) for each in ir.DataType if each is not ir.DataType.UNDEFINED]
_ANY = [*_TENSORS, *(f"{kind}({each})" for kind in ("seq", "optional") for each in _TENSORS)]


def _attribute(key: str, given: Any, operator: str) -> Any:
    required, key = not key.endswith("?"), key.removesuffix("?")
    kind = _KINDS.get(given) if isinstance(given, type) or hasattr(given, "__origin__") else None
    if kind is not None:
        return OpSchema.Attribute(key, getattr(OpSchema.AttrType, kind), required=required)
    inner = given[0] if isinstance(given, list | tuple) and given else given
    kind = _KINDS.get(type(inner))
    if kind is None:
        raise BuildError(f"{operator}: the attribute {key} is {given!r}, and must be a type or a default value.")
    wanted = ir.AttributeType[f"{kind}S" if isinstance(given, list | tuple) else kind]
    attribute = attribute_from(key, wanted, given, lambda: operator)
    return OpSchema.Attribute(key, ir.serde.serialize_attribute(attribute))
