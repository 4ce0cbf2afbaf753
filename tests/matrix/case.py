"""What a row of the matrix says, and which concrete cases it gives at one revision of its operator.

    row(each(2, 3), ints(1, 0), axis=-1)

is a node with two inputs and an attribute. `each` is an input of random numbers of each type that the schema allows in
that place, `some` one of just one such type. A row is left out of a revision whose schema knows no such attribute,
number of inputs or type, so an operator has one table for all its revisions, old and yet to come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnx.defs
from onnx import TensorProto, helper, numpy_helper

Array = np.ndarray[Any, Any]
Schema = onnx.defs.OpSchema
NEWEST = 10**6
WORDS = ["lift", "", "Übung", "a b", "torch", "Onnx", "zz", "a"]

ELEMENTS: dict[str, np.dtype[Any]] = {
    f"tensor({name.lower()})": helper.tensor_dtype_to_np_dtype(number)
    for name, number in TensorProto.DataType.items()
    if name != "UNDEFINED"
}


@dataclass(frozen=True)
class Random:
    """An input of random numbers between `low` and `high`, of every type that the schema allows, or of one."""

    shape: tuple[int, ...]
    every: bool
    low: float = -4
    high: float = 4
    whole: bool = False  # integers, also in floating point
    nonzero: bool = False
    without: tuple[str, ...] = ()  # parts of the names of types for which the case makes no sense

    def draw(self, dtype: np.dtype[Any], seed: int) -> Array:
        generator = np.random.default_rng([*self.shape, seed])
        if dtype.kind == "O":
            return generator.choice(np.array(WORDS, object), self.shape)
        numbers = generator.uniform(self.low, self.high, self.shape)
        if dtype.kind == "b":
            return np.asarray(numbers > (self.low + self.high) / 2)
        limits = _integer_limits(dtype)
        if limits is not None or self.whole:
            numbers = np.rint(numbers)
        if limits is not None:
            numbers = np.clip(numbers, *limits)
        if self.nonzero:
            numbers = np.where(numbers == 0, 1, numbers)
        if dtype.kind == "c":
            numbers = numbers + 1j * generator.uniform(self.low, self.high, self.shape)
        if dtype == ml_dtypes.float8_e8m0fnu:  # has no sign
            numbers = np.abs(numbers) + 0.5
        return np.asarray(numbers).astype(dtype)


def _integer_limits(dtype: np.dtype[Any]) -> tuple[int, int] | None:
    try:
        info = ml_dtypes.iinfo(dtype)
    except ValueError:
        return None
    return int(info.min), int(info.max)


def each(*shape: int, **numbers: Any) -> Random:
    return Random(shape, True, **numbers)


def some(*shape: int, **numbers: Any) -> Random:
    return Random(shape, False, **numbers)


def floats(*shape: int, low: float = -4, high: float = 4, seed: int = 0) -> Array:
    return Random(shape, False, low, high).draw(np.dtype(np.float32), seed)


def ints(*values: Any) -> Array:
    return np.array(values, np.int64)


@dataclass(frozen=True)
class Optional:
    """An input of an optional type; `value` is an array, a list or None, `like` what it could have been."""

    value: Any
    like: Any = None


@dataclass(frozen=True)
class Row:
    """See `row`."""

    inputs: tuple[Any, ...]
    attributes: Mapping[str, Any]
    outputs: int = 1
    since: int = 1
    until: int = NEWEST
    when: Callable[[Schema], bool] = lambda schema: True
    expected: Callable[..., Any] | None = None
    reference: bool = False
    asked: int | None = None
    random: bool = False
    open_sizes: bool = True
    before: Sequence[onnx.NodeProto] = ()


OPTIONS = {f.name for f in fields(Row)} - {"inputs", "attributes"}


def row(*inputs: Any, **rest: Any) -> Row:
    """A row: a node of these inputs (arrays, `each`, `some`, lists for sequences, None for one that is left out) and
    attributes (arrays become tensors). What is not an attribute:

    outputs          how many it has
    since, until     the revisions at which the row means something
    when             the same, as a question to the schema
    expected         what it gives, in numpy, where neither ONNX Runtime nor the ONNX reference knows
    reference        ONNX Runtime does not follow ONNX here, so ask the reference alone
    asked            another opset at which to ask them: the same node means the same there, and they know it better
    random           only types and shapes can be compared
    open_sizes       False if there is nothing to lift with all sizes unknown: not even the rank of the result
    before           nodes of the same graph that the node speaks of"""
    options = {name: rest.pop(name) for name in OPTIONS & rest.keys()}
    return Row(inputs, rest, **options)


@dataclass(frozen=True)
class Revision:
    """A schema of an operator, and the opset at which it is tried: the last one where a newer revision follows."""

    schema: Schema
    opset: int

    @property
    def key(self) -> tuple[str, str]:
        return self.schema.domain, self.schema.name

    @property
    def name(self) -> str:
        domain = f"{self.schema.domain}." if self.schema.domain else ""
        return f"{domain}{self.schema.name}-{self.schema.since_version}"


@cache
def revisions() -> tuple[Revision, ...]:
    """All revisions of all operators of the installed onnx, by name and version."""
    history: dict[tuple[str, str], list[Schema]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        history.setdefault((schema.domain, schema.name), []).append(schema)
    found = []
    for _, schemas in sorted(history.items()):
        schemas.sort(key=lambda schema: schema.since_version)
        lasts = [later.since_version - 1 for later in schemas[1:]] + [schemas[-1].since_version]
        found += [Revision(schema, last) for schema, last in zip(schemas, lasts, strict=True)]
    return tuple(found)


@dataclass(frozen=True)
class Case:
    """A row with concrete inputs, at one revision."""

    revision: Revision
    row: Row
    inputs: tuple[Any, ...]

    @property
    def name(self) -> str:
        shown = ", ".join(_shown(value) for value in self.inputs)
        attributes = ", ".join(f"{key}={_shown(value)}" for key, value in self.row.attributes.items())
        return f"{self.revision.name}({shown}{'; ' if attributes else ''}{attributes})"


def _shown(value: Any) -> str:
    match value:
        case np.ndarray() | np.generic():
            return f"{value.dtype}[{','.join(map(str, value.shape))}]"
        case list() if value and isinstance(value[0], np.ndarray):
            return f"[{', '.join(map(_shown, value))}]"
        case onnx.GraphProto():
            return value.name
    return str(value)


def cases(revision: Revision, rows: Sequence[Row]) -> Iterator[Case]:
    """The cases that the rows give at this revision."""
    for item in rows:
        if item.since <= revision.schema.since_version <= item.until and _fits(item, revision.schema):
            for inputs in _concrete(item, revision.schema):
                if _types_fit(inputs, revision.schema):
                    yield Case(revision, item, inputs)


def _fits(item: Row, schema: Schema) -> bool:
    required = {name for name, attribute in schema.attributes.items() if attribute.required}
    if not required <= item.attributes.keys() <= schema.attributes.keys():
        return False
    if not all(_attribute_fits(schema.attributes[name], value) for name, value in item.attributes.items()):
        return False
    if not schema.min_input <= len(item.inputs) <= schema.max_input:
        return False
    optional = Schema.FormalParameterOption.Optional
    if any(v is None and _formal(schema, i).option != optional for i, v in enumerate(item.inputs)):
        return False
    return schema.min_output <= item.outputs <= schema.max_output and item.when(schema)


def _attribute_fits(attribute: Any, value: Any) -> bool:
    kind = helper.make_attribute(attribute.name, attribute_value(value)).type
    return int(kind) == int(attribute.type.value)


def attribute_value(value: Any) -> Any:
    return numpy_helper.from_array(value) if isinstance(value, np.ndarray) else value


def _formal(schema: Schema, index: int) -> Any:
    return schema.inputs[min(index, len(schema.inputs) - 1)]


def _concrete(item: Row, schema: Schema) -> Iterator[tuple[Any, ...]]:
    """The inputs with every combination of the types that the schema allows for its type variables."""
    choices: dict[str, list[np.dtype[Any]]] = {}
    crossed = set()
    for index, value in enumerate(item.inputs):
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, Random):
                formal = _formal(schema, index)
                elements = _elements(formal.types, part.without)
                before = choices.get(formal.type_str, elements)
                choices[formal.type_str] = [element for element in elements if element in before]
                crossed |= {formal.type_str} if part.every else set()
    for name in choices.keys() - crossed:
        del choices[name][1:]
    for chosen in product(*choices.values()):
        types = dict(zip(choices, chosen, strict=True))
        yield tuple(
            _draw(value, types.get(_formal(schema, index).type_str) if schema.inputs else None, index)
            for index, value in enumerate(item.inputs)
        )


def _draw(value: Any, dtype: np.dtype[Any] | None, seed: int) -> Any:
    if isinstance(value, list):
        return [_draw(part, dtype, seed + 10 * index) for index, part in enumerate(value)]
    return value.draw(dtype, seed) if isinstance(value, Random) else value


def _elements(types: Sequence[str], without: Sequence[str]) -> list[np.dtype[Any]]:
    """The element types among the types that a schema allows; float32 first where it is allowed."""
    tensors = {name.removeprefix("seq(").removesuffix(")") if name.startswith("seq(") else name for name in types}
    found = [name for name in tensors & ELEMENTS.keys() if not any(part in name for part in without)]
    return [ELEMENTS[name] for name in sorted(found, key=lambda name: (name != "tensor(float)", name))]


def _types_fit(inputs: Sequence[Any], schema: Schema) -> bool:
    bound: dict[str, str] = {}
    for index, value in enumerate(inputs):
        if value is not None:
            formal, name = _formal(schema, index), type_name(value)
            if name not in formal.types:
                return False
            if formal.is_homogeneous and bound.setdefault(formal.type_str, name) != name:
                return False
    return True


def type_name(value: Any) -> str:
    """The type of an input as ONNX schemas write it."""
    match value:
        case Optional():
            return f"optional({type_name(value.like if value.value is None else value.value)})"
        case list():
            return f"seq({type_name(value[0])})"
        case dict():
            key, item = next(iter(value.items()))
            names = {str: "string", int: "int64", float: "float"}
            return f"map({names[type(key)]},tensor({names[type(item)]}))"
    return next(name for name, dtype in ELEMENTS.items() if dtype == value.dtype)
